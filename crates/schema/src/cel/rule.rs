//! One rule: parsed once, and the message it gives when it is broken.

use kube_cel::cel::Value as Cel;
use kube_cel::cel::common::ast::IdedExpr;
use serde_json::Value;

use super::parse::parse;
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

    /// The expression of its message, if it has one.
    pub(super) fn message_expression(&self) -> Option<&IdedExpr> {
        self.message_expression.as_ref()
    }

    /// What to say when the rule is broken: the evaluated message if it is usable, else the written one.
    pub(super) fn message(&self, evaluated: Option<Cel>) -> String {
        let evaluated = evaluated.and_then(|evaluated| {
            let Cel::String(text) = evaluated else {
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
