//! Every image that operators and providers name is one that the image pipeline builds, tag included.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use c5c3_api::ext::mariadb::MariaDB;
use c5c3_api::ext::rabbitmq::RabbitmqCluster;
use c5c3_api::ext::rook::CephCluster;
use c5c3_api::ext::valkey::Valkey;
use c5c3_harness::TestCluster;
use c5c3_images::{Binary, Catalogue, DEFAULT_RELEASE, Inputs, Plan, REGISTRY, version};
use c5c3_service::release::{RELEASES, Release};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_mins(2);

/// The names of all images of a release that can be built, with every tag that they get.
fn built(release: &str) -> BTreeSet<String> {
    let catalogue = Catalogue::embedded().unwrap();
    let release = catalogue.release(release).unwrap();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let binary = Binary { path: env!("CARGO_BIN_EXE_c5c3").into(), sha256: String::new(), version };
    let names: Vec<_> = catalogue.images().map(|image| image.name.as_str()).collect();
    let plan = Plan::new(Inputs { catalogue: &catalogue, release: &release, binary: Some(&binary) }, &names).unwrap();
    let images = plan.images.iter().flat_map(|image| {
        let tags = version::tags(&image.version, image.patches.len(), None);
        tags.into_iter().map(|tag| format!("{REGISTRY}/{}:{tag}", image.definition.name))
    });
    images.collect()
}

/// The names of all images of all releases.
fn all_built() -> BTreeSet<String> {
    Catalogue::embedded().unwrap().releases().iter().flat_map(|release| built(release)).collect()
}

#[test]
fn operators_know_the_releases_that_are_built_and_the_same_one_is_usual() {
    let known: Vec<_> = RELEASES.iter().map(|release| release.name).collect();
    assert_eq!(known, Catalogue::embedded().unwrap().releases());
    assert_eq!(Release::default_release().name, DEFAULT_RELEASE);
}

#[test]
fn every_image_that_a_release_names_is_built_for_it() {
    for release in RELEASES {
        let built = built(release.name);
        for (service, version) in release.versions {
            let named = format!("{REGISTRY}/{service}:{version}");
            assert!(built.contains(&named), "{named} of {} is not built: {built:#?}", release.name);
        }
    }
}

#[test]
fn every_image_that_belongs_to_no_release_is_built() {
    let built = all_built();
    for named in c5c3_operator_controlplane::SERVER_IMAGES.into_iter().chain([c5c3_service::tls::IMAGE]) {
        assert!(built.contains(named), "{named} is not built: {built:#?}");
    }
}

/// What `c5c3 crds` and people deploy: YAML below a folder.
fn documents(folder: &Path) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(documents(&path));
        } else if path.extension().is_some_and(|end| end == "yaml") {
            let text = std::fs::read_to_string(&path).unwrap();
            let parsed: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
            found.extend(parsed.into_iter().map(|document| (path.display().to_string(), document)));
        }
    }
    found
}

/// The images of ours that a document names: as one text, or as repository and tag.
fn named(value: &Value) -> Vec<String> {
    let ours = |text: &&str| text.starts_with(REGISTRY);
    match value {
        Value::String(text) => Some(text.as_str()).filter(ours).map(str::to_owned).into_iter().collect(),
        Value::Array(values) => values.iter().flat_map(named).collect(),
        Value::Object(fields) => match (fields.get("repository").and_then(Value::as_str), fields.get("tag")) {
            (Some(repository), Some(Value::String(tag))) if ours(&repository) => vec![format!("{repository}:{tag}")],
            _ => fields.values().flat_map(named).collect(),
        },
        _ => Vec::new(),
    }
}

#[test]
fn every_image_that_a_manifest_or_an_example_names_is_built() {
    let built = all_built();
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let documents = ["deploy/operators", "examples"].map(|folder| documents(&checkout.join(folder))).concat();
    let all: Vec<_> = documents
        .iter()
        .flat_map(|(file, document)| named(document).into_iter().map(move |image| (file, image)))
        .collect();
    assert!(!all.is_empty());
    for (file, image) in all {
        assert!(built.contains(&image), "{file} names {image}, which is not built");
    }
}

async fn create<K>(client: &Client, object: Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let object: K = serde_json::from_value(object).unwrap();
    Api::default_namespaced(client.clone()).create(&PostParams::default(), &object).await.unwrap();
}

/// The images of all containers that StatefulSets and Deployments start.
async fn started(client: &Client) -> BTreeSet<String> {
    let sets: Api<StatefulSet> = Api::default_namespaced(client.clone());
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let sets = sets.list(&ListParams::default()).await.unwrap().items.into_iter();
    let deployments = deployments.list(&ListParams::default()).await.unwrap().items.into_iter();
    let pods = sets.filter_map(|set| set.spec?.template.spec);
    let pods = pods.chain(deployments.filter_map(|deployment| deployment.spec?.template.spec));
    pods.flat_map(|pod| pod.init_containers.into_iter().flatten().chain(pod.containers))
        .filter_map(|container| container.image)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_image_that_a_provider_starts_is_built() {
    let cluster = TestCluster::in_process().await.unwrap();
    let client = cluster.client();
    c5c3_providers::definitions::install(&client, &c5c3_providers::all_definitions()).await.unwrap();
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    tokio::spawn(c5c3_providers::run(client.clone(), Vec::new(), stop));
    create::<MariaDB>(&client, json!({"metadata": {"name": "ledger"}, "spec": {"storage": {"size": "1Gi"}}})).await;
    create::<RabbitmqCluster>(&client, json!({"metadata": {"name": "burrow"}, "spec": {}})).await;
    create::<Valkey>(&client, json!({"metadata": {"name": "larder"}, "spec": {"replicas": 1}})).await;
    create::<CephCluster>(&client, json!({"metadata": {"name": "pottery"}, "spec": {"mon": {"count": 1}}})).await;
    let deadline = Instant::now() + PATIENCE;
    let found = loop {
        let found = started(&client).await;
        let has = |server: &str| found.iter().any(|image| image.starts_with(&format!("{REGISTRY}/{server}:")));
        if ["ceph", "mariadb", "rabbitmq", "valkey"].into_iter().all(has) {
            break found;
        }
        assert!(Instant::now() < deadline, "no server of some provider is started: {found:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let built = all_built();
    assert!(found.is_subset(&built), "{found:?} are not all built: {built:#?}");
}
