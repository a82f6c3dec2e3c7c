//! The pods that are meant for this node: a worker for each.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod as Object;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::node::Node;
use crate::orphans::{self, Known};
use crate::pod::Pod;
use crate::worker::{self, Wanted};

/// Follows the API's pods and keeps their workers, for ever. When the future is dropped the workers end, and the
/// containers stay.
pub(crate) async fn run(node: Arc<Node>) {
    let api = Api::<Object>::all(node.client.clone());
    let config = Config::default().fields(&format!("spec.nodeName={}", node.name()));
    let mut events = watcher(api, config).default_backoff().boxed();
    let mut crew = Crew { node, workers: HashMap::new(), tasks: JoinSet::new(), listed: None, swept: None };
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => crew.hear(event),
                Some(Err(error)) => tracing::warn!(%error, "cannot follow the pods"),
                None => return,
            },
            Some(done) = crew.tasks.join_next() => crew.leave(done),
        }
    }
}

struct Crew {
    node: Arc<Node>,
    /// By uid: a pod may be replaced by another of its name.
    workers: HashMap<String, watch::Sender<Wanted>>,
    tasks: JoinSet<String>,
    /// The uids of a list that is being read.
    listed: Option<BTreeSet<String>>,
    /// What the sweep of orphans knows, while it is under way; none before the first list.
    swept: Option<Weak<Known>>,
}

impl Crew {
    fn hear(&mut self, event: Event<Object>) {
        match event {
            Event::Init => self.listed = Some(BTreeSet::new()),
            Event::InitApply(object) | Event::Apply(object) => self.assign(object, false),
            Event::Delete(object) => self.assign(object, true),
            Event::InitDone => self.end_of_list(),
        }
    }

    fn assign(&mut self, object: Object, is_gone: bool) {
        let Some(pod) = Pod::new(Arc::new(object)) else { return };
        let uid = pod.uid().to_owned();
        if let Some(listed) = &mut self.listed {
            listed.insert(uid.clone());
        }
        let wanted = Wanted { pod, is_gone };
        if let Some(worker) = self.workers.get(&uid) {
            worker.send_replace(wanted);
        } else if !is_gone {
            let (sender, inbox) = watch::channel(wanted);
            if let Some(known) = self.swept.as_ref().and_then(Weak::upgrade) {
                known.add(&uid);
            }
            self.workers.insert(uid, sender);
            self.tasks.spawn(worker::run(Arc::clone(&self.node), inbox));
        }
    }

    /// What is not in the list is gone; what belongs to no one in it is removed from the machine, once.
    fn end_of_list(&mut self) {
        let listed = self.listed.take().unwrap_or_default();
        for (_, worker) in self.workers.iter().filter(|(uid, _)| !listed.contains(*uid)) {
            worker.send_modify(|wanted| wanted.is_gone = true);
        }
        if self.swept.is_none() {
            let known = Arc::new(Known::new(listed));
            self.swept = Some(Arc::downgrade(&known));
            tokio::spawn(orphans::sweep(Arc::clone(&self.node), known));
        }
    }

    /// A worker has finished, or died: a pod whose worker died gets another with the next change of it.
    fn leave(&mut self, done: Result<String, tokio::task::JoinError>) {
        match done {
            Ok(uid) => drop(self.workers.remove(&uid)),
            Err(error) => {
                tracing::error!(%error, "a worker died");
                let dead: Vec<_> = self.workers.iter().filter(|(_, worker)| worker.is_closed()).collect();
                let dead: Vec<Wanted> = dead.into_iter().map(|(_, worker)| worker.borrow().clone()).collect();
                for wanted in dead {
                    self.workers.remove(wanted.pod.uid());
                    self.assign(wanted.pod.object().clone(), wanted.is_gone);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use c5c3_cri::{Instance, Runtime, Site};
    use c5c3_harness::TestCluster;
    use k8s_openapi::api::core::v1::Service;
    use kube::runtime::reflector::store;
    use serde_json::json;

    use super::*;
    use crate::NodeConfig;
    use crate::voice::Voice;

    fn pod(uid: &str) -> Object {
        let container = json!({"name": "app", "image": "app:1"});
        let metadata = json!({"name": uid, "namespace": "default", "uid": uid});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"nodeName": "lion", "containers": [container]}}))
            .unwrap()
    }

    #[tokio::test]
    async fn a_pod_that_comes_after_the_first_list_is_known_to_the_sweep_of_orphans() {
        let cluster = TestCluster::in_process().await.unwrap();
        let home = tempfile::tempdir().unwrap();
        let site = Site::new(Instance::new("zoo").unwrap(), "lion", home.path()).unwrap();
        let (voice, _speaker) = Voice::new(cluster.client());
        let config = NodeConfig::new(site, "192.0.2.7".parse().unwrap());
        let runtime = Runtime::at(&home.path().join("nobody.sock"));
        let node = Arc::new(Node::new(cluster.client(), runtime, config, store::<Service>().0, voice));
        let folder = |uid: &str| node.folders.pod(uid);
        for uid in ["listed", "late", "gone"] {
            std::fs::create_dir_all(folder(uid)).unwrap();
        }
        let mut crew =
            Crew { node: Arc::clone(&node), workers: HashMap::new(), tasks: JoinSet::new(), listed: None, swept: None };
        for event in [Event::Init, Event::InitApply(pod("listed")), Event::InitDone, Event::Apply(pod("late"))] {
            crew.hear(event);
        }
        let swept = async {
            while crew.swept.as_ref().and_then(Weak::upgrade).is_some() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), swept).await.expect("the sweep ends");
        let left = ["listed", "late", "gone"].map(|uid| folder(uid).exists());
        assert_eq!(left, [true, true, false]);
    }
}
