//! So many pods of one template: ReplicaSets, and ReplicationControllers, which are the same with an older face.

mod kinds;
mod ranking;
mod status;

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec, ReplicationController};
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use kube::core::Selector;
use kube::runtime::{Controller, watcher};
use serde::Serialize;

use crate::claims;
use crate::context::Context;
use crate::error::Error;
use crate::owners::is_going;
use crate::pods;
use crate::queue::{self, Again};
use crate::watched::{Namespaced, live};

/// At most so many pods are created or deleted at once, as upstream has it.
const BURST: usize = 500;

/// A kind that asks for so many pods of one template.
pub(crate) trait Replicated: Namespaced + Serialize {
    /// What is asked for. None: nothing can be made of it.
    fn wanted(&self) -> Option<Wanted>;
    /// What was reported last.
    fn reported(&self) -> ReplicaSetStatus;
    /// The object with another report.
    fn with_report(self, status: ReplicaSetStatus) -> Self;
    /// The uids of the sets whose pods this one would spread its own from: its deployment's others, and itself.
    fn siblings(&self, context: &Context) -> Vec<String>;
}

/// What a set asks for.
pub(crate) struct Wanted {
    pub(crate) selector: Selector,
    pub(crate) template: PodTemplateSpec,
    pub(crate) replicas: i32,
    pub(crate) min_ready_seconds: i32,
}

/// What is to be done.
#[derive(Debug)]
enum Move {
    Create(usize),
    Delete(Vec<Pod>),
    Rest,
}

/// Runs the controller of ReplicaSets.
pub(crate) async fn replica_sets(context: Context) {
    let triggers = claims::concerned(&context.pods, context.replica_sets.store(), selector_of::<ReplicaSet>);
    let controller = context.replica_sets.controller().reconcile_on(triggers);
    queue::run(controller, context, reconcile::<ReplicaSet>).await;
}

/// Runs the controller of ReplicationControllers.
pub(crate) async fn replication_controllers(context: Context) {
    let api = Api::<ReplicationController>::all(context.client.clone());
    let controller = Controller::new(api, watcher::Config::default());
    let triggers = claims::concerned(&context.pods, controller.store(), selector_of::<ReplicationController>);
    queue::run(controller.reconcile_on(triggers), context, reconcile::<ReplicationController>).await;
}

fn selector_of<S: Replicated>(set: &S) -> Option<Selector> {
    set.wanted().map(|wanted| wanted.selector)
}

async fn reconcile<S: Replicated>(set: Arc<S>, context: Context) -> Result<Again, Error> {
    let Some(set) = live(&context.client, set.as_ref()).await? else { return Ok(None) };
    let Some(wanted) = set.wanted() else { return Ok(None) };
    let pods = claims::claimed(&context.client, &context.pods, &set, &wanted.selector, pods::is_active).await?;
    let now = Timestamp::now();
    let done = if is_going(set.meta()) {
        Ok(())
    } else {
        let ranks = crowding(&context, &set);
        act(&context, &set, &wanted, decide(&wanted, &pods, &ranks, now)).await
    };
    let failure = done.as_ref().err().map(pods::said);
    let (status, again) = status::report(set.reported(), set.meta().generation, &wanted, &pods, failure, now);
    report(&context, set, status).await?;
    done?;
    Ok(again)
}

/// What to do about the pods that there are.
fn decide(wanted: &Wanted, pods: &[Pod], crowding: &HashMap<String, usize>, now: Timestamp) -> Move {
    let replicas = usize::try_from(wanted.replicas).unwrap_or(0);
    if pods.len() < replicas {
        return Move::Create((replicas - pods.len()).min(BURST));
    }
    let surplus = (pods.len() - replicas).min(BURST);
    if surplus == 0 {
        return Move::Rest;
    }
    let mut pods = pods.to_vec();
    ranking::sort(&mut pods, crowding, now);
    pods.truncate(surplus);
    Move::Delete(pods)
}

/// How many pods of the set and of its siblings there are on each node.
fn crowding<S: Replicated>(context: &Context, set: &S) -> HashMap<String, usize> {
    let siblings = set.siblings(context);
    let mut counts = HashMap::new();
    for pod in context.pods.store().state() {
        let owner = crate::owners::controller(&pod.metadata).map(|owner| &owner.uid);
        if owner.is_some_and(|uid| siblings.contains(uid))
            && pods::is_active(&pod)
            && let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone())
        {
            *counts.entry(node).or_default() += 1;
        }
    }
    counts
}

async fn act<S: Replicated>(context: &Context, set: &S, wanted: &Wanted, act: Move) -> Result<(), kube::Error> {
    match act {
        Move::Rest => Ok(()),
        Move::Create(count) => {
            let pod = pods::from_template(&wanted.template, set);
            pods::slowly(count, |_| pods::create(context, set, &pod)).await
        }
        Move::Delete(surplus) => {
            let deleted = join_all(surplus.iter().map(|pod| pods::delete(context, set, pod))).await;
            deleted.into_iter().collect()
        }
    }
}

async fn report<S: Replicated>(context: &Context, set: S, status: ReplicaSetStatus) -> Result<(), kube::Error> {
    if set.reported() == status {
        return Ok(());
    }
    let (api, name) = (set.api(&context.client), set.name_any());
    api.replace_status(&name, &PostParams::default(), &set.with_report(status)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(replicas: i32) -> Wanted {
        let template = PodTemplateSpec::default();
        Wanted { selector: Selector::default(), template, replicas, min_ready_seconds: 0 }
    }

    #[test]
    fn as_many_pods_are_made_or_ended_as_are_missing_or_too_many() {
        let pods: Vec<Pod> = (0..3).map(|_| Pod::default()).collect();
        let decided = |replicas| match decide(&wanted(replicas), &pods, &HashMap::new(), Timestamp::UNIX_EPOCH) {
            Move::Create(count) => format!("create {count}"),
            Move::Delete(pods) => format!("delete {}", pods.len()),
            Move::Rest => "rest".to_owned(),
        };
        assert_eq!([0, 1, 3, 5].map(decided), ["delete 3", "delete 2", "rest", "create 2"]);
        assert_eq!(decided(1000), "create 500", "not all at once");
    }
}
