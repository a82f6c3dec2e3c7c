//! JSON patch and JSON merge patch.
#![allow(clippy::needless_pass_by_value, reason = "the small functions take JSON literals")]
#![allow(clippy::unwrap_used, reason = "the small functions fail the test that calls them")]

use c5c3_fields::{PatchError, json_patch, merge_patch};
use serde_json::{Value, json};

fn patched(target: &Value, patch: Value) -> Value {
    json_patch(target, &patch).unwrap()
}

fn refused(target: &Value, patch: Value) -> PatchError {
    json_patch(target, &patch).unwrap_err()
}

#[test]
fn each_operation_does_what_the_rfc_says() {
    let target = json!({"a": {"b": 1}, "list": [1, 2, 3]});
    assert_eq!(patched(&target, json!([{"op": "add", "path": "/a/c", "value": 2}]))["a"], json!({"b": 1, "c": 2}));
    assert_eq!(patched(&target, json!([{"op": "add", "path": "/list/1", "value": 9}]))["list"], json!([1, 9, 2, 3]));
    assert_eq!(patched(&target, json!([{"op": "add", "path": "/list/-", "value": 9}]))["list"], json!([1, 2, 3, 9]));
    assert_eq!(patched(&target, json!([{"op": "remove", "path": "/list/0"}]))["list"], json!([2, 3]));
    assert_eq!(patched(&target, json!([{"op": "remove", "path": "/list/-1"}]))["list"], json!([1, 2]));
    assert_eq!(patched(&target, json!([{"op": "replace", "path": "/list/2", "value": 7}]))["list"], json!([1, 2, 7]));
    assert_eq!(patched(&target, json!([{"op": "replace", "path": "/a", "value": null}]))["a"], Value::Null);
    assert_eq!(
        patched(&target, json!([{"op": "move", "from": "/a/b", "path": "/b"}])),
        json!({"a": {}, "b": 1, "list": [1, 2, 3]})
    );
    assert_eq!(
        patched(&target, json!([{"op": "move", "from": "/list/0", "path": "/list/2"}]))["list"],
        json!([2, 3, 1])
    );
    assert_eq!(patched(&target, json!([{"op": "copy", "from": "/a", "path": "/list/0"}]))["list"][0], json!({"b": 1}));
    assert_eq!(patched(&target, json!([{"op": "test", "path": "/a", "value": {"b": 1.0}}])), target);
    assert_eq!(patched(&target, json!([{"op": "replace", "path": "", "value": {}}])), json!({}));
}

#[test]
fn slashes_and_tildes_in_names_are_escaped() {
    let target = json!({"metadata": {"annotations": {"a.b/c": "1", "x~y": "2"}}});
    let patch = json!([
        {"op": "replace", "path": "/metadata/annotations/a.b~1c", "value": "3"},
        {"op": "remove", "path": "/metadata/annotations/x~0y"},
    ]);
    assert_eq!(patched(&target, patch)["metadata"]["annotations"], json!({"a.b/c": "3"}));
}

#[test]
fn a_failed_test_is_told_apart() {
    let target = json!({"spec": {"replicas": 3}});
    let patch = json!([{"op": "test", "path": "/spec/replicas", "value": 4}, {"op": "remove", "path": "/spec"}]);
    let error = refused(&target, patch);
    assert_eq!(error, PatchError::TestFailed("/spec/replicas".to_owned()));
    assert_eq!((error.code(), error.to_string().as_str()), (422, "testing value /spec/replicas failed: test failed"));
    assert!(matches!(refused(&target, json!([{"op": "test", "path": "/no", "value": 1}])), PatchError::TestFailed(_)));
    assert_eq!(patched(&target, json!([{"op": "test", "path": "/no", "value": null}])), target, "absent is null");
}

#[test]
fn operations_that_do_not_fit_are_refused() {
    let target = json!({"a": {}, "list": [1]});
    for (patch, code) in [
        (json!([{"op": "remove", "path": "/b"}]), 422),
        (json!([{"op": "replace", "path": "/b", "value": 1}]), 422),
        (json!([{"op": "add", "path": "/b/c", "value": 1}]), 422),
        (json!([{"op": "add", "path": "/list/5", "value": 1}]), 422),
        (json!([{"op": "add", "path": "/list/01", "value": 1}]), 422),
        (json!([{"op": "copy", "from": "/b", "path": "/c"}]), 422),
        (json!([{"op": "move", "from": "/a", "path": "/a/b"}]), 422),
        (json!([{"op": "explode", "path": "/a"}]), 422),
        (json!([{"op": "add", "path": "/a"}]), 400),
        (json!([{"op": "add", "path": "a", "value": 1}]), 400),
        (json!([{"path": "/a"}]), 400),
        (json!([{"op": "remove"}]), 400),
        (json!({"op": "remove", "path": "/a"}), 400),
        (json!(["remove"]), 400),
    ] {
        assert_eq!(json_patch(&target, &patch).unwrap_err().code(), code, "{patch}");
    }
    assert_eq!(
        refused(&target, json!([{"op": "remove", "path": "/b"}])).to_string(),
        "remove operation does not apply: doc is missing key: /b: missing value"
    );
}

#[test]
fn a_patch_is_bounded_in_operations_and_in_what_it_copies() {
    let one = json!({"op": "test", "path": "/a", "value": 1});
    let many: Vec<_> = std::iter::repeat_n(one, 10_001).collect();
    assert_eq!(refused(&json!({"a": 1}), json!(many)), PatchError::TooManyOperations { max: 10_000, got: 10_001 });
    assert_eq!(json_patch(&json!({"a": 1}), &json!(many[1..])), Ok(json!({"a": 1})));

    let doubling: Vec<_> = (0..60).map(|i| json!({"op": "copy", "from": "", "path": format!("/{i}")})).collect();
    assert!(matches!(refused(&json!({"a": "some text"}), json!(doubling)), PatchError::CopiesTooMuch { .. }));

    let deepening: Vec<_> = (1..700).map(|i| json!({"op": "add", "path": "/a".repeat(i), "value": {}})).collect();
    assert_eq!(refused(&json!({}), json!(deepening)), PatchError::TooDeep);
}

#[test]
fn a_merge_patch_follows_the_examples_of_the_rfc() {
    for (target, patch, result) in [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
        (json!({"a": "b"}), json!(["c"]), json!(["c"])),
        (json!({"a": "foo"}), json!(null), json!(null)),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
    ] {
        assert_eq!(merge_patch(&target, &patch), Ok(result), "{target} + {patch}");
    }
}
