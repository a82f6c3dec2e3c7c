//! The claims of a set's pods: one per template and place, which outlive the pod unless the set says otherwise.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::core::ObjectMeta;

use super::{identity, spec};
use crate::owners::{self, is_going};

/// The name of the claim of a template for a place.
fn claim_name(set: &StatefulSet, template: &PersistentVolumeClaim, ordinal: i32) -> String {
    format!("{}-{}", template.name_any(), identity::name(set, ordinal))
}

fn templates(set: &StatefulSet) -> Vec<PersistentVolumeClaim> {
    spec(set).volume_claim_templates.unwrap_or_default()
}

/// Puts the claims of a place among the volumes of its pod, in front and instead of what has their names.
pub(super) fn mount(set: &StatefulSet, ordinal: i32, volumes: &mut Vec<Volume>) {
    let claims: Vec<Volume> = templates(set)
        .iter()
        .map(|template| Volume {
            name: template.name_any(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim_name(set, template, ordinal),
                read_only: Some(false),
            }),
            ..Volume::default()
        })
        .collect();
    volumes.retain(|volume| claims.iter().all(|claim| claim.name != volume.name));
    volumes.splice(0..0, claims);
}

/// The claims of a place that are not there yet.
pub(super) fn missing(set: &StatefulSet, ordinal: i32, claims: &[PersistentVolumeClaim]) -> Vec<PersistentVolumeClaim> {
    let wanted = templates(set).into_iter().map(|template| fresh(set, template, ordinal));
    wanted.filter(|wanted| claims.iter().all(|claim| claim.name_any() != wanted.name_any())).collect()
}

fn fresh(set: &StatefulSet, template: PersistentVolumeClaim, ordinal: i32) -> PersistentVolumeClaim {
    let mut labels = template.metadata.labels.clone().unwrap_or_default();
    labels.extend(spec(set).selector.match_labels.unwrap_or_default());
    let mut claim = PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(claim_name(set, &template, ordinal)),
            namespace: set.namespace(),
            labels: Some(labels),
            annotations: template.metadata.annotations.clone(),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    };
    claim.metadata.owner_references = owners_of(set, &claim, None, false);
    claim
}

/// The claims that are there of a place.
fn of<'c>(
    set: &StatefulSet,
    ordinal: i32,
    claims: &'c [PersistentVolumeClaim],
) -> impl Iterator<Item = &'c PersistentVolumeClaim> {
    let names: Vec<String> = templates(set).iter().map(|template| claim_name(set, template, ordinal)).collect();
    claims.iter().filter(move |claim| names.contains(&claim.name_any()))
}

/// Whether a claim of a place is about to go with a pod that is gone: a new pod must not take it.
pub(super) fn are_stale(set: &StatefulSet, ordinal: i32, claims: &[PersistentVolumeClaim]) -> bool {
    let pod = identity::name(set, ordinal);
    let of_a_pod = |owner: &OwnerReference| owner.kind == "Pod" && owner.name == pod;
    of(set, ordinal, claims).any(|claim| is_going(&claim.metadata) || claim.owner_references().iter().any(of_a_pod))
}

/// The claims of a pod with the owners that they should have, where they have others.
pub(super) fn to_own(
    set: &StatefulSet,
    pod: &Pod,
    condemned: bool,
    claims: &[PersistentVolumeClaim],
) -> Vec<PersistentVolumeClaim> {
    let Some(ordinal) = identity::ordinal(set, pod) else { return Vec::new() };
    let owned = |claim: &PersistentVolumeClaim| {
        let owners = owners_of(set, claim, Some(pod), condemned);
        (owners.as_deref().unwrap_or_default() != claim.owner_references()).then(|| {
            let mut claim = claim.clone();
            claim.metadata.owner_references = owners;
            claim
        })
    };
    of(set, ordinal, claims).filter_map(owned).collect()
}

