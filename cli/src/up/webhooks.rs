//! The admission webhooks of an embedded cluster: `kubectl apply` refuses what an operator would call an invalid spec.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use c5c3_api::c5c3::ControlPlane;
use c5c3_api::{Problem, problem};
use c5c3_auth::Pki;
use c5c3_kinds::Quantity;
use c5c3_kit::Operator;
use c5c3_kit::webhook::{self, Certificates};
use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::operators::apply;
use crate::{manifests, operator, rules};

/// How long the certificate is good for: as long as its authority. A new one is written with each start, and none while the
/// cluster runs. Once it has expired nothing is refused any more, and nothing says so: the webhooks' failure policy is `Ignore`.
const LIFE: Duration = Duration::from_hours(24 * 3650);

/// What the registration is called.
const NAME: &str = "c5c3-operators";

/// Serves the webhooks on this machine and tells the API server of them. `account` is the client of an operator by its name;
/// `others` is served beside the webhooks. Tells where, and the authority of the certificate.
pub(super) async fn start(
    client: &Client,
    account: impl Fn(&str, &Operator) -> Client,
    folder: &Path,
    others: Router,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Result<(SocketAddr, ByteString), String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot serve admission webhooks: {error}");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| failed(&error))?;
    let address = listener.local_addr().map_err(|error| failed(&error))?;
    let authority = certify(folder).map_err(|error| failed(&error))?;
    let operators = operator::all(false);
    let machine = Machine { planes: planes(client, tasks, stop), disk: disk(folder) };
    let reviewers = operator::all(false);
    let mut webhooks =
        operator::webhooks(&operators, false).with_routes(others).reviewed(move |kind, object, before| {
            let problems = rules::all_problems(&reviewers, kind, object, before);
            problems.into_vec().into_iter().chain(machine.review(object)).collect()
        });
    let mut registrations = Vec::new();
    for (name, operator) in operator::named().filter(|(_, operator)| !operator.hooks().is_empty()) {
        webhooks = webhooks.with_routes(operator.webhook_routes(&account(name, &operator)));
        let at = |path: &str| json!({"url": format!("https://{address}{path}"), "caBundle": authority});
        registrations
            .extend(operator.hooks().iter().map(|hook| manifests::hooked(name, &operator, hook, &at(hook.path))));
    }
    let (certificates, stop) = (Certificates::in_folder(folder), stop.clone());
    tasks.spawn(async move {
        if let Err(error) = webhook::serve(listener, webhooks, certificates, stop).await {
            tracing::warn!(%error, "admission webhooks are not served; operators tell on objects what is wrong with them");
        }
    });
    let kinds = operators.iter().flat_map(Operator::kinds);
    let known = kinds.filter_map(|(version, kind)| c5c3_api::find(version, kind));
    let rules: Vec<Value> = known.map(manifests::rule).collect();
    registrations.push(registration(address, &authority, &rules));
    for registration in &registrations {
        apply(client, registration).await.map_err(|error| failed(&error))?;
    }
    Ok((address, authority))
}

/// What is refused here beside an invalid spec: what this cluster, on this machine, cannot have.
struct Machine {
    planes: Store<Plane>,
    /// The size of the disk that volumes are on, in bytes.
    disk: u64,
}

type Plane = PartialObjectMeta<ControlPlane>;

impl Machine {
    fn review(&self, object: &Value) -> Vec<Problem> {
        if object["kind"] != "ControlPlane" {
            return Vec::new();
        }
        let planes = self.planes.state();
        let planes = planes.iter().filter(|plane| plane.metadata.deletion_timestamp.is_none());
        let beside = beside(object, planes.map(|plane| (plane.namespace().unwrap_or_default(), plane.name_any())));
        beside.into_iter().chain(too_large(object, self.disk)).collect()
    }
}

/// The ControlPlanes of the cluster, as they are now.
fn planes(client: &Client, tasks: &TaskTracker, stop: &CancellationToken) -> Store<Plane> {
    let (store, writer) = reflector::store();
    let watch = watcher(Api::<Plane>::all(client.clone()), watcher::Config::default());
    let reflected = reflector::reflector(writer, watch.default_backoff());
    tasks.spawn(stop.clone().run_until_cancelled_owned(async move {
        // An error is retried; a ControlPlane that is missed meanwhile is explained by its operator.
        let mut reflected = pin!(reflected);
        while reflected.next().await.is_some() {}
    }));
    store
}

