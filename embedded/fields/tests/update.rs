//! Creates, updates and patches: what they own and what they take from others.
#![allow(clippy::needless_pass_by_value, reason = "the small functions take JSON literals")]
#![allow(clippy::unwrap_used, reason = "the small functions fail the test that calls them")]

mod fixtures;

use c5c3_fields::{Shape, Writer, settle, track_update};
use fixtures::*;
use serde_json::{Value, json};

fn create(object: Value, manager: &str) -> Value {
    stored(track_update(&deployment(), None, object, &by(manager)))
}

#[test]
fn a_create_owns_every_field_and_the_objects_around_them() {
    let object = create(with_containers(json!([{"name": "api", "image": "api:1"}])), "curl");
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([{
            "manager": "curl", "operation": "Update", "apiVersion": "apps/v1", "time": EARLY, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {".": {}, "f:template": {".": {}, "f:spec": {".": {}, "f:containers": {
                ".": {}, "k:{\"name\":\"api\"}": {".": {}, "f:image": {}, "f:name": {}},
            }}}}},
        }])
    );
}

#[test]
fn a_create_of_a_built_in_kind_compares_with_an_empty_object_of_the_type() {
    let empty = json!({"metadata": {}, "spec": {"template": {"metadata": {}, "spec": {}}}, "status": {}});
    let mut new = web(json!({"replicas": 1, "template": {"spec": {"serviceAccountName": "web"}}}));
    new["metadata"]["labels"] = json!({"app": "web"});
    let object = track_update(&deployment(), Some(&empty), new, &by("kubectl-create"));
    assert_eq!(
        object["metadata"]["managedFields"][0]["fieldsV1"],
        json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:serviceAccountName": {}}}},
        })
    );
}

#[test]
fn an_update_takes_changed_fields_and_leaves_the_rest_with_their_owners() {
    let live = create(web(json!({"replicas": 3, "paused": true})), "curl");
    let live = updated(&live, "scaler", |object| object["spec"]["replicas"] = json!(5));
    assert_eq!(owned(&live, "curl"), ".spec\n.spec.paused");
    assert_eq!(owned(&live, "scaler"), ".spec.replicas");
}

#[test]
fn a_removed_field_is_nobodys() {
    let live = create(web(json!({"replicas": 3, "paused": true})), "curl");
    let live = updated(&live, "curl", |object| drop(object["spec"].as_object_mut().unwrap().remove("paused")));
    assert_eq!(owned(&live, "curl"), ".spec\n.spec.replicas");
    assert_eq!(live["metadata"]["managedFields"][0]["time"], EARLY, "removing owns nothing new");
}

#[test]
fn an_update_that_changes_nothing_changes_nothing() {
    let live = create(web(json!({"replicas": 3})), "curl");
    let again = updated(&live, "someone-else", |_| {});
    assert_eq!(again, live);
}

#[test]
fn an_update_after_an_apply_takes_the_field_without_conflict() {
    let live = created("ci", &web(json!({"replicas": 3, "paused": true})));
    let live = updated(&live, "scaler", |object| object["spec"]["replicas"] = json!(5));
    assert_eq!(owned(&live, "ci"), ".spec.paused");
    assert_eq!(owners(&live), ["ci/Apply", "scaler/Update"]);
}

#[test]
fn the_same_manager_applies_and_updates_as_two_owners() {
    let live = created("ci", &web(json!({"replicas": 3})));
    let live = updated(&live, "ci", |object| object["spec"]["paused"] = json!(true));
    assert_eq!(owners(&live), ["ci/Apply", "ci/Update"]);
}

#[test]
fn updates_of_one_manager_share_an_entry() {
    let live = create(web(json!({"replicas": 3})), "curl");
    let live = updated(&live, "curl", |object| object["spec"]["paused"] = json!(true));
    assert_eq!(owners(&live), ["curl/Update"]);
    assert_eq!(owned(&live, "curl"), ".spec\n.spec.paused\n.spec.replicas");
    assert_eq!(live["metadata"]["managedFields"][0]["time"], LATER);
}

#[test]
fn entries_are_sorted_by_operation_time_and_name() {
    let live = created("zoe", &web(json!({"replicas": 3})));
    let live = updated(&live, "bob", |object| object["spec"]["paused"] = json!(true));
    let live = applied(&live, "amy", &web(json!({"selector": {"matchLabels": {"a": "b"}}})));
    assert_eq!(owners(&live), ["zoe/Apply", "amy/Apply", "bob/Update"]);
}

#[test]
fn who_and_what_an_object_is_has_no_owner() {
    let mut object = web(json!({}));
    object["metadata"]["uid"] = json!("x");
    object["metadata"]["generation"] = json!(1);
    object["metadata"]["resourceVersion"] = json!("5");
    object["metadata"]["generateName"] = json!("web-");
    let object = track_update(&deployment(), None, object, &by("curl"));
    assert_eq!(owned(&object, "curl"), ".spec\n.metadata.generateName");
}

#[test]
fn the_eleventh_updater_merges_the_two_oldest() {
    let mut live = create(web(json!({"replicas": 0})), "u00");
    for i in 1..=10 {
        let name = format!("u{i:02}");
        let now = format!("2026-01-31T12:{i:02}:00Z");
        let mut new = live.clone();
        new["metadata"]["labels"][&name] = json!("x");
        live = track_update(&deployment(), Some(&live), new, &Writer { now: &now, ..by(&name) });
    }
    assert_eq!(live["metadata"]["managedFields"].as_array().unwrap().len(), 10);
    assert_eq!(owners(&live)[0], "ancient-changes/Update");
    assert_eq!(owned(&live, "ancient-changes"), ".spec\n.metadata.labels\n.metadata.labels.u01\n.spec.replicas");
    let mut new = live.clone();
    new["metadata"]["labels"]["u11"] = json!("x");
    let now = "2026-01-31T12:11:00Z";
    live = track_update(&deployment(), Some(&live), new, &Writer { now, ..by("u11") });
    assert_eq!(live["metadata"]["managedFields"].as_array().unwrap().len(), 10);
    assert!(owned(&live, "ancient-changes").contains(".metadata.labels.u02"));
}

