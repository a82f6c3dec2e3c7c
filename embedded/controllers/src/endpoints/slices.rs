//! How endpoints are spread over slices: as few changes as possible, a hundred in each at most.

use std::collections::BTreeMap;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, ListParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Client, ResourceExt};

use super::desired::ByPorts;
use crate::error::{Error, is_gone, is_namespace_going};

pub(super) const SERVICE: &str = "kubernetes.io/service-name";
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// How many endpoints a slice holds at most.
const FULL: usize = 100;

/// What all slices of one family of one Service have in common.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) namespace: String,
    /// What their names begin with.
    pub(super) service: String,
    pub(super) family: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) owner: OwnerReference,
}

/// What to do with slices.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Changes {
    pub(super) create: Vec<EndpointSlice>,
    pub(super) update: Vec<EndpointSlice>,
    pub(super) delete: Vec<EndpointSlice>,
}

/// What it takes to have these endpoints in slices.
pub(super) fn changes(frame: &Frame, wanted: ByPorts<Endpoint>, existing: Vec<EndpointSlice>) -> Changes {
    let mut changes = Changes::default();
    let mut left = existing;
    let mut count = 0;
    for (ports, mut endpoints) in wanted {
        let (same, others): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|slice| slice.ports.as_deref().unwrap_or_default() == ports);
        left = others;
        let mut kept: Vec<(EndpointSlice, Vec<Endpoint>)> = Vec::new();
        for slice in same {
            let still = stay(&slice, &mut endpoints);
            kept.push((slice, still));
        }
        // The fullest slices are filled first, so that the emptiest may go.
        kept.sort_by_key(|(_, still)| std::cmp::Reverse(still.len()));
        for (slice, mut still) in kept {
            let room = FULL.saturating_sub(still.len()).min(endpoints.len());
            still.extend(endpoints.drain(..room));
            if still.is_empty() {
                left.push(slice);
                continue;
            }
            count += 1;
            let now = filled(frame, &slice, still);
            if now != slice {
                changes.update.push(now);
            }
        }
        for chunk in endpoints.chunks(FULL) {
            count += 1;
            changes.create.push(new(frame, ports.clone(), chunk.to_vec()));
        }
    }
    if count == 0 {
        keep_one(frame, &mut left, &mut changes);
    }
    changes.delete = left;
    changes
}

/// Takes the endpoints out of `wanted` that are in the slice, as they are wanted.
fn stay(slice: &EndpointSlice, wanted: &mut Vec<Endpoint>) -> Vec<Endpoint> {
    let mut still = Vec::new();
    for old in &slice.endpoints {
        let same = |new: &Endpoint| new.addresses == old.addresses && uid(new) == uid(old);
        if let Some(position) = wanted.iter().position(same) {
            still.push(wanted.remove(position));
        }
    }
    still
}

fn uid(endpoint: &Endpoint) -> Option<&str> {
    endpoint.target_ref.as_ref()?.uid.as_deref()
}

/// A Service without endpoints has one slice that says so.
fn keep_one(frame: &Frame, left: &mut Vec<EndpointSlice>, changes: &mut Changes) {
    let Some(slice) = left.pop() else {
        changes.create.push(new(frame, Vec::new(), Vec::new()));
        return;
    };
    let empty = EndpointSlice { ports: None, ..filled(frame, &slice, Vec::new()) };
    let ports = |slice: &EndpointSlice| slice.ports.clone().unwrap_or_default();
    if (ports(&empty), &empty.endpoints, &empty.metadata) != (ports(&slice), &slice.endpoints, &slice.metadata) {
        changes.update.push(empty);
    }
}

fn filled(frame: &Frame, slice: &EndpointSlice, endpoints: Vec<Endpoint>) -> EndpointSlice {
    let metadata = ObjectMeta {
        labels: Some(frame.labels.clone()),
        annotations: Some(frame.annotations.clone()).filter(|annotations| !annotations.is_empty()),
        owner_references: Some(vec![frame.owner.clone()]),
        ..slice.metadata.clone()
    };
    EndpointSlice { metadata, endpoints, ..slice.clone() }
}

fn new(frame: &Frame, ports: Vec<EndpointPort>, endpoints: Vec<Endpoint>) -> EndpointSlice {
    let metadata = ObjectMeta {
        generate_name: Some(format!("{}-", frame.service)),
        namespace: Some(frame.namespace.clone()),
        ..ObjectMeta::default()
    };
    let empty =
        EndpointSlice { metadata, address_type: frame.family.clone(), ports: Some(ports), endpoints: Vec::new() };
    filled(frame, &empty, endpoints)
}

/// Has these endpoints in the slices that `manager` keeps for the Service, in every family, and in no others.
pub(super) async fn write(
    client: &Client,
    manager: &str,
    frames: Vec<(Frame, ByPorts<Endpoint>)>,
    (namespace, service): (&str, &str),
) -> Result<(), Error> {
    let api = Api::<EndpointSlice>::namespaced(client.clone(), namespace);
    let params = ListParams::default().labels(&format!("{SERVICE}={service},{MANAGED_BY}={manager}"));
    let mut existing = api.list(&params).await?.items;
    existing.retain(|slice| slice.metadata.deletion_timestamp.is_none());
    for (frame, wanted) in frames {
        let (own, others) = existing.into_iter().partition(|slice| slice.address_type == frame.family);
        existing = others;
        apply(&api, changes(&frame, wanted, own)).await?;
    }
    apply(&api, Changes { delete: existing, ..Changes::default() }).await
}

/// New slices come first, so that no endpoint is missing from all of them in between.
async fn apply(api: &Api<EndpointSlice>, changes: Changes) -> Result<(), Error> {
    for slice in changes.create {
        match api.create(&PostParams::default(), &slice).await {
            Err(error) if !is_namespace_going(&error) => return Err(error.into()),
            _ => {}
        }
    }
    for slice in changes.update {
        api.replace(&slice.name_any(), &PostParams::default(), &slice).await?;
    }
    for slice in changes.delete {
        match api.delete(&slice.name_any(), &kube::api::DeleteParams::default()).await {
            Err(error) if !is_gone(&error) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}
