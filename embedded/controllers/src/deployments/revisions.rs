//! Which ReplicaSet is the deployment's new one, and the annotations that tell its history.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::ResourceExt;
use kube::core::ObjectMeta;

use super::TEMPLATE_HASH;
use super::scaling::{max_surge, replicas};
use crate::hash;
use crate::owners;

/// Which of a deployment's templates a ReplicaSet is.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// Which ones it was before it was rolled back to.
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// How many pods the deployment asked for when the ReplicaSet was last resized.
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// How many there could be at most then.
pub(super) const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";
/// The history that is kept in an annotation is no longer than that.
const LONGEST_HISTORY: usize = 2000;

/// What a deployment's annotations have that its ReplicaSets do not get.
const OWN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAXIMUM,
    "deprecated.daemonset.template.generation",
];

/// A number in an annotation of a ReplicaSet.
pub(super) fn number(set: &ReplicaSet, annotation: &str) -> Option<i32> {
    set.annotations().get(annotation)?.parse().ok()
}

/// The revision of a ReplicaSet.
pub(super) fn revision(set: &ReplicaSet) -> i64 {
    set.annotations().get(REVISION).and_then(|revision| revision.parse().ok()).unwrap_or(0)
}

/// The ReplicaSet of the deployment's template, and all others, the oldest first.
pub(super) fn split(deployment: &Deployment, mut sets: Vec<ReplicaSet>) -> (Option<ReplicaSet>, Vec<ReplicaSet>) {
    sets.sort_by_key(|set| (set.creation_timestamp().map(|time| time.0), set.name_any()));
    // Of two with the same template the older one is it, so that it is always the same.
    let found = sets.iter().position(|set| has_template(deployment, set));
    (found.map(|index| sets.remove(index)), sets)
}

/// Whether a ReplicaSet is of the deployment's template. The hash does not count: it may be another's after a collision.
pub(super) fn has_template(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let own = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
    let wanted = deployment.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    without_hash(own) == without_hash(wanted)
}

fn without_hash(mut template: PodTemplateSpec) -> PodTemplateSpec {
    if let Some(labels) = template.metadata.as_mut().and_then(|meta| meta.labels.as_mut()) {
        labels.remove(TEMPLATE_HASH);
    }
    template
}

/// The ReplicaSet of the deployment's template, to be created with that many pods.
pub(super) fn fresh(deployment: &Deployment, old: &[ReplicaSet], size: i32) -> Result<ReplicaSet, serde_json::Error> {
    let spec = deployment.spec.clone().unwrap_or_default();
    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count);
    let hash = hash::of(&spec.template, collisions)?;
    let mut template = spec.template;
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(TEMPLATE_HASH.into(), hash.clone());
    let mut selector = spec.selector;
    selector.match_labels.get_or_insert_default().insert(TEMPLATE_HASH.into(), hash.clone());
    let set = ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", deployment.name_any())),
            namespace: deployment.namespace(),
            labels: Some(labels.clone()),
            owner_references: Some(vec![owners::reference(deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(size),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        }),
        status: None,
    };
    Ok(sized(deployment, annotated(deployment, set, old), size))
}

/// A ReplicaSet resized for its deployment.
pub(super) fn sized(deployment: &Deployment, mut set: ReplicaSet, size: i32) -> ReplicaSet {
    let wanted = replicas(deployment);
    let annotations = set.annotations_mut();
    annotations.insert(DESIRED.into(), wanted.to_string());
    annotations.insert(MAXIMUM.into(), (wanted + max_surge(deployment)).to_string());
    set.spec.get_or_insert_default().replicas = Some(size);
    set
}

