//! Every slice in `c5c3_api::ext` held against its contract and, if at hand, against the CRD that its project ships: what
//! we write is neither pruned nor refused, and goes to a version that is served. The values are struct literals without a rest, so that a field that
//! is added to a slice does not compile here until it is tried too.

mod cert_manager;
mod external_secrets;
mod mariadb;
mod rabbitmq;
mod rook;
mod valkey;
mod words;

use std::collections::BTreeMap;
use std::fmt::Debug;

use c5c3_api::blocks::{Condition, ConditionStatus, Quantity, Resources};
use c5c3_api::ext::IssuerRef;
use c5c3_contracts::Contract;
use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The contract with `K`.
fn contract<K: Resource<DynamicType = ()>>() -> Contract {
    let found = Contract::of_kind(&K::group(&()), &K::version(&()), &K::kind(&()));
    found.unwrap_or_else(|| panic!("{} has no contract", K::kind(&())))
}

/// Nothing of `object` is unknown to its API server or refused by it, and it reads back as it was.
fn accepts<K>(object: &K)
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + PartialEq + Debug,
{
    let value = serde_json::to_value(object).expect("an object serialises");
    let problems = c5c3_contracts::problems(&value);
    assert!(problems.is_empty(), "{}:\n{}", K::kind(&()), problems.join("\n"));
    assert_eq!(serde_json::from_value::<K>(value).expect("an object reads back"), *object);
}

/// As [`accepts`], for a kind with objects in namespaces.
fn accepts_namespaced<K>(object: &K)
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Serialize
        + DeserializeOwned
        + PartialEq
        + Debug,
{
    accepts(object);
    has_scope::<K>("Namespaced");
}

/// As [`accepts`], for a kind with objects of the whole cluster.
fn accepts_cluster<K>(object: &K)
where
    K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
        + Serialize
        + DeserializeOwned
        + PartialEq
        + Debug,
{
    accepts(object);
    has_scope::<K>("Cluster");
}

/// Objects of `K` are in namespaces, or not, as its contract says; and the resource has the name that it has there.
fn has_scope<K: Resource<DynamicType = ()>>(scope: &str) {
    if c5c3_contracts::is_recording() {
        return;
    }
    let contract = contract::<K>();
    assert_eq!(contract.definition()["spec"]["scope"], scope);
    assert_eq!(contract.plural, K::plural(&()));
}

fn quantity(text: &str) -> Quantity {
    Quantity::new(text).expect("a quantity")
}

fn resources() -> Resources {
    let both = || BTreeMap::from([("cpu".to_string(), quantity("500m")), ("memory".to_string(), quantity("2Gi"))]);
    Resources { requests: both(), limits: both() }
}

fn map(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_string(), value.to_string())])
}

fn time() -> Time {
    Time("2025-11-15T10:35:00Z".parse().expect("a time"))
}

/// A condition with all that its kind allows; not all kinds have an observedGeneration there.
fn condition(r#type: &str, observed_generation: Option<i64>) -> Condition {
    Condition {
        r#type: r#type.to_string(),
        status: ConditionStatus::True,
        reason: Some("AllIsWell".to_string()),
        message: Some("all is well".to_string()),
        last_transition_time: Some(time()),
        observed_generation,
    }
}

fn issuer() -> IssuerRef {
    IssuerRef {
        name: "stamp".to_string(),
        kind: Some("ClusterIssuer".to_string()),
        group: Some("cert-manager.io".to_string()),
    }
}

fn toleration() -> Toleration {
    Toleration {
        key: Some("control-plane".to_string()),
        operator: Some("Equal".to_string()),
        value: Some("yes".to_string()),
        effect: Some("NoExecute".to_string()),
        toleration_seconds: Some(60),
    }
}
