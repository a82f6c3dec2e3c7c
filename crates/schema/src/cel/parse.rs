//! Reading expressions, however they are nested: what reads them, walks them and drops them does so recursively.

use std::thread;

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};
use kube_cel::cel::parser::Parser;

use super::messages::as_maps;
use super::rewrite::rewrite;

/// The longest expression, as in Kubernetes.
const LONGEST: usize = 100_000;

/// The deepest: no one writes deeper ones, and the stack of any thread is good for it.
const DEEPEST: usize = 128;

/// Up to here no expression can exhaust the stack before its depth is known.
const SHORT: usize = 1024;
const SHALLOW: usize = 8;

/// A stack for the others. What is not used of it is not there.
const STACK: usize = 512 << 20;

/// Parses an expression, optionals included, into what can be evaluated.
pub(super) fn parse(source: &str) -> Result<IdedExpr, String> {
    parse_plainly(source).map(rewrite)
}

/// Parses an expression that may make an object, or a patch.
pub(super) fn parse_mutation(source: &str) -> Result<IdedExpr, String> {
    parse_by(source, |source| read(source, as_maps)).map(rewrite)
}

/// Parses an expression and leaves it as it is written.
pub(crate) fn parse_plainly(source: &str) -> Result<IdedExpr, String> {
    parse_by(source, |source| read(source, |_| {}))
}

fn parse_by(source: &str, read: fn(&str) -> Result<IdedExpr, String>) -> Result<IdedExpr, String> {
    let length = source.chars().count();
    if length > LONGEST {
        return Err(format!("expression code point size exceeds limit: size: {length}, limit {LONGEST}"));
    }
    let brackets = brackets(source);
    if brackets > DEEPEST {
        return Err(too_deep());
    }
    if source.len() <= SHORT && brackets <= SHALLOW {
        return read(source);
    }
    thread::scope(|scope| {
        let reader = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || read(source));
        let read = reader.map_err(|error| error.to_string())?.join();
        read.unwrap_or_else(|_| Err("it cannot be read".to_owned()))
    })
}

/// How many brackets are open at once, at most; those in texts count, too.
fn brackets(source: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for char in source.chars() {
        match char {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

fn read(source: &str, prepare: fn(&mut IdedExpr)) -> Result<IdedExpr, String> {
    let mut expression = Parser::new().enable_optional_syntax(true).parse(source).map_err(|error| error.to_string())?;
    if is_deeper(&expression, DEEPEST) {
        return Err(too_deep());
    }
    prepare(&mut expression);
    if any(&expression, &|expr| matches!(expr, Expr::Struct(_) | Expr::Unspecified)) {
        // Kubernetes' type checker would not let them through either.
        return Err("messages such as `a.B{c: 1}` cannot be made in a rule".to_owned());
    }
    Ok(expression)
}

fn too_deep() -> String {
    format!("expression recursion limit exceeded: {DEEPEST}")
}

fn is_deeper(expression: &IdedExpr, than: usize) -> bool {
    than == 0 || children(expression).into_iter().any(|child| is_deeper(child, than - 1))
}

fn any(expression: &IdedExpr, is: &impl Fn(&Expr) -> bool) -> bool {
    is(&expression.expr) || children(expression).into_iter().any(|child| any(child, is))
}

fn children(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Struct(_) | Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Select(select) => vec![&select.operand],
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Map(map) => {
            let entries = map.entries.iter().map(|entry| match &entry.expr {
                EntryExpr::StructField(field) => vec![&field.value],
                EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
            });
            entries.flatten().collect()
        }
        Expr::Comprehension(c) => vec![&c.iter_range, &c.accu_init, &c.loop_cond, &c.loop_step, &c.result],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_expression_exhausts_the_stack() {
        let nested = |open: &str, close: &str, times: usize| format!("{}1{}", open.repeat(times), close.repeat(times));
        for hostile in [
            nested("(", ")", 10_000),
            nested("[", "]", 10_000),
            nested("{1:", "}", 10_000),
            nested("[1].all(x, ", ")", 2_000),
            nested("f(", ")", 10_000),
            nested("true ? 1 : ", "", 2_000),
            "1+".repeat(10_000) + "1",
            "a.".repeat(10_000) + "a",
            "x".repeat(200_000),
        ] {
            assert!(parse(&hostile).is_err(), "{}...", &hostile[..20]);
        }
        for long in [nested("[1].exists(x, x == ", ")", 12), "1+".repeat(100) + "1", "true && ".repeat(1_000) + "true"]
        {
            assert!(parse(&long).is_ok(), "{}...", &long[..20]);
        }
    }
}
