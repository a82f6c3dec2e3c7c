//! The hold of a machine: a pod and a PodDisruptionBudget on each node, until its host has left Nova. Whoever drains a node by
//! evictions, as Gardener's machine-controller-manager does, waits for them.
//!
//! What is decided here follows from the Hypervisor alone, so that a machine is also held while Nova does not answer.

use std::collections::BTreeMap;

use c5c3_api::blocks::ConditionStatus;
use c5c3_api::hypervisor::Hypervisor;
use c5c3_kit::condition::{ConditionState, find};
use c5c3_kit::{Child, Controller, Inputs, KindRef, Plan, Ref, Step, Summary, Verdict};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::elsewhere;
use crate::settings::Hold;

/// The field manager. It must never change.
pub(crate) const MANAGER: &str = "hypervisor-operator-hold";

/// The label of the pod that holds a machine.
const HOLDS: &str = "hypervisor.c5c3.io/holds";

const CONDITION: &str = "NodeHeld";

/// The kinds that are made in the namespace of the hold.
pub(crate) fn kinds() -> Vec<KindRef> {
    vec![KindRef::of::<Deployment>(), KindRef::of::<PodDisruptionBudget>()]
}

/// The controller of holds.
pub(crate) struct Holds(pub(crate) Hold);

impl Controller for Holds {
    type Kind = Hypervisor;
    type Valid = ();
    const NAME: &'static str = "hypervisor-hold";
    const CONDITIONS: &'static [&'static str] = &[CONDITION];
    const SUMMARY: &'static [&'static str] = &[];

    fn trigger(&self, object: &DynamicObject) -> Option<String> {
        Some(elsewhere::statuses(object, &["Offboarded", "HaEnabled"]))
    }

    fn children(&self) -> Vec<KindRef> {
        kinds()
    }

    fn observes(&self) -> Vec<KindRef> {
        vec![KindRef::of::<Deployment>()]
    }

    fn needs(&self, _: &Inputs<Hypervisor>) -> Vec<Ref> {
        Vec::new()
    }

    fn validate(&self, _: &Inputs<Hypervisor>) -> Verdict<()> {
        Verdict::Valid(())
    }

    fn plan(&self, (): &(), inputs: &Inputs<Hypervisor>) -> Plan {
        let object = &inputs.object;
        let step = Step::new(CONDITION);
        if !object.spec.lifecycle_enabled {
            let why = "spec.lifecycleEnabled is false: the operator does not touch the node";
            return Plan::new().step(step.childless()).condition(ConditionState::unmet(
                CONDITION,
                "LifecycleDisabled",
                why,
            ));
        }
        let has_left = has_left(object);
        let children = [deployment(object, &self.0, has_left), budget(object, &self.0, has_left)];
        let live = inputs.own_named::<Deployment>(&name(object));
        Plan::new().step(step.children(children.map(Child::readiness_optional))).condition(said(
            has_left,
            live,
            &self.0.namespace,
        ))
    }

    /// What the host is as a whole is said by the controller of hosts.
    fn summary(&self, _: Summary<'_>) -> Vec<ConditionState> {
        Vec::new()
    }
}

/// Whether nothing of the host is left in Nova, and high availability is done with it. A `HaEnabled` that an uninstalled operator
/// left behind does not count once `spec.highAvailability` is false.
fn has_left(object: &Hypervisor) -> bool {
    let conditions = object.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let is_true = |name: &str| find(conditions, name).is_some_and(|found| found.status == ConditionStatus::True);
    is_true("Offboarded") && !(object.spec.high_availability && is_true("HaEnabled"))
}

/// Without a pod that is available the budget holds nothing.
fn said(has_left: bool, live: Option<&DynamicObject>, namespace: &str) -> ConditionState {
    let available = live.and_then(|live| live.data["status"]["availableReplicas"].as_i64()).unwrap_or_default();
    match (has_left, available) {
        (true, _) => ConditionState::unmet(CONDITION, "Released", "the host has left Nova, and its machine may go"),
        (false, 1..) => ConditionState::met(CONDITION, "Held", "the machine is held until the host has left Nova"),
        (false, _) => {
            let message =
                format!("the pod that holds the machine is not available yet: kubectl get pods -n {namespace}");
            ConditionState::unmet(CONDITION, "PodNotAvailable", message)
        }
    }
}

