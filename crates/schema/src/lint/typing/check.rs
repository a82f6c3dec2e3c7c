//! Finds the type of every part of an expression.

use std::collections::HashMap;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, SelectExpr, operators,
};

use super::decl::{Decls, Id};
use super::expand::expand;
use super::types::{Type, Unifier};
use super::{library, literals};
use crate::words;

/// What is wrong with an expression, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::lint) struct Fault {
    pub(in crate::lint) what: String,
    pub(in crate::lint) fix: String,
}

/// An expression with its types, by the ids of its parts.
pub(in crate::lint) struct Checked {
    pub(in crate::lint) expression: IdedExpr,
    types: HashMap<u64, Type>,
    /// The overloads that each call may turn out to be.
    overloads: HashMap<u64, Vec<&'static str>>,
    pub(in crate::lint) faults: Vec<Fault>,
}

impl Checked {
    pub(in crate::lint) fn type_of(&self, expression: &IdedExpr) -> &Type {
        self.types.get(&expression.id).unwrap_or(&Type::Dyn)
    }

    pub(in crate::lint) fn overloads(&self, expression: &IdedExpr) -> &[&'static str] {
        self.overloads.get(&expression.id).map_or(&[], Vec::as_slice)
    }

    pub(in crate::lint) fn result(&self) -> &Type {
        self.type_of(&self.expression)
    }
}

/// Checks an expression in which `self` and `oldSelf` are of a declared type.
pub(in crate::lint) fn check(expression: IdedExpr, decls: &Decls, root: Id, optional_old: bool) -> Checked {
    let itself = decls.type_of(root);
    let old = if optional_old { Type::optional(itself.clone()) } else { itself.clone() };
    let mut checker = Checker {
        decls,
        unifier: Unifier::default(),
        scope: vec![("self".to_owned(), itself), ("oldSelf".to_owned(), old)],
        types: HashMap::new(),
        overloads: HashMap::new(),
        faults: Vec::new(),
    };
    let expression = expand(expression);
    checker.check(&expression);
    let Checker { unifier, types, overloads, faults, .. } = checker;
    let types = types.into_iter().map(|(id, one)| (id, unifier.settle(&one))).collect();
    Checked { expression, types, overloads, faults }
}

struct Checker<'d> {
    decls: &'d Decls,
    unifier: Unifier,
    /// The variables, innermost last.
    scope: Vec<(String, Type)>,
    types: HashMap<u64, Type>,
    overloads: HashMap<u64, Vec<&'static str>>,
    faults: Vec<Fault>,
}

