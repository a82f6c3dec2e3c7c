//! What the tests of this module share.

use c5c3_api::ext::rabbitmq::RabbitmqCluster;
use serde_json::{Value, json};

use super::plan::Secrets;

/// A cluster that the API holds.
#[expect(clippy::needless_pass_by_value, reason = "a test writes it down where it is used")]
pub(super) fn cluster(spec: Value) -> RabbitmqCluster {
    serde_json::from_value(json!({
        "apiVersion": "rabbitmq.com/v1beta1", "kind": "RabbitmqCluster",
        "metadata": {"name": "burrow", "namespace": "warren", "uid": "0000-1111", "generation": 3},
        "spec": spec,
    }))
    .unwrap()
}

pub(super) fn secrets() -> Secrets {
    let first_user = Some(("default_user_hare".to_owned(), "carrot-password".to_owned()));
    Secrets { cookie: "carrot-cookie".to_owned(), first_user }
}
