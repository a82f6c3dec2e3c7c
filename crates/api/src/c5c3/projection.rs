//! What a ControlPlane sets in the spec of a service, as far as rules of the service's kind depend on it. A template is judged
//! together with this, so that it repeats nothing; the operator writes the whole specs, and judges those.

use serde_json::{Map, Value, json};

use super::{CinderService, ControlPlaneSpec, GlanceService, ImageStore};

/// The services that talk to each other over a message broker.
const ON_A_BROKER: &[&str] = &["nova", "neutron", "cinder"];

/// The fields of a service's spec that the ControlPlane sets.
pub(super) fn projected(service: &str, spec: &ControlPlaneSpec) -> Map<String, Value> {
    let services = spec.services.as_ref();
    let own = match service {
        "glance" => services.and_then(|services| services.glance.as_ref()).map(images),
        "nova" => {
            let named = spec.compute.as_ref().is_some_and(|compute| !compute.hypervisor_clusters.is_empty());
            // The nodes of this cluster are hypervisors unless others are named.
            (!named).then(|| vec![("compute", Some(json!({})))])
        }
        "cinder" => services.and_then(|services| services.cinder.as_ref()).map(|cinder| volumes(cinder, spec)),
        _ => None,
    };
    let fields = own.unwrap_or_default().into_iter().chain(common(service, spec));
    fields.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// A field, if the ControlPlane sets it.
type Field = (&'static str, Option<Value>);

/// What every service stands on: an address that is written, or an object.
fn common(service: &str, spec: &ControlPlaneSpec) -> [Field; 4] {
    let parts = spec.infrastructure.clone().unwrap_or_default();
    let object = |name: &str| json!({"clusterRef": {"name": name}});
    let mariadb = parts.mariadb.and_then(|server| server.host).map(|host| json!({ "host": host }));
    let brokers = parts.rabbitmq.and_then(|broker| broker.hosts).map(|hosts| json!({ "hosts": hosts }));
    let servers = parts.memcached.and_then(|cache| cache.servers).map(|servers| json!({ "servers": servers }));
    let tls = spec.global.as_ref().and_then(|global| global.tls.as_ref()).filter(|tls| tls.enabled == Some(true));
    let issuer = tls.and_then(|tls| tls.issuer_ref.as_ref());
    [
        ("database", Some(mariadb.unwrap_or_else(|| object("mariadb")))),
        ("messaging", ON_A_BROKER.contains(&service).then(|| brokers.unwrap_or_else(|| object("rabbitmq")))),
        ("cache", Some(servers.unwrap_or_else(|| object("memcached")))),
        ("tls", issuer.map(|issuer| json!({"enabled": true, "issuerRef": issuer}))),
    ]
}

/// Where images are stored, and by how many pods: whether a volume of one node is allowed depends on it.
fn images(glance: &GlanceService) -> Vec<Field> {
    let on_a_volume = glance.backend.as_ref().is_some_and(|backend| backend.r#type == ImageStore::File);
    let other = glance.template.0.get("storage").and_then(|storage| storage.get("backend"));
    let storage = if on_a_volume {
        Some(json!({"backend": "file"}))
    } else {
        // The Secret is that of the keys which are made for Glance; no rule depends on its name.
        let pool = || json!({"rbd": {"cephSecretRef": {"name": "glance-ceph-credentials"}}});
        other.is_none_or(|backend| backend == "rbd").then(pool)
    };
    let replicas = glance.replicas.map(|replicas| json!(replicas)).or_else(|| on_a_volume.then(|| json!(1)));
    vec![("replicas", replicas), ("storage", storage)]
}

/// The backends of volumes, which the default type is one of, and what lets several pods serve one backend.
fn volumes(cinder: &CinderService, spec: &ControlPlaneSpec) -> Vec<Field> {
    let written: Vec<&str> = cinder.backends.iter().map(|backend| backend.name.as_str()).collect();
    // Without any there is one by convention, if there is a Ceph.
    let names = if written.is_empty() { vec!["ceph"] } else { written };
    let backend = |name: &str| json!({"name": name, "rbd": {"cephSecretRef": {"name": "cinder-ceph-credentials"}}});
    let replicas = cinder.volume.as_ref().and_then(|volume| volume.replicas);
    vec![
        ("backends", Some(names.into_iter().map(backend).collect())),
        ("volume", replicas.map(|replicas| json!({ "replicas": replicas }))),
        ("coordination", is_coordinated(spec).then(|| json!({"secretRef": {"name": "valkey-valkey-binding"}}))),
    ]
}

/// Whether pods of one backend can agree on who changes a volume.
pub(super) fn is_coordinated(spec: &ControlPlaneSpec) -> bool {
    spec.infrastructure.as_ref().is_some_and(|parts| parts.valkey.is_some())
}
