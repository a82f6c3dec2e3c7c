//! Kinds of storage that no controller looks after here.

use serde_json::{Value, json};

use super::Api;

const CLASSES: &str = "/apis/storage.k8s.io/v1/volumeattributesclasses";

#[tokio::test]
async fn a_volume_attributes_class_is_made_found_relabelled_and_deleted_and_never_says_something_else() {
    let api = Api::start().await;
    let gold = json!({"metadata": {"name": "gold"}, "driverName": "csi.example", "parameters": {"iops": "9000"}});
    let (code, made) = api.post(&format!("{CLASSES}?fieldValidation=Strict"), &gold).await;
    assert_eq!((code, &made["parameters"], &made["metadata"]["generation"]), (201, &gold["parameters"], &Value::Null));
    let path = format!("{CLASSES}/gold");
    let labelled = json!({"metadata": {"labels": {"tier": "1"}}});
    assert_eq!(api.patch(&path, &labelled).await.1["metadata"]["labels"], json!({"tier": "1"}));
    let (code, refused) = api.patch(&path, &json!({"parameters": {"iops": "9"}})).await;
    let why = "parameters: Forbidden: updates to parameters are forbidden.";
    assert!(code == 422 && refused["message"].as_str().unwrap().contains(why), "{refused}");
    let listed = api.get(&format!("{CLASSES}?labelSelector=tier%3D1")).await.1;
    assert_eq!(
        (&listed["kind"], &listed["items"][0]["driverName"]),
        (&json!("VolumeAttributesClassList"), &json!("csi.example"))
    );
    assert_eq!(api.delete(&path).await, 200);
    assert_eq!(api.get(&path).await.0, 404);
    api.0.stop().await;
}
