//! Which nodes a set's pods may run on, and the pod for a node.

use c5c3_kinds::selector::meets;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Taint,
    Toleration,
};
use kube::ResourceExt;

use super::{HASH, spec};
use crate::pods;

const NODE_NAME: &str = "metadata.name";
/// What older clients count a set's templates by. Pods carry it if the set does.
const GENERATION: &str = "deprecated.daemonset.template.generation";

/// What a node says to a set's pods.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// There should be one.
    Run,
    /// There should be none, but one that is there may stay.
    Stay,
    /// There should be none.
    Leave,
}

/// The pod for a node: bound to it by affinity, so that the scheduler still counts it, and unmoved by what may befall a
/// node.
pub(super) fn pod(set: &DaemonSet, hash: &str, node: &str) -> Pod {
    let mut pod = pods::from_template(&spec(set).template, set);
    pod.labels_mut().insert(HASH.into(), hash.into());
    if let Some(generation) = set.annotations().get(GENERATION) {
        pod.labels_mut().insert("pod-template-generation".into(), generation.clone());
    }
    let wanted = pod.spec.get_or_insert_default();
    tolerate(wanted);
    let by_name =
        NodeSelectorRequirement { key: NODE_NAME.into(), operator: "In".into(), values: Some(vec![node.into()]) };
    let affinity: &mut Affinity = wanted.affinity.get_or_insert_default();
    let affinity: &mut NodeAffinity = affinity.node_affinity.get_or_insert_default();
    affinity.required_during_scheduling_ignored_during_execution = Some(NodeSelector {
        node_selector_terms: vec![NodeSelectorTerm { match_fields: Some(vec![by_name]), match_expressions: None }],
    });
    pod
}

/// The node that a pod is on, or is bound for.
pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    let spec = pod.spec.as_ref()?;
    if let Some(node) = spec.node_name.as_deref().filter(|node| !node.is_empty()) {
        return Some(node);
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let fields = required.node_selector_terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    let mut names = fields.filter(|field| field.key == NODE_NAME && field.operator == "In");
    names.next()?.values.as_ref()?.first().map(String::as_str)
}

