//! Services that are switched off while their cloud stays: the order in which they leave Keystone, and that nothing else changes.
//! The test plays the operators of the services.

use std::collections::BTreeMap;

use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::identity::Cloud;
use crate::stage::with_deep_stack;

/// A cloud whose data stays, with these services beside Keystone.
#[expect(clippy::needless_pass_by_value, reason = "a test writes it down where it is used")]
fn with(cloud: &Cloud, services: Value) -> Value {
    let mut spec = cloud.spec();
    spec["deletionPolicy"] = "Retain".into();
    let all = spec["services"].as_object_mut().unwrap();
    all.remove("placement");
    all.extend(services.as_object().cloned().unwrap());
    spec
}

/// Starts a cloud with these services, and waits until it is ready.
async fn ready(services: &[&str]) -> Cloud {
    let cloud = Cloud::open().await;
    let (stage, home) = (&cloud.stage, cloud.home());
    cloud.start_with(&with(&cloud, services.iter().map(|name| ((*name).to_owned(), json!({}))).collect())).await;
    for name in services {
        let kind = name[..1].to_uppercase() + &name[1..];
        stage.is_ready(home, &format!("{kind}/{name}")).await;
    }
    stage.until_reason(home, "Ready", "AllServicesReady").await;
    cloud
}

/// Holds a service's object when it is deleted, as its operator does while pods run; or lets it go.
async fn hold(cloud: &Cloud, kind: &str, name: &str, finalizers: Value) {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    cloud.stage.api(cloud.home(), kind).patch(name, &PatchParams::default(), &patch).await.unwrap();
}

/// The ids in Keystone of a service and of its user.
fn ids(cloud: &Cloud, service: &str) -> [Value; 2] {
    ["services", "users"].map(|kind| {
        let found = cloud.keystone.all(kind).into_iter().find(|one| one["name"] == service);
        found.unwrap_or_else(|| panic!("{kind} has no {service}"))["id"].clone()
    })
}

/// Everything in Keystone that does not belong to a service with these ids.
fn others_in_keystone(cloud: &Cloud, service: &str, [entry, user]: &[Value; 2]) -> BTreeMap<&'static str, Vec<Value>> {
    let kinds = ["services", "endpoints", "users", "application_credentials", "role_assignments", "projects", "roles"];
    let is_its = |one: &Value| {
        let is_named = one["name"].as_str().is_some_and(|name| name.starts_with(service));
        is_named || one["service_id"] == *entry || one["user"]["id"] == *user
    };
    kinds.map(|kind| (kind, cloud.keystone.all(kind).into_iter().filter(|one| !is_its(one)).collect())).into()
}

/// All objects that do not belong to one service: what they are, and their generation.
async fn other_objects(cloud: &Cloud, service: &str) -> BTreeMap<String, (Option<String>, Option<i64>)> {
    let kinds =
        ["Glance", "Placement", "Endpoint", "User", "RoleAssignment", "ApplicationCredential", "Project", "Role"];
    let mut found = BTreeMap::new();
    for kind in kinds.into_iter().chain(["CredentialRotation", "Keystone", "MariaDB"]) {
        for object in cloud.stage.api(cloud.home(), kind).list(&ListParams::default()).await.unwrap().items {
            let name = object.metadata.name.unwrap();
            if !name.starts_with(service) {
                assert_eq!(object.metadata.deletion_timestamp, None, "{kind} {name} is being deleted");
                found.insert(format!("{kind}/{name}"), (object.metadata.uid, object.metadata.generation));
            }
        }
    }
    found
}

/// What calls delete, in their order and each kind once in a row. Roles are left out: they are no link of the chain.
fn deleted(calls: &[String]) -> Vec<&str> {
    let kind = |call: &'_ String| {
        let path = call.strip_prefix("DELETE /").unwrap_or_else(|| panic!("{call} changes what stays"));
        ["roles", "application_credentials", "endpoints", "services", "users"]
            .into_iter()
            .find(|kind| path.contains(kind))
    };
    let mut kinds: Vec<&str> = calls.iter().filter_map(kind).filter(|kind| *kind != "roles").collect();
    kinds.dedup();
    kinds
}

