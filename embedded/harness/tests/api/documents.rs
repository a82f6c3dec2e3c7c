//! Discovery, documents, and other forms of objects.

use http::{HeaderValue, Method, Request, header};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use kube::discovery::{Discovery, Scope, verbs};
use serde_json::json;

use crate::fixtures::{ORCHARD, Tested, basket, cluster, embedded, orchard, picker, read, send, soon, tree};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

#[tokio::test]
async fn discovery_finds_built_in_and_defined_kinds() -> Tested {
    let (cluster, client) = cluster().await;
    orchard(&cluster).await;
    // The groups of tests that run beside this one come and go.
    let of_all = || Discovery::new(client.clone()).filter(&["", "apps", ORCHARD, "rbac.authorization.k8s.io"]);
    for discovery in [of_all().run().await?, of_all().run_aggregated().await?] {
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
    let groups = client.list_api_groups().await?.groups;
    // Those of other tests may go meanwhile.
    let is_built_in = |group: &str| !group.contains('.') || group.ends_with(".k8s.io");
    for group in groups.into_iter().filter(|group| is_built_in(&group.name)) {
        let preferred = group.preferred_version.expect("a preferred version");
        assert!(group.versions.contains(&preferred), "{}", group.name);
        assert!(
            !client.list_api_group_resources(&preferred.group_version).await?.resources.is_empty(),
            "{}",
            group.name
        );
    }
    Ok(())
}

#[tokio::test]
async fn the_server_says_which_kubernetes_it_is() -> Tested {
    let Some((_cluster, client)) = embedded("another cluster is of another version").await else { return Ok(()) };
    let version = client.apiserver_version().await?;
    assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "33"));
    Ok(())
}

#[tokio::test]
async fn objects_are_shown_as_tables() -> Tested {
    let (cluster, client) = cluster().await;
    let home = cluster.namespace();
    let trees = orchard(&cluster).await;
    trees.create(&PostParams::default(), &tree("a")).await?;
    Api::default_namespaced(client.clone()).create(&PostParams::default(), &picker("p")).await?;
    let table = read(&client, &format!("/apis/orchard.example/v1/namespaces/{home}/trees"), TABLE).await.body;
    let columns: Vec<_> =
        table["columnDefinitions"].as_array().into_iter().flatten().map(|c| c["name"].clone()).collect();
    assert_eq!((table["kind"].as_str(), columns), (Some("Table"), vec![json!("Name"), json!("Sort")]));
    assert_eq!(table["rows"][0]["cells"], json!(["a", "quince"]));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let pods = read(&client, &format!("/api/v1/namespaces/{home}/pods"), TABLE).await.body;
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
    let (cluster, client) = cluster().await;
    orchard(&cluster).await;
    for path in ["api/v1", "apis/apps/v1", "apis/orchard.example/v1"] {
        soon(path, async || {
            let index = read(&client, "/openapi/v3", "application/json").await.body;
            index["paths"][path]["serverRelativeURL"].is_string()
        })
        .await;
    }
    let trees = read(&client, "/openapi/v3/apis/orchard.example/v1", "application/json").await.body;
    assert!(
        trees["components"]["schemas"]
            .as_object()
            .is_some_and(|schemas| schemas.keys().any(|name| name.ends_with(".Tree")))
    );
    soon("trees in the older document", async || {
        let old = read(&client, "/openapi/v2", "application/json").await.body;
        old["definitions"].as_object().is_some_and(|all| all.keys().any(|name| name.ends_with("v1.Tree")))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn unknown_paths_and_methods_are_told_apart() -> Tested {
    let (cluster, client) = cluster().await;
    Api::<ConfigMap>::default_namespaced(client.clone()).create(&PostParams::default(), &basket("a")).await?;
    let maps = format!("/api/v1/namespaces/{}/configmaps", cluster.namespace());
    let (map, status) = (format!("{maps}/a"), format!("{maps}/a/status"));
    for (method, path, code) in [
        (Method::GET, "/api/v1/nothings", 404),
        (Method::GET, "/apis/none.example/v1/things", 404),
        (Method::GET, "/nowhere", 404),
        (Method::POST, map.as_str(), 405),
        (Method::GET, status.as_str(), 404),
        (Method::DELETE, "/api/v1/namespaces?dryRun=All", 405),
    ] {
        let answer = send(&client, method.clone(), path, ("application/json", "{}"), "application/json").await;
        assert_eq!(answer.code, code, "{method} {path}: {}", answer.body);
    }
    Ok(())
}

#[tokio::test]
async fn who_has_a_document_is_not_sent_it_again() -> Tested {
    let Some((cluster, client)) = embedded("other tests change the documents, too").await else { return Ok(()) };
    let ask = |uri: String, tag: Option<HeaderValue>| {
        let client = client.clone();
        async move {
            let mut request = Request::get(uri).body(kube::client::Body::empty())?;
            if let Some(tag) = tag {
                request.headers_mut().insert(header::IF_NONE_MATCH, tag);
            }
            client.send(request).await.map_err(Box::<dyn std::error::Error>::from)
        }
    };
    let first = ask("/openapi/v2".into(), None).await?;
    let tag = first.headers().get(header::ETAG).cloned();
    assert_eq!((first.status().as_u16(), tag.is_some()), (200, true));
    assert_eq!(ask("/openapi/v2".into(), tag.clone()).await?.status(), 304);
    orchard(&cluster).await;
    assert_eq!(ask("/openapi/v2".into(), tag).await?.status(), 200, "a new kind is a new document");
    let index = read(&client, "/openapi/v3", "application/json").await.body;
    let address = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().expect("an address").to_owned();
    let current = ask(address, None).await?;
    assert_eq!(current.headers()[header::CACHE_CONTROL], "public, immutable");
    let old = ask("/openapi/v3/apis/apps/v1?hash=0".into(), None).await?;
    assert_eq!(old.status(), 301);
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    assert_eq!(read(&client, "/openapi/v3/apis/apps/v1", protobuf).await.code, 406);
    let request = Request::get("/openapi/v2").header(header::ACCEPT, protobuf).body(kube::client::Body::empty())?;
    let answer = client.send(request).await?;
    assert_eq!(answer.status().as_u16(), 200);
    assert_eq!(answer.headers()[header::CONTENT_TYPE], protobuf.replace('@', "."));
    Ok(())
}

#[tokio::test]
async fn requests_and_objects_are_counted() -> Tested {
    let Some((_cluster, client)) = embedded("other tests are counted, too").await else { return Ok(()) };
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    maps.create(&PostParams::default(), &basket("a")).await?;
    maps.get_opt("none").await?;
    let text = client.request_text(Request::get("/metrics").body(Vec::new())?).await?;
    let about = |verb: &str, scope: &str| {
        format!(
            "{{verb=\"{verb}\",group=\"\",version=\"v1\",resource=\"configmaps\",subresource=\"\",scope=\"{scope}\",component=\"apiserver\""
        )
    };
    for line in [
        format!("apiserver_request_total{},code=\"201\"}} 1", about("POST", "namespace")),
        format!("apiserver_request_total{},code=\"404\"}} 1", about("GET", "resource")),
        format!("apiserver_request_duration_seconds_count{}}} 1", about("POST", "namespace")),
        "apiserver_storage_objects{resource=\"priorityclasses.scheduling.k8s.io\"} 2".to_owned(),
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
    }
    Ok(())
}
