//! Who a pod of a set is: its name, its place in the order, its labels, its version.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::{Version, spec, volumes};
use crate::pods;

/// The revision that a pod is of.
pub(super) const REVISION: &str = "controller-revision-hash";
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// The first place of a set.
pub(super) fn first(set: &StatefulSet) -> i32 {
    spec(set).ordinals.and_then(|ordinals| ordinals.start).unwrap_or(0)
}

/// The place of a pod in a set. None: its name is not one of the set's.
pub(super) fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    let name = pod.name_any();
    let digits = name.strip_prefix(&set.name_any())?.strip_prefix('-')?;
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    digits.parse().ok().filter(|_| is_plain)
}

/// The name of the pod in a place.
pub(super) fn name(set: &StatefulSet, ordinal: i32) -> String {
    format!("{}-{ordinal}", set.name_any())
}

/// The labels that say who a pod is.
pub(super) fn labels(set: &StatefulSet, ordinal: i32) -> BTreeMap<String, String> {
    [(POD_NAME.to_owned(), name(set, ordinal)), (POD_INDEX.to_owned(), ordinal.to_string())].into()
}

/// Whether a pod carries the labels that say who it is.
pub(super) fn is_labelled(set: &StatefulSet, pod: &Pod) -> bool {
    let Some(ordinal) = ordinal(set, pod) else { return true };
    labels(set, ordinal).iter().all(|(key, value)| pod.labels().get(key) == Some(value))
}

/// Whether a pod is of a version.
pub(super) fn is_of(pod: &Pod, version: &Version) -> bool {
    pod.labels().get(REVISION) == Some(&version.name)
}

/// The pod in a place, to be created.
pub(super) fn pod(set: &StatefulSet, version: &Version, ordinal: i32) -> Pod {
    let mut pod = pods::from_template(&version.template, set);
    let name = name(set, ordinal);
    pod.metadata.generate_name = None;
    pod.metadata.name = Some(name.clone());
    pod.labels_mut().extend(labels(set, ordinal));
    pod.labels_mut().insert(REVISION.into(), version.name.clone());
    let wanted = pod.spec.get_or_insert_default();
    wanted.hostname = Some(name);
    wanted.subdomain = spec(set).service_name.filter(|service| !service.is_empty());
    volumes::mount(set, ordinal, wanted.volumes.get_or_insert_default());
    pod
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set() -> StatefulSet {
        serde_json::from_value(json!({"metadata": {"name": "web", "uid": "s"}, "spec": {
            "serviceName": "web", "selector": {"matchLabels": {"app": "web"}}, "template": {},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}}))
        .unwrap()
    }

    #[test]
    fn a_pod_is_known_by_its_name() {
        let named = |name: &str| {
            let pod: Pod = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            ordinal(&set(), &pod)
        };
        let names = ["web-0", "web-12", "web-a", "web", "webb-0", "web-01", "web-+1", "web-1-0"];
        assert_eq!(names.map(named), [Some(0), Some(12), None, None, None, None, None, None]);
    }

    #[test]
    fn a_pod_is_made_with_its_identity_and_its_volumes() {
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [],
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "other", "emptyDir": {}}]}});
        let version = Version { name: "web-1".into(), template: serde_json::from_value(template).unwrap() };
        let made = serde_json::to_value(pod(&set(), &version, 2)).unwrap();
        assert_eq!(made["metadata"]["name"], "web-2");
        assert_eq!(
            made["metadata"]["labels"],
            json!({"app": "web", POD_NAME: "web-2", POD_INDEX: "2", REVISION: "web-1"})
        );
        assert_eq!((&made["spec"]["hostname"], &made["spec"]["subdomain"]), (&json!("web-2"), &json!("web")));
        assert_eq!(
            made["spec"]["volumes"],
            json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-2", "readOnly": false}},
                {"name": "other", "emptyDir": {}}]),
            "a claim takes the place of what the template has under its name"
        );
    }
}
