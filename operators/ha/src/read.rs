//! Nodes and Hypervisors, as far as it matters whether a host lives.

use std::collections::BTreeSet;

use c5c3_api::blocks::{Condition, ConditionStatus};
use c5c3_api::hypervisor::{Eviction as EvictionKind, GuestFailure, Hypervisor as HypervisorKind, Maintenance};
use c5c3_kit::condition::find;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node as NodeKind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::{ApiResource, Object};
use kube::{Api, Client, ResourceExt as _};
use serde::Deserialize;

use crate::decide::{Host, Power};
use crate::report::{FAILED, FENCED, RUNNING};

/// A node, without what makes it large.
pub(crate) type Node = Object<Option<Nothing>, Conditions>;

/// A Hypervisor, without what its agent reports of the host.
pub(crate) type Hypervisor = Object<Wanted, Conditions>;

/// An Eviction, without its guests.
pub(crate) type Eviction = Object<Evicted, Ended>;

/// What is not read.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Nothing {}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wanted {
    #[serde(default = "yes")]
    pub(crate) high_availability: bool,
    #[serde(default)]
    pub(crate) maintenance: Maintenance,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Evicted {
    pub(crate) hypervisor: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Ended {
    #[serde(default)]
    pub(crate) finished: Option<Time>,
}

fn yes() -> bool {
    true
}

/// A status. Of a node there are conditions alone.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Conditions {
    #[serde(default)]
    pub(crate) conditions: Vec<Condition>,
    #[serde(default)]
    pub(crate) guest_failures: Vec<GuestFailure>,
}

pub(crate) fn nodes(client: &Client) -> Api<Node> {
    Api::all_with(client.clone(), &ApiResource::erase::<NodeKind>(&()))
}

pub(crate) fn hypervisors(client: &Client) -> Api<Hypervisor> {
    Api::all_with(client.clone(), &ApiResource::erase::<HypervisorKind>(&()))
}

pub(crate) fn evictions(client: &Client) -> Api<Eviction> {
    Api::all_with(client.clone(), &ApiResource::erase::<EvictionKind>(&()))
}

pub(crate) fn conditions(object: Option<&Conditions>) -> &[Condition] {
    object.map(|status| status.conditions.as_slice()).unwrap_or_default()
}

/// How a node is.
pub(crate) fn power(node: Option<&Node>) -> Power {
    let ready = node.and_then(|node| find(conditions(node.status.as_ref()), "Ready"));
    match ready {
        Some(Condition { status: ConditionStatus::True, .. }) => Power::Ready,
        Some(Condition { last_transition_time: Some(time), .. }) => Power::Lost(time.0),
        _ => Power::Unknown,
    }
}

/// What is known of a host.
pub(crate) fn host(hypervisor: &Hypervisor, node: Option<&Node>) -> Host {
    let told = conditions(hypervisor.status.as_ref());
    let holds = |kind: &str| find(told, kind).filter(|found| found.status == ConditionStatus::True);
    let since = |found: &Condition| found.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let running = hypervisor.annotations().get(RUNNING);
    let ids =
        |text: &String| text.split(',').filter(|id| !id.is_empty()).map(ToOwned::to_owned).collect::<BTreeSet<_>>();
    Host {
        name: hypervisor.name_any(),
        high_availability: hypervisor.spec.high_availability,
        power: power(node),
        fenced_at: holds(FENCED).map(since),
        running: running.map(ids),
        reported: holds(FAILED).and_then(|found| found.reason.clone()),
    }
}
