//! An expression as CEL's checker gets it: with the macros expanded that the `cel` crate's parser leaves alone, and
//! names with dots, of functions and of types, in one piece.

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, operators,
};

use super::library;

/// What CEL's own macros call the value that they gather.
pub(in crate::lint) const GATHERED: &str = "@result";

pub(super) fn expand(mut expression: IdedExpr) -> IdedExpr {
    let mut expander = Expander { last: 0 };
    expander.number(&mut expression);
    expander.walk(&mut expression);
    expression
}

/// Hands out ids: types and costs are kept by them, so no two parts of an expression may share one.
struct Expander {
    last: u64,
}

impl Expander {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Numbers an expression again: parts that a macro uses twice would otherwise share their ids.
    fn number(&mut self, expression: &mut IdedExpr) {
        expression.id = self.next();
        for part in parts(&mut expression.expr) {
            self.number(part);
        }
    }

    /// Innermost first, so that what surrounds an expanded part sees it expanded.
    fn walk(&mut self, expression: &mut IdedExpr) {
        for part in parts(&mut expression.expr) {
            self.walk(part);
        }
        if let Some(expanded) = self.instead_of(&expression.expr) {
            expression.expr = expanded;
        }
    }

    fn instead_of(&mut self, expression: &Expr) -> Option<Expr> {
        match expression {
            Expr::Select(select) if !select.test => {
                let name = format!("{}.{}", dotted(&select.operand)?, select.field);
                (name.contains('.') && library::type_named(&name).is_some()).then_some(Expr::Ident(name))
            }
            Expr::Call(call) => match (call.func_name.as_str(), call.target.as_deref(), call.args.as_slice()) {
                (operators::NEGATE, None, [one]) => negated(one),
                (name, Some(target), args) => self.member(name, target, args),
                _ => None,
            },
            _ => None,
        }
    }

    fn member(&mut self, name: &str, target: &IdedExpr, args: &[IdedExpr]) -> Option<Expr> {
        if let Some(space) = dotted(target) {
            let full = format!("{space}.{name}");
            if !library::overloads(&full).is_empty() {
                return Some(Expr::Call(CallExpr { func_name: full, target: None, args: args.to_vec() }));
            }
        }
        match (name, args) {
            ("optMap" | "optFlatMap", [variable, body]) => {
                Some(self.optional(name, target, identifier(variable)?, body))
            }
            ("sortBy", [item, key]) => Some(self.sort_by(target, identifier(item)?, key)),
            ("all" | "exists" | "existsOne" | "exists_one", [key, value, test]) => {
                let step = self.test_step(name, test);
                self.pairs(target, key, value, step)
            }
            ("transformList" | "transformMap" | "transformMapEntry", [key, value, made]) => {
                let step = self.transform_step(name, key, None, made);
                self.pairs(target, key, value, step)
            }
            ("transformList" | "transformMap" | "transformMapEntry", [key, value, filter, made]) => {
                let step = self.transform_step(name, key, Some(filter), made);
                self.pairs(target, key, value, step)
            }
            _ => None,
        }
    }

    /// `o.hasValue() ? optional.of(body with variable) : optional.none()`; without the `of` for `optFlatMap`.
    fn optional(&mut self, name: &str, target: &IdedExpr, variable: &str, body: &IdedExpr) -> Expr {
        let value = self.on(target, "value", Vec::new());
        let bound = self.bind(variable, value, body.clone());
        let some = if name == "optMap" { self.call("optional.of", vec![bound]) } else { bound };
        let there = self.on(target, "hasValue", Vec::new());
        let none = self.call("optional.none", Vec::new());
        self.call(operators::CONDITIONAL, vec![there, some, none]).expr
    }

    /// Sorts by a list of keys that `map` makes.
    fn sort_by(&mut self, target: &IdedExpr, item: &str, key: &IdedExpr) -> Expr {
        let input = "@__sortBy_input__";
        let gathered = self.ident(GATHERED);
        let made = self.node(Expr::List(ListExpr::new(vec![key.clone()])));
        let step = self.call(operators::ADD, vec![gathered, made]);
        let keys = Loop { init: self.empty_list(), condition: self.boolean(true), step, result: self.ident(GATHERED) };
        let range = self.ident(input);
        let keys = self.comprehension(range, item, None, keys);
        let list = self.ident(input);
        let sorted = self.on(&list, "@sortByAssociatedKeys", vec![keys]);
        self.bind(input, target.clone(), sorted).expr
    }

    fn test_step(&mut self, name: &str, test: &IdedExpr) -> Loop {
        let gathered = self.ident(GATHERED);
        let result = self.ident(GATHERED);
        let before = self.ident(GATHERED);
        match name {
            "all" => {
                let condition = self.call(operators::NOT_STRICTLY_FALSE, vec![before]);
                let step = self.call(operators::LOGICAL_AND, vec![gathered, test.clone()]);
                Loop { init: self.boolean(true), condition, step, result }
            }
            "exists" => {
                let not = self.call(operators::LOGICAL_NOT, vec![before]);
                let condition = self.call(operators::NOT_STRICTLY_FALSE, vec![not]);
                let step = self.call(operators::LOGICAL_OR, vec![gathered, test.clone()]);
                Loop { init: self.boolean(false), condition, step, result }
            }
            _ => {
                let [zero, one, single] =
                    [0, 1, 1].map(|number: i64| self.node(Expr::Literal(LiteralValue::Int(number.into()))));
                let more = self.call(operators::ADD, vec![gathered, one]);
                let step = self.call(operators::CONDITIONAL, vec![test.clone(), more, before]);
                let result = self.call(operators::EQUALS, vec![result, single]);
                Loop { init: zero, condition: self.boolean(true), step, result }
            }
        }
    }

