//! A ControlPlane that cannot work says so: `c5c3 why` names object, field and remedy on one screen, and what ran goes on
//! running. With real containers, beside a cloud that is well.

mod cloud;
mod machine;

use std::time::{Duration, Instant};

use cloud::Cloud;
use machine::Machine;

/// The cloud that is well: no more of it than can be led astray.
const CLOUD: &str = "
apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata: {name: lab, namespace: cloud}
spec:
  infrastructure:
    mariadb: {replicas: 1, storageSize: 1Gi}
    memcached: {replicas: 1, memory: 64Mi}
  services:
    keystone: {replicas: 1}
";

/// The most lines that one screen has.
const SCREEN: usize = 24;

/// How long it may take until a mistake is told, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// Something that cannot work, in a namespace of its own.
struct Mistake {
    namespace: &'static str,
    objects: &'static str,
    /// Object, field and remedy.
    told: &'static [&'static str],
}

const ACCOUNT: &str = "
apiVersion: v1
kind: Secret
metadata: {name: keystone-db-credentials}
stringData: {username: keystone, password: not-used}
";

const MISTAKES: &[Mistake] = &[
    Mistake {
        namespace: "wrong-class",
        objects: "
apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata: {name: astray}
spec:
  infrastructure: {mariadb: {replicas: 1, storageClass: gold}, memcached: {replicas: 1, memory: 64Mi}}
  services: {keystone: {}}
",
        told: &[
            "storageclass/gold",
            "spec.infrastructure.mariadb.storageClass names it",
            "change the field to one of them, or create this one",
        ],
    },
    Mistake {
        namespace: "no-secret",
        objects: "
apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata: {name: astray}
spec:
  infrastructure: {mariadb: {host: 127.0.0.1}, memcached: {servers: ['127.0.0.1:11211']}}
  services: {keystone: {}}
",
        told: &[
            "secret/keystone-db-credentials",
            "spec.infrastructure.mariadb.host",
            "kubectl create secret generic keystone-db-credentials -n no-secret --from-literal=username=",
        ],
    },
    Mistake {
        namespace: "no-database",
        objects: "
apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata: {name: astray}
spec:
  infrastructure: {mariadb: {host: 127.0.0.1, port: 3307}, memcached: {servers: ['127.0.0.1:11211']}}
  services: {keystone: {replicas: 1}}
",
        told: &[
            "job/keystone-db-sync-",
            "cannot reach 127.0.0.1:3307: Connection refused",
            "spec.infrastructure.mariadb.host of controlplane/astray names it: correct it",
        ],
    },
    Mistake {
        namespace: "no-image",
        objects: "
apiVersion: keystone.openstack.c5c3.io/v1alpha1
kind: Keystone
metadata: {name: astray}
spec:
  image: {repository: ghcr.io/c5c3/keystone, tag: 28.0.99}
  database: {host: 127.0.0.1, database: keystone, secretRef: {name: keystone-db-credentials}}
  cache: {servers: ['127.0.0.1:11211']}
---
apiVersion: v1
kind: Secret
metadata: {name: keystone-admin-credentials}
stringData: {password: not-used}
",
        told: &[
            "ghcr.io/c5c3/keystone:28.0.99 does not exist, or cannot be pulled",
            "spec.image of keystone/astray names it: correct it, or provide the image",
        ],
    },
    Mistake {
        namespace: "no-operator",
        objects: "
apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata: {name: astray}
spec:
  storage: {storageClusters: [ceph-a]}
",
        told: &[
            "controlplane/astray",
            "spec.storage.storageClusters, and no operator of this version acts on it",
            "remove it",
        ],
    },
];

/// Waits until `why` says all of this, and sees that it fits on a screen.
fn until_told(machine: &Machine, namespace: &str, told: &[&str]) {
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

/// Every pod of the cloud that is well, with its uid and how often its containers were started.
fn running(machine: &Machine) -> String {
    let each =
        "{range .items[*]}{.metadata.name} {.metadata.uid} {.status.containerStatuses[*].restartCount}{\"\\n\"}{end}";
    machine.ok(&format!("kubectl -n cloud get pods --field-selector=status.phase=Running -o jsonpath='{each}'"))
}

fn is_well(machine: &Machine) {
    machine.eventually("$C5C3 why --namespace cloud", "all is ready");
    machine.ok("kubectl get --raw /api/v1/namespaces/cloud/services/keystone:5000/proxy/v3");
}

/// Tries to change an object of the cloud that is well, and sees that the API server refuses it with these words.
fn refused(machine: &Machine, object: &str, field: &str, change: &str, told: &[&str]) {
    let spec = field.rsplit('.').fold(change.to_owned(), |inner, name| format!("{{\"{name}\": {inner}}}"));
    let patch = format!("kubectl -n cloud patch {object} --type=merge -p '{{\"spec\": {spec}}}'");
    let said = machine.ok(&format!("if {patch}; then echo it was taken; fi 2>&1"));
    assert!(!said.contains("it was taken"), "{object}: {said}");
    for part in told {
        assert!(said.contains(part), "{object}: {part:?} is not in {said}");
    }
}

#[test]
fn a_mistake_is_told_with_object_field_and_remedy_and_what_ran_goes_on() {
    let Cloud { machine, .. } = Cloud::on(Machine::up_late_to_ready(CLOUD));
    is_well(&machine);
    let before = running(&machine);
    for Mistake { namespace, objects, .. } in MISTAKES {
        let account = if *namespace == "no-secret" { "" } else { ACCOUNT };
        machine.write("astray.yaml", &format!("{account}---{objects}"));
        machine.ok(&format!("kubectl create namespace {namespace} && kubectl -n {namespace} apply -f astray.yaml"));
    }
    refused(&machine, "controlplane lab", "infrastructure.mariadb.replicas", "2", &["is even", "use an odd number"]);
    for Mistake { namespace, told, .. } in MISTAKES {
        until_told(&machine, namespace, told);
    }
    is_well(&machine);

    // The rules of operators are those of the webhooks too.
    refused(
        &machine,
        "controlplane lab",
        "services.keystone.policyOverrides",
        "{\"rules\": {\"identity:list_users\": \"role:admin or\"}}",
        &["spec.services.keystone.policyOverrides.rules.identity:list_users"],
    );
    refused(
        &machine,
        "keystone keystone",
        "extraConfig",
        "{\"token\": {\"expirations\": \"7200\"}}",
        &["spec.extraConfig.token.expirations", "expiration"],
    );
    assert_eq!(running(&machine), before, "what ran goes on running");
}
