//! Every object of a plan held against the schema that its API server has.

use c5c3_kit::Plan;
use c5c3_kit::testing::schemas;
use c5c3_schema::Schema;
use serde_json::{Value, json};

use crate::world::{example, keystone, with_keys, world};

/// What has a default in the lists of an HTTPRoute, by the Gateway API's own definition.
fn http_route() -> Schema {
    let object = |properties: Value| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": properties});
    let list = |properties: Value| json!({"type": "array", "items": object(properties)});
    let text = |default: &str| json!({"type": "string", "default": default});
    let parents = list(json!({"group": text("gateway.networking.k8s.io"), "kind": text("Gateway")}));
    let backends =
        list(json!({"group": text(""), "kind": text("Service"), "weight": {"type": "integer", "default": 1}}));
    let path = json!({"type": "object", "default": {"type": "PathPrefix", "value": "/"},
                      "properties": {"type": text("PathPrefix"), "value": text("/")}});
    let matches = list(json!({"path": path}));
    let rules = list(json!({"matches": matches, "backendRefs": backends}));
    Schema::compile(&object(json!({"spec": object(json!({"parentRefs": parents, "rules": rules}))}))).unwrap()
}

/// The kinds of the objects that were checked.
fn check(plan: &Plan) -> Vec<String> {
    let mut checked = Vec::new();
    for child in plan.children() {
        let problems = if child.resource.kind == "HTTPRoute" {
            Some(schemas::defaulted_fields(&http_route(), &json!(child.object)))
        } else {
            schemas::problems(child)
        };
        let Some(problems) = problems else { continue };
        assert!(problems.is_empty(), "{}:\n{}\n{:#}", child.reference(), problems.join("\n"), child.object.data);
        checked.push(child.resource.kind.clone());
    }
    checked
}

#[test]
fn whatever_is_written_is_accepted_and_comes_back_as_it_was_written() {
    let store = json!({"apiVersion": "external-secrets.io/v1", "kind": "ClusterSecretStore",
                       "metadata": {"name": "openbao-cluster-store"}, "spec": {"provider": {}}});
    let world = world().with(store);
    let full = example(include_str!("../../../../examples/keystone/keystone-full.yaml"));
    let asking = check(&world.plan(&full).unwrap());
    assert_eq!(asking, ["ExternalSecret", "ExternalSecret", "Database", "User", "Grant", "Certificate"]);
    let gate = json!({"parentRef": {"name": "public"}, "hostname": "id.example.net", "path": "/identity"});
    let open = with_keys(world).plan(&keystone(&json!({ "gateway": gate }))).unwrap();
    assert_eq!(check(&open), ["PushSecret", "PushSecret", "Database", "User", "Grant", "HTTPRoute"]);
}
