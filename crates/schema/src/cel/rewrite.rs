//! What the `cel` crate parses but does not evaluate as the language says, rewritten into what it does.
//!
//! - `a.?b` fails when there is no `b`, which is all it is for; `a[?"b"]` means the same and works.
//! - `a.?b.c` looks for `c` in the optional instead of in what it holds; it becomes `a[?"b"][?"c"]`, which it means.

use kube_cel::cel::common::ast::{
    CallExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue, SelectExpr, operators,
};

pub(super) fn rewrite(mut expression: IdedExpr) -> IdedExpr {
    walk(&mut expression);
    expression
}

/// Does something with each expression that is directly within another.
pub(super) fn within(expression: &mut IdedExpr, act: fn(&mut IdedExpr)) {
    let in_entries = |entries: &mut Vec<IdedEntryExpr>| {
        for entry in entries {
            match &mut entry.expr {
                EntryExpr::MapEntry(entry) => {
                    act(&mut entry.key);
                    act(&mut entry.value);
                }
                EntryExpr::StructField(field) => act(&mut field.value),
            }
        }
    };
    match &mut expression.expr {
        Expr::Call(call) => {
            if let Some(target) = &mut call.target {
                act(target);
            }
            call.args.iter_mut().for_each(act);
        }
        Expr::Comprehension(c) => {
            act(&mut c.iter_range);
            act(&mut c.accu_init);
            act(&mut c.loop_cond);
            act(&mut c.loop_step);
            act(&mut c.result);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(act),
        Expr::Map(map) => in_entries(&mut map.entries),
        Expr::Struct(made) => in_entries(&mut made.entries),
        Expr::Select(select) => act(&mut select.operand),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
    }
}

/// Innermost first, so that what surrounds a rewritten part sees it rewritten.
fn walk(expression: &mut IdedExpr) {
    within(expression, walk);
    let make = Make { id: expression.id };
    let rewritten = match &expression.expr {
        Expr::Call(call) => make.call_instead_of(call),
        Expr::Select(select) if is_optional(&select.operand) => Some(make.optional_select(select)),
        _ => None,
    };
    if let Some(rewritten) = rewritten {
        expression.expr = rewritten;
    }
}

/// Whether an expression, already rewritten, is reached through an optional.
fn is_optional(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Call(call) if call.func_name == operators::OPT_INDEX => true,
        Expr::Call(call) if call.func_name == operators::INDEX => call.args.first().is_some_and(is_optional),
        _ => false,
    }
}

/// Makes expressions; all that stand for one original share its id.
#[derive(Clone, Copy)]
struct Make {
    id: u64,
}

impl Make {
    fn node(self, expr: Expr) -> IdedExpr {
        IdedExpr { id: self.id, expr }
    }

    fn call(self, name: &str, target: Option<IdedExpr>, args: Vec<IdedExpr>) -> IdedExpr {
        let target = target.map(Box::new);
        self.node(Expr::Call(CallExpr { func_name: name.to_owned(), target, args }))
    }

    fn call_instead_of(self, call: &CallExpr) -> Option<Expr> {
        (call.func_name == operators::OPT_SELECT).then(|| self.call(operators::OPT_INDEX, None, call.args.clone()).expr)
    }

    fn optional_select(self, select: &SelectExpr) -> Expr {
        let field = self.node(Expr::Literal(LiteralValue::String(select.field.clone().into())));
        let held = self.call(operators::OPT_INDEX, None, vec![(*select.operand).clone(), field]);
        if select.test { self.call("hasValue", Some(held), Vec::new()).expr } else { held.expr }
    }
}
