//! Application credentials, which belong to a user and are immutable.

use kube::api::DeleteParams;
use serde_json::json;

use crate::site::Site;

async fn prepare(site: &Site) {
    site.managed("User", "ada", json!({})).await;
    site.managed("Role", "reader", json!({})).await;
    site.managed("Service", "shop", json!({"type": "fruit"})).await;
    for (kind, name) in [("User", "ada"), ("Role", "reader"), ("Service", "shop")] {
        site.done(kind, name).await;
    }
}

#[tokio::test]
async fn an_application_credential_is_created_with_its_secret_roles_and_rules_and_deleted() {
    let site = Site::open().await;
    let spec = json!({"userRef": "ada", "secretRef": "code", "roleRefs": ["reader"], "expiresAt": "2031-01-02T03:04:05Z",
        "accessRules": [{"path": "/a", "method": "GET", "serviceRef": "shop"}, {"path": "/b"}]});
    site.managed("ApplicationCredential", "pruner", spec).await;
    let message = "Waiting for User/ada to be created\nWaiting for Role/reader to be created\nWaiting for Service/shop to be created";
    site.said("ApplicationCredential", "pruner", "Progressing", "True", "Progressing", message).await;
    prepare(&site).await;
    let message = "Waiting for Secret/code to be created";
    site.said("ApplicationCredential", "pruner", "Progressing", "True", "Progressing", message).await;
    site.secret("code", "other", "x").await;
    let message = "Application credential secret does not contain \"value\" key";
    site.said("ApplicationCredential", "pruner", "Progressing", "True", "Progressing", message).await;
    site.secret("code", "value", "cherry-stone").await;
    let status = site.done("ApplicationCredential", "pruner").await;
    let (user, role) = (site.status("User", "ada").await, site.status("Role", "reader").await);
    let live = site.keystone.all("application_credentials").remove(0);
    assert_eq!(
        (&live["name"], &live["secret"], &live["unrestricted"]),
        (&json!("pruner"), &json!("cherry-stone"), &json!(false))
    );
    assert_eq!(live["roles"], json!([{"id": role["id"]}]));
    assert_eq!(live["access_rules"], json!([{"path": "/a", "method": "GET", "service": "fruit"}, {"path": "/b"}]));
    let id = user["id"].as_str().unwrap();
    assert_eq!(site.keystone.count(&format!("POST /users/{id}/application_credentials")), 1);
    assert_eq!(status["resource"]["expiresAt"], "2031-01-02T03:04:05Z");
    assert_eq!(status["resource"]["roles"], json!([{"id": role["id"]}]));
    assert!(!status.to_string().contains("cherry-stone"));
    let patch = json!({"spec": {"resource": {"unrestricted": true}}});
    let refused = site.patch("ApplicationCredential", "pruner", patch).await.unwrap_err();
    assert!(refused.to_string().contains("ApplicationCredentialResourceSpec is immutable"), "{refused}");
    site.api("ApplicationCredential").delete("pruner", &DeleteParams::default()).await.unwrap();
    site.gone("ApplicationCredential", "pruner").await;
    assert!(site.keystone.all("application_credentials").is_empty());
}

#[tokio::test]
async fn an_application_credential_is_adopted_and_imported_by_name_and_description() {
    let site = Site::open().await;
    prepare(&site).await;
    site.secret("code", "value", "cherry-stone").await;
    site.keystone.lose("POST /users", 500);
    site.managed(
        "ApplicationCredential",
        "pruner",
        json!({"userRef": "ada", "secretRef": "code", "description": "cuts"}),
    )
    .await;
    let id = site.done("ApplicationCredential", "pruner").await["id"].clone();
    assert_eq!(site.keystone.all("application_credentials").len(), 1);
    let mut other = site.keystone.all("application_credentials").remove(0);
    other["id"] = "f2".into();
    other["name"] = "digger".into();
    other["description"] = "digs".into();
    site.keystone.put("application_credentials", other);
    for (name, filter) in [("by-name", json!({"name": "pruner"})), ("by-description", json!({"description": "cuts"}))] {
        let mut filter = filter;
        filter["userRef"] = "ada".into();
        site.import("ApplicationCredential", name, json!({ "filter": filter })).await;
        assert_eq!(site.done("ApplicationCredential", name).await["id"], id, "{name}");
    }
}
