//! Server-side apply: merging, owning, sharing, giving up, conflicts.

mod fixtures;

use c5c3_fields::{ApplyError, Shape, Writer, apply, settle, track_update};
use fixtures::*;
use serde_json::{Value, json};

#[test]
fn the_first_apply_creates_the_object_and_owns_what_it_says() {
    let config = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {"containers": [
            {"name": "api", "image": "api:1", "ports": [{"containerPort": 80}], "args": ["-v"]},
        ]}}},
    });
    let object = apply(&deployment(), None, &config, &by("kubectl"), false).unwrap();
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([{
            "manager": "kubectl", "operation": "Apply", "apiVersion": "apps/v1", "time": EARLY,
            "fieldsType": "FieldsV1", "fieldsV1": {
                "f:metadata": {"f:labels": {"f:app": {}}},
                "f:spec": {
                    "f:replicas": {}, "f:selector": {},
                    "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"api\"}": {
                        ".": {}, "f:args": {}, "f:image": {}, "f:name": {},
                        "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
                    }}}},
                },
            },
        }])
    );
}

#[test]
fn a_second_apply_of_the_same_configuration_changes_not_a_byte() {
    let config = with_containers(json!([{"name": "api", "image": "api:1", "env": [{"name": "A", "value": "1"}]}]));
    let live = created("ci", &config);
    assert_eq!(applied(&live, "ci", &config).to_string(), live.to_string());
}

#[test]
fn what_generators_leave_behind_is_no_change() {
    let mut config = web(json!({"replicas": 3}));
    let live = created("ci", &config);
    config["metadata"]["creationTimestamp"] = json!(null);
    assert_eq!(applied(&live, "ci", &config), live);

    config["status"] = json!({});
    let mut object = applied(&live, "ci", &config);
    object.as_object_mut().unwrap().remove("status");
    assert_eq!(settle(&live, object), live, "the server resets status, and nothing is left to store");
}

#[test]
fn a_change_moves_the_time_and_only_of_the_manager_that_made_it() {
    let live = created("ci", &web(json!({"replicas": 3})));
    let live = applied(&live, "other", &web(json!({"paused": true})));
    let live = forced(&live, "ci", &web(json!({"replicas": 4})));
    let times: Vec<_> = live["metadata"]["managedFields"].as_array().unwrap().iter().map(|e| &e["time"]).collect();
    assert_eq!(times, [LATER, LATER]);
    assert_eq!(live["spec"], json!({"replicas": 4, "paused": true}));
}

#[test]
fn a_field_left_out_of_the_next_configuration_is_removed() {
    let live = created("ci", &web(json!({"replicas": 3, "paused": true})));
    let live = applied(&live, "ci", &web(json!({"replicas": 3})));
    assert_eq!(live["spec"], json!({"replicas": 3}));
    assert_eq!(owned(&live, "ci"), ".spec.replicas");
}

#[test]
fn a_field_that_another_manager_owns_too_survives_being_left_out() {
    let live = created("ci", &web(json!({"replicas": 3, "paused": true})));
    let live = applied(&live, "ops", &web(json!({"paused": true})));
    let live = applied(&live, "ci", &web(json!({"replicas": 3})));
    assert_eq!(live["spec"], json!({"replicas": 3, "paused": true}));
    assert_eq!(owned(&live, "ci"), ".spec.replicas");
    assert_eq!(owned(&live, "ops"), ".spec.paused");
}

#[test]
fn a_field_that_an_updater_set_survives_being_left_out() {
    let live = created("ci", &web(json!({"replicas": 3, "paused": true})));
    let live = updated(&live, "scaler", |object| object["spec"]["replicas"] = json!(5));
    let live = applied(&live, "ci", &web(json!({"paused": true})));
    assert_eq!(live["spec"], json!({"replicas": 5, "paused": true}));
}

#[test]
fn fields_that_nobody_owns_are_left_alone() {
    let mut live = created("ci", &with_containers(json!([{"name": "api", "image": "api:1"}])));
    live["spec"]["template"]["spec"]["containers"][0]["terminationMessagePath"] = json!("/dev/termination-log");
    let live = applied(&live, "ci", &with_containers(json!([{"name": "api", "image": "api:2"}])));
    assert_eq!(
        live["spec"]["template"]["spec"]["containers"],
        json!([{"name": "api", "image": "api:2", "terminationMessagePath": "/dev/termination-log"}])
    );
}

#[test]
fn the_same_value_from_two_managers_is_shared_without_conflict() {
    let live = created("ci", &web(json!({"replicas": 3})));
    let live = applied(&live, "ops", &web(json!({"replicas": 3})));
    assert_eq!(owned(&live, "ci"), ".spec.replicas");
    assert_eq!(owned(&live, "ops"), ".spec.replicas");
    assert_eq!(owners(&live), ["ci/Apply", "ops/Apply"]);
}

