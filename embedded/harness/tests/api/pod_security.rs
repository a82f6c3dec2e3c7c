//! Pod security: what the labels of a namespace refuse, and what they warn of.

use http::Method;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::fixtures::{Answer, Tested, cluster, of, picker, press, refusal, send};

const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
const WARN: &str = "pod-security.kubernetes.io/warn";

async fn label(client: &Client, namespace: &str, labels: Value) -> Result<Namespace, kube::Error> {
    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
    Api::all(client.clone()).patch(namespace, &PatchParams::default(), &patch).await
}

fn privileged(name: &str) -> Pod {
    of(json!({"metadata": {"name": name}, "spec": {"hostNetwork": true, "containers": [
        {"name": "pick", "image": "picker:1", "securityContext": {"privileged": true}}]}}))
}

fn warnings(answer: &Answer) -> Vec<String> {
    let values = answer.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok());
    let texts = values.filter_map(|value| value.strip_prefix("299 - \"")?.strip_suffix('"'));
    texts.map(|text| text.replace("\\\"", "\"")).collect()
}

#[tokio::test]
async fn a_namespace_refuses_pods_that_break_its_standard() -> Tested {
    let (cluster, client) = cluster().await;
    let shed = cluster.namespace_named("shed").await?;
    let pods = Api::<Pod>::namespaced(client.clone(), &shed);
    pods.create(&PostParams::default(), &privileged("before")).await?;
    label(&client, &shed, json!({ENFORCE: "baseline"})).await?;
    let refused = refusal(pods.create(&PostParams::default(), &privileged("after")).await);
    assert_eq!(
        (refused.code, refused.reason.as_str(), refused.message.as_str()),
        (
            403,
            "Forbidden",
            "pods \"after\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true), \
             privileged (container \"pick\" must not set securityContext.privileged=true)"
        )
    );
    pods.create(&PostParams::default(), &picker("plain")).await?;
    label(&client, &shed, json!({ENFORCE: "restricted", "pod-security.kubernetes.io/enforce-version": "v1.30"}))
        .await?;
    let refused = refusal(pods.create(&PostParams::default(), &picker("other")).await);
    let start =
        "pods \"other\" is forbidden: violates PodSecurity \"restricted:v1.30\": allowPrivilegeEscalation != false (";
    assert!(refused.message.starts_with(start), "{}", refused.message);
    // What runs may still be changed as far as a pod can be.
    let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    pods.patch("before", &PatchParams::default(), &patch).await?;
    Ok(())
}

#[tokio::test]
async fn a_workload_is_warned_of_and_stored() -> Tested {
    let (cluster, client) = cluster().await;
    let shed = cluster.namespace_named("shed").await?;
    label(&client, &shed, json!({ENFORCE: "restricted", WARN: "restricted"})).await?;
    let path = format!("/apis/apps/v1/namespaces/{shed}/deployments");
    let body = json!(press("press")).to_string();
    let answer = send(&client, Method::POST, &path, ("application/json", &body), "application/json").await;
    assert_eq!(answer.code, 201);
    let told = warnings(&answer);
    let start =
        "would violate PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false (container \"juice\" must";
    assert!(told.len() == 1 && told[0].starts_with(start), "{told:?}");
    Ok(())
}

#[tokio::test]
async fn pods_that_are_there_are_named_when_a_namespace_becomes_stricter() -> Tested {
    let (cluster, client) = cluster().await;
    let shed = cluster.namespace_named("shed").await?;
    let pods = Api::<Pod>::namespaced(client.clone(), &shed);
    for name in ["a", "b"] {
        pods.create(&PostParams::default(), &privileged(name)).await?;
    }
    let body = json!({"metadata": {"labels": {ENFORCE: "baseline"}}}).to_string();
    let path = format!("/api/v1/namespaces/{shed}");
    let content = ("application/merge-patch+json", body.as_str());
    let answer = send(&client, Method::PATCH, &path, content, "application/json").await;
    assert_eq!(
        warnings(&answer),
        [
            format!(
                "existing pods in namespace \"{shed}\" violate the new PodSecurity enforce level \"baseline:latest\""
            ),
            "a (and 1 other pod): host namespaces, privileged".to_owned(),
        ]
    );
    Ok(())
}

#[tokio::test]
async fn a_level_that_there_is_not_is_refused_as_a_label() -> Tested {
    let (cluster, client) = cluster().await;
    let shed = cluster.namespace_named("shed").await?;
    let refused = refusal(label(&client, &shed, json!({ENFORCE: "strict"})).await);
    assert_eq!(
        (refused.code, refused.message),
        (
            422,
            format!(
                "Namespace \"{shed}\" is invalid: metadata.labels[{ENFORCE}]: Invalid value: \"strict\": must be one of \
                 privileged, baseline, restricted"
            )
        )
    );
    Ok(())
}
