//! One rule: parsed once, and the message it gives when it is broken.

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, Value as Cel};
use serde_json::Value;

use super::rewrite::rewrite;
use crate::compile::CompileError;

/// Kubernetes cuts evaluated messages off here, by not using them.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// A compiled rule.
#[derive(Debug)]
pub(crate) struct Rule {
    source: String,
    pub(super) expression: IdedExpr,
    message: Option<String>,
    message_expression: Option<IdedExpr>,
    pub(super) reason: Option<String>,
    /// Where to report it, below the node, without the leading dot.
    pub(super) field_path: Option<String>,
    /// `optionalOldSelf`: runs on create too, with `oldSelf` an optional.
    pub(super) optional_old: bool,
    /// A transition rule.
    pub(super) uses_old: bool,
}

impl Rule {
    pub(crate) fn compile(rule: &Value, at: &str) -> Result<Self, CompileError> {
        let text = |name: &str| {
            let text = rule.get(name).and_then(Value::as_str).map(str::trim);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let compile = |source: &str| {
            parse(source).map_err(|why| CompileError::Rule { at: at.to_owned(), rule: source.to_owned(), why })
        };
        let source = text("rule").ok_or_else(|| CompileError::Rule {
            at: at.to_owned(),
            rule: rule.to_string(),
            why: "it has no rule".to_owned(),
        })?;
        let expression = compile(&source)?;
        let message_expression = text("messageExpression").as_deref().map(compile).transpose()?;
        let uses_old = expression.references().has_variable("oldSelf");
        Ok(Self {
            expression,
            message: text("message"),
            message_expression,
            reason: text("reason"),
            field_path: text("fieldPath").map(|path| path.trim_start_matches('.').to_owned()),
            optional_old: rule.get("optionalOldSelf") == Some(&Value::Bool(true)),
            uses_old,
            source,
        })
    }

    /// What to say when the rule is broken: the evaluated message if it is usable, else the written one.
    pub(super) fn message(&self, context: &Context<'_>) -> String {
        let evaluated = self.message_expression.as_ref().and_then(|expression| {
            let Ok(Cel::String(text)) = Cel::resolve(expression, context) else {
                return None;
            };
            let text = text.trim();
            let usable = !text.is_empty() && !text.contains('\n') && text.len() <= LONGEST_MESSAGE;
            usable.then(|| text.to_owned())
        });
        evaluated.or_else(|| self.message.clone()).unwrap_or_else(|| format!("failed rule: {}", self.source))
    }

    /// How a message about the rule itself calls it.
    pub(super) fn name(&self) -> &str {
        self.message.as_deref().unwrap_or(&self.source)
    }
}

/// Parses an expression, optionals included, into what the interpreter can run.
fn parse(source: &str) -> Result<IdedExpr, String> {
    parse_plainly(source).map(rewrite)
}

/// Parses an expression and leaves it as it is written.
pub(crate) fn parse_plainly(source: &str) -> Result<IdedExpr, String> {
    let expression = Parser::new().enable_optional_syntax(true).parse(source).map_err(|error| error.to_string())?;
    if is_unfinished(&expression) {
        return Err("messages such as `a.B{c: 1}` cannot be made in a rule".to_owned());
    }
    Ok(expression)
}

/// The interpreter panics on message literals, which Kubernetes' type checker would not let through either.
fn is_unfinished(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Struct(_) | Expr::Unspecified => true,
        Expr::Ident(_) | Expr::Literal(_) => false,
        Expr::Select(select) => is_unfinished(&select.operand),
        Expr::List(list) => list.elements.iter().any(is_unfinished),
        Expr::Call(call) => call.target.as_deref().is_some_and(is_unfinished) || call.args.iter().any(is_unfinished),
        Expr::Map(map) => map.entries.iter().any(|entry| match &entry.expr {
            EntryExpr::StructField(_) => true,
            EntryExpr::MapEntry(entry) => is_unfinished(&entry.key) || is_unfinished(&entry.value),
        }),
        Expr::Comprehension(c) => {
            [&c.iter_range, &c.accu_init, &c.loop_cond, &c.loop_step, &c.result].into_iter().any(is_unfinished)
        }
    }
}
