//! Admission webhooks, as an API server calls them.

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use axum::body::Body;
use c5c3_auth::Pki;
use c5c3_harness::TestCluster;
use c5c3_kit::webhook::{self, Certificates, Webhooks};
use http::Request;
use http_body_util::BodyExt;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

async fn call(path: &str, request: Value) -> Value {
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let request =
        Request::post(path).header("content-type", "application/json").body(Body::from(review.to_string())).unwrap();
    let response = Webhooks::new(c5c3_api::all()).routes().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice::<Value>(&body).unwrap()["response"].clone()
}

fn tempest(schedule: &str) -> Value {
    json!({"apiVersion": "tempest.openstack.c5c3.io/v1alpha1", "kind": "Tempest",
           "metadata": {"name": "nightly", "namespace": "cloud"}, "spec": {"schedule": schedule}})
}

fn request(operation: &str, object: &Value, old: &Value) -> Value {
    json!({
        "uid": "1", "operation": operation, "name": "nightly", "namespace": "cloud",
        "kind": {"group": "tempest.openstack.c5c3.io", "version": "v1alpha1", "kind": "Tempest"},
        "resource": {"group": "tempest.openstack.c5c3.io", "version": "v1alpha1", "resource": "tempests"},
        "userInfo": {"username": "someone"}, "object": object, "oldObject": old, "dryRun": false,
    })
}

#[tokio::test]
async fn a_wrong_object_is_refused_as_an_api_server_would() {
    let response = call("/validate", request("CREATE", &tempest("0 0 31 2 *"), &Value::Null)).await;
    assert_eq!(
        (&response["allowed"], &response["uid"], &response["status"]["code"]),
        (&json!(false), &json!("1"), &json!(422))
    );
    let cause = &response["status"]["details"]["causes"][0];
    assert_eq!((&cause["field"], &cause["reason"]), (&json!("spec.schedule"), &json!("FieldValueInvalid")));
    let told = cause["message"].as_str().unwrap();
    assert!(!told.contains("spec.schedule"), "clients write the field before it: {told}");
    assert!(response["status"]["message"].as_str().unwrap().contains("never fires"), "{response}");
    assert_eq!(call("/validate", request("CREATE", &tempest("0 2 * * *"), &Value::Null)).await["allowed"], true);
}

#[tokio::test]
async fn what_was_accepted_once_can_still_be_labelled_and_let_go() {
    let old = tempest("0 0 31 2 *");
    let mut labelled = old.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(call("/validate", request("UPDATE", &labelled, &old)).await["allowed"], true);
    assert_eq!(call("/validate", request("UPDATE", &tempest("nonsense"), &old)).await["allowed"], false);
    let mut going = tempest("nonsense");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(call("/validate", request("UPDATE", &going, &old)).await["allowed"], true);
    assert_eq!(call("/validate", request("DELETE", &Value::Null, &old)).await["allowed"], true);
}

#[tokio::test]
async fn fields_of_a_newer_version_and_the_status_are_no_reason_to_refuse() {
    let mut newer = tempest("0 2 * * *");
    newer["spec"]["addedLater"] = json!(true);
    newer["status"] = json!({"results": "of another shape"});
    assert_eq!(call("/validate", request("CREATE", &newer, &Value::Null)).await["allowed"], true);
}

#[tokio::test]
async fn defaults_come_as_a_patch() {
    let object = json!({"apiVersion": "keystone.openstack.c5c3.io/v1alpha1", "kind": "Keystone",
        "metadata": {"name": "keystone", "namespace": "cloud"}, "spec": {}});
    let mut asked = request("CREATE", &object, &Value::Null);
    asked["kind"] = json!({"group": "keystone.openstack.c5c3.io", "version": "v1alpha1", "kind": "Keystone"});
    let response = call("/default", asked).await;
    assert_eq!((&response["allowed"], &response["patchType"]), (&json!(true), &json!("JSONPatch")));
    // kube writes the bytes as a list of numbers, which Go reads as it reads base64.
    let bytes: Vec<u8> = serde_json::from_value(response["patch"].clone()).unwrap();
    let patch: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
    assert!(patch.contains(&json!({"op": "add", "path": "/spec/replicas", "value": 3})), "{patch:?}");
}

