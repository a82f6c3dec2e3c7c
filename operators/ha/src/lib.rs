//! High availability: servers of dead hypervisors run elsewhere, after the host is known to be off, and guests that crash run again.
//!
//! ```text
//! node not ready ─► long enough? ─► few enough? ─► fenced? ─► forced down ─► disabled ─► evacuated ─► started
//!                    wait            stop, tell     never assumed             one by one, then the result is told
//! ```
//!
//! Guests of a host that works are started again in place when they crash, a few times; a host on which several crash is evicted. Agents
//! report crashes on their Hypervisors, and `guests` decides about them.
//!
//! [`decide`] is pure: it makes a verdict of what is known of a host, with the calls that are to be made. Each turn reads everything
//! again, so that an operator that is killed anywhere goes on where it was: whether a host was fenced and which guests were restarted
//! stands on its Hypervisor, all else in Nova.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod cloud;
mod decide;
mod enabled;
mod fence;
mod guests;
mod read;
mod report;
mod restart;
mod task;
mod turn;

use std::sync::Arc;
use std::time::Duration;

use c5c3_api::hypervisor::{Eviction, Hypervisor};
use c5c3_kit::{Access, KindRef, Operator, Task};
use c5c3_openstack::{Clients, Options};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::Client;

pub use cloud::{Compute, Nova};
pub use decide::{Action, Decided, Host, Known, NovaHost, Power, cliff, decide};
pub use fence::{Fence, FenceAnswer, FenceRequest, FenceState, Fencer, Webhook};
pub use guests::{GuestPolicy, NovaGuest};

/// The field manager, and the prefix of the reason for which a compute service is disabled. It must never change.
pub const NAME: &str = "ha-operator";

/// The Secret that names the fencing webhook: `url`, `token` and, unless the system trusts it, `ca.crt`.
pub const FENCING_SECRET: &str = "c5c3-fencing";

/// The Secret with the operator's own credential, a `clouds.yaml`; a ControlPlane with Nova makes it.
pub const CLOUDS_SECRET: &str = "ha-operator-clouds-yaml";

/// The namespace of both, if the operator does not look after another one.
pub const NAMESPACE: &str = "openstack";

/// When a host is given up, and how many at once.
#[derive(Clone, Debug)]
pub struct Policy {
    /// For how long a node has to be not ready. The node controller waits 40 s before it says so.
    pub patience: Duration,
    /// Which share of all hosts may be failed at once, in percent; one host always may. More is taken for a failure of the network
    /// or of the control plane, in which hosts still run.
    pub most_failed_percent: usize,
    /// How many evacuations of one host are under way at once.
    pub parallel: usize,
    /// How often the evacuation of one server is tried.
    pub attempts: usize,
    /// How often hosts are looked at while one, or a guest of it, is failed.
    pub interval: Duration,
    /// When guests that crash are started again.
    pub guests: GuestPolicy,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            patience: Duration::from_mins(1),
            most_failed_percent: 30,
            parallel: 4,
            attempts: 3,
            interval: Duration::from_secs(5),
            guests: GuestPolicy::default(),
        }
    }
}

/// How the operator reaches what it acts on. The clients are made for each turn, of the Secrets as they are then.
pub struct Means {
    /// When a host is given up.
    pub policy: Policy,
    /// Nova, or why it cannot be reached.
    pub compute: Make<dyn Compute>,
    /// What fences hosts, or why nothing does.
    pub fencer: Make<dyn Fencer>,
}

/// Makes a client from the namespace of the operator.
pub type Make<T> = Box<dyn Fn(Client, String) -> BoxFuture<'static, Result<Arc<T>, String>> + Send + Sync>;

/// The operator. Its Secrets are in one namespace, so `cross_namespace` changes nothing.
pub fn operator(_cross_namespace: bool) -> Operator {
    let options = Options::default();
    let metrics = options.metrics.clone();
    let clients = Arc::new(Clients::new(options));
    let compute: Make<dyn Compute> = Box::new(move |client, namespace| {
        let clients = clients.clone();
        Box::pin(async move {
            Nova::read(&clients, client, &namespace).await.map(|nova| Arc::new(nova) as Arc<dyn Compute>)
        })
    });
    let fencer: Make<dyn Fencer> = Box::new(|client, namespace| {
        Box::pin(
            async move { Webhook::read(client, &namespace).await.map(|webhook| Arc::new(webhook) as Arc<dyn Fencer>) },
        )
    });
    with(Means { policy: Policy::default(), compute, fencer }).metrics(move |registry| metrics.register(registry))
}

/// The operator with these means.
pub fn with(means: Means) -> Operator {
    const READ: &[&str] = &["get", "list", "watch"];
    let hypervisor = KindRef::of::<Hypervisor>();
    let access = Access::default()
        .grant(&KindRef::of::<Node>(), "", READ)
        .grant(&hypervisor, "", READ)
        .grant(&hypervisor, "", &["patch"])
        .grant(&hypervisor, "/status", &["patch"])
        .grant(&KindRef::of::<Eviction>(), "", &["create", "list", "watch"])
        .grant_everywhere(&KindRef::of::<Event>(), "", &["create", "patch"])
        .grant_named(&KindRef::of::<Secret>(), FENCING_SECRET, &["get"])
        .grant_named(&KindRef::of::<Secret>(), CLOUDS_SECRET, &["get"]);
    let means = Arc::new(means);
    Operator::new(NAME).task(access, move |task: Task| turn::run(task, means.clone()))
}
