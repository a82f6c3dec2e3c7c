//! Which requests a webhook is asked about.

use http::Method;
use serde_json::{Value, json};

use crate::hook::{Cluster, Does, Hook, patched};

async fn witness() -> (Cluster, Hook) {
    (Cluster::start().await, Hook::start(Does::Answer(json!({"allowed": true}))).await)
}

fn rule(operations: &[&str], group: &str, resources: &[&str]) -> Value {
    json!([{"operations": operations, "apiGroups": [group], "apiVersions": ["*"], "resources": resources}])
}

#[tokio::test]
async fn selectors_go_by_the_labels_of_the_namespace_and_of_the_object_old_or_new() {
    let (cluster, hook) = witness().await;
    cluster.send(Method::POST, "/api/v1/namespaces", json!({"metadata": {"name": "desert"}})).await.created();
    let apples = json!({"matchLabels": {"fruit": "apple"}});
    let ripe = json!({"matchExpressions": [{"key": "ripe", "operator": "Exists"}]});
    let with = json!({"namespaceSelector": apples, "objectSelector": ripe});
    cluster.register("validating", "v", &[hook.entry("a.example.com", with)]).await;
    let ripe = |name: &str| json!({"name": name, "labels": {"ripe": "yes"}});
    cluster.plant_in("desert", ripe("mirage")).await.created();
    cluster.plant("green").await.created();
    cluster.plant_in("orchard", ripe("red")).await.created();
    let path = "/api/v1/namespaces/orchard/configmaps/red";
    for _ in 0..2 {
        // The first time the old object still has the label, the second time neither has.
        let patch = json!({"metadata": {"labels": {"ripe": null}}});
        assert_eq!(cluster.send(Method::PATCH, path, patch).await.code, 200);
    }
    assert_eq!(hook.names(), ["red", "red"]);
    assert_eq!(hook.asked()[1]["options"]["kind"], "UpdateOptions");
}

#[tokio::test]
async fn a_namespace_is_selected_by_its_own_labels_and_what_is_in_none_always_is() {
    let (cluster, hook) = witness().await;
    let with = json!({
        "namespaceSelector": {"matchLabels": {"fruit": "plum"}},
        "rules": rule(&["CREATE"], "*", &["namespaces", "clusterroles"]),
    });
    cluster.register("validating", "v", &[hook.entry("a.example.com", with)]).await;
    for (name, fruit) in [("plums", "plum"), ("pears", "pear")] {
        let namespace = json!({"metadata": {"name": name, "labels": {"fruit": fruit}}});
        cluster.send(Method::POST, "/api/v1/namespaces", namespace).await.created();
    }
    let role = json!({"metadata": {"name": "picker"}, "rules": []});
    cluster.send(Method::POST, "/apis/rbac.authorization.k8s.io/v1/clusterroles", role).await.created();
    assert_eq!(hook.names(), ["plums", "picker"]);
    assert_eq!((&hook.asked()[0]["namespace"], hook.asked()[1].get("namespace")), (&json!("plums"), None));
}

#[tokio::test]
async fn operations_scopes_and_subresources_are_as_the_rules_say() {
    let (cluster, hook) = witness().await;
    let scoped = |scope: &str, resource: &str| {
        let mut rules = rule(&["UPDATE"], "*", &[resource]);
        rules[0]["scope"] = scope.into();
        json!({"rules": rules})
    };
    let entries = [
        hook.entry("cluster.example.com", scoped("Cluster", "configmaps")),
        hook.entry("namespaced.example.com", scoped("Namespaced", "namespaces")),
        hook.entry("status.example.com", scoped("*", "*/status")),
    ];
    cluster.register("validating", "v", &entries).await;
    cluster.plant("tree").await.created();
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    for path in ["/api/v1/namespaces/orchard/configmaps/tree", "/api/v1/namespaces/orchard"] {
        assert_eq!(cluster.send(Method::PATCH, path, patch.clone()).await.code, 200);
    }
    assert_eq!(hook.names(), Vec::<String>::new());
    let status = json!({"status": {"conditions": []}});
    assert_eq!(cluster.send(Method::PATCH, "/api/v1/namespaces/orchard/status", status).await.code, 200);
    assert_eq!((hook.names(), &hook.asked()[0]["subResource"]), (vec!["orchard".to_owned()], &json!("status")));
}

