//! What each role of `deploy/openbao` may do, path by path. Every path is tried with every role and in every way: what the
//! table does not permit must be forbidden.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::ask::{Ask, Verb};
use super::furnish::{POLICIES, ROLES};
use super::vault::State;

/// Paths of the store's documentation, of the code, and beside them.
const PATHS: &[&str] = &[
    "kv-v2/data/bootstrap/keystone-admin",
    "kv-v2/data/bootstrap/service-passwords",
    "kv-v2/data/openstack/nova/db",
    "kv-v2/data/openstack/nova/app-credential",
    "kv-v2/data/openstack/k-orc/app-credential",
    "kv-v2/data/openstack/k-orc/credentials",
    "kv-v2/data/openstack/nova/deeper/app-credential",
    "kv-v2/data/openstack/app-credential",
    "kv-v2/data/openstack/keystone/cloud/keystone/fernet-keys",
    "kv-v2/data/openstack/keystone/cloud/keystone/credential-keys",
    "kv-v2/data/openstack/nova/compute-config",
    "kv-v2/data/openstack/ovn/config",
    "kv-v2/data/infrastructure/mariadb",
    "kv-v2/data/infrastructure/kubeconfig-hv",
    "kv-v2/data/ceph/client-nova",
    "kv-v2/data/ceph/client-glance",
    "kv-v2/data/brownfield/nova/app-credential",
    "kv-v2/data/elsewhere",
    "kv-v2/metadata/bootstrap/keystone-admin",
    "kv-v2/metadata/openstack/nova/app-credential",
    "kv-v2/metadata/openstack/keystone/cloud/keystone/fernet-keys",
    "kv-v2/metadata/openstack/ovn/config",
    "kv-v2/metadata/openstack",
    "kv-v2/metadata/ceph/client-nova",
    "kv-v2/destroy/openstack/nova/app-credential",
    "pki/issue/openstack-internal",
    "pki/sign/openstack-internal",
    "pki/roles/openstack-internal",
    "pki/root",
    "database/mariadb/creds/nova-ro",
    "database/mariadb/creds/nova-rw",
    "sys/policies/acl/eso-control-plane",
    "sys/mounts/kv-v2",
    "auth/kubernetes/control-plane/role/eso-control-plane",
    "auth/token/create",
];

/// What is permitted, by role: c(reate), r(ead), u(pdate), p(atch), d(elete), l(ist).
const PERMITTED: &[(&str, &[(&str, &str)])] = &[
    (
        "control-plane/eso-control-plane",
        &[
            ("kv-v2/data/bootstrap/keystone-admin", "r"),
            ("kv-v2/data/bootstrap/service-passwords", "r"),
            ("kv-v2/data/openstack/nova/db", "r"),
            ("kv-v2/data/openstack/nova/app-credential", "crud"),
            ("kv-v2/data/openstack/k-orc/app-credential", "crud"),
            ("kv-v2/data/openstack/k-orc/credentials", "r"),
            ("kv-v2/data/openstack/nova/deeper/app-credential", "r"),
            ("kv-v2/data/openstack/app-credential", "r"),
            ("kv-v2/data/openstack/keystone/cloud/keystone/fernet-keys", "crud"),
            ("kv-v2/data/openstack/keystone/cloud/keystone/credential-keys", "crud"),
            ("kv-v2/data/openstack/nova/compute-config", "crud"),
            ("kv-v2/data/openstack/ovn/config", "crud"),
            ("kv-v2/data/infrastructure/mariadb", "r"),
            ("kv-v2/data/infrastructure/kubeconfig-hv", "r"),
            ("kv-v2/data/ceph/client-nova", "r"),
            ("kv-v2/data/ceph/client-glance", "r"),
            ("kv-v2/data/brownfield/nova/app-credential", "r"),
            ("kv-v2/metadata/openstack/nova/app-credential", "crud"),
            ("kv-v2/metadata/openstack/keystone/cloud/keystone/fernet-keys", "crud"),
            ("kv-v2/metadata/openstack/ovn/config", "crud"),
        ],
    ),
    (
        "control-plane/cert-manager",
        // Writing to an engine that keeps no such path is an update.
        &[("pki/issue/openstack-internal", "u"), ("pki/sign/openstack-internal", "u")],
    ),
    ("control-plane/db-exporter", &[("database/mariadb/creds/nova-ro", "r")]),
    (
        "hypervisor/eso-hypervisor",
        &[
            ("kv-v2/data/openstack/nova/compute-config", "r"),
            ("kv-v2/data/openstack/ovn/config", "r"),
            ("kv-v2/data/ceph/client-nova", "r"),
        ],
    ),
    (
        "storage/eso-storage",
        &[
            ("kv-v2/data/ceph/client-nova", "cru"),
            ("kv-v2/data/ceph/client-glance", "cru"),
            ("kv-v2/metadata/ceph/client-nova", "cru"),
        ],
    ),
    (
        "management/eso-management",
        &[
            ("kv-v2/data/bootstrap/keystone-admin", "r"),
            ("kv-v2/data/bootstrap/service-passwords", "r"),
            ("kv-v2/data/infrastructure/mariadb", "r"),
            ("kv-v2/data/infrastructure/kubeconfig-hv", "r"),
        ],
    ),
];

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn status(state: &State, token: &str, verb: Verb, path: &str) -> u16 {
    let body = json!({"data": {}, "common_name": "nova.openstack.svc"});
    state.clone().answer(&Ask { verb, path, version: 0, body, token: Some(token) }, now()).status
}

