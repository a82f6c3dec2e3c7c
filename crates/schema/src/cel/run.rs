//! Evaluating an expression, every step of it paid for.
//!
//! The `cel` crate's own interpreter counts nothing and copies what it selects; its values, operators and functions are
//! used, its walk over the expression is not.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, MapExpr, SelectExpr, operators,
};
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, ExecutionError, Value as Cel};

use super::meter::Meter;
use super::operators as strict;

/// What a pattern costs that is made while the expression is evaluated.
const NEW_PATTERN: u64 = 5_000;

/// What an evaluation comes to.
pub(super) type Answer = Result<Cel, ExecutionError>;

/// One evaluation of an expression.
pub(super) struct Run<'e, 'c> {
    functions: &'c Context<'c>,
    /// The variables in scope; the last of a name counts. What fails in a loop is an error only if it is used.
    variables: Vec<(&'e str, Answer)>,
    pub(super) meter: Meter,
}

impl<'e, 'c> Run<'e, 'c> {
    pub(super) fn new(functions: &'c Context<'c>, variables: &'e [(String, Cel)], limit: u64) -> Self {
        let variables = variables.iter().map(|(name, value)| (name.as_str(), Ok(value.clone()))).collect();
        Self { functions, variables, meter: Meter::new(limit) }
    }

    pub(super) fn evaluate(&mut self, expression: &'e IdedExpr) -> Answer {
        match &expression.expr {
            Expr::Literal(_) => {
                let value = Cel::resolve(expression, self.functions)?;
                // A number is free, as everywhere; text is copied.
                if matches!(value, Cel::String(_) | Cel::Bytes(_)) {
                    self.meter.go_through([&value])?;
                }
                Ok(value)
            }
            Expr::Ident(name) => {
                self.meter.spend(1)?;
                match self.find(name) {
                    Some(at) => self.variables[at].1.clone(),
                    None => Cel::resolve(expression, self.functions),
                }
            }
            Expr::Select(select) => self.select(select),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Call(call) => self.call(call),
            Expr::Struct(_) | Expr::Unspecified => Err(ExecutionError::NoSuchOverload),
        }
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.variables.iter().rposition(|(known, _)| *known == name)
    }

    fn truth(&mut self, expression: &'e IdedExpr) -> Result<bool, ExecutionError> {
        match self.evaluate(expression)? {
            Cel::Bool(bool) => Ok(bool),
            _ => Err(ExecutionError::NoSuchOverload),
        }
    }

    fn select(&mut self, select: &'e SelectExpr) -> Answer {
        self.meter.spend(1)?;
        let Cel::Map(map) = self.evaluate(&select.operand)? else {
            return if select.test { Ok(Cel::Bool(false)) } else { Err(ExecutionError::NoSuchOverload) };
        };
        let key = Key::String(Arc::new(select.field.clone()));
        let found = map.map.get(&key);
        match found {
            _ if select.test => Ok(Cel::Bool(found.is_some())),
            Some(found) => Ok(found.clone()),
            None => Err(ExecutionError::NoSuchKey(Arc::new(select.field.clone()))),
        }
    }

    fn list(&mut self, list: &'e ListExpr) -> Answer {
        self.meter.spend(10)?;
        let mut items = Vec::with_capacity(list.elements.len());
        for (index, element) in list.elements.iter().enumerate() {
            let value = self.evaluate(element)?;
            if list.optional_indices.contains(&index) {
                items.extend(strict::held(value));
            } else {
                items.push(value);
            }
        }
        Ok(Cel::List(Arc::new(items)))
    }

    fn map(&mut self, map: &'e MapExpr) -> Answer {
        self.meter.spend(30)?;
        let mut entries = std::collections::HashMap::with_capacity(map.entries.len());
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { return Err(ExecutionError::NoSuchOverload) };
            let key: Key = self.evaluate(&entry.key)?.try_into().map_err(ExecutionError::UnsupportedKeyType)?;
            let value = self.evaluate(&entry.value)?;
            let value = if entry.optional { strict::held(value) } else { Some(value) };
            entries.extend(value.map(|value| (key, value)));
        }
        Ok(Cel::Map(Map { map: Arc::new(entries) }))
    }

