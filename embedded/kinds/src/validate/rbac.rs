//! Validation of roles and their bindings.

use serde_json::Value;

use super::report::Report;
use crate::read::{is_empty_at, list_at, str_at};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn rbac(kind: &str, object: &Value, old: Option<&Value>, report: &mut Report) {
    let namespaced = matches!(kind, "Role" | "RoleBinding");
    match kind {
        "Role" | "ClusterRole" => rules(object, namespaced, report),
        _ => binding(object, old, namespaced, report),
    }
}

fn rules(role: &Value, namespaced: bool, report: &mut Report) {
    for (at, rule) in list_at(role, "rules").iter().enumerate() {
        let path = format!("rules[{at}]");
        let mut need = |field: &str, why: &str| {
            if is_empty_at(rule, field) {
                report.required(format!("{path}.{field}"), why);
            }
        };
        need("verbs", "verbs must contain at least one value");
        if is_empty_at(rule, "nonResourceURLs") {
            need("apiGroups", "resource rules must supply at least one api group");
            need("resources", "resource rules must supply at least one resource");
            continue;
        }
        let urls = rule["nonResourceURLs"].clone();
        if namespaced {
            report.invalid(
                format!("{path}.nonResourceURLs"),
                urls,
                "namespaced rules cannot apply to non-resource URLs",
            );
        } else if ["apiGroups", "resources", "resourceNames"].iter().any(|field| !is_empty_at(rule, field)) {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            report.invalid(format!("{path}.nonResourceURLs"), urls, why);
        }
    }
}

fn binding(object: &Value, old: Option<&Value>, namespaced: bool, report: &mut Report) {
    let role = &object["roleRef"];
    if role.is_null() {
        report.required("roleRef.name", "");
    }
    if str_at(role, "apiGroup") != GROUP {
        report.unsupported("roleRef.apiGroup", str_at(role, "apiGroup"), &[GROUP]);
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&str_at(role, "kind")) {
        report.unsupported("roleRef.kind", str_at(role, "kind"), kinds);
    }
    for (at, subject) in list_at(object, "subjects").iter().enumerate() {
        self::subject(&format!("subjects[{at}]"), subject, report);
    }
    if old.is_some_and(|old| old["roleRef"] != *role) {
        report.invalid("roleRef", role.clone(), "cannot change roleRef");
    }
}

fn subject(path: &str, subject: &Value, report: &mut Report) {
    let group = str_at(subject, "apiGroup");
    let wanted = match str_at(subject, "kind") {
        "ServiceAccount" => {
            if is_empty_at(subject, "namespace") {
                report.required(format!("{path}.namespace"), "");
            }
            ""
        }
        "User" | "Group" => GROUP,
        other => {
            report.unsupported(format!("{path}.kind"), other, &["ServiceAccount", "User", "Group"]);
            return;
        }
    };
    if group != wanted {
        report.unsupported(format!("{path}.apiGroup"), group, &[wanted]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{assert_has, problems};
    use super::*;

    fn check(plural: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
        problems(GROUP, plural, object, old)
    }

    #[test]
    fn a_binding_keeps_its_role() {
        let binding = |name: &str| {
            json!({
                "roleRef": {"kind": "Role", "name": name}, "subjects": [{"kind": "User", "name": "rowan"}],
            })
        };
        assert!(check("rolebindings", &binding("a"), Some(&binding("a"))).is_empty());
        let found = check("rolebindings", &binding("b"), Some(&binding("a")));
        assert!(found[0].starts_with("roleRef: Invalid value: ") && found[0].ends_with(": cannot change roleRef"));
        let cluster = check("clusterrolebindings", &binding("a"), None);
        assert_has(&cluster, r#"roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole""#);
    }

    #[test]
    fn a_service_account_is_of_a_namespace() {
        let object = json!({
            "roleRef": {"kind": "ClusterRole", "name": "a"},
            "subjects": [{"kind": "ServiceAccount", "name": "s"}, {"kind": "Robot", "name": "r"}],
        });
        let found = check("clusterrolebindings", &object, None);
        assert_has(&found, "subjects[0].namespace: Required value");
        assert!(found[1].starts_with(r#"subjects[1].kind: Unsupported value: "Robot""#));
    }

    #[test]
    fn a_rule_is_about_resources_or_about_urls() {
        let found = check("roles", &json!({"rules": [{}, {"verbs": ["get"], "nonResourceURLs": ["/x"]}]}), None);
        assert_has(&found, "rules[0].verbs: Required value: verbs must contain at least one value");
        assert_has(&found, "rules[0].resources: Required value: resource rules must supply at least one resource");
        assert_has(
            &found,
            r#"rules[1].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs"#,
        );
        let urls = json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]});
        assert!(check("clusterroles", &urls, None).is_empty());
    }
}
