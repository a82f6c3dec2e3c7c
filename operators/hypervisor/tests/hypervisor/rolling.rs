//! A rolling replacement of hypervisors with guests on them. Gardener's machine controller, the kubelet and the controllers of
//! Deployments and of budgets are played by the test: a node is marked, its hold is evicted until the budget allows it, and only
//! then is the node deleted.

use std::sync::{Arc, Mutex};

use c5c3_harness::TestCluster;
use c5c3_operator_hypervisor::Hold;
use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, EvictParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::runtime::watcher;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::openstack::OpenStack;
use crate::site::{Site, condition};

/// The site, and where its holds are.
struct Yard {
    site: Site,
    place: String,
}

/// The names of the guests on a host.
fn guests_of(cloud: &OpenStack, host: &str) -> Vec<String> {
    let world = cloud.world();
    let is_here = |server: &&Value| server["OS-EXT-SRV-ATTR:host"] == host;
    world.servers.values().filter(is_here).map(|server| server["name"].as_str().unwrap().to_owned()).collect()
}

impl Yard {
    async fn open() -> Self {
        let cluster = TestCluster::embedded("nodes are made by hand").await.unwrap().unwrap();
        let place = cluster.namespace_named("cellar").await.unwrap();
        let hold = Hold { namespace: place.clone(), image: "pause".into() };
        let site = Site::in_cluster(cluster, |settings| settings.hold = Some(hold)).await;
        Self { site, place }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.site.cluster.client(), &self.place)
    }

    /// A node joins, takes servers, and is held by a pod that is ready.
    async fn join(&self, host: &str) {
        self.site.ready(host).await;
        let name = format!("hold-{host}");
        let deployments = self.api::<Deployment>();
        // That of the node before has none, until it is gone.
        let is_there = |found: Option<&Deployment>| {
            found.and_then(|found| found.spec.as_ref()).is_some_and(|spec| spec.replicas == Some(1))
        };
        let waited = await_condition(deployments.clone(), &name, is_there);
        let deployment = tokio::time::timeout(std::time::Duration::from_mins(1), waited).await;
        let deployment = deployment.expect("a hold within a minute").unwrap().unwrap();
        let template = deployment.spec.unwrap().template;
        let labels = template.metadata.unwrap().labels.unwrap();
        let mut spec = json!(template.spec.unwrap());
        spec["nodeName"] = host.into();
        let pod = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
        let pods = self.api::<Pod>();
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let runs = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(runs)).await.unwrap();
        let available = json!({"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}});
        deployments.patch_status(&name, &PatchParams::default(), &Patch::Merge(available)).await.unwrap();
        self.site.said("Hypervisor", host, "NodeHeld", "True", "Held").await;
    }

    /// The machine controller marks a node whose machine it wants to replace.
    async fn mark(&self, host: &str) {
        let leaves = json!({"status": {"conditions": [{"type": "Terminating", "status": "True"}]}});
        self.site.nodes().patch_status(host, &PatchParams::default(), &Patch::Merge(leaves)).await.unwrap();
        self.site.said("Hypervisor", host, "Terminating", "True", "Terminating").await;
    }

    /// The machine controller evicts the pod of the hold, and is told whether the budget allows it. The budget's controller has seen
    /// the budget as it is now.
    async fn may_go(&self, host: &str) -> bool {
        let name = format!("hold-{host}");
        let budgets = self.api::<PodDisruptionBudget>();
        let budget = budgets.get(&name).await.unwrap();
        let needed = json!(budget.spec.as_ref().unwrap().min_available).as_i64().unwrap();
        let status = json!({"status": {"observedGeneration": budget.metadata.generation, "currentHealthy": 1,
            "desiredHealthy": needed, "expectedPods": 1, "disruptionsAllowed": 1 - needed}});
        budgets.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        let pods = self.api::<Pod>();
        match pods.evict(&name, &EvictParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 429 => return false,
            Err(error) => panic!("{error}"),
        }
        // The kubelet has ended the pod.
        let _ = pods.delete(&name, &DeleteParams::default().grace_period(0)).await;
        await_condition(pods, &name, |pod: Option<&Pod>| pod.is_none()).await.unwrap();
        true
    }

    /// The node is held, its guests are on it still, and Nova knows it.
    async fn assert_held(&self, host: &str, guests: &[&str]) {
        assert!(!self.may_go(host).await, "{host} may go");
        let status = self.site.status("Hypervisor", host).await;
        assert_eq!(condition(&status, "NodeHeld")["reason"], "Held", "{status:#}");
        assert_eq!(guests_of(&self.site.cloud, host), guests);
        assert!(self.site.cloud.world().services.contains_key(host));
    }

    /// The host has left Nova: the machine controller gets its eviction, and deletes the node.
    async fn replace(&self, host: &str) {
        self.site.said("Hypervisor", host, "Offboarded", "True", "Offboarded").await;
        self.site.said("Hypervisor", host, "NodeHeld", "False", "Released").await;
        assert_eq!(guests_of(&self.site.cloud, host), Vec::<String>::new());
        assert!(self.may_go(host).await, "the hold of {host} is kept");
        self.site.delete_node(host).await;
        self.site.gone("Hypervisor", host).await;
    }

    /// Watches all budgets, and notes each that lets a machine go with a guest on it.
    fn watch(&self) -> (JoinHandle<()>, Arc<Mutex<Vec<String>>>) {
        let mut events = watcher(self.api::<PodDisruptionBudget>(), watcher::Config::default()).boxed();
        let (cloud, noted) = (self.site.cloud.clone(), Arc::<Mutex<Vec<String>>>::default());
        let notes = noted.clone();
        let watching = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                let Ok(watcher::Event::Apply(budget) | watcher::Event::InitApply(budget)) = event else { continue };
                let name = budget.name_any();
                let lets_go = budget.spec.is_some_and(|spec| json!(spec.min_available) == 0);
                let guests = guests_of(&cloud, name.trim_start_matches("hold-"));
                if lets_go && !guests.is_empty() {
                    notes.lock().unwrap().push(format!("{name}: {}", guests.join(", ")));
                }
            }
        });
        (watching, noted)
    }
}