impl Checker<'_> {
    fn check(&mut self, expression: &IdedExpr) -> Type {
        let found = match &expression.expr {
            Expr::Literal(literal) => literal_type(literal),
            Expr::Ident(name) => self.identifier(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(expression.id, call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(_) | Expr::Unspecified => Type::Dyn,
        };
        self.types.insert(expression.id, found.clone());
        found
    }

    fn fault(&mut self, what: String, fix: impl Into<String>) -> Type {
        let fault = Fault { what, fix: fix.into() };
        if !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
        Type::Error
    }

    fn identifier(&mut self, name: &str) -> Type {
        if let Some((_, known)) = self.scope.iter().rev().find(|(known, _)| known == name) {
            return known.clone();
        }
        match library::type_named(name) {
            Some(named) => Type::Meta(Box::new(named)),
            None => self.fault(format!("undeclared reference to '{name}'"), "use self or oldSelf"),
        }
    }

    fn select(&mut self, select: &SelectExpr) -> Type {
        let operand = self.check(&select.operand);
        let field = self.field(&operand, &select.field, false);
        if select.test { Type::Bool } else { field }
    }

    /// The type of a field, an optional one if the operand is optional or the field is asked for with `.?`.
    fn field(&mut self, operand: &Type, name: &str, optional: bool) -> Type {
        let operand = self.unifier.resolve(operand);
        let (held, was_optional) = match operand {
            Type::Optional(held) => (*held, true),
            other => (other, false),
        };
        let found = match &held {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(id) => self.declared(*id, name),
            Type::Variable(_) => {
                self.unifier.fits(&[Type::Dyn], std::slice::from_ref(&held));
                Type::Dyn
            }
            open if open.is_open() => Type::Dyn,
            other => {
                let what = format!("type '{other}' does not support field selection");
                self.fault(what, format!("'{name}' is not a field of it"))
            }
        };
        if optional || was_optional { Type::optional(found) } else { found }
    }

    fn declared(&mut self, id: Id, name: &str) -> Type {
        let fields = self.decls.fields(id);
        if let Some(field) = fields.and_then(|fields| fields.get(name)) {
            return self.decls.type_of(*field);
        }
        let known: Vec<&str> = fields.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        let escaped = format!("__{name}__");
        let fix = if known.contains(&escaped.as_str()) {
            format!("write it escaped, as {escaped}")
        } else if let Some(guess) = words::closest(name, &known) {
            format!("did you mean {guess:?}?")
        } else {
            "add it to the schema with a type, or correct the rule".to_owned()
        };
        self.fault(format!("undefined field '{name}'"), fix)
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> Type {
        if call.func_name == operators::OPT_SELECT
            && let [operand, field] = call.args.as_slice()
            && let Expr::Literal(LiteralValue::String(name)) = &field.expr
        {
            let operand = self.check(operand);
            self.types.insert(field.id, Type::String);
            self.overloads.insert(id, vec!["optional_select"]);
            return self.field(&operand, name.inner(), true);
        }
        if let Some((what, fix)) = literals::fault(call) {
            self.fault(what, fix);
        }
        let overloads = library::overloads(&call.func_name);
        if overloads.is_empty() {
            let what = format!("undeclared reference to '{}'", call.func_name);
            return self.fault(what, "see the CEL libraries of Kubernetes");
        }
        let target = call.target.as_deref().map(|target| self.check(target));
        let member = target.is_some();
        let mut given: Vec<Type> = target.into_iter().collect();
        given.extend(call.args.iter().map(|arg| self.check(arg)));
        if matches!(call.func_name.as_str(), operators::LOGICAL_AND | operators::LOGICAL_OR) {
            self.overloads.insert(id, vec![overloads[0].id.as_str()]);
            let wrong = given.iter().filter(|one| !self.expect(one, &Type::Bool)).count();
            return if wrong == 0 { Type::Bool } else { Type::Error };
        }
        self.resolve(id, &call.func_name, member, &given, overloads)
    }

    fn resolve(
        &mut self,
        id: u64,
        name: &str,
        member: bool,
        given: &[Type],
        overloads: &'static [library::Overload],
    ) -> Type {
        let mut result: Option<Type> = None;
        let mut matching = Vec::new();
        for overload in overloads.iter().filter(|overload| overload.member == member) {
            let mut wanted = self.unifier.instantiate(&overload.types);
            let Some(found) = wanted.pop().filter(|_| self.unifier.fits(given, &wanted)) else {
                continue;
            };
            matching.push(overload.id.as_str());
            let found = self.unifier.resolve(&found);
            result = Some(match result {
                None => found,
                Some(before) if before == found => before,
                Some(_) => Type::Dyn,
            });
        }
        let Some(result) = result else {
            return self.unmatched(name, member, given);
        };
        self.overloads.insert(id, matching);
        result
    }

    fn unmatched(&mut self, name: &str, member: bool, given: &[Type]) -> Type {
        let given: Vec<Type> = given.iter().map(|one| self.unifier.settle(one)).collect();
        let shown: Vec<String> = given.iter().map(ToString::to_string).collect();
        let signature = match (member, shown.split_first()) {
            (true, Some((target, args))) => format!("{target}.({})", args.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        let has = |one: &Type| given.contains(one);
        let fix = if has(&Type::Int) && has(&Type::Double) {
            "convert one of them with int() or double(), or write the literal as 1.0"
        } else if has(&Type::Null) {
            "ask with has() whether a field is set"
        } else if given.iter().any(|one| matches!(one, Type::Optional(_))) {
            "take the value out of the optional with orValue()"
        } else {
            ""
        };
        self.fault(format!("found no matching overload for '{name}' applied to '{signature}'"), fix)
    }

    fn expect(&mut self, found: &Type, wanted: &Type) -> bool {
        let fits = self.unifier.fits(std::slice::from_ref(found), std::slice::from_ref(wanted));
        if !fits {
            let (wanted, found) = (self.unifier.settle(wanted), self.unifier.settle(found));
            self.fault(format!("expected type '{wanted}' but found '{found}'"), "");
        }
        fits
    }

    /// What an element marked with `?` holds.
    fn unwrapped(&mut self, found: &Type) -> Type {
        match self.unifier.resolve(found) {
            Type::Optional(held) => *held,
            open if open.is_open() => open,
            other => {
                self.expect(&other, &Type::optional(other.clone()));
                Type::Error
            }
        }
    }

    /// Adds to what a literal's elements have in common. They must be of one type.
    fn joined(&mut self, all: Option<Type>, one: &Type) -> Type {
        if let Some(joined) = self.unifier.join(all.clone(), one) {
            return joined;
        }
        let (all, one) = (self.unifier.settle(&all.unwrap_or(Type::Dyn)), self.unifier.settle(one));
        self.fault(format!("expected type '{all}' but found '{one}'"), "give all elements the same type, or use dyn()")
    }

    fn list(&mut self, list: &ListExpr) -> Type {
        let mut all = None;
        for (i, element) in list.elements.iter().enumerate() {
            let mut found = self.check(element);
            if list.optional_indices.contains(&i) {
                found = self.unwrapped(&found);
            }
            all = Some(self.joined(all, &found));
        }
        Type::list(all.unwrap_or_else(|| self.unifier.fresh()))
    }

    fn map(&mut self, map: &MapExpr) -> Type {
        let (mut keys, mut values) = (None, None);
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else {
                continue;
            };
            let key = self.check(&entry.key);
            keys = Some(self.joined(keys, &key));
            let mut value = self.check(&entry.value);
            if entry.optional {
                value = self.unwrapped(&value);
            }
            values = Some(self.joined(values, &value));
        }
        let mut or_fresh = |found: Option<Type>| found.unwrap_or_else(|| self.unifier.fresh());
        Type::map(or_fresh(keys), or_fresh(values))
    }

    fn comprehension(&mut self, c: &ComprehensionExpr) -> Type {
        let range = self.check(&c.iter_range);
        let gathered = self.check(&c.accu_init);
        let (first, second) = self.elements(&range, c.iter_var2.is_some());
        let depth = self.scope.len();
        self.scope.push((c.accu_var.clone(), gathered.clone()));
        self.scope.push((c.iter_var.clone(), first));
        if let Some(name) = &c.iter_var2 {
            self.scope.push((name.clone(), second));
        }
        let condition = self.check(&c.loop_cond);
        self.expect(&condition, &Type::Bool);
        let step = self.check(&c.loop_step);
        self.expect(&step, &gathered);
        self.scope.truncate(depth + 1);
        let result = self.check(&c.result);
        self.scope.truncate(depth);
        self.unifier.resolve(&result)
    }

    /// What a comprehension's variables hold: of a list the items, of a map the keys; with two, places come first.
    fn elements(&mut self, range: &Type, two: bool) -> (Type, Type) {
        match self.unifier.resolve(range) {
            Type::List(item) if two => (Type::Int, *item),
            Type::List(item) => (*item, Type::Dyn),
            Type::Map(key, value) => (*key, *value),
            Type::Dyn | Type::Error => (Type::Dyn, Type::Dyn),
            Type::Variable(variable) => {
                self.unifier.fits(&[Type::Dyn], &[Type::Variable(variable)]);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let what = format!("expression of type '{other}' cannot be range of a comprehension");
                self.fault(what, "it must be a list or a map");
                (Type::Error, Type::Error)
            }
        }
    }
}

fn literal_type(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Bytes(_) => Type::Bytes,
        LiteralValue::Double(_) => Type::Double,
        LiteralValue::Int(_) => Type::Int,
        LiteralValue::Null => Type::Null,
        LiteralValue::String(_) => Type::String,
        LiteralValue::UInt(_) => Type::Uint,
    }
}
