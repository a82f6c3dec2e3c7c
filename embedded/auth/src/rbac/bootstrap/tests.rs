//! What a new cluster allows to whom.

use std::collections::BTreeSet;

use super::*;
use crate::rbac::{Attributes, Policy};
use crate::user::{AUTHENTICATED, UserInfo};

#[test]
fn anonymous_sees_health_and_version_and_nothing_else() {
    let policy = Policy::from_objects(&objects()).unwrap();
    let sees = |verb, path| policy.authorize(&UserInfo::anonymous(), &Attributes::path(verb, path)).allowed;
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert!(sees("get", path) && !sees("post", path), "{path}");
    }
    for path in [
        "/",
        "/api",
        "/apis",
        "/api/v1",
        "/openapi/v2",
        "/metrics",
        "/livez/etcd",
        "/.well-known/openid-configuration",
        "/openid/v1/jwks",
    ] {
        assert!(!sees("get", path), "{path}");
    }
    let review = Attributes::resource("create", "authorization.k8s.io", "selfsubjectaccessreviews");
    assert!(!policy.authorize(&UserInfo::anonymous(), &review).allowed);
}

#[test]
fn the_well_known_roles_allow_what_their_names_say() {
    let mut objects = objects();
    for role in ["admin", "edit", "view"] {
        objects.push(local_binding(role, role, &[]));
        let binding = objects.last_mut().unwrap();
        binding["metadata"]["namespace"] = json!("shop");
        binding["roleRef"]["kind"] = json!("ClusterRole");
        binding["subjects"] = json!([{"kind": "User", "name": role}]);
    }
    let policy = Policy::from_objects(&objects).unwrap();
    let on = |verb, group, resource| Attributes::resource(verb, group, resource).in_namespace("shop");
    let cases = [
        (on("get", "", "pods"), [true, true, true]),
        (on("get", "", "pods").with_subresource("log"), [true, true, true]),
        (on("list", "apps", "deployments"), [true, true, true]),
        (on("get", "", "secrets"), [true, true, false]),
        (on("create", "", "pods").with_subresource("exec"), [true, true, false]),
        (on("patch", "apps", "deployments").with_subresource("scale"), [true, true, false]),
        (on("create", "", "serviceaccounts").with_subresource("token"), [true, true, false]),
        (on("create", GROUP, "rolebindings"), [true, false, false]),
        (on("get", "", "nodes"), [false, false, false]),
        (on("get", "", "pods").in_namespace("other"), [false, false, false]),
    ];
    for (wanted, expected) in cases {
        let allowed =
            ["admin", "edit", "view"].map(|name| policy.authorize(&UserInfo::new(name, [""]), &wanted).allowed);
        assert_eq!(allowed, expected, "{wanted:?}");
    }
    let node = UserInfo::new("system:node:n1", ["system:nodes", AUTHENTICATED]);
    assert!(policy.authorize(&node, &Attributes::resource("update", "", "nodes").with_subresource("status")).allowed);
    let collector = UserInfo::service_account("kube-system", "generic-garbage-collector");
    assert!(
        policy.authorize(&collector, &Attributes::resource("delete", "acme.com", "shops").in_namespace("x")).allowed
    );
    let leader = Attributes::resource("update", "coordination.k8s.io", "leases").in_namespace("kube-system");
    assert!(policy.authorize(&UserInfo::new("system:kube-scheduler", [""]), &leader).allowed);
    let discovery = Attributes::path("get", "/.well-known/openid-configuration");
    assert!(policy.authorize(&UserInfo::service_account("shop", "till"), &discovery).allowed);
}

#[test]
fn every_object_is_marked_named_once_and_bound_to_a_role_that_exists() {
    let objects = objects();
    let mut seen = BTreeSet::new();
    for object in &objects {
        let key = (
            object["kind"].to_string(),
            object["metadata"]["namespace"].to_string(),
            object["metadata"]["name"].to_string(),
        );
        assert!(seen.insert(key.clone()), "{key:?} twice");
        assert_eq!(object["metadata"]["labels"]["kubernetes.io/bootstrapping"], "rbac-defaults");
        assert_eq!(object["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"], "true");
    }
    for binding in objects.iter().filter(|object| object["kind"].as_str().unwrap().ends_with("Binding")) {
        let role = (
            binding["roleRef"]["kind"].to_string(),
            binding["metadata"]["namespace"].to_string(),
            binding["roleRef"]["name"].to_string(),
        );
        assert!(seen.contains(&role), "{role:?}");
    }
}

#[test]
fn aggregated_roles_are_complete_from_the_beginning() {
    let objects = objects();
    for name in ["admin", "edit", "view"] {
        let role = objects.iter().find(|o| o["kind"] == "ClusterRole" && o["metadata"]["name"] == name).unwrap();
        let roles = objects.iter().filter(|o| o["kind"] == "ClusterRole");
        assert_eq!(json!(aggregate(role, roles)), role["rules"], "{name}");
    }
}