/// Waits for a condition whose message names these.
async fn told(site: &Site, host: &str, condition_type: &str, reason: &str, words: &[&str]) {
    let is_so = |object: Option<&DynamicObject>| {
        let said = object.map(|object| condition(&object.data["status"], condition_type)).unwrap_or_default();
        let message = said["message"].as_str().unwrap_or_default();
        said["reason"] == reason && words.iter().all(|word| message.contains(word))
    };
    site.until("Hypervisor", host, &format!("says {words:?}"), is_so).await;
}

#[tokio::test]
async fn three_hypervisors_with_guests_are_replaced_and_none_is_let_go_with_a_guest_on_it() {
    let yard = Yard::open().await;
    let (site, hosts) = (&yard.site, ["hv-1", "hv-2", "hv-3"]);
    let (watching, noted) = yard.watch();
    for host in hosts {
        yard.join(host).await;
    }
    for (guest, host, status) in [
        ("a", "hv-1", "ACTIVE"),
        ("b", "hv-1", "SHUTOFF"),
        ("c", "hv-2", "PAUSED"),
        ("d", "hv-3", "SUSPENDED"),
        ("e", "hv-3", "ACTIVE"),
    ] {
        site.cloud.server(guest, host, status);
    }

    // The first one is held for as long as a guest is on its way.
    site.cloud.world().hangs.insert("a".into());
    yard.assert_held("hv-1", &["vm-a", "vm-b"]).await;
    yard.mark("hv-1").await;
    let only_one = |_: Option<&DynamicObject>| guests_of(&site.cloud, "hv-1") == ["vm-a"];
    site.until("Eviction", "hv-1", "has moved the guest that is shut off", only_one).await;
    yard.assert_held("hv-1", &["vm-a"]).await;
    site.cloud.world().hangs.clear();
    yard.replace("hv-1").await;
    yard.join("hv-1").await;

    yard.assert_held("hv-2", &["vm-a", "vm-b", "vm-c"]).await;
    yard.mark("hv-2").await;
    yard.replace("hv-2").await;
    yard.join("hv-2").await;

    // The drain of the last one cannot finish: it blocks, and says which guest is in the way and why.
    let deleted = site.cloud.count("DELETE");
    yard.mark("hv-3").await;
    let why = ["vm-d (d): it is SUSPENDED", "resume it"];
    told(site, "hv-3", "Evicting", "Failed", &why).await;
    told(site, "hv-3", "Offboarded", "Offboarding", &["held back, because the drain failed", why[0], why[1]]).await;
    told(site, "hv-3", "Ready", "Terminating", &[]).await;
    yard.assert_held("hv-3", &["vm-d"]).await;
    assert_eq!(site.cloud.count("DELETE"), deleted);
    site.cloud.world().servers.get_mut("d").unwrap()["status"] = "ACTIVE".into();
    let look = Patch::Merge(json!({"metadata": {"annotations": {"look": "again"}}}));
    site.api("Eviction").patch("hv-3", &PatchParams::default(), &look).await.unwrap();
    yard.replace("hv-3").await;
    yard.join("hv-3").await;

    watching.abort();
    assert_eq!(*noted.lock().unwrap(), Vec::<String>::new());
    let world = site.cloud.world();
    let lost: Vec<&Value> = world
        .servers
        .values()
        .filter(|server| !world.services.contains_key(server["OS-EXT-SRV-ATTR:host"].as_str().unwrap()))
        .collect();
    assert_eq!((world.servers.len(), lost), (5, vec![]));
}
