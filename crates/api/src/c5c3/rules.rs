//! What is wrong with a ControlPlane beyond its schema, and its second spellings.

use c5c3_schema::Problem;

use super::projection::{is_coordinated, projected};
use super::{ControlPlane, ControlPlaneSpec, CortexDomain, GlanceService, ImageStore, Template};
use crate::alias::{Alias, alias};
use crate::blocks::{CronSchedule, Duration};
use crate::catalog::{Rules, problem};

impl Rules for ControlPlane {
    const ALIASES: &'static [Alias] = &[
        alias("openstack", "services"),
        alias("region", "global.region"),
        alias("tls.enabled", "global.tls.enabled"),
        alias("tls.issuerRef", "global.tls.issuerRef.name"),
        alias("infrastructure.database", "infrastructure.mariadb"),
        alias("infrastructure.messaging", "infrastructure.rabbitmq"),
        alias("infrastructure.cache", "infrastructure.memcached"),
        alias("identity.keystone.replicas", "services.keystone.replicas"),
        alias("services.nova.replicas.api", "services.nova.api.replicas"),
        alias("services.nova.replicas.scheduler", "services.nova.scheduler.replicas"),
        alias("services.nova.replicas.conductor", "services.nova.conductor.replicas"),
        alias("services.neutron.replicas", "services.neutron.api.replicas"),
        alias("services.cinder.replicas.api", "services.cinder.api.replicas"),
        alias("services.cinder.replicas.scheduler", "services.cinder.scheduler.replicas"),
        alias("services.cinder.replicas.volume", "services.cinder.volume.replicas"),
    ];

    fn problems(&self) -> Vec<Problem> {
        let mut problems = missing_services(&self.spec);
        problems.extend(no_issuer(&self.spec));
        problems.extend(no_schedule(&self.spec));
        problems.extend(several_on_one_volume(&self.spec));
        problems.extend(uncoordinated(&self.spec));
        problems.extend(without_korc(&self.spec));
        problems.extend(templates(&self.spec));
        problems.extend(infrastructure(&self.spec));
        problems
    }
}

/// The least memory that a cache can do with. A number without a unit is bytes, and hardly ever meant so.
const LEAST_CACHE: u64 = 1 << 20;

/// Resources and sizes of servers that no server could start with.
fn infrastructure(spec: &ControlPlaneSpec) -> Vec<Problem> {
    let Some(infrastructure) = &spec.infrastructure else { return Vec::new() };
    let servers = [
        ("mariadb", infrastructure.mariadb.as_ref().and_then(|server| server.resources.as_ref())),
        ("rabbitmq", infrastructure.rabbitmq.as_ref().and_then(|server| server.resources.as_ref())),
        ("valkey", infrastructure.valkey.as_ref().and_then(|server| server.resources.as_ref())),
        ("memcached", infrastructure.memcached.as_ref().and_then(|server| server.resources.as_ref())),
    ];
    let mut problems: Vec<Problem> = servers
        .into_iter()
        .filter_map(|(name, resources)| Some((name, resources?)))
        .flat_map(|(name, resources)| resources.problems(&format!("spec.infrastructure.{name}.resources")))
        .collect();
    let memory = infrastructure.memcached.as_ref().and_then(|cache| cache.memory.as_ref());
    if let Some(memory) = memory.filter(|memory| memory.bytes() < LEAST_CACHE) {
        problems.push(problem(
            "spec.infrastructure.memcached.memory",
            format!("\"{memory}\" is {} bytes, which is too little for a cache", memory.bytes()),
            format!("write a unit, such as {memory}Mi"),
        ));
    }
    problems
}

fn no_issuer(spec: &ControlPlaneSpec) -> Option<Problem> {
    let tls = spec.global.as_ref()?.tls.as_ref()?;
    (tls.enabled == Some(true) && tls.issuer_ref.is_none()).then(|| {
        problem(
            "spec.global.tls.issuerRef",
            "is missing, and TLS is enabled",
            "name a cert-manager issuer, or set spec.global.tls.enabled to false",
        )
    })
}

