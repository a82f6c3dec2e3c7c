//! Definitions as other projects publish them, and our own examples.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use c5c3_contracts::{Contract, Genuine, compared_with_genuine};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::fixtures::{Tested, apply, cluster, of, refusal, without_controllers};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("a file that can be read");
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut found: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.sort();
    found
}

/// The definitions of other projects: genuine ones if they are at hand, by the contracts otherwise. A cluster has one of each.
fn definitions() -> Vec<CustomResourceDefinition> {
    let mut found: BTreeMap<String, CustomResourceDefinition> = BTreeMap::new();
    for contract in Contract::all() {
        let definition: CustomResourceDefinition = of(contract.definition());
        found.insert(definition.name_any(), definition);
    }
    if compared_with_genuine("whether an API server takes the definitions as other projects ship them") {
        let genuine = Genuine::all(false).into_iter().map(|genuine| of::<CustomResourceDefinition>(genuine.definition));
        found.extend(genuine.map(|definition| (definition.name_any(), definition)));
    }
    found.into_values().collect()
}

async fn api(client: &Client, object: &Value) -> Api<DynamicObject> {
    let (group, version) = object["apiVersion"].as_str().and_then(|version| version.split_once('/')).expect("a group");
    let kind = GroupVersionKind::gvk(group, version, object["kind"].as_str().expect("a kind"));
    let (resource, capabilities) = kube::discovery::pinned_kind(client, &kind).await.expect("it is served");
    match capabilities.scope {
        kube::discovery::Scope::Cluster => Api::all_with(client.clone(), &resource),
        kube::discovery::Scope::Namespaced => Api::default_namespaced_with(client.clone(), &resource),
    }
}

#[tokio::test]
async fn definitions_of_other_projects_are_established_and_check_their_objects() -> Tested {
    let Some((cluster, client)) = without_controllers("the operators of these kinds may be there, too").await else {
        return Ok(());
    };
    let definitions = definitions();
    assert!(definitions.len() > 20, "{}", definitions.len());
    for definition in &definitions {
        let installed = cluster.install(definition).await;
        installed.unwrap_or_else(|error| panic!("{}: {error}", definition.name_any()));
    }
    for (valid, (pointer, wrong), words) in objects() {
        assert_eq!(c5c3_contracts::problems(&valid), [""; 0]);
        let api = api(&client, &valid).await;
        let created = api.create(&PostParams::default(), &of(valid.clone())).await;
        created.unwrap_or_else(|error| panic!("{}: {error}", valid["kind"]));
        let mut invalid = valid;
        invalid["metadata"]["name"] = "wrong".into();
        *invalid.pointer_mut(pointer).expect("a part of the object") = wrong;
        let refused = refusal(api.create(&PostParams::default(), &of(invalid)).await);
        assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
        assert!(refused.message.contains(words), "{}", refused.message);
    }
    Ok(())
}

/// Valid objects of five projects, what makes each invalid, and what is said of it.
fn objects() -> Vec<(Value, (&'static str, Value), &'static str)> {
    let object = |version: &str, kind: &str, spec: Value| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec});
    vec![
        (
            object(
                "cert-manager.io/v1",
                "Certificate",
                json!({"secretName": "s", "issuerRef": {"name": "i"}, "dnsNames": ["a.example"], "privateKey": {"algorithm": "RSA"}}),
            ),
            ("/spec/privateKey/algorithm", json!("DSA")),
            "spec.privateKey.algorithm: Unsupported value: \"DSA\": supported values: \"RSA\", \"ECDSA\", \"Ed25519\"",
        ),
        (
            object(
                "openstack.k-orc.cloud/v1alpha1",
                "Domain",
                json!({"managementPolicy": "managed", "cloudCredentialsRef": {"cloudName": "c", "secretName": "s"}, "resource": {"name": "d"}}),
            ),
            ("/spec/managementPolicy", json!("sometimes")),
            "spec.managementPolicy: Unsupported value: \"sometimes\"",
        ),
        (
            object(
                "k8s.mariadb.com/v1alpha1",
                "Database",
                json!({"mariaDbRef": {"name": "m"}, "characterSet": "utf8"}),
            ),
            ("/spec/characterSet", json!(8)),
            "spec.characterSet: Invalid value: \"integer\": spec.characterSet in body must be of type string: \"integer\"",
        ),
        (
            object("rabbitmq.com/v1beta1", "RabbitmqCluster", json!({"replicas": 1})),
            ("/spec/replicas", json!(-1)),
            "spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0",
        ),
        (
            object(
                "source.toolkit.fluxcd.io/v1",
                "GitRepository",
                json!({"interval": "1m", "url": "https://git.example/repo"}),
            ),
            ("/spec/url", json!("gopher://git.example")),
            "spec.url: Invalid value: \"gopher://git.example\"",
        ),
    ]
}

/// Every example of ours, without a namespace, with the file that it is from.
fn examples() -> Vec<(PathBuf, Value)> {
    let files = files(&root().join("examples")).into_iter().flat_map(|folder| files(&folder));
    let all = files.flat_map(|file| documents(&file).into_iter().map(move |object| (file.clone(), object)));
    all.filter(|(_, object)| object.is_object())
        .map(|(file, mut object)| {
            object["metadata"].as_object_mut().map(|metadata| metadata.remove("namespace"));
            (file, object)
        })
        .collect()
}

#[tokio::test]
async fn our_examples_apply_again_without_a_change_and_two_managers_keep_their_fields() -> Tested {
    let (cluster, client) = cluster().await;
    let mut kinds = BTreeMap::new();
    for kind in c5c3_api::all() {
        cluster.install(&kind.crd()).await?;
        kinds.insert((kind.api_version().to_owned(), kind.name().to_owned()), 0);
    }
    for (file, object) in examples() {
        let file = file.display();
        let api = api(&client, &object).await;
        let first = apply(&api, "one", object.clone()).await.unwrap_or_else(|error| panic!("{file}: {error}"));
        let second = apply(&api, "one", object.clone()).await?;
        assert_eq!(second.resource_version(), first.resource_version(), "{file}");

        let bare = json!({"apiVersion": object["apiVersion"], "kind": object["kind"],
            "metadata": {"name": object["metadata"]["name"]}});
        let mut labelled = bare.clone();
        labelled["metadata"]["labels"] = json!({"example.org/checked-by": "two"});
        let both = apply(&api, "two", labelled.clone()).await.unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(both.data["spec"], first.data["spec"], "{file}: what one set stays");
        let again = apply(&api, "one", object.clone()).await?;
        assert_eq!(
            again.resource_version(),
            both.resource_version(),
            "{file}: what two set stays, and nothing else came"
        );
        assert_eq!(again.labels()["example.org/checked-by"], "two", "{file}");
        assert_eq!(managers(&again), ["one", "two"], "{file}");
        let alone = apply(&api, "two", bare).await?;
        assert_eq!((&alone.data["spec"], alone.labels()), (&first.data["spec"], first.labels()), "{file}");

        // The next example may bear the same name.
        api.delete(&first.name_any(), &DeleteParams::default()).await?;
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        *kinds.get_mut(&(text("apiVersion"), text("kind"))).expect("a kind of ours") += 1;
    }
    assert!(kinds.values().all(|count| *count >= 2), "a small and a full example of each: {kinds:?}");
    Ok(())
}

/// Who applied what an object holds.
fn managers(object: &DynamicObject) -> Vec<&str> {
    let mut found: Vec<&str> = object.managed_fields().iter().filter_map(|entry| entry.manager.as_deref()).collect();
    found.sort_unstable();
    found
}
