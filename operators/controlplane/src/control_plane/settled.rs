//! What is settled once there are servers: changes that the operators below would refuse, or take and lose data by. They
//! are told by what is there, so that a mistake can be corrected for as long as nothing was made of it.

use c5c3_api::blocks::{Quorum, Size};
use c5c3_api::c5c3::ControlPlane;
use c5c3_api::{Problem, problem};
use c5c3_kit::Inputs;
use c5c3_service::image::Version;
use kube::api::DynamicObject;
use serde_json::Value;

use super::cloud::Cloud;
use super::graph::Node;
use super::infrastructure::{DATABASE_SIZE, QUEUE_SIZE};
use super::keystone::admin_user;
use super::own;
use super::services::database;

/// The phase of an upgrade in which a database loses what only the older release uses.
const CONTRACTING: &str = "Contracting";

/// Everything that can no longer be as it is asked for.
pub(super) fn problems(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Vec<Problem> {
    let found = |node: &str| own(cloud, node, inputs);
    let mut problems = Vec::new();
    if let Some(mariadb) = found("mariadb") {
        let written = cloud.infrastructure.mariadb.clone().unwrap_or_default();
        let class = written.storage_class.map(|class| class.to_string());
        problems.extend(moved("mariadb", text(mariadb, "/spec/storage/storageClassName"), class.as_deref()));
        let size = text(mariadb, "/spec/storage/size");
        problems.extend(shrunk("mariadb", size, written.storage_size.as_ref(), DATABASE_SIZE));
    }
    if let Some(rabbitmq) = found("rabbitmq") {
        let written = cloud.infrastructure.rabbitmq.clone().unwrap_or_default();
        let class = written.storage_class.map(|class| class.to_string());
        problems.extend(moved("rabbitmq", text(rabbitmq, "/spec/persistence/storageClassName"), class.as_deref()));
        let size = text(rabbitmq, "/spec/persistence/storage");
        problems.extend(shrunk("rabbitmq", size, written.storage_size.as_ref(), QUEUE_SIZE));
        problems.extend(fewer(rabbitmq, written.replicas.map_or(3, Quorum::get)));
    }
    if let Some(valkey) = found("valkey") {
        problems.extend(other_failover(valkey, cloud));
    }
    if let Some(keystone) = found("keystone") {
        problems.extend(other_server(keystone, cloud));
        problems.extend(other_administrator(keystone, cloud));
    }
    for node in cloud.nodes() {
        problems.extend(found(node.name).and_then(|service| older_release(node, service, cloud)));
    }
    problems.extend(taken_out(cloud, inputs));
    problems
}

/// The parts that hold data, each with the field that takes it out, those first that stand on others.
const DATA: &[(&str, &str)] =
    &[("keystone", "spec.services.keystone.enabled"), ("mariadb", "spec.infrastructure.mariadb")];

pub(super) fn holds_data(node: &str) -> bool {
    DATA.iter().any(|(name, _)| *name == node)
}

/// A ControlPlane that drops its data when it goes itself does not mean to drop it while it stays.
fn taken_out(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<Problem> {
    if cloud.keeps_data() {
        return None;
    }
    let is_left = |node: &str| !cloud.has(node) && own(cloud, node, inputs).is_some();
    let (node, field) = DATA.iter().find(|(node, _)| is_left(node))?;
    Some(problem(
        *field,
        format!("takes {node} out, and spec.deletionPolicy would drop its data with it"),
        "set spec.deletionPolicy to Retain first, or keep it",
    ))
}

/// There is a way back from a newer release until the database has lost what only the older one uses: from then on, or once
/// the newer one is installed, nothing of the older one could read it.
fn older_release(node: &Node, service: &DynamicObject, cloud: &Cloud) -> Option<Problem> {
    let asked_tag = cloud.release.version(node.name)?;
    let asked = Version::of(asked_tag)?;
    let is_newer = |tag: &&str| Version::of(tag).is_some_and(|version| version.major > asked.major);
    let name = node.name;
    let installed = text(service, "/status/installedRelease").filter(is_newer);
    let contracting = text(service, "/status/upgradePhase") == Some(CONTRACTING);
    let target = text(service, "/status/targetRelease").filter(|_| contracting).filter(is_newer);
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

fn moved(node: &str, is: Option<&str>, asked: Option<&str>) -> Option<Problem> {
    let named = |class: Option<&str>| class.map_or("the default one".to_owned(), |class| format!("{class:?}"));
    (is != asked).then(|| {
        let fix = is.map_or("remove it".to_owned(), |is| format!("set it back to {is:?}"));
        problem(
            format!("spec.infrastructure.{node}.storageClass"),
            format!("asks for {} where volumes are of {}, which a volume keeps for life", named(asked), named(is)),
            format!("{fix}, or restore a backup into a new ControlPlane"),
        )
    })
}

fn shrunk(node: &str, is: Option<&str>, asked: Option<&Size>, default: &str) -> Option<Problem> {
    let (is, default) = (Size::new(is?).ok()?, Size::new(default).ok()?);
    let asked = asked.unwrap_or(&default);
    (asked.bytes() < is.bytes()).then(|| {
        problem(
            format!("spec.infrastructure.{node}.storageSize"),
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
            format!("asks for {asked} of {is} members, and the operator of RabbitMQ takes none out of a cluster"),
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
fn other_server(keystone: &DynamicObject, cloud: &Cloud) -> Option<Problem> {
    let server = |database: &Value| {
        let object = database.get("clusterRef")?;
        let namespace = object["namespace"].as_str().unwrap_or(&cloud.namespace);
        Some((namespace.to_owned(), object["name"].clone()))
    };
    let is = keystone.data.pointer("/spec/database")?;
    (server(is) != server(&database("keystone", cloud))).then(|| {
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
