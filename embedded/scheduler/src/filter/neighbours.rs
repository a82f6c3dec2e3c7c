//! Pods that must be near each other, and pods that must not.

use std::collections::HashSet;

use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::pod_terms::Term;
use crate::reason::Reason;
use crate::snapshot::Snapshot;

/// Places: labels of nodes, and one of their values each.
type Places = HashSet<(String, String)>;

/// Who is where, as far as the pod and those that are there care.
#[derive(Default)]
pub(super) struct Whereabouts {
    /// Where pods are that all terms of the pod want near.
    near: Places,
    /// Where pods are that a term of the pod wants far.
    far: Places,
    /// Where pods are that want this pod far.
    unwanted: Places,
    /// Whether the pod is what it wants to be near.
    is_its_own: bool,
}

impl Whereabouts {
    pub(super) fn of(snapshot: &Snapshot, pod: &Pod) -> Self {
        let wants = &pod.wants.neighbours;
        let labels = |pod: &Pod| snapshot.namespaces.get(&pod.namespace);
        let meant_by_all = |other: &Pod| wants.near.iter().all(|term| term.means(other, labels(other)));
        let mut found = Self { is_its_own: meant_by_all(pod), ..Self::default() };
        for (node, other) in snapshot.neighbours() {
            if !wants.near.is_empty() && meant_by_all(other) {
                wants.near.iter().for_each(|term| note(&mut found.near, node, term));
            }
            let too_near = wants.far.iter().filter(|term| term.means(other, labels(other)));
            too_near.for_each(|term| note(&mut found.far, node, term));
            let unwanted = other.wants.neighbours.far.iter().filter(|term| term.means(pod, labels(pod)));
            unwanted.for_each(|term| note(&mut found.unwanted, node, term));
        }
        found
    }

    /// Who would mind, if the pod were on this node.
    pub(super) fn quarrel(&self, pod: &Pod, node: &Node) -> Option<Reason> {
        let wants = &pod.wants.neighbours;
        if !self.is_near(&wants.near, node) {
            return Some(Reason::NotNear);
        }
        let is_at = |places: &Places, key: &String| {
            node.labels.get(key).is_some_and(|value| places.contains(&(key.clone(), value.clone())))
        };
        if wants.far.iter().any(|term| is_at(&self.far, &term.topology)) {
            return Some(Reason::NotFar);
        }
        self.unwanted.iter().any(|(key, value)| node.labels.get(key) == Some(value)).then_some(Reason::Unwanted)
    }

    fn is_near(&self, terms: &[Term], node: &Node) -> bool {
        let values = terms.iter().map(|term| Some((term.topology.clone(), node.labels.get(&term.topology)?.clone())));
        let Some(places) = values.collect::<Option<Vec<_>>>() else { return false };
        // The first of pods that want to be together has no one to be near to.
        let is_first = self.near.is_empty() && self.is_its_own;
        is_first || places.iter().all(|place| self.near.contains(place))
    }
}

