//! The loop: what is seen goes into the snapshot, whoever's turn it is gets a decision, and decisions are carried out
//! beside it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use c5c3_events::Events;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use k8s_openapi::api::core::v1::{self, Namespace, PersistentVolume, PersistentVolumeClaim, Service};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::{Api, Client, ResourceExt};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::bind::{BindError, bind};
use crate::decide::{Decision, decide};
use crate::follow::{Seen, follow};
use crate::hints::{self, Change};
use crate::model::Key;
use crate::model::node::Node;
use crate::model::pod::{OURS, Pod};
use crate::queue::Queue;
use crate::report;
use crate::snapshot::Snapshot;

/// Something that a watch has seen.
enum Fact {
    Pod(Seen<v1::Pod>),
    Node(Seen<v1::Node>),
    Claim(Seen<PersistentVolumeClaim>),
    Volume(Seen<PersistentVolume>),
    Class(Seen<StorageClass>),
    Namespace(Seen<Namespace>),
    Service(Seen<Service>),
}

/// What has become of a decision.
enum Outcome {
    Bound(Result<(), BindError>),
    /// Whether a pod that waits could be told so.
    Told(bool),
}

/// The scheduler: what it knows, whose turn it is, and what is under way.
pub(crate) struct Scheduler {
    client: Client,
    events: Events,
    snapshot: Snapshot,
    queue: Queue,
    /// Pods that are on their way to a node, and not seen there yet.
    assumed: HashSet<String>,
    under_way: JoinSet<Outcome>,
    pods_under_way: HashMap<Id, (String, AbortHandle)>,
    /// How many watches have not listed what there is: before that, every decision would be wrong.
    unlisted: usize,
}

