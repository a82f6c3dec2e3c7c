//! Mistakes that a cluster has to be asked about: changes of what runs, and objects that are valid and cannot work.

use std::time::{Duration, Instant};

use crate::machine::Machine;

/// The most lines that one screen has.
const SCREEN: usize = 24;

/// How long `why` may take to name a mistake, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// Something that cannot work, in a namespace of its own.
pub struct Mistake {
    pub number: u8,
    pub namespace: &'static str,
    pub object: Object,
    /// What is there before.
    pub beside: &'static str,
    /// Object, field and remedy.
    pub told: &'static [&'static str],
}

/// The account that services of a ControlPlane sign in to a database with that is not ours.
const ACCOUNT: &str = "{apiVersion: v1, kind: Secret, metadata: {name: keystone-db-credentials}, \
    stringData: {username: keystone, password: not-used}}\n---\n\
    {apiVersion: v1, kind: Secret, metadata: {name: keystone-admin-credentials}, stringData: {password: not-used}}\n---\n";

/// What an object is made of.
pub enum Object {
    /// A ControlPlane with this spec.
    Plane(&'static str),
    /// A ControlPlane with Keystone on a database that does not answer, and with this beside it.
    Identity(&'static str),
    /// A Keystone on such a database, with these fields.
    Keystone(&'static str),
    /// A SecretAggregate with this spec.
    Aggregate(&'static str),
}

impl Object {
    fn manifest(&self) -> String {
        let (version, kind, spec) = match self {
            Self::Plane(spec) => ("c5c3.io/v1alpha1", "ControlPlane", (*spec).to_owned()),
            Self::Identity(rest) => (
                "c5c3.io/v1alpha1",
                "ControlPlane",
                format!(
                    "{{infrastructure: {{mariadb: {{host: 127.0.0.1, port: 3307}}, memcached: {{servers: ['127.0.0.1:11211']}}}}, {rest}}}"
                ),
            ),
            Self::Keystone(rest) => (
                "keystone.openstack.c5c3.io/v1alpha1",
                "Keystone",
                format!(
                    "{{database: {{host: 127.0.0.1, port: 3307, database: keystone, secretRef: {{name: keystone-db-credentials}}}}, cache: {{servers: ['127.0.0.1:11211']}}, {rest}}}"
                ),
            ),
            Self::Aggregate(spec) => ("c5c3.io/v1alpha1", "SecretAggregate", (*spec).to_owned()),
        };
        format!("{{apiVersion: {version}, kind: {kind}, metadata: {{name: astray}}, spec: {spec}}}\n")
    }
}

const SOURCE: &str = "{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {key: value}}\n---\n";

const SOURCE_AND_TARGET: &str = "{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {key: value}}\n---\n\
    {apiVersion: v1, kind: Secret, metadata: {name: b}, stringData: {key: value}}\n---\n";

pub const MISTAKES: &[Mistake] = &[
    Mistake {
        number: 16,
        namespace: "wrong-class",
        object: Object::Plane(
            "{infrastructure: {mariadb: {replicas: 1, storageClass: gold}, memcached: {replicas: 1, memory: 64Mi}}, services: {keystone: {}}}",
        ),
        beside: "",
        told: &[
            "storageclass/gold",
            "spec.infrastructure.mariadb.storageClass names it",
            "change the field to one of them, or create this one",
        ],
    },
    Mistake {
        number: 18,
        namespace: "no-secret",
        object: Object::Identity("services: {keystone: {}}"),
        beside: "",
        told: &[
            "secret/keystone-db-credentials",
            "spec.infrastructure.mariadb.host",
            "kubectl create secret generic keystone-db-credentials -n no-secret --from-literal=username=",
        ],
    },
    Mistake {
        number: 19,
        namespace: "no-database",
        object: Object::Identity("services: {keystone: {replicas: 1}}"),
        beside: ACCOUNT,
        told: &[
            "job/keystone-db-sync-",
            "cannot reach 127.0.0.1:3307: Connection refused",
            "spec.infrastructure.mariadb.host of controlplane/astray names it: correct it",
        ],
    },
    Mistake {
        number: 19,
        namespace: "no-name",
        object: Object::Plane(
            "{infrastructure: {mariadb: {host: db.invalid}, memcached: {servers: ['127.0.0.1:11211']}}, services: {keystone: {}}}",
        ),
        beside: ACCOUNT,
        told: &[
            "job/keystone-db-sync-",
            "cannot reach db.invalid:3306: ",
            "spec.infrastructure.mariadb.host of controlplane/astray names it: correct it",
        ],
    },
    Mistake {
        number: 25,
        namespace: "no-policy",
        object: Object::Identity("services: {keystone: {policyOverrides: {configMapRef: {name: nope}}}}"),
        beside: ACCOUNT,
        told: &[
            "configmap/nope",
            "spec.policyOverrides.configMapRef names it",
            "kubectl create configmap nope -n no-policy --from-file=policy.yaml",
        ],
    },
    Mistake {
        number: 28,
        namespace: "much-memory",
        object: Object::Plane("{infrastructure: {rabbitmq: {replicas: 1, resources: {requests: {memory: 10Ti}}}}}"),
        beside: "",
        told: &[
            "rabbitmq.resources.requests.memory of controlplane/astray requests more memory than any node has free: lower it",
        ],
    },
    Mistake {
        number: 31,
        namespace: "no-issuer",
        object: Object::Plane(
            "{infrastructure: {rabbitmq: {replicas: 1}}, global: {tls: {enabled: true, issuerRef: {name: nope}}}}",
        ),
        beside: "",
        told: &[
            "clusterissuer/nope",
            "spec.global.tls.issuerRef names it",
            "create it, or set spec.global.tls.enabled to false",
        ],
    },
    Mistake {
        number: 34,
        namespace: "no-password",
        object: Object::Identity(
            "identity: {keystone: {bootstrap: {adminUser: {passwordSecretRef: {name: nope, key: password}}}}}, services: {keystone: {}}",
        ),
        beside: ACCOUNT,
        told: &[
            "secret/nope",
            "spec.identity.keystone.bootstrap.adminUser.passwordSecretRef names it",
            "kubectl create secret generic nope -n no-password",
        ],
    },
    Mistake {
        number: 38,
        namespace: "no-image",
        object: Object::Identity("openStackRelease: '2026.1', services: {keystone: {}}"),
        beside: ACCOUNT,
        told: &[
            "ghcr.io/c5c3/keystone:29.0.0 does not exist, or cannot be pulled",
            "spec.openStackRelease of controlplane/astray (2026.1) chooses it",
            "c5c3 image import keystone --release 2026.1",
        ],
    },
    Mistake {
        number: 43,
        namespace: "nothing",
        object: Object::Plane("{}"),
        beside: "",
        told: &["its spec asks for no service: add spec.services.keystone"],
    },
    Mistake {
        number: 51,
        namespace: "no-gateway",
        object: Object::Keystone("gateway: {hostname: a.example, parentRef: {name: gate}}"),
        beside: ACCOUNT,
        told: &[
            "spec.gateway asks for it",
            "the cluster has no kind HTTPRoute",
            "install the operator that serves gateway.networking.k8s.io/v1",
        ],
    },
    Mistake {
        number: 52,
        namespace: "no-store",
        object: Object::Keystone("secretStoreRef: {name: nope}"),
        beside: ACCOUNT,
        told: &[
            "spec.secretStoreRef.name of keystone/astray names a store that does not exist: correct it, or create the store",
        ],
    },
    Mistake {
        number: 55,
        namespace: "no-source",
        object: Object::Aggregate("{sources: [{secretRef: {name: a}}], target: {name: b}}"),
        beside: "",
        told: &["secret/a", "spec.sources[0].secretRef names it", "create it, or correct spec.sources[0]"],
    },
    Mistake {
        number: 55,
        namespace: "no-key",
        object: Object::Aggregate("{sources: [{secretRef: {name: a}, keys: [nokey]}], target: {name: b}}"),
        beside: SOURCE,
        told: &["has no key nokey", "add the key to it, or correct spec.sources[0].keys"],
    },
    Mistake {
        number: 57,
        namespace: "foreign-target",
        object: Object::Aggregate("{sources: [{secretRef: {name: a}}], target: {name: b}}"),
        beside: SOURCE_AND_TARGET,
        told: &[
            "secret/b",
            "is not managed by this operator",
            "give one of the two another name, or delete it if nothing uses it",
        ],
    },
    // Of two services, the image of one: a field of its own object.
    Mistake {
        number: 38,
        namespace: "no-tag",
        object: Object::Keystone("image: {repository: ghcr.io/c5c3/keystone, tag: 28.0.99}"),
        beside: ACCOUNT,
        told: &[
            "ghcr.io/c5c3/keystone:28.0.99 does not exist, or cannot be pulled",
            "spec.image of keystone/astray names it: correct it, or provide the image",
        ],
    },
    Mistake {
        number: 41,
        namespace: "no-operator",
        object: Object::Plane("{storage: {storageClusters: [ceph-a]}}"),
        beside: "",
        told: &[
            "controlplane/astray",
            "spec.storage.storageClusters, and no operator of this version acts on it",
            "remove it",
        ],
    },
];

/// A change of an object of the cloud that is well: of its spec, as a merge patch.
pub struct Change {
    pub number: u8,
    pub object: &'static str,
    pub patch: &'static str,
    /// What takes it back, as a JSON patch.
    pub undo: &'static str,
    pub told: &'static [&'static str],
}

/// Changes that the API server refuses.
pub const REFUSED_CHANGES: &[Change] = &[
    Change {
        number: 11,
        object: "controlplane lab",
        patch: r#"{"infrastructure": {"mariadb": {"storageSize": "512Mi"}}}"#,
        undo: "",
        told: &["spec.infrastructure.mariadb", "makes storageSize smaller", "keep the old size or a larger one"],
    },
    Change {
        number: 14,
        object: "controlplane lab",
        patch: r#"{"infrastructure": {"mariadb": {"storageSize": "100Ti"}}}"#,
        undo: "",
        told: &["spec.infrastructure.mariadb.storageSize", "ask for less than the disk has"],
    },
    Change {
        number: 17,
        object: "controlplane lab",
        patch: r#"{"infrastructure": {"mariadb": {"host": "db", "replicas": null, "storageSize": null}}}"#,
        undo: "",
        told: &[
            "spec.infrastructure.mariadb",
            "moves to another server",
            "keep the server, or migrate the data into a new ControlPlane",
        ],
    },
    Change {
        number: 26,
        object: "controlplane lab",
        patch: r#"{"region": "Elsewhere"}"#,
        undo: "",
        told: &["region", "keep it, or create a new ControlPlane"],
    },
    Change {
        number: 27,
        object: "controlplane lab",
        patch: r#"{"infrastructure": {"valkey": {"sentinel": {"enabled": true}}}}"#,
        undo: "",
        told: &["spec.infrastructure.valkey.sentinel.enabled", "keep it, or create a new ControlPlane"],
    },
    Change {
        number: 47,
        object: "keystone keystone",
        patch: r#"{"database": {"database": "other"}}"#,
        undo: "",
        told: &["spec.database", "keep the old name, or create a new object and migrate"],
    },
];

/// Changes that are taken, told, and taken back.
pub const CHANGES: &[Change] = &[
    Change {
        number: 3,
        object: "controlplane lab",
        patch: r#"{"services": {"keystone": {"replicas": 0}}}"#,
        undo: r#"[{"op": "replace", "path": "/spec/services/keystone/replicas", "value": 1}]"#,
        told: &["spec.services.keystone.replicas of controlplane/lab is 0: set it to 1 or more"],
    },
    Change {
        number: 15,
        object: "controlplane lab",
        patch: r#"{"infrastructure": {"mariadb": {"storageClass": "gold"}}}"#,
        undo: r#"[{"op": "remove", "path": "/spec/infrastructure/mariadb/storageClass"}]"#,
        told: &["spec.infrastructure.mariadb.storageClass", "remove it, or restore a backup into a new ControlPlane"],
    },
    Change {
        number: 35,
        object: "controlplane lab",
        patch: r#"{"identity": {"keystone": {"bootstrap": {"adminUser": {"name": "root"}}}}}"#,
        undo: r#"[{"op": "remove", "path": "/spec/identity"}]"#,
        told: &["spec.identity.keystone.bootstrap.adminUser.name", "set it to \"admin\""],
    },
    Change {
        number: 50,
        object: "controlplane lab",
        patch: r#"{"services": {"keystone": {"template": {"scheduling": {"nodeSelector": {"disk": "gold"}}}}}}"#,
        undo: r#"[{"op": "remove", "path": "/spec/services/keystone/template"}]"#,
        told: &[
            "spec.services.keystone.template.scheduling.nodeSelector of controlplane/lab fits no node: correct it, or label a node",
        ],
    },
    Change {
        number: 53,
        object: "controlplane lab",
        patch: r#"{"services": {"keystone": {"template": {"resources": {"requests": {"memory": "20Mi"}, "limits": {"memory": "20Mi"}}}}}}"#,
        undo: r#"[{"op": "remove", "path": "/spec/services/keystone/template"}]"#,
        told: &["used more memory than its limit, 20Mi: raise spec.services.keystone.template.resources.limits.memory"],
    },
];

/// A service that is switched on where its images are not.
pub const NO_IMAGES: Change = Change {
    number: 41,
    object: "controlplane lab",
    patch: r#"{"services": {"neutron": {}}}"#,
    undo: "",
    told: &["ovn:25.03.0 does not exist, or cannot be pulled", "on an embedded cluster `c5c3 image import ovn"],
};

/// Creates every mistake, each in its namespace.
pub fn make(machine: &Machine) {
    for Mistake { namespace, object, beside, .. } in MISTAKES {
        machine.write("astray.yaml", &format!("{beside}{}", object.manifest()));
        machine.ok(&format!("kubectl create namespace {namespace} && kubectl -n {namespace} apply -f astray.yaml"));
    }
    machine.ok("kubectl create namespace cellar");
}

/// Waits until `why` says all of this, and sees that it fits on a screen.
pub fn until_told(machine: &Machine, namespace: &str, told: &[&str]) {
    let begun = Instant::now();
    loop {
        let text = machine.ok(&format!("$C5C3 why --namespace {namespace} || true"));
        if told.iter().all(|part| text.contains(part)) {
            assert!(text.lines().count() <= SCREEN, "more than a screen:\n{text}");
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{namespace}: not told: {told:?}\n{text}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// What a command says that must not succeed.
fn failing(machine: &Machine, command: &str) -> String {
    let said = machine.ok(&format!("if {command}; then echo it was taken; fi 2>&1"));
    assert!(!said.contains("it was taken"), "{command}: {said}");
    said
}

/// `kubectl apply` refuses an object, and names the field.
pub fn refused_by_kubectl(machine: &Machine, number: u8, object: &str, field: &str) {
    machine.write("refused.yaml", object);
    let said = failing(machine, "kubectl -n cellar apply --dry-run=server -f refused.yaml");
    let last = field.rsplit('.').next().unwrap_or(field);
    assert!(said.contains(last), "mistake {number}: {last:?} is not in {said}");
}

fn patch(change: &Change) -> String {
    format!("kubectl -n cloud patch {} --type=merge -p '{{\"spec\": {}}}'", change.object, change.patch)
}

pub fn refused_change(machine: &Machine, change: &Change) {
    let said = failing(machine, &patch(change));
    for part in change.told {
        assert!(said.contains(part), "mistake {}: {part:?} is not in {said}", change.number);
    }
}

/// Mistake 42, which would have two ControlPlanes share a MariaDB.
pub fn second_control_plane(machine: &Machine) {
    machine.write("second.yaml", &Object::Plane("{services: {keystone: {}}}").manifest());
    let said = failing(machine, "kubectl -n cloud apply -f second.yaml");
    assert!(said.contains("already has controlplane/lab") && said.contains("create it in another namespace"), "{said}");
    // Mistake 58: `c5c3 up` starts its operators without the right to do this.
    let sources = "{sources: [{secretRef: {name: a, namespace: cloud}}], target: {name: b}}";
    machine.write("elsewhere.yaml", &Object::Aggregate(sources).manifest());
    let said = failing(machine, "kubectl -n cellar apply -f elsewhere.yaml");
    assert!(said.contains("spec.sources[0].secretRef.namespace") && said.contains("--allow-cross-namespace"), "{said}");
}

/// Mistake 45: a field that the ControlPlane manages is set back, and kubectl says so.
pub fn warned(machine: &Machine) {
    let said = machine
        .ok("kubectl -n cloud patch keystone keystone --type=merge -p '{\"spec\": {\"image\": {\"tag\": \"99.0.0\"}}}' 2>&1");
    assert!(said.contains("Warning: spec.image.tag: controlplane/lab manages this field and sets it back"), "{said}");
    machine.eventually("kubectl -n cloud get keystone keystone -o jsonpath='{.spec.image.tag}'", "28.0.0");
}

pub fn told(machine: &Machine, change: &Change) {
    machine.ok(&patch(change));
    until_told(machine, "cloud", change.told);
}

pub fn told_and_undone(machine: &Machine, change: &Change) {
    told(machine, change);
    machine.ok(&format!("kubectl -n cloud patch {} --type=json -p '{}'", change.object, change.undo));
}
