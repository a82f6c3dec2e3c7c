//! Input that no honest client sends.
#![allow(clippy::needless_pass_by_value, reason = "the small functions take JSON literals")]
#![allow(clippy::unwrap_used, reason = "the small functions fail the test that calls them")]

mod fixtures;

use c5c3_fields::{
    ApplyError, FieldSet, PatchError, Scope, Shape, Writer, apply, json_patch, merge_patch, settle,
    strategic_merge_patch, track_update,
};
use fixtures::*;
use serde_json::{Value, json};

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, i| if i % 2 == 0 { json!({"a": inner}) } else { json!([inner]) })
}

fn object(x: Value) -> Value {
    json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x", "uid": "1"}, "x": x})
}

fn writer() -> Writer<'static> {
    Writer { api_version: "x/v1", scope: Scope::Everything, ..by("mallory") }
}

#[test]
fn what_nests_too_deep_is_refused_and_what_nests_deep_is_not() {
    let shape = Shape::deduced();
    let (deep, too_deep) = (object(nested(510)), object(nested(600)));
    let live = apply(&shape, None, &deep, &writer(), false).unwrap();
    assert_eq!(apply(&shape, Some(&live), &deep, &writer(), false).unwrap(), live);
    assert_eq!(apply(&shape, None, &too_deep, &writer(), false), Err(ApplyError::TooDeep));
    assert_eq!(apply(&shape, Some(&too_deep), &object(json!(1)), &writer(), false), Err(ApplyError::TooDeep));

    let kept = track_update(&shape, Some(&live), too_deep.clone(), &writer());
    assert_eq!(kept["metadata"]["managedFields"], live["metadata"]["managedFields"], "as it was");
    assert_eq!(kept["x"], too_deep["x"]);

    assert_eq!(merge_patch(&deep, &too_deep), Err(PatchError::TooDeep));
    assert_eq!(strategic_merge_patch(&shape, &too_deep, &deep), Err(PatchError::TooDeep));
    let add = json!([{"op": "add", "path": "/x", "value": nested(600)}]);
    assert_eq!(json_patch(&deep, &add), Err(PatchError::TooDeep));
}

#[test]
fn a_schema_without_end_is_cut() {
    let wrap = |name: &str, inner| Value::Object([(name.to_owned(), inner)].into_iter().collect());
    let schema = (0..2000).fold(json!({"type": "string"}), |inner, _| wrap("properties", wrap("a", inner)));
    let shape = Shape::compile(&schema);
    assert!(apply(&shape, None, &object(json!(1)), &writer(), false).is_err());
    std::mem::forget(schema); // dropping it would recurse; a server never parses one
}

#[test]
fn a_list_of_twenty_thousand_items_is_fine() {
    let env = |count: usize, value: &str| -> Value {
        (0..count).rev().map(|i| json!({"name": format!("V{i}"), "value": value})).collect()
    };
    let big = |count, value| with_containers(json!([{"name": "api", "env": env(count, value)}]));
    let live = created("ci", &big(20_000, "1"));
    let live = applied(&live, "ci", &big(19_999, "2"));
    let items = live["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
    assert_eq!(items.len(), 19_999);
    assert!(items.iter().all(|item| item["value"] == "2"));
    let patched = strategic_merge_patch(&deployment(), &live, &big(20_000, "3")).unwrap();
    assert_eq!(patched["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap().len(), 20_000);
}

#[test]
fn objects_of_the_wrong_form_do_not_panic() {
    let odd = [
        json!(null),
        json!(1),
        json!([]),
        json!({}),
        json!({"metadata": []}),
        json!({"apiVersion": "apps/v1", "metadata": "text"}),
        json!({"apiVersion": "apps/v1", "metadata": {"creationTimestamp": "now", "annotations": "text"}}),
        json!({"metadata": {"managedFields": 7}}),
        json!({"apiVersion": "apps/v1", "metadata": {"managedFields": [[]]}}),
        json!({"apiVersion": "apps/v1", "spec": []}),
        json!({"apiVersion": "apps/v1", "spec": {"template": 1, "strategy": "x"}}),
        json!({"apiVersion": "apps/v1", "spec": {"template": {"spec": {"containers": {"name": "x"}}}}}),
        json!({"apiVersion": "apps/v1", "spec": {"template": {"spec": {"containers": [null, 1, [], {}]}}}}),
        json!({"apiVersion": "apps/v1", "metadata": {"finalizers": [{}, null, 1], "labels": [1], "name": {}}}),
        json!({"apiVersion": "apps/v1", "metadata": {"annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{not json"}}}),
        json!({"$patch": 1, "$retainKeys": {}, "$setElementOrder/": [], "$deleteFromPrimitiveList": null}),
        web(json!({"replicas": 1})),
    ];
    let shapes = [deployment(), Shape::deduced(), Shape::compile(&json!(7)), Shape::compile(&json!({"type": "array"}))];
    for shape in &shapes {
        for a in &odd {
            for b in &odd {
                for manager in ["x", "kubectl"] {
                    let _ = apply(shape, Some(a), b, &by(manager), true);
                    let _ = apply(shape, Some(a), b, &by(manager), false);
                }
                let tracked = track_update(shape, Some(a), b.clone(), &by("x"));
                let _ = settle(a, tracked);
                let _ = (merge_patch(a, b), json_patch(a, b), strategic_merge_patch(shape, a, b));
            }
        }
    }
    for a in &odd {
        let _ = FieldSet::from_fields_v1(a);
    }
}

#[test]
fn ownership_of_fields_that_the_schema_lost_is_kept_without_error() {
    let mut live = created("ci", &web(json!({"replicas": 3})));
    live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:gone"] = json!({"f:deep": {}, "k:{\"a\":1}": {}});
    let live = updated(&live, "x", |object| object["spec"]["paused"] = json!(true));
    assert!(owned(&live, "ci").contains(".spec.gone.deep"));
    let live = applied(&live, "ci", &web(json!({"replicas": 3})));
    assert_eq!(owned(&live, "ci"), ".spec.replicas");
}