/// Adds the tolerations that keep a daemon where it is, whatever befalls its node.
fn tolerate(spec: &mut PodSpec) {
    let befalls = [
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ];
    // What needs no pod network does not wait for it.
    let network = (spec.host_network == Some(true)).then_some(("node.kubernetes.io/network-unavailable", "NoSchedule"));
    let tolerations = spec.tolerations.get_or_insert_default();
    for (key, effect) in befalls.into_iter().chain(network) {
        let toleration = Toleration {
            key: Some(key.into()),
            operator: Some("Exists".into()),
            effect: Some(effect.into()),
            ..Toleration::default()
        };
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
}

/// What a node says to the pods of a set.
pub(super) fn judge(set: &DaemonSet, node: &Node) -> Verdict {
    let mut wanted = spec(set).template.spec.unwrap_or_default();
    tolerate(&mut wanted);
    let named = wanted.node_name.as_deref().filter(|name| !name.is_empty());
    if named.is_some_and(|name| name != node.name_any()) || !is_selected(&wanted, node) {
        return Verdict::Leave;
    }
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let tolerations = wanted.tolerations.unwrap_or_default();
    let hurts = |effect: &str| {
        let mut taints = taints.iter().filter(|taint| taint.effect == effect);
        taints.any(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
    };
    match () {
        () if hurts("NoExecute") => Verdict::Leave,
        () if hurts("NoSchedule") => Verdict::Stay,
        () => Verdict::Run,
    }
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let is_any = |text: &Option<String>| text.as_deref().is_none_or(str::is_empty);
    let exists = toleration.operator.as_deref() == Some("Exists");
    (is_any(&toleration.effect) || toleration.effect.as_ref() == Some(&taint.effect))
        && ((is_any(&toleration.key) && exists) || toleration.key.as_ref() == Some(&taint.key))
        && (exists || toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default())
}

/// Whether a pod's selector and the affinity that it requires select a node.
fn is_selected(spec: &PodSpec, node: &Node) -> bool {
    let selector = spec.node_selector.iter().flatten();
    if !selector.into_iter().all(|(key, value)| node.labels().get(key) == Some(value)) {
        return false;
    }
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_none_or(|required| required.node_selector_terms.iter().any(|term| matches(term, node)))
}

/// Whether a term selects a node. One that says nothing selects none.
fn matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let labels = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let name = node.name_any();
    let field = |key: &str| (key == NODE_NAME).then_some(name.as_str());
    !(labels.is_empty() && fields.is_empty())
        && labels.iter().all(|one| holds(one, node.labels().get(&one.key).map(String::as_str)))
        && fields.iter().all(|one| holds(one, field(&one.key)))
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    meets(value, &requirement.operator, requirement.values.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(pod: &Value) -> DaemonSet {
        serde_json::from_value(
            json!({"metadata": {"name": "d", "uid": "d"}, "spec": {"selector": {}, "template": {"spec": pod}}}),
        )
        .unwrap()
    }

    fn node(taints: &Value) -> Node {
        serde_json::from_value(
            json!({"metadata": {"name": "n1", "labels": {"disk": "ssd", "cores": "8"}}, "spec": {"taints": taints}}),
        )
        .unwrap()
    }

    fn affine(expressions: &Value, fields: &Value) -> Value {
        json!({"containers": [], "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": expressions, "matchFields": fields}]}}}})
    }

    #[test]
    fn a_node_is_judged_by_selectors_affinity_and_taints() {
        let plain = json!({"containers": []});
        let tainted = |key: &str, effect: &str| json!([{"key": key, "effect": effect, "value": "v"}]);
        let tolerant = json!({"containers": [], "tolerations": [{"key": "own", "value": "v"}]});
        let expression =
            |operator: &str, values: &Value| json!([{"key": "cores", "operator": operator, "values": values}]);
        for (pod, taints, expected) in [
            (plain.clone(), json!([]), Verdict::Run),
            (json!({"containers": [], "nodeSelector": {"disk": "ssd"}}), json!([]), Verdict::Run),
            (json!({"containers": [], "nodeSelector": {"disk": "hdd"}}), json!([]), Verdict::Leave),
            (json!({"containers": [], "nodeName": "n2"}), json!([]), Verdict::Leave),
            (affine(&expression("In", &json!(["8"])), &json!([])), json!([]), Verdict::Run),
            (affine(&expression("NotIn", &json!(["8"])), &json!([])), json!([]), Verdict::Leave),
            (affine(&expression("Gt", &json!(["4"])), &json!([])), json!([]), Verdict::Run),
            (affine(&expression("Lt", &json!(["4"])), &json!([])), json!([]), Verdict::Leave),
            (
                affine(&json!([]), &json!([{"key": "metadata.name", "operator": "In", "values": ["n1"]}])),
                json!([]),
                Verdict::Run,
            ),
            (affine(&json!([]), &json!([])), json!([]), Verdict::Leave),
            (plain.clone(), tainted("own", "NoSchedule"), Verdict::Stay),
            (plain.clone(), tainted("own", "NoExecute"), Verdict::Leave),
            (plain.clone(), tainted("own", "PreferNoSchedule"), Verdict::Run),
            (tolerant, tainted("own", "NoExecute"), Verdict::Run),
            (plain.clone(), tainted("node.kubernetes.io/unreachable", "NoExecute"), Verdict::Run),
            (plain.clone(), tainted("node.kubernetes.io/unschedulable", "NoSchedule"), Verdict::Run),
            (plain, tainted("node.kubernetes.io/network-unavailable", "NoSchedule"), Verdict::Stay),
            (
                json!({"containers": [], "hostNetwork": true}),
                tainted("node.kubernetes.io/network-unavailable", "NoSchedule"),
                Verdict::Run,
            ),
        ] {
            assert_eq!(judge(&set(&pod), &node(&taints)), expected, "{pod} on {taints}");
        }
    }

    #[test]
    fn a_pod_is_bound_for_its_node_whatever_affinity_selected_it() {
        let set = set(&affine(&json!([{"key": "disk", "operator": "Exists"}]), &json!([])));
        let made = pod(&set, "h", "n1");
        assert_eq!((node_of(&made), made.labels()[HASH].as_str()), (Some("n1"), "h"));
        let text = serde_json::to_value(&made).unwrap();
        let terms = &text["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(
            *terms,
            json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]})
        );
        assert_eq!(text["spec"]["tolerations"].as_array().unwrap().len(), 6);
    }
}
