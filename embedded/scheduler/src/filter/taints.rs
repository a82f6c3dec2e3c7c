//! Cordons and taints, and what pods tolerate.

use k8s_openapi::api::core::v1::{Taint, Toleration};

use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::reason::Reason;

/// The taint that a cordon is; who tolerates it does not mind the cordon.
const CORDON: &str = "node.kubernetes.io/unschedulable";

/// Whether the node is cordoned.
pub(super) fn cordoned(pod: &Pod, node: &Node) -> Option<Reason> {
    let cordon = Taint { key: CORDON.into(), effect: "NoSchedule".into(), ..Taint::default() };
    (node.is_cordoned && !is_tolerated(&cordon, &pod.wants.tolerations)).then_some(Reason::Cordoned)
}

/// The first taint that keeps the pod away.
pub(super) fn untolerated(pod: &Pod, node: &Node) -> Option<Reason> {
    let keeps_away = |taint: &&Taint| {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute") && !is_tolerated(taint, &pod.wants.tolerations)
    };
    let taint = node.taints.iter().find(keeps_away)?;
    Some(Reason::Taint { key: taint.key.clone(), value: taint.value.clone().unwrap_or_default() })
}

/// How many taints had rather not have the pod.
pub fn reluctance(pod: &Pod, node: &Node) -> usize {
    // Only tolerations of this effect, or of all, count here: upstream does not let others speak for it.
    let tolerations: Vec<Toleration> = pod
        .wants
        .tolerations
        .iter()
        .filter(|toleration| matches!(toleration.effect.as_deref(), None | Some("" | "PreferNoSchedule")))
        .cloned()
        .collect();
    let soft = node.taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
    soft.filter(|taint| !is_tolerated(taint, &tolerations)).count()
}

fn is_tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|toleration| {
        let said = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let is_effect = said(&toleration.effect).is_none_or(|effect| effect == taint.effect);
        let is_key = said(&toleration.key).is_none_or(|key| key == taint.key);
        let is_value = match toleration.operator.as_deref() {
            Some("Exists") => true,
            Some("Equal" | "") | None => said(&toleration.value) == said(&taint.value),
            _ => false,
        };
        is_effect && is_key && is_value
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::Cluster;

    fn tainted(effect: &str) -> Cluster {
        Cluster::default().node("oak", json!({}), json!({"taints": [{"key": "gpu", "value": "yes", "effect": effect}]}))
    }

    fn tolerating(toleration: Value) -> Value {
        json!({"spec": {"tolerations": [toleration]}})
    }

    #[test]
    fn a_taint_keeps_away_who_does_not_tolerate_it() {
        let said = tainted("NoSchedule").says_first(json!({}));
        assert_eq!(said, "0/1 nodes are available: 1 node(s) had untolerated taint {gpu: yes}.");
        assert_eq!(tainted("NoExecute").suitable(json!({})), "");
        assert_eq!(tainted("PreferNoSchedule").suitable(json!({})), "oak");
    }

    #[test]
    fn a_toleration_matches_by_key_value_and_effect() {
        let cases = [
            (json!({"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}), true),
            (json!({"key": "gpu", "value": "yes"}), true),
            (json!({"key": "gpu", "value": "no"}), false),
            (json!({"key": "gpu"}), false),
            (json!({"key": "gpu", "operator": "Exists"}), true),
            (json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"key": "cpu", "operator": "Exists"}), false),
            (json!({"operator": "Exists"}), true),
        ];
        for (toleration, wanted) in cases {
            let is_tolerated = tainted("NoSchedule").suitable(tolerating(toleration.clone())) == "oak";
            assert_eq!(is_tolerated, wanted, "{toleration}");
        }
    }

    #[test]
    fn a_cordon_keeps_all_away_but_those_who_tolerate_cordons() {
        let cordoned = Cluster::default().node("oak", json!({}), json!({"unschedulable": true}));
        assert_eq!(cordoned.says_first(json!({})), "0/1 nodes are available: 1 node(s) were unschedulable.");
        let daemon = json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"});
        assert_eq!(cordoned.suitable(tolerating(daemon)), "oak");
    }
}
