//! Text in a rule that is read when the CRD is installed: patterns, durations and times.

use std::sync::LazyLock;

use kube_cel::cel::common::ast::{CallExpr, Expr, LiteralValue};
use regex::Regex;

/// What is wrong with the literal that a call is given, if it is given one.
pub(super) fn fault(call: &CallExpr) -> Option<(String, &'static str)> {
    let text = |at: usize| match call.args.get(at).map(|arg| &arg.expr) {
        Some(Expr::Literal(LiteralValue::String(text))) => Some(text.inner()),
        _ => None,
    };
    match (call.func_name.as_str(), call.target.is_some(), call.args.len()) {
        ("matches" | "find", true, 1) | ("findAll", true, 1 | 2) => pattern(text(0)?),
        ("matches", false, 2) => pattern(text(1)?),
        ("duration", false, 1) => {
            let text = text(0).filter(|text| !DURATION.is_match(text))?;
            Some((format!("invalid duration argument: {text:?}"), "write it as 1h30m, in h, m, s, ms, us or ns"))
        }
        ("timestamp", false, 1) => {
            let text = text(0).filter(|text| !TIMESTAMP.is_match(text))?;
            Some((format!("invalid timestamp argument: {text:?}"), "write it as 2006-01-02T15:04:05Z"))
        }
        _ => None,
    }
}

/// Go's expressions are not quite Rust's: what Go may read differently is let pass.
fn pattern(pattern: &str) -> Option<(String, &'static str)> {
    let foreign = pattern.contains("\\Q") || pattern.contains("\\C") || pattern.contains('{');
    match Regex::new(pattern) {
        Err(regex::Error::Syntax(_)) if !foreign => {
            Some((format!("invalid matches argument: {pattern:?}"), "correct the regular expression"))
        }
        _ => None,
    }
}

static DURATION: LazyLock<Regex> =
    LazyLock::new(|| fixed(r"^[-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"));

static TIMESTAMP: LazyLock<Regex> = LazyLock::new(|| {
    fixed(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?([Zz]|[-+][0-9]{2}:[0-9]{2})$")
});

fn fixed(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is fixed and right")
}
