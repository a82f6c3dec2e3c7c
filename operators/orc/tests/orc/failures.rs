//! What is told when Keystone, the credential or the cluster fails, and that nothing is created twice.

use serde_json::json;

use crate::keystone::PASSWORD;
use crate::site::Site;

#[tokio::test]
async fn missing_and_wrong_credentials_are_told_and_a_changed_secret_is_used_at_once() {
    let site = Site::open().await;
    let credentials = json!({"secretName": "late", "cloudName": "orchard"});
    let spec = json!({"resource": {}, "cloudCredentialsRef": credentials});
    site.create("Role", "reader", spec).await.unwrap();
    site.said("Role", "reader", "Progressing", "True", "Progressing", "Waiting for Secret/late to be created").await;
    site.secret("late", "other", "x").await;
    let lacks = "Secret/late has no key clouds.yaml";
    site.said("Role", "reader", "Progressing", "True", "TransientError", lacks).await;
    site.secret("late", "clouds.yaml", "clouds: {elsewhere: {}}").await;
    let missing = "Secret/late: clouds.orchard is missing";
    site.said("Role", "reader", "Progressing", "True", "TransientError", missing).await;
    site.secret("late", "clouds.yaml", &site.keystone.clouds("wrong-sesame")).await;
    let refused = "the credential is not accepted";
    site.said("Role", "reader", "Progressing", "True", "TransientError", refused).await;
    site.said("Role", "reader", "Available", "False", "TransientError", refused).await;
    site.secret("late", "clouds.yaml", &site.keystone.clouds(PASSWORD)).await;
    site.done("Role", "reader").await;
}

#[tokio::test]
async fn a_keystone_that_is_down_is_a_transient_error_and_what_is_there_becomes_unknown() {
    let site = Site::open().await;
    site.create("Role", "reader", json!({"resource": {}, "resyncPeriod": "50ms"})).await.unwrap();
    let id = site.done("Role", "reader").await["id"].clone();
    site.keystone.fail("GET /roles", 500, usize::MAX);
    let down = "the service is unavailable: GET /v3/roles";
    site.said("Role", "reader", "Progressing", "True", "TransientError", down).await;
    site.said("Role", "reader", "Available", "Unknown", "TransientError", down).await;
    assert_eq!(site.status("Role", "reader").await["id"], id);
    site.keystone.heal();
    assert_eq!(site.done("Role", "reader").await["id"], id);
    assert_eq!(site.keystone.count("POST /roles"), 1);
}

#[tokio::test]
async fn a_list_that_fails_is_an_error_and_nothing_is_created() {
    let site = Site::open().await;
    site.keystone.fail("GET /roles", 403, usize::MAX);
    site.managed("Role", "reader", json!({})).await;
    let refused = "the call is forbidden for this credential: GET /v3/roles";
    site.said("Role", "reader", "Progressing", "True", "TransientError", refused).await;
    site.import("Role", "other", json!({"filter": {"name": "other"}})).await;
    site.said("Role", "other", "Progressing", "True", "TransientError", refused).await;
    assert_eq!(site.keystone.count("POST /roles"), 0);
    site.keystone.heal();
    site.done("Role", "reader").await;
}

#[tokio::test]
async fn a_conflict_is_terminal_until_the_spec_changes_and_other_errors_are_tried_again() {
    let site = Site::open().await;
    site.keystone.fail("POST /roles", 409, 1);
    site.managed("Role", "reader", json!({})).await;
    let conflict = "invalid configuration creating resource: conflict: POST /v3/roles: Keystone is told to fail.";
    site.said("Role", "reader", "Progressing", "False", "InvalidConfiguration", conflict).await;
    site.said("Role", "reader", "Available", "False", "InvalidConfiguration", conflict).await;
    site.keystone.fail("POST /roles", 500, 2);
    site.managed("Role", "writer", json!({})).await;
    site.done("Role", "writer").await;
    assert!(site.keystone.all("roles").iter().all(|role| role["name"] != "reader"), "it is not tried again by time");
    site.patch("Role", "reader", json!({"spec": {"resource": {"description": "reads"}}})).await.unwrap();
    site.done("Role", "reader").await;
    site.keystone.fail("PATCH /roles", 409, 1);
    site.patch("Role", "reader", json!({"spec": {"resource": {"name": "writer"}}})).await.unwrap();
    let conflict = "invalid configuration updating resource: conflict: PATCH /v3/roles";
    site.said("Role", "reader", "Progressing", "False", "InvalidConfiguration", conflict).await;
    site.said("Role", "reader", "Available", "True", "Success", "OpenStack resource is available").await;
}

#[tokio::test]
async fn a_create_whose_answer_was_lost_is_adopted() {
    let site = Site::open().await;
    let kinds =
        [("Domain", "domains"), ("Project", "projects"), ("Role", "roles"), ("Group", "groups"), ("User", "users")];
    for (kind, plural) in kinds {
        site.keystone.lose(&format!("POST /{plural}"), 500);
        site.managed(kind, "pear", json!({})).await;
        site.done(kind, "pear").await;
        assert_eq!(
            (site.keystone.all(plural).len(), site.keystone.count(&format!("POST /{plural}"))),
            (1, 1),
            "{kind}"
        );
    }
    site.keystone.lose("POST /services", 500);
    site.managed("Service", "shop", json!({"type": "shop"})).await;
    site.done("Service", "shop").await;
    site.keystone.lose("POST /endpoints", 500);
    site.managed("Endpoint", "gate", json!({"serviceRef": "shop", "interface": "public", "url": "http://a"})).await;
    site.done("Endpoint", "gate").await;
    assert_eq!((site.keystone.all("services").len(), site.keystone.all("endpoints").len()), (1, 1));
}

#[tokio::test]
async fn several_resources_that_could_be_adopted_are_terminal() {
    let site = Site::open().await;
    for id in ["f1", "f2"] {
        site.keystone.put("services", json!({"id": id, "name": "shop", "type": "shop", "enabled": true}));
    }
    site.managed("Service", "shop", json!({"type": "shop"})).await;
    let message = "found more than one matching OpenStack resource during adoption";
    site.said("Service", "shop", "Progressing", "False", "InvalidConfiguration", message).await;
}

#[tokio::test]
async fn an_operator_that_is_killed_while_it_creates_leaves_one_resource() {
    let mut site = Site::open().await;
    site.managed("Role", "first", json!({})).await;
    site.done("Role", "first").await;
    for number in 0..10 {
        site.managed("Role", &format!("r{number}"), json!({})).await;
    }
    while site.keystone.count("POST /roles") < 4 {
        tokio::task::yield_now().await;
    }
    site.kill().await;
    site.restart();
    for number in 0..10 {
        site.done("Role", &format!("r{number}")).await;
    }
    assert_eq!(site.keystone.all("roles").len(), 11);
}

#[tokio::test]
async fn a_resync_period_that_is_no_duration_is_an_invalid_configuration() {
    let site = Site::open().await;
    site.create("Role", "reader", json!({"resource": {}, "resyncPeriod": "often"})).await.unwrap();
    site.said("Role", "reader", "Progressing", "False", "InvalidConfiguration", "spec.resyncPeriod").await;
}