/// What a token may do with a path, told from what the store answers.
fn may(empty: &State, full: &State, token: &str, path: &str) -> String {
    let ways = [
        ('c', empty, Verb::Write),
        ('r', full, Verb::Read),
        ('u', full, Verb::Write),
        ('p', full, Verb::Patch),
        ('d', full, Verb::Delete),
        ('l', full, Verb::List),
    ];
    // Where nothing can be created, both writes are the same.
    let creates = path.contains("/data/") || path.contains("/metadata/") || path.contains("/role/");
    let permitted = ways.iter().filter(|(_, state, verb)| status(state, token, *verb, path) != 403);
    permitted.map(|(letter, ..)| *letter).filter(|letter| *letter != 'c' || creates).collect()
}

/// A store with nothing in it, one with everything, and the token that may do everything.
fn stores() -> (State, State, String) {
    let (mut empty, root) = State::new(now());
    let mut full = empty.clone();
    for path in PATHS.iter().filter(|path| path.contains("/data/") || path.contains("/metadata/")) {
        let body = json!({"data": {"word": "owl"}, "max_versions": 3});
        assert!(full.answer(&Ask { verb: Verb::Write, path, version: 0, body, token: Some(&root) }, now()).is_good());
    }
    // The role is there from the start, and creating it is tried on a store without it.
    for roles in empty.logins.values_mut() {
        roles.remove("eso-control-plane");
    }
    (empty, full, root)
}

fn token_of(policies: &Value, root: &str, empty: &mut State, full: &mut State) -> String {
    let path = "auth/token/create";
    let body = json!({"policies": policies});
    let made = full.answer(&Ask { verb: Verb::Write, path, version: 0, body, token: Some(root) }, now());
    empty.tokens.clone_from(&full.tokens);
    made.body["auth"]["client_token"].as_str().unwrap_or_else(|| panic!("{made:?}")).to_owned()
}

#[test]
fn each_role_may_do_what_the_table_says_and_nothing_else() {
    let (mut empty, mut full, root) = stores();
    let named: Vec<&str> = PERMITTED.iter().map(|(role, _)| *role).collect();
    assert!(ROLES.iter().all(|(role, _)| named.contains(role)), "a role is not tried: {named:?}");
    for (role, permitted) in PERMITTED {
        let text = ROLES.iter().find(|(name, _)| name == role).unwrap().1;
        let written: Value = serde_json::from_str(text).unwrap();
        let token = token_of(&written["token_policies"], &root, &mut empty, &mut full);
        for path in PATHS {
            let wanted = permitted.iter().find(|(permitted, _)| permitted == path).map_or("", |(_, may)| may);
            assert_eq!(may(&empty, &full, &token, path), wanted, "{role} on {path}");
        }
    }
}

#[test]
fn the_pipeline_writes_every_secret_and_deletes_none() {
    let (mut empty, mut full, root) = stores();
    let token = token_of(&json!(["ci-cd-provisioner"]), &root, &mut empty, &mut full);
    for path in PATHS {
        let wanted = match path.split('/').take(2).collect::<Vec<_>>().join("/").as_str() {
            "kv-v2/data" => "cru",
            "kv-v2/metadata" => "rl",
            _ => "",
        };
        assert_eq!(may(&empty, &full, &token, path), wanted, "{path}");
    }
}

#[test]
fn root_may_do_everything_so_that_refusals_are_those_of_policies() {
    let (empty, full, root) = stores();
    for path in PATHS {
        assert!(may(&empty, &full, &root, path).contains("rupdl"), "{path}");
    }
}

#[test]
fn a_policy_of_deploy_is_taken_as_it_stands_and_as_json() {
    let (mut state, root) = State::new(now());
    for (name, text) in POLICIES {
        let path = format!("sys/policies/acl/{name}");
        let body = json!({"policy": text});
        let answer = state.answer(&Ask { verb: Verb::Write, path: &path, version: 0, body, token: Some(&root) }, now());
        assert!(answer.is_good(), "{name}: {answer:?}");
    }
    let body = json!({"policy": r#"{"path": {"kv-v2/data/+/db": {"capabilities": ["read"]}}}"#});
    let path = "sys/policies/acl/json";
    assert!(state.answer(&Ask { verb: Verb::Write, path, version: 0, body, token: Some(&root) }, now()).is_good());
}