/// The problem of a new ControlPlane in a namespace that has one. The parts have fixed names, so both would ask for the same
/// MariaDB. Later changes of one that is there are not refused: its operator explains it.
fn beside(object: &Value, planes: impl Iterator<Item = (String, String)>) -> Option<Problem> {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let here: Vec<String> = planes.filter(|(found, _)| found == namespace).map(|(_, name)| name).collect();
    let other = here.first().filter(|_| !here.iter().any(|found| found == name))?;
    Some(problem(
        "metadata.namespace",
        format!(
            "the namespace {namespace} already has controlplane/{other}, and each namespace can have one ControlPlane"
        ),
        "create it in another namespace",
    ))
}

/// A size that no field has by default. Volumes are folders, so a smaller disk holds the usual ones for a while.
const USUAL: u64 = 100 << 30;

/// The sizes of volumes that the disk can never hold. A volume cannot shrink, so this has to be said before there is one.
fn too_large(object: &Value, disk: u64) -> Vec<Problem> {
    let parts = object["spec"]["infrastructure"].as_object().into_iter().flatten();
    let judge = |(part, spec): (&String, &Value)| {
        let asked = spec["storageSize"].as_str()?;
        let bytes = u64::try_from(Quantity::parse(asked)?.units()).ok()?;
        (bytes > disk.max(USUAL)).then(|| {
            let held = disk >> 30;
            problem(
                format!("spec.infrastructure.{part}.storageSize"),
                format!("{asked} is more than the {held}Gi of this machine's disk, and a volume cannot shrink later"),
                "ask for less than the disk has",
            )
        })
    };
    parts.filter_map(judge).collect()
}

/// The size of the disk that a folder is on.
fn disk(folder: &Path) -> u64 {
    let existing = folder.ancestors().find(|folder| folder.exists()).unwrap_or(folder);
    rustix::fs::statvfs(existing).map_or(u64::MAX, |stat| stat.f_blocks.saturating_mul(stat.f_frsize))
}

/// Writes a certificate for this machine, and gives the authority that signed it.
fn certify(folder: &Path) -> Result<ByteString, Box<dyn std::error::Error>> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let pki = Pki::in_memory(&[], Timestamp::now())?;
    let identity = pki.issue_server(&["127.0.0.1"], LIFE, Timestamp::now())?;
    std::fs::write(folder.join("tls.crt"), &identity.certificate)?;
    c5c3_files::write_private(&folder.join("tls.key"), identity.key.expose_secret().as_bytes())?;
    Ok(ByteString(pki.ca_pem().into()))
}

/// While the webhook is unavailable, the operators report in the object's status what it would refuse.
fn registration(address: SocketAddr, authority: &ByteString, rules: &[Value]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/part-of": "c5c3"}},
        "webhooks": [{
            "name": format!("validating.{NAME}.c5c3.io"),
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://{address}/validate"), "caBundle": authority},
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "rules": rules,
            "sideEffects": "None",
            "timeoutSeconds": 5,
        }],
    })
}

