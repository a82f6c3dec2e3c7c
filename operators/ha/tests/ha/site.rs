//! A cluster with hosts, and the operator on it.

use std::sync::Arc;
use std::time::Duration;

use c5c3_harness::TestCluster;
use c5c3_kit::Settings;
use c5c3_kit::http::Readiness;
use c5c3_kit::metrics::Metrics;
use c5c3_operator_ha::{Compute, Fencer, GuestPolicy, Means, Nova, Policy};
use jiff::{Span, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::fakes::Fakes;

pub(crate) struct Site {
    cluster: TestCluster,
    pub(crate) fakes: Fakes,
    /// When guests are restarted.
    pub(crate) policy: GuestPolicy,
}

impl Site {
    /// Hosts that are ready, with these guests: name, host and status.
    pub(crate) async fn start(hosts: &[&str], guests: &[(&str, &str, &'static str)]) -> Option<Self> {
        let cluster = TestCluster::without_controllers("nodes fail when the test says so").await.unwrap()?;
        for kind in ["Hypervisor", "Eviction"] {
            cluster.install(&c5c3_api::find("hypervisor.c5c3.io/v1", kind).unwrap().crd()).await.unwrap();
        }
        let site = Self { cluster, fakes: Fakes::start(hosts, guests).await, policy: GuestPolicy::default() };
        let params = PostParams::default();
        for host in hosts {
            let node = json!({"metadata": {"name": host}});
            Api::<Node>::all(site.cluster.client())
                .create(&params, &serde_json::from_value(node).unwrap())
                .await
                .unwrap();
            let hypervisor = json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Hypervisor",
                "metadata": {"name": host}, "spec": {}});
            site.hypervisors().create(&params, &serde_json::from_value(hypervisor).unwrap()).await.unwrap();
            site.set_ready(host, true).await;
        }
        Some(site)
    }

    pub(crate) fn hypervisors(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("hypervisor.c5c3.io", "v1", "Hypervisor");
        Api::all_with(self.cluster.client(), &ApiResource::from_gvk(&kind))
    }

    pub(crate) fn evictions(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("hypervisor.c5c3.io", "v1", "Eviction");
        Api::all_with(self.cluster.client(), &ApiResource::from_gvk(&kind))
    }

    /// The reasons of the events of all Hypervisors.
    pub(crate) async fn events(&self) -> Vec<String> {
        let events: Api<k8s_openapi::api::events::v1::Event> = Api::all(self.cluster.client());
        let all = events.list(&ListParams::default()).await.unwrap();
        all.items.into_iter().filter_map(|event| event.reason).collect()
    }

    /// The agent of the host reports these failures: guest, kind, state and how many seconds ago.
    pub(crate) async fn report(&self, host: &str, failures: &[(&str, &str, &str, i64)]) {
        let failure = |(instance, kind, state, ago): &(&str, &str, &str, i64)| {
            let time = Timestamp::now().checked_sub(Span::new().seconds(*ago)).unwrap();
            let time = Timestamp::from_second(time.as_second()).unwrap().to_string();
            json!({"instance": instance, "kind": kind, "state": state, "time": time})
        };
        let failures: Vec<Value> = failures.iter().map(failure).collect();
        let said = json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Hypervisor", "metadata": {"name": host},
            "status": {"guestFailures": failures}});
        let params = PatchParams::apply("agent").force();
        self.hypervisors().patch_status(host, &params, &Patch::Apply(said)).await.unwrap();
    }

    pub(crate) async fn set_maintenance(&self, host: &str, mode: &str) {
        let patch = Patch::Merge(json!({"spec": {"maintenance": mode, "maintenanceReason": "a fan"}}));
        self.hypervisors().patch(host, &PatchParams::default(), &patch).await.unwrap();
    }

    /// The node is ready, or was last seen ten minutes ago.
    pub(crate) async fn set_ready(&self, host: &str, ready: bool) {
        let (status, since) = if ready {
            ("True", Timestamp::now())
        } else {
            ("Unknown", Timestamp::now().checked_sub(Span::new().minutes(10)).unwrap())
        };
        let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": since.to_string()});
        let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        let nodes = Api::<Node>::all(self.cluster.client());
        nodes.patch_status(host, &PatchParams::default(), &patch).await.unwrap();
    }

    pub(crate) async fn set_high_availability(&self, host: &str, wanted: bool) {
        let patch = Patch::Merge(json!({"spec": {"highAvailability": wanted}}));
        self.hypervisors().patch(host, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Another writer says this of a Hypervisor, beside what is there.
    pub(crate) async fn say(&self, host: &str, kind: &str, status: &str, reason: &str) {
        let condition = json!({"type": kind, "status": status, "reason": reason});
        let said = json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Hypervisor", "metadata": {"name": host},
            "status": {"conditions": [condition]}});
        let params = PatchParams::apply(&format!("says-{kind}")).force();
        self.hypervisors().patch_status(host, &params, &Patch::Apply(said)).await.unwrap();
    }

    /// Waits until it is told for this reason whether high availability has the host.
    pub(crate) async fn until_enabled(&self, host: &str, status: &str, reason: &str) {
        let wait = async {
            loop {
                let condition = self.condition(host, "HaEnabled").await;
                if condition["status"] == status && condition["reason"] == reason {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_mins(1), wait).await.is_ok();
        assert!(in_time, "not {status} {reason}: {}", self.condition(host, "HaEnabled").await);
    }

    /// A condition of a Hypervisor; null without it.
    pub(crate) async fn condition(&self, host: &str, kind: &str) -> Value {
        let found = self.hypervisors().get(host).await.unwrap();
        let conditions = found.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
    }

    /// Waits until the host is reported for this reason.
    pub(crate) async fn until(&self, host: &str, reason: &str) -> Value {
        self.until_told(host, "HostFailed", reason).await
    }

    /// Waits until a condition has this reason.
    pub(crate) async fn until_told(&self, host: &str, kind: &str, reason: &str) -> Value {
        let wait = async {
            loop {
                let condition = self.condition(host, kind).await;
                if condition["reason"] == reason {
                    return condition;
                }
                tokio::task::yield_now().await;
            }
        };
        let Ok(condition) = tokio::time::timeout(Duration::from_mins(1), wait).await else {
            panic!("not {reason}: {} {:?}", self.condition(host, kind).await, self.fakes.world().log)
        };
        condition
    }

    /// Starts the operator with the rights that it asks for.
    pub(crate) async fn operator(&self, name: &str) -> Running {
        let (nova, fencer) = (self.fakes.client(), self.fakes.clone());
        let operator = c5c3_operator_ha::with(Means {
            policy: Policy { interval: Duration::from_millis(20), guests: self.policy.clone(), ..Policy::default() },
            compute: Box::new(move |_, _| {
                let nova = Arc::new(Nova::new(nova.clone())) as Arc<dyn Compute>;
                Box::pin(async move { Ok(nova) })
            }),
            fencer: Box::new(move |_, _| {
                let fencer = Arc::new(fencer.clone()) as Arc<dyn Fencer>;
                Box::pin(async move { Ok(fencer) })
            }),
        });
        let (access, namespace) = (operator.access(), self.cluster.namespace());
        let limited = self.cluster.limited(name, namespace, access.in_namespaces(), access.in_cluster()).await.unwrap();
        let client = limited.client.clone();
        let task = tokio::spawn(async move {
            let stop = CancellationToken::new();
            operator.run(client, Settings::default(), Metrics::default(), Readiness::default(), stop).await;
        });
        Running { task, refused: Box::new(move || limited.refused()) }
    }
}

/// An operator that is killed when it is dropped.
pub(crate) struct Running {
    task: JoinHandle<()>,
    refused: Box<dyn Fn() -> Vec<String> + Send + Sync>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
        if !std::thread::panicking() {
            assert_eq!((self.refused)(), Vec::<String>::new(), "a right is missing");
        }
    }
}
