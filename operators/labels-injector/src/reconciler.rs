//! The reconciler: gives pods the labels that the webhook missed, and follows nodes that are relabelled.
//!
//! Pods and nodes are watched as metadata. On which node a pod is does not stand in its metadata, so it is read once for each pod:
//! one by one, or from one list when many are new, as at the start. At rest nothing is requested.

use std::future::{Future, pending};
use std::time::Duration;

use c5c3_kit::Task;
use futures::StreamExt as _;
use futures::stream::{BoxStream, FuturesUnordered};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{ApiResource, NotUsed, Object, PartialObjectMeta};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::NAME;
use crate::labels::{Labels, Values};
use crate::track::{Key, Track, Work, key};

/// The pods that have labels to get: those with a node that have not finished.
const SELECTED: &str = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";

/// How many requests are under way at once.
const AT_ONCE: usize = 8;

/// From how many new pods on their nodes are read from one list.
const MANY: usize = 50;

/// How many pods a page of that list has.
const PAGE: u32 = 500;

/// After which time a request that failed is repeated.
const RETRY: Duration = Duration::from_secs(3);

/// For how long a request may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is read of a pod to find its node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Placement {
    #[serde(default)]
    node_name: Option<String>,
}

type Placed = Object<Placement, NotUsed>;

/// What came of a request.
enum Outcome {
    /// The pods of these uids are on these nodes.
    Located(Vec<(Key, String, String)>),
    /// The labels were written; a watch event tells.
    Written,
    /// The pod is not there, or another one has its name: a watch event tells.
    Gone(Key),
    /// It failed, and is tried again: for one pod, or for all.
    Failed(Option<Key>, String),
}

type Running = FuturesUnordered<futures::future::BoxFuture<'static, Outcome>>;

/// Runs until the task is stopped.
pub(crate) async fn run(mut task: Task, labels: Labels) {
    let stop = task.stop.clone();
    let work = Reconciler::new(task.client.clone(), labels);
    stop.run_until_cancelled_owned(work.run(move || task.started())).await;
}

struct Reconciler {
    client: Client,
    track: Track,
    running: Running,
    /// Requests that failed, and when they are repeated.
    later: Vec<(Instant, Option<Key>)>,
    /// Whether the list of all pods is being read.
    is_listing: bool,
    nodes_known: bool,
    pods_known: bool,
}

impl Reconciler {
    fn new(client: Client, labels: Labels) -> Self {
        let (track, running) = (Track::new(labels), FuturesUnordered::new());
        Self { client, track, running, later: Vec::new(), is_listing: false, nodes_known: false, pods_known: false }
    }

    async fn run(mut self, started: impl FnOnce()) {
        let mut nodes = watch::<Node>(&self.client, watcher::Config::default(), "Node");
        let mut pods = watch::<Pod>(&self.client, watcher::Config::default().fields(SELECTED), "Pod");
        let mut started = Some(started);
        loop {
            let due = self.later.iter().map(|(at, _)| *at).min();
            tokio::select! {
                Some(event) = nodes.next() => self.node(event),
                Some(event) = pods.next() => self.pod(event),
                Some(outcome) = self.running.next() => self.done(outcome),
                () = until(due) => self.retry(),
            }
            // Without the nodes, a pod's node could be taken for one that is not there.
            if self.nodes_known && self.pods_known {
                self.start();
                if self.running.is_empty()
                    && let Some(started) = started.take()
                {
                    started();
                }
            }
        }
    }

    fn node(&mut self, event: Event<PartialObjectMeta<Node>>) {
        match event {
            Event::Apply(node) | Event::InitApply(node) => self.track.node(&node.metadata),
            Event::Delete(node) => self.track.node_gone(&node.name_any()),
            Event::Init => {}
            Event::InitDone => self.nodes_known = true,
        }
    }

    fn pod(&mut self, event: Event<PartialObjectMeta<Pod>>) {
        match event {
            Event::Apply(pod) | Event::InitApply(pod) => self.track.pod(&pod.metadata),
            Event::Delete(pod) => self.track.gone(&key(&pod.metadata)),
            Event::Init => self.track.list_begins(),
            Event::InitDone => {
                self.track.list_ends();
                self.pods_known = true;
            }
        }
    }

