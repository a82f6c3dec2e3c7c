//! The webhook on bindings: pods have the labels of their node in the first version that a kubelet sees.
//!
//! From Kubernetes 1.35 on, labels of a Binding are stored on the Pod together with its node; the mutating webhook adds them there,
//! which has no side effect. Older servers ignore them, so the validating webhook patches the Pod before the bind is stored, and
//! takes that back if the Pod has no node some time later. A binding is always allowed: what fails is a warning, and is left to the
//! reconciler.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use c5c3_kit::Hook;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::NAME;
use crate::labels::{Labels, Values, difference};

/// The path of the mutating webhook.
const MUTATE: &str = "/labels/binding";

/// The path of the validating webhook.
const RECORD: &str = "/labels/pod";

/// For how many seconds a bind waits for a webhook. Scheduling goes on without it.
const TIMEOUT: u8 = 3;

/// For how long an answer is worked on: shorter than an API server waits.
const PATIENCE: Duration = Duration::from_millis(2500);

/// After which time a pod that was labelled for a bind has to have its node. A bind takes milliseconds.
const BOUND_WITHIN: Duration = Duration::from_secs(30);

/// From which minor version of Kubernetes 1 on the labels of a Binding are stored.
const STORES_LABELS: u32 = 35;

/// What an API server is told: which requests to ask about, and what an answer does.
pub fn hooks() -> Vec<Hook> {
    // The scheduler posts to `pods/binding`; other schedulers may post to the older `bindings`.
    let rules = json!([{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding", "bindings"],
        "scope": "Namespaced",
    }]);
    let hook = |mutating, path| Hook {
        mutating,
        path,
        rules: rules.clone(),
        side_effects: "NoneOnDryRun",
        timeout_seconds: TIMEOUT,
    };
    vec![hook(true, MUTATE), hook(false, RECORD)]
}

/// Answers the webhooks.
#[derive(Clone)]
pub struct Injector {
    client: Client,
    labels: Labels,
    /// Whether the server stores the labels of a Binding.
    stores_labels: Arc<OnceCell<bool>>,
    bound_within: Duration,
}

impl Injector {
    /// An injector that asks the server for its version at the first bind.
    pub fn new(client: Client, labels: Labels) -> Self {
        Self { client, labels, stores_labels: Arc::default(), bound_within: BOUND_WITHIN }
    }

    /// Takes labels back after this time from a pod without a node.
    #[must_use]
    pub fn bound_within(self, time: Duration) -> Self {
        Self { bound_within: time, ..self }
    }

    /// Does not ask for the server's version.
    #[must_use]
    pub fn stores_labels(self, stores: bool) -> Self {
        Self { stores_labels: Arc::new(OnceCell::new_with(Some(stores))), ..self }
    }

    /// The routes of the webhooks.
    pub fn routes(self) -> Router {
        Router::new().route(MUTATE, post(mutate)).route(RECORD, post(record)).with_state(self)
    }

    /// The labels of the node that a binding names; none if it names none.
    async fn wanted(&self, binding: &DynamicObject) -> Result<Values, String> {
        let target = &binding.data["target"];
        let name = target["name"].as_str().unwrap_or_default();
        if name.is_empty() || !matches!(target["kind"].as_str(), None | Some("" | "Node")) {
            return Ok(Values::new());
        }
        match Api::<Node>::all(self.client.clone()).get_metadata(name).await {
            Ok(node) => Ok(self.labels.of_node(&node.metadata)),
            Err(error) => Err(format!("the labels of node {name} cannot be read: {error}")),
        }
    }

    /// Adds the labels to a Binding.
    async fn mutate(&self, request: &AdmissionRequest<DynamicObject>) -> Result<AdmissionResponse, String> {
        let response = AdmissionResponse::from(request);
        let Some(binding) = &request.object else { return Ok(response) };
        let wanted = self.wanted(binding).await?;
        let before = json!({"metadata": {"labels": binding.metadata.labels}});
        let mut labels: BTreeMap<String, String> = binding.labels().clone();
        labels.extend(wanted);
        if binding.metadata.labels.as_ref() == Some(&labels) || labels.is_empty() {
            return Ok(response);
        }
        let mut patch = json_patch::diff(&before, &json!({"metadata": {"labels": labels}}));
        if binding.metadata.labels.is_none() {
            let add = json!([{"op": "add", "path": "/metadata/labels", "value": labels}]);
            patch = serde_json::from_value(add).map_err(|error| error.to_string())?;
        }
        response.with_patch(patch).map_err(|error| error.to_string())
    }

