//! Discovery, documents, and other forms of objects.

use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use kube::discovery::{Discovery, Scope, verbs};
use serde_json::json;

use crate::fixtures::{Tested, basket, cluster, orchard, picker, read, send, tree};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

#[tokio::test]
async fn discovery_finds_built_in_and_defined_kinds() -> Tested {
    let (_cluster, client) = cluster().await;
    orchard(&client).await;
    for discovery in
        [Discovery::new(client.clone()).run().await?, Discovery::new(client.clone()).run_aggregated().await?]
    {
        for (group, kind, namespaced) in [
            ("", "ConfigMap", true),
            ("apps", "Deployment", true),
            ("orchard.example", "Tree", true),
            ("rbac.authorization.k8s.io", "ClusterRole", false),
        ] {
            let group = discovery.get(group).unwrap_or_else(|| panic!("no group {group}"));
            let (_, capabilities) = group.recommended_kind(kind).unwrap_or_else(|| panic!("no kind {kind}"));
            assert_eq!(capabilities.scope == Scope::Namespaced, namespaced, "{kind}");
            assert!(capabilities.supports_operation(verbs::WATCH));
        }
    }
    let tree =
        kube::discovery::pinned_kind(&client, &kube::api::GroupVersionKind::gvk("orchard.example", "v1", "Tree"))
            .await?;
    assert_eq!(tree.1.subresources.len(), 2);
    Ok(())
}

#[tokio::test]
async fn each_group_prefers_a_version_that_it_has() -> Tested {
    let (_cluster, client) = cluster().await;
    for group in client.list_api_groups().await?.groups {
        let preferred = group.preferred_version.expect("a preferred version");
        assert!(group.versions.contains(&preferred), "{}", group.name);
        assert!(
            !client.list_api_group_resources(&preferred.group_version).await?.resources.is_empty(),
            "{}",
            group.name
        );
    }
    let version = client.apiserver_version().await?;
    assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "33"));
    Ok(())
}

#[tokio::test]
async fn objects_are_shown_as_tables() -> Tested {
    let (_cluster, client) = cluster().await;
    let trees = orchard(&client).await;
    trees.create(&PostParams::default(), &tree("a")).await?;
    Api::default_namespaced(client.clone()).create(&PostParams::default(), &picker("p")).await?;
    let table = read(&client, "/apis/orchard.example/v1/namespaces/default/trees", TABLE).await.body;
    let columns: Vec<_> =
        table["columnDefinitions"].as_array().into_iter().flatten().map(|c| c["name"].clone()).collect();
    assert_eq!((table["kind"].as_str(), columns), (Some("Table"), vec![json!("Name"), json!("Sort")]));
    assert_eq!(table["rows"][0]["cells"], json!(["a", "quince"]));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let pods = read(&client, "/api/v1/namespaces/default/pods", TABLE).await.body;
    assert_eq!(pods["columnDefinitions"][1]["name"], "Ready");
    assert_eq!(pods["rows"][0]["cells"][0], "p");
    Ok(())
}

#[tokio::test]
async fn what_is_not_stored_has_no_table() -> Tested {
    let (_cluster, client) = cluster().await;
    let review = r#"{"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}"#;
    let uri = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let only_table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let answer = send(&client, Method::POST, uri, ("application/json", review), only_table).await;
    assert_eq!((answer.code.as_u16(), &answer.body["reason"]), (406, &json!("NotAcceptable")), "{}", answer.body);
    Ok(())
}

#[tokio::test]
async fn openapi_knows_built_in_and_defined_kinds() -> Tested {
    let (_cluster, client) = cluster().await;
    orchard(&client).await;
    let index = read(&client, "/openapi/v3", "application/json").await.body;
    for path in ["api/v1", "apis/apps/v1", "apis/orchard.example/v1"] {
        assert!(index["paths"][path]["serverRelativeURL"].is_string(), "{path}");
    }
    let trees = read(&client, "/openapi/v3/apis/orchard.example/v1", "application/json").await.body;
    assert!(
        trees["components"]["schemas"]
            .as_object()
            .is_some_and(|schemas| schemas.keys().any(|name| name.ends_with(".Tree")))
    );
    let old = read(&client, "/openapi/v2", "application/json").await.body;
    assert!(old["definitions"].as_object().is_some_and(|all| all.keys().any(|name| name.ends_with("v1.Tree"))));
    Ok(())
}

#[tokio::test]
async fn unknown_paths_and_methods_are_told_apart() -> Tested {
    let (_cluster, client) = cluster().await;
    Api::<ConfigMap>::default_namespaced(client.clone()).create(&PostParams::default(), &basket("a")).await?;
    for (method, path, code) in [
        (Method::GET, "/api/v1/nothings", 404),
        (Method::GET, "/apis/none.example/v1/things", 404),
        (Method::GET, "/nowhere", 404),
        (Method::POST, "/api/v1/namespaces/default/configmaps/a", 405),
        (Method::GET, "/api/v1/namespaces/default/configmaps/a/status", 404),
        (Method::DELETE, "/api/v1/namespaces", 405),
    ] {
        let answer = send(&client, method.clone(), path, ("application/json", "{}"), "application/json").await;
        assert_eq!(answer.code, code, "{method} {path}: {}", answer.body);
    }
    Ok(())
}
