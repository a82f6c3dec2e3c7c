//! Strategic merge patch on the parts of a Deployment.
#![allow(clippy::needless_pass_by_value, reason = "the small functions take JSON literals")]
#![allow(clippy::unwrap_used, reason = "the small functions fail the test that calls them")]

mod fixtures;

use c5c3_fields::{PatchError, strategic_merge_patch};
use fixtures::*;
use serde_json::{Value, json};

fn pod(target: Value, patch: Value) -> Value {
    let wrap = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    strategic_merge_patch(&deployment(), &wrap(target), &wrap(patch)).unwrap()["spec"]["template"]["spec"].clone()
}

fn refused(target: Value, patch: Value) -> PatchError {
    strategic_merge_patch(&deployment(), &target, &patch).unwrap_err()
}

#[test]
fn containers_merge_by_name_and_new_ones_come_first() {
    assert_eq!(
        pod(
            json!({"containers": [{"name": "api", "image": "api:1", "args": ["-v"]}, {"name": "proxy", "image": "p:1"}]}),
            json!({"containers": [{"name": "new", "image": "n:1"}, {"name": "proxy", "image": "p:2"}]}),
        )["containers"],
        json!([
            {"name": "new", "image": "n:1"},
            {"name": "api", "image": "api:1", "args": ["-v"]},
            {"name": "proxy", "image": "p:2"},
        ])
    );
}

#[test]
fn lists_without_a_strategy_are_replaced() {
    let container = |args: Value| json!({"containers": [{"name": "api", "args": args, "command": ["run"]}]});
    assert_eq!(pod(container(json!(["-v", "-q"])), container(json!(["-x"])))["containers"][0]["args"], json!(["-x"]));
    assert_eq!(
        pod(json!({"tolerations": [{"key": "a"}, {"key": "b"}]}), json!({"tolerations": [{"key": "c"}]})),
        json!({"tolerations": [{"key": "c"}]})
    );
}

#[test]
fn env_and_ports_merge_inside_a_container() {
    let target = json!({"containers": [{
        "name": "api",
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "ports": [{"containerPort": 80, "name": "http"}],
    }]});
    let patch = json!({"containers": [{
        "name": "api",
        "env": [{"name": "B", "value": "3"}, {"name": "A", "$patch": "delete"}],
        "ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 443}],
    }]});
    assert_eq!(
        pod(target, patch)["containers"][0],
        json!({
            "name": "api",
            "env": [{"name": "B", "value": "3"}],
            "ports": [{"containerPort": 80, "name": "http", "hostPort": 8080}, {"containerPort": 443}],
        })
    );
}

#[test]
fn null_deletes_a_field_and_nulls_in_what_is_new_are_dropped() {
    assert_eq!(
        pod(
            json!({"serviceAccountName": "web", "nodeSelector": {"disk": "ssd", "zone": "a"}}),
            json!({"serviceAccountName": null, "nodeSelector": {"disk": null}, "volumes": [{"name": "v", "secret": null}]}),
        ),
        json!({"nodeSelector": {"zone": "a"}, "volumes": [{"name": "v"}]})
    );
}

#[test]
fn patch_replace_replaces_an_object_or_a_list() {
    assert_eq!(
        pod(json!({"nodeSelector": {"disk": "ssd"}}), json!({"nodeSelector": {"$patch": "replace", "zone": "a"}})),
        json!({"nodeSelector": {"zone": "a"}})
    );
    assert_eq!(
        pod(
            json!({"containers": [{"name": "api"}, {"name": "proxy"}]}),
            json!({"containers": [{"$patch": "replace"}, {"name": "only", "image": "o:1"}]}),
        ),
        json!({"containers": [{"name": "only", "image": "o:1"}]})
    );
}

#[test]
fn patch_delete_empties_an_object_and_removes_an_item_by_key() {
    assert_eq!(
        pod(json!({"nodeSelector": {"disk": "ssd"}}), json!({"nodeSelector": {"$patch": "delete"}})),
        json!({"nodeSelector": {}})
    );
    assert_eq!(
        pod(
            json!({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]}),
            json!({"volumes": [{"name": "a", "$patch": "delete"}, {"name": "absent", "$patch": "delete"}]}),
        ),
        json!({"volumes": [{"name": "b", "emptyDir": {}}]})
    );
    assert_eq!(
        pod(json!({}), json!({"volumes": [{"name": "a", "$patch": "delete"}], "nodeSelector": {"$patch": "delete"}})),
        json!({"volumes": []}),
        "there is nothing to delete, and no directive is left behind"
    );
}

