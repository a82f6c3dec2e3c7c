//! Ceph: a user of its own for each service that stores something there, and the Secret that the service reads its key from.
//!
//! | source of keys | when |
//! |---|---|
//! | a Secret that a user provides, for all services | `spec.storage.ceph.secretRef` |
//! | CephClients on a CephCluster of Rook | `spec.storage.storageClusters`, or a service asks for RBD, or the CephCluster `rook-ceph` is there |
//!
//! Pools are not made here: they belong to whoever runs the storage, and outlive the cloud.

use std::collections::BTreeMap;

use c5c3_api::c5c3::{ControlPlane, ControlPlaneSpec, CredentialRotation, ImageStore, RotationType, Storage};
use c5c3_api::ext::rook::{CephBlockPool, CephClient, CephClientSpec, NAMESPACE};
use c5c3_api::{Problem, problem};
use c5c3_kit::ownership::{MANAGED_BY, label};
use c5c3_kit::{Child, Inputs, KindRef, Plan, Ref, Step, Wait, readiness};
use k8s_openapi::api::core::v1::Secret;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::cloud::Cloud;
use super::identity;
use super::part::Part;
use super::parts::PARTS;
use crate::ceph_users::{self, delivered, source, user};
use crate::credential_rotation::{self, Names};

/// The CephCluster that is used when none is named: Rook's own manifests call it so.
const CLUSTER: &str = "rook-ceph";

/// The services that store something in Ceph.
const SERVICES: &[&str] = &["glance", "cinder", "nova"];

/// Those whose user is replaced regularly. The key of Cinder and Nova is also held by servers that run, and those would lose
/// their disks with it.
const ROTATED: &[&str] = &["glance"];

/// The services that get a key of their own, from a CephClient.
pub(super) fn users(spec: &ControlPlaneSpec) -> Vec<&'static str> {
    if brought(spec).is_some() || !is_asked_for(spec) {
        return Vec::new();
    }
    SERVICES.iter().copied().filter(|service| stores(spec, service)).collect()
}

