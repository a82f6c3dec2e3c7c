//! What is decided about claims and volumes, in tables.

use std::path::Path;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::claims::{Seen, Step, decide};
use super::read::{BIND_COMPLETED, PROVISIONED_BY, SELECTED_NODE};
use super::{local_path, phases, protection};
use crate::testing::{of, with};

fn claim(meta: Value, spec: Value) -> PersistentVolumeClaim {
    let metadata = with(json!({"name": "data", "namespace": "n", "uid": "c-1"}), meta);
    let usual = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}},
                       "storageClassName": "hand"});
    of(json!({"metadata": metadata, "spec": with(usual, spec)}))
}

fn volume(name: &str, size: &str, spec: Value) -> PersistentVolume {
    let usual = json!({"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
                       "storageClassName": "hand", "hostPath": {"path": "/x"}});
    of(json!({"metadata": {"name": name, "labels": {"disk": name}}, "spec": with(usual, spec),
              "status": {"phase": "Available"}}))
}

fn class(name: &str, mode: &str, default: bool) -> StorageClass {
    let annotations = json!({"storageclass.kubernetes.io/is-default-class": default.to_string()});
    of(json!({"metadata": {"name": name, "annotations": annotations}, "provisioner": "p", "volumeBindingMode": mode}))
}

fn told(step: &Step<'_>) -> String {
    match step {
        Step::Wait(None) => "wait".into(),
        Step::Wait(Some((_, reason, _))) => format!("wait {reason}"),
        Step::Classify(class) => format!("classify {class}"),
        Step::Bind(volume) => format!("bind {}", volume.name_any()),
        Step::Provision(class) => format!("provision {}", class.name_any()),
        Step::Lose((_, reason, _)) => format!("lose {reason}"),
    }
}

fn decided(claim: &PersistentVolumeClaim, volumes: &[PersistentVolume]) -> String {
    let classes = [class("now", "Immediate", false), class("later", "WaitForFirstConsumer", true)];
    told(&decide(claim, Seen { volumes, classes: &classes }))
}

#[test]
fn a_claim_gets_the_smallest_volume_that_suits_it() {
    let kept = |uid: Value| json!({"claimRef": {"namespace": "n", "name": "data", "uid": uid}});
    let volumes = vec![
        volume("small", "1Gi", json!({})),
        volume("big", "9Gi", json!({})),
        volume("fit", "3Gi", json!({})),
        volume("block", "2Gi", json!({"volumeMode": "Block"})),
        volume("class", "2Gi", json!({"storageClassName": "other"})),
        volume("taken", "2Gi", json!({"claimRef": {"namespace": "n", "name": "other", "uid": "c-9"}})),
    ];
    let none = json!({});
    let table = vec![
        (claim(none.clone(), none.clone()), "bind fit"),
        (claim(none.clone(), json!({"selector": {"matchLabels": {"disk": "big"}}})), "bind big"),
        (claim(none.clone(), json!({"accessModes": ["ReadWriteMany"]})), "wait ProvisioningFailed"),
        (claim(none.clone(), json!({"storageClassName": ""})), "wait FailedBinding"),
        (claim(none.clone(), json!({"storageClassName": null})), "classify later"),
        (claim(none.clone(), json!({"storageClassName": "now"})), "provision now"),
        (claim(none.clone(), json!({"storageClassName": "later"})), "wait WaitForFirstConsumer"),
        (claim(json!({"annotations": {SELECTED_NODE: "n1"}}), json!({"storageClassName": "later"})), "provision later"),
        // By name.
        (claim(none.clone(), json!({"volumeName": "big"})), "bind big"),
        (claim(none.clone(), json!({"volumeName": "small"})), "wait VolumeMismatch"),
        (claim(none.clone(), json!({"volumeName": "taken"})), "wait FailedBinding"),
        (claim(none.clone(), json!({"volumeName": "missing"})), "wait"),
        // Once bound.
        (claim(json!({"annotations": {BIND_COMPLETED: "yes"}}), json!({"volumeName": "missing"})), "lose ClaimLost"),
        (claim(json!({"annotations": {BIND_COMPLETED: "yes"}}), json!({"volumeName": "taken"})), "lose ClaimMisbound"),
        (claim(json!({"annotations": {BIND_COMPLETED: "yes"}}), none.clone()), "lose ClaimLost"),
        (claim(json!({"deletionTimestamp": "2024-05-01T10:00:00Z"}), none.clone()), "wait"),
    ];
    for (claim, expected) in table {
        assert_eq!(decided(&claim, &volumes), expected, "{:?}", claim.spec);
    }
    let kept = [
        volume("fit", "3Gi", json!({})),
        volume("kept", "9Gi", kept(Value::Null)),
        volume("old", "2Gi", kept(json!("c-0"))),
    ];
    assert_eq!(
        decided(&claim(none.clone(), none), &kept),
        "bind kept",
        "what is kept for a claim goes before what fits"
    );
}