    /// Adds the labels to the Pod, if the server would not store those of the Binding.
    async fn record(&self, request: &AdmissionRequest<DynamicObject>) -> Result<(), String> {
        let Some(binding) = request.object.as_ref().filter(|_| !request.dry_run) else { return Ok(()) };
        if self.server_stores_labels().await {
            return Ok(());
        }
        let wanted = self.wanted(binding).await?;
        let name = binding.metadata.name.as_ref().filter(|name| !name.is_empty()).unwrap_or(&request.name);
        let pods = Api::<Pod>::namespaced(self.client.clone(), request.namespace.as_deref().unwrap_or_default());
        let said = |error: kube::Error| format!("pod {name} cannot be given the labels of its node: {error}");
        let Some(pod) = pods.get_metadata_opt(name).await.map_err(said)? else { return Ok(()) };
        let uid = pod.uid().unwrap_or_default();
        let is_other = binding.metadata.uid.as_ref().is_some_and(|asked| !asked.is_empty() && *asked != uid);
        let found = self.labels.of_pod(&pod.metadata);
        let missing = difference(&wanted, &found);
        if is_other || missing.is_empty() || pod.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let patch = json!({"metadata": {"uid": uid, "labels": missing}});
        pods.patch_metadata(name, &params(), &Patch::Merge(patch)).await.map_err(said)?;
        let undo = Undo { pods, name: name.clone(), uid, written: missing, before: found };
        tokio::spawn(undo.unless_bound(self.bound_within));
        Ok(())
    }

    /// Whether this server stores the labels of a Binding. One that does not say its version is asked again.
    async fn server_stores_labels(&self) -> bool {
        let asked = self.stores_labels.get_or_try_init(|| async {
            let version = self.client.apiserver_version().await?;
            Ok::<bool, kube::Error>(stores_labels(&version.major, &version.minor))
        });
        asked.await.copied().unwrap_or(false)
    }
}

/// Some servers add a suffix to their version, such as `35+`.
fn stores_labels(major: &str, minor: &str) -> bool {
    let number = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse::<u32>().unwrap_or(0);
    (number(major), number(minor)) >= (1, STORES_LABELS)
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(NAME.into()), ..PatchParams::default() }
}

/// Labels that were written for a bind.
struct Undo {
    pods: Api<Pod>,
    name: String,
    uid: String,
    written: Values,
    before: Values,
}

impl Undo {
    /// Takes the labels back if the pod has no node after this time: then the bind has failed.
    async fn unless_bound(self, time: Duration) {
        tokio::time::sleep(time).await;
        if let Err(error) = self.check().await {
            let (pod, why) = (&self.name, error.to_string());
            tracing::warn!(pod, why, "a pod whose bind failed may keep labels of that node until it is bound again");
        }
    }

    async fn check(&self) -> Result<(), kube::Error> {
        let Some(pod) = self.pods.get_opt(&self.name).await? else { return Ok(()) };
        let is_bound = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()).is_some_and(|node| !node.is_empty());
        if is_bound || pod.metadata.uid.as_deref() != Some(self.uid.as_str()) {
            return Ok(());
        }
        let still = |(key, value): &(&String, &String)| pod.labels().get(*key) == Some(*value);
        let back = self.written.iter().filter(still).map(|(key, _)| (key.clone(), json!(self.before.get(key))));
        let back: BTreeMap<String, Value> = back.collect();
        if back.is_empty() {
            return Ok(());
        }
        // A bind that comes between fails this patch, and the pod keeps what the bind gave it.
        let patch = json!({"metadata": {"resourceVersion": pod.resource_version(), "labels": back}});
        match self.pods.patch_metadata(&self.name, &params(), &Patch::Merge(patch)).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            done => done.map(drop),
        }
    }
}

type Review = AdmissionReview<DynamicObject>;

async fn mutate(State(injector): State<Injector>, Json(review): Json<Review>) -> Json<Review> {
    answer(review, async |request| {
        let changed = injector.mutate(request).await;
        changed.unwrap_or_else(|error| warned(request, error))
    })
    .await
}

async fn record(State(injector): State<Injector>, Json(review): Json<Review>) -> Json<Review> {
    answer(review, async |request| match injector.record(request).await {
        Ok(()) => AdmissionResponse::from(request),
        Err(error) => warned(request, error),
    })
    .await
}

/// Allows the request with a warning.
fn warned(request: &AdmissionRequest<DynamicObject>, warning: String) -> AdmissionResponse {
    tracing::warn!(warning, "a bind goes on without the labels of its node; they follow");
    let mut response = AdmissionResponse::from(request);
    response.warnings = Some(vec![warning]);
    response
}

async fn answer(
    review: Review,
    decide: impl AsyncFnOnce(&AdmissionRequest<DynamicObject>) -> AdmissionResponse,
) -> Json<Review> {
    let request: AdmissionRequest<DynamicObject> = match review.try_into() {
        Ok(request) => request,
        Err(error) => {
            return Json(AdmissionResponse::invalid(format!("not an admission request: {error}")).into_review());
        }
    };
    let decided = tokio::time::timeout(PATIENCE, decide(&request)).await;
    let response = decided.unwrap_or_else(|_| warned(&request, "the API did not answer in time".into()));
    Json(response.into_review())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_bindings_are_stored_from_1_35_on() {
        let stores = [("1", "33"), ("1", "34+"), ("1", "35"), ("1", "36+"), ("2", "0"), ("", "")];
        let stores = stores.map(|(major, minor)| stores_labels(major, minor));
        assert_eq!(stores, [false, false, true, true, true, false]);
    }
}