    fn comprehension(&mut self, loops: &'e ComprehensionExpr) -> Answer {
        let range = self.evaluate(&loops.iter_range)?;
        let first = self.evaluate(&loops.accu_init)?;
        let scope = self.variables.len();
        self.variables.push((&loops.accu_var, Ok(first)));
        let result = self.iterate(loops, &range, scope).and_then(|()| self.evaluate(&loops.result));
        self.variables.truncate(scope);
        result
    }

    fn iterate(&mut self, loops: &'e ComprehensionExpr, range: &Cel, scope: usize) -> Result<(), ExecutionError> {
        match range {
            Cel::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    let index = Cel::Int(i64::try_from(index).unwrap_or(i64::MAX));
                    if !self.step(loops, scope, (index, item.clone()), false)? {
                        break;
                    }
                }
                Ok(())
            }
            Cel::Map(map) => {
                for (key, value) in map.map.iter() {
                    if !self.step(loops, scope, (Cel::from(key), value.clone()), true)? {
                        break;
                    }
                }
                Ok(())
            }
            _ => Err(ExecutionError::NoSuchOverload),
        }
    }

    /// One round of a loop. False: it was the last. With one variable a list shows its items and a map its keys.
    fn step(
        &mut self,
        loops: &'e ComprehensionExpr,
        scope: usize,
        (key, value): (Cel, Cel),
        keyed: bool,
    ) -> Result<bool, ExecutionError> {
        self.meter.spend(1)?;
        if !self.truth(&loops.loop_cond)? {
            return Ok(false);
        }
        match &loops.iter_var2 {
            Some(second) => self.variables.extend([(loops.iter_var.as_str(), Ok(key)), (second.as_str(), Ok(value))]),
            None => self.variables.push((&loops.iter_var, Ok(if keyed { key } else { value }))),
        }
        let next = self.evaluate(&loops.loop_step);
        self.variables.truncate(scope + 1);
        if self.meter.is_over() {
            return next.map(|_| false);
        }
        // What fails for one item does not matter if another decides.
        self.variables[scope].1 = next;
        Ok(true)
    }

    fn call(&mut self, call: &'e CallExpr) -> Answer {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, yes, no]) => {
                if self.truth(condition)? {
                    self.evaluate(yes)
                } else {
                    self.evaluate(no)
                }
            }
            (operators::LOGICAL_OR, [left, right]) => self.either(left, right, true),
            (operators::LOGICAL_AND, [left, right]) => self.either(left, right, false),
            (operators::NOT_STRICTLY_FALSE, [condition]) => match self.truth(condition) {
                Err(error) if self.meter.is_over() => Err(error),
                other => Ok(Cel::Bool(other.unwrap_or(true))),
            },
            (operators::ADD, [left, right]) => self.add(left, right),
            (name, [value]) if call.target.is_none() && strict::is_unary(name) => {
                self.meter.spend(1)?;
                strict::unary(name, self.evaluate(value)?)
            }
            (name, [left, right]) if call.target.is_none() && strict::is_binary(name) => {
                let (left, right) = (self.evaluate(left)?, self.evaluate(right)?);
                self.meter.spend(1)?;
                if strict::compares(name) {
                    self.meter.go_through([strict::shorter(name, &left, &right)])?;
                }
                strict::binary(name, left, right)
            }
            ("bind", [name, value, body]) if is_named(call.target.as_deref(), "cel") => {
                let value = self.evaluate(value)?;
                self.with(name, value, body)
            }
            (name @ ("optMap" | "optFlatMap"), [variable, body]) if call.target.is_some() => {
                let target = call.target.as_deref().ok_or(ExecutionError::NoSuchOverload)?;
                let Some(value) = strict::held(self.evaluate(target)?) else { return Ok(strict::optional(None)) };
                let mapped = self.with(variable, value, body)?;
                Ok(if name == "optMap" { strict::optional(Some(mapped)) } else { mapped })
            }
            _ => self.function(call),
        }
    }

    /// Either operand can decide, and then the other may fail.
    fn either(&mut self, left: &'e IdedExpr, right: &'e IdedExpr, decides: bool) -> Answer {
        let left = self.truth(left);
        if left == Ok(decides) || self.meter.is_over() {
            return left.map(Cel::Bool);
        }
        match (left, self.truth(right)) {
            (_, Err(error)) if self.meter.is_over() => Err(error),
            (_, Ok(right)) if right == decides => Ok(Cel::Bool(decides)),
            (Err(error), _) | (_, Err(error)) => Err(error),
            (Ok(_), Ok(_)) => Ok(Cel::Bool(!decides)),
        }
    }

    fn with(&mut self, name: &'e IdedExpr, value: Cel, body: &'e IdedExpr) -> Answer {
        let Expr::Ident(name) = &name.expr else { return Err(ExecutionError::NoSuchOverload) };
        let scope = self.variables.len();
        self.variables.push((name, Ok(value)));
        let result = self.evaluate(body);
        self.variables.truncate(scope);
        result
    }

    fn add(&mut self, left: &'e IdedExpr, right: &'e IdedExpr) -> Answer {
        self.meter.spend(1)?;
        // A loop gathers by adding to its own list, which then is extended in place instead of copied.
        let own = match &left.expr {
            Expr::Ident(name) if name.starts_with('@') => self.find(name),
            _ => None,
        };
        if let Some(own) = own {
            let right = self.evaluate(right)?;
            let gathered = std::mem::replace(&mut self.variables[own].1, Ok(Cel::Null))?;
            self.meter.go_through([&right])?;
            return gathered + right;
        }
        let (left, right) = (self.evaluate(left)?, self.evaluate(right)?);
        self.meter.go_through([&left, &right])?;
        strict::binary(operators::ADD, left, right)
    }

    fn function(&mut self, call: &'e CallExpr) -> Answer {
        self.meter.spend(1)?;
        let space = match call.target.as_deref().map(|target| &target.expr) {
            Some(Expr::Ident(name)) if self.find(name).is_none() => Some(name.as_str()),
            _ => None,
        };
        let target = match call.target.as_deref() {
            Some(target) if space.is_none() => Some(self.evaluate(target)?),
            _ => None,
        };
        let args = call.args.iter().map(|arg| self.evaluate(arg)).collect::<Result<Vec<_>, _>>()?;
        if let ("size", Some(size)) = (call.func_name.as_str(), strict::size(target.as_ref().or(args.first()))) {
            if let Some(Cel::String(_)) = target.as_ref().or(args.first()) {
                self.meter.spend(size.unsigned_abs().div_ceil(10))?;
            }
            return Ok(Cel::Int(size));
        }
        let is_pattern = matches!(call.func_name.as_str(), "matches" | "find" | "findAll");
        if is_pattern && !call.args.iter().all(|arg| matches!(arg.expr, Expr::Literal(_))) {
            // Compiling takes long. Of patterns that are written down there are few; others can be new every time.
            self.meter.spend(NEW_PATTERN)?;
        }
        self.meter.spend(strict::surcharge(&call.func_name, target.as_ref(), &args))?;
        self.meter.go_through(target.iter().chain(&args))?;
        invoke(self.functions, &call.func_name, space, target, args)
    }
}

