//! The objects of the services, projected from a ControlPlane. Only what it decides is written: whoever wants more writes
//! it on the service's own object, where it stays.

use c5c3_api::blocks::{DependencyKind, PolicyOverrides, Replicas};
use c5c3_api::c5c3::{Component, ImageStore};
use c5c3_api::ext::mariadb::{ca_bundle_secret, client_cert_secret};
use c5c3_kit::{Child, KindRef};
use c5c3_service::image;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::accounts::{database_secret, queue_secret};
use super::cloud::{Cloud, replicas};
use super::{graph, keystone, kind};

/// A spec that is being written.
pub(super) type Spec = Map<String, Value>;

/// The object of a service; none for what is no service.
pub(super) fn child(service: &str, cloud: &Cloud) -> Option<Child> {
    let KindRef { resource, .. } = kind(service)?;
    let mut spec = Spec::new();
    // Of a service that is not known, its operator chooses one.
    if let Some(image) = image::in_release(cloud.release, service) {
        spec.insert("image".into(), json!(image));
    }
    match service {
        "keystone" => keystone::project(&mut spec, cloud),
        "glance" => glance(&mut spec, cloud),
        "placement" => placement(&mut spec, cloud),
        "nova" => nova(&mut spec, cloud),
        "neutron" => neutron(&mut spec, cloud),
        "cinder" => cinder(&mut spec, cloud),
        "cortex" => cortex(&mut spec, cloud),
        "tempest" => tempest(&mut spec, cloud),
        _ => return None,
    }
    let on = depends_on(service, cloud);
    if !on.is_empty() {
        spec.insert("dependsOn".into(), on.into());
    }
    let mut object = DynamicObject::new(service, &resource).within(&cloud.namespace);
    object.data = json!({ "spec": spec });
    Some(Child::dynamic(resource, object))
}

/// What services that talk to each other have in common.
fn common(spec: &mut Spec, service: &str, cloud: &Cloud, policies: Option<&PolicyOverrides>) {
    spec.insert("database".into(), database(service, cloud));
    spec.insert("cache".into(), cache(cloud));
    spec.insert("keystone".into(), json!({"region": cloud.region()}));
    tls(spec, cloud);
    if graph::find(service).is_some_and(|node| node.needs.contains(&"rabbitmq")) {
        spec.insert("messaging".into(), messaging(service, cloud));
    }
    policy(spec, cloud, policies);
}

pub(super) fn database(service: &str, cloud: &Cloud) -> Value {
    let written = cloud.infrastructure.mariadb.clone().unwrap_or_default();
    let secret = json!({"name": database_secret(service)});
    let mut database = match (&written.host, &written.cluster_ref) {
        (Some(host), _) => json!({"host": host, "database": service, "secretRef": secret}),
        (None, Some(existing)) => json!({"clusterRef": existing, "database": service, "secretRef": secret}),
        (None, None) => json!({"clusterRef": {"name": "mariadb"}, "database": service, "secretRef": secret}),
    };
    if let Some(port) = written.port {
        database["port"] = json!(port);
    }
    if let Some(tls) = &written.tls {
        database["tls"] = json!(tls);
    } else if written.host.is_none() && written.cluster_ref.is_none() && cloud.issuer().is_some() {
        database["tls"] = json!({
            "caSecretRef": {"name": ca_bundle_secret("mariadb")},
            "clientSecretRef": {"name": client_cert_secret("mariadb")},
        });
    }
    database
}

fn messaging(service: &str, cloud: &Cloud) -> Value {
    let written = cloud.infrastructure.rabbitmq.clone().unwrap_or_default();
    let secret = json!({"name": queue_secret(service)});
    match (written.hosts, written.cluster_ref) {
        (Some(hosts), _) => json!({"hosts": hosts, "secretRef": secret}),
        (None, Some(existing)) => json!({"clusterRef": existing, "secretRef": secret}),
        (None, None) => json!({"clusterRef": {"name": "rabbitmq"}, "secretRef": secret}),
    }
}

