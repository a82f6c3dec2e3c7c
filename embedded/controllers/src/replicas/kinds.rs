//! The two kinds that ask for replicas, seen as one.

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{ReplicationController, ReplicationControllerCondition, ReplicationControllerStatus};
use kube::ResourceExt;
use kube::core::Selector;

use super::{Replicated, Wanted};
use crate::context::Context;
use crate::owners::{controlled_by, controller};

impl Replicated for ReplicaSet {
    fn wanted(&self) -> Option<Wanted> {
        let spec = self.spec.as_ref()?;
        Some(Wanted {
            // One that selects everything would adopt everything; the API takes none such.
            selector: Selector::try_from(spec.selector.clone()).ok().filter(|selector| !selector.selects_all())?,
            template: spec.template.clone()?,
            replicas: spec.replicas.unwrap_or(1),
            min_ready_seconds: spec.min_ready_seconds.unwrap_or(0),
        })
    }

    fn reported(&self) -> ReplicaSetStatus {
        self.status.clone().unwrap_or_default()
    }

    fn with_report(self, status: ReplicaSetStatus) -> Self {
        Self { status: Some(status), ..self }
    }

    fn siblings(&self, context: &Context) -> Vec<String> {
        let Some(owner) = controller(&self.metadata) else { return vec![self.uid().unwrap_or_default()] };
        let siblings = context.replica_sets.store().state_filter(|set| controlled_by(&set.metadata, &owner.uid));
        siblings.iter().filter_map(|set| set.uid()).collect()
    }
}

impl Replicated for ReplicationController {
    fn wanted(&self) -> Option<Wanted> {
        let spec = self.spec.as_ref()?;
        let selector = Selector::from_iter(spec.selector.clone().unwrap_or_default());
        Some(Wanted {
            selector: Some(selector).filter(|selector| !selector.selects_all())?,
            template: spec.template.clone()?,
            replicas: spec.replicas.unwrap_or(1),
            min_ready_seconds: spec.min_ready_seconds.unwrap_or(0),
        })
    }

    fn reported(&self) -> ReplicaSetStatus {
        let status = self.status.clone().unwrap_or_default();
        let convert = |condition: ReplicationControllerCondition| ReplicaSetCondition {
            type_: condition.type_,
            status: condition.status,
            reason: condition.reason,
            message: condition.message,
            last_transition_time: condition.last_transition_time,
        };
        ReplicaSetStatus {
            replicas: status.replicas,
            fully_labeled_replicas: status.fully_labeled_replicas,
            ready_replicas: status.ready_replicas,
            available_replicas: status.available_replicas,
            observed_generation: status.observed_generation,
            conditions: status.conditions.map(|list| list.into_iter().map(convert).collect()),
            ..ReplicaSetStatus::default()
        }
    }

    fn with_report(self, status: ReplicaSetStatus) -> Self {
        let convert = |condition: ReplicaSetCondition| ReplicationControllerCondition {
            type_: condition.type_,
            status: condition.status,
            reason: condition.reason,
            message: condition.message,
            last_transition_time: condition.last_transition_time,
        };
        let status = ReplicationControllerStatus {
            replicas: status.replicas,
            fully_labeled_replicas: status.fully_labeled_replicas,
            ready_replicas: status.ready_replicas,
            available_replicas: status.available_replicas,
            observed_generation: status.observed_generation,
            conditions: status.conditions.map(|list| list.into_iter().map(convert).collect()),
        };
        Self { status: Some(status), ..self }
    }

    fn siblings(&self, _: &Context) -> Vec<String> {
        vec![self.uid().unwrap_or_default()]
    }
}
