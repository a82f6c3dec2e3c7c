//! What is refused: the mistakes that other systems accept and get wrong in silence.

use serde_json::{Value, json};

use crate::documents::{parse, root};

/// The full example of a kind.
fn full(example: &str) -> Value {
    let file = root().join(format!("examples/{example}-full.yaml"));
    parse(&std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))).remove(0)
}

fn set(document: &mut Value, path: &str, value: Value) {
    let place = path.split('.').fold(document, |at, field| match field.parse::<usize>() {
        Ok(index) => &mut at[index],
        Err(_) => &mut at[field],
    });
    *place = value;
}

/// The problems of an example after `changes`; with `transition`, those of changing the example so.
fn problems(example: &str, changes: &[(&str, Value)], transition: bool) -> Vec<String> {
    let before = full(example);
    let mut after = before.clone();
    for (path, value) in changes {
        set(&mut after, path, value.clone());
    }
    let kind = c5c3_api::find(before["apiVersion"].as_str().unwrap(), before["kind"].as_str().unwrap()).unwrap();
    assert!(kind.check(&before, None).is_empty(), "{example} is good as it stands");
    kind.check(&after, transition.then_some(&before)).iter().map(ToString::to_string).collect()
}

/// Asserts that exactly one problem is found, at that path, with a message that holds that text and a way out.
fn refused(example: &str, changes: &[(&str, Value)], transition: bool, path: &str, text: &str) {
    let found = problems(example, changes, transition);
    assert_eq!(found.len(), 1, "{example} {changes:?}: {found:#?}");
    assert!(found[0].starts_with(&format!("{path}: ")), "{example}: {} is not at {path}", found[0]);
    assert!(found[0].contains(text), "{example}: {text:?} is not in {}", found[0]);
    assert!(found[0].contains("; "), "{example}: {} says no way out", found[0]);
}

#[test]
fn autoscaling_by_what_nobody_requests() {
    let scale = |target: &str| ("spec.autoscaling", json!({"maxReplicas": 5, target: 50}));
    let requests = |requests: Value| ("spec.resources", requests);
    for (target, name) in [("targetCPUUtilization", "cpu"), ("targetMemoryUtilization", "memory")] {
        let field = format!("spec.autoscaling.{target}");
        let none = requests(json!({"requests": {"ephemeral-storage": "1Gi"}}));
        refused("keystone/keystone", &[scale(target), none], false, &field, &format!("spec.resources.requests.{name}"));
        let limit = requests(json!({"limits": {name: "1"}}));
        assert_eq!(problems("keystone/keystone", &[scale(target), limit], false), Vec::<String>::new());
    }
}

#[test]
fn both_of_two_fields_that_exclude_each_other() {
    let host = ("spec.database.host", json!("db.example.net"));
    let cluster = ("spec.database.clusterRef", json!({"name": "mariadb"}));
    for example in
        ["keystone/keystone", "glance/glance", "placement/placement", "nova/nova", "neutron/neutron", "cinder/cinder"]
    {
        refused(example, &[host.clone(), cluster.clone()], false, "spec.database", "both clusterRef and host");
    }
    for example in ["nova/nova", "neutron/neutron", "cinder/cinder"] {
        let both = [
            ("spec.messaging.hosts", json!(["q-0.q:5672"])),
            ("spec.messaging.clusterRef", json!({"name": "rabbitmq"})),
        ];
        refused(example, &both, false, "spec.messaging", "both clusterRef and hosts");
    }
    let both =
        [("spec.cache.servers", json!(["m-0.m:11211"])), ("spec.cache.clusterRef", json!({"name": "memcached"}))];
    refused("keystone/keystone", &both, false, "spec.cache", "both clusterRef and servers");
    let both = ("spec.networkPolicy", json!({"ingress": [{"cidr": "192.0.2.0/24", "podSelector": {}}]}));
    refused("keystone/keystone", &[both], false, "spec.networkPolicy.ingress[0]", "both addresses and labels");
    let range = ("spec.networkPolicy", json!({"ingress": [{"cidr": "192.0.2.0"}]}));
    refused("keystone/keystone", &[range], false, "spec.networkPolicy.ingress[0].cidr", "not a range of addresses");
    let route = ("spec.gateway", json!({"parentRef": {"name": "public"}, "hostname": "identity.example.net"}));
    refused("keystone/keystone", &[route], false, "spec.gateway", "speaks plain HTTP");
    let both = [(
        "spec.image",
        json!({"repository": "ghcr.io/c5c3/keystone", "tag": "28.0.0", "digest": format!("sha256:{}", "a".repeat(64))}),
    )];
    refused("keystone/keystone", &both, false, "spec.image", "exactly one of tag and digest");
    let both = [(
        "spec.remoteCluster",
        json!({"name": "third-site", "spec": {"namespace": "ceph", "accesskeyRef": {"name": "k", "key": "k"}}}),
    )];
    assert!(!problems("ceph/remotearbiter", &both, false).is_empty());
    assert!(!problems("orc/project", &[("spec.import", json!({"filter": {"name": "x"}}))], false).is_empty());
}