#[tokio::test]
async fn match_conditions_decide_last_and_fail_as_the_failure_policy_says() {
    let (cluster, hook) = witness().await;
    let when = |expression: &str| json!([{"name": "c", "expression": expression}]);
    let with = json!({"matchConditions": when("object.metadata.name.startsWith('t') && request.userInfo.username == 'gardener'")});
    cluster.register("validating", "v", &[hook.entry("a.example.com", with)]).await;
    cluster.plant("bush").await.created();
    cluster.plant("tree").await.created();
    assert_eq!(hook.names(), ["tree"]);
    let with = json!({"matchConditions": when("object.data.absent == 'x'"), "failurePolicy": "Ignore"});
    cluster.register("validating", "w", &[hook.entry("b.example.com", with)]).await;
    cluster.plant("shrub").await.created();
    assert_eq!(hook.names(), ["tree"]);
    let with = json!({"matchConditions": when("object.data.absent == 'x'")});
    cluster.register("validating", "x", &[hook.entry("c.example.com", with)]).await;
    let refused = cluster.plant("fern").await;
    assert_eq!(refused.code, 403, "{}", refused.message());
    assert!(
        refused.message().starts_with("configmaps \"fern\" is forbidden: match condition"),
        "{}",
        refused.message()
    );
}

#[tokio::test]
async fn webhooks_have_no_say_about_webhooks() {
    let cluster = Cluster::start().await;
    let tyrant = Hook::start(Does::Answer(json!({"allowed": false}))).await;
    let everything = json!({"rules": rule(&["*"], "*", &["*/*"])});
    cluster.register("validating", "v", &[tyrant.entry("a.example.com", everything)]).await;
    assert_eq!(cluster.plant("tree").await.code, 400);
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/v";
    assert_eq!(cluster.send(Method::DELETE, path, Value::Null).await.code, 200);
    cluster.plant("tree").await.created();
}

#[tokio::test]
async fn an_equivalent_version_is_shown_in_the_version_of_the_rule() {
    let (cluster, hook) = witness().await;
    let version = |name: &str, storage: bool| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
    };
    let names = json!({"plural": "trees", "singular": "tree", "kind": "Tree", "listKind": "TreeList"});
    let definition = json!({
        "metadata": {"name": "trees.fruit.example.com"},
        "spec": {"group": "fruit.example.com", "scope": "Namespaced", "names": names, "versions": [version("v1", true), version("v2", false)]},
    });
    cluster.send(Method::POST, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await.created();
    let of = |policy: &str| {
        let rules = json!([{"operations": ["*"], "apiGroups": ["fruit.example.com"], "apiVersions": ["v1"], "resources": ["trees"]}]);
        json!({"rules": rules, "matchPolicy": policy})
    };
    cluster.register("validating", "exact", &[hook.entry("exact.example.com", of("Exact"))]).await;
    let path = "/apis/fruit.example.com/v2/namespaces/orchard/trees";
    let mut planted = cluster.send(Method::POST, path, json!({"metadata": {"name": "first"}})).await;
    for _ in 0..100 {
        if planted.code != 404 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        planted = cluster.send(Method::POST, path, json!({"metadata": {"name": "first"}})).await;
    }
    planted.created();
    assert!(hook.asked().is_empty());
    let painter = Hook::start(Does::Answer(patched(&json!([{"op": "add", "path": "/colour", "value": "red"}])))).await;
    cluster.register("mutating", "equivalent", &[painter.entry("equivalent.example.com", of("Equivalent"))]).await;
    let painted = cluster.send(Method::POST, path, json!({"metadata": {"name": "second"}})).await.created();
    assert_eq!((&painted["apiVersion"], &painted["colour"]), (&json!("fruit.example.com/v2"), &json!("red")));
    let asked = &painter.asked()[0];
    assert_eq!(asked["object"]["apiVersion"], "fruit.example.com/v1");
    assert_eq!((&asked["kind"]["version"], &asked["requestKind"]["version"]), (&json!("v1"), &json!("v2")));
}

