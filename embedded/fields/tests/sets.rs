//! Field sets and their wire format.
#![allow(clippy::needless_pass_by_value, reason = "the small functions take JSON literals")]
#![allow(clippy::unwrap_used, reason = "the small functions fail the test that calls them")]

use std::sync::Arc;

use c5c3_fields::{Element, FieldSet};
use serde_json::{Value, json};

fn set(fields: Value) -> FieldSet {
    FieldSet::from_fields_v1(&fields).unwrap()
}

#[test]
fn every_kind_of_step_survives_the_wire() {
    let fields = json!({"f:spec": {
        ".": {}, "f:a.b/c": {}, "f:list": {
            "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}},
            "v:\"x\\u003cy\"": {}, "v:1": {}, "v:true": {}, "i:3": {},
        },
    }});
    assert_eq!(set(fields.clone()).to_fields_v1(), fields);
    assert_eq!(
        set(fields).to_string(),
        ".spec\n.spec.a.b/c\n.spec.list[containerPort=80,protocol=\"TCP\"]\n.spec.list[=1]\n.spec.list[=\"x<y\"]\n\
         .spec.list[=true]\n.spec.list[3]\n.spec.list[containerPort=80,protocol=\"TCP\"].name"
    );
}

#[test]
fn keys_in_another_order_are_the_same_item() {
    let two = set(json!({"k:{\"b\":2,\"a\":1}": {"f:x": {}}, "k:{\"a\":1,\"b\":2}": {"f:y": {}}}));
    assert_eq!(two.to_fields_v1(), json!({"k:{\"a\":1,\"b\":2}": {"f:x": {}, "f:y": {}}}));
}

#[test]
fn unknown_kinds_of_steps_are_left_out_and_nonsense_is_refused() {
    assert_eq!(set(json!({"z:later": {}, "f:a": {}})).to_string(), ".a");
    for nonsense in
        [json!([]), json!({"f": {}}), json!({"fa": {}}), json!({"k:1": {}}), json!({"f:a": 7}), json!({"i:x": {}})]
    {
        assert!(FieldSet::from_fields_v1(&nonsense).is_err(), "{nonsense}");
    }
}

#[test]
fn owning_a_field_is_not_owning_what_is_in_it() {
    let outer = set(json!({"f:a": {}}));
    let inner = set(json!({"f:a": {"f:b": {}}}));
    assert_eq!(inner.difference(&outer), inner);
    assert_eq!(outer.difference(&inner), outer);
    assert!(outer.intersection(&inner).is_empty());
    assert_eq!(outer.union(&inner).to_string(), ".a\n.a.b");
    assert!(inner.without(&outer).is_empty(), "without takes what is below too");
    assert_eq!(outer.union(&inner).leaves(), inner);
    assert!(inner.is_subset(&outer.union(&inner)) && !outer.is_subset(&inner));
}

#[test]
fn numbers_are_the_same_however_written() {
    let path = |port: Value| [Element::field("ports"), Element::key(vec![(Arc::from("port"), port)])];
    let mut set = FieldSet::default();
    set.insert(&path(json!(80)));
    assert!(set.contains(&path(json!(80.0))));
    assert!(!set.contains(&path(json!(81))));
    assert!(!set.contains(&[]));
}

#[test]
fn scopes_keep_the_way_to_what_they_name() {
    let all = set(json!({"f:metadata": {"f:labels": {"f:a": {}}, "f:name": {}}, "f:status": {".": {}, "f:x": {}}}));
    assert_eq!(
        all.within(&FieldSet::of(&["status", "metadata.labels"])).to_string(),
        ".status\n.metadata.labels.a\n.status.x"
    );
    assert_eq!(all.without(&FieldSet::of(&["status"])).to_string(), ".metadata.name\n.metadata.labels.a");
}