/// Whether anything says that services store in a Ceph of ours. Otherwise a service has its own default.
fn is_asked_for(spec: &ControlPlaneSpec) -> bool {
    let services = spec.services.as_ref();
    let images = services.and_then(|services| services.glance.as_ref()?.backend.as_ref());
    let volumes = services.and_then(|services| services.cinder.as_ref()).map(|cinder| cinder.backends.as_slice());
    spec.storage.as_ref().is_some_and(|storage| !storage.storage_clusters.is_empty() || storage.ceph.is_some())
        || images.is_some_and(|backend| backend.r#type == ImageStore::Rbd)
        || volumes.unwrap_or_default().iter().any(|backend| backend.secret_ref.is_none())
}

/// Whether a service stores something in Ceph, with a key that is not its own affair. What asks for it by a field of its own is
/// never dropped for a template that says otherwise: both are then told as a conflict.
fn stores(spec: &ControlPlaneSpec, service: &str) -> bool {
    let Some(services) = &spec.services else { return false };
    match service {
        "glance" => services.glance.as_ref().is_some_and(|glance| {
            let template = glance.template.0.get("storage").and_then(|storage| storage.get("backend"));
            let is_asked = match &glance.backend {
                Some(backend) => backend.r#type == ImageStore::Rbd,
                None => template.is_none_or(|backend| backend == "rbd"),
            };
            glance.enabled && is_asked
        }),
        "cinder" => services.cinder.as_ref().is_some_and(|cinder| {
            let is_asked = match cinder.backends.as_slice() {
                [] => !cinder.template.0.contains_key("backends"),
                backends => backends.iter().any(|backend| backend.secret_ref.is_none()),
            };
            cinder.enabled && is_asked
        }),
        "nova" => services.nova.as_ref().is_some_and(|nova| nova.enabled && !nova.template.0.contains_key("storage")),
        _ => false,
    }
}

/// The Secret with the key for all services that a user provides.
fn brought(spec: &ControlPlaneSpec) -> Option<Value> {
    let secret = spec.storage.as_ref()?.ceph.as_ref()?.secret_ref.as_ref()?;
    Some(json!({"name": secret.name, "key": secret.key.as_ref().map_or("userKey", |key| key.as_str())}))
}

/// How a service reaches a pool; none if nothing says that it does.
pub(super) fn rbd(cloud: &Cloud, part: &Part, pool: &str) -> Option<Value> {
    if let Some(secret) = brought(&cloud.spec) {
        return Some(json!({"pool": pool, "cephSecretRef": secret}));
    }
    users(&cloud.spec).contains(&part.name).then(|| {
        json!({
            "pool": pool,
            "cephSecretRef": {"name": delivered(part.name)},
            "cephClientRef": {"name": part.name, "namespace": NAMESPACE},
        })
    })
}

/// The pool of images.
pub(super) fn images(spec: &ControlPlaneSpec) -> String {
    let backend = spec.services.as_ref().and_then(|services| services.glance.as_ref()?.backend.as_ref());
    let own = backend.and_then(|backend| backend.pool.clone());
    own.or_else(|| pools(spec)?.images.clone()).unwrap_or_else(|| "images".into())
}

/// The pool of volumes, of a backend that does not say.
pub(super) fn volumes(spec: &ControlPlaneSpec) -> String {
    pools(spec).and_then(|pools| pools.volumes.clone()).unwrap_or_else(|| "volumes".into())
}

/// The pool of the disks of servers.
pub(super) fn ephemeral(spec: &ControlPlaneSpec) -> String {
    pools(spec).and_then(|pools| pools.ephemeral.clone()).unwrap_or_else(|| "vms".into())
}

fn pools(spec: &ControlPlaneSpec) -> Option<&c5c3_api::c5c3::CephPools> {
    spec.storage.as_ref()?.ceph.as_ref()?.pools.as_ref()
}

/// The pool of backups, if Cinder makes them with the key of ours.
fn backups(spec: &ControlPlaneSpec) -> Option<String> {
    let backup = spec.services.as_ref()?.cinder.as_ref()?.template.0.get("backup")?;
    let is_ours = backup["cephSecretRef"]["name"] == delivered("cinder");
    is_ours.then(|| backup["pool"].as_str().unwrap_or("backups").to_owned())
}

/// The pools of volumes that Cinder writes to with the key of ours.
fn volume_pools(spec: &ControlPlaneSpec) -> Vec<String> {
    let backends = spec.services.as_ref().and_then(|services| services.cinder.as_ref()).map(|cinder| &cinder.backends);
    let keyless = backends.into_iter().flatten().filter(|backend| backend.secret_ref.is_none());
    let mut pools: Vec<String> = keyless.map(|backend| backend.pool.clone().unwrap_or_else(|| volumes(spec))).collect();
    if pools.is_empty() {
        pools.push(volumes(spec));
    }
    pools.sort();
    pools.dedup();
    pools
}

/// What the user of a service may do: write to its own pools, and read images to make copies of them.
fn caps(spec: &ControlPlaneSpec, service: &str) -> BTreeMap<String, String> {
    let (images, servers) = (images(spec), ephemeral(spec));
    let write =
        |pools: &[String]| pools.iter().map(|pool| format!("profile rbd pool={pool}")).collect::<Vec<_>>().join(", ");
    let read = format!("profile rbd-read-only pool={images}");
    let volumes = volume_pools(spec);
    let with = |pools: Vec<String>, more: Option<&str>, managed: Vec<String>| {
        let osd = [Some(write(&pools)), more.map(str::to_owned)].into_iter().flatten().collect::<Vec<_>>().join(", ");
        [("mon", "profile rbd".to_owned()), ("osd", osd), ("mgr", write(&managed))]
    };
    let caps = match service {
        "glance" => with(vec![images.clone()], None, vec![images]),
        "cinder" => {
            let backups = backups(spec).filter(|pool| !volumes.contains(pool));
            let own = volumes.into_iter().chain(backups).chain([servers]).collect::<Vec<_>>();
            with(own.clone(), Some(&read), own)
        }
        _ => with([vec![servers.clone()], volumes].concat(), Some(&read), vec![servers]),
    };
    caps.map(|(daemon, cap)| (daemon.to_owned(), cap)).into()
}

fn cluster(cloud: &Cloud) -> Ref {
    let named = cloud.spec.storage.as_ref().and_then(|storage| storage.storage_clusters.first());
    ceph_users::cluster(named.map_or_else(|| CLUSTER.to_owned(), ToString::to_string))
}

/// What the users of a service are called; one, or two while it is rotated.
fn users_of(service: &str, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Vec<String> {
    if !ROTATED.contains(&service) {
        return vec![service.to_owned()];
    }
    let rotation = inputs.typed::<CredentialRotation>(&rotation(service, cloud)).ok();
    credential_rotation::ceph_users(inputs, rotation.as_ref(), &names(service, cloud)).into_iter().collect()
}

/// The user of a service that was replaced, and that nothing uses any more.
fn replaced(service: &str, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<Ref> {
    let rotation = inputs.typed::<CredentialRotation>(&rotation(service, cloud)).ok();
    let found = credential_rotation::replaced_ceph_user(inputs, rotation.as_ref(), &names(service, cloud));
    found.filter(|_| ROTATED.contains(&service)).map(|name| user(&name))
}

fn names(service: &str, cloud: &Cloud) -> Names {
    Names { service: service.to_owned(), namespace: cloud.namespace.clone(), kind: RotationType::CephUser }
}

fn rotation(service: &str, cloud: &Cloud) -> Ref {
    Ref::namespaced::<CredentialRotation>(&cloud.namespace, format!("{service}-ceph-rotation"))
}

fn secret(service: &str, cloud: &Cloud) -> Ref {
    Ref::namespaced::<Secret>(&cloud.namespace, delivered(service))
}

fn pool(name: &str) -> Ref {
    Ref::namespaced::<CephBlockPool>(NAMESPACE, name)
}

/// Uses a CephCluster that is there by Rook's own name, where a ControlPlane says nothing about storage.
pub(super) fn by_convention(cloud: &mut Cloud, inputs: &Inputs<ControlPlane>) {
    let is_silent = brought(&cloud.spec).is_none() && !is_asked_for(&cloud.spec);
    if is_silent && inputs.get(&cluster(cloud)).is_some() {
        let storage = cloud.spec.storage.get_or_insert_with(Storage::default);
        storage.ceph = Some(c5c3_api::c5c3::Ceph::default());
    }
}

/// What is read. Of a cloud that says nothing about storage, only whether there is a CephCluster.
pub(super) fn needs(cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Vec<Ref> {
    let services = users(&cloud.spec);
    if services.is_empty() {
        let may = brought(&cloud.spec).is_none() && SERVICES.iter().any(|service| stores(&cloud.spec, service));
        return may.then(|| cluster(cloud)).into_iter().collect();
    }
    let of_services = services.iter().flat_map(|service| {
        let users = users_of(service, cloud, inputs);
        let of_users = users.iter().flat_map(|name| [user(name), source(name)]).collect::<Vec<_>>();
        of_users.into_iter().chain([rotation(service, cloud), secret(service, cloud)])
    });
    let shown = [pool(&images(&cloud.spec)), pool(&volumes(&cloud.spec))];
    [cluster(cloud), ceph_users::endpoints()].into_iter().chain(shown).chain(of_services).collect()
}

/// What is wrong with what a ControlPlane says about storage.
pub(super) fn problems(cloud: &Cloud) -> Vec<Problem> {
    let clusters = cloud.spec.storage.as_ref().map(|storage| storage.storage_clusters.as_slice()).unwrap_or_default();
    let several = (clusters.len() > 1).then(|| {
        let what = format!("names {} clusters, and the services of a cloud use one", clusters.len());
        problem("spec.storage.storageClusters", what, format!("keep one of them, such as \"{}\"", clusters[0]))
    });
    several.into_iter().collect()
}

/// The CephClients, once their cluster is there.
pub(super) fn clients(_: &'static Part, step: Step, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Step {
    let cluster = cluster(cloud);
    let Some(found) = inputs.get(&cluster) else {
        let remedy = "create the CephCluster, or name another one in spec.storage.storageClusters, a Secret with a key in \
                      spec.storage.ceph.secretRef, or set spec.services.glance.backend.type to file";
        let wait = inputs.missing(&cluster).because("services store images and volumes in it").look_at(remedy);
        return step.undecided([wait]);
    };
    let step = match readiness::wait(&cluster, found) {
        Some(wait) => step.wait(wait.because("services store images and volumes in it")),
        None => step,
    };
    let gone = users(&cloud.spec).into_iter().filter_map(|service| replaced(service, cloud, inputs));
    let step = step.released(gone);
    let named = |service| users_of(service, cloud, inputs).into_iter().map(move |name| (service, name));
    step.children(users(&cloud.spec).into_iter().flat_map(named).map(|(service, name)| {
        let metadata = ObjectMeta { name: Some(name), namespace: Some(NAMESPACE.into()), ..ObjectMeta::default() };
        let spec = CephClientSpec { caps: caps(&cloud.spec, service), ..CephClientSpec::default() };
        let remedy = "delete it if no other cloud uses it, or put a key into a Secret and name that in \
                      spec.storage.ceph.secretRef";
        Child::new(&CephClient { metadata, spec, status: None }).on_conflict(remedy)
    }))
}

/// The Secrets that services read, once Rook has made the keys.
pub(super) fn keys(_: &'static Part, step: Step, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Step {
    let made = users(&cloud.spec).into_iter().map(|service| credentials(service, cloud, inputs));
    match made.collect::<Result<Vec<Option<Child>>, Wait>>() {
        Ok(children) => step.children(children.into_iter().flatten()),
        Err(wait) => step.undecided([wait]),
    }
}

/// What a service gets its key by: a Secret, or a rotation that writes it. None if a user provides the Secret.
fn credentials(service: &str, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Result<Option<Child>, Wait> {
    let secret = secret(service, cloud);
    if ROTATED.contains(&service) {
        let found = inputs.get(&secret);
        let is_brought = found.is_some_and(|it| label(&it.metadata, MANAGED_BY).is_none_or(|by| by != crate::NAME));
        return Ok((!is_brought).then(|| rotation_of(service, cloud)));
    }
    let key = ceph_users::key(inputs, service)?;
    let data = ceph_users::credentials(inputs, &cluster(cloud), service, &key)?;
    let metadata = ObjectMeta { name: Some(secret.name), namespace: secret.namespace, ..ObjectMeta::default() };
    let child = Child::new(&Secret { metadata, data: Some(data), ..Secret::default() });
    Ok(Some(child.on_conflict("delete it, or name it in spec.storage.ceph.secretRef to use it as it is")))
}

fn rotation_of(service: &str, cloud: &Cloud) -> Child {
    let mut spec = identity::rotation(service, "cephUser");
    spec["cephCluster"] = json!(cluster(cloud).name);
    if let Some(KindRef { resource, .. }) = PARTS.iter().find(|part| part.name == service).and_then(|part| part.kind())
    {
        spec["consumers"] = json!([{"apiVersion": resource.api_version, "kind": resource.kind, "name": service}]);
    }
    identity::child::<CredentialRotation>(cloud, &rotation(service, cloud).name, &spec)
}

/// What the users lack.
pub(super) fn missing_clients(_: &Part, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<String> {
    let names = users(&cloud.spec).into_iter().flat_map(|service| users_of(service, cloud, inputs));
    [cluster(cloud)].into_iter().chain(names.map(|name| user(&name))).find_map(|it| lacks(&it, cloud, inputs))
}

fn lacks(reference: &Ref, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<String> {
    match inputs.get(reference) {
        None => Some(format!("{} does not exist yet", reference.relative_to(Some(&cloud.namespace)))),
        Some(found) => readiness::wait(reference, found).map(|wait| wait.message(Some(&cloud.namespace))),
    }
}

/// What the Secrets lack.
pub(super) fn missing_keys(_: &Part, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<String> {
    users(&cloud.spec).into_iter().find_map(|service| {
        let made = credentials(service, cloud, inputs);
        let is_rotated = ROTATED.contains(&service) && matches!(made, Ok(Some(_)));
        let lacking = is_rotated.then(|| lacks(&rotation(service, cloud), cloud, inputs)).flatten();
        made.err().map(|wait| wait.message(Some(&cloud.namespace))).or(lacking)
    })
}

/// Adds how the pools are.
pub(super) fn status(plan: Plan, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Plan {
    if users(&cloud.spec).is_empty() {
        return plan;
    }
    let state = |name: &str| match inputs.get(&pool(name)) {
        None => "NotFound".to_owned(),
        Some(found) => found.data["status"]["phase"].as_str().unwrap_or("Pending").chars().take(64).collect(),
    };
    let pools = json!({"imagePool": state(&images(&cloud.spec)), "volumePool": state(&volumes(&cloud.spec))});
    plan.status("ceph", pools)
}
