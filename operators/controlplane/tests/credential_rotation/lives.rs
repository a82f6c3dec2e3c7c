//! A credential from its first day to its revocation.

use c5c3_api::c5c3::CredentialRotation;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::site::{Site, TARGET, consumers, runs_with};

fn condition(status: &Value, kind: &str) -> (String, String) {
    let all = status["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|found| found["type"] == kind).unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

#[tokio::test]
async fn a_credential_is_created_delivered_and_ready_without_a_consumer() {
    let mut site = Site::open().await;
    let early = site.is_never_ready_before_it_is_delivered();
    site.start();
    site.rotate(consumers()).await;
    site.idle_with(1).await;
    let status = site.until("it is ready", |status| condition(status, "Ready").0 == "True").await;
    early.await.unwrap();
    assert_eq!(condition(&status, "Ready").1, "CredentialValid");
    assert_eq!(condition(&status, "RotationScheduled").0, "True");
    assert_eq!(site.delivered().await, site.ids().first().cloned());
    assert_eq!(status["currentCredential"]["id"], json!(site.ids()[0]));
    assert_eq!(status["currentCredentialRef"]["name"], "heron-app-credential-v1");
    let target = site.api::<Secret>().get(TARGET).await.unwrap().data.unwrap();
    let keys: Vec<&str> = target.keys().map(String::as_str).collect();
    assert_eq!(keys, ["application_credential_id", "application_credential_secret", "auth_url", "clouds.yaml"]);
    let clouds = String::from_utf8(target["clouds.yaml"].0.clone()).unwrap();
    c5c3_openstack::clouds::parse(&clouds, "openstack", None).unwrap();
    let live = site.keystone.all("application_credentials").remove(0);
    assert_eq!(live["expires_at"].as_str().map(|at| at.len() > 10), Some(true), "{live}");
}

#[tokio::test]
async fn a_request_replaces_the_credential_and_keystone_refuses_the_old_one() {
    let mut site = Site::open().await;
    site.start();
    site.serve().await;
    site.rotate(consumers()).await;
    site.idle_with(1).await;
    let old = site.delivered().await.unwrap();
    site.request("leaked").await;
    let status = site.idle_with(2).await;
    assert_eq!(status["handledRequest"], "leaked");
    assert_eq!(status["reason"], "Requested");
    assert_eq!(site.ids(), [site.delivered().await.unwrap()]);
    assert_ne!(site.ids()[0], old);
    let left: Vec<String> = site
        .api::<Secret>()
        .list(&ListParams::default())
        .await
        .unwrap()
        .into_iter()
        .filter_map(|secret| secret.metadata.name)
        .filter(|name| name.starts_with("heron-app-credential"))
        .collect();
    assert_eq!(left, ["heron-app-credential", "heron-app-credential-v2"]);
    nothing_secret_is_said(&site).await;
}

#[tokio::test]
async fn a_consumer_holds_the_switch_and_the_old_credential_goes_on_working() {
    let mut site = Site::open().await;
    site.start();
    site.placement().await;
    site.rotate(consumers()).await;
    site.idle_with(1).await;
    let old = site.delivered().await.unwrap();
    runs_with(&site.cluster.client(), &old, true).await;
    site.request("1").await;
    let held = site.until("it waits for the consumer", |status| {
        status["waitingFor"][0]["object"] == "placement/placement" && condition(status, "Ready").0 == "True"
    });
    let status = held.await;
    assert_eq!((&status["phase"], site.ids().len()), (&json!("Verifying"), 2));
    let message = status["steps"][2]["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("placement/placement runs with {old}")), "{message}");
    let new = site.delivered().await.unwrap();
    assert_ne!(new, old, "the consumer can read the new one");
    runs_with(&site.cluster.client(), &new, false).await;
    site.until("it is not verified", |status| {
        status["steps"][2]["message"].as_str().is_some_and(|text| text.contains("has not got a token"))
    })
    .await;
    runs_with(&site.cluster.client(), &new, true).await;
    site.idle_with(2).await;
    assert_eq!(site.ids(), [new]);
}

#[tokio::test]
async fn a_deleted_rotation_takes_its_credentials_with_it() {
    let mut site = Site::open().await;
    site.start();
    site.rotate(json!([])).await;
    site.idle_with(1).await;
    site.api::<CredentialRotation>().delete("heron-rotation", &DeleteParams::background()).await.unwrap();
    let gone = async {
        while !site.ids().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), gone).await.expect("Keystone keeps nothing");
}

#[tokio::test]
async fn an_operator_with_the_rights_that_it_says_it_needs_is_refused_nothing() {
    let mut site = Site::open().await;
    let access = c5c3_operator_controlplane::operator(false).access().clone();
    let namespace = site.cluster.namespace().to_owned();
    let limited = site.cluster.limited("few-rights", &namespace, access.in_namespaces(), access.in_cluster());
    let limited = limited.await.unwrap();
    site.start_as(limited.client.clone());
    site.serve().await;
    site.rotate(consumers()).await;
    site.idle_with(1).await;
    site.request("1").await;
    site.idle_with(2).await;
    assert_eq!(limited.refused(), Vec::<String>::new());
}

/// No value of a Secret is in a status, an event or a ConfigMap.
pub(crate) async fn nothing_secret_is_said(site: &Site) {
    let secrets = site.api::<Secret>().list(&ListParams::default()).await.unwrap();
    let values = secrets
        .into_iter()
        .flat_map(|secret| secret.data.unwrap_or_default())
        .filter(|(key, _)| ["value", "password", "application_credential_secret"].contains(&key.as_str()));
    let values: Vec<String> = values.map(|(_, value)| String::from_utf8(value.0).unwrap()).collect();
    assert!(values.len() >= 4, "{}", values.len());
    let rotation = site.api::<CredentialRotation>().get("heron-rotation").await.unwrap();
    let mut said = serde_json::to_string(&rotation).unwrap();
    said += &serde_json::to_string(&site.api::<Event>().list(&ListParams::default()).await.unwrap().items).unwrap();
    said += &serde_json::to_string(&site.api::<ConfigMap>().list(&ListParams::default()).await.unwrap().items).unwrap();
    said +=
        &serde_json::to_string(&site.orcs("ApplicationCredential").list(&ListParams::default()).await.unwrap().items)
            .unwrap();
    for value in values {
        assert!(!said.contains(&value), "a secret value is said");
    }
}
