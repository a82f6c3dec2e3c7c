//! What a pod says about other pods: near which it wants to be, far from which, and how evenly spread.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodAffinityTerm, PodSpec, TopologySpreadConstraint, WeightedPodAffinityTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Expression, Selector, SelectorExt};

use super::pod::Pod;
use super::{Key, Labels};

/// Other pods, and the label of nodes by which "near" is meant.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// None selects no one.
    selector: Option<Selector>,
    namespaces: BTreeSet<String>,
    namespace_selector: Option<Selector>,
    /// Nodes with the same value of this label are near each other.
    pub topology: String,
}

impl Term {
    fn of(term: &PodAffinityTerm, namespace: &str, labels: &Labels) -> Self {
        let named: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
        let is_own = named.is_empty() && term.namespace_selector.is_none();
        let mut selector = selector(term.label_selector.as_ref());
        if let Some(selector) = &mut selector {
            selector.extend(same(labels, term.match_label_keys.as_ref(), Expression::In));
            selector.extend(same(labels, term.mismatch_label_keys.as_ref(), Expression::NotIn));
        }
        Self {
            selector,
            namespaces: if is_own { BTreeSet::from([namespace.to_owned()]) } else { named },
            namespace_selector: self::selector(term.namespace_selector.as_ref()),
            topology: term.topology_key.clone(),
        }
    }

    /// Whether the labels of a pod are those that the term speaks of.
    pub fn selects(&self, pod: &Pod) -> bool {
        self.selector.as_ref().is_some_and(|wanted| wanted.matches(&pod.wants.labels))
    }

    /// Whether the term speaks of a pod; `namespace` are the labels of that pod's namespace.
    pub fn means(&self, pod: &Pod, namespace: Option<&Labels>) -> bool {
        let by_label = |labels: &Labels| self.namespace_selector.as_ref().is_some_and(|wanted| wanted.matches(labels));
        self.selects(pod) && (self.namespaces.contains(&pod.namespace) || by_label(namespace.unwrap_or(&Labels::new())))
    }
}

/// A term that is worth something.
pub type Weighted = (i64, Term);

/// What a pod says about its neighbours.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Neighbours {
    /// Must be near all of these.
    pub near: Vec<Term>,
    /// Must be near none of these.
    pub far: Vec<Term>,
    /// Had better be near, or with a negative weight far.
    pub preferred: Vec<Weighted>,
}

impl Neighbours {
    /// What a pod in that namespace, with those labels, says.
    pub fn of(spec: &PodSpec, namespace: &str, labels: &Labels) -> Self {
        let affinity = spec.affinity.as_ref();
        let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
        let far = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        let terms = |terms: Option<&Vec<PodAffinityTerm>>| {
            terms.into_iter().flatten().map(|term| Term::of(term, namespace, labels)).collect()
        };
        let weighted = |sign: i64, terms: Option<&Vec<WeightedPodAffinityTerm>>| -> Vec<Weighted> {
            let of = |term: &WeightedPodAffinityTerm| Term::of(&term.pod_affinity_term, namespace, labels);
            terms.into_iter().flatten().map(|term| (sign * i64::from(term.weight), of(term))).collect()
        };
        let nearer = near.and_then(|near| near.preferred_during_scheduling_ignored_during_execution.as_ref());
        let farther = far.and_then(|far| far.preferred_during_scheduling_ignored_during_execution.as_ref());
        Self {
            near: terms(near.and_then(|near| near.required_during_scheduling_ignored_during_execution.as_ref())),
            far: terms(far.and_then(|far| far.required_during_scheduling_ignored_during_execution.as_ref())),
            preferred: [weighted(1, nearer), weighted(-1, farther)].concat(),
        }
    }
}

/// How evenly pods shall be spread over the values of a label of nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// By how many pods the fullest may exceed the emptiest.
    pub max_skew: i64,
    /// The label.
    pub topology: String,
    /// Whether a pod rather waits than breaks it.
    pub is_strict: bool,
    /// With fewer values than this, the emptiest is taken to have no pods.
    pub min_domains: i64,
    /// Whether only nodes count that the pod's own choice allows.
    pub heeds_choice: bool,
    /// Whether only nodes count whose taints the pod tolerates.
    pub heeds_taints: bool,
    who: Who,
}