#[test]
fn set_element_order_orders_what_it_names_and_keeps_what_only_the_server_has() {
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    let list = |names: &[&str]| -> Value { names.iter().map(|name| json!({"name": name})).collect() };
    let merged = pod(
        json!({"containers": list(&["a", "b", "injected", "c"])}),
        json!({"$setElementOrder/containers": list(&["c", "a", "new", "b"]), "containers": list(&["new"])}),
    );
    assert_eq!(names(&merged["containers"]), ["injected", "c", "a", "new", "b"]);
    let only_order = pod(
        json!({"containers": list(&["a", "b", "c"])}),
        json!({"$setElementOrder/containers": list(&["c", "b", "a"])}),
    );
    assert_eq!(names(&only_order["containers"]), ["c", "b", "a"]);
    let created = pod(json!({}), json!({"$setElementOrder/containers": list(&["a"]), "containers": list(&["a"])}));
    assert_eq!(created, json!({"containers": [{"name": "a"}]}));
}

#[test]
fn set_element_order_must_agree_with_the_patch() {
    let wrap = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    let error = refused(
        wrap(json!({"containers": [{"name": "a"}]})),
        wrap(json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]})),
    );
    assert_eq!(error.code(), 400);
}

#[test]
fn finalizers_merge_and_are_deleted_by_value() {
    let target = json!({"metadata": {"finalizers": ["a", "b", "c"]}});
    let patch = json!({"metadata": {
        "$deleteFromPrimitiveList/finalizers": ["b"], "$setElementOrder/finalizers": ["d", "a", "c"],
        "finalizers": ["d", "a"],
    }});
    let result = strategic_merge_patch(&deployment(), &target, &patch).unwrap();
    assert_eq!(result, json!({"metadata": {"finalizers": ["d", "a", "c"]}}));
    let result =
        strategic_merge_patch(&deployment(), &target, &json!({"metadata": {"finalizers": ["c", "x"]}})).unwrap();
    assert_eq!(result, json!({"metadata": {"finalizers": ["a", "b", "c", "x"]}}));
    let gone = strategic_merge_patch(&deployment(), &json!({}), &patch).unwrap();
    assert_eq!(gone, json!({"metadata": {"finalizers": ["d", "a"]}}));
}

#[test]
fn owner_references_merge_by_uid() {
    let target = json!({"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}]}});
    let patch = json!({"metadata": {"ownerReferences": [{"uid": "1", "controller": true}, {"uid": "2", "name": "b"}]}});
    assert_eq!(
        strategic_merge_patch(&deployment(), &target, &patch).unwrap()["metadata"]["ownerReferences"],
        json!([{"uid": "1", "name": "a", "controller": true}, {"uid": "2", "name": "b"}])
    );
}

#[test]
fn retain_keys_clears_what_it_leaves_out() {
    let target = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let result = strategic_merge_patch(&deployment(), &target, &patch).unwrap();
    assert_eq!(result, json!({"spec": {"strategy": {"type": "Recreate"}}}));

    let unlisted = json!({"spec": {"strategy": {"$retainKeys": ["rollingUpdate"], "type": "Recreate"}}});
    assert_eq!(refused(target, unlisted).code(), 400);

    assert_eq!(
        pod(
            json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
            json!({"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}]}),
        ),
        json!({"volumes": [{"name": "v", "configMap": {"name": "c"}}]})
    );
}

#[test]
fn what_kubectl_scale_and_edit_send_works() {
    let live =
        json!({"spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "api", "image": "api:1"}]}}}});
    let patch = json!({"spec": {"replicas": 3, "template": {"spec": {
        "$setElementOrder/containers": [{"name": "api"}], "containers": [{"name": "api", "image": "api:2"}],
    }}}});
    assert_eq!(
        strategic_merge_patch(&deployment(), &live, &patch).unwrap(),
        json!({"spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "api", "image": "api:2"}]}}}})
    );
}

#[test]
fn malformed_patches_are_refused() {
    let containers = |items: Value| json!({"spec": {"template": {"spec": {"containers": items}}}});
    let live = containers(json!([{"name": "api"}]));
    for (patch, code) in [
        (containers(json!([{"image": "nameless"}])), 422),
        (containers(json!(["text"])), 422),
        (containers(json!([{"name": "api", "$patch": "explode"}])), 400),
        (json!({"spec": {"$patch": "merge"}}), 400),
        (json!({"spec": {"$retainKeys": "type"}}), 400),
        (json!({"spec": {"$setElementOrder": []}}), 400),
        (json!([]), 400),
    ] {
        assert_eq!(refused(live.clone(), patch.clone()).code(), code, "{patch}");
    }
}

#[test]
fn fields_that_the_schema_does_not_know_merge_by_what_they_look_like() {
    let target = json!({"extra": {"a": {"b": 1}, "list": [1, 2]}});
    let patch = json!({"extra": {"a": {"c": 2}, "list": [3]}});
    assert_eq!(
        strategic_merge_patch(&deployment(), &target, &patch).unwrap(),
        json!({"extra": {"a": {"b": 1, "c": 2}, "list": [3]}})
    );
}
