//! Every slice in `c5c3_api::ext` held against the CRD that its project ships: what we write is neither pruned nor
//! refused, and goes to a version that is served. The values are struct literals without a rest, so that a field that
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
use std::path::Path;

use c5c3_api::blocks::{Condition, ConditionStatus, Quantity, Resources};
use c5c3_api::ext::IssuerRef;
use c5c3_schema::Schema;
use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use kube::discovery::ApiResource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The CRD in `file` of `project`.
fn crd(project: &str, file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/crds").join(project).join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The schema of the version that `K` is of, which must be served.
fn schema<K: Resource<DynamicType = ()>>(crd: &Value) -> Value {
    let versions = crd["spec"]["versions"].as_array().expect("a CRD has versions");
    let version = versions.iter().find(|v| v["name"] == K::version(&()).as_ref()).expect("the CRD has our version");
    assert_eq!(version["served"], true, "{} {} is not served", K::kind(&()), K::version(&()));
    version["schema"]["openAPIV3Schema"].clone()
}

/// Nothing of `object` is unknown to the genuine CRD or refused by it, and it reads back as it was.
fn accepts<K>(project: &str, object: &K)
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + PartialEq + Debug,
{
    let resource = ApiResource::erase::<K>(&());
    let crd = crd(project, &format!("{}_{}.yaml", resource.group, resource.plural));
    let names = &crd["spec"]["names"];
    assert_eq!(crd["spec"]["group"], resource.group.as_str());
    assert_eq!(names["kind"], resource.kind.as_str());
    assert_eq!(names["plural"], resource.plural.as_str());

    let value = serde_json::to_value(object).expect("an object serialises");
    let problems = Schema::compile(&schema::<K>(&crd)).expect("a genuine schema compiles").check(&value, None);
    assert!(problems.is_empty(), "{} {}:\n{problems}", project, resource.kind);
    assert_eq!(serde_json::from_value::<K>(value).expect("an object reads back"), *object);
}

/// As [`accepts`], for a kind with objects in namespaces.
fn accepts_namespaced<K>(project: &str, object: &K)
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Serialize
        + DeserializeOwned
        + PartialEq
        + Debug,
{
    assert_eq!(scope::<K>(project), "Namespaced");
    accepts(project, object);
}

/// As [`accepts`], for a kind with objects of the whole cluster.
fn accepts_cluster<K>(project: &str, object: &K)
where
    K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
        + Serialize
        + DeserializeOwned
        + PartialEq
        + Debug,
{
    assert_eq!(scope::<K>(project), "Cluster");
    accepts(project, object);
}

fn scope<K: Resource<DynamicType = ()>>(project: &str) -> Value {
    crd(project, &format!("{}_{}.yaml", K::group(&()), K::plural(&())))["spec"]["scope"].clone()
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
