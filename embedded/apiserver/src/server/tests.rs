use c5c3_auth::rbac::Attributes;
use c5c3_store::Expect;

use super::*;
use crate::object::put;

async fn server() -> Arc<Server> {
    Server::start(Config::new(Storage::Memory)).await.expect("a server in memory starts")
}

/// A role for pears, and a binding of it to vera.
async fn stored(server: &Arc<Server>, plural: &str, object: Value) -> (Arc<Served>, Arc<Value>) {
    let served = server.registry().find("rbac.authorization.k8s.io", "v1", plural).expect("a kind of RBAC");
    let object = Arc::new(object);
    let key = served.key(None, meta(&object, "name"));
    let expect = server.store().get(&key).map_or(Expect::Absent, |entry| Expect::Revision(entry.revision));
    put(server.store(), &served, &key, expect, &object).await.expect("a write");
    (served, object)
}

fn role(verb: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "pears", "uid": "1"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": [verb]}],
    })
}

fn may(server: &Server, verb: &str) -> bool {
    let vera = UserInfo::new("vera", ["system:authenticated"]);
    server.with_policy(|policy| policy.authorize(&vera, &Attributes::resource(verb, "", "secrets")).allowed)
}

#[tokio::test]
async fn a_writer_that_is_late_does_not_bring_back_rules_that_another_revoked() {
    let server = server().await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "pears", "uid": "2"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "pears"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "vera"}],
    });
    let (served, binding) = stored(&server, "clusterrolebindings", binding).await;
    server.written(&served, &binding);
    let (served, before) = stored(&server, "clusterroles", role("delete")).await;
    let (_, after) = stored(&server, "clusterroles", role("get")).await;
    // The second writer is told first, the first one after it.
    server.written(&served, &after);
    server.written(&served, &before);
    assert!(may(&server, "get") && !may(&server, "delete"), "the older rules are back");
}
