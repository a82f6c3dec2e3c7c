//! Policies for all services: each gets what it has, and a name that no service has is the ControlPlane's own mistake.

use serde_json::{Value, json};

use crate::paper::{lab, plan, waits};

/// The rules of each service, with these for all.
fn rules(services: &Value, global: &Value) -> Result<impl Fn(&str) -> Value + use<>, String> {
    let spec = json!({"services": services, "global": {"policyOverrides": {"rules": global}}});
    let plan = plan(&lab(&spec), &[])?;
    Ok(move |service: &str| {
        let child = plan.children().find(|child| child.reference().short() == format!("{service}/{service}"));
        child.unwrap().object.data["spec"]["policyOverrides"]["rules"].clone()
    })
}

#[test]
fn a_service_gets_the_rules_that_it_has_policies_for() {
    let services = json!({"keystone": {}, "glance": {}, "placement": {}, "nova": {}});
    let nova = json!({"os_compute_api:servers:index": "role:auditor"});
    let keystone = json!({"identity:list_users": "role:auditor"});
    let all = json!({"os_compute_api:servers:index": "role:auditor", "identity:list_users": "role:auditor"});
    let rules = rules(&services, &all).unwrap();
    assert_eq!(rules("keystone"), keystone);
    assert_eq!(rules("nova"), nova);
}

#[test]
fn a_rule_takes_along_the_rules_that_it_refers_to() {
    let all = json!({
        "identity:list_users": "role:admin or (rule:gardener)",
        "gardener": "rule:grower and role:gardener",
        "grower": "role:grower",
        "baker": "role:baker",
    });
    let rules = rules(&json!({"keystone": {}}), &all).unwrap();
    let mut expected = all.clone();
    expected.as_object_mut().unwrap().remove("baker");
    assert_eq!(rules("keystone"), expected);
}

#[test]
fn a_service_s_own_rule_wins_and_may_use_one_that_is_for_all() {
    let own = json!({"rules": {"identity:list_users": "rule:gardener"}});
    let all = json!({"identity:list_users": "role:auditor", "gardener": "role:gardener"});
    let rules = rules(&json!({"keystone": {"policyOverrides": own}}), &all).unwrap();
    assert_eq!(rules("keystone"), json!({"identity:list_users": "rule:gardener", "gardener": "role:gardener"}));
}

/// A ConfigMap with policies.
fn map(text: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rules", "namespace": "cellar"},
           "data": {"policy.yaml": text}})
}

#[test]
fn a_config_map_for_all_services_is_filtered_for_each_and_waited_for() {
    let global =
        json!({"policyOverrides": {"configMapRef": {"name": "rules"}, "rules": {"identity:list_users": "role:a"}}});
    let object = lab(&json!({"services": {"keystone": {}, "placement": {}}, "global": global}));
    let text =
        "\"identity:list_users\": \"role:b\"\n\"identity:get_user\": \"role:b\"\n\"placement:usages\": \"role:b\"\n";
    let made = plan(&object, &[map(text)]).unwrap();
    let policies = |service: &str| {
        let child = made.children().find(|child| child.reference().short() == format!("{service}/{service}"));
        child.unwrap().object.data["spec"]["policyOverrides"].clone()
    };
    assert_eq!(
        policies("keystone"),
        json!({"rules": {"identity:list_users": "role:a", "identity:get_user": "role:b"}})
    );
    assert_eq!(policies("placement"), json!({"rules": {"placement:usages": "role:b"}}));
    let refused = plan(&object, &[map("\"identity:get_users\": \"role:b\"\n")]).unwrap_err();
    assert!(refused.starts_with("spec.global.policyOverrides.configMapRef(rules).identity:get_users"), "{refused}");
    let broken = plan(&object, &[map("- a\n")]).unwrap_err();
    assert!(broken.starts_with("spec.global.policyOverrides.configMapRef(rules).policy.yaml"), "{broken}");
    let waiting = waits(&plan(&object, &[]).unwrap());
    let wait = "configmap/rules does not exist; spec.global.policyOverrides.configMapRef names it";
    assert!(waiting.iter().any(|one| one.starts_with("keystone: ") && one.contains(wait)), "{waiting:#?}");
}

#[test]
fn a_policy_that_no_service_has_is_refused_with_what_was_meant() {
    let refused = rules(&json!({"keystone": {}}), &json!({"identity:list_user": "role:auditor"})).map(|_| ());
    assert_eq!(
        refused.unwrap_err(),
        "spec.global.policyOverrides.rules.identity:list_user: is a policy that no service of 2025.2 has; did you mean \
         identity:list_users?"
    );
}
