//! A ControlPlane that makes sense: defaults filled in, and what it consists of.

use c5c3_api::blocks::{IssuerRef, NamespacedRef, PolicyOverrides, Region, Replicas};
use c5c3_api::c5c3::{ControlPlane, ControlPlaneSpec, DeletionPolicy, Infrastructure, Services};
use c5c3_api::{Problem, problem};
use c5c3_service::release::{self, Release};
use kube::ResourceExt;

use super::graph::{GRAPH, Node};

/// A ControlPlane whose release is known, with what is absent in it filled in.
pub struct Cloud {
    pub(super) namespace: String,
    pub(super) spec: ControlPlaneSpec,
    pub(super) infrastructure: Infrastructure,
    pub(super) services: Services,
    pub(super) release: &'static Release,
}

impl Cloud {
    pub(super) fn new(object: &ControlPlane) -> Result<Self, Vec<Problem>> {
        let spec = &object.spec;
        let Some(release) = Release::of(&spec.openstack_release) else {
            return Err(vec![problem(
                "spec.openStackRelease",
                format!("\"{}\" is a release that no images are known for", spec.openstack_release),
                format!("use one of: {}", release::known()),
            )]);
        };
        if let Some(problem) = one_key_of_two(spec) {
            return Err(vec![problem]);
        }
        Ok(Self {
            namespace: object.namespace().unwrap_or_default(),
            infrastructure: spec.infrastructure.clone().unwrap_or_default(),
            services: spec.services.clone().unwrap_or_default(),
            spec: spec.clone(),
            release,
        })
    }

    /// What the cloud consists of, each after what it needs.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &'static Node> {
        GRAPH.iter().filter(|node| self.has(node.name))
    }

    /// Whether a node is a part of the cloud. Infrastructure is when it is written down, or when a service needs it; not
    /// when it is somewhere else, and known by its address.
    pub(super) fn has(&self, node: &str) -> bool {
        let parts = &self.infrastructure;
        let written = match node {
            "mariadb" => parts.mariadb.as_ref().map(|database| database.host.is_none()),
            "rabbitmq" => parts.rabbitmq.as_ref().map(|queue| queue.hosts.is_none()),
            "valkey" => Some(parts.valkey.is_some()),
            "memcached" => parts.memcached.as_ref().map(|cache| cache.servers.is_none()),
            service => Some(self.asks_for(service)),
        };
        let needed = || GRAPH.iter().any(|other| other.needs.contains(&node) && self.asks_for(other.name));
        written.unwrap_or_else(needed)
    }

    /// Whether a service is switched on.
    fn asks_for(&self, service: &str) -> bool {
        let services = &self.services;
        match service {
            "keystone" => services.keystone.as_ref().is_some_and(|service| service.enabled),
            "glance" => services.glance.as_ref().is_some_and(|service| service.enabled),
            "placement" => services.placement.as_ref().is_some_and(|service| service.enabled),
            "nova" => services.nova.as_ref().is_some_and(|service| service.enabled),
            "neutron" => services.neutron.as_ref().is_some_and(|service| service.enabled),
            "cinder" => services.cinder.as_ref().is_some_and(|service| service.enabled),
            "korc" => self.spec.korc.as_ref().is_some_and(|korc| korc.enabled),
            "cortex" => self.spec.cortex.as_ref().is_some_and(|cortex| cortex.enabled),
            "tempest" => self.spec.tempest.as_ref().is_some_and(|tempest| tempest.enabled),
            _ => false,
        }
    }

    /// The object that a node uses instead of one of its own.
    pub(super) fn existing(&self, node: &str) -> Option<&NamespacedRef> {
        match node {
            "mariadb" => self.infrastructure.mariadb.as_ref()?.cluster_ref.as_ref(),
            "rabbitmq" => self.infrastructure.rabbitmq.as_ref()?.cluster_ref.as_ref(),
            _ => None,
        }
    }

    pub(super) fn region(&self) -> Region {
        self.spec.global.as_ref().and_then(|global| global.region.clone()).unwrap_or_default()
    }

    /// Who signs certificates; none when TLS is off.
    pub(super) fn issuer(&self) -> Option<&IssuerRef> {
        let tls = self.spec.global.as_ref()?.tls.as_ref().filter(|tls| tls.enabled == Some(true))?;
        tls.issuer_ref.as_ref()
    }

    pub(super) fn is_monitored(&self) -> bool {
        let monitoring = self.spec.global.as_ref().and_then(|global| global.monitoring.as_ref());
        monitoring.is_some_and(|monitoring| monitoring.enabled)
    }

    /// Whether data outlives the ControlPlane.
    pub(super) fn keeps_data(&self) -> bool {
        self.spec.deletion_policy != DeletionPolicy::Delete
    }

    /// The policies of a service: its own rules win over those for all, and so does its own ConfigMap.
    pub(super) fn policies(&self, own: Option<&PolicyOverrides>) -> Option<PolicyOverrides> {
        let all = self.spec.global.as_ref().and_then(|global| global.policy_overrides.as_ref());
        let mut rules = all.map(|all| all.rules.clone()).unwrap_or_default();
        rules.extend(own.map(|own| own.rules.clone()).unwrap_or_default());
        let config_map_ref = [own, all].into_iter().flatten().find_map(|policies| policies.config_map_ref.clone());
        (!rules.is_empty() || config_map_ref.is_some()).then_some(PolicyOverrides { rules, config_map_ref })
    }
}

/// A client certificate is two files, whatever they are called elsewhere.
fn one_key_of_two(spec: &ControlPlaneSpec) -> Option<Problem> {
    let tls = spec.infrastructure.as_ref()?.mariadb.as_ref()?.tls.as_ref()?;
    tls.client_secret_ref.as_ref()?.key.as_ref()?;
    let what = "names one key, and a client certificate has two: tls.crt and tls.key";
    Some(problem("spec.infrastructure.mariadb.tls.clientSecretRef.key", what, "remove it"))
}

/// How many pods, of those that an API allows.
pub(super) fn replicas(written: Option<Replicas>, default: i32) -> i32 {
    written.map_or(default, Replicas::get)
}
