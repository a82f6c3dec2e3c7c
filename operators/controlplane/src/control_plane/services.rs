//! The objects of the services, projected from a ControlPlane. Only what it decides is written; a template adds to that, and
//! fields that others write on the object stay as they are.

use c5c3_api::Problem;
use c5c3_api::blocks::{ObjectName, PolicyOverrides, Replicas};
use c5c3_api::c5c3::{Component, CortexDomain, ImageStore, Services, Template};
use c5c3_api::ext::mariadb::{ca_bundle_secret, client_cert_secret};
use c5c3_api::ext::valkey::binding_secret;
use c5c3_kit::{Child, KindRef, cluster_domain};
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::accounts::{Account, database_secret, queue_secret};
use super::ceph;
use super::cloud::{Cloud, replicas};
use super::hypervisors;
use super::ovn;
use super::part::{Makes, Part};
use super::parts::{CINDER, CORTEX, GLANCE, KEYSTONE, MARIADB, MEMCACHED, NEUTRON, NOVA, RABBITMQ, VALKEY};
use super::policies;
use super::spec::Spec;

/// What makes the spec of a service's object.
type Project = fn(&Part, &mut Spec, &Cloud);

/// The object of a service.
pub(super) fn child(
    part: &Part,
    kind: KindRef,
    project: Project,
    template: &Map<String, Value>,
    cloud: &Cloud,
) -> Child {
    let KindRef { resource, .. } = kind;
    let mut object = DynamicObject::new(part.name, &resource).within(&cloud.namespace);
    object.data = json!({ "spec": decided(part, project, cloud).over(template) });
    let child = Child::dynamic(resource, object);
    match cloud.version(part) {
        Some(version) => child.version(version),
        None => child,
    }
}

/// The spec of a service's object, as the ControlPlane and its template have it.
pub(super) fn object(part: &Part, cloud: &Cloud) -> Value {
    let Makes::Service { project, template: written, .. } = part.makes else { return Value::Null };
    Value::Object(decided(part, project, cloud).over(&template(part, written, cloud)))
}

/// What the ControlPlane decides about a service.
fn decided(part: &Part, project: Project, cloud: &Cloud) -> Spec {
    let mut spec = Spec::default();
    if let Some(image) = cloud.image(part) {
        spec.set("image.repository", json!(image.repository), "spec.global.image.registry");
        spec.maybe("image.tag", image.tag.map(|tag| json!(tag)), "spec.openStackRelease");
    }
    project(part, &mut spec, cloud);
    operations(part, &mut spec, cloud);
    if part.holds_data && !cloud.keeps_data() && part.takes(&["deletionPolicy"]) {
        spec.set("deletionPolicy", "Delete", "spec.deletionPolicy");
    }
    let on = depends_on(part, cloud);
    if !on.is_empty() {
        spec.set("dependsOn", on, "spec.services");
    }
    spec
}

/// What a user adds to the object of a service, in the spelling that we write.
pub(super) fn template(part: &Part, template: fn(&Services) -> Option<&Template>, cloud: &Cloud) -> Map<String, Value> {
    let kind = part.kind().map(|kind| kind.resource.kind).unwrap_or_default();
    let written = template(&cloud.services).filter(|template| !template.is_empty());
    written.map(|template| template.canonical(part.name, &kind)).unwrap_or_default()
}

/// What is wrong with the templates: fields that the ControlPlane decides otherwise, and what does not go with what it decides.
pub(super) fn problems(cloud: &Cloud) -> Vec<Problem> {
    let problems = |part: &'static Part| {
        let Makes::Service { kind, project, template: written } = part.makes else { return Vec::new() };
        let template = template(part, written, cloud);
        if template.is_empty() {
            return Vec::new();
        }
        let decided = decided(part, project, cloud);
        let conflicts = decided.conflicts(&format!("{}.template", part.field), &template);
        if !conflicts.is_empty() {
            return conflicts;
        }
        Template(decided.over(&template)).problems(part.name, &kind().resource.kind, &Map::new())
    };
    cloud.parts().flat_map(problems).collect()
}

/// What is the same for every service that has a field for it.
fn operations(part: &Part, spec: &mut Spec, cloud: &Cloud) {
    let Some(global) = &cloud.spec.global else { return };
    if !cloud.pull_secrets().is_empty() && part.takes(&["imagePullSecrets"]) {
        spec.set("imagePullSecrets", json!(cloud.pull_secrets()), "spec.global.image.pullSecrets");
    }
    if let Some(logging) = global.logging.as_ref().filter(|_| part.takes(&["logging"])) {
        let from = |name: &str| format!("spec.global.logging.{name}");
        spec.maybe("logging.level", logging.level.map(|level| json!(level)), from("level"));
        spec.maybe("logging.format", logging.format.map(|format| json!(format)), from("format"));
        spec.maybe("logging.accessLog", logging.access_log, from("accessLog"));
    }
    if let Some(bundle) = global.ca_bundle_ref.as_ref().filter(|_| part.takes(&["caBundleRef"])) {
        spec.set("caBundleRef", json!(bundle), "spec.global.caBundleRef");
    }
}