pub(super) fn cache(cloud: &Cloud) -> Value {
    match cloud.infrastructure.memcached.as_ref().and_then(|cache| cache.servers.as_ref()) {
        Some(servers) => json!({ "servers": servers }),
        None => json!({"clusterRef": {"name": "memcached"}}),
    }
}

pub(super) fn tls(spec: &mut Spec, cloud: &Cloud) {
    if let Some(issuer) = cloud.issuer() {
        spec.insert("tls".into(), json!({"enabled": true, "issuerRef": issuer}));
    }
}

pub(super) fn policy(spec: &mut Spec, cloud: &Cloud, own: Option<&PolicyOverrides>) {
    if let Some(policies) = cloud.policies(own) {
        spec.insert("policyOverrides".into(), json!(policies));
    }
}

fn glance(spec: &mut Spec, cloud: &Cloud) {
    let written = cloud.services.glance.as_ref();
    common(spec, "glance", cloud, written.and_then(|glance| glance.policy_overrides.as_ref()));
    let backend = written.and_then(|glance| glance.backend.as_ref());
    // A volume is mounted by one pod at a time.
    let default = if backend.is_some_and(|backend| backend.r#type == ImageStore::File) { 1 } else { 2 };
    spec.insert("replicas".into(), replicas(written.and_then(|glance| glance.replicas), default).into());
    let storage = match (backend.map(|backend| backend.r#type), ceph(cloud)) {
        (Some(ImageStore::File), _) => json!({"backend": "file"}),
        (_, Some(secret)) => {
            let pool = backend.and_then(|backend| backend.pool.clone());
            let pool = pool.or_else(|| pools(cloud).and_then(|pools| pools.images.clone()));
            json!({"backend": "rbd", "rbd": rbd(pool.as_deref().unwrap_or("images"), &secret)})
        }
        (_, None) => return,
    };
    spec.insert("storage".into(), storage);
}

fn placement(spec: &mut Spec, cloud: &Cloud) {
    let written = cloud.services.placement.as_ref();
    common(spec, "placement", cloud, written.and_then(|placement| placement.policy_overrides.as_ref()));
    spec.insert("replicas".into(), replicas(written.and_then(|placement| placement.replicas), 2).into());
}

fn nova(spec: &mut Spec, cloud: &Cloud) {
    let Some(written) = cloud.services.nova.as_ref() else { return };
    common(spec, "nova", cloud, written.policy_overrides.as_ref());
    spec.insert("api".into(), component(written.api.as_ref(), 3));
    let mut scheduler = component(written.scheduler.as_ref(), 2);
    if cloud.has("cortex") {
        scheduler["externalScheduler"] = json!({"enabled": true});
    }
    spec.insert("scheduler".into(), scheduler);
    spec.insert("conductor".into(), component(written.conductor.as_ref(), 2));
    let clusters =
        cloud.spec.compute.as_ref().map(|compute| compute.hypervisor_clusters.as_slice()).unwrap_or_default();
    if !clusters.is_empty() {
        let cells = clusters.iter().map(|cluster| json!({"name": cluster, "computeRef": {"name": cluster}}));
        spec.insert("cells".into(), cells.collect());
    }
    if let Some(secret) = ceph(cloud) {
        let pool = pools(cloud).and_then(|pools| pools.ephemeral.clone()).unwrap_or_else(|| "vms".into());
        spec.insert("storage".into(), json!({"backend": "rbd", "rbd": rbd(&pool, &secret)}));
    }
}

fn neutron(spec: &mut Spec, cloud: &Cloud) {
    let Some(written) = cloud.services.neutron.as_ref() else { return };
    common(spec, "neutron", cloud, written.policy_overrides.as_ref());
    spec.insert("api".into(), component(written.api.as_ref(), 3));
}

fn cinder(spec: &mut Spec, cloud: &Cloud) {
    let Some(written) = cloud.services.cinder.as_ref() else { return };
    common(spec, "cinder", cloud, written.policy_overrides.as_ref());
    spec.insert("api".into(), component(written.api.as_ref(), 2));
    spec.insert("scheduler".into(), component(written.scheduler.as_ref(), 2));
    spec.insert("volume".into(), component(written.volume.as_ref(), 1));
    let pool = pools(cloud).and_then(|pools| pools.volumes.clone()).unwrap_or_else(|| "volumes".into());
    let backends: Vec<Value> = match (written.backends.as_slice(), ceph(cloud)) {
        ([], Some(secret)) => vec![json!({"name": "ceph", "rbd": rbd(&pool, &secret)})],
        (backends, secret) => backends
            .iter()
            .filter_map(|backend| {
                let secret = backend.secret_ref.as_ref().map(|own| json!(own)).or_else(|| secret.clone())?;
                let pool = backend.pool.as_ref().unwrap_or(&pool);
                Some(json!({"name": backend.name, "rbd": rbd(pool, &secret)}))
            })
            .collect(),
    };
    if !backends.is_empty() {
        spec.insert("backends".into(), backends.into());
    }
}

fn cortex(spec: &mut Spec, cloud: &Cloud) {
    let written = cloud.spec.cortex.as_ref().and_then(|cortex| cortex.replicas);
    spec.insert("replicas".into(), replicas(written, 2).into());
    spec.insert("keystone".into(), json!({"region": cloud.region()}));
    tls(spec, cloud);
}

fn tempest(spec: &mut Spec, cloud: &Cloud) {
    if let Some(schedule) = cloud.spec.tempest.as_ref().and_then(|tempest| tempest.schedule.as_ref()) {
        spec.insert("schedule".into(), json!(schedule));
    }
    spec.insert("keystone".into(), json!({"region": cloud.region()}));
}

fn component(written: Option<&Component>, default: i32) -> Value {
    let written: Option<Replicas> = written.and_then(|component| component.replicas);
    json!({"replicas": replicas(written, default)})
}

fn rbd(pool: &str, secret: &Value) -> Value {
    json!({"pool": pool, "cephSecretRef": secret})
}

/// The Secret with the key for Ceph.
fn ceph(cloud: &Cloud) -> Option<Value> {
    let secret = cloud.spec.storage.as_ref()?.ceph.as_ref()?.secret_ref.as_ref()?;
    Some(json!({"name": secret.name, "key": secret.key.as_ref().map_or("userKey", |key| key.as_str())}))
}

fn pools(cloud: &Cloud) -> Option<&c5c3_api::c5c3::CephPools> {
    cloud.spec.storage.as_ref()?.ceph.as_ref()?.pools.as_ref()
}

/// The objects that a service stands on. What is known by an address alone is no object, and neither is the cache, which
/// a service can do without for a while.
fn depends_on(service: &str, cloud: &Cloud) -> Vec<Value> {
    let needs = graph::find(service).map(|node| node.needs).unwrap_or_default();
    let objects = needs.iter().filter(|need| cloud.has(need)).filter_map(|need| {
        let kind = dependency(need)?;
        // A dependency is in the same namespace.
        let existing = cloud.existing(need).is_some();
        (!existing).then(|| json!({"kind": kind, "name": need, "condition": "Ready"}))
    });
    objects.collect()
}

fn dependency(node: &str) -> Option<DependencyKind> {
    Some(match node {
        "mariadb" => DependencyKind::MariaDB,
        "rabbitmq" => DependencyKind::RabbitmqCluster,
        "keystone" => DependencyKind::Keystone,
        "glance" => DependencyKind::Glance,
        "placement" => DependencyKind::Placement,
        "nova" => DependencyKind::Nova,
        "neutron" => DependencyKind::Neutron,
        "cinder" => DependencyKind::Cinder,
        _ => return None,
    })
}