#[test]
fn another_value_for_an_applied_field_is_a_conflict() {
    let live = created("ci", &web(json!({"replicas": 3})));
    let refused = try_apply(&live, "ops", &web(json!({"replicas": 5}))).unwrap_err();
    assert_eq!(refused.to_string(), "Apply failed with 1 conflict: conflict with \"ci\": .spec.replicas");
    assert_eq!(
        refused.status(),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Conflict", "code": 409,
            "message": "Apply failed with 1 conflict: conflict with \"ci\": .spec.replicas",
            "details": {"causes": [{
                "reason": "FieldManagerConflict", "message": "conflict with \"ci\"", "field": ".spec.replicas",
            }]},
        })
    );
}

#[test]
fn conflicts_are_grouped_by_owner_and_name_the_version_of_updaters() {
    let live = created("ci", &with_containers(json!([{"name": "api", "image": "api:1"}])));
    let live = updated(&live, "kubectl-edit", |object| {
        object["spec"]["replicas"] = json!(2);
        object["spec"]["paused"] = json!(true);
    });
    let mut config = with_containers(json!([{"name": "api", "image": "api:9"}]));
    config["spec"]["replicas"] = json!(7);
    config["spec"]["paused"] = json!(false);
    assert_eq!(
        try_apply(&live, "ops", &config).unwrap_err().to_string(),
        "Apply failed with 3 conflicts: conflicts with \"ci\":\n\
         - .spec.template.spec.containers[name=\"api\"].image\n\
         conflicts with \"kubectl-edit\" using apps/v1:\n\
         - .spec.paused\n\
         - .spec.replicas"
    );
}

#[test]
fn force_takes_the_field_from_its_owner() {
    let live = created("ci", &web(json!({"replicas": 3, "paused": true})));
    let live = forced(&live, "ops", &web(json!({"replicas": 5})));
    assert_eq!(live["spec"]["replicas"], 5);
    assert_eq!(owned(&live, "ci"), ".spec.paused");
    assert_eq!(owned(&live, "ops"), ".spec.replicas");
}

#[test]
fn a_manager_that_lost_everything_is_dropped() {
    let live = created("ci", &web(json!({"replicas": 3})));
    let live = forced(&live, "ops", &web(json!({"replicas": 5})));
    assert_eq!(owners(&live), ["ops/Apply"]);
}

#[test]
fn applying_nothing_gives_up_everything() {
    let live = created("ci", &web(json!({"replicas": 3})));
    let live = applied(&live, "ops", &web(json!({"paused": true})));
    let nothing =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}});
    let live = applied(&live, "ci", &nothing);
    assert_eq!(live["spec"], json!({"paused": true}));
    assert_eq!(owners(&live), ["ops/Apply"]);
}

#[test]
fn list_map_items_merge_by_key_and_leave_with_their_owner() {
    let live = created("ci", &with_containers(json!([{"name": "api", "image": "api:1"}])));
    let sidecar = with_containers(json!([{"name": "proxy", "image": "proxy:1"}]));
    let live = applied(&live, "mesh", &sidecar);
    assert_eq!(
        live["spec"]["template"]["spec"]["containers"],
        json!([{"name": "api", "image": "api:1"}, {"name": "proxy", "image": "proxy:1"}])
    );
    let live = applied(&live, "ci", &with_containers(json!([{"name": "web", "image": "web:1"}])));
    assert_eq!(
        live["spec"]["template"]["spec"]["containers"],
        json!([{"name": "proxy", "image": "proxy:1"}, {"name": "web", "image": "web:1"}])
    );
}

#[test]
fn items_take_the_order_of_the_configuration_and_others_keep_their_place() {
    let names = |object: &Value| -> Vec<String> {
        let containers = object["spec"]["template"]["spec"]["containers"].as_array().unwrap();
        containers.iter().map(|c| c["name"].as_str().unwrap().to_owned()).collect()
    };
    let list =
        |names: &[&str]| with_containers(names.iter().map(|name| json!({"name": name, "image": "same"})).collect());
    let live = created("ci", &list(&["a", "b", "c"]));
    let live = applied(&live, "mesh", &list(&["x"]));
    assert_eq!(names(&live), ["a", "b", "c", "x"]);
    let live = applied(&live, "ci", &list(&["c", "a", "b"]));
    assert_eq!(names(&live), ["c", "x", "a", "b"], "x came after c");
    let live = applied(&live, "ci", &list(&["c", "new", "b"]));
    assert_eq!(names(&live), ["c", "x", "new", "b"]);
}