    /// Starts what is due, as much as may be under way at once.
    fn start(&mut self) {
        if !self.is_listing && self.track.unlocated() >= MANY {
            self.is_listing = true;
            self.running.push(Box::pin(bounded(None, locate_all(self.client.clone()))));
        }
        while !self.is_listing && self.running.len() < AT_ONCE {
            let Some((key, work)) = self.track.next() else { return };
            let client = self.client.clone();
            match work {
                Work::Locate => self.running.push(Box::pin(bounded(Some(key.clone()), locate(client, key)))),
                Work::Write(uid, labels) => {
                    self.running.push(Box::pin(bounded(Some(key.clone()), write(client, key, uid, labels))));
                }
            }
        }
    }

    fn done(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Located(found) => {
                self.is_listing = false;
                for (key, uid, node) in found {
                    self.track.located(&key, &uid, &node);
                }
            }
            Outcome::Written => {}
            Outcome::Gone(key) => self.track.gone(&key),
            Outcome::Failed(key, error) => {
                tracing::warn!(pod = ?key, error, "labels of a node could not be given to a pod; trying again");
                self.later.push((Instant::now() + RETRY, key));
            }
        }
    }

    fn retry(&mut self) {
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.later).into_iter().partition(|(at, _)| *at <= now);
        self.later = later;
        for (_, key) in due {
            match key {
                Some(key) => self.track.again(key),
                None => self.is_listing = false,
            }
        }
    }
}

/// Until that time; for ever without one.
async fn until(due: Option<Instant>) {
    match due {
        Some(at) => tokio::time::sleep_until(at).await,
        None => pending().await,
    }
}

/// A watch of metadata that is started again when it fails.
fn watch<K>(
    client: &Client,
    config: watcher::Config,
    kind: &'static str,
) -> BoxStream<'static, Event<PartialObjectMeta<K>>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let events = watcher(Api::<PartialObjectMeta<K>>::all(client.clone()), config).default_backoff();
    let events = events.filter_map(move |event| async move {
        event.inspect_err(|error| tracing::warn!(kind, %error, "a watch failed and is started again")).ok()
    });
    events.boxed()
}

/// Ends what takes too long.
async fn bounded(key: Option<Key>, work: impl Future<Output = Outcome>) -> Outcome {
    let late = || Outcome::Failed(key, "the API does not answer".into());
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| late())
}

/// Reads on which nodes all pods are.
async fn locate_all(client: Client) -> Outcome {
    let pods = Api::<Placed>::all_with(client, &ApiResource::erase::<Pod>(&()));
    let (mut params, mut found) = (ListParams::default().fields(SELECTED).limit(PAGE), Vec::new());
    loop {
        let page = match pods.list(&params).await {
            Ok(page) => page,
            Err(error) => return Outcome::Failed(None, error.to_string()),
        };
        found.extend(page.items.into_iter().filter_map(located));
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => params = params.continue_token(&next),
            None => return Outcome::Located(found),
        }
    }
}

/// Reads on which node a pod is.
async fn locate(client: Client, pod: Key) -> Outcome {
    let (namespace, name) = &pod;
    match Api::<Placed>::namespaced_with(client, namespace, &ApiResource::erase::<Pod>(&())).get_opt(name).await {
        Ok(Some(found)) => match located(found) {
            Some(located) => Outcome::Located(vec![located]),
            None => Outcome::Gone(pod),
        },
        Ok(None) => Outcome::Gone(pod),
        Err(error) => Outcome::Failed(Some(pod), error.to_string()),
    }
}

fn located(pod: Placed) -> Option<(Key, String, String)> {
    let node = pod.spec.node_name.filter(|node| !node.is_empty())?;
    Some((key(&pod.metadata), pod.metadata.uid.unwrap_or_default(), node))
}

/// Writes labels to the pod that has this uid.
async fn write(client: Client, pod: Key, uid: String, labels: Values) -> Outcome {
    let (namespace, name) = &pod;
    let patch = Patch::Merge(json!({"metadata": {"uid": uid, "labels": labels}}));
    let params = PatchParams { field_manager: Some(NAME.into()), ..PatchParams::default() };
    match Api::<Pod>::namespaced(client, namespace).patch_metadata(name, &params, &patch).await {
        Ok(_) => Outcome::Written,
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Outcome::Gone(pod),
        Err(error) => Outcome::Failed(Some(pod), error.to_string()),
    }
}
