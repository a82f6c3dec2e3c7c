//! The node in the API: its object, its lease, its conditions.

mod object;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{ContainerImage, Node as NodeObject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval, sleep};

pub(crate) use object::{Readiness, desired};

use crate::machine::Pressure;
use crate::node::Node;

const LEASES: &str = "kube-node-lease";
/// How often the node says that it lives; a node whose lease is four times as old is NotReady.
const BEAT: Duration = Duration::from_secs(10);
/// How often the status is written although nothing changed, in beats.
const BEATS_PER_STATUS: u32 = 30;
const RETRY: Duration = Duration::from_millis(500);
/// As many images are listed.
const MOST_IMAGES: usize = 50;

/// Registers the node, then keeps its lease and status, for ever.
pub(crate) async fn run(node: &Node) {
    while let Err(error) = register(node).await {
        tracing::warn!(node = node.name(), %error, "cannot register yet");
        sleep(RETRY).await;
    }
    tracing::info!(node = node.name(), "registered");
    // Apart from each other: a container runtime that is busy for minutes does not make the node seem dead.
    tokio::join!(keep_lease(node), keep_status(node));
}

async fn keep_lease(node: &Node) {
    let mut beats = interval(BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beats.tick().await;
        if let Err(error) = renew(node).await {
            tracing::warn!(node = node.name(), %error, "cannot renew the lease");
        }
    }
}

async fn keep_status(node: &Node) {
    let mut beats = interval(BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut written, mut since) = (Value::Null, 0);
    loop {
        beats.tick().await;
        let status = status(node).await;
        since += 1;
        // Times apart, which change with every beat.
        let told = without_times(&status);
        if told == written && since < BEATS_PER_STATUS {
            continue;
        }
        match write(node, &status).await {
            Ok(()) => (written, since) = (told, 0),
            Err(error) => tracing::warn!(node = node.name(), %error, "cannot write the status"),
        }
    }
}

async fn register(node: &Node) -> kube::Result<()> {
    let api = Api::<NodeObject>::all(node.client.clone());
    let wanted = desired(&node.config, &node.machine);
    match api.create(&PostParams::default(), &wanted).await {
        Ok(_) => {}
        Err(kube::Error::Api(error)) if error.code == 409 => {
            // Labels of ours are brought up to date; those of others, taints and cordons stay.
            let metadata = json!({"labels": wanted.metadata.labels, "annotations": wanted.metadata.annotations});
            let podcidr = wanted.spec.map(|spec| json!({"podCIDR": spec.pod_cidr, "podCIDRs": spec.pod_cidrs}));
            let patch = json!({"metadata": metadata, "spec": podcidr});
            api.patch(node.name(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

async fn renew(node: &Node) -> kube::Result<()> {
    let api = Api::<Lease>::namespaced(node.client.clone(), LEASES);
    let now = MicroTime(Timestamp::now());
    let patch = json!({"spec": {"renewTime": now, "holderIdentity": node.name(), "leaseDurationSeconds": 40}});
    let renewed = api.patch(node.name(), &PatchParams::default(), &Patch::Merge(patch)).await;
    match renewed {
        Err(kube::Error::Api(error)) if error.code == 404 => {}
        renewed => return renewed.map(drop),
    }
    let object = Api::<NodeObject>::all(node.client.clone()).get(node.name()).await?;
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.name().to_owned(),
        uid: object.uid().unwrap_or_default(),
        ..OwnerReference::default()
    };
    let mut lease = Lease::default();
    lease.metadata.name = Some(node.name().to_owned());
    lease.metadata.owner_references = Some(vec![owner]);
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(node.name().to_owned()),
        lease_duration_seconds: Some(40),
        renew_time: Some(now),
        ..LeaseSpec::default()
    });
    api.create(&PostParams::default(), &lease).await.map(drop)
}

/// The status as it is to be, with conditions that keep their times.
async fn status(node: &Node) -> Value {
    let runtime = match node.runtime.status(false).await {
        Ok(status) => object::readiness(status.status.unwrap_or_default()),
        Err(error) => Readiness::no("KubeletNotReady", format!("container runtime is down: {error}")),
    };
    let version = node.runtime.version().await.map(|version| version.runtime_version).unwrap_or_default();
    let images = node.runtime.list_images().await.unwrap_or_default();
    let images = images.into_iter().take(MOST_IMAGES).map(|image| ContainerImage {
        names: Some(image.repo_digests.into_iter().chain(image.repo_tags).collect()),
        size_bytes: i64::try_from(image.size).ok(),
    });
    let pressure = Pressure::read(node.config.site.data());
    let api = Api::<NodeObject>::all(node.client.clone());
    let old = api.get_opt(node.name()).await.ok().flatten().and_then(|node| node.status);
    let old = old.and_then(|status| status.conditions).unwrap_or_default();
    let conditions = object::conditions(&runtime, pressure, &old, Timestamp::now());
    let mut status = object::status(&node.config, &node.machine, &version);
    status.images = Some(images.collect());
    status.conditions = Some(conditions);
    json!(status)
}

fn without_times(status: &Value) -> Value {
    let mut told = status.clone();
    for condition in told["conditions"].as_array_mut().into_iter().flatten() {
        condition["lastHeartbeatTime"] = Value::Null;
    }
    told
}

/// Conditions are merged by type, so that those of others stay.
async fn write(node: &Node, status: &Value) -> kube::Result<()> {
    let api = Api::<NodeObject>::all(node.client.clone());
    let mut status = status.clone();
    if let Some(addresses) = status["addresses"].as_array_mut() {
        addresses.insert(0, json!({"$patch": "replace"}));
    }
    let patch = json!({"status": status});
    let written = api.patch_status(node.name(), &PatchParams::default(), &Patch::Strategic(patch)).await;
    match written {
        // Someone deleted the node: it comes back, as it does with a kubelet that is restarted.
        Err(kube::Error::Api(error)) if error.code == 404 => register(node).await,
        written => written.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use c5c3_cri::{Instance, Runtime, Site};
    use c5c3_harness::TestCluster;
    use k8s_openapi::api::core::v1::Service;
    use kube::runtime::reflector::store;
    use tokio::net::UnixListener;

    use super::*;
    use crate::NodeConfig;
    use crate::voice::Voice;

    #[tokio::test]
    async fn a_lease_is_renewed_while_the_container_runtime_does_not_answer() {
        let cluster = TestCluster::in_process().await.unwrap();
        let home = tempfile::tempdir().unwrap();
        let socket = home.path().join("silent.sock");
        // Connections are taken, and no one reads what comes.
        let _silent = UnixListener::bind(&socket).unwrap();
        let site = Site::new(Instance::new("zoo").unwrap(), "lion", home.path()).unwrap();
        let (voice, _speaker) = Voice::new(cluster.client());
        let config = NodeConfig::new(site, "192.0.2.7".parse().unwrap());
        let node = Node::new(cluster.client(), Runtime::at(&socket), config, store::<Service>().0, voice);
        let leases = Api::<Lease>::namespaced(cluster.client(), LEASES);
        let renewed = async {
            let mut versions = std::collections::BTreeSet::new();
            while versions.len() < 3 {
                if let Ok(Some(lease)) = leases.get_opt("lion").await {
                    versions.insert(lease.resource_version());
                }
                sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::time::pause();
        tokio::select! {
            () = run(&node) => unreachable!("it runs for ever"),
            renewed = tokio::time::timeout(BEAT * 4, renewed) => renewed.expect("the node would seem dead by now"),
        }
    }
}
