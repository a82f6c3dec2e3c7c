//! What administrators sign in with to the servers of a cloud, in one Secret: the SecretAggregate that the documents promise.

use c5c3_api::blocks::{DataKey, NamespacedRef, ObjectName};
use c5c3_api::c5c3::{ControlPlane, KeyMapping, Renamed, SecretAggregate, SecretAggregateSpec, SecretSource};
use c5c3_api::ext::{rabbitmq, valkey};
use c5c3_kit::ownership::{MANAGED_BY, label};
use c5c3_kit::{Child, Inputs, Ref};

use super::cloud::Cloud;
use super::infrastructure::{ROOT_SECRET, named};
use super::part::Part;
use super::parts::{MARIADB, RABBITMQ, VALKEY};

/// The SecretAggregate, and the Secret that it fills.
const NAME: &str = "openstack-infrastructure";
const TARGET: &str = "openstack-credentials";

pub(super) fn reference(cloud: &Cloud) -> Ref {
    Ref::namespaced::<SecretAggregate>(&cloud.namespace, NAME)
}

/// The SecretAggregate; none if a person made one of that name, which stays as it is. It waits for its Secrets itself, and nothing
/// waits for it.
pub(super) fn child(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<Child> {
    let found = inputs.get(&reference(cloud));
    if found.is_some_and(|found| label(&found.metadata, MANAGED_BY).is_none_or(|by| by != crate::NAME)) {
        return None;
    }
    let sources: Vec<SecretSource> = [
        source(cloud, &MARIADB, ROOT_SECRET, &[("password", "MARIADB_PASSWORD")]),
        source(
            cloud,
            &RABBITMQ,
            &rabbitmq::default_user_secret(RABBITMQ.name),
            &[("username", "RABBITMQ_USERNAME"), ("password", "RABBITMQ_PASSWORD")],
        ),
        source(cloud, &VALKEY, &valkey::binding_secret(VALKEY.name), &[("password", "VALKEY_PASSWORD")]),
    ]
    .into_iter()
    .flatten()
    .collect();
    let spec = SecretAggregateSpec { sources, target: NamespacedRef { name: name(TARGET), namespace: None } };
    let aggregate = SecretAggregate { metadata: named(NAME, cloud), spec, status: None };
    (!aggregate.spec.sources.is_empty()).then(|| Child::new(&aggregate).readiness_optional())
}

/// Keys of the Secret of a server; none of one that is not made here.
fn source(cloud: &Cloud, part: &Part, secret: &str, keys: &[(&str, &str)]) -> Option<SecretSource> {
    let is_ours = cloud.has(part) && cloud.existing(part).is_none();
    let key = |text: &str| DataKey::new(text).expect("it is a key");
    let renamed = |(source, target): &(&str, &str)| {
        KeyMapping::Renamed(Renamed { source_key: key(source), target_key: key(target) })
    };
    is_ours.then(|| SecretSource {
        name: Some(part.name.to_owned()),
        secret_ref: NamespacedRef { name: name(secret), namespace: None },
        keys: keys.iter().map(renamed).collect(),
    })
}

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).expect("it is a name")
}
