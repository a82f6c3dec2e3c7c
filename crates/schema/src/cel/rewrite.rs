//! What the `cel` crate parses but does not evaluate as the language says, rewritten into what it does.
//!
//! - `a.?b` fails when there is no `b`, which is all it is for; `a[?"b"]` means the same and works.
//! - `a.?b.c` looks for `c` in the optional instead of in what it holds; it becomes `a[?"b"][?"c"]`, which it means.

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};

pub(super) fn rewrite(mut expression: IdedExpr) -> IdedExpr {
    walk(&mut expression);
    expression
}

/// Innermost first, so that what surrounds a rewritten part sees it rewritten.
fn walk(expression: &mut IdedExpr) {
    match &mut expression.expr {
        Expr::Call(call) => {
            if let Some(target) = &mut call.target {
                walk(target);
            }
            call.args.iter_mut().for_each(walk);
        }
        Expr::Comprehension(c) => {
            walk(&mut c.iter_range);
            walk(&mut c.accu_init);
            walk(&mut c.loop_cond);
            walk(&mut c.loop_step);
            walk(&mut c.result);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(walk),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    walk(&mut entry.key);
                    walk(&mut entry.value);
                }
            }
        }
        Expr::Select(select) => walk(&mut select.operand),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => {}
    }
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
