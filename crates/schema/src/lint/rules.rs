//! `x-kubernetes-validations`: the rules themselves, before any object is seen.

use serde_json::Value;

use super::expression::study;
use super::spot::{Spot, list};
use crate::cel;
use crate::problem::{Problem, ProblemKind, Problems};

const RULES: &str = "x-kubernetes-validations";
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

pub(super) fn check(spot: &Spot<'_>, problems: &mut Problems) {
    let here = spot.path.field(RULES);
    for (i, rule) in list(spot.schema, RULES).iter().enumerate() {
        let path = here.index(i);
        let mut say = |keyword: &str, kind, what: String, fix: &str| {
            problems.push(Problem::new(&path.field(keyword), kind, what, fix));
        };
        wording(spot, rule, &mut say);
        expression(spot, rule, &mut say);
    }
}

type Say<'s> = dyn FnMut(&str, ProblemKind, String, &str) + 's;

fn written<'a>(rule: &'a Value, keyword: &str) -> Option<&'a str> {
    rule.get(keyword).and_then(Value::as_str)
}

fn wording(spot: &Spot<'_>, rule: &Value, say: &mut Say<'_>) {
    let source = written(rule, "rule").unwrap_or_default().trim();
    if source.is_empty() {
        say("rule", ProblemKind::Required, "is missing".to_owned(), "write a CEL expression");
    }
    for keyword in ["message", "messageExpression", "fieldPath"] {
        if written(rule, keyword).is_some_and(|text| !text.is_empty() && text.trim().is_empty()) {
            say(keyword, ProblemKind::Invalid, "is blank".to_owned(), "write it or remove it");
        }
    }
    let broken = |text: &str| text.trim().contains(['\n', '\r']);
    for keyword in ["message", "fieldPath"] {
        if written(rule, keyword).is_some_and(broken) {
            say(keyword, ProblemKind::Invalid, "has a line break".to_owned(), "write it on one line");
        }
    }
    if broken(source) && written(rule, "message").is_none_or(|text| text.trim().is_empty()) {
        let what = "is missing for a rule of several lines".to_owned();
        say("message", ProblemKind::Required, what, "add it, or write the rule on one line");
    }
    if let Some(reason) = written(rule, "reason").filter(|reason| !REASONS.contains(reason)) {
        let what = format!("{reason:?} is not supported");
        say("reason", ProblemKind::NotSupported, what, &format!("use one of: {}", REASONS.join(", ")));
    }
    if let Some(path) = written(rule, "fieldPath").map(str::trim).filter(|path| !path.is_empty())
        && !leads_somewhere(spot.schema, path)
    {
        let what = format!("{path:?} does not lead to a field of this schema");
        say("fieldPath", ProblemKind::Invalid, what, "write it from here, as .field.field or .field['key']");
    }
}

fn expression(spot: &Spot<'_>, rule: &Value, say: &mut Say<'_>) {
    let optional_old = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
    let mut uses_old = false;
    for keyword in ["rule", "messageExpression"] {
        let Some(source) = written(rule, keyword).map(str::trim).filter(|text| !text.is_empty()) else {
            continue;
        };
        match cel::parse(source) {
            Ok(parsed) => {
                uses_old |= keyword == "rule" && parsed.references().has_variable("oldSelf");
                for (what, fix) in study(&parsed, spot.schema, spot.is_resource(), optional_old).unknown {
                    say(keyword, ProblemKind::Invalid, what, &fix);
                }
            }
            Err(error) => {
                let why = error.split_whitespace().collect::<Vec<_>>().join(" ");
                say(keyword, ProblemKind::Invalid, format!("does not compile: {why}"), "correct it");
            }
        }
    }
    if let Some(list) = spot.uncorrelatable.as_deref().filter(|_| uses_old) {
        let what = format!("oldSelf cannot be used below {list:?}, whose entries have no identity");
        say("rule", ProblemKind::Invalid, what, "make it a list of type map, or move the rule above it");
    }
    if !uses_old && rule.get("optionalOldSelf").is_some_and(|value| !value.is_null()) {
        let what = "is set for a rule that does not use oldSelf".to_owned();
        say("optionalOldSelf", ProblemKind::Invalid, what, "remove it");
    }
}

/// Whether a `fieldPath` such as `.spec.labels['a.b']` names a field. Lists cannot be entered.
fn leads_somewhere(schema: &Value, path: &str) -> bool {
    let mut schema = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let (name, after) = if let Some(quoted) = rest.strip_prefix("['") {
            match quoted.split_once("']") {
                Some((name, after)) => (name.replace("\\'", "'"), after),
                None => return false,
            }
        } else if let Some(plain) = rest.strip_prefix('.') {
            let end = plain.find(['.', '[']).unwrap_or(plain.len());
            (plain[..end].to_owned(), &plain[end..])
        } else {
            return false;
        };
        let next = match schema.get("properties") {
            Some(properties) => properties.get(&name),
            None => schema.get("additionalProperties").filter(|schema| schema.is_object()),
        };
        match next {
            Some(next) if !name.is_empty() => schema = next,
            _ => return false,
        }
        rest = after;
    }
    true
}