fn no_schedule(spec: &ControlPlaneSpec) -> Option<Problem> {
    let fernet = spec.services.as_ref()?.keystone.as_ref()?.fernet.as_ref()?;
    let interval = fernet.rotation_interval.as_ref().filter(|interval| rotation_schedule(interval).is_none())?;
    Some(problem(
        "spec.services.keystone.fernet.rotationInterval",
        format!("\"{interval}\" cannot be kept as a schedule"),
        "use 1h to 23h in whole hours, or whole days up to 28, such as 24h or 168h",
    ))
}

fn several_on_one_volume(spec: &ControlPlaneSpec) -> Option<Problem> {
    let glance = spec.services.as_ref()?.glance.as_ref()?;
    let on_a_volume =
        |glance: &GlanceService| glance.backend.as_ref().is_some_and(|backend| backend.r#type == ImageStore::File);
    (on_a_volume(glance) && glance.replicas?.get() > 1).then(|| {
        problem(
            "spec.services.glance.replicas",
            "has several replicas on a volume that one node at a time can mount",
            "set it to 1, or spec.services.glance.backend.type to rbd",
        )
    })
}

/// Several pods that serve one backend, and nothing that they agree by.
fn uncoordinated(spec: &ControlPlaneSpec) -> Option<Problem> {
    let cinder = spec.services.as_ref()?.cinder.as_ref()?;
    let replicas = cinder.volume.as_ref()?.replicas?.get();
    let is_alone = !is_coordinated(spec) && !cinder.template.0.contains_key("coordination");
    (replicas > 1 && is_alone).then(|| {
        problem(
            "spec.services.cinder.volume.replicas",
            "is more than 1 without a Valkey: pods of one backend would change the same volume at the same time",
            "set spec.infrastructure.valkey, or set it to 1",
        )
    })
}

/// Settings under `spec.korc` that have no effect while K-ORC is disabled.
fn without_korc(spec: &ControlPlaneSpec) -> Vec<Problem> {
    let Some(korc) = spec.korc.as_ref().filter(|korc| !korc.enabled) else { return Vec::new() };
    let set = [
        ("spec.korc.bootstrapResources", !korc.bootstrap_resources.is_empty()),
        ("spec.korc.cloudCredentialsRef", korc.cloud_credentials_ref.is_some()),
    ];
    let unused = set.into_iter().filter(|(_, is_set)| *is_set);
    unused
        .map(|(field, _)| {
            let what = "has no effect while spec.korc.enabled is false";
            problem(field, what, "remove it, or set spec.korc.enabled to true")
        })
        .collect()
}

/// What is wrong with the services' templates, by the rules of the services' own kinds. The operator judges the whole specs, and
/// also knows what is in the cluster.
fn templates(spec: &ControlPlaneSpec) -> Vec<Problem> {
    let Some(services) = spec.services.as_ref() else { return Vec::new() };
    let templates: [(&str, &str, Option<&Template>); 6] = [
        ("keystone", "Keystone", services.keystone.as_ref().map(|service| &service.template)),
        ("glance", "Glance", services.glance.as_ref().map(|service| &service.template)),
        ("placement", "Placement", services.placement.as_ref().map(|service| &service.template)),
        ("nova", "Nova", services.nova.as_ref().map(|service| &service.template)),
        ("neutron", "Neutron", services.neutron.as_ref().map(|service| &service.template)),
        ("cinder", "Cinder", services.cinder.as_ref().map(|service| &service.template)),
    ];
    let written = templates.into_iter().filter_map(|(service, kind, template)| Some((service, kind, template?)));
    written.flat_map(|(service, kind, template)| template.problems(service, kind, &projected(service, spec))).collect()
}

/// The cron expression that fires every `interval`, if there is one.
pub fn rotation_schedule(interval: &Duration) -> Option<CronSchedule> {
    let seconds = interval.get().as_secs();
    let hours = seconds / 3600;
    let text = match hours {
        _ if hours == 0 || !seconds.is_multiple_of(3600) => return None,
        24 => "0 0 * * *".to_owned(),
        168 => "0 0 * * 0".to_owned(),
        1..24 => format!("0 */{hours} * * *"),
        _ if hours.is_multiple_of(24) && hours / 24 <= 28 => format!("0 0 */{} * *", hours / 24),
        _ => return None,
    };
    CronSchedule::new(text).ok()
}

/// Services that are enabled without what they cannot start without.
fn missing_services(spec: &ControlPlaneSpec) -> Vec<Problem> {
    let services = spec.services.clone().unwrap_or_default();
    let enabled = [
        ("keystone", services.keystone.is_some_and(|s| s.enabled)),
        ("glance", services.glance.is_some_and(|s| s.enabled)),
        ("placement", services.placement.is_some_and(|s| s.enabled)),
        ("nova", services.nova.is_some_and(|s| s.enabled)),
        ("neutron", services.neutron.is_some_and(|s| s.enabled)),
        ("cinder", services.cinder.is_some_and(|s| s.enabled)),
    ];
    let is_on = |name: &str| enabled.iter().any(|(service, on)| *service == name && *on);
    let cortex = spec.cortex.as_ref().is_some_and(|cortex| cortex.enabled);
    let decides = |domain: CortexDomain| cortex && spec.cortex_pipelines().contains(&domain);
    let needs: &[(&str, bool, &[&str])] = &[
        ("spec.services.glance", is_on("glance"), &["keystone"]),
        ("spec.services.placement", is_on("placement"), &["keystone"]),
        ("spec.services.nova", is_on("nova"), &["keystone", "placement", "glance"]),
        ("spec.services.neutron", is_on("neutron"), &["keystone"]),
        ("spec.services.cinder", is_on("cinder"), &["keystone"]),
        ("spec.cortex", decides(CortexDomain::Nova), &["nova"]),
        ("spec.cortex", decides(CortexDomain::Cinder), &["cinder"]),
        ("spec.korc", spec.korc.as_ref().is_some_and(|korc| korc.enabled), &["keystone"]),
        ("spec.tempest", spec.tempest.as_ref().is_some_and(|t| t.enabled), &["keystone"]),
    ];
    let mut problems = Vec::new();
    for (path, on, needed) in needs {
        let missing: Vec<&str> = needed.iter().copied().filter(|name| *on && !is_on(name)).collect();
        if !missing.is_empty() {
            problems.push(problem(
                *path,
                format!("is enabled without {}, which it cannot start without", missing.join(" and ")),
                format!("enable {}, or set {path}.enabled to false", missing.join(" and ")),
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn said(spec: &Value) -> Vec<String> {
        let spec: ControlPlaneSpec = serde_json::from_value(spec.clone()).unwrap();
        templates(&spec).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_template_repeats_nothing_that_the_control_plane_sets() {
        let bucket = json!({"endpoint": "http://gateway", "bucket": "images", "secretRef": {"name": "objects"}});
        let more = json!({"storage": {"stores": [{"name": "objects", "s3": bucket}]}});
        let glance = |backend: &str| json!({"services": {"glance": {"backend": {"type": backend}, "template": more}}});
        assert_eq!(said(&glance("rbd")), Vec::<String>::new());
        assert_eq!(said(&glance("file")), Vec::<String>::new());
        let cells =
            json!([{"name": "cell1", "nodeSelector": {"rack": "a"}}, {"name": "cell2", "nodeSelector": {"rack": "b"}}]);
        let mut nova = json!({"services": {"nova": {"template": {"cells": cells}}}});
        assert_eq!(said(&nova), Vec::<String>::new());
        // Hypervisors of other clusters are named, so that nodes of this one are none.
        nova["compute"] = json!({"hypervisorClusters": ["far"]});
        assert!(said(&nova)[0].contains("selects nodes, but spec.compute is absent"), "{:?}", said(&nova));
    }

    #[test]
    fn volumes_are_judged_with_the_backends_and_the_valkey_of_the_control_plane() {
        let template = json!({"defaultVolumeType": "fast", "volume": {"replicas": 2}});
        let mut spec = json!({"infrastructure": {"valkey": {}}, "services": {"cinder": {
            "backends": [{"name": "slow", "type": "rbd"}, {"name": "fast", "type": "rbd"}], "template": template}}});
        assert_eq!(said(&spec), Vec::<String>::new());
        spec["services"]["cinder"]["template"]["defaultVolumeType"] = json!("other");
        assert!(said(&spec)[0].contains("is not the name of a backend"), "{:?}", said(&spec));
        spec["services"]["cinder"]["template"] = json!({"volume": {"replicas": 2}});
        spec["infrastructure"] = json!({});
        assert!(said(&spec)[0].contains("is more than 1 without coordination"), "{:?}", said(&spec));
        // By convention the one backend is called so.
        let usual = |name: &str| said(&json!({"services": {"cinder": {"template": {"defaultVolumeType": name}}}}));
        assert_eq!((usual("ceph"), usual("other").len()), (Vec::new(), 1));
    }

    #[test]
    fn several_volume_pods_need_a_valkey_whether_or_not_there_is_a_template() {
        let pods = |infrastructure: Value, template: Value| {
            let cinder = json!({"volume": {"replicas": 2}, "template": template});
            let spec = json!({"infrastructure": infrastructure, "services": {"cinder": cinder}});
            uncoordinated(&serde_json::from_value(spec).unwrap()).map(|problem| problem.path)
        };
        assert_eq!(pods(json!({}), json!({})).as_deref(), Some("spec.services.cinder.volume.replicas"));
        assert_eq!(pods(json!({"valkey": {}}), json!({})), None);
        assert_eq!(pods(json!({}), json!({"coordination": {"secretRef": {"name": "mine"}}})), None);
    }

    #[test]
    fn a_template_goes_with_the_certificates_and_the_servers_of_the_control_plane() {
        let with = |more: Value, template: Value| {
            let mut spec = json!({"services": {"placement": {"template": template}}});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            said(&spec)
        };
        let tls = json!({"global": {"tls": {"enabled": true, "issuerRef": {"name": "ca"}}}});
        let image = json!({"tls": {"enabled": true}});
        assert_eq!(with(tls.clone(), image.clone()), Vec::<String>::new());
        assert!(with(json!({}), image)[0].contains("is enabled without a certificate"));
        let gateway = json!({"gateway": {"parentRef": {"name": "edge"}, "hostname": "placement.example.net"}});
        assert_eq!(with(json!({}), gateway.clone()), Vec::<String>::new());
        assert!(with(tls, gateway)[0].contains("leads to pods that speak TLS"));
        let port = json!({"database": {"port": 3307}});
        let elsewhere = json!({"infrastructure": {"mariadb": {"host": "db.example.net"}}});
        assert_eq!(with(elsewhere, port.clone()), Vec::<String>::new());
        assert!(with(json!({}), port)[0].contains("sets port without host"));
    }

    #[test]
    fn an_interval_becomes_a_schedule_or_is_refused() {
        let schedule = |text: &str| rotation_schedule(&Duration::new(text).unwrap()).map(|s| s.to_string());
        assert_eq!(schedule("24h").as_deref(), Some("0 0 * * *"));
        assert_eq!(schedule("168h").as_deref(), Some("0 0 * * 0"));
        assert_eq!(schedule("48h").as_deref(), Some("0 0 */2 * *"));
        assert_eq!(schedule("6h").as_deref(), Some("0 */6 * * *"));
        for refused in ["90m", "30s", "25h", "960h"] {
            assert_eq!(schedule(refused), None, "{refused}");
        }
    }
}