#[test]
fn a_changed_field_that_cannot_change() {
    for example in ["keystone/keystone", "glance/glance", "placement/placement", "cinder/cinder"] {
        let text = "changes the database's name";
        refused(example, &[("spec.database.database", json!("other"))], true, "spec.database", text);
    }
    let one = |example, path: &'static str, value: Value| refused(example, &[(path, value)], true, path, "");
    one("keystone/keystone", "spec.bootstrap.region", json!("RegionTwo"));
    one("controlplane/controlplane", "spec.global.region", json!("RegionTwo"));
    one("controlplane/credentialrotation", "spec.targetServiceUser", json!("someone-else"));
    one("ovn/ovnchassis", "spec.systemId", json!("another"));
    one("hypervisor/eviction", "spec.hypervisor", json!("another-host"));
    for (example, path, value) in [
        ("ovs/ovsnode", "spec.nodeRef.name", json!("another")),
        ("ceph/remotearbiter", "spec.cephCluster.name", json!("another")),
        ("orc/project", "spec.resource.domainRef", json!("another")),
        ("orc/endpoint", "spec.resource.serviceRef", json!("another")),
        ("orc/applicationcredential", "spec.resource.name", json!("another")),
    ] {
        assert_eq!(problems(example, &[(path, value)], true).len(), 1, "{example} {path}");
    }
}

#[test]
fn a_path_that_no_gateway_takes() {
    for wrong in ["//", "/identity//v3", "/./v3", "/identity/..", "/a/../b"] {
        let route = json!({"parentRef": {"name": "public"}, "hostname": "identity.example.net", "path": wrong});
        let (tls, route) = (("spec.tls", json!({"enabled": false})), ("spec.gateway", route));
        let text = "has a part that is empty, . or ..";
        refused("keystone/keystone", &[tls, route], false, "spec.gateway.path", text);
    }
}

#[test]
fn a_cron_expression_that_is_none() {
    for wrong in ["every night", "61 * * * *", "0 0 * *", "0 0 * * * *", "0 0 32 * *", "0 0 * 13 *", "0 0 * * 8"] {
        let text = "is not a cron expression";
        refused(
            "keystone/keystone",
            &[("spec.fernet.rotationSchedule", json!(wrong))],
            false,
            "spec.fernet.rotationSchedule",
            text,
        );
        refused("tempest/tempest", &[("spec.schedule", json!(wrong))], false, "spec.schedule", text);
        refused(
            "controlplane/controlplane",
            &[("spec.tempest.schedule", json!(wrong))],
            false,
            "spec.tempest.schedule",
            text,
        );
    }
    // No schema can know that 31 February never comes; the type does.
    let found = problems("tempest/tempest", &[("spec.schedule", json!("0 0 31 2 *"))], false);
    assert!(found.len() == 1 && found[0].contains("never fires"), "{found:?}");
}

