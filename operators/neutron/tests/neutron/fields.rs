//! Every field of a Neutron: whether a change of it takes effect, or is refused with a reason.

use c5c3_stage::Becomes::{Effect, Refused};
use c5c3_stage::{Row, SIGNS_IN, common_at, everything, outcome, secret};
use serde_json::json;

use crate::plans::{World, ovn, world};

const IMAGE: &str = r#"{"image": {"repository": "ghcr.io/c5c3/neutron", "tag": "27.0.1"}}"#;
const TLS: &str = r#"{"tls": {"enabled": true, "issuerRef": {"name": "ca"}}}"#;
const BUS_TLS: &str = r#"{"messaging": {"tls": {"caSecretRef": {"name": "mariadb-ca"}}}}"#;
const POLICY: &str = r#"{"policyOverrides": {"rules": {"create_network": "role:admin"}}}"#;
const OVN: &str = r#"{"ovn": {"clusterRef": {"name": "ovn"}}}"#;
const SSL: &str = r#"{"ovn": {"clusterRef": {"name": "ovn"}, "nbConnection": "ssl:nb:6641", "sbConnection": "ssl:sb:6642",
    "certSecretRef": {"name": "other-certificate"}}}"#;
const ADDRESSES: &str = r#"{"ovn": {"nbConnection": "tcp:nb:6641", "sbConnection": "tcp:sb:6642"}}"#;
const AGENT: &str = r#"{"metadataAgent": {}}"#;