#[tokio::test]
async fn a_scaled_object_is_shown_as_its_scale() {
    let cluster = Cluster::start().await;
    let cap =
        Hook::start(Does::Answer(patched(&json!([{"op": "replace", "path": "/spec/replicas", "value": 2}])))).await;
    cluster
        .register(
            "mutating",
            "m",
            &[cap.entry("cap.example.com", json!({"rules": rule(&["UPDATE"], "apps", &["*/scale"])}))],
        )
        .await;
    let labels = json!({"app": "press"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "press", "image": "press"}]}});
    let deployment =
        json!({"metadata": {"name": "press"}, "spec": {"selector": {"matchLabels": labels}, "template": template}});
    let path = "/apis/apps/v1/namespaces/orchard/deployments";
    cluster.send(Method::POST, path, deployment).await.created();
    let scaled = cluster.send(Method::PATCH, &format!("{path}/press/scale"), json!({"spec": {"replicas": 9}})).await;
    assert_eq!((scaled.code, &scaled.body["spec"]["replicas"]), (200, &json!(2)), "{}", scaled.body);
    let asked = &cap.asked()[0];
    assert_eq!((&asked["kind"]["kind"], &asked["object"]["kind"]), (&json!("Scale"), &json!("Scale")));
    assert_eq!((&asked["object"]["spec"]["replicas"], &asked["oldObject"]["spec"]["replicas"]), (&json!(9), &json!(1)));
}

#[tokio::test]
async fn a_service_is_reached_under_its_own_name_wherever_it_is() {
    let (cluster, hook) = witness().await;
    let service = json!({"namespace": "orchard", "name": "hook", "path": "/review", "port": hook.port});
    let config = json!({"service": service, "caBundle": hook.ca});
    cluster.register("validating", "v", &[hook.entry("a.example.com", json!({"clientConfig": config}))]).await;
    let failed = cluster.plant("tree").await;
    assert!(failed.message().ends_with("service \"hook\" not found"), "{}", failed.message());
    let outside = json!({"metadata": {"name": "hook"}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
    cluster.send(Method::POST, "/api/v1/namespaces/orchard/services", outside).await.created();
    cluster.plant("tree").await.created();
    assert_eq!(hook.names(), ["tree"]);
}

#[tokio::test]
async fn evictions_bindings_and_tokens_are_asked_about_as_what_they_are() {
    let (cluster, hook) = witness().await;
    let with = json!({"rules": rule(&["CREATE"], "*", &["pods/eviction", "pods/binding", "serviceaccounts/token"])});
    cluster.register("validating", "v", &[hook.entry("a.example.com", with)]).await;
    let pods = "/api/v1/namespaces/orchard/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    cluster.send(Method::POST, pods, pod).await.created();
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    cluster.send(Method::POST, &format!("{pods}/p/binding"), binding).await.created();
    let token = "/api/v1/namespaces/orchard/serviceaccounts/default/token";
    cluster.send(Method::POST, token, json!({"spec": {}})).await.created();
    let eviction = json!({"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 0}});
    cluster.send(Method::POST, &format!("{pods}/p/eviction"), eviction).await.created();
    let asked = hook.asked();
    let kinds: Vec<&Value> = asked.iter().map(|request| &request["kind"]["kind"]).collect();
    assert_eq!(kinds, ["Binding", "TokenRequest", "Eviction"]);
    assert_eq!((&asked[2]["name"], &asked[2]["subResource"]), (&json!("p"), &json!("eviction")));
    assert_eq!(asked[2]["resource"]["resource"], "pods");
}
