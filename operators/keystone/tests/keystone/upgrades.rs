//! From one version to the next, and back while there is a way.

use serde_json::{Value, json};

use crate::world::{World, keystone, world};

/// A Keystone of a tag, and how far it is.
fn at(tag: &str, status: &Value) -> Value {
    let mut object = keystone(&json!({"image": {"repository": "ghcr.io/c5c3/keystone", "tag": tag}}));
    object["status"] = status.clone();
    object["status"]["conditions"] = json!([]);
    object
}

/// The Deployment with all pods on a tag.
fn rolled(tag: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "gate-api", "namespace": "cloud", "generation": 1},
           "spec": {"replicas": 3, "template": {"spec": {"containers": [{"image": format!("ghcr.io/c5c3/keystone:{tag}")}]}}},
           "status": {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3}})
}

fn jobs(world: &World, object: &Value) -> Vec<String> {
    let plan = world.plan(object).unwrap();
    let jobs = plan.children().filter(|child| child.resource.kind == "Job").map(|child| child.reference().name);
    jobs.map(|name| name.rsplit_once('-').unwrap().0.to_owned()).collect()
}

fn status(world: &World, object: &Value) -> Value {
    let plan = world.plan(object).unwrap();
    let wanted = ["installedRelease", "targetRelease", "upgradePhase"];
    wanted
        .iter()
        .filter_map(|field| Some(((*field).to_owned(), plan.status.get(*field)?.clone())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[test]
fn a_new_keystone_is_synchronised_at_once_and_remembers_its_version() {
    let fresh = at("28.0.0", &json!({}));
    assert_eq!(jobs(&world(), &fresh), ["gate-db-sync", "gate-bootstrap"]);
    assert_eq!(status(&world(), &fresh), json!({}));
    let world = world().with(rolled("28.0.0"));
    assert_eq!(status(&world, &fresh), json!({"installedRelease": "28.0.0"}));
}

#[test]
fn an_upgrade_expands_then_rolls_then_contracts() {
    let upgrading = json!({"installedRelease": "27.0.0", "targetRelease": "28.0.0", "upgradePhase": "Expanding"});
    let world = world().with(rolled("27.0.0"));
    let begun = at("28.0.0", &json!({"installedRelease": "27.0.0"}));
    assert_eq!(jobs(&world, &begun), ["gate-db-expand", "gate-bootstrap"]);
    assert_eq!(status(&world, &begun), upgrading);

    let world = crate::world::world().with(rolled("28.0.0"));
    let mut contracting = upgrading.clone();
    contracting["upgradePhase"] = "Contracting".into();
    assert_eq!(
        jobs(&world, &at("28.0.0", &upgrading)),
        ["gate-db-expand", "gate-bootstrap"],
        "first it is written down"
    );
    assert_eq!(status(&world, &at("28.0.0", &upgrading)), contracting);
    let last = at("28.0.0", &contracting);
    assert_eq!(jobs(&world, &last), ["gate-db-expand", "gate-bootstrap", "gate-db-contract"]);

    let plan = world.plan(&last).unwrap();
    let job = plan.children().find(|child| child.reference().name.contains("contract")).unwrap();
    let done = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job.reference().name, "namespace": "cloud"},
                      "status": {"conditions": [{"type": "Complete", "status": "True"}]}});
    assert_eq!(status(&world.with(done), &last), json!({"installedRelease": "28.0.0"}));
}

#[test]
fn the_old_tag_is_a_way_back_until_the_schema_is_contracted() {
    let world = world().with(rolled("28.0.0"));
    let expanding = json!({"installedRelease": "27.0.0", "targetRelease": "28.0.0", "upgradePhase": "Expanding"});
    assert_eq!(jobs(&world, &at("27.0.0", &expanding)), ["gate-db-sync", "gate-bootstrap"]);
    let contracting = json!({"installedRelease": "27.0.0", "targetRelease": "28.0.0", "upgradePhase": "Contracting"});
    assert!(world.plan(&at("27.0.0", &contracting)).unwrap_err().contains("cannot change to 27.0.0"));
}

#[test]
fn releases_are_not_skipped() {
    let refused = world().plan(&at("28.0.0", &json!({"installedRelease": "26.0.0"}))).unwrap_err();
    assert!(refused.contains("upgrade to 27.x (2025.1) first"), "{refused}");
}
