//! A cluster with the injector on it.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use c5c3_auth::Pki;
use c5c3_harness::TestCluster;
use c5c3_kit::http::Readiness;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::webhook::{self, Certificates, Webhooks};
use c5c3_operator_labels_injector::{CONFIGURATION, Injector, Settings, hooks};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind, Status};
use kube::{Api, Client, ResourceExt as _};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const NAME: &str = "kubernetes.metal.cloud.sap/name";

pub(crate) struct Site {
    pub(crate) cluster: TestCluster,
    /// Stops everything that was started with the site.
    _end: DropGuard,
    stop: CancellationToken,
    /// How many reconcilers have been started: each has a user of its own.
    started: AtomicUsize,
}

impl Site {
    /// An empty cluster without controllers, unless the tests run on another one.
    pub(crate) async fn start() -> Option<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let cluster = TestCluster::without_controllers("pods are bound by the test").await.unwrap()?;
        let stop = CancellationToken::new();
        Some(Self { cluster, _end: stop.clone().drop_guard(), stop, started: AtomicUsize::new(0) })
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.cluster.client())
    }

    pub(crate) async fn node(&self, name: &str, labels: Value) {
        let node = json!({"metadata": {"name": name, "labels": labels}});
        let nodes = Api::<Node>::all(self.cluster.client());
        nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    }

    pub(crate) async fn relabel(&self, name: &str, labels: Value) {
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        Api::<Node>::all(self.cluster.client()).patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Creates a pod, on a node if one is named.
    pub(crate) async fn pod(&self, name: &str, node: Option<&str>, labels: Value) -> Pod {
        let spec = json!({"containers": [{"name": "a", "image": "a"}], "nodeName": node});
        let pod = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
        self.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap()
    }

    pub(crate) async fn bind(&self, pod: &str, node: &str, dry_run: bool) -> Result<(), kube::Error> {
        let params = PostParams { dry_run, ..PostParams::default() };
        let bound: Result<Status, _> =
            self.pods().create_subresource("binding", pod, &params, &binding(pod, node)).await;
        bound.map(drop)
    }

    /// Posts to the older resource that some schedulers use.
    pub(crate) async fn bind_by_the_old_way(&self, pod: &str, node: &str) {
        let path = format!("/api/v1/namespaces/{}/bindings", self.cluster.namespace());
        let body = serde_json::to_vec(&binding(pod, node)).unwrap();
        let request = http::Request::post(path).header("content-type", "application/json").body(body).unwrap();
        self.cluster.client().request::<Status>(request).await.unwrap();
    }

    pub(crate) async fn labels(&self, pod: &str) -> Value {
        json!(self.pods().get(pod).await.unwrap().labels())
    }

    /// Waits until the pod has this label.
    pub(crate) async fn until_labelled(&self, pod: &str, key: &str, value: &str) {
        self.labelled_within(Duration::from_mins(1), pod, (key, value)).await;
    }

    /// Waits no longer than this until the pod has a label.
    pub(crate) async fn labelled_within(&self, time: Duration, pod: &str, (key, value): (&str, &str)) {
        let wait = async {
            while self.labels(pod).await[key] != value {
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::time::timeout(time, wait).await;
        assert!(waited.is_ok(), "{pod} has no {key}={value} but {}", self.labels(pod).await);
    }

    /// Serves the webhook, and tells the API server of it. Ends it with the token.
    pub(crate) async fn webhook(&self, adapt: impl FnOnce(Injector) -> Injector) -> CancellationToken {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), self.stop.child_token());
        let (folder, authority) = certificates();
        let injector = adapt(Injector::new(self.cluster.client(), c5c3_operator_labels_injector::Labels::default()));
        let served = webhook::serve(
            listener,
            Webhooks::new([]).with_routes(injector.routes()),
            Certificates::in_folder(folder.path()),
            stop.clone(),
        );
        tokio::spawn(async move {
            served.await.unwrap();
            drop(folder);
        });
        for mutating in [true, false] {
            self.register(mutating, address, &authority).await;
        }
        stop
    }

    async fn register(&self, mutating: bool, address: SocketAddr, authority: &ByteString) {
        let kind = if mutating { "MutatingWebhookConfiguration" } else { "ValidatingWebhookConfiguration" };
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        let hook = hooks().into_iter().find(|hook| hook.mutating == mutating).unwrap();
        let configuration = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": CONFIGURATION},
            "webhooks": [{
                "name": "labels.c5c3.io", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
                "clientConfig": {"url": format!("https://{address}{}", hook.path), "caBundle": authority},
                "rules": hook.rules, "sideEffects": hook.side_effects, "timeoutSeconds": hook.timeout_seconds,
            }],
        });
        let api = Api::<DynamicObject>::all_with(self.cluster.client(), &ApiResource::from_gvk(&kind));
        api.patch(CONFIGURATION, &PatchParams::apply("test"), &Patch::Apply(configuration)).await.unwrap();
    }

    /// Runs the operator with no more than the rights that it asks for, and waits for its start-up pass.
    pub(crate) async fn reconciler(&self) -> Running {
        let operator = c5c3_operator_labels_injector::with(Settings::default());
        let access = operator.access();
        let namespace = self.cluster.namespace();
        let user = format!("few-rights-{}", self.started.fetch_add(1, Ordering::SeqCst));
        let limited =
            self.cluster.limited(&user, namespace, access.in_namespaces(), access.in_cluster()).await.unwrap();
        let (client, requests) = counted(limited.client.clone(), namespace);
        let (readiness, stop) = (Readiness::default(), self.stop.child_token());
        let (ready, stopped) = (readiness.clone(), stop.clone());
        let pending = readiness.add_pending();
        tokio::spawn(async move {
            let run = operator.run(client, c5c3_kit::Settings::default(), Metrics::default(), ready, stopped);
            drop(pending);
            run.await;
        });
        let wait = async {
            while !readiness.is_ready() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), wait).await.expect("the start-up pass ends");
        assert_eq!(limited.refused(), Vec::<String>::new());
        Running { requests, _stop: stop.drop_guard() }
    }
}

pub(crate) struct Running {
    pub(crate) requests: Arc<Requests>,
    _stop: DropGuard,
}

/// How many requests were made.
#[derive(Default)]
pub(crate) struct Requests {
    pub(crate) writes: AtomicUsize,
    pub(crate) reads: AtomicUsize,
}

impl Requests {
    pub(crate) fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }
}

/// The client, with its requests counted.
fn counted(client: Client, namespace: &str) -> (Client, Arc<Requests>) {
    let requests = Arc::<Requests>::default();
    let seen = requests.clone();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let count = if request.method() == http::Method::GET { &seen.reads } else { &seen.writes };
        count.fetch_add(1, Ordering::SeqCst);
        let client = client.clone();
        async move { client.send(request).await }
    });
    (Client::new(service, namespace), requests)
}

fn binding(pod: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"kind": "Node", "name": node}})
}

fn certificates() -> (tempfile::TempDir, ByteString) {
    let folder = tempfile::tempdir().unwrap();
    let pki = Pki::in_memory(&[], Timestamp::now()).unwrap();
    let identity = pki.issue_server(&["127.0.0.1"], Duration::from_hours(1), Timestamp::now()).unwrap();
    std::fs::write(folder.path().join("tls.crt"), &identity.certificate).unwrap();
    std::fs::write(folder.path().join("tls.key"), identity.key.expose_secret()).unwrap();
    (folder, ByteString(pki.ca_pem().into()))
}