#[test]
fn a_volume_is_what_its_claim_makes_it() {
    let kept = |uid: Value| json!({"claimRef": {"namespace": "n", "name": "data", "uid": uid}});
    let phase = |mut volume: PersistentVolume, phase: &str, policy: &str| {
        volume.status.as_mut().unwrap().phase = Some(phase.into());
        volume.spec.as_mut().unwrap().persistent_volume_reclaim_policy = Some(policy.into());
        volume
    };
    let mine = claim(json!({}), json!({"volumeName": "v"}));
    let elsewhere = claim(json!({}), json!({"volumeName": "w"}));
    let free = claim(json!({}), json!({}));
    let mut made = volume("v", "2Gi", kept(json!("c-1")));
    made.annotations_mut().insert(PROVISIONED_BY.into(), "p".into());
    let bound = || volume("v", "2Gi", kept(json!("c-1")));
    let stale = || volume("v", "2Gi", kept(json!("c-0")));
    let table = vec![
        (volume("v", "2Gi", json!({})), None, phases::Step::Is("Available")),
        (volume("v", "2Gi", kept(Value::Null)), None, phases::Step::Is("Available")),
        (bound(), Some(&mine), phases::Step::Is("Bound")),
        (bound(), Some(&free), phases::Step::Leave),
        (bound(), Some(&elsewhere), phases::Step::Unbind),
        (made, Some(&elsewhere), phases::Step::Reclaim),
        (bound(), None, phases::Step::Is("Released")),
        (stale(), Some(&mine), phases::Step::Is("Released")),
        (phase(bound(), "Released", "Retain"), None, phases::Step::Leave),
        (phase(bound(), "Released", "Delete"), None, phases::Step::Reclaim),
        (phase(bound(), "Failed", "Delete"), None, phases::Step::Leave),
    ];
    for (volume, claim, expected) in table {
        assert_eq!(phases::decide(&volume, claim), expected, "{:?} {claim:?}", volume.spec);
    }
}

#[test]
fn only_folders_that_were_made_here_are_ever_deleted() {
    let folder = Path::new("/data/volumes");
    let wish = claim(json!({}), json!({}));
    let node = of(json!({"metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "host-1"}}}));
    let made = local_path::volume(folder, &wish, &class("now", "Immediate", false), &node);
    let path = local_path::folder_of(folder, &made).unwrap();
    assert_eq!(path, Path::new("/data/volumes/pvc-c-1_n_data"));
    let affinity = made.spec.as_ref().unwrap().node_affinity.clone().unwrap().required.unwrap();
    assert_eq!(
        affinity.node_selector_terms[0].match_expressions.as_ref().unwrap()[0].values,
        Some(vec!["host-1".into()])
    );
    for forged in [
        "/etc",
        "/data/volumes",
        "/data/volumes/../etc",
        "/data/volumes/other_n_data",
        "/data/volumes/pvc-c-1_n/../../etc",
    ] {
        let mut volume = made.clone();
        volume.spec.as_mut().unwrap().host_path.as_mut().unwrap().path = forged.into();
        assert_eq!(local_path::folder_of(folder, &volume), None, "{forged}");
    }
    let mut foreign = made.clone();
    foreign.annotations_mut().insert(PROVISIONED_BY.into(), "somebody.else".into());
    assert_eq!(local_path::folder_of(folder, &foreign), None);
    let shared = claim(json!({}), json!({"accessModes": ["ReadWriteMany"]}));
    let shared = local_path::volume(folder, &shared, &class("now", "Immediate", false), &node);
    assert!(shared.spec.unwrap().node_affinity.is_none(), "what all may write to can be had everywhere");
}

#[test]
fn what_is_used_is_kept() {
    let wish = claim(json!({}), json!({}));
    let pod = |node: Value, volume: Value| -> Pod {
        of(json!({"metadata": {"name": "p"}, "spec": {"containers": [], "nodeName": node, "volumes": [volume]}}))
    };
    let mounted = json!({"name": "v", "persistentVolumeClaim": {"claimName": "data"}});
    assert!(protection::uses(&pod(json!("n1"), mounted.clone()), &wish));
    assert!(!protection::uses(&pod(Value::Null, mounted), &wish), "a pod without a node does not get to");
    let own: Pod = pod(json!("n1"), json!({"name": "scratch", "ephemeral": {}}));
    assert_eq!(protection::claims_of(&own), ["p-scratch"]);
    let held = |finalizers: Value, going: bool| {
        claim(
            json!({"finalizers": finalizers, "deletionTimestamp": going.then_some("2024-05-01T10:00:00Z")}),
            json!({}),
        )
    };
    let wanted = |claim: &PersistentVolumeClaim, needed| protection::wanted(claim, protection::CLAIM, needed);
    assert_eq!(wanted(&held(json!(["x"]), false), true), Some(vec!["x".into(), protection::CLAIM.into()]));
    assert_eq!(wanted(&held(json!(["x", protection::CLAIM]), true), true), None);
    assert_eq!(wanted(&held(json!(["x", protection::CLAIM]), true), false), Some(vec!["x".into()]));
    assert_eq!(wanted(&held(json!(["x"]), true), true), None);
}