#[test]
fn a_key_with_a_default_may_be_left_out() {
    let ports = |ports: Value| with_containers(json!([{"name": "api", "ports": ports}]));
    let live = created("ci", &ports(json!([{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}])));
    let same = ports(json!([{"containerPort": 53, "protocol": "TCP"}]));
    let live = applied(&live, "ci", &same);
    assert_eq!(
        live["spec"]["template"]["spec"]["containers"][0]["ports"],
        json!([{"containerPort": 53, "protocol": "TCP"}])
    );
}

#[test]
fn sets_are_owned_item_by_item() {
    let finalizers = |finalizers: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "finalizers": finalizers}});
    let live = created("ci", &finalizers(json!(["ci/keep", "shared/lock"])));
    let live = applied(&live, "ops", &finalizers(json!(["ops/drain", "shared/lock"])));
    assert_eq!(owned(&live, "ops"), ".metadata.finalizers[=\"ops/drain\"]\n.metadata.finalizers[=\"shared/lock\"]");
    let live = applied(&live, "ci", &finalizers(json!([])));
    assert_eq!(live["metadata"]["finalizers"], json!(["ops/drain", "shared/lock"]));
}

#[test]
fn atomic_lists_and_objects_are_owned_and_replaced_as_a_whole() {
    let pod = |selector: Value, args: Value| {
        web(json!({"template": {"spec": {"nodeSelector": selector, "containers": [{"name": "api", "args": args}]}}}))
    };
    let live = created("ci", &pod(json!({"disk": "ssd", "zone": "a"}), json!(["-v", "-q"])));
    let live = applied(&live, "ci", &pod(json!({"zone": "b"}), json!(["-q"])));
    let spec = &live["spec"]["template"]["spec"];
    assert_eq!(spec["nodeSelector"], json!({"zone": "b"}));
    assert_eq!(spec["containers"][0]["args"], json!(["-q"]));
    let refused = try_apply(&live, "ops", &pod(json!({"zone": "b", "disk": "ssd"}), json!(["-q"]))).unwrap_err();
    assert!(refused.to_string().ends_with("conflict with \"ci\": .spec.template.spec.nodeSelector"), "{refused}");
}

#[test]
fn an_object_written_before_the_first_apply_has_an_owner_called_so() {
    let mut live = stored(web(json!({"replicas": 3, "paused": true})));
    live["metadata"]["labels"] = json!({"app": "web"});
    let live = applied(&live, "ops", &web(json!({"replicas": 3})));
    assert_eq!(owners(&live), ["ops/Apply", "before-first-apply/Update"]);
    assert_eq!(
        owned(&live, "before-first-apply"),
        ".spec\n.metadata.labels\n.metadata.labels.app\n.spec.paused\n.spec.replicas"
    );
}

#[test]
fn kubectl_takes_over_what_it_applied_client_side_without_conflict() {
    let mut first = web(json!({"replicas": 3, "paused": true}));
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    first["metadata"]["annotations"] = json!({annotation: web(json!({"replicas": 3, "paused": true})).to_string()});
    let live = stored(track_update(&deployment(), None, first, &by("kubectl-client-side-apply")));
    let next = web(json!({"replicas": 4, "paused": true}));

    assert!(try_apply(&live, "ops", &next).is_err(), "only kubectl moves over");
    let live = applied(&live, "kubectl", &next);
    assert_eq!(live["spec"]["replicas"], 4);
    assert_eq!(live["metadata"]["annotations"][annotation], json!(format!("{next}\n")));

    let edited = updated(&live, "editor", |object| object["spec"]["replicas"] = json!(9));
    assert!(
        try_apply(&edited, "kubectl", &web(json!({"replicas": 5, "paused": true}))).is_err(),
        "no longer as applied"
    );
}

#[test]
fn an_applier_stays_itself_when_it_moves_to_another_version() {
    let live = created("ci", &web(json!({"replicas": 3, "paused": true})));
    let mut next = web(json!({"replicas": 4}));
    next["apiVersion"] = json!("apps/v2");
    let writer = Writer { api_version: "apps/v2", ..later("ci") };
    let live = apply(&deployment(), Some(&live), &next, &writer, false).unwrap();
    assert_eq!(live["spec"], json!({"replicas": 4}));
    assert_eq!(live["metadata"]["managedFields"].as_array().unwrap().len(), 1);
    assert_eq!(live["metadata"]["managedFields"][0]["apiVersion"], "apps/v2");
}

#[test]
fn status_and_the_rest_have_separate_owners() {
    let config = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 3}, "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    let live = created("controller", &config);
    assert_eq!(owned(&live, "controller"), ".spec.replicas");
    let live = apply(&deployment(), Some(&live), &config, &status_by("controller"), false).unwrap();
    let entries = live["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!(
        (&entries[1]["subresource"], &entries[1]["fieldsV1"]),
        (
            &json!("status"),
            &json!({"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:status": {}, "f:type": {}}}}})
        )
    );
    let refused = apply(
        &deployment(),
        Some(&live),
        &json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
        &status_by("other"),
        false,
    )
    .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Apply failed with 1 conflict: conflict with \"controller\" with subresource \"status\": \
         .status.conditions[type=\"Ready\"].status"
    );
}