fn is_named(expression: Option<&IdedExpr>, name: &str) -> bool {
    matches!(expression, Some(IdedExpr { expr: Expr::Ident(found), .. }) if found == name)
}

/// Calls a function of the libraries with values that are there already.
fn invoke(functions: &Context<'_>, name: &str, space: Option<&str>, target: Option<Cel>, args: Vec<Cel>) -> Answer {
    let ident = |name: String| IdedExpr { id: 0, expr: Expr::Ident(name) };
    let mut context = functions.new_inner_scope();
    let mut names = Vec::with_capacity(args.len());
    for (index, arg) in args.into_iter().enumerate() {
        let name = format!("@{index}");
        context.add_variable_from_value(name.clone(), arg);
        names.push(ident(name));
    }
    let target = match (space, target) {
        (Some(space), _) => Some(ident(space.to_owned())),
        (None, Some(target)) => {
            context.add_variable_from_value("@target", target);
            Some(ident("@target".to_owned()))
        }
        (None, None) => None,
    };
    let call = CallExpr { func_name: name.to_owned(), target: target.map(Box::new), args: names };
    let call = IdedExpr { id: 0, expr: Expr::Call(call) };
    // The libraries panic when they are given fewer arguments than they take.
    catch_unwind(AssertUnwindSafe(|| Cel::resolve(&call, &context))).unwrap_or(Err(ExecutionError::NoSuchOverload))
}