const FIELDS: &[Row] = &[
    ("image.repository", IMAGE, r#"{"image": {"repository": "mirror.example.net/neutron"}}"#, Effect),
    ("image.tag", IMAGE, r#"{"image": {"tag": "27.0.2"}}"#, Effect),
    (
        "image.digest",
        IMAGE,
        r#"{"image": {"tag": null, "digest": "sha256:0000000000000000000000000000000000000000000000000000000000000000"}}"#,
        Effect,
    ),
    ("publicEndpoint", TLS, r#"{"publicEndpoint": "https://192.0.2.7:9696"}"#, Effect),
    ("policyOverrides.rules", POLICY, r#"{"policyOverrides": {"rules": {"create_network": "role:auditor"}}}"#, Effect),
    (
        "policyOverrides.configMapRef.name",
        "{}",
        r#"{"policyOverrides": {"configMapRef": {"name": "neutron-policy"}}}"#,
        Effect,
    ),
    ("extraConfig", "{}", r#"{"extraConfig": {"DEFAULT": {"global_physnet_mtu": "9000"}}}"#, Effect),
    (
        "middleware",
        "{}",
        r#"{"middleware": [{"name": "audit", "filterFactory": "a:b", "position": {"after": "authtoken"}}]}"#,
        Effect,
    ),
    (
        "plugins",
        "{}",
        r#"{"plugins": [{"name": "vendor", "configSection": "vendor_box", "config": {"speed": "high"}}]}"#,
        Effect,
    ),
    ("messaging.clusterRef.name", "{}", r#"{"messaging": {"clusterRef": {"name": "other"}}}"#, Effect),
    (
        "messaging.clusterRef.namespace",
        r#"{"messaging": {"clusterRef": {"name": "rabbitmq"}}}"#,
        r#"{"messaging": {"clusterRef": {"namespace": "data"}}}"#,
        Effect,
    ),
    ("messaging.hosts", "{}", r#"{"messaging": {"hosts": ["mq.example.net:5672"]}}"#, Effect),
    ("messaging.secretRef.name", "{}", r#"{"messaging": {"secretRef": {"name": "other-account"}}}"#, Effect),
    (
        "messaging.tls.caSecretRef.name",
        BUS_TLS,
        r#"{"messaging": {"tls": {"caSecretRef": {"name": "other-ca"}}}}"#,
        Effect,
    ),
    (
        "messaging.tls.caSecretRef.key",
        BUS_TLS,
        r#"{"messaging": {"tls": {"caSecretRef": {"key": "bundle.pem"}}}}"#,
        Effect,
    ),
    (
        "messaging.secretRef.key",
        r#"{"messaging": {"secretRef": {"name": "other-account"}}}"#,
        r#"{"messaging": {"secretRef": {"key": "second"}}}"#,
        Refused("keys username and password"),
    ),
    ("replicas", "{}", r#"{"replicas": 5}"#, Effect),
    ("ovn.enabled", "{}", r#"{"ovn": {"enabled": false}, "ml2": {"mechanismDrivers": ["macvtap"]}}"#, Effect),
    ("ovn.enabled", "{}", r#"{"ovn": {"enabled": false}}"#, Refused("switches OVN off")),
    ("ovn.clusterRef.name", OVN, r#"{"ovn": {"clusterRef": {"name": "other"}}}"#, Effect),
    ("ovn.clusterRef.namespace", OVN, r#"{"ovn": {"clusterRef": {"namespace": "ovn-system"}}}"#, Effect),
    ("ovn.nbConnection", ADDRESSES, r#"{"ovn": {"nbConnection": "tcp:other:6641"}}"#, Effect),
    ("ovn.sbConnection", ADDRESSES, r#"{"ovn": {"sbConnection": "tcp:other:6642"}}"#, Effect),
    ("ml2.ovn.ovnNbConnection", OVN, r#"{"ml2": {"ovn": {"ovnNbConnection": "tcp:other:6641"}}}"#, Effect),
    ("ml2.ovn.ovnSbConnection", OVN, r#"{"ml2": {"ovn": {"ovnSbConnection": "tcp:other:6642"}}}"#, Effect),
    ("ovn.certSecretRef.name", SSL, r#"{"ovn": {"certSecretRef": {"name": "third-certificate"}}}"#, Effect),
    (
        "ovn.certSecretRef.key",
        SSL,
        r#"{"ovn": {"certSecretRef": {"key": "x"}}}"#,
        Refused("tls.crt, tls.key and ca.crt"),
    ),
    ("ml2.typeDrivers", "{}", r#"{"ml2": {"typeDrivers": ["geneve", "local"]}}"#, Effect),
    ("ml2.typeDrivers", "{}", r#"{"ml2": {"typeDrivers": ["flat"]}}"#, Refused("without geneve")),
    ("ml2.tenantNetworkTypes", "{}", r#"{"ml2": {"tenantNetworkTypes": ["vlan", "geneve"]}}"#, Effect),
    ("ml2.mechanismDrivers", "{}", r#"{"ml2": {"mechanismDrivers": ["ovn", "sriovnicswitch"]}}"#, Effect),
    ("ml2.extensionDrivers", "{}", r#"{"ml2": {"extensionDrivers": ["port_security", "qos"]}}"#, Effect),
    ("ml2.vlanRanges", "{}", r#"{"ml2": {"vlanRanges": ["provider:100:199"]}}"#, Effect),
    (
        "ml2.vlanRanges",
        "{}",
        r#"{"ml2": {"typeDrivers": ["geneve"], "vlanRanges": ["a"]}}"#,
        Refused("add vlan to typeDrivers"),
    ),
    ("metadataAgent.nodeSelector", AGENT, r#"{"metadataAgent": {"nodeSelector": {"a": "b"}}}"#, Effect),
    (
        "metadataAgent.tolerations",
        AGENT,
        r#"{"metadataAgent": {"tolerations": [{"key": "a", "operator": "Exists"}]}}"#,
        Effect,
    ),
    (
        "metadataAgent.resources.requests",
        AGENT,
        r#"{"metadataAgent": {"resources": {"requests": {"cpu": "1"}}}}"#,
        Effect,
    ),
    ("metadataAgent.resources.limits", AGENT, r#"{"metadataAgent": {"resources": {"limits": {"cpu": "1"}}}}"#, Effect),
    ("workers.resources.requests", "{}", r#"{"workers": {"resources": {"requests": {"cpu": "1"}}}}"#, Effect),
    ("workers.resources.limits", "{}", r#"{"workers": {"resources": {"limits": {"cpu": "1"}}}}"#, Effect),
    ("workers.scheduling.nodeSelector", "{}", r#"{"workers": {"scheduling": {"nodeSelector": {"a": "b"}}}}"#, Effect),
    (
        "workers.scheduling.tolerations",
        "{}",
        r#"{"workers": {"scheduling": {"tolerations": [{"operator": "Exists"}]}}}"#,
        Effect,
    ),
    (
        "workers.scheduling.affinity",
        "{}",
        r#"{"workers": {"scheduling": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}}}}"#,
        Effect,
    ),
    (
        "workers.scheduling.topologySpreadConstraints",
        "{}",
        r#"{"workers": {"scheduling": {"topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}}}"#,
        Effect,
    ),
    (
        "workers.scheduling.priorityClassName",
        "{}",
        r#"{"workers": {"scheduling": {"priorityClassName": "high"}}}"#,
        Effect,
    ),
];

/// A world in which every field can have its effect.
fn all() -> World {
    let certificate = |name: &str| secret(name, &[("tls.crt", name), ("tls.key", "k"), ("ca.crt", "A")]);
    let mut other_ovn = ovn(&json!({}), "tcp:192.0.2.9:6641", "tcp:192.0.2.9:6642");
    other_ovn["metadata"]["name"] = "other".into();
    let mut world = everything(world())
        .with(other_ovn)
        .with(certificate("other-certificate"))
        .with(certificate("third-certificate"));
    let is_it = |one: &&serde_json::Value| one["kind"] == "RabbitmqCluster";
    let mut other = world.objects.iter().find(is_it).unwrap().clone();
    other["metadata"]["name"] = "other".into();
    world.objects.push(other);
    world
}

#[test]
fn a_change_of_any_field_takes_effect_or_is_refused_with_a_reason_and_no_field_is_left_out() {
    let rows = [common_at("api"), SIGNS_IN.to_vec(), FIELDS.to_vec()].concat();
    let wrong = outcome(&all(), &rows);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
