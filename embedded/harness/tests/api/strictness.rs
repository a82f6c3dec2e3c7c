//! Fields that no schema knows, and fields that are there twice.

use http::Method;
use kube::Client;
use serde_json::json;

use crate::fixtures::{Answer, Tested, cluster, orchard, send};

fn maps(client: &Client) -> String {
    format!("/api/v1/namespaces/{}/configmaps", client.default_namespace())
}

fn trees(client: &Client) -> String {
    format!("/apis/orchard.example/v1/namespaces/{}/trees", client.default_namespace())
}

async fn post(client: &Client, uri: &str, body: &str) -> Answer {
    send(client, Method::POST, uri, ("application/json", body), "application/json").await
}

fn message(answer: &Answer) -> &str {
    answer.body["message"].as_str().unwrap_or_default()
}

fn warnings(answer: &Answer) -> Vec<&str> {
    answer.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok()).collect()
}

#[tokio::test]
async fn strict_refuses_unknown_fields() -> Tested {
    let (_cluster, client) = cluster().await;
    let body = r#"{"metadata": {"name": "a", "hue": 1}, "shade": 2}"#;
    let answer = post(&client, &format!("{}?fieldValidation=Strict", maps(&client)), body).await;
    assert_eq!(answer.code, 400);
    assert!(
        message(&answer)
            .contains("ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: ")
    );
    for field in ["unknown field \"metadata.hue\"", "unknown field \"shade\""] {
        assert!(message(&answer).contains(field), "{}", answer.body);
    }
    Ok(())
}

#[tokio::test]
async fn warn_takes_the_rest_and_warns() -> Tested {
    let (cluster, client) = cluster().await;
    orchard(&cluster).await;
    let body = r#"{"apiVersion": "orchard.example/v1", "kind": "Tree", "metadata": {"name": "a"}, "spec": {"sort": "quince", "hue": 1}}"#;
    for (uri, warned) in [
        ("?fieldValidation=Warn&dryRun=All", true),
        ("?fieldValidation=Ignore&dryRun=All", false),
        ("?dryRun=All", true),
    ] {
        let answer = post(&client, &format!("{}{uri}", trees(&client)), body).await;
        assert_eq!(answer.code, 201, "{}", answer.body);
        assert!(answer.body["spec"].get("hue").is_none());
        let expected: &[&str] = if warned { &["299 - \"unknown field \\\"spec.hue\\\"\""] } else { &[] };
        assert_eq!(warnings(&answer), expected, "{uri}");
    }
    assert_eq!(post(&client, &format!("{}?fieldValidation=Perhaps", trees(&client)), body).await.code, 400);
    Ok(())
}

#[tokio::test]
async fn strict_refuses_fields_that_are_there_twice() -> Tested {
    let (cluster, client) = cluster().await;
    orchard(&cluster).await;
    let body = r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "p"}, "spec": {"unknown": 1, "replicas": 1,
        "replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i", "image": "j"}]}}}}"#;
    let deployments = &format!("/apis/apps/v1/namespaces/{}/deployments", client.default_namespace());
    let answer = post(&client, &format!("{deployments}?fieldValidation=Strict"), body).await;
    assert_eq!(answer.code, 400, "{}", answer.body);
    let wanted = "strict decoding error: unknown field \"spec.unknown\", duplicate field \"spec.replicas\", \
                  duplicate field \"spec.template.spec.containers[0].image\"";
    assert!(message(&answer).contains(wanted), "{}", answer.body);
    let answer = post(&client, deployments, body).await;
    assert_eq!((answer.code.as_u16(), &answer.body["spec"]["replicas"]), (201, &json!(2)), "the last one counts");
    assert!(warnings(&answer).contains(&"299 - \"duplicate field \\\"spec.replicas\\\"\""), "{:?}", warnings(&answer));
    Ok(())
}

#[tokio::test]
async fn strict_refuses_a_yaml_key_that_is_there_twice() -> Tested {
    let (cluster, client) = cluster().await;
    orchard(&cluster).await;
    let yaml =
        "\napiVersion: orchard.example/v1\nkind: Tree\nmetadata:\n  name: a\nspec:\n  sort: quince\n  sort: plum\n";
    let uri = format!("{}/a?fieldManager=m&fieldValidation=Strict", trees(&client));
    let answer = send(&client, Method::PATCH, &uri, ("application/apply-patch+yaml", yaml), "application/json").await;
    assert_eq!(answer.code, 400, "{}", answer.body);
    assert!(message(&answer).contains("line 8: key \"sort\" already set in map"), "{}", answer.body);
    Ok(())
}

#[tokio::test]
async fn strict_looks_into_patches_and_updates() -> Tested {
    let (_cluster, client) = cluster().await;
    let created = post(&client, &maps(&client), r#"{"metadata": {"name": "a"}}"#).await;
    assert_eq!(created.code, 201);
    let uri = format!("{}/a?fieldValidation=Strict", maps(&client));
    let patch = ("application/merge-patch+json", r#"{"shade": 2}"#);
    let answer = send(&client, Method::PATCH, &uri, patch, "application/json").await;
    assert!(message(&answer).contains("unknown field \"shade\""), "{}", answer.body);
    let whole = ("application/json", r#"{"metadata": {"name": "a"}, "shade": 2}"#);
    let answer = send(&client, Method::PUT, &uri, whole, "application/json").await;
    assert_eq!(answer.code, 400, "{}", answer.body);
    Ok(())
}

#[tokio::test]
async fn nonsense_is_answered_clearly() -> Tested {
    let (_cluster, client) = cluster().await;
    for (body, code) in [
        ("{", 400),
        ("[]", 400),
        ("\"x\"", 400),
        (r#"{"kind": "Pod", "metadata": {"name": "a"}}"#, 400),
        (r#"{"metadata": "x"}"#, 400),
        (r#"{"metadata": {"name": "a"}, "data": {"x": 1}}"#, 400),
    ] {
        let answer = post(&client, &maps(&client), body).await;
        assert_eq!(answer.code, code, "{body}: {}", answer.body);
        assert_eq!(answer.body["kind"], "Status");
    }
    let deep = "[".repeat(10_000);
    assert_eq!(post(&client, &maps(&client), &deep).await.code, 400);
    let large = "x".repeat(4 << 20);
    assert_eq!(post(&client, &maps(&client), &large).await.code, 413);
    let answer = send(&client, Method::POST, &maps(&client), ("text/csv", "a,b"), "application/json").await;
    assert_eq!(answer.code, 415);
    Ok(())
}