    fn transform_step(&mut self, name: &str, key: &IdedExpr, filter: Option<&IdedExpr>, made: &IdedExpr) -> Loop {
        let gathered = self.ident(GATHERED);
        let mut made = made.clone();
        self.number(&mut made);
        let (init, step) = if name == "transformList" {
            let item = self.node(Expr::List(ListExpr::new(vec![made])));
            (self.empty_list(), self.call(operators::ADD, vec![gathered, item]))
        } else {
            let empty = self.node(Expr::Map(MapExpr { entries: Vec::new() }));
            let mut key = key.clone();
            self.number(&mut key);
            let inserted = if name == "transformMap" { vec![gathered, key, made] } else { vec![gathered, made] };
            (empty, self.call("cel.@mapInsert", inserted))
        };
        let step = match filter {
            Some(filter) => {
                let kept = self.ident(GATHERED);
                self.call(operators::CONDITIONAL, vec![filter.clone(), step, kept])
            }
            None => step,
        };
        Loop { init, condition: self.boolean(true), step, result: self.ident(GATHERED) }
    }

    fn pairs(&mut self, target: &IdedExpr, key: &IdedExpr, value: &IdedExpr, body: Loop) -> Option<Expr> {
        let (key, value) = (identifier(key)?, identifier(value)?);
        Some(self.comprehension(target.clone(), key, Some(value), body).expr)
    }

    fn comprehension(&mut self, range: IdedExpr, item: &str, second: Option<&str>, body: Loop) -> IdedExpr {
        self.node(Expr::Comprehension(Box::new(ComprehensionExpr {
            iter_range: range,
            iter_var: item.to_owned(),
            iter_var2: second.map(str::to_owned),
            accu_var: GATHERED.to_owned(),
            accu_init: body.init,
            loop_cond: body.condition,
            loop_step: body.step,
            result: body.result,
        })))
    }

    /// A loop over nothing whose gathered value is the variable: how CEL writes `let`.
    fn bind(&mut self, variable: &str, value: IdedExpr, body: IdedExpr) -> IdedExpr {
        let nothing = Loop { init: value, condition: self.boolean(false), step: self.ident(variable), result: body };
        let range = self.empty_list();
        let mut bound = self.comprehension(range, "#unused", None, nothing);
        if let Expr::Comprehension(comprehension) = &mut bound.expr {
            variable.clone_into(&mut comprehension.accu_var);
        }
        bound
    }

    fn node(&mut self, expr: Expr) -> IdedExpr {
        IdedExpr { id: self.next(), expr }
    }

    fn ident(&mut self, name: &str) -> IdedExpr {
        self.node(Expr::Ident(name.to_owned()))
    }

    fn boolean(&mut self, value: bool) -> IdedExpr {
        self.node(Expr::Literal(LiteralValue::Boolean(value.into())))
    }

    fn empty_list(&mut self) -> IdedExpr {
        self.node(Expr::List(ListExpr::new(Vec::new())))
    }

    fn call(&mut self, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
        self.node(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
    }

    /// Calls a function on a copy of an expression.
    fn on(&mut self, target: &IdedExpr, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
        let mut target = target.clone();
        self.number(&mut target);
        self.node(Expr::Call(CallExpr { func_name: name.to_owned(), target: Some(Box::new(target)), args }))
    }
}

/// What a macro's loop is made of.
struct Loop {
    init: IdedExpr,
    condition: IdedExpr,
    step: IdedExpr,
    result: IdedExpr,
}

fn parts(expression: &mut Expr) -> Vec<&mut IdedExpr> {
    match expression {
        Expr::Call(call) => call.target.as_deref_mut().into_iter().chain(&mut call.args).collect(),
        Expr::Comprehension(c) => {
            vec![&mut c.iter_range, &mut c.accu_init, &mut c.loop_cond, &mut c.loop_step, &mut c.result]
        }
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Map(map) => {
            let entries = map.entries.iter_mut().map(|entry| &mut entry.expr);
            let pairs = entries.map(|entry| match entry {
                EntryExpr::MapEntry(entry) => vec![&mut entry.key, &mut entry.value],
                EntryExpr::StructField(_) => Vec::new(),
            });
            pairs.flatten().collect()
        }
        Expr::Select(select) => vec![&mut select.operand],
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => Vec::new(),
    }
}

/// The name that an expression spells: `a`, `a.b`.
fn dotted(expression: &IdedExpr) -> Option<String> {
    match &expression.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => Some(format!("{}.{}", dotted(&select.operand)?, select.field)),
        _ => None,
    }
}

fn identifier(expression: &IdedExpr) -> Option<&str> {
    match &expression.expr {
        Expr::Ident(name) => Some(name),
        _ => None,
    }
}

/// A negative number is a literal, not an operation on one.
fn negated(one: &IdedExpr) -> Option<Expr> {
    match &one.expr {
        Expr::Literal(LiteralValue::Int(number)) => {
            Some(Expr::Literal(LiteralValue::Int(number.inner().checked_neg()?.into())))
        }
        Expr::Literal(LiteralValue::Double(number)) => {
            Some(Expr::Literal(LiteralValue::Double((-*number.inner()).into())))
        }
        _ => None,
    }
}
