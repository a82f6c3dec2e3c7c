//! Admission webhooks: the same rules as the command line and the operators, answered to the API server.
//!
//! `POST /validate` refuses an object with every problem at once, and warns of changes that will not last; `POST /default` fills in
//! defaults as a JSON patch.

use std::collections::HashMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, State};
use axum::routing::post;
use axum::{Json, Router};
use axum_server::tls_rustls::RustlsConfig;
use c5c3_api::{Kind, Problems};
use kube::api::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview, Operation};
use kube::core::response::{Status, StatusCause, StatusDetails};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::managed_fields;

/// An API server sends at most this much: an object, the old one, and the envelope.
const LARGEST_REVIEW: usize = 7 * 1024 * 1024;

/// What is refused of an object of a kind, which may have been another one before.
type Reviewer = Arc<dyn Fn(&Kind, &Value, Option<&Value>) -> Problems + Send + Sync>;

/// The kinds that are answered for.
#[derive(Clone, Default)]
pub struct Webhooks {
    kinds: Arc<HashMap<(String, String), &'static Kind>>,
    review: Option<Reviewer>,
    /// Webhooks of operators about kinds that are not ours.
    others: Router,
}

impl Webhooks {
    /// Answers for these kinds.
    pub fn new(kinds: impl IntoIterator<Item = &'static Kind>) -> Self {
        let kinds =
            kinds.into_iter().map(|kind| ((kind.api_version().to_owned(), kind.name().to_owned()), kind)).collect();
        Self { kinds: Arc::new(kinds), review: None, others: Router::new() }
    }

    /// Refuses what `review` says of an object, in the place of what the rules of its kind say alone: it includes these, and what an
    /// operator would call an invalid spec ([`crate::Operator::review`]).
    pub fn reviewed(self, review: impl Fn(&Kind, &Value, Option<&Value>) -> Problems + Send + Sync + 'static) -> Self {
        Self { review: Some(Arc::new(review)), ..self }
    }

    /// Serves these routes as well; see [`crate::Operator::webhook_routes`].
    pub fn with_routes(self, routes: Router) -> Self {
        Self { others: self.others.merge(routes), ..self }
    }

    /// The server's routes.
    pub fn routes(self) -> Router {
        let others = self.others.clone();
        Router::new()
            .route("/validate", post(validate))
            .route("/default", post(default))
            .with_state(self)
            .merge(others)
            .layer(DefaultBodyLimit::max(LARGEST_REVIEW))
    }

    fn kind(&self, request: &AdmissionRequest<DynamicObject>) -> Option<&'static Kind> {
        let kind = &request.kind;
        let version =
            if kind.group.is_empty() { kind.version.clone() } else { format!("{}/{}", kind.group, kind.version) };
        self.kinds.get(&(version, kind.kind.clone())).copied()
    }

    /// Whether an object may be written.
    pub fn validate(&self, request: &AdmissionRequest<DynamicObject>) -> AdmissionResponse {
        let mut response = AdmissionResponse::from(request);
        let (Some(kind), Some(object)) = (self.kind(request), &request.object) else { return response };
        // A status write or a delete is not ours to judge, nor is an object on its way out: that one must be able to go.
        let writes = matches!(request.operation, Operation::Create | Operation::Update);
        let subresource = request.sub_resource.as_deref().is_some_and(|name| !name.is_empty());
        if !writes || subresource || object.metadata.deletion_timestamp.is_some() {
            return response;
        }
        let (object, old) = (judged(kind, object), request.old_object.as_ref().map(|old| judged(kind, old)));
        // Rules grow stricter with releases; what was accepted once can still be labelled, and its finalizers removed.
        if old.as_ref().is_some_and(|old| old.get("spec") == object.get("spec")) {
            return response;
        }
        let problems = match &self.review {
            Some(review) => review(kind, &object, old.as_ref()),
            None => kind.check(&object, old.as_ref()),
        };
        if !problems.is_empty() {
            return refuse(response, request, &problems);
        }
        response.warnings = warnings(request);
        response
    }

    /// The defaults of an object, as a patch.
    pub fn default(&self, request: &AdmissionRequest<DynamicObject>) -> AdmissionResponse {
        let response = AdmissionResponse::from(request);
        let (Some(kind), Some(object)) = (self.kind(request), &request.object) else { return response };
        let before = json(object);
        let mut after = before.clone();
        kind.schema().default(&mut after);
        let patch = json_patch::diff(&before, &after);
        if patch.0.is_empty() {
            return response;
        }
        response.with_patch(patch).unwrap_or_else(|error| AdmissionResponse::from(request).deny(error.to_string()))
    }
}

/// What the client should know about a write that is allowed; kubectl prints it.
fn warnings(request: &AdmissionRequest<DynamicObject>) -> Option<Vec<String>> {
    let (new, old) = (request.object.as_ref()?, request.old_object.as_ref()?);
    let writer = request.options.as_ref().and_then(|options| options.0["fieldManager"].as_str());
    let warnings = managed_fields::warnings(old, new, writer);
    (!warnings.is_empty()).then_some(warnings)
}

