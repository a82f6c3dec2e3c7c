//! Admission webhooks, as an API server calls them.

use axum::body::Body;
use c5c3_kit::webhook::Webhooks;
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
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
