//! Validation of admission policies: that their expressions can be read, and that they have some.

use c5c3_schema::Expression;
use serde_json::Value;

use super::report::Report;
use super::webhook::conditions;
use crate::read::{is_empty_at, list_at, str_at, strings_at};

/// How an expression is read.
type Parse = fn(&str) -> Result<Expression, String>;

pub(super) fn validating(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    if is_empty_at(spec, "validations") && is_empty_at(spec, "auditAnnotations") {
        report.required("spec.validations", "validations or auditAnnotations must be non-empty");
    }
    policy(spec, report);
    for (at, item) in list_at(spec, "validations").iter().enumerate() {
        expression(&format!("spec.validations[{at}].expression"), item, Expression::parse, report);
        if !str_at(item, "messageExpression").trim().is_empty() {
            let path = format!("spec.validations[{at}].messageExpression");
            readable(&path, str_at(item, "messageExpression"), Expression::parse, report);
        }
    }
}

pub(super) fn mutating(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    if is_empty_at(spec, "mutations") {
        report.required("spec.mutations", "mutations must contain at least one item");
    }
    policy(spec, report);
    let reinvocation = str_at(spec, "reinvocationPolicy");
    match reinvocation {
        "Never" | "IfNeeded" => {}
        "" => report.required("spec.reinvocationPolicy", ""),
        other => report.unsupported("spec.reinvocationPolicy", other, &["IfNeeded", "Never"]),
    }
    for (at, mutation) in list_at(spec, "mutations").iter().enumerate() {
        let path = format!("spec.mutations[{at}]");
        let part = match str_at(mutation, "patchType") {
            "ApplyConfiguration" => "applyConfiguration",
            "JSONPatch" => "jsonPatch",
            "" => {
                report.required(format!("{path}.patchType"), "");
                continue;
            }
            other => {
                report.unsupported(format!("{path}.patchType"), other, &["ApplyConfiguration", "JSONPatch"]);
                continue;
            }
        };
        expression(&format!("{path}.{part}.expression"), &mutation[part], Expression::parse_mutation, report);
    }
}

/// What all policies have.
fn policy(spec: &Value, report: &mut Report) {
    if is_empty_at(spec, "matchConstraints") {
        report.required("spec.matchConstraints", "");
    } else if is_empty_at(&spec["matchConstraints"], "resourceRules") {
        report.required("spec.matchConstraints.resourceRules", "");
    }
    conditions("spec.matchConditions", list_at(spec, "matchConditions"), report);
    for (at, variable) in list_at(spec, "variables").iter().enumerate() {
        expression(&format!("spec.variables[{at}].expression"), variable, Expression::parse, report);
    }
}

fn expression(path: &str, item: &Value, parse: Parse, report: &mut Report) {
    match str_at(item, "expression") {
        blank if blank.trim().is_empty() => report.required(path, "expression is not specified"),
        text => readable(path, text, parse, report),
    }
}

fn readable(path: &str, text: &str, parse: Parse, report: &mut Report) {
    if let Err(why) = parse(text) {
        report.invalid(path, text, format!("compilation failed: ERROR: {why}"));
    }
}

/// Checks that a binding names a policy.
pub(super) fn binding(object: &Value, report: &mut Report) {
    if is_empty_at(&object["spec"], "policyName") {
        report.required("spec.policyName", "");
    }
}

/// Checks besides that it says what becomes of what the policy refuses.
pub(super) fn validating_binding(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    binding(object, report);
    if is_empty_at(spec, "validationActions") {
        report.required("spec.validationActions", "at least one validation action is required");
    }
    for (at, action) in strings_at(spec, "validationActions").into_iter().enumerate() {
        if !["Audit", "Deny", "Warn"].contains(&action.as_str()) {
            report.unsupported(format!("spec.validationActions[{at}]"), action, &["Audit", "Deny", "Warn"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{assert_has, problems};

    #[test]
    fn a_mutation_says_how_it_changes_what() {
        let found = |mutation: serde_json::Value| {
            let rule =
                json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["pods"]});
            let spec = json!({
                "matchConstraints": {"resourceRules": [rule]}, "reinvocationPolicy": "Never", "mutations": [mutation]});
            problems("admissionregistration.k8s.io", "mutatingadmissionpolicies", &json!({"spec": spec}), None)
        };
        let good = json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}});
        assert_eq!(found(good), Vec::<String>::new());
        let none = found(json!({"patchType": "JSONPatch"}));
        assert_has(&none, "spec.mutations[0].jsonPatch.expression: Required value: expression is not specified");
        let odd = found(json!({"patchType": "Merge"}));
        assert_has(
            &odd,
            r#"spec.mutations[0].patchType: Unsupported value: "Merge": supported values: "ApplyConfiguration", "JSONPatch""#,
        );
    }
}