/// What services that talk to each other have in common.
fn common(part: &Part, spec: &mut Spec, cloud: &Cloud, policies: Option<&PolicyOverrides>) {
    database(part, spec, cloud);
    cache(spec, cloud);
    region(spec, cloud);
    tls(part, spec, cloud);
    if part.accounts.contains(&Account::Queue) {
        messaging(part, spec, cloud);
    }
    policy(part, spec, cloud, policies);
    if let Some((endpoint, from)) = cloud.public_endpoint(part) {
        spec.set("publicEndpoint", endpoint, from);
    }
}

fn region(spec: &mut Spec, cloud: &Cloud) {
    spec.set("keystone.region", json!(cloud.region()), "spec.global.region");
}

pub(super) fn database(part: &Part, spec: &mut Spec, cloud: &Cloud) {
    let written = cloud.infrastructure.mariadb.clone().unwrap_or_default();
    match (&written.host, server(cloud)) {
        (Some(host), _) => spec.set("database.host", json!(host), format!("{}.host", MARIADB.field)),
        (None, server) => spec.set("database.clusterRef", server, format!("{}.clusterRef", MARIADB.field)),
    }
    spec.set("database.database", part.name, MARIADB.field);
    spec.set("database.secretRef", json!({"name": database_secret(part)}), MARIADB.field);
    spec.maybe("database.port", written.port.map(|port| json!(port)), format!("{}.port", MARIADB.field));
    if let Some(tls) = &written.tls {
        spec.set("database.tls", json!(tls), format!("{}.tls", MARIADB.field));
    } else if written.host.is_none() && written.cluster_ref.is_none() && cloud.issuer().is_some() {
        let tls = json!({
            "caSecretRef": {"name": ca_bundle_secret(MARIADB.name)},
            "clientSecretRef": {"name": client_cert_secret(MARIADB.name)},
        });
        spec.set("database.tls", tls, "spec.global.tls");
    }
}

/// The MariaDB object that services have their databases on; none if they are on an external server.
pub(super) fn server(cloud: &Cloud) -> Option<Value> {
    let written = cloud.infrastructure.mariadb.clone().unwrap_or_default();
    match (written.host, written.cluster_ref) {
        (Some(_), _) => None,
        (None, Some(existing)) => Some(json!(existing)),
        (None, None) => Some(json!({"name": MARIADB.name})),
    }
}

fn messaging(part: &Part, spec: &mut Spec, cloud: &Cloud) {
    let written = cloud.infrastructure.rabbitmq.clone().unwrap_or_default();
    let field = |name: &str| format!("{}.{name}", RABBITMQ.field);
    match (written.hosts, written.cluster_ref) {
        (Some(hosts), _) => spec.set("messaging.hosts", json!(hosts), field("hosts")),
        (None, Some(existing)) => spec.set("messaging.clusterRef", json!(existing), field("clusterRef")),
        (None, None) => spec.set("messaging.clusterRef", json!({"name": RABBITMQ.name}), field("clusterRef")),
    }
    spec.set("messaging.secretRef", json!({"name": queue_secret(part)}), RABBITMQ.field);
}

pub(super) fn cache(spec: &mut Spec, cloud: &Cloud) {
    let field = |name: &str| format!("{}.{name}", MEMCACHED.field);
    match cloud.infrastructure.memcached.as_ref().and_then(|cache| cache.servers.as_ref()) {
        Some(servers) => spec.set("cache.servers", json!(servers), field("servers")),
        None => spec.set("cache.clusterRef", json!({"name": MEMCACHED.name}), MEMCACHED.field),
    }
}

pub(super) fn tls(part: &Part, spec: &mut Spec, cloud: &Cloud) {
    let Some(issuer) = cloud.issuer() else { return };
    spec.set("tls.enabled", true, "spec.global.tls.enabled");
    spec.set("tls.issuerRef", json!(issuer), "spec.global.tls.issuerRef");
    let image = cloud.tls_image().filter(|_| part.takes(&["tls", "image"]));
    spec.maybe("tls.image", image.map(|image| json!(image)), "spec.global.image.registry");
}

