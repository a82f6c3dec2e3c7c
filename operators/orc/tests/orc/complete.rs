//! What each of the nine kinds does in the course of its life: adoption, import, detachment, deletion, and an operator that is
//! killed at the worst moment.

use serde_json::{Value, json};

use crate::kinds::{KINDS, another, fields, finalizer, identity, import, plural, prepared};
use crate::site::Site;

/// A part of an import that fits nothing.
fn other_filter(kind: &str) -> Value {
    match kind {
        "Endpoint" => json!({"url": "http://nowhere"}),
        "RoleAssignment" => json!({"projectRef": "nowhere"}),
        _ => json!({"name": "nobody"}),
    }
}

#[tokio::test]
async fn each_kind_is_detached_adopted_imported_once_and_deleted() {
    let site = prepared().await;
    for (kind, call) in KINDS {
        let all = || site.keystone.all(&plural(kind)).len();
        let before = all();
        site.managed(kind, "pear", fields(kind)).await;
        let made = identity(&site.done(kind, "pear").await);
        assert_eq!(all(), before + 1, "{kind} is created");

        let detach = json!({"spec": {"managedOptions": {"onDelete": "detach"}}});
        site.patch(kind, "pear", detach).await.unwrap();
        site.delete(kind, "pear").await;
        site.gone(kind, "pear").await;
        assert_eq!(all(), before + 1, "{kind} is detached");

        let creations = site.keystone.count(call);
        site.managed(kind, "pear", fields(kind)).await;
        let adopted = identity(&site.done(kind, "pear").await);
        assert_eq!((adopted, site.keystone.count(call)), (made.clone(), creations), "{kind} is adopted");

        site.import(kind, "copy", import(kind)).await;
        assert_eq!(identity(&site.done(kind, "copy").await), made, "{kind} is imported");
        site.patch(kind, "copy", json!({"spec": {"import": {"filter": other_filter(kind)}}})).await.unwrap();
        assert_eq!(identity(&site.done(kind, "copy").await), made, "{kind} is not searched for a second time");
        site.delete(kind, "copy").await;
        site.gone(kind, "copy").await;
        assert_eq!(all(), before + 1, "{kind} outlives its import");

        site.delete(kind, "pear").await;
        site.gone(kind, "pear").await;
        assert_eq!(all(), before, "{kind} is deleted");
    }
}

#[tokio::test]
async fn objects_of_each_kind_go_without_a_credential_unless_something_is_deleted_in_keystone() {
    let site = prepared().await;
    let credentials = json!({"secretName": "short-lived", "cloudName": "orchard"});
    site.secret("short-lived", "clouds.yaml", &site.keystone.clouds(crate::keystone::PASSWORD)).await;
    for (kind, _) in KINDS {
        let detached = json!({"resource": fields(kind), "managedOptions": {"onDelete": "detach"},
            "cloudCredentialsRef": credentials});
        site.create(kind, "pear", detached).await.unwrap();
        site.done(kind, "pear").await;
        let imported = json!({"managementPolicy": "unmanaged", "import": import(kind),
            "cloudCredentialsRef": credentials});
        site.create(kind, "copy", imported).await.unwrap();
        site.done(kind, "copy").await;
    }
    site.secret("short-lived", "clouds.yaml", "clouds: {}").await;
    for (kind, _) in KINDS {
        site.delete(kind, "pear").await;
        site.delete(kind, "copy").await;
    }
    for (kind, _) in KINDS {
        site.gone(kind, "pear").await;
        site.gone(kind, "copy").await;
    }
    assert_eq!(site.keystone.count("DELETE"), 0);
}

#[tokio::test]
async fn a_finalizer_that_was_lost_comes_back_for_each_kind() {
    let site = prepared().await;
    for (kind, _) in KINDS {
        site.managed(kind, "pear", fields(kind)).await;
        site.done(kind, "pear").await;
        site.replace(kind, "pear").await;
    }
    for (kind, _) in KINDS {
        let own = finalizer(kind);
        let has = |object: Option<&kube::api::DynamicObject>| {
            object.is_some_and(|object| object.metadata.finalizers.iter().flatten().any(|held| *held == own))
        };
        site.until(kind, "pear", "has its finalizer", has).await;
        site.delete(kind, "pear").await;
        site.gone(kind, "pear").await;
    }
}

#[tokio::test]
async fn a_list_that_fails_is_an_error_of_each_kind_and_nothing_is_created() {
    let site = prepared().await;
    let list = |kind: &str| match kind {
        "ApplicationCredential" => "GET /users/".to_owned(),
        _ => format!("GET /{}", plural(kind)),
    };
    // One after the other: a list that fails holds back what refers to its kind, too.
    for (kind, call) in KINDS {
        let creations = site.keystone.count(call);
        site.keystone.fail(&list(kind), 403, usize::MAX);
        site.managed(kind, "pear", fields(kind)).await;
        site.import(kind, "copy", import(kind)).await;
        for name in ["pear", "copy"] {
            let message = "the call is forbidden for this credential: GET /v3/";
            site.said(kind, name, "Progressing", "True", "TransientError", message).await;
            site.said(kind, name, "Available", "False", "TransientError", message).await;
        }
        assert_eq!(site.keystone.count(call), creations, "nothing is created");
        site.keystone.heal();
        site.done(kind, "pear").await;
    }
}

