//! Every object of a plan held against the schema that its API server has.

use c5c3_kit::Plan;
use c5c3_kit::testing::schemas;
use serde_json::json;

use crate::world::{example, keystone, with_keys, world};

/// The kinds of the objects that were checked.
fn check(plan: &Plan) -> Vec<String> {
    let mut checked = Vec::new();
    for child in plan.children() {
        let Some(problems) = schemas::problems(child) else { continue };
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