pub(super) fn policy(part: &Part, spec: &mut Spec, cloud: &Cloud, own: Option<&PolicyOverrides>) {
    let Some(policies) = policies::of(part, own, cloud) else { return };
    let field = |name: &str| format!("{}.policyOverrides.{name}", part.field);
    if !policies.rules.is_empty() {
        spec.set("policyOverrides.rules", json!(policies.rules), field("rules"));
    }
    let map = policies.config_map_ref.map(|map| json!(map));
    spec.maybe("policyOverrides.configMapRef", map, field("configMapRef"));
}

pub(super) fn glance(part: &Part, spec: &mut Spec, cloud: &Cloud) {
    let written = cloud.services.glance.as_ref();
    common(part, spec, cloud, written.and_then(|glance| glance.policy_overrides.as_ref()));
    let backend = written.and_then(|glance| glance.backend.as_ref());
    // A volume is mounted by one pod at a time.
    let default = if backend.is_some_and(|backend| backend.r#type == ImageStore::File) { 1 } else { 2 };
    let count = replicas(written.and_then(|glance| glance.replicas), default);
    spec.set("replicas", count, format!("{}.replicas", part.field));
    let field = format!("{}.backend", part.field);
    match (backend.map(|backend| backend.r#type), ceph::rbd(cloud, part, &ceph::images(&cloud.spec))) {
        (Some(ImageStore::File), _) => spec.set("storage.backend", "file", field),
        (_, Some(rbd)) => {
            spec.set("storage.backend", "rbd", field);
            spec.set("storage.rbd", rbd, "spec.storage.ceph");
        }
        (_, None) => {}
    }
}

pub(super) fn placement(part: &Part, spec: &mut Spec, cloud: &Cloud) {
    let written = cloud.services.placement.as_ref();
    common(part, spec, cloud, written.and_then(|placement| placement.policy_overrides.as_ref()));
    let count = replicas(written.and_then(|placement| placement.replicas), 2);
    spec.set("replicas", count, format!("{}.replicas", part.field));
}

pub(super) fn nova(part: &Part, spec: &mut Spec, cloud: &Cloud) {
    let Some(written) = cloud.services.nova.as_ref() else { return };
    common(part, spec, cloud, written.policy_overrides.as_ref());
    component(part, spec, "api", written.api.as_ref(), 3);
    component(part, spec, "scheduler", written.scheduler.as_ref(), 2);
    // Cortex starts after Nova, which asks it from then on.
    if cloud.has(&CORTEX) && cloud.spec.cortex_pipelines().contains(&CortexDomain::Nova) {
        let scheme = if cloud.issuer().is_some() { "https" } else { "http" };
        let endpoint = format!("{scheme}://{}:8080", cluster_domain::service_host(CORTEX.name, &cloud.namespace));
        spec.set("scheduler.externalScheduler.enabled", true, format!("{}.enabled", CORTEX.field));
        spec.set("scheduler.externalScheduler.endpoint", endpoint, format!("{}.enabled", CORTEX.field));
    }
    component(part, spec, "conductor", written.conductor.as_ref(), 2);
    if let Some(console) = &written.console {
        let field = |name: &str| format!("{}.console.{name}", part.field);
        spec.set("console.replicas", replicas(console.replicas, 1), field("replicas"));
        let own = console.public_endpoint.as_ref().map(|url| (url.to_string(), field("publicEndpoint")));
        if let Some((url, from)) = own.or_else(|| cloud.in_domain("console")) {
            spec.set("console.publicEndpoint", url, from);
        }
    }
    let clusters =
        cloud.spec.compute.as_ref().map(|compute| compute.hypervisor_clusters.as_slice()).unwrap_or_default();
    if clusters.is_empty() {
        // Fake hypervisors have neither images of libvirt nor keys of volumes.
        if !has_fake_hypervisors(&written.template) {
            hypervisors::project(spec, cloud);
        }
    } else if !has_a_cell_of_each(&written.template, clusters) {
        // Nova knows a cell by its name alone. A number in the order of clusters would have to be remembered, and a cloud that is
        // restored without its status would give the database of one cluster to another.
        let cells = clusters.iter().map(|cluster| json!({"name": cluster, "computeRef": {"name": cluster}}));
        spec.set("cells", cells.collect::<Value>(), "spec.compute.hypervisorClusters");
    }
    if let Some(rbd) = ceph::rbd(cloud, part, &ceph::ephemeral(&cloud.spec)) {
        spec.set("storage", json!({"backend": "rbd", "rbd": rbd}), "spec.storage.ceph");
    }
}

/// Whether a Nova's template has fake hypervisors in the place of nodes.
fn has_fake_hypervisors(template: &Template) -> bool {
    template.0.get("compute").is_some_and(|compute| compute.get("fake").is_some())
}

/// Whether a Nova's template has a cell of each cluster, and no others: then it decides about their names and databases.
fn has_a_cell_of_each(template: &Template, clusters: &[ObjectName]) -> bool {
    let cells = template.0.get("cells").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let is_of = |cluster: &ObjectName| cells.iter().any(|cell| cell["computeRef"]["name"] == cluster.as_str());
    cells.len() == clusters.len() && clusters.iter().all(is_of)
}

pub(super) fn neutron(part: &Part, spec: &mut Spec, cloud: &Cloud) {
    let Some(written) = cloud.services.neutron.as_ref() else { return };
    common(part, spec, cloud, written.policy_overrides.as_ref());
    component(part, spec, "api", written.api.as_ref(), 3);
    ovn::project(spec, cloud);
}

pub(super) fn cinder(part: &Part, spec: &mut Spec, cloud: &Cloud) {
    let Some(written) = cloud.services.cinder.as_ref() else { return };
    common(part, spec, cloud, written.policy_overrides.as_ref());
    component(part, spec, "api", written.api.as_ref(), 2);
    component(part, spec, "scheduler", written.scheduler.as_ref(), 2);
    component(part, spec, "volume", written.volume.as_ref(), 1);
    if cloud.has(&VALKEY) {
        spec.set("coordination.secretRef", json!({"name": binding_secret(VALKEY.name)}), VALKEY.field);
    }
    let pool = ceph::volumes(&cloud.spec);
    let backends: Vec<Value> = match (written.backends.as_slice(), ceph::rbd(cloud, part, &pool)) {
        ([], rbd) => rbd.into_iter().map(|rbd| json!({"name": "ceph", "rbd": rbd})).collect(),
        (backends, _) => backends
            .iter()
            .map(|backend| {
                let pool = backend.pool.as_ref().unwrap_or(&pool);
                let own = backend.secret_ref.as_ref().map(|own| json!({"pool": pool, "cephSecretRef": own}));
                // Without a key of its own, and without one for all, it has one that is made for Cinder.
                json!({"name": backend.name, "rbd": own.or_else(|| ceph::rbd(cloud, part, pool))})
            })
            .collect(),
    };
    if !backends.is_empty() {
        spec.set("backends", backends, format!("{}.backends", part.field));
    }
}

pub(super) fn cortex(part: &Part, spec: &mut Spec, cloud: &Cloud) {
    let written = cloud.spec.cortex.as_ref().and_then(|cortex| cortex.replicas);
    spec.maybe("image", cloud.tls_image().map(|image| json!(image)), "spec.global.image.registry");
    spec.set("replicas", replicas(written, 2), format!("{}.replicas", part.field));
    for domain in cloud.spec.cortex_pipelines() {
        let name = json!(domain);
        let field = format!("pipelines.{}.enabled", name.as_str().unwrap_or_default());
        spec.set(&field, true, format!("{}.pipelines", part.field));
    }
    region(spec, cloud);
    tls(part, spec, cloud);
}

pub(super) fn tempest(part: &Part, spec: &mut Spec, cloud: &Cloud) {
    let schedule = cloud.spec.tempest.as_ref().and_then(|tempest| tempest.schedule.as_ref());
    spec.maybe("schedule", schedule.map(|schedule| json!(schedule)), format!("{}.schedule", part.field));
    let tested =
        [(&KEYSTONE, "identity"), (&GLANCE, "image"), (&CINDER, "volume"), (&NEUTRON, "network"), (&NOVA, "compute")];
    let tested: Vec<&str> = tested.into_iter().filter(|(part, _)| cloud.has(part)).map(|(_, name)| name).collect();
    spec.set("tests.services", json!(tested), "spec.services");
    region(spec, cloud);
}

fn component(part: &Part, spec: &mut Spec, name: &str, written: Option<&Component>, default: i32) {
    let written: Option<Replicas> = written.and_then(|component| component.replicas);
    let field = format!("{name}.replicas");
    spec.set(&field, replicas(written, default), format!("{}.{field}", part.field));
}

/// The objects that must be ready before a service starts. What is known by an address alone is no object, and one that
/// exists already may be in another namespace.
fn depends_on(part: &Part, cloud: &Cloud) -> Vec<Value> {
    let own = cloud.needs(part).filter(|need| cloud.existing(need).is_none());
    own.filter_map(|need| Some(json!({"kind": need.dependency()?, "name": need.name, "condition": "Ready"}))).collect()
}