#[tokio::test]
async fn several_resources_that_could_be_adopted_are_terminal_for_each_kind_that_can_have_them() {
    let site = prepared().await;
    let (ada, shop) = (site.status("User", "ada").await, site.status("Service", "shop").await);
    for (kind, call) in KINDS.into_iter().filter(|(kind, _)| *kind != "RoleAssignment") {
        for id in ["f1", "f2"] {
            let domain = if kind == "Role" { Value::Null } else { id.into() };
            let mut resource = json!({"id": id, "name": "twin", "enabled": true, "domain_id": domain,
                "service_id": shop["id"], "user_id": ada["id"]});
            resource.as_object_mut().unwrap().extend(fields(kind).as_object().unwrap().clone());
            site.keystone.put(&plural(kind), resource);
        }
        let creations = site.keystone.count(call);
        site.managed(kind, "twin", fields(kind)).await;
        let message = "found more than one matching OpenStack resource during adoption";
        site.said(kind, "twin", "Progressing", "False", "InvalidConfiguration", message).await;
        site.said(kind, "twin", "Available", "False", "InvalidConfiguration", message).await;
        assert_eq!(site.keystone.count(call), creations, "{kind}");
    }
}

/// A site whose operator was killed after Keystone had created a resource of each kind, and before it knew of that. Gives how
/// many there are of each.
async fn killed() -> (Site, Vec<usize>) {
    let mut site = prepared().await;
    site.restart_patient().await;
    let mut expected = Vec::new();
    for (kind, call) in KINDS {
        expected.push(site.keystone.all(&plural(kind)).len() + 1);
        site.keystone.hold(call);
    }
    for (kind, _) in KINDS {
        site.managed(kind, "pear", fields(kind)).await;
    }
    for ((kind, _), expected) in KINDS.into_iter().zip(&expected) {
        site.eventually("Keystone has it", || site.keystone.all(&plural(kind)).len() == *expected).await;
        assert!(identity(&site.status(kind, "pear").await).is_null(), "{kind} is recorded too early for this test");
    }
    site.kill().await;
    site.keystone.heal();
    (site, expected)
}

#[tokio::test]
async fn an_operator_killed_between_creation_and_record_leaves_one_resource_of_each_kind() {
    let (mut site, expected) = killed().await;
    site.restart();
    for ((kind, _), expected) in KINDS.into_iter().zip(expected) {
        site.done(kind, "pear").await;
        assert_eq!(site.keystone.all(&plural(kind)).len(), expected, "{kind}");
    }
}

#[tokio::test]
async fn what_was_created_and_not_recorded_goes_with_the_object_of_each_kind() {
    let (mut site, expected) = killed().await;
    for (kind, _) in KINDS {
        site.delete(kind, "pear").await;
    }
    site.restart();
    for ((kind, _), expected) in KINDS.into_iter().zip(expected) {
        site.gone(kind, "pear").await;
        assert_eq!(site.keystone.all(&plural(kind)).len(), expected - 1, "{kind}");
    }
}

#[tokio::test]
async fn what_was_deleted_in_keystone_is_created_again_for_each_kind() {
    let site = prepared().await;
    for (kind, call) in KINDS {
        let spec = json!({"resource": another(&site, kind, "pear").await, "resyncPeriod": "50ms"});
        let before = site.keystone.all(&plural(kind));
        site.create(kind, "pear", spec).await.unwrap();
        site.done(kind, "pear").await;
        let made = site.keystone.all(&plural(kind)).into_iter().find(|one| !before.contains(one)).unwrap();
        let creations = site.keystone.count(call);
        site.keystone.remove(&plural(kind), made["id"].as_str().unwrap());
        site.eventually("it is created again", || site.keystone.count(call) > creations).await;
        site.eventually("it is there again", || site.keystone.all(&plural(kind)).len() > before.len()).await;
        let old = if kind == "RoleAssignment" { Value::Null } else { made["id"].clone() };
        let is_new = |object: Option<&kube::api::DynamicObject>| {
            object.is_some_and(|object| identity(&object.data["status"]) != old)
        };
        site.until(kind, "pear", "has another id", is_new).await;
        site.done(kind, "pear").await;
        assert_eq!(site.keystone.all(&plural(kind)).len(), before.len() + 1, "{kind}");
    }
}

#[tokio::test]
async fn another_credential_is_used_as_soon_as_an_object_of_any_kind_names_it() {
    let site = prepared().await;
    site.secret("wrong", "clouds.yaml", &site.keystone.clouds("wrong-sesame")).await;
    for (kind, _) in KINDS {
        let credentials = json!({"secretName": "wrong", "cloudName": "orchard"});
        let spec = json!({"resource": fields(kind), "cloudCredentialsRef": credentials});
        site.create(kind, "pear", spec).await.unwrap();
    }
    for (kind, _) in KINDS {
        let message = "the credential is not accepted";
        site.said(kind, "pear", "Progressing", "True", "TransientError", message).await;
        site.patch(kind, "pear", json!({"spec": {"cloudCredentialsRef": {"secretName": "clouds"}}})).await.unwrap();
    }
    for (kind, _) in KINDS {
        site.done(kind, "pear").await;
    }
}
