//! Defaults of admission webhooks and policies.

use serde_json::Value;

use crate::write::{child, each, ensure, fill};

/// The webhooks of a mutating or validating configuration.
pub(super) fn webhooks(kind: &str, configuration: &mut Value) {
    each(configuration, "webhooks", |hook| {
        fill(hook, "failurePolicy", "Fail");
        fill(hook, "matchPolicy", "Equivalent");
        fill(hook, "timeoutSeconds", 10);
        ensure(hook, "namespaceSelector");
        ensure(hook, "objectSelector");
        if kind == "MutatingWebhookConfiguration" {
            fill(hook, "reinvocationPolicy", "Never");
        }
        each(hook, "rules", |rule| fill(rule, "scope", "*"));
        if let Some(service) = child(hook, "clientConfig").and_then(|config| child(config, "service")) {
            fill(service, "port", 443);
        }
    });
}

/// A policy that judges or changes requests, or what puts it into force.
pub(super) fn policy(kind: &str, object: &mut Value) {
    let Some(spec) = child(object, "spec") else { return };
    let matches = if kind.ends_with("Policy") {
        fill(spec, "failurePolicy", "Fail");
        child(spec, "matchConstraints")
    } else {
        child(spec, "matchResources")
    };
    if let Some(matches) = matches {
        fill(matches, "matchPolicy", "Equivalent");
        ensure(matches, "namespaceSelector");
        ensure(matches, "objectSelector");
        for rules in ["resourceRules", "excludeResourceRules"] {
            each(matches, rules, |rule| fill(rule, "scope", "*"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::defaulted;

    #[test]
    fn a_webhook_fails_closed_after_ten_seconds() {
        let configuration = defaulted(
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations",
            json!({"webhooks": [{"name": "a.b.c", "rules": [{}], "clientConfig": {"service": {"name": "s"}}}]}),
        );
        assert_eq!(
            configuration["webhooks"][0],
            json!({
                "name": "a.b.c", "failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10,
                "namespaceSelector": {}, "objectSelector": {}, "reinvocationPolicy": "Never",
                "rules": [{"scope": "*"}], "clientConfig": {"service": {"name": "s", "port": 443}},
            })
        );
    }
}