#[test]
fn a_client_that_leaves_managed_fields_out_does_not_delete_them() {
    let live = create(web(json!({"replicas": 3})), "curl");
    let again = updated(&live, "old-client", |object| {
        object["metadata"].as_object_mut().unwrap().remove("managedFields");
    });
    assert_eq!(again, live);
}

#[test]
fn an_empty_list_or_entry_resets_ownership_until_the_next_apply() {
    let live = create(web(json!({"replicas": 3})), "curl");
    for reset in [json!([]), json!([{}])] {
        let live = updated(&live, "curl", |object| object["metadata"]["managedFields"] = reset);
        assert_eq!(live["metadata"].get("managedFields"), None);
        let live = updated(&live, "curl", |object| object["spec"]["replicas"] = json!(4));
        assert_eq!(live["metadata"].get("managedFields"), None, "not tracked");
        let live = applied(&live, "ci", &web(json!({"replicas": 4})));
        assert_eq!(owners(&live), ["ci/Apply", "before-first-apply/Update"]);
    }
}

#[test]
fn readable_managed_fields_are_taken_and_unreadable_ones_ignored() {
    let live = create(web(json!({"replicas": 3})), "curl");
    let renamed = updated(&live, "curl", |object| {
        object["metadata"]["managedFields"][0]["manager"] = json!("renamed");
    });
    assert_eq!(owners(&renamed), ["renamed/Update"]);
    for broken in [
        json!([{"manager": "x", "operation": "Steal", "apiVersion": "apps/v1", "fieldsType": "FieldsV1"}]),
        json!([{"manager": "x", "operation": "Update", "fieldsType": "FieldsV1"}]),
        json!([{"manager": "x", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV9"}]),
        json!([{"manager": "x", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"k:not json": {}}}]),
        json!("text"),
    ] {
        let kept = updated(&live, "curl", |object| object["metadata"]["managedFields"] = broken);
        assert_eq!(kept, live);
    }
}

#[test]
fn a_subresource_cannot_set_managed_fields() {
    let live = create(web(json!({"replicas": 3})), "curl");
    let mut new = live.clone();
    new["metadata"]["managedFields"] = json!([]);
    new["status"] = json!({"replicas": 3});
    let new = track_update(&deployment(), Some(&live), new, &status_by("controller"));
    assert_eq!(owners(&new), ["controller/Update", "curl/Update"]);
    assert_eq!(owned(&new, "controller"), ".status\n.status.replicas");
}

#[test]
fn the_main_endpoint_does_not_own_status_nor_status_the_rest() {
    let mut object = web(json!({"replicas": 3}));
    object["status"] = json!({"replicas": 1});
    let live = create(object, "curl");
    assert_eq!(owned(&live, "curl"), ".spec\n.spec.replicas");
    let mut new = live.clone();
    new["status"]["replicas"] = json!(3);
    new["metadata"]["labels"] = json!({"a": "b"});
    let new = track_update(&deployment(), Some(&live), new, &status_by("controller"));
    assert_eq!(owned(&new, "controller"), ".status.replicas");
}

#[test]
fn items_that_share_a_key_are_one_value() {
    let live = create(web(json!({"replicas": 1})), "curl");
    let env = |items: Value| {
        let containers = json!([{"name": "api", "env": items}]);
        move |object: &mut Value| object["spec"]["template"] = json!({"spec": {"containers": containers}})
    };
    let twice = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    let live = updated(&live, "sloppy", env(twice.clone()));
    let item = ".spec.template.spec.containers[name=\"api\"].env[name=\"A\"]";
    assert!(owned(&live, "sloppy").lines().any(|line| line == item));
    assert!(!owned(&live, "sloppy").contains(&format!("{item}.value")));
    let live = updated(&live, "fixer", env(json!([{"name": "A", "value": "2"}])));
    assert!(!owned(&live, "sloppy").lines().any(|line| line == item));
    assert!(owned(&live, "fixer").contains(&format!("{item}.value")));
}

#[test]
fn a_value_that_becomes_an_object_changes_hands_with_what_is_in_it() {
    let shape = Shape::deduced();
    let writer = |manager| Writer { scope: c5c3_fields::Scope::Everything, ..by(manager) };
    let object =
        |x: Value| json!({"apiVersion": "apps/v1", "kind": "X", "metadata": {"name": "x", "uid": "1"}, "x": x});
    let live = track_update(&shape, None, object(json!("text")), &writer("one"));
    let mut new = object(json!({"a": 1}));
    new["metadata"]["managedFields"] = live["metadata"]["managedFields"].clone();
    let live = track_update(&shape, Some(&live), new, &writer("two"));
    assert_eq!((owned(&live, "one").as_str(), owned(&live, "two").as_str()), ("", ".x\n.x.a"));
}

#[test]
fn a_write_that_defaults_undo_leaves_no_trace() {
    let live = create(web(json!({"replicas": 3})), "curl");
    let mut new = live.clone();
    new["metadata"]["managedFields"][0]["time"] = json!(LATER);
    assert_eq!(settle(&live, new.clone()), live);
    new["spec"]["replicas"] = json!(4);
    assert_eq!(settle(&live, new.clone()), new);
}

#[test]
fn an_object_without_metadata_is_not_tracked() {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {}});
    assert_eq!(track_update(&Shape::deduced(), None, review.clone(), &by("curl")), review);
}
