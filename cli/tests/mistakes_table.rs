//! Sixty mistakes of the first hour, as far as no cluster is needed: each is refused by `c5c3 validate`, which has the rules of the
//! API server, the webhooks and the operators, or it is one that only a cluster can show. None is silent.

use std::io::Write;
use std::process::{Command, Stdio};

/// What validate prints, and its exit code.
fn validate(text: &str) -> (String, i32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_c5c3"));
    command.args(["validate", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap())
}

fn control_plane(spec: &str) -> String {
    format!(
        "{{apiVersion: c5c3.io/v1alpha1, kind: ControlPlane, metadata: {{name: lab, namespace: cellar}}, spec: {spec}}}\n"
    )
}

fn keystone(spec: &str) -> String {
    let needed = "database: {host: db, database: keystone, secretRef: {name: x}}, cache: {servers: ['c:11211']}";
    format!(
        "{{apiVersion: keystone.openstack.c5c3.io/v1alpha1, kind: Keystone, metadata: {{name: keystone}}, spec: {{{needed}, {spec}}}}}\n"
    )
}

fn aggregate(spec: &str) -> String {
    format!("{{apiVersion: c5c3.io/v1alpha1, kind: SecretAggregate, metadata: {{name: copy}}, spec: {spec}}}\n")
}

fn refused(number: u8, object: &str, field: &str, remedy: &str) {
    let (text, code) = validate(object);
    assert_eq!(code, 1, "mistake {number} is silent: {object}{text}");
    assert!(text.contains(field) && text.contains(remedy), "mistake {number}: {field:?} and {remedy:?} in {text}");
}

/// Number, spec, field, and a part of the remedy.
const CONTROL_PLANES: &[(u8, &str, &str, &str)] = &[
    (1, "{services: {keystone: {replcas: 1}}}", "spec.services.keystone.replcas", "did you mean"),
    (2, "{infrastructure: {mariadb: {replicas: 2}}}", "spec.infrastructure.mariadb.replicas", "odd number"),
    (4, "{services: {keystone: {replicas: three}}}", "spec.services.keystone.replicas", ""),
    (5, "{services: {keystone: {replicas: -1}}}", "spec.services.keystone.replicas", ""),
    (6, "{services: {keystone: {fernet: {rotationInterval: 7 days}}}}", "fernet.rotationInterval", ""),
    (7, "{services: {keystone: {fernet: {rotationInterval: 90m}}}}", "fernet.rotationInterval", "whole hours"),
    (8, "{services: {keystone: {fernet: {maxActiveKeys: 1}}}}", "fernet.maxActiveKeys", ""),
    (9, "{openStackRelease: '2024.1', services: {keystone: {}}}", "spec.openStackRelease", "use one of"),
    (10, "{openStackRelease: 2025.2, services: {keystone: {}}}", "spec.openStackRelease", "quotes"),
    (12, "{infrastructure: {mariadb: {storageSize: 10 GB}}}", "mariadb.storageSize", "10Gi"),
    (13, "{infrastructure: {mariadb: {storageSize: 100Ei}}}", "mariadb.storageSize", "less than 1Ei"),
    (17, "{infrastructure: {mariadb: {host: db, replicas: 1}}}", "spec.infrastructure.mariadb", ""),
    (20, "{services: {keystone: {publicEndpoint: keystone}}}", "keystone.publicEndpoint", "http"),
    (21, "{services: {keystone: {publicEndpoint: 'http://k:99999'}}}", "keystone.publicEndpoint", "1 to 65535"),
    (
        22,
        "{services: {keystone: {policyOverrides: {rules: {'identity:list_userz': 'role:admin'}}}}}",
        "identity:list_userz",
        "did you mean",
    ),
    (
        23,
        "{services: {keystone: {policyOverrides: {rules: {'identity:list_users': 'role:admin or'}}}}}",
        "spec.services.keystone.policyOverrides",
        "",
    ),
    (
        24,
        "{services: {keystone: {policyOverrides: {rules: {'identity:list_users': 'rule:nope'}}}}}",
        "spec.services.keystone.policyOverrides",
        "",
    ),
    (29, "{infrastructure: {rabbitmq: {resources: {requests: {cpu: fifty}}}}}", "requests.cpu", ""),
    (
        30,
        "{infrastructure: {rabbitmq: {resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}}}}",
        "requests.memory",
        "raise the limit",
    ),
    (31, "{global: {tls: {enabled: true}}}", "spec.global.tls.issuerRef", "issuer"),
    (32, "{deletionPolicy: Keep}", "spec.deletionPolicy", "use one of"),
    (33, "{tempest: {schedule: every sunday}}", "spec.tempest.schedule", "five fields"),
    (36, "{infrastructure: {memcached: {memory: '64'}}}", "memcached.memory", "64Mi"),
    (37, "{region: a, global: {region: b}}", "region", ""),
    (40, "{services: {nova: {}}}", "spec.services", "keystone"),
];

#[test]
fn mistakes_in_a_control_plane_are_refused_with_field_and_remedy() {
    for (number, spec, field, remedy) in CONTROL_PLANES {
        refused(*number, &control_plane(spec), field, remedy);
    }
}

#[test]
fn mistakes_in_a_keystone_are_refused_with_field_and_remedy() {
    for (number, spec, field, remedy) in [
        (44, "extraConfig: {token: {expirations: '7200'}}", "spec.extraConfig.token.expirations", "expiration"),
        (44, "extraConfig: {tokens: {expiration: '7200'}}", "spec.extraConfig.tokens", "token"),
        (44, "extraConfig: {token: {expiration: soon}}", "spec.extraConfig.token.expiration", ""),
        (44, "extraConfig: {database: {connection: x}}", "spec.extraConfig.database.connection", ""),
        (
            46,
            "image: {repository: a, tag: b, digest: 'sha256:0000000000000000000000000000000000000000000000000000000000000000'}",
            "spec.image",
            "",
        ),
        (48, "autoscaling: {minReplicas: 3, maxReplicas: 1}", "spec.autoscaling", ""),
    ] {
        refused(number, &keystone(spec), field, remedy);
    }
}

#[test]
fn mistakes_in_a_secret_aggregate_are_refused_with_field_and_remedy() {
    for (number, spec, field, remedy) in [
        (
            56,
            "{sources: [{secretRef: {name: a}}], target: {name: a}}",
            "spec.sources[0].secretRef.name",
            "another Secret",
        ),
        (
            59,
            "{sources: [{secretRef: {name: a}, keys: [{sourceKey: x, targetKey: a b}]}], target: {name: b}}",
            "spec.sources[0].keys[0]",
            "a b",
        ),
        (59, "{sources: [{secretRef: {name: a}, keys: ['a b']}], target: {name: b}}", "spec.sources[0].keys[0]", "a b"),
        (60, "{sources: [{secretRef: {name: a}}]}", "spec.target", "is missing"),
    ] {
        let object = aggregate(spec);
        refused(number, &object, field, remedy);
        let (text, _) = validate(&object);
        assert!(!text.contains("variant") && !text.contains("missing field"), "mistake {number}: Rust leaks: {text}");
    }
}