/// Which pods are counted.
#[derive(Clone, Debug, PartialEq)]
enum Who {
    Nobody,
    Selected(Selector),
    /// Pods of one controller, and in a service's case those that it selects.
    Fellows {
        controller: Option<String>,
        services: Vec<Selector>,
    },
}

impl Spread {
    /// A constraint of a pod with those labels.
    pub fn of(constraint: &TopologySpreadConstraint, labels: &Labels) -> Self {
        let mut who = selector(constraint.label_selector.as_ref());
        if let Some(selector) = &mut who {
            selector.extend(same(labels, constraint.match_label_keys.as_ref(), Expression::In));
        }
        Self {
            max_skew: i64::from(constraint.max_skew),
            topology: constraint.topology_key.clone(),
            is_strict: constraint.when_unsatisfiable == "DoNotSchedule",
            min_domains: i64::from(constraint.min_domains.unwrap_or(1)),
            heeds_choice: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
            heeds_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
            who: who.map_or(Who::Nobody, Who::Selected),
        }
    }

    /// What holds for pods that say nothing: the replicas of one controller, or the pods of one service, are spread
    /// loosely over hosts and zones.
    pub fn unsaid(pod: &Pod, services: &std::collections::BTreeMap<Key, Labels>) -> Vec<Self> {
        let serving = services.iter().filter(|((namespace, _), selector)| {
            *namespace == pod.namespace
                && !selector.is_empty()
                && selector.iter().all(|(key, value)| pod.wants.labels.get(key) == Some(value))
        });
        let services: Vec<Selector> =
            serving.map(|(_, selector)| selector.clone().into_iter().collect::<Selector>()).collect();
        let controller = pod.wants.replica_of.clone();
        if controller.is_none() && services.is_empty() {
            return Vec::new();
        }
        let loosely = |max_skew, topology: &str| Self {
            max_skew,
            topology: topology.into(),
            is_strict: false,
            min_domains: 1,
            heeds_choice: true,
            heeds_taints: false,
            who: Who::Fellows { controller: controller.clone(), services: services.clone() },
        };
        vec![loosely(3, HOSTNAME), loosely(5, ZONE)]
    }

    /// Whether a pod in that namespace is counted. One that is going is not.
    pub fn counts(&self, pod: &Pod, namespace: &str) -> bool {
        pod.namespace == namespace && !pod.is_deleting && self.selects(pod)
    }

    /// Whether the constraint speaks of a pod.
    pub fn selects(&self, pod: &Pod) -> bool {
        match &self.who {
            Who::Nobody => false,
            Who::Selected(selector) => selector.matches(&pod.wants.labels),
            Who::Fellows { controller, services } => {
                (controller.is_none() || *controller == pod.wants.replica_of)
                    && services.iter().all(|service| service.matches(&pod.wants.labels))
            }
        }
    }
}

/// The label by which each node is on its own.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// The label of zones.
pub const ZONE: &str = "topology.kubernetes.io/zone";

/// A selector of the API; one that is missing, or that no API server lets in, selects no one.
pub fn selector(selector: Option<&LabelSelector>) -> Option<Selector> {
    selector.and_then(|selector| Selector::try_from(selector.clone()).ok())
}

/// The pod's own values of those labels, as an expression each. A real API server writes them into the selector when the
/// pod is made; said twice they mean the same.
fn same(
    labels: &Labels,
    keys: Option<&Vec<String>>,
    expression: fn(String, BTreeSet<String>) -> Expression,
) -> Vec<Expression> {
    let own = keys.into_iter().flatten().filter_map(|key| Some((key.clone(), labels.get(key)?.clone())));
    own.map(|(key, value)| expression(key, BTreeSet::from([value]))).collect()
}
