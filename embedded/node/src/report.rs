//! Tells the API how a pod is. Whoever decides does not wait for it; of several statuses only the last is written.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod as Object, PodStatus};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use crate::pod::Pod;

/// The conditions that are the node's to set.
const OWN: [&str; 5] = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
const RETRY: Duration = Duration::from_secs(1);

/// The statuses of one pod on their way to the API.
pub(crate) struct Report {
    status: watch::Sender<Wish>,
    writer: AbortOnDropHandle<()>,
}

/// What the API should say.
#[derive(Default)]
struct Wish {
    status: Option<PodStatus>,
    /// How often others have been seen to say otherwise: each time it is written once more.
    overruled: u64,
}

impl Report {
    pub(crate) fn new(client: Client, pod: &Pod) -> Self {
        let (status, wanted) = watch::channel(Wish::default());
        let written = subset(pod.status());
        let writer = Writer { api: Api::namespaced(client, pod.namespace()), pod: pod.clone(), written };
        Self { status, writer: AbortOnDropHandle::new(tokio::spawn(writer.run(wanted))) }
    }

    /// The status that the pod should have. Others may set it too, as it is done with the pods of a node that is not
    /// heard of: when the node is back, what it says counts.
    pub(crate) fn tell(&self, status: PodStatus, shown: Option<&PodStatus>) {
        self.status.send_if_modified(|wish| {
            let is_new = wish.status.as_ref() != Some(&status);
            let is_overruled = !is_new && ready(shown) != ready(Some(&status));
            wish.status = Some(status);
            wish.overruled += u64::from(is_overruled);
            is_new || is_overruled
        });
    }

    /// Writes the last status, then lets the API forget the pod.
    pub(crate) async fn finish(&self, client: Client, pod: &Pod) {
        self.writer.abort();
        let last = self.status.borrow().status.clone();
        let mut writer =
            Writer { api: Api::namespaced(client, pod.namespace()), pod: pod.clone(), written: subset(pod.status()) };
        while let Some(status) = &last {
            match writer.write(status).await {
                Ok(()) => break,
                Err(error) => writer.complain(&error).await,
            }
        }
        while let Err(error) = writer.delete().await {
            writer.complain(&error).await;
        }
    }
}

struct Writer {
    api: Api<Object>,
    pod: Pod,
    /// What the API has, as far as the node sets it.
    written: Value,
}

impl Writer {
    async fn run(mut self, mut wanted: watch::Receiver<Wish>) {
        let mut overruled = 0;
        while wanted.changed().await.is_ok() {
            loop {
                let (status, times) = {
                    let wish = wanted.borrow_and_update();
                    (wish.status.clone(), wish.overruled)
                };
                if times != overruled {
                    // The API does not have what was written.
                    self.written = Value::Null;
                    overruled = times;
                }
                let Some(status) = status else { break };
                match self.write(&status).await {
                    Ok(()) => break,
                    Err(error) => self.complain(&error).await,
                }
            }
        }
    }

    async fn write(&mut self, status: &PodStatus) -> kube::Result<()> {
        let wanted = subset(Some(status));
        if wanted == self.written {
            return Ok(());
        }
        let patch = json!({"metadata": {"uid": self.pod.uid()}, "status": replacing(wanted.clone())});
        let patched = self.api.patch_status(self.pod.name(), &PatchParams::default(), &Patch::Strategic(patch)).await;
        ignoring_loss(patched)?;
        self.written = wanted;
        Ok(())
    }

    async fn delete(&self) -> kube::Result<()> {
        let preconditions = Preconditions { uid: Some(self.pod.uid().to_owned()), resource_version: None };
        let how = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default().grace_period(0) };
        ignoring_loss(self.api.delete(self.pod.name(), &how).await)
    }

    async fn complain(&self, error: &kube::Error) {
        tracing::warn!(pod = self.pod.description(), %error, "cannot tell the API about a pod");
        sleep(RETRY).await;
    }
}

/// A pod that is gone, or has been replaced by another of its name, needs no status.
fn ignoring_loss<T>(outcome: kube::Result<T>) -> kube::Result<()> {
    match outcome {
        Err(kube::Error::Api(error)) if [404, 409].contains(&error.code) => Ok(()),
        outcome => outcome.map(drop),
    }
}

fn ready(status: Option<&PodStatus>) -> Option<&str> {
    let conditions = status?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready").map(|condition| condition.status.as_str())
}

/// What the node sets of a status, with times as the API shows them.
fn subset(status: Option<&PodStatus>) -> Value {
    let mut value = json!(status);
    if let Some(conditions) = value["conditions"].as_array_mut() {
        conditions.retain(|condition| condition["type"].as_str().is_some_and(|name| OWN.contains(&name)));
        conditions.sort_by_key(|condition| condition["type"].as_str().map(str::to_owned));
    }
    value
}

/// What a patch would merge is replaced: a new sandbox has another address, and a condition that has come true has no
/// reason any more why it was not.
fn replacing(mut status: Value) -> Value {
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        for word in ["reason", "message"] {
            if condition[word].is_null() {
                condition[word] = Value::Null;
            }
        }
    }
    for list in ["podIPs", "hostIPs"] {
        if let Some(list) = status[list].as_array_mut() {
            list.insert(0, json!({"$patch": "replace"}));
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_of_others_are_not_written() {
        let condition = |name: &str| json!({"type": name, "status": "True"});
        let all = ["DisruptionTarget", "Ready", "shop.test/open", "Initialized"].map(condition);
        let status: PodStatus =
            serde_json::from_value(json!({"conditions": all, "podIPs": [{"ip": "10.0.0.1"}]})).unwrap();
        let names = subset(Some(&status));
        let names: Vec<&str> =
            names["conditions"].as_array().unwrap().iter().map(|one| one["type"].as_str().unwrap()).collect();
        assert_eq!(names, ["Initialized", "Ready"]);
        assert_eq!(replacing(subset(Some(&status)))["podIPs"], json!([{"$patch": "replace"}, {"ip": "10.0.0.1"}]));
    }

    #[test]
    fn a_condition_without_a_reason_takes_the_old_one_away() {
        let status: PodStatus = serde_json::from_value(json!({"conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "ContainersReady", "status": "False", "reason": "ContainersNotReady", "message": "not yet"},
        ]}))
        .unwrap();
        let patch = replacing(subset(Some(&status)));
        let [not_yet, ready] = &patch["conditions"].as_array().unwrap()[..] else { panic!("{patch}") };
        assert_eq!(
            (not_yet["reason"].as_str(), not_yet["message"].as_str()),
            (Some("ContainersNotReady"), Some("not yet"))
        );
        assert_eq!((ready.get("reason"), ready.get("message")), (Some(&Value::Null), Some(&Value::Null)));
    }
}
