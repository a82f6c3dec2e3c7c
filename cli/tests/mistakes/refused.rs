//! Mistakes that are refused whatever the cluster holds: by `c5c3 validate`, and by `kubectl apply` where the webhooks are
//! registered. Both have the rules of the API server and of the operators.

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

/// Number, spec, field, and a part of the remedy.
type Row = (u8, &'static str, &'static str, &'static str);

const CONTROL_PLANES: &[Row] = &[
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
    (33, "{tempest: {schedule: '0 25 * * *'}}", "spec.tempest.schedule", "five fields"),
    (36, "{infrastructure: {memcached: {memory: '64'}}}", "memcached.memory", "64Mi"),
    (37, "{region: a, global: {region: b}}", "region", ""),
    (40, "{services: {nova: {}}}", "spec.services", "keystone"),
    (
        47,
        "{infrastructure: {mariadb: {host: db, clusterRef: {name: ours}}}}",
        "spec.infrastructure.mariadb",
        "set clusterRef",
    ),
];

const KEYSTONES: &[Row] = &[
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
    (
        48,
        "autoscaling: {minReplicas: 1, maxReplicas: 3, targetCPUUtilization: 50}",
        "spec.autoscaling.targetCPUUtilization",
        "spec.resources.requests.cpu",
    ),
    (49, "networkPolicy: {ingress: [{cidr: 10.0.0.0/99}]}", "spec.networkPolicy.ingress[0].cidr", "such as 10.0.0.0/8"),
    (
        54,
        "middleware: [{name: a, filterFactory: 'a:b', position: {after: nothing}}]",
        "spec.middleware[0].position",
        "name one of",
    ),
];

const AGGREGATES: &[Row] = &[
    (56, "{sources: [{secretRef: {name: a}}], target: {name: a}}", "spec.sources[0].secretRef.name", "another Secret"),
    (
        59,
        "{sources: [{secretRef: {name: a}, keys: [{sourceKey: x, targetKey: a b}]}], target: {name: b}}",
        "spec.sources[0].keys[0]",
        "a b",
    ),
    (59, "{sources: [{secretRef: {name: a}, keys: ['a b']}], target: {name: b}}", "spec.sources[0].keys[0]", "a b"),
    (60, "{sources: [{secretRef: {name: a}}]}", "spec.target", "is missing"),
];

/// Every row: number, manifest, field, and a part of the remedy.
pub fn rows() -> Vec<(u8, String, &'static str, &'static str)> {
    let made = |rows: &[Row], manifest: fn(&str) -> String| {
        let row = |(number, spec, field, remedy): &Row| (*number, manifest(spec), *field, *remedy);
        rows.iter().map(row).collect::<Vec<_>>()
    };
    [made(CONTROL_PLANES, control_plane), made(KEYSTONES, keystone), made(AGGREGATES, aggregate)].concat()
}

#[test]
fn mistakes_are_refused_with_field_and_remedy() {
    for (number, object, field, remedy) in rows() {
        let (text, code) = validate(&object);
        assert_eq!(code, 1, "mistake {number} is silent: {object}{text}");
        assert!(text.contains(field) && text.contains(remedy), "mistake {number}: {field:?} and {remedy:?} in {text}");
        assert!(!text.contains("variant") && !text.contains("missing field"), "mistake {number}: Rust leaks: {text}");
    }
}