#[tokio::test]
async fn what_is_no_review_is_answered_and_not_panicked_over() {
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"});
    let request = Request::post("/validate")
        .header("content-type", "application/json")
        .body(Body::from(review.to_string()))
        .unwrap();
    let response = Webhooks::new(c5c3_api::all()).routes().oneshot(request).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(answer["response"]["allowed"], false);
}

/// A new authority, and in the folder a certificate of it for this machine: the authority's own certificate.
fn certify(folder: &Path) -> ByteString {
    let pki = Pki::in_memory(&[], Timestamp::now()).unwrap();
    let identity = pki.issue_server(&["127.0.0.1"], Duration::from_hours(1), Timestamp::now()).unwrap();
    std::fs::write(folder.join("tls.crt"), &identity.certificate).unwrap();
    std::fs::write(folder.join("tls.key"), identity.key.expose_secret()).unwrap();
    ByteString(pki.ca_pem().into())
}

/// Tempests, as a cluster serves them.
struct Tempests(Api<DynamicObject>);

impl Tempests {
    async fn on(cluster: &TestCluster) -> Self {
        let kind = GroupVersionKind::gvk("tempest.openstack.c5c3.io", "v1alpha1", "Tempest");
        cluster.install(&c5c3_api::find(&kind.api_version(), &kind.kind).unwrap().crd()).await.unwrap();
        Self(Api::default_namespaced_with(cluster.client(), &ApiResource::from_gvk(&kind)))
    }

    /// What is said of one with this schedule; nothing is kept.
    async fn try_out(&self, schedule: &str) -> Result<DynamicObject, kube::Error> {
        let mut object = tempest(schedule);
        object["metadata"] = json!({"name": "nightly"});
        let params = PostParams { dry_run: true, ..PostParams::default() };
        self.0.create(&params, &serde_json::from_value(object).unwrap()).await
    }
}

#[tokio::test]
async fn an_api_server_asks_over_tls_and_a_renewed_certificate_is_taken_up() {
    let alone = "its webhook listens on this machine alone";
    let Some(cluster) = TestCluster::embedded(alone).await.unwrap() else { return };
    let tempests = Tempests::on(&cluster).await;
    tempests.try_out("0 0 31 2 *").await.expect("no webhook is registered yet");

    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let authority = certify(folder.path());
    let (listener, stop) = (TcpListener::bind("127.0.0.1:0").unwrap(), CancellationToken::new());
    let url = format!("https://{}/validate", listener.local_addr().unwrap());
    let certificates = Certificates::in_folder(folder.path()).reload_interval(Duration::from_millis(20));
    let serving = tokio::spawn(webhook::serve(listener, Webhooks::new(c5c3_api::all()), certificates, stop.clone()));
    let configuration = json!({"metadata": {"name": "rules"}, "webhooks": [{
        "name": "rules.c5c3.io", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
        "clientConfig": {"url": url, "caBundle": authority},
        "rules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": ["tempest.openstack.c5c3.io"],
                   "apiVersions": ["v1alpha1"], "resources": ["tempests"]}],
    }]});
    let configurations = Api::<ValidatingWebhookConfiguration>::all(cluster.client());
    configurations.create(&PostParams::default(), &serde_json::from_value(configuration).unwrap()).await.unwrap();

    tempests.try_out("0 2 * * *").await.unwrap();
    let Err(kube::Error::Api(refused)) = tempests.try_out("0 0 31 2 *").await else { panic!("not refused") };
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
    assert!(refused.message.contains("\"rules.c5c3.io\" denied the request"), "{}", refused.message);
    assert!(
        refused.message.contains("spec.schedule") && refused.message.contains("never fires"),
        "{}",
        refused.message
    );

    let renewed =
        json!([{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": certify(folder.path())}]);
    let renewed = Patch::<()>::Json(serde_json::from_value(renewed).unwrap());
    configurations.patch("rules", &PatchParams::default(), &renewed).await.unwrap();
    let taken_up = async {
        // Until then, who trusts the new authority alone does not trust the old certificate.
        while tempests.try_out("0 2 * * *").await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), taken_up).await.expect("the renewed certificate is taken up");
    stop.cancel();
    tokio::time::timeout(Duration::from_mins(1), serving).await.expect("it stops").unwrap().unwrap();
}
