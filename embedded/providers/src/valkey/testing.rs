//! What the tests of this module share.

use c5c3_api::ext::valkey::Valkey;
use serde_json::{Value, json};

/// A Valkey that the API holds.
#[expect(clippy::needless_pass_by_value, reason = "a test writes it down where it is used")]
pub(super) fn valkey(spec: Value) -> Valkey {
    serde_json::from_value(json!({
        "apiVersion": "cache.cs.sap.com/v1alpha1", "kind": "Valkey",
        "metadata": {"name": "larder", "namespace": "kitchen", "uid": "0000-2222", "generation": 2},
        "spec": spec,
    }))
    .unwrap()
}
