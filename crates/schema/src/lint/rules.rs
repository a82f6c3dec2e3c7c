//! `x-kubernetes-validations`: the rules themselves, before any object is seen.

use serde_json::Value;

use super::spot::{Spot, list};
use super::typing::{self, Checked, Decls, Fault, Id, Type};
use crate::cel;
use crate::problem::{Problem, ProblemKind, Problems};

pub(super) const RULES: &str = "x-kubernetes-validations";
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

pub(super) fn check(spot: &Spot<'_>, problems: &mut Problems) {
    let here = spot.path.field(RULES);
    let rules = list(spot.schema, RULES);
    if rules.is_empty() {
        return;
    }
    let declared = Decls::of(spot.schema, spot.is_resource(), &spot.path);
    // A node that says what it is, and lets no rule see it, has something inside that does not.
    if declared.is_none() && spot.has("type") {
        let what = "cannot be checked by rules: something in it has no type";
        problems.push(spot.problem(RULES, ProblemKind::Invalid, what, "give its items or values a type"));
    }
    for (i, rule) in rules.iter().enumerate() {
        let path = here.index(i);
        let mut say = |keyword: &str, kind, what: String, fix: &str| {
            problems.push(Problem::new(&path.field(keyword), kind, what, fix));
        };
        wording(spot, rule, &mut say);
        expressions(spot, rule, declared.as_ref(), &mut say);
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

fn expressions(spot: &Spot<'_>, rule: &Value, declared: Option<&(Decls, Id)>, say: &mut Say<'_>) {
    let parsed = written(rule, "rule").and_then(|rule| cel::parse_plainly(rule).ok());
    let uses_old = parsed.is_some_and(|parsed| parsed.references().has_variable("oldSelf"));
    for (keyword, wanted) in [("rule", Type::Bool), ("messageExpression", Type::String)] {
        let Some(source) = written(rule, keyword).map(str::trim).filter(|text| !text.is_empty()) else {
            continue;
        };
        if let Err(error) = cel::parse_plainly(source) {
            let why = error.split_whitespace().collect::<Vec<_>>().join(" ");
            say(keyword, ProblemKind::Invalid, format!("does not compile: {why}"), "correct it");
        } else if let Some(checked) = declared.and_then(|(decls, root)| compile(rule, keyword, decls, *root)) {
            types(&checked, &wanted, keyword, say);
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

/// Parses and checks one of a rule's expressions; `None` if there is none or it does not parse.
pub(super) fn compile(rule: &Value, keyword: &str, decls: &Decls, root: Id) -> Option<Checked> {
    let source = written(rule, keyword).map(str::trim).filter(|text| !text.is_empty())?;
    let optional_old = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
    Some(typing::check(cel::parse_plainly(source).ok()?, decls, root, optional_old))
}

fn types(checked: &Checked, wanted: &Type, keyword: &str, say: &mut Say<'_>) {
    for Fault { what, fix } in &checked.faults {
        say(keyword, ProblemKind::Invalid, what.clone(), fix);
    }
    let found = checked.result();
    if checked.faults.is_empty() && found != wanted {
        let what = format!("must evaluate to {wanted}, not to {found}");
        say(keyword, ProblemKind::Invalid, what, "correct it");
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