fn note(places: &mut Places, node: &Node, term: &Term) {
    if let Some(value) = node.labels.get(&term.topology) {
        places.insert((term.topology.clone(), value.clone()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::Cluster;

    /// Zone north with oak and elm, zone south with ash; a database on oak.
    fn zones() -> Cluster {
        Cluster::default()
            .node("ash", json!({"zone": "south"}), json!({}))
            .node("elm", json!({"zone": "north"}), json!({}))
            .node("oak", json!({"zone": "north"}), json!({}))
            .pod("oak", "db-1", json!({"metadata": {"labels": {"app": "db", "team": "a"}}}))
            .namespace("grove", json!({"stage": "prod"}))
    }

    fn term(app: &str, topology: &str) -> Value {
        json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": topology})
    }

    fn must(kind: &str, terms: Value) -> Value {
        json!({
            "metadata": {"labels": {"app": "web", "team": "b"}},
            "spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}},
        })
    }

    #[test]
    fn near_and_far_are_meant_by_a_label_of_nodes() {
        let host = "kubernetes.io/hostname";
        let cases = [
            ("podAffinity", json!([term("db", host)]), "oak"),
            ("podAffinity", json!([term("db", "zone")]), "elm oak"),
            ("podAffinity", json!([term("db", "rack")]), ""),
            ("podAffinity", json!([term("nobody", "zone")]), ""),
            ("podAffinity", json!([term("web", "zone")]), "ash elm oak"),
            ("podAffinity", json!([term("web", "rack")]), ""),
            ("podAffinity", json!([term("web", "zone"), term("db", "zone")]), ""),
            ("podAntiAffinity", json!([term("db", host)]), "ash elm"),
            ("podAntiAffinity", json!([term("db", "zone")]), "ash"),
            ("podAntiAffinity", json!([term("db", "rack")]), "ash elm oak"),
            ("podAntiAffinity", json!([term("web", host)]), "ash elm oak"),
        ];
        for (kind, terms, wanted) in cases {
            assert_eq!(zones().suitable(must(kind, terms.clone())), wanted, "{kind} {terms}");
        }
    }

    #[test]
    fn a_term_means_pods_of_the_own_namespace_unless_it_says_otherwise() {
        let elsewhere = || {
            let db = json!({"metadata": {"namespace": "meadow", "labels": {"app": "db"}}});
            Cluster::of(&["ash", "oak"]).pod("oak", "db-1", db).namespace("meadow", json!({"stage": "prod"}))
        };
        let cases = [
            (json!({}), "ash oak"),
            (json!({"namespaces": ["meadow"]}), "ash"),
            (json!({"namespaces": ["grove"]}), "ash oak"),
            (json!({"namespaceSelector": {"matchLabels": {"stage": "prod"}}}), "ash"),
            (json!({"namespaceSelector": {"matchLabels": {"stage": "test"}}}), "ash oak"),
            (json!({"namespaceSelector": {}}), "ash"),
            (json!({"namespaceSelector": {"matchLabels": {"stage": "test"}}, "namespaces": ["meadow"]}), "ash"),
        ];
        for (namespaces, wanted) in cases {
            let mut term = term("db", "kubernetes.io/hostname");
            term.as_object_mut().unwrap().extend(namespaces.as_object().unwrap().clone());
            assert_eq!(elsewhere().suitable(must("podAntiAffinity", json!([term]))), wanted, "{namespaces}");
        }
    }

    #[test]
    fn labels_of_the_pod_itself_narrow_a_term() {
        let mut same_team = term("db", "zone");
        same_team["matchLabelKeys"] = json!(["team"]);
        assert_eq!(zones().suitable(must("podAntiAffinity", json!([same_team]))), "ash elm oak");
        let mut other_teams = term("db", "zone");
        other_teams["mismatchLabelKeys"] = json!(["team"]);
        assert_eq!(zones().suitable(must("podAntiAffinity", json!([other_teams]))), "ash");
    }

    #[test]
    fn a_pod_that_runs_keeps_away_whom_it_must_be_far_from() {
        let hermit = must("podAntiAffinity", json!([term("web", "zone")]));
        let cluster = zones().pod("ash", "hermit", hermit);
        let web = json!({"metadata": {"labels": {"app": "web"}}});
        assert_eq!(cluster.suitable(web.clone()), "elm oak");
        assert_eq!(cluster.suitable(json!({"metadata": {"labels": {"app": "db"}}})), "ash elm oak");
        let alone = Cluster::of(&["ash"]).pod(
            "ash",
            "hermit",
            must("podAntiAffinity", json!([term("web", "kubernetes.io/hostname")])),
        );
        let wanted = "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.";
        assert_eq!(alone.says_first(web), wanted);
    }

    #[test]
    fn messages_tell_affinity_from_anti_affinity() {
        let host = "kubernetes.io/hostname";
        let cluster = Cluster::of(&["oak"]).pod("oak", "db-1", json!({"metadata": {"labels": {"app": "db"}}}));
        let near = cluster.says_first(must("podAffinity", json!([term("cache", host)])));
        assert_eq!(near, "0/1 nodes are available: 1 node(s) didn't match pod affinity rules.");
        let far = cluster.says_first(must("podAntiAffinity", json!([term("db", host)])));
        assert_eq!(far, "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.");
    }
}