#[test]
fn an_image_tag_that_is_none() {
    for example in [
        "keystone/keystone",
        "glance/glance",
        "placement/placement",
        "nova/nova",
        "neutron/neutron",
        "cinder/cinder",
        "tempest/tempest",
        "cortex/cortex",
    ] {
        for wrong in ["28.0.0 ", "28:0", "-x", "a/b"] {
            let image = json!({"repository": "ghcr.io/c5c3/image", "tag": wrong});
            refused(example, &[("spec.image", image)], false, "spec.image.tag", "is not an image tag");
        }
    }
    let image = json!({"repository": "ghcr.io/c5c3/ovn", "tag": "24.03.4 "});
    refused("ovn/ovncluster", &[("spec.ovnImage", image)], false, "spec.ovnImage.tag", "is not an image tag");
}

#[test]
fn a_quorum_that_is_even_or_negative() {
    for path in [
        "spec.infrastructure.mariadb.replicas",
        "spec.infrastructure.rabbitmq.replicas",
        "spec.infrastructure.valkey.replicas",
    ] {
        refused("controlplane/controlplane", &[(path, json!(4))], false, path, "is even");
        refused("controlplane/controlplane", &[(path, json!(0))], false, path, "below the minimum");
        let found = problems("controlplane/controlplane", &[(path, json!(-3))], false);
        assert!(found.iter().any(|line| line.contains("below the minimum")), "{found:?}");
    }
    for path in ["spec.northbound.replicas", "spec.southbound.replicas"] {
        refused("ovn/ovncluster", &[(path, json!(2))], false, path, "is even");
        let found = problems("ovn/ovncluster", &[(path, json!(-1))], false);
        assert!(found.iter().any(|line| line.contains("below the minimum")), "{found:?}");
    }
}

#[test]
fn a_quantity_that_does_not_parse() {
    for (example, path) in [
        ("controlplane/controlplane", "spec.infrastructure.mariadb.storageSize"),
        ("controlplane/controlplane", "spec.infrastructure.memcached.memory"),
        ("ovn/ovncluster", "spec.northbound.storage.size"),
    ] {
        for wrong in ["100GB", "ten", "10 Gi", "-1Gi", "0"] {
            refused(example, &[(path, json!(wrong))], false, path, "is not a size above zero");
        }
    }
    for (example, path) in [
        ("keystone/keystone", "spec.resources.requests.memory"),
        ("glance/glance", "spec.resources.requests.memory"),
        ("nova/nova", "spec.api.resources.requests.memory"),
        ("cinder/cinder", "spec.api.resources.limits.memory"),
        ("neutron/neutron", "spec.api.resources.requests.memory"),
        ("ovn/ovncluster", "spec.ovs.resources.requests.memory"),
    ] {
        refused(example, &[(path, json!("10GB"))], false, path, "does not match");
    }
}

#[test]
fn a_dependency_of_a_kind_that_nobody_watches() {
    for example in [
        "keystone/keystone",
        "glance/glance",
        "placement/placement",
        "nova/nova",
        "neutron/neutron",
        "cinder/cinder",
        "tempest/tempest",
        "cortex/cortex",
    ] {
        let wrong = json!([{"kind": "Keystonne", "name": "keystone"}]);
        refused(example, &[("spec.dependsOn", wrong)], false, "spec.dependsOn[0].kind", "Keystone");
    }
}

#[test]
fn two_spellings_of_one_thing_that_differ() {
    let found = problems("controlplane/controlplane", &[("spec.region", json!("RegionTwo"))], false);
    assert!(found.len() == 1 && found[0].starts_with("spec.region: "), "{found:?}");
    let found =
        problems("controlplane/controlplane", &[("spec.infrastructure.database", json!({"replicas": 5}))], false);
    assert!(found.len() == 1 && found[0].starts_with("spec.infrastructure.database.replicas: "), "{found:?}");
}

#[test]
fn a_service_without_what_it_cannot_start_without() {
    let services = json!({"nova": {"enabled": true}, "keystone": {"enabled": true}});
    let found = problems(
        "controlplane/controlplane",
        &[("spec.services", services), ("spec.tempest.enabled", json!(false))],
        false,
    );
    assert!(
        found.iter().any(|line| line.starts_with("spec.services.nova: is enabled without placement and glance")),
        "{found:?}"
    );
}