#[test]
fn an_applied_object_must_not_carry_managed_fields() {
    let mut config = web(json!({"replicas": 3}));
    config["metadata"]["managedFields"] = json!([]);
    let refused = apply(&deployment(), None, &config, &by("ci"), false).unwrap_err();
    assert_eq!(refused, ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
    assert_eq!(refused.status()["code"], 400);
}

#[test]
fn an_applied_object_must_be_of_its_type() {
    let message = |config: Value| {
        let refused = apply(&deployment(), None, &config, &by("ci"), false).unwrap_err().to_string();
        let prefix = "failed to create typed patch object (shop/web; apps/v1, Kind=Deployment): ";
        refused.strip_prefix(prefix).expect("the prefix of the real server").to_owned()
    };
    assert_eq!(message(web(json!({"replicsa": 3}))), ".spec.replicsa: field not declared in schema");
    assert_eq!(message(web(json!({"replicas": "3"}))), ".spec.replicas: expected numeric (int or float), got string");
    assert_eq!(
        message(with_containers(json!([{"name": "api"}, {"name": "api"}]))),
        ".spec.template.spec.containers: duplicate entries for key [name=\"api\"]"
    );
    assert_eq!(
        message(with_containers(json!([{"image": "api:1"}]))),
        ".spec.template.spec.containers: element 0: associative list with keys has an element that omits key field \
         \"name\" (and doesn't have default value)"
    );
    assert_eq!(
        message(with_containers(json!([{"name": "a", "image": 1, "env": "no"}]))),
        "errors:\n  .spec.template.spec.containers[name=\"a\"].env: expected list, got &{no}\n  \
         .spec.template.spec.containers[name=\"a\"].image: expected string, got &value.valueUnstructured{Value:1}"
    );
}

#[test]
fn what_a_schema_preserves_unknown_is_merged_by_what_it_looks_like() {
    let shape = Shape::compile(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}));
    let config = |spec| json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec});
    let writer = |manager| Writer { api_version: "x/v1", ..by(manager) };
    let live = apply(&shape, None, &config(json!({"a": {"b": 1}, "list": [1, 2]})), &writer("one"), false).unwrap();
    let live = apply(&shape, Some(&live), &config(json!({"a": {"c": 2}})), &writer("two"), false).unwrap();
    assert_eq!(live["spec"], json!({"a": {"b": 1, "c": 2}, "list": [1, 2]}));
    assert_eq!(owned(&live, "two"), ".spec.a\n.spec.a.c");
    assert_eq!(owned(&live, "one"), ".spec.a\n.spec.list\n.spec.a.b");
}

#[test]
fn embedded_resources_have_the_metadata_of_every_object() {
    let shape = Shape::compile(&json!({"type": "object", "properties": {"template": {
        "type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}},
    }}}));
    let config = json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "template": {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"finalizers": ["a/b"]}, "spec": {"x": 1},
    }});
    let writer = Writer { api_version: "x/v1", ..by("one") };
    let live = apply(&shape, None, &config, &writer, false).unwrap();
    assert!(owned(&live, "one").contains(".template.metadata.finalizers[=\"a/b\"]"));
}

#[test]
fn ownership_follows_a_list_that_becomes_a_map_and_back() {
    let schema = |list_type: Value| {
        let mut list = json!({"type": "array", "items": {"type": "object", "properties": {
            "name": {"type": "string"}, "value": {"type": "string"},
        }}});
        if list_type == "map" {
            list["x-kubernetes-list-type"] = json!("map");
            list["x-kubernetes-list-map-keys"] = json!(["name"]);
        }
        Shape::compile(&json!({"type": "object", "properties": {"items": list}}))
    };
    let config = |items| json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "items": items});
    let writer = |manager| Writer { api_version: "x/v1", ..by(manager) };
    let one = config(json!([{"name": "a", "value": "1"}]));
    let live = apply(&schema(json!("atomic")), None, &one, &writer("one"), false).unwrap();
    assert_eq!(owned(&live, "one"), ".items");

    let two = config(json!([{"name": "b", "value": "2"}]));
    let live = apply(&schema(json!("map")), Some(&live), &two, &writer("two"), false).unwrap();
    assert_eq!(owned(&live, "one"), ".items\n.items[name=\"a\"]\n.items[name=\"a\"].name\n.items[name=\"a\"].value");
    let live = track_update(&schema(json!("atomic")), Some(&live), live.clone(), &writer("x"));
    assert_eq!((owned(&live, "one").as_str(), owned(&live, "two").as_str()), (".items", ".items"));
}
