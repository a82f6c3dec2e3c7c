//! The rights that the operator says it needs are enough for the whole life of an object of each kind.

use serde_json::json;

use crate::keystone::PASSWORD;
use crate::kinds::{KINDS, fields, import, prepared};

#[tokio::test]
async fn an_operator_with_the_rights_that_it_says_it_needs_is_refused_nothing() {
    let mut site = prepared().await;
    let limited = site.restart_limited().await;
    // A credential that is missing at first, one that is changed, and failures, which are events.
    let late = json!({"secretName": "late", "cloudName": "orchard"});
    site.create("Role", "writer", json!({"resource": {}, "cloudCredentialsRef": late})).await.unwrap();
    site.said("Role", "writer", "Progressing", "True", "Progressing", "Waiting for Secret/late to be created").await;
    site.secret("late", "clouds.yaml", &site.keystone.clouds("wrong-sesame")).await;
    site.said("Role", "writer", "Progressing", "True", "TransientError", "the credential is not accepted").await;
    site.secret("late", "clouds.yaml", &site.keystone.clouds(PASSWORD)).await;
    site.done("Role", "writer").await;
    site.patch("Role", "writer", json!({"spec": {"resource": {"description": "trees"}}})).await.unwrap();
    site.event("writer", "RemoteUpdated").await;
    site.done("Role", "writer").await;

    for (kind, _) in KINDS {
        site.managed(kind, "pear", fields(kind)).await;
        site.done(kind, "pear").await;
        site.import(kind, "copy", import(kind)).await;
        site.done(kind, "copy").await;
    }
    for (kind, _) in KINDS.into_iter().rev() {
        for name in ["copy", "pear"] {
            site.delete(kind, name).await;
            site.gone(kind, name).await;
        }
    }
    // What guarded the others and their credential goes as well.
    let rest = [("User", "ada"), ("Role", "reader"), ("Role", "writer"), ("Project", "acre"), ("Service", "shop")];
    for (kind, name) in rest {
        site.delete(kind, name).await;
        site.gone(kind, name).await;
    }
    let secret = site.secrets().get("clouds").await.unwrap();
    assert_eq!(secret.metadata.finalizers.unwrap_or_default(), Vec::<String>::new());
    assert_eq!(limited.refused(), Vec::<String>::new());
}
