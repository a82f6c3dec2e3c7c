//! Admission policies in CEL.

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::fixtures::{Tested, basket, embedded, eventually, of, press, refusal};

/// Puts a policy into force.
async fn enforce(client: &Client, spec: Value, actions: &[&str]) -> Result<(), kube::Error> {
    let policy: ValidatingAdmissionPolicy = of(json!({"metadata": {"name": "p"}, "spec": spec}));
    Api::all(client.clone()).create(&PostParams::default(), &policy).await?;
    let binding: ValidatingAdmissionPolicyBinding =
        of(json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": actions}}));
    Api::all(client.clone()).create(&PostParams::default(), &binding).await?;
    Ok(())
}

fn rules(group: &str, resource: &str) -> Value {
    json!({"resourceRules": [{
        "apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [resource]}]})
}

#[tokio::test]
async fn a_policy_refuses_what_its_expressions_refuse() -> Tested {
    let Some((_cluster, client)) = embedded("a policy is for all that a cluster is used for").await else {
        return Ok(());
    };
    let spec = json!({
        "matchConstraints": rules("apps", "deployments"),
        "variables": [{"name": "replicas", "expression": "object.spec.replicas"},
                      {"name": "odd", "expression": "variables.replicas % 2 == 1"}],
        "validations": [
            {"expression": "variables.replicas > 1", "messageExpression": "'wants ' + string(variables.replicas) + ' replicas'"},
            {"expression": "variables.odd || variables.replicas < 4", "reason": "Forbidden"}],
    });
    enforce(&client, spec, &["Deny"]).await?;
    let api = Api::<Deployment>::default_namespaced(client.clone());
    api.create(&PostParams::default(), &press("fine")).await?;
    let one = Patch::Merge(json!({"spec": {"replicas": 1}}));
    let refused = refusal(api.patch("fine", &PatchParams::default(), &one).await);
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
    assert_eq!(
        refused.message,
        "deployments.apps \"fine\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: \
         wants 1 replicas"
    );
    let many = Patch::Merge(json!({"spec": {"replicas": 4}}));
    let refused = refusal(api.patch("fine", &PatchParams::default(), &many).await);
    assert_eq!((refused.code, refused.reason.as_str()), (403, "Forbidden"));
    assert!(refused.message.ends_with("failed expression: variables.odd || variables.replicas < 4"));
    let policies = Api::<ValidatingAdmissionPolicy>::all(client);
    eventually(&policies, "p", |policy: Option<&ValidatingAdmissionPolicy>| {
        policy.and_then(|policy| policy.status.as_ref()).is_some_and(|status| status.type_checking.is_some())
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_policy_that_fails_is_met_as_it_says() -> Tested {
    let Some((_cluster, client)) = embedded("a policy is for all that a cluster is used for").await else {
        return Ok(());
    };
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let mut spec = json!({
        "matchConstraints": rules("", "configmaps"), "failurePolicy": "Ignore",
        "matchConditions": [{"name": "fruit", "expression": "has(object.data)"}],
        "validations": [{"expression": "object.data.none == 'x'"}],
    });
    enforce(&client, spec.clone(), &["Deny"]).await?;
    maps.create(&PostParams::default(), &basket("a")).await?;
    spec["failurePolicy"] = json!("Fail");
    let policies = Api::<ValidatingAdmissionPolicy>::all(client.clone());
    policies.patch("p", &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await?;
    let refused = refusal(maps.create(&PostParams::default(), &basket("b")).await);
    assert!(refused.message.contains("expression 'object.data.none == 'x'' resulted in error: no such key: none"));
    let empty: ConfigMap = of(json!({"metadata": {"name": "c"}}));
    maps.create(&PostParams::default(), &empty).await?;
    spec["validations"] = json!([{"expression": "("}]);
    let patch = Patch::Merge(json!({"spec": spec}));
    let refused = refusal(policies.patch("p", &PatchParams::default(), &patch).await);
    assert!(refused.message.contains("compilation failed"), "{}", refused.message);
    Ok(())
}

/// Puts a policy into force that changes what is written.
async fn change(client: &Client, name: &str, mutations: Value) -> Result<(), kube::Error> {
    let api = |kind: &str| {
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        Api::<DynamicObject>::all_with(client.clone(), &ApiResource::from_gvk(&kind))
    };
    let object = |kind: &str, spec: Value| {
        of::<DynamicObject>(
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}),
        )
    };
    let spec = json!({
        "matchConstraints": rules("apps", "deployments"), "reinvocationPolicy": "IfNeeded", "mutations": mutations,
        "variables": [{"name": "more", "expression": "object.spec.replicas + 1"}],
        "matchConditions": [{"name": "few", "expression": "object.spec.replicas < 9"}],
    });
    api("MutatingAdmissionPolicy").create(&PostParams::default(), &object("MutatingAdmissionPolicy", spec)).await?;
    let binding = object("MutatingAdmissionPolicyBinding", json!({"policyName": name}));
    api("MutatingAdmissionPolicyBinding").create(&PostParams::default(), &binding).await.map(drop)
}

#[tokio::test]
async fn a_policy_changes_what_is_written() -> Tested {
    let Some((_cluster, client)) = embedded("a policy is for all that a cluster is used for").await else {
        return Ok(());
    };
    let applied = "Object{metadata: Object.metadata{labels: {'more': string(variables.more)}}, spec: Object.spec{\
        template: Object.spec.template{spec: Object.spec.template.spec{containers: [\
            Object.spec.template.spec.containers.item{name: 'juice', tty: true}]}}}}";
    let mutations = json!([
        {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": applied}},
        {"patchType": "JSONPatch", "jsonPatch": {"expression":
            "[JSONPatch{op: 'replace', path: '/spec/replicas', value: variables.more}]"}},
    ]);
    change(&client, "a", mutations).await?;
    let api = Api::<Deployment>::default_namespaced(client.clone());
    let made = json!(api.create(&PostParams::default(), &press("p")).await?);
    assert_eq!((&made["spec"]["replicas"], &made["metadata"]["labels"]["more"]), (&json!(3), &json!("3")));
    let container = &made["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        (&container["tty"], &container["image"]),
        (&json!(true), &json!("press:1")),
        "lists merge by their keys"
    );
    let nine = api.patch("p", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 9}}))).await?;
    assert_eq!(nine.spec.and_then(|spec| spec.replicas), Some(9), "its condition does not hold");
    let broken = json!([{"patchType": "JSONPatch", "jsonPatch": {"expression":
        "[JSONPatch{op: 'remove', path: '/spec/nothing'}]"}}]);
    change(&client, "b", broken).await?;
    let refused = refusal(api.create(&PostParams::default(), &press("q")).await);
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
    assert!(refused.message.contains("policy 'b' with binding 'b' denied request: "), "{}", refused.message);
    Ok(())
}
