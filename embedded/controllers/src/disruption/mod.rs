//! Disruption budgets: how many of their pods may be evicted now. Evictions themselves are the API server's.

mod budget;

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{GroupVersionKind, Selector, SelectorExt};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, Resource, ResourceExt};

use self::budget::{Scale, judge, needs_scale};
use crate::context::Context;
use crate::error::{Error, is_gone};
use crate::queue::Again;
use crate::watched::{Change, Watched, live};
use crate::{owners, pods, queue};

/// Looks after budgets until the context says stop.
pub(crate) async fn run(context: Context) {
    let budgets = Watched::<PodDisruptionBudget>::default();
    let known = budgets.store();
    let of_pods = context.pods.concerning(move |change| concerned(&known, change));
    let controller = budgets.controller().reconcile_on(of_pods);
    tokio::join!(budgets.follow(&context), queue::run(controller, context.clone(), reconcile));
}

/// The budgets that a change of a pod concerns.
fn concerned(budgets: &Store<PodDisruptionBudget>, change: &Change<Pod>) -> Vec<ObjectRef<PodDisruptionBudget>> {
    let facts = |pod: &Pod| (pod.labels().clone(), pods::is_ready(pod), owners::is_going(&pod.metadata), pod.uid());
    if let (Some(before), Some(now)) = (&change.before, &change.now)
        && facts(before) == facts(now)
    {
        return Vec::new();
    }
    let selects = |budget: &Arc<PodDisruptionBudget>| {
        let selector = selector(budget).ok().flatten();
        change.versions().any(|pod| {
            pod.namespace() == budget.namespace()
                && selector.as_ref().is_some_and(|selector| selector.matches(pod.labels()))
        })
    };
    budgets.state().iter().filter(|budget| selects(budget)).map(|budget| ObjectRef::from_obj(budget.as_ref())).collect()
}

/// The pods that a budget is about: all of the namespace if its selector is empty, none if it has none.
fn selector(budget: &PodDisruptionBudget) -> Result<Option<Selector>, Error> {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
    Ok(selector.map(Selector::try_from).transpose()?)
}

async fn reconcile(budget: Arc<PodDisruptionBudget>, context: Context) -> Result<Again, Error> {
    let Some(budget) = live(&context.client, budget.as_ref()).await? else { return Ok(None) };
    if owners::is_going(&budget.metadata) {
        return Ok(None);
    }
    let namespace = budget.namespace().unwrap_or_default();
    let pods = match selector(&budget)? {
        Some(selector) => pods::list(&context.client, &namespace, &selector).await?,
        None => Vec::new(),
    };
    let scale = if needs_scale(&budget) { scale(&context.client, &pods).await? } else { Ok(Scale::default()) };
    let outcome = judge(&budget, &pods, scale, Timestamp::now());
    if budget.status.as_ref() != Some(&outcome.status) {
        // Only with something new to say: the rest has been told.
        for (news, reason, message) in outcome.told {
            context.events.tell(&budget.object_ref(&()), news, reason, message).await;
        }
        let told = PodDisruptionBudget { status: Some(outcome.status), ..budget.clone() };
        let api = Api::<PodDisruptionBudget>::namespaced(context.client.clone(), &namespace);
        match api.replace_status(&budget.name_any(), &PostParams::default(), &told).await {
            Err(error) if !is_gone(&error) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(outcome.again)
}

/// How many pods there should be, as those say who own the ones that there are.
async fn scale(client: &Client, pods: &[Pod]) -> Result<Result<Scale, String>, Error> {
    let (mut asked, mut scale) = (HashSet::new(), Scale::default());
    for pod in pods {
        let Some(owner) = owners::controller(&pod.metadata) else {
            scale.unmanaged.push(pod.name_any());
            continue;
        };
        let namespace = pod.namespace().unwrap_or_default();
        let Some(owner) = outermost(client, &namespace, owner).await? else {
            return Ok(Err(format!("found no controllers for pod {:?}", pod.name_any())));
        };
        if asked.insert(owner.uid.clone()) {
            match replicas(client, &namespace, &owner).await? {
                Some(replicas) => scale.expected += replicas,
                None => return Ok(Err(format!("found no controllers for pod {:?}", pod.name_any()))),
            }
        }
    }
    Ok(Ok(scale))
}

/// The Deployment of a ReplicaSet, which says how many pods there should be during a rollout; else the owner itself.
async fn outermost(client: &Client, namespace: &str, owner: &OwnerReference) -> Result<Option<OwnerReference>, Error> {
    if (owner.kind.as_str(), owner.api_version.as_str()) != ("ReplicaSet", "apps/v1") {
        return Ok(Some(owner.clone()));
    }
    let sets = Api::<ReplicaSet>::namespaced(client.clone(), namespace);
    let set = sets.get_opt(&owner.name).await?.filter(|set| set.uid().as_ref() == Some(&owner.uid));
    Ok(set.map(|set| owners::controller(&set.metadata).unwrap_or(owner).clone()))
}

/// The replicas of anything that can be scaled. None: it is not there, or cannot be.
async fn replicas(client: &Client, namespace: &str, owner: &OwnerReference) -> Result<Option<i32>, Error> {
    let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
    let kind = GroupVersionKind::gvk(group, version, &owner.kind);
    let Ok((resource, _)) = kube::discovery::pinned_kind(client, &kind).await else { return Ok(None) };
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource);
    match api.get_scale(&owner.name).await {
        Ok(scale) => Ok(scale.spec.and_then(|spec| spec.replicas).or(Some(0))),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