/// The new ReplicaSet with what it takes over from its deployment, and the revision that follows the old ones'.
pub(super) fn annotated(deployment: &Deployment, mut set: ReplicaSet, old: &[ReplicaSet]) -> ReplicaSet {
    let next = old.iter().map(revision).max().unwrap_or(0) + 1;
    let before = revision(&set);
    let inherited = deployment.annotations().iter().filter(|(key, _)| !OWN.contains(&key.as_str()));
    let annotations = set.annotations_mut();
    annotations.extend(inherited.map(|(key, value)| (key.clone(), value.clone())));
    if before < next {
        let former = annotations.insert(REVISION.into(), next.to_string());
        if let Some(former) = former.filter(|former| !former.is_empty()) {
            remember(annotations, &former);
        }
    }
    let seconds = deployment.spec.as_ref().and_then(|spec| spec.min_ready_seconds);
    if set.spec.as_ref().is_some_and(|spec| spec.min_ready_seconds.unwrap_or(0) != seconds.unwrap_or(0)) {
        set.spec.get_or_insert_default().min_ready_seconds = seconds;
    }
    set
}

/// Adds a revision to the history in an annotation, and drops the oldest until it fits.
fn remember(annotations: &mut BTreeMap<String, String>, former: &str) {
    let history = annotations.remove(HISTORY).filter(|history| !history.is_empty());
    let mut revisions: Vec<&str> = history.iter().flat_map(|history| history.split(',')).chain([former]).collect();
    while revisions.len() > 1 && revisions.join(",").len() > LONGEST_HISTORY {
        revisions.remove(0);
    }
    annotations.insert(HISTORY.into(), revisions.join(","));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(image: &str) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"name": "press", "uid": "d", "annotations": {"team": "juice", REVISION: "9"}},
            "spec": {"replicas": 4, "minReadySeconds": 5, "selector": {"matchLabels": {"app": "press"}},
                "template": {"metadata": {"labels": {"app": "press"}}, "spec": {"containers": [{"name": "c", "image": image}]}}},
        }))
        .unwrap()
    }

    #[test]
    fn a_fresh_set_carries_the_hash_of_its_template() {
        let deployment = deployment("press:1");
        let set = fresh(&deployment, &[], 3).unwrap();
        let hash = set.labels()[TEMPLATE_HASH].clone();
        assert_eq!(set.name_any(), format!("press-{hash}"));
        let spec = set.spec.clone().unwrap();
        assert_eq!(spec.selector.match_labels.unwrap()[TEMPLATE_HASH], hash);
        assert_eq!(spec.template.unwrap().metadata.unwrap().labels.unwrap()[TEMPLATE_HASH], hash);
        assert_eq!((spec.replicas, spec.min_ready_seconds), (Some(3), Some(5)));
        let expected = [("team", "juice"), (REVISION, "1"), (DESIRED, "4"), (MAXIMUM, "5")];
        let mut deployment_without_strategy = deployment;
        deployment_without_strategy.spec.as_mut().unwrap().strategy =
            serde_json::from_value(json!({"rollingUpdate": {"maxSurge": 1}})).unwrap();
        let set = fresh(&deployment_without_strategy, &[], 3).unwrap();
        assert_eq!(*set.annotations(), expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        assert!(has_template(&deployment_without_strategy, &set));
    }

    #[test]
    fn a_rollback_makes_the_old_set_the_newest_and_remembers_what_it_was() {
        let first = fresh(&deployment("press:1"), &[], 1).unwrap();
        let second = fresh(&deployment("press:2"), std::slice::from_ref(&first), 1).unwrap();
        assert_eq!((revision(&first), revision(&second)), (1, 2));
        let (new, old) = split(&deployment("press:1"), vec![first, second]);
        let again = annotated(&deployment("press:1"), new.unwrap(), &old);
        assert_eq!((revision(&again), again.annotations()[HISTORY].as_str()), (3, "1"));
        assert_eq!(annotated(&deployment("press:1"), again.clone(), &old), again, "once");
    }

    #[test]
    fn a_history_never_grows_beyond_an_annotation() {
        let mut annotations = BTreeMap::new();
        for revision in 0..2000 {
            remember(&mut annotations, &revision.to_string());
        }
        let history = &annotations[HISTORY];
        assert!(history.len() <= LONGEST_HISTORY && history.ends_with(",1999"));
    }
}
