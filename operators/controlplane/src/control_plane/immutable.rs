//! What is immutable once there are servers: changes that the operators below would refuse, or take and lose data by. They
//! are told by what is there, so that a mistake can be corrected for as long as nothing was made of it.

use c5c3_api::blocks::{Quorum, Size};
use c5c3_api::c5c3::ControlPlane;
use c5c3_api::{Problem, problem};
use c5c3_kit::Inputs;
use c5c3_service::image::Version;
use c5c3_service::upgrade::is_irreversible;
use kube::api::DynamicObject;
use serde_json::Value;

use super::accounts::Account;
use super::cloud::Cloud;
use super::infrastructure::{DATABASE_SIZE, QUEUE_SIZE};
use super::keystone::admin_user;
use super::part::{Makes, Part};
use super::parts::PARTS;
use super::services::server;
use super::{ovn, own};

/// Everything that can no longer be as it is asked for.
pub(super) fn problems(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Vec<Problem> {
    let mut problems = Vec::new();
    // A server that is taken out is not judged by what new ones would be like.
    for (part, object) in cloud.parts().filter_map(|part| Some((part, own(cloud, part, inputs)?))) {
        problems.extend((part.immutable)(part, object, cloud));
        problems.extend(older_release(part, object, cloud));
    }
    problems.extend(taken_out(cloud, inputs));
    problems
}

/// A part of which everything can be changed.
pub(super) fn nothing(_: &Part, _: &DynamicObject, _: &Cloud) -> Vec<Problem> {
    Vec::new()
}

pub(super) fn mariadb(part: &Part, mariadb: &DynamicObject, cloud: &Cloud) -> Vec<Problem> {
    let written = cloud.infrastructure.mariadb.clone().unwrap_or_default();
    let class = written.storage_class.map(|class| class.to_string());
    let size = text(mariadb, "/spec/storage/size");
    let moved = moved(part, text(mariadb, "/spec/storage/storageClassName"), class.as_deref());
    moved.into_iter().chain(shrunk(part, size, written.storage_size.as_ref(), DATABASE_SIZE)).collect()
}

pub(super) fn rabbitmq(part: &Part, rabbitmq: &DynamicObject, cloud: &Cloud) -> Vec<Problem> {
    let written = cloud.infrastructure.rabbitmq.clone().unwrap_or_default();
    let class = written.storage_class.map(|class| class.to_string());
    let size = text(rabbitmq, "/spec/persistence/storage");
    let moved = moved(part, text(rabbitmq, "/spec/persistence/storageClassName"), class.as_deref());
    let shrunk = shrunk(part, size, written.storage_size.as_ref(), QUEUE_SIZE);
    moved.into_iter().chain(shrunk).chain(fewer(rabbitmq, written.replicas.map_or(3, Quorum::get))).collect()
}

pub(super) fn ovn(part: &Part, object: &DynamicObject, cloud: &Cloud) -> Vec<Problem> {
    let written = cloud.infrastructure.ovn.clone().unwrap_or_default();
    let class = written.storage_class.map(|class| class.to_string());
    let size = text(object, "/spec/northbound/storage/size");
    let moved = moved(part, text(object, "/spec/northbound/storage/storageClass"), class.as_deref());
    moved.into_iter().chain(shrunk(part, size, written.storage_size.as_ref(), ovn::SIZE)).collect()
}

pub(super) fn valkey(_: &Part, valkey: &DynamicObject, cloud: &Cloud) -> Vec<Problem> {
    other_failover(valkey, cloud).into_iter().collect()
}

pub(super) fn keystone(part: &Part, keystone: &DynamicObject, cloud: &Cloud) -> Vec<Problem> {
    service(part, keystone, cloud).into_iter().chain(other_administrator(keystone, cloud)).collect()
}

pub(super) fn service(part: &Part, service: &DynamicObject, cloud: &Cloud) -> Vec<Problem> {
    let has_database = part.accounts.contains(&Account::Database);
    other_server(service, cloud).filter(|_| has_database).into_iter().collect()
}

/// A ControlPlane that drops its data when it goes itself does not mean to drop it while it stays.
fn taken_out(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<Problem> {
    if cloud.keeps_data() {
        return None;
    }
    let is_left = |part: &Part| part.holds_data && !cloud.has(part) && own(cloud, part, inputs).is_some();
    // What needs others goes before them.
    let part = PARTS.iter().rev().find(|part| is_left(part))?;
    let field = match part.makes {
        Makes::Servers { .. } => part.field.to_owned(),
        Makes::Service { .. } | Makes::Identity { .. } => format!("{}.enabled", part.field),
    };
    Some(problem(
        field,
        format!("takes {} out, and spec.deletionPolicy would drop its data with it", part.name),
        "set spec.deletionPolicy to Retain first, or keep it",
    ))
}

/// There is a way back from a newer release until the database has lost what only the older one uses: from then on, or once
/// the newer one is installed, nothing of the older one could read it.
fn older_release(part: &Part, service: &DynamicObject, cloud: &Cloud) -> Option<Problem> {
    let asked_tag = cloud.version(part)?;
    let asked = Version::of(asked_tag)?;
    let is_newer = |tag: &&str| Version::of(tag).is_some_and(|version| version.major > asked.major);
    let name = part.name;
    let installed = text(service, "/status/installedRelease").filter(is_newer);
    let irreversible = text(service, "/status/upgradePhase").is_some_and(is_irreversible);
    let target = text(service, "/status/targetRelease").filter(|_| irreversible).filter(is_newer);
    let (newer, what) = match (installed, target) {
        (Some(newer), _) => (newer, format!("where the database of {name} has the schema of {newer}")),
        (None, Some(newer)) => (newer, format!("and the database of {name} has lost what {newer} does not use")),
        (None, None) => return None,
    };
    let back = Version::of(newer)?.release(name)?;
    Some(problem(
        "spec.openStackRelease",
        format!("asks for {}, whose {name} is {asked_tag}, {what}", cloud.release.name),
        format!("set it to {back}, or restore a backup into a new ControlPlane"),
    ))
}

fn text<'a>(object: &'a DynamicObject, pointer: &str) -> Option<&'a str> {
    object.data.pointer(pointer).and_then(Value::as_str)
}