#[cfg(test)]
mod tests {
    use c5c3_harness::TestCluster;
    use kube::api::{DynamicObject, PostParams};
    use kube::core::{ApiResource, GroupVersionKind};
    use kube::{Api, Error};

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_an_operator_would_refuse_is_refused_by_the_api_server() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let Some(cluster) = TestCluster::embedded("the webhooks listen on this machine").await.unwrap() else { return };
        let kind = GroupVersionKind::gvk("c5c3.io", "v1alpha1", "ControlPlane");
        cluster.install(&c5c3_api::find("c5c3.io/v1alpha1", "ControlPlane").unwrap().crd()).await.unwrap();
        let (folder, tasks, stop) = (tempfile::tempdir().unwrap(), TaskTracker::new(), CancellationToken::new());
        let account = |_: &str, _: &Operator| cluster.client();
        let served = folder.path().join("webhooks");
        start(&cluster.client(), account, &served, Router::new(), &tasks, &stop).await.unwrap();
        let planes: Api<DynamicObject> = Api::default_namespaced_with(cluster.client(), &ApiResource::from_gvk(&kind));
        let create = async |rule: &str| {
            let spec = json!({"services": {"keystone": {"policyOverrides": {"rules": {"identity:list_users": rule}}}}});
            let object = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane", "metadata": {"name": "lab"}, "spec": spec});
            let params = PostParams { dry_run: true, ..PostParams::default() };
            planes.create(&params, &serde_json::from_value(object).unwrap()).await
        };
        create("role:admin").await.unwrap();
        let Err(Error::Api(refused)) = create("role:admin or").await else { panic!("it was taken") };
        let field = "spec.services.keystone.policyOverrides.rules.identity:list_users";
        assert!(refused.code == 422 && refused.message.contains(field), "{refused:?}");

        // The parts of a ControlPlane have fixed names, and volumes cannot shrink.
        let plane = |name: &str, size: &str| {
            let spec = json!({"infrastructure": {"mariadb": {"storageSize": size}}});
            let plane = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane", "metadata": {"name": name}, "spec": spec});
            serde_json::from_value::<DynamicObject>(plane).unwrap()
        };
        let create = async |name: &str, size: &str| planes.create(&PostParams::default(), &plane(name, size)).await;
        let Err(Error::Api(refused)) = create("lab", "100Ti").await else { panic!("it was taken") };
        assert!(refused.message.contains("infrastructure.mariadb.storageSize: 100Ti is more than the "), "{refused:?}");
        create("lab", "1Gi").await.unwrap();
        let second = async || {
            let params = PostParams { dry_run: true, ..PostParams::default() };
            let Err(Error::Api(refused)) = planes.create(&params, &plane("second", "1Gi")).await else { return None };
            Some(refused.message)
        };
        let deadline = std::time::Instant::now() + Duration::from_mins(1);
        let refused = loop {
            if let Some(refused) = second().await {
                break refused;
            }
            assert!(std::time::Instant::now() < deadline, "a second ControlPlane is not refused");
            tokio::task::yield_now().await;
        };
        assert!(refused.contains("already has controlplane/lab") && refused.contains("another namespace"), "{refused}");
        stop.cancel();
    }

    #[test]
    fn the_certificate_of_the_webhooks_outlives_the_longest_run() {
        let folder = tempfile::tempdir().unwrap();
        let authority = certify(folder.path()).unwrap();
        let served = std::fs::read_to_string(folder.path().join("tls.crt")).unwrap();
        let nine_years = Timestamp::now() + jiff::SignedDuration::from_hours(24 * 365 * 9);
        for pem in [served.as_str(), std::str::from_utf8(&authority.0).unwrap()] {
            let until = c5c3_auth::Issued::read(pem).unwrap().until();
            assert!(until > nine_years, "{until}");
        }
    }

    #[test]
    fn a_control_plane_is_refused_beside_another_and_with_volumes_larger_than_the_disk() {
        let plane = |name: &str, size: &str| {
            json!({"kind": "ControlPlane", "metadata": {"name": name, "namespace": "cellar"},
                "spec": {"infrastructure": {"mariadb": {"storageSize": size}, "valkey": {}}}})
        };
        let there = || [("attic", "roof"), ("cellar", "lab")].map(|(a, b)| (a.to_owned(), b.to_owned())).into_iter();
        let second = beside(&plane("new", "1Gi"), there()).unwrap().to_string();
        assert!(second.contains("the namespace cellar already has controlplane/lab"), "{second}");
        assert!(beside(&plane("lab", "1Gi"), there()).is_none(), "it is a change");
        assert!(beside(&plane("new", "1Gi"), there().take(1)).is_none());
        let told = |size: &str, disk: u64| too_large(&plane("lab", size), disk << 30).len();
        assert_eq!([told("100Ti", 250), told("251Gi", 250), told("250Gi", 250), told("100Gi", 20)], [1, 1, 0, 0]);
    }
}