/// What is judged of an object: not its status, and not what a newer CRD may have added.
fn judged(kind: &Kind, object: &DynamicObject) -> Value {
    let mut object = json(object);
    object.as_object_mut().map(|object| object.remove("status"));
    kind.schema().prune(&mut object);
    object
}

fn json(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or(Value::Null)
}

/// The refusal that an API server would write itself: 422, with a cause for each field.
fn refuse(
    response: AdmissionResponse,
    request: &AdmissionRequest<DynamicObject>,
    problems: &Problems,
) -> AdmissionResponse {
    let list: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let mut refused = response.deny(list.join("\n"));
    refused.result = Status {
        status: Some(kube::core::response::StatusSummary::Failure),
        code: 422,
        message: list.join("\n"),
        reason: "Invalid".into(),
        details: Some(StatusDetails {
            name: request.name.clone(),
            group: request.kind.group.clone(),
            kind: request.kind.kind.clone(),
            causes: problems
                .iter()
                .map(|problem| StatusCause {
                    reason: problem.kind.as_cause().into(),
                    message: problem.message(),
                    field: problem.path.clone(),
                })
                .collect(),
            uid: String::new(),
            retry_after_seconds: 0,
        }),
        ..refused.result
    };
    refused
}

type Review = AdmissionReview<DynamicObject>;

async fn validate(
    State(webhooks): State<Webhooks>,
    Json(review): Json<Review>,
) -> Json<AdmissionReview<DynamicObject>> {
    answer(review, |request| webhooks.validate(request))
}

async fn default(State(webhooks): State<Webhooks>, Json(review): Json<Review>) -> Json<AdmissionReview<DynamicObject>> {
    answer(review, |request| webhooks.default(request))
}

fn answer(
    review: Review,
    decide: impl FnOnce(&AdmissionRequest<DynamicObject>) -> AdmissionResponse,
) -> Json<AdmissionReview<DynamicObject>> {
    let request: Result<AdmissionRequest<DynamicObject>, _> = review.try_into();
    let response = match request {
        Ok(request) => decide(&request),
        Err(error) => AdmissionResponse::invalid(format!("not an admission request: {error}")),
    };
    Json(response.into_review())
}

/// The certificate of the server and its key: `tls.crt` and `tls.key` in a folder, as a mounted Secret has them.
#[derive(Clone, Debug)]
pub struct Certificates {
    folder: PathBuf,
    interval: Duration,
}

impl Certificates {
    /// Those in a folder, which is looked at for a renewal each minute: as often as a kubelet brings one.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), interval: Duration::from_mins(1) }
    }

    /// Looks as often as this.
    pub fn reload_interval(self, interval: Duration) -> Self {
        Self { interval, ..self }
    }

    fn files(&self) -> (PathBuf, PathBuf) {
        (self.folder.join("tls.crt"), self.folder.join("tls.key"))
    }

    /// Takes up renewed ones, for ever.
    async fn renew(&self, tls: &RustlsConfig) {
        let (certificate, key) = self.files();
        let mut loaded = modified(&certificate).await;
        loop {
            tokio::time::sleep(self.interval).await;
            let now = modified(&certificate).await;
            if now != loaded {
                match tls.reload_from_pem_file(&certificate, &key).await {
                    Ok(()) => loaded = now,
                    Err(error) => {
                        tracing::warn!(%error, "cannot load the renewed certificate; trying again");
                    }
                }
            }
        }
    }
}

/// Serves over TLS until `stop`. A renewed certificate is taken up without a restart.
pub async fn serve(
    listener: TcpListener,
    webhooks: Webhooks,
    certificates: Certificates,
    stop: CancellationToken,
) -> std::io::Result<()> {
    tracing::info!(address = %listener.local_addr()?, "serving admission webhooks");
    serve_routes(listener, webhooks.routes(), certificates, stop).await
}

/// Serves any routes over TLS until `stop`, with certificates as webhooks have them.
pub async fn serve_routes(
    listener: TcpListener,
    routes: Router,
    certificates: Certificates,
    stop: CancellationToken,
) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let (certificate, key) = certificates.files();
    let tls = RustlsConfig::from_pem_file(&certificate, &key).await?;
    let handle = axum_server::Handle::new();
    let (stopping, reloading) = (handle.clone(), tls.clone());
    let keeper = tokio::spawn(async move {
        tokio::select! {
            () = stop.cancelled() => stopping.graceful_shutdown(Some(Duration::from_secs(5))),
            () = certificates.renew(&reloading) => {}
        }
    });
    let server = axum_server::from_tcp_rustls(listener, tls)?.handle(handle);
    let served = server.serve(routes.into_make_service()).await;
    keeper.abort();
    served
}

async fn modified(file: &Path) -> Option<std::time::SystemTime> {
    let file = file.to_owned();
    tokio::task::spawn_blocking(move || std::fs::metadata(file).and_then(|meta| meta.modified()).ok())
        .await
        .ok()
        .flatten()
}
