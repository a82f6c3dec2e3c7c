//! Bodies that kubectl 1.33 sent, against what it prints for the same command with `--dry-run=client -o json`.

use std::fs;
use std::path::Path;

use c5c3_protobuf::{decode, is_protobuf};
use serde_json::{Value, json};

fn body(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubectl").join(name).with_extension("bin");
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// JSON without what an unset value and an unwritten one have in common.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null());
            kept.map(|(name, value)| (name, without_nulls(value))).collect()
        }
        Value::Array(list) => list.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

#[test]
fn a_body_reads_as_the_json_that_the_same_command_prints() {
    let mut compared = 0;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubectl")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let printed: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap();
            assert!(is_protobuf(&body(name)));
            assert_eq!(decode(&body(name)).unwrap(), without_nulls(printed), "{name}");
            compared += 1;
        }
    }
    assert_eq!(compared, 14);
}

#[test]
fn a_token_is_asked_for() {
    let expected = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {},
        "spec": {"audiences": ["river"], "expirationSeconds": 3600},
        "status": {"token": ""},
    });
    assert_eq!(decode(&body("tokenrequest")).unwrap(), expected);
}

#[test]
fn a_permission_is_asked_for() {
    let expected = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": {"resourceAttributes": {
            "namespace": "default", "verb": "get", "resource": "pods", "subresource": "log",
        }},
        "status": {"allowed": false},
    });
    assert_eq!(decode(&body("selfsubjectaccessreview")).unwrap(), expected);
}

#[test]
fn a_body_cut_anywhere_is_an_error_or_a_part_and_never_a_panic() {
    let body = body("deployment");
    let whole = decode(&body).unwrap();
    // The last four bytes are the envelope's two empty texts.
    assert_eq!(decode(&body[..body.len() - 4]).as_ref(), Ok(&whole));
    for length in 0..body.len() - 4 {
        assert_ne!(decode(&body[..length]).ok(), Some(whole.clone()), "cut at {length}");
    }
}

#[test]
fn a_body_with_any_byte_changed_never_panics() {
    // A linear congruential generator with Knuth's constants: the same changes each run.
    let mut state = 1_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap()
    };
    for name in ["deployment", "configmap", "ingress", "poddisruptionbudget", "tokenrequest"] {
        let original = body(name);
        for _ in 0..4_000 {
            let mut changed = original.clone();
            for _ in 0..=next() % 4 {
                let at = 4 + next() % (changed.len() - 4);
                changed[at] = u8::try_from(next() % 256).unwrap();
            }
            let _either_way = decode(&changed);
        }
    }
}