impl Scheduler {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            events: Events::new(client.clone(), OURS),
            client,
            snapshot: Snapshot::default(),
            queue: Queue::default(),
            assumed: HashSet::new(),
            under_way: JoinSet::new(),
            pods_under_way: HashMap::new(),
            unlisted: 0,
        }
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let watches = watches(&self.client);
        self.unlisted = watches.len();
        let mut facts = stream::select_all(watches);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                Some(fact) = facts.next() => self.learn(fact),
                Some(outcome) = self.under_way.join_next_with_id() => self.conclude(outcome),
                () = turn(&mut self.queue, self.unlisted == 0) => {
                    self.schedule();
                    // What was decided starts on its way before the next one is.
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// Decides on the pod whose turn it is.
    fn schedule(&mut self) {
        let now = Instant::now();
        let Some(pod) = self.queue.pop(now) else { return };
        let (client, events, uid) = (self.client.clone(), self.events.clone(), pod.uid.clone());
        match decide(&self.snapshot, &pod) {
            Decision::Place { node, steps } => {
                self.snapshot.assume(&pod, &node, &steps);
                self.assumed.insert(uid.clone());
                self.start(uid, async move { Outcome::Bound(bind(client, events, &pod, &node, &steps).await) });
            }
            Decision::Wait { message, rules } => {
                self.queue.wait(&uid, rules, now);
                self.start(uid, async move {
                    Outcome::Told(report::tell(client, &events, &pod, report::UNSCHEDULABLE, message).await)
                });
            }
        }
    }

    fn start(&mut self, uid: String, work: impl Future<Output = Outcome> + Send + 'static) {
        let handle = self.under_way.spawn(work);
        self.pods_under_way.insert(handle.id(), (uid, handle));
    }

    /// Takes note of what has become of a decision.
    fn conclude(&mut self, outcome: Result<(Id, Outcome), JoinError>) {
        let (id, outcome) = match outcome {
            Ok((id, outcome)) => (id, Some(outcome)),
            Err(error) => (error.id(), None),
        };
        let Some((uid, _)) = self.pods_under_way.remove(&id) else { return };
        match outcome {
            // The watch will show it.
            Some(Outcome::Bound(Ok(()))) => {}
            Some(Outcome::Told(is_told)) => self.queue.told(&uid, is_told),
            Some(Outcome::Bound(Err(error))) => {
                tracing::warn!(uid, %error, "a pod could not be bound, and is tried again");
                self.take_back(&uid);
            }
            None => self.take_back(&uid),
        }
    }

    /// Forgets a decision that could not be carried out; others may have the place.
    fn take_back(&mut self, uid: &str) {
        if self.assumed.remove(uid)
            && let Some(pod) = self.snapshot.forget(uid)
        {
            self.queue.changed(&Change::PodWent(pod));
        }
        self.queue.failed(uid, Instant::now());
    }

    fn learn(&mut self, fact: Fact) {
        match fact {
            Fact::Pod(Seen::Is(pod)) => self.pod_is(Arc::new(Pod::of(*pod))),
            Fact::Pod(Seen::Gone { uid, .. }) => self.pod_gone(&uid),
            Fact::Node(Seen::Is(node)) => self.node_is(Node::of(*node)),
            Fact::Node(Seen::Gone { key: (_, name), .. }) => {
                let before = self.snapshot.nodes.remove(&name);
                self.changed(hints::of_node(before.as_ref(), None));
            }
            Fact::Claim(Seen::Is(claim)) => {
                self.snapshot.claim_is(key_of(&*claim), *claim);
                self.changed([Change::Storage]);
            }
            Fact::Claim(Seen::Gone { key, .. }) => self.snapshot.claim_gone(&key),
            Fact::Volume(Seen::Is(volume)) => {
                self.snapshot.volumes.insert(volume.name_any(), *volume);
                self.changed([Change::Storage]);
            }
            Fact::Volume(Seen::Gone { key, .. }) => drop(self.snapshot.volumes.remove(&key.1)),
            Fact::Class(Seen::Is(class)) => {
                self.snapshot.classes.insert(class.name_any(), *class);
                self.changed([Change::Storage]);
            }
            Fact::Class(Seen::Gone { key, .. }) => drop(self.snapshot.classes.remove(&key.1)),
            Fact::Namespace(Seen::Is(namespace)) => self.namespace_is(&namespace),
            Fact::Namespace(Seen::Gone { key, .. }) => drop(self.snapshot.namespaces.remove(&key.1)),
            Fact::Service(Seen::Is(service)) => {
                let key = key_of(&*service);
                let selector = service.spec.and_then(|spec| spec.selector).unwrap_or_default();
                self.snapshot.services.insert(key, selector);
            }
            Fact::Service(Seen::Gone { key, .. }) => drop(self.snapshot.services.remove(&key)),
            Fact::Pod(Seen::Listed)
            | Fact::Node(Seen::Listed)
            | Fact::Claim(Seen::Listed)
            | Fact::Volume(Seen::Listed)
            | Fact::Class(Seen::Listed)
            | Fact::Namespace(Seen::Listed)
            | Fact::Service(Seen::Listed) => self.unlisted -= 1,
        }
    }

    fn pod_is(&mut self, pod: Arc<Pod>) {
        if pod.is_finished {
            return self.pod_gone(&pod.uid);
        }
        if pod.node.is_none() {
            if pod.is_foreign || pod.is_deleting {
                self.queue.remove(&pod.uid);
            } else {
                self.queue.upsert(pod);
            }
            return;
        }
        self.queue.remove(&pod.uid);
        let was_assumed = self.assumed.remove(&pod.uid);
        let before = self.snapshot.place(pod.clone());
        if let Some(before) = before.as_ref().filter(|before| before.node != pod.node) {
            // Someone else has brought it elsewhere; the place that was kept for it is free.
            self.queue.changed(&Change::PodWent(before.clone()));
        }
        self.changed(hints::of_placed(before.as_ref().filter(|_| !was_assumed), &pod));
    }

    fn pod_gone(&mut self, uid: &str) {
        self.queue.remove(uid);
        for (_, handle) in self.pods_under_way.values().filter(|(pod, _)| pod == uid) {
            handle.abort();
        }
        self.assumed.remove(uid);
        if let Some(pod) = self.snapshot.forget(uid) {
            self.queue.changed(&Change::PodWent(pod));
        }
    }

    fn node_is(&mut self, node: Node) {
        let changes = hints::of_node(self.snapshot.nodes.get(&node.name), Some(&node));
        self.snapshot.nodes.insert(node.name.clone(), node);
        self.changed(changes);
    }

    fn namespace_is(&mut self, namespace: &Namespace) {
        let labels = namespace.labels().clone();
        let before = self.snapshot.namespaces.insert(namespace.name_any(), labels.clone());
        if before.is_some_and(|before| before != labels) {
            self.queue.changed(&Change::Namespace);
        }
    }

    fn changed(&mut self, changes: impl IntoIterator<Item = Change>) {
        changes.into_iter().for_each(|change| self.queue.changed(&change));
    }
}

/// Waits until it is someone's turn.
async fn turn(queue: &mut Queue, may_begin: bool) {
    if !may_begin {
        return std::future::pending().await;
    }
    if queue.has_next(Instant::now()) {
        return;
    }
    match queue.next_turn() {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn watches(client: &Client) -> Vec<BoxStream<'static, Fact>> {
    vec![
        follow(Api::all(client.clone())).map(Fact::Pod).boxed(),
        follow(Api::all(client.clone())).map(Fact::Node).boxed(),
        follow(Api::all(client.clone())).map(Fact::Claim).boxed(),
        follow(Api::all(client.clone())).map(Fact::Volume).boxed(),
        follow(Api::all(client.clone())).map(Fact::Class).boxed(),
        follow(Api::all(client.clone())).map(Fact::Namespace).boxed(),
        follow(Api::all(client.clone())).map(Fact::Service).boxed(),
    ]
}

fn key_of(object: &impl ResourceExt) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}