#[test]
fn a_service_leaves_the_catalog_first_then_its_credential_goes_and_its_user_last_and_nothing_else_changes() {
    with_deep_stack(async {
        let cloud = ready(&["glance", "placement"]).await;
        let (stage, home, keystone) = (&cloud.stage, cloud.home(), &cloud.keystone);
        let ids = ids(&cloud, "placement");
        let (others, objects) =
            (others_in_keystone(&cloud, "placement", &ids), other_objects(&cloud, "placement").await);
        let before = keystone.changes().len();
        hold(&cloud, "Placement", "placement", json!(["someone.example.org/hold"])).await;
        stage.apply(home, &with(&cloud, json!({"glance": {}, "placement": {"enabled": false}}))).await;
        stage
            .until("it is in the catalog no more", async || {
                keystone.all("endpoints").len() == 2 && keystone.all("services").len() == 1
            })
            .await;
        stage.until_reason(home, "CredentialsReady", "WaitingForPlacement").await;
        let message = stage.condition(home, "CredentialsReady").await["message"].as_str().unwrap().to_owned();
        assert!(message.contains("placement/placement is still being deleted"), "{message}");
        assert!(message.contains("its pods sign in to Keystone until then"), "{message}");
        assert_eq!(deleted(&keystone.changes()[before..]), ["endpoints", "services"], "its pods still sign in");
        assert!(stage.get(home, "Secret/placement-keystone-credentials").await.is_some());

        hold(&cloud, "Placement", "placement", Value::Null).await;
        for left in [
            "User/placement-service-user",
            "Secret/placement-service-password",
            "Secret/placement-keystone-credentials",
        ] {
            stage.until_gone(home, left).await;
        }
        assert_eq!(cloud.users(), ["glance", "k-orc"]);
        let order = ["endpoints", "services", "application_credentials", "users"];
        assert_eq!(deleted(&keystone.changes()[before..]), order);
        stage.until_reason(home, "Ready", "AllServicesReady").await;
        assert_eq!(others_in_keystone(&cloud, "placement", &ids), others);
        assert_eq!(other_objects(&cloud, "placement").await, objects);
    });
}

#[test]
fn the_last_service_leaves_when_it_is_said_that_keystone_is_kept_in_order_all_the_same() {
    with_deep_stack(async {
        let cloud = ready(&["placement"]).await;
        let (stage, home, keystone) = (&cloud.stage, cloud.home(), &cloud.keystone);
        let before = keystone.changes().len();
        // K-ORC's kinds are on by default for as long as there is a second service.
        let mut alone = with(&cloud, json!({}));
        stage.apply(home, &alone).await;
        stage.until_reason(home, "Ready", "InvalidSpec").await;
        let message = stage.condition(home, "Ready").await["message"].as_str().unwrap().to_owned();
        assert!(message.contains("spec.korc.enabled") && message.contains("set it to true"), "{message}");
        for stays in ["Placement/placement", "User/placement-service-user", "Endpoint/placement-public"] {
            assert_eq!(stage.get(home, stays).await.unwrap().metadata.deletion_timestamp, None, "{stays}");
        }

        alone["korc"] = json!({"enabled": true});
        stage.apply(home, &alone).await;
        stage.until_gone(home, "User/placement-service-user").await;
        assert_eq!(cloud.users(), ["k-orc"]);
        let order = ["endpoints", "services", "application_credentials", "users"];
        assert_eq!(deleted(&keystone.changes()[before..]), order);
        assert_eq!(keystone.all("application_credentials").len(), 1, "that of K-ORC");
        stage.until_reason(home, "Ready", "AllServicesReady").await;
        assert!(stage.get(home, "CredentialRotation/k-orc-rotation").await.is_some());
    });
}
