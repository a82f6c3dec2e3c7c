//! The sixty mistakes and the faults of the first hour. Each mistake is refused by `kubectl apply`, warned of, or explained by `c5c3
//! why` with object, field and remedy on one screen; each fault heals, or is explained. With real containers, beside a cloud that is
//! well and goes on running.

#[path = "../cloud/mod.rs"]
mod cloud;
mod explained;
mod faults;
#[path = "../machine/mod.rs"]
mod machine;
mod refused;

use std::collections::BTreeSet;

use cloud::Cloud;
use explained::{CHANGES, MISTAKES, NO_IMAGES, REFUSED_CHANGES};
use machine::Machine;

/// The cloud that is well.
const CLOUD: &str = "
apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata: {name: lab, namespace: cloud}
spec:
  infrastructure:
    mariadb: {replicas: 1, storageSize: 1Gi}
    rabbitmq: {replicas: 1, storageSize: 1Gi, resources: {requests: {cpu: 50m, memory: 384Mi}}}
    valkey: {replicas: 1, sentinel: {enabled: false}}
    memcached: {replicas: 1, memory: 64Mi}
  services:
    keystone: {replicas: 1}
";

/// Every pod of the cloud that is well, with its uid and how often its containers were started.
fn running(machine: &Machine) -> String {
    let each =
        "{range .items[*]}{.metadata.name} {.metadata.uid} {.status.containerStatuses[*].restartCount}{\"\\n\"}{end}";
    machine.ok(&format!("kubectl -n cloud get pods --field-selector=status.phase=Running -o jsonpath='{each}'"))
}

fn is_well(machine: &Machine) {
    // Both at once: right after a fault the status may be that of before.
    let ask = "kubectl get --raw /api/v1/namespaces/cloud/services/keystone:5000/proxy/v3 >/dev/null && echo answers";
    machine.eventually(&format!("$C5C3 why --namespace cloud && {ask}"), "all is ready\nanswers");
}

/// Mistakes that have a function of their own, and one that needs a cloud after an upgrade: crates/service/tests/layer.rs has it.
const OTHERS: &[(u8, &str)] = &[
    (39, "an older release after an upgrade"),
    (42, "a second ControlPlane in a namespace"),
    (45, "a field that the ControlPlane manages"),
    (58, "a Secret of another namespace"),
];

#[test]
fn no_mistake_is_left_out() {
    let refused: Vec<u8> = refused::rows().into_iter().map(|(number, ..)| number).collect();
    let changes = CHANGES.iter().chain(REFUSED_CHANGES).chain([&NO_IMAGES]).map(|change| change.number);
    let mistakes = MISTAKES.iter().map(|mistake| mistake.number);
    let elsewhere = OTHERS.iter().map(|(number, _)| *number);
    let numbers: BTreeSet<u8> = refused.into_iter().chain(changes).chain(mistakes).chain(elsewhere).collect();
    let missing: Vec<u8> = (1..=60).filter(|number| !numbers.contains(number)).collect();
    assert_eq!(missing, Vec::<u8>::new());
}

#[test]
fn mistakes_and_faults_are_refused_explained_or_healed_and_what_ran_goes_on() {
    let Cloud { machine, .. } = Cloud::on(Machine::up_late_to_ready(CLOUD));
    is_well(&machine);
    let before = running(&machine);
    explained::make(&machine);
    for (number, object, field, _) in refused::rows() {
        explained::refused_by_kubectl(&machine, number, &object, field);
    }
    for change in REFUSED_CHANGES {
        explained::refused_change(&machine, change);
    }
    explained::second_control_plane(&machine);
    explained::warned(&machine);
    for mistake in MISTAKES {
        explained::until_told(&machine, mistake.namespace, mistake.told);
    }
    is_well(&machine);
    assert_eq!(running(&machine), before, "what ran goes on running");

    for change in CHANGES {
        explained::told_and_undone(&machine, change);
        is_well(&machine);
    }
    for fault in faults::FAULTS {
        fault.happen(&machine);
        is_well(&machine);
    }
    faults::the_network_is_closed(&machine);
    is_well(&machine);
    // Last: its users of Keystone stay.
    explained::told(&machine, &NO_IMAGES);
}