fn moved(part: &Part, is: Option<&str>, asked: Option<&str>) -> Option<Problem> {
    let named = |class: Option<&str>| class.map_or("the default one".to_owned(), |class| format!("{class:?}"));
    (is != asked).then(|| {
        let fix = is.map_or("remove it".to_owned(), |is| format!("set it back to {is:?}"));
        problem(
            format!("{}.storageClass", part.field),
            format!("asks for {} where volumes are of {}, which a volume keeps for life", named(asked), named(is)),
            format!("{fix}, or restore a backup into a new ControlPlane"),
        )
    })
}

fn shrunk(part: &Part, is: Option<&str>, asked: Option<&Size>, default: &str) -> Option<Problem> {
    let (is, default) = (Size::new(is?).ok()?, Size::new(default).ok()?);
    let asked = asked.unwrap_or(&default);
    (asked.bytes() < is.bytes()).then(|| {
        problem(
            format!("{}.storageSize", part.field),
            format!("asks for {asked} where volumes have {is}, and no volume can become smaller"),
            format!("set it to {is} or more"),
        )
    })
}

/// The operator of RabbitMQ takes no member out of a cluster.
fn fewer(rabbitmq: &DynamicObject, asked: i32) -> Option<Problem> {
    let is = rabbitmq.data.pointer("/spec/replicas").and_then(Value::as_i64)?;
    (i64::from(asked) < is).then(|| {
        problem(
            "spec.infrastructure.rabbitmq.replicas",
            format!("asks for {asked} members where the cluster has {is}, and the operator of RabbitMQ removes none"),
            format!("set it to {is} or more"),
        )
    })
}

fn other_failover(valkey: &DynamicObject, cloud: &Cloud) -> Option<Problem> {
    let is = valkey.data.pointer("/spec/sentinel/enabled").and_then(Value::as_bool)?;
    let written = cloud.infrastructure.valkey.as_ref().and_then(|valkey| valkey.sentinel.as_ref());
    (written.is_none_or(|sentinel| sentinel.enabled) != is).then(|| {
        problem(
            "spec.infrastructure.valkey.sentinel.enabled",
            "cannot be changed once there is a Valkey",
            format!("set it to {is}; or take spec.infrastructure.valkey out, and put it in again when it is gone"),
        )
    })
}

/// A service that moved to another MariaDB object, or from one to an address or back, would begin with nothing. An address
/// may change: the same server can have several.
fn other_server(service: &DynamicObject, cloud: &Cloud) -> Option<Problem> {
    let named = |object: &Value| {
        let namespace = object["namespace"].as_str().unwrap_or(&cloud.namespace);
        (namespace.to_owned(), object["name"].clone())
    };
    let is = service.data.pointer("/spec/database")?.get("clusterRef");
    (is.map(named) != server(cloud).as_ref().map(named)).then(|| {
        problem(
            "spec.infrastructure.mariadb",
            "moves to another server, and all data would stay on the old one",
            "keep the server, or migrate the data into a new ControlPlane",
        )
    })
}

fn other_administrator(keystone: &DynamicObject, cloud: &Cloud) -> Option<Problem> {
    let is = text(keystone, "/spec/bootstrap/adminUser").unwrap_or("admin");
    let asked = admin_user(cloud).unwrap_or("admin");
    (is != asked).then(|| {
        problem(
            "spec.identity.keystone.bootstrap.adminUser.name",
            format!("asks for {asked:?} where {is:?} is the administrator already"),
            format!("set it to {is:?}, and create another administrator in Keystone"),
        )
    })
}
