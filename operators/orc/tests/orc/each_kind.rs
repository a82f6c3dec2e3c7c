//! What each of the nine kinds does when its credential or Keystone fails.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kinds::{KINDS, fields, prepared};

#[tokio::test]
async fn missing_and_wrong_credentials_are_reported_for_each_kind() {
    let site = prepared().await;
    site.secret("wrong", "clouds.yaml", &site.keystone.clouds("wrong-sesame")).await;
    for (kind, _) in KINDS {
        for (name, secret) in [("absent", "late"), ("refused", "wrong")] {
            let credentials = json!({"secretName": secret, "cloudName": "orchard"});
            let spec = json!({"resource": fields(kind), "cloudCredentialsRef": credentials});
            site.create(kind, name, spec).await.unwrap();
        }
        let message = "Waiting for Secret/late to be created";
        site.said(kind, "absent", "Progressing", "True", "Progressing", message).await;
        let message = "the credential is not accepted";
        site.said(kind, "refused", "Progressing", "True", "TransientError", message).await;
        site.said(kind, "refused", "Available", "False", "TransientError", message).await;
    }
}

#[tokio::test]
async fn an_error_of_keystone_is_tried_again_and_a_conflict_is_not_for_each_kind() {
    let site = prepared().await;
    for (kind, call) in KINDS {
        site.keystone.fail(call, 500, 2);
        site.managed(kind, "plum", fields(kind)).await;
        site.done(kind, "plum").await;
    }
    for (kind, call) in KINDS {
        // What is there already would be adopted, and nothing would be created.
        let mut other = fields(kind);
        match kind {
            "RoleAssignment" => {
                site.managed("Project", "field", json!({})).await;
                site.done("Project", "field").await;
                other["projectRef"] = "field".into();
            }
            "Endpoint" => other["interface"] = "internal".into(),
            _ => {}
        }
        site.keystone.fail(call, 409, usize::MAX);
        site.managed(kind, "pear", other).await;
        let message = "invalid configuration creating";
        site.said(kind, "pear", "Progressing", "False", "InvalidConfiguration", message).await;
        site.said(kind, "pear", "Available", "False", "InvalidConfiguration", message).await;
        site.keystone.heal();
    }
}

#[tokio::test]
async fn a_keystone_that_refuses_a_limited_user_is_reported_for_each_kind() {
    let site = prepared().await;
    for (kind, call) in KINDS {
        site.keystone.fail(call, 403, usize::MAX);
        let mut other = fields(kind);
        if kind == "Endpoint" {
            other["interface"] = "admin".into();
        }
        site.managed(kind, "fig", other).await;
        let message = "the call is forbidden for this credential";
        site.said(kind, "fig", "Progressing", "True", "TransientError", message).await;
        site.keystone.heal();
        site.done(kind, "fig").await;
    }
}

#[tokio::test]
async fn a_keystone_that_is_down_loses_nothing_of_any_kind() {
    let site = prepared().await;
    let mut ids = Vec::new();
    for (kind, _) in KINDS {
        let spec = json!({"resource": fields(kind), "resyncPeriod": "50ms"});
        site.create(kind, "fig", spec).await.unwrap();
        ids.push(site.done(kind, "fig").await["id"].clone());
    }
    let begun = Instant::now();
    for call in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"] {
        site.keystone.fail(call, 503, usize::MAX);
    }
    for (kind, _) in KINDS {
        let message = "the service is unavailable";
        site.said(kind, "fig", "Progressing", "True", "TransientError", message).await;
        // What has no id is not known to be there.
        let available = if kind == "RoleAssignment" { "False" } else { "Unknown" };
        site.said(kind, "fig", "Available", available, "TransientError", message).await;
    }
    assert!(begun.elapsed() < Duration::from_mins(1));
    site.keystone.heal();
    for ((kind, _), id) in KINDS.into_iter().zip(ids) {
        assert_eq!(site.done(kind, "fig").await["id"], id, "{kind}");
    }
}

#[tokio::test]
async fn several_matches_of_an_import_are_terminal_for_each_kind_that_can_have_them() {
    let site = prepared().await;
    let ada = site.status("User", "ada").await["id"].clone();
    let rows = [
        ("Domain", "domains", json!({"name": "shop"})),
        ("Project", "projects", json!({"name": "shop"})),
        ("Role", "roles", json!({"name": "shop"})),
        ("Group", "groups", json!({"name": "shop"})),
        ("Endpoint", "endpoints", json!({"url": "http://a"})),
        ("User", "users", json!({"name": "shop"})),
        ("ApplicationCredential", "application_credentials", json!({"name": "shop", "userRef": "ada"})),
    ];
    for (kind, plural, filter) in rows {
        for id in ["f1", "f2"] {
            let domain = if kind == "Role" { Value::Null } else { id.into() };
            site.keystone.put(
                plural,
                json!({"id": id, "name": "shop", "enabled": true, "domain_id": domain, "url": "http://a",
                    "interface": "public", "service_id": "f0", "user_id": ada, "unrestricted": false}),
            );
        }
        site.import(kind, "several", json!({ "filter": filter })).await;
        let message = "found more than one matching OpenStack resource during import";
        site.said(kind, "several", "Progressing", "False", "InvalidConfiguration", message).await;
    }
}

#[tokio::test]
async fn the_kinds_without_a_name_wait_for_a_match_too() {
    let site = prepared().await;
    let rows = [
        ("Endpoint", json!({"url": "http://nowhere"})),
        ("RoleAssignment", json!({"roleRef": "reader", "userRef": "ada", "projectRef": "acre"})),
        ("ApplicationCredential", json!({"name": "none", "userRef": "ada"})),
    ];
    for (kind, filter) in rows {
        site.import(kind, "none", json!({ "filter": filter })).await;
        let message = "Waiting for OpenStack resource to be created externally";
        site.said(kind, "none", "Progressing", "True", "Progressing", message).await;
    }
}
