//! Validation of admission webhook configurations.

use std::collections::HashSet;

use c5c3_schema::Expression;
use serde_json::Value;

use super::names;
use super::report::Report;
use crate::read::{is_empty_at, list_at, str_at, strings_at};

/// As many conditions as a webhook or a policy may have.
const MOST_CONDITIONS: usize = 64;

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

pub(super) fn configuration(object: &Value, report: &mut Report) {
    let mut seen = HashSet::new();
    for (at, hook) in list_at(object, "webhooks").iter().enumerate() {
        let path = format!("webhooks[{at}]");
        let name = str_at(hook, "name");
        if !name.is_empty() {
            if let Some(why) = names::subdomain(name) {
                report.invalid(format!("{path}.name"), name, why);
            } else if name.split('.').count() < 3 {
                let why = "should be a domain with at least three segments separated by dots";
                report.invalid(format!("{path}.name"), name, why);
            }
            if !seen.insert(name) {
                report.duplicate(format!("{path}.name"), name);
            }
        }
        webhook(&path, hook, report);
    }
}

fn webhook(path: &str, hook: &Value, report: &mut Report) {
    if is_empty_at(hook, "admissionReviewVersions") {
        let path = format!("{path}.admissionReviewVersions");
        report.required(path, "must specify one of v1, v1beta1");
    } else if !strings_at(hook, "admissionReviewVersions").iter().any(|version| version == "v1") {
        let versions = hook["admissionReviewVersions"].clone();
        report.invalid(format!("{path}.admissionReviewVersions"), versions, "must include v1");
    }
    report.between(format!("{path}.timeoutSeconds"), &hook["timeoutSeconds"], 1, 30);
    client(&format!("{path}.clientConfig"), &hook["clientConfig"], report);
    conditions(&format!("{path}.matchConditions"), list_at(hook, "matchConditions"), report);
    for (at, rule) in list_at(hook, "rules").iter().enumerate() {
        let path = format!("{path}.rules[{at}]");
        for field in ["operations", "apiGroups", "apiVersions", "resources"] {
            if is_empty_at(rule, field) {
                report.required(format!("{path}.{field}"), "");
            }
        }
        for (at, operation) in strings_at(rule, "operations").into_iter().enumerate() {
            if !OPERATIONS.contains(&operation.as_str()) {
                report.unsupported(format!("{path}.operations[{at}]"), operation, OPERATIONS);
            }
        }
    }
}

/// Conditions have names of their own, and expressions that can be read.
pub(super) fn conditions(path: &str, conditions: &[Value], report: &mut Report) {
    let mut seen = HashSet::new();
    if conditions.len() > MOST_CONDITIONS {
        report.too_many(path, conditions.len(), MOST_CONDITIONS);
    }
    for (at, condition) in conditions.iter().enumerate() {
        let (name, expression) = (str_at(condition, "name"), str_at(condition, "expression"));
        if name.is_empty() {
            report.required(format!("{path}[{at}].name"), "");
        } else if !seen.insert(name) {
            report.duplicate(format!("{path}[{at}].name"), name);
        }
        if expression.trim().is_empty() {
            report.required(format!("{path}[{at}].expression"), "");
        } else if let Err(why) = Expression::parse(expression) {
            report.invalid(format!("{path}[{at}].expression"), expression, format!("compilation failed: ERROR: {why}"));
        }
    }
}

fn client(path: &str, config: &Value, report: &mut Report) {
    let (url, service) = (str_at(config, "url"), config.get("service").filter(|service| service.is_object()));
    match (url.is_empty(), service) {
        (true, None) => report.required(path, "exactly one of url or service is required"),
        (false, Some(_)) => report.forbidden(path, "exactly one of url or service is required"),
        (false, None) if !url.starts_with("https://") => {
            report.invalid(format!("{path}.url"), url, "'https' is the only allowed URL scheme");
        }
        (false, None) => {}
        (true, Some(service)) => report.between(format!("{path}.service.port"), &service["port"], 1, 65535),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{assert_has, problems};
    use super::*;

    fn check(hook: &Value) -> Vec<String> {
        problems("admissionregistration.k8s.io", "validatingwebhookconfigurations", &json!({"webhooks": [hook]}), None)
    }

    #[test]
    fn a_webhook_says_where_it_is_and_what_it_speaks() {
        let hook = json!({
            "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "s", "namespace": "n"}},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["pods"]}],
        });
        assert_eq!(check(&hook), Vec::<String>::new());
        let found = check(
            &json!({"name": "a.b", "timeoutSeconds": 31, "sideEffects": "Some", "rules": [{"operations": ["X"]}]}),
        );
        assert_has(
            &found,
            r#"webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun""#,
        );
        assert_has(&found, "webhooks[0].timeoutSeconds: Invalid value: 31: must be between 1 and 30, inclusive");
        assert_has(&found, "webhooks[0].clientConfig: Required value: exactly one of url or service is required");
        assert_has(&found, "webhooks[0].rules[0].resources: Required value");
    }
}
