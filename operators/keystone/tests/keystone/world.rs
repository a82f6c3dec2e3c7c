//! What is there beside a Keystone when a plan is made for it.

use c5c3_operator_keystone::{Identity, operator};
use c5c3_stage::BackingObjects;
pub use c5c3_stage::{file, secret};
use serde_json::{Value, json};

pub type World = c5c3_stage::World<Identity>;
pub type Stage = c5c3_stage::Stage<Identity>;

/// A Keystone of that spec.
pub fn keystone(spec: &Value) -> Value {
    World::object(spec)
}

/// The Keystone of an example, in the namespace `cloud` and under the name `gate`.
pub fn example(text: &str) -> Value {
    World::example(text)
}

/// Everything that a Keystone needs by convention.
pub fn world() -> World {
    let policy = "\"identity:list_users\": \"rule:admin_required\"\n";
    World::with_all(vec![
        secret("keystone-admin-credentials", &[("password", "adm1n")]),
        secret("mariadb-ca", &[("ca.crt", "CA")]),
        secret("keystone-secret-options", &[("config", "[ldap]\npassword = d1rectory\n")]),
        secret("keystone-db-client", &[("tls.crt", "CRT"), ("tls.key", "KEY")]),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "keystone-policy", "namespace": "cloud"},
               "data": {"policy.yaml": policy}}),
    ])
    .without("keystone-keystone-credentials")
}

/// The same, with the keys of a Keystone that was there before.
pub fn with_keys(world: World) -> World {
    let key = |letter: &str| format!("{}=", letter.repeat(43));
    let (staged, primary) = (key("A"), key("E"));
    let keys = |name: &str| secret(name, &[("0", &staged), ("1", &primary)]);
    world.with(keys("gate-fernet-keys")).with(keys("gate-credential-keys"))
}

/// A stage on which everything that a Keystone needs is there.
pub async fn stage() -> Stage {
    Stage::set(operator, &world()).await
}

/// A world needs nothing of others.
#[test]
fn a_keystone_needs_no_keystone() {
    let others = BackingObjects::objects().iter().filter(|object| object["kind"] == "Keystone").count();
    assert_eq!(others, 1);
    let plan = world().without("keystone").plan(&keystone(&json!({}))).unwrap();
    assert!(plan.steps.iter().all(|step| step.node.as_ref().unwrap().name != "auth"));
}