fn name(object: &Hypervisor) -> String {
    format!("hold-{}", object.name_any())
}

/// The value of the label. Names of nodes may be longer than labels.
fn labels(object: &Hypervisor) -> BTreeMap<&'static str, String> {
    BTreeMap::from([(HOLDS, c5c3_kit::hash::short(object.name_any().as_bytes()))])
}

fn deployment(object: &Hypervisor, hold: &Hold, has_left: bool) -> Child {
    let hostname = object.labels().get("kubernetes.io/hostname").cloned().unwrap_or_else(|| object.name_any());
    let labels = labels(object);
    let mut of_pod = json!(labels);
    // Gardener waits for such pods before it lets others onto a node.
    of_pod["node.gardener.cloud/critical-component"] = "true".into();
    let security = json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
        "runAsUser": 65535, "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}});
    let content = json!({"spec": {
        "replicas": i32::from(!has_left),
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": of_pod}, "spec": {
            "nodeSelector": {"kubernetes.io/hostname": hostname},
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}, {"operator": "Exists", "effect": "NoSchedule"}],
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": false,
            "containers": [{"name": "hold", "image": hold.image, "securityContext": security,
                "resources": {"requests": {"cpu": "1m", "memory": "4Mi"}, "limits": {"memory": "16Mi"}}}],
        }},
    }});
    elsewhere::child::<Deployment>(&hold.namespace, &name(object), content)
}

fn budget(object: &Hypervisor, hold: &Hold, has_left: bool) -> Child {
    let content: Value =
        json!({"spec": {"minAvailable": i32::from(!has_left), "selector": {"matchLabels": labels(object)}}});
    elsewhere::child::<PodDisruptionBudget>(&hold.namespace, &name(object), content)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said, and the replicas and the disruptions of the plan.
    fn plan(status: &Value, spec: &Value, available: Option<i64>) -> (String, Vec<Value>) {
        let object = json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Hypervisor",
            "metadata": {"name": "hv-1", "uid": "h1"}, "spec": spec, "status": {"conditions": status}});
        let mut inputs = Inputs::new(serde_json::from_value(object).unwrap(), jiff::Timestamp::UNIX_EPOCH);
        if let Some(available) = available {
            let live = json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "hold-hv-1", "namespace": "cellar"}, "status": {"availableReplicas": available}});
            inputs.insert_own(serde_json::from_value::<DynamicObject>(live).unwrap());
        }
        let plan = Holds(Hold { namespace: "cellar".into(), image: "pause".into() }).plan(&(), &inputs);
        let amounts = plan.children().map(|child| {
            let spec = &child.object.data["spec"];
            spec.get("replicas").or(spec.get("minAvailable")).cloned().unwrap_or_default()
        });
        (plan.conditions[0].reason.clone(), amounts.collect())
    }

    #[test]
    fn a_machine_is_held_until_its_host_has_left_nova_and_high_availability() {
        let is = |name: &str, status: &str| json!({"type": name, "status": status});
        let (one, none) = (vec![json!(1), json!(1)], vec![json!(0), json!(0)]);
        let spec = json!({});
        assert_eq!(plan(&json!([]), &spec, None), ("PodNotAvailable".into(), one.clone()));
        assert_eq!(plan(&json!([is("Offboarded", "False")]), &spec, Some(1)), ("Held".into(), one.clone()));
        let left = json!([is("Offboarded", "True"), is("HaEnabled", "True")]);
        assert_eq!(plan(&left, &spec, Some(1)), ("Held".into(), one));
        let unwanted = json!({"highAvailability": false});
        assert_eq!(plan(&left, &unwanted, Some(1)), ("Released".into(), none.clone()));
        let left = json!([is("Offboarded", "True"), is("HaEnabled", "False")]);
        assert_eq!(plan(&left, &spec, Some(1)), ("Released".into(), none));
    }

    #[test]
    fn a_node_that_is_not_the_operators_is_not_held() {
        assert_eq!(plan(&json!([]), &json!({"lifecycleEnabled": false}), None), ("LifecycleDisabled".into(), vec![]));
    }
}
