//! Which of the nodes that do is the best one.
//!
//! Every criterion gives each node a number; most are then stretched so that the best has 100, and added up with
//! upstream's weights. Image locality is left out: the embedded cluster's nodes have the same images.

mod neighbours;
mod resources;
mod spread;

use crate::filter::Search;
use crate::filter::taints::reluctance;
use crate::model::node::Node;
use crate::model::node_terms::holds;

/// The most that a criterion gives.
const BEST: i64 = 100;

/// The sum of all criteria, for each of the nodes that do.
pub fn score(search: &Search<'_>, nodes: &[&Node]) -> Vec<i64> {
    let criteria = [
        (3, reluctances(search, nodes)),
        (2, choices(search, nodes)),
        (2, spread::scores(search, nodes)),
        (2, neighbours::scores(search, nodes)),
        (1, resources::room(search, nodes)),
        (1, resources::balance(search, nodes)),
    ];
    let total = |at: usize| criteria.iter().map(|(weight, scores)| weight * scores[at]).sum();
    (0..nodes.len()).map(total).collect()
}

/// The fewer taints had rather not have the pod, the better.
fn reluctances(search: &Search<'_>, nodes: &[&Node]) -> Vec<i64> {
    let count = |node: &&Node| i64::try_from(reluctance(search.pod, node)).unwrap_or(i64::MAX);
    let counts: Vec<i64> = nodes.iter().map(count).collect();
    stretched(counts).into_iter().map(|score| BEST - score).collect()
}

/// The more of what the pod prefers of its node, the better.
fn choices(search: &Search<'_>, nodes: &[&Node]) -> Vec<i64> {
    let preferred = &search.pod.wants.nodes.preferred;
    let worth = |node: &&Node| preferred.iter().filter(|(_, term)| holds(term, node)).map(|(weight, _)| weight).sum();
    stretched(nodes.iter().map(worth).collect())
}

/// Makes the largest 100, the others accordingly.
fn stretched(scores: Vec<i64>) -> Vec<i64> {
    match scores.iter().max() {
        Some(&largest) if largest > 0 => scores.into_iter().map(|score| score * BEST / largest).collect(),
        _ => scores,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::model::Labels;
    use crate::testing::{Cluster, asking};

    /// Which of the nodes a pod takes that may go to each.
    fn taken(cluster: &Cluster, pod: Value) -> String {
        cluster.says(pod)
    }

    #[test]
    fn the_emptier_node_is_taken_even_by_pods_that_ask_for_nothing() {
        let cluster = Cluster::of(&["ash", "oak"]).pod("ash", "silent", json!({}));
        assert_eq!(taken(&cluster, json!({})), "oak");
        let cluster = Cluster::of(&["ash", "oak"]).pod("ash", "loud", asking(json!({"cpu": "1", "memory": "1Gi"})));
        assert_eq!(taken(&cluster, asking(json!({"cpu": "1", "memory": "1Gi"}))), "oak");
    }

    #[test]
    fn cpu_and_memory_are_used_evenly() {
        let cluster = Cluster::of(&["ash", "oak"])
            .pod("ash", "thinker", asking(json!({"cpu": "2", "memory": "1Mi"})))
            .pod("oak", "hoarder", asking(json!({"cpu": "1m", "memory": "2Gi"})));
        assert_eq!(taken(&cluster, asking(json!({"cpu": "900m", "memory": "1Mi"}))), "oak");
    }

    #[test]
    fn a_node_that_had_rather_not_is_taken_last() {
        let soft = json!({"taints": [{"key": "old", "effect": "PreferNoSchedule"}]});
        let cluster = Cluster::of(&["oak"]).node("ash", json!({}), soft);
        assert_eq!(taken(&cluster, json!({})), "oak");
        let tolerant = json!({"spec": {"tolerations": [{"key": "old", "operator": "Exists"}]}});
        assert_eq!(taken(&cluster, tolerant), "ash");
    }

    #[test]
    fn preferred_nodes_are_taken_by_the_sum_of_their_weights() {
        let cluster = Cluster::of(&["ash"]).node("elm", json!({"disk": "ssd"}), json!({})).node(
            "oak",
            json!({"rack": "1"}),
            json!({}),
        );
        let term = |weight: i64, key: &str| json!({"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}});
        let preferring = |terms: Value| json!({"spec": {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}});
        assert_eq!(taken(&cluster, preferring(json!([term(1, "disk"), term(5, "rack")]))), "oak");
        assert_eq!(taken(&cluster, preferring(json!([term(9, "disk"), term(5, "rack")]))), "elm");
    }

    #[test]
    fn company_is_sought_and_shunned() {
        let db = || json!({"metadata": {"labels": {"app": "db"}}});
        let cluster = || Cluster::of(&["ash", "oak"]).pod("oak", "db-1", db());
        let preferring = |kind: &str| {
            let term =
                json!({"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"});
            let weighted = json!([{"weight": 100, "podAffinityTerm": term}]);
            json!({"spec": {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}}})
        };
        assert_eq!(taken(&cluster(), preferring("podAffinity")), "oak");
        assert_eq!(taken(&cluster(), preferring("podAntiAffinity")), "ash");
        let fan = Cluster::of(&["ash", "oak"]).pod("oak", "fan", preferring("podAffinity"));
        assert_eq!(taken(&fan, db()), "oak", "others' wishes count as well");
    }

    #[test]
    fn replicas_and_the_pods_of_a_service_are_spread_unasked() {
        let replica = || {
            json!({"metadata": {"labels": {"app": "web"}, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "set-1", "controller": true},
            ]}})
        };
        let large = || asking(json!({"cpu": "1500m", "memory": "1500Mi"}));
        let cluster = Cluster::of(&["ash", "oak"]).pod("ash", "web-1", replica()).pod("oak", "other", large());
        assert_eq!(taken(&cluster, replica()), "oak", "though ash is emptier");
        assert_eq!(taken(&cluster, json!({})), "ash");
        let mut cluster = Cluster::of(&["ash", "oak"])
            .pod("ash", "web-1", json!({"metadata": {"labels": {"app": "web"}}}))
            .pod("oak", "other", large());
        let selector = Labels::from([("app".to_owned(), "web".to_owned())]);
        cluster.0.services.insert(("grove".into(), "web".into()), selector);
        assert_eq!(taken(&cluster, json!({"metadata": {"labels": {"app": "web"}}})), "oak");
    }

    #[test]
    fn loose_spread_constraints_prefer_the_emptiest_place() {
        let web = || json!({"metadata": {"labels": {"app": "web"}}});
        let cluster = Cluster::default()
            .node("ash", json!({"zone": "south"}), json!({}))
            .node("elm", json!({"zone": "north"}), json!({}))
            .node("fir", json!({}), json!({}))
            .pod("elm", "web-1", web());
        let mut pod = web();
        pod["spec"] = json!({"topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }]});
        let scores = cluster.scores(pod);
        assert!(scores["ash"] > scores["elm"], "{scores:?}");
        assert!(scores["ash"] > scores["fir"], "a node without the label counts for nothing: {scores:?}");
    }
}