/// Who should own a claim. What goes with the set is the set's; what goes when the set shrinks is the pod's that goes.
/// A claim that has another controller is left to it.
fn owners_of(
    set: &StatefulSet,
    claim: &PersistentVolumeClaim,
    pod: Option<&Pod>,
    condemned: bool,
) -> Option<Vec<OwnerReference>> {
    let policy = spec(set).persistent_volume_claim_retention_policy.unwrap_or_default();
    let goes_with_set = policy.when_deleted.as_deref() == Some("Delete");
    let goes_with_pod = policy.when_scaled.as_deref() == Some("Delete") && condemned;
    let is_ours = |owner: &OwnerReference| {
        Some(&owner.uid) == set.metadata.uid.as_ref()
            || (owner.kind == "Pod" && pod.is_some_and(|pod| pod.name_any() == owner.name))
    };
    let current = claim.metadata.owner_references.clone().unwrap_or_default();
    if current.iter().any(|owner| owner.controller == Some(true) && !is_ours(owner)) {
        return Some(current);
    }
    let mut wanted: Vec<OwnerReference> = current.into_iter().filter(|owner| !is_ours(owner)).collect();
    match pod {
        Some(pod) if goes_with_pod => wanted.push(owners::reference(pod)),
        _ if goes_with_set => wanted.push(owners::reference(set)),
        _ => {}
    }
    Some(wanted).filter(|owners| !owners.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(policy: &Value) -> StatefulSet {
        serde_json::from_value(json!({"metadata": {"name": "web", "uid": "s", "namespace": "n"}, "spec": {
            "serviceName": "web", "selector": {"matchLabels": {"app": "web"}}, "template": {},
            "persistentVolumeClaimRetentionPolicy": policy,
            "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": {"tier": "gold"}}, "spec": {"storageClassName": "c"}}]}}))
        .unwrap()
    }

    #[test]
    fn a_claim_carries_the_labels_of_its_template_and_of_the_selector() {
        let made = missing(&set(&json!({})), 3, &[]);
        assert_eq!(
            serde_json::to_value(&made[0]).unwrap(),
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data-web-3", "namespace": "n", "labels": {"app": "web", "tier": "gold"}},
                "spec": {"storageClassName": "c"}})
        );
        assert!(missing(&set(&json!({})), 3, &made).is_empty());
    }

    #[test]
    fn who_owns_a_claim_follows_from_when_it_is_to_go() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "web-0", "uid": "p"}})).unwrap();
        for (deleted, scaled, condemned, owner) in [
            ("Retain", "Retain", false, ""),
            ("Retain", "Retain", true, ""),
            ("Delete", "Retain", false, "s"),
            ("Delete", "Retain", true, "s"),
            ("Retain", "Delete", false, ""),
            ("Retain", "Delete", true, "p"),
            ("Delete", "Delete", false, "s"),
            ("Delete", "Delete", true, "p"),
        ] {
            let set = set(&json!({"whenDeleted": deleted, "whenScaled": scaled}));
            for before in ["", "s", "p"] {
                let mut claim = missing(&set, 0, &[]).remove(0);
                claim.metadata.owner_references = match before {
                    "s" => Some(vec![owners::reference(&set)]),
                    "p" => Some(vec![owners::reference(&pod)]),
                    _ => None,
                };
                let changed = to_own(&set, &pod, condemned, std::slice::from_ref(&claim));
                let after = changed.first().unwrap_or(&claim).owner_references();
                let after = after.iter().map(|owner| owner.uid.as_str()).collect::<Vec<_>>().join(",");
                assert_eq!(after, owner, "{deleted}, {scaled}, {condemned}, owned by {before:?}");
                assert_eq!(changed.is_empty(), before == owner);
            }
        }
    }

    #[test]
    fn a_claim_that_goes_with_a_pod_that_is_gone_is_not_taken() {
        let set = set(&json!({"whenScaled": "Delete"}));
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "web-0", "uid": "p"}})).unwrap();
        let mut claim = missing(&set, 0, &[]).remove(0);
        assert!(!are_stale(&set, 0, std::slice::from_ref(&claim)));
        claim.metadata.owner_references = Some(vec![owners::reference(&pod)]);
        assert!(are_stale(&set, 0, std::slice::from_ref(&claim)));
        assert!(!are_stale(&set, 1, &[claim]));
    }
}
