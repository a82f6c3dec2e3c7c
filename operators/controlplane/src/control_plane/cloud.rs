//! A ControlPlane that makes sense: defaults filled in, and what it consists of.

use std::collections::BTreeMap;

use c5c3_api::blocks::{IssuerRef, NamespacedRef, Region, Replicas};
use c5c3_api::c5c3::{ControlPlane, ControlPlaneSpec, DeletionPolicy, Infrastructure, Services};
use c5c3_api::{Problem, problem};
use c5c3_kit::Wait;
use c5c3_service::release::{self, Release};
use kube::ResourceExt;

use super::part::{Asked, Makes, Need, Part};
use super::parts::PARTS;

/// A ControlPlane whose release is known, with what is absent in it filled in.
pub struct Cloud {
    pub(super) namespace: String,
    pub(super) spec: ControlPlaneSpec,
    pub(super) infrastructure: Infrastructure,
    pub(super) services: Services,
    pub(super) release: &'static Release,
    /// The policies for all services that a ConfigMap holds; see [`super::policies::read`].
    pub(super) shared_policies: BTreeMap<String, String>,
    /// The wait for that ConfigMap.
    pub(super) policy_wait: Option<Wait>,
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
            shared_policies: BTreeMap::new(),
            policy_wait: None,
        })
    }

    /// What the cloud consists of, each part after those that it needs.
    pub(super) fn parts(&self) -> impl Iterator<Item = &'static Part> {
        PARTS.iter().copied().filter(|part| self.has(part))
    }

    /// Whether a part is in the cloud. A server that is neither asked for nor external is there when a service needs it.
    pub(super) fn has(&self, part: &Part) -> bool {
        match (part.asked)(&self.spec) {
            Asked::Yes => true,
            Asked::No => false,
            Asked::IfNeeded => PARTS.iter().any(|other| {
                (other.asked)(&self.spec) == Asked::Yes && self.hard_needs(other).any(|need| need == part)
            }),
        }
    }

    fn hard_needs(&self, part: &Part) -> impl Iterator<Item = &'static Part> {
        part.needs.iter().filter(|need| need.is_hard(&self.spec)).map(Need::part)
    }

    /// The parts of the cloud that must be ready before a part starts.
    pub(super) fn needs(&self, part: &Part) -> impl Iterator<Item = &'static Part> {
        self.hard_needs(part).filter(|need| self.has(need))
    }

    /// The object that a part uses instead of one of its own.
    pub(super) fn existing(&self, part: &Part) -> Option<&NamespacedRef> {
        match part.makes {
            Makes::Servers { existing, .. } => existing(&self.infrastructure),
            Makes::Service { .. } | Makes::Identity { .. } => None,
        }
    }

    /// The version of a part that the release asks for; none of what belongs to no release.
    pub(super) fn version(&self, part: &Part) -> Option<&'static str> {
        self.release.version(part.name)
    }

    pub(super) fn region(&self) -> Region {
        self.spec.global.as_ref().and_then(|global| global.region.clone()).unwrap_or_default()
    }

    /// Where clients outside the cluster reach a service: what its field says, or its name in the domain of the cloud.
    pub(super) fn public_endpoint(&self, part: &Part) -> Option<(String, String)> {
        let services = &self.services;
        let own = match part.name {
            "keystone" => services.keystone.as_ref().and_then(|service| service.public_endpoint.as_ref()),
            "glance" => services.glance.as_ref().and_then(|service| service.public_endpoint.as_ref()),
            "placement" => services.placement.as_ref().and_then(|service| service.public_endpoint.as_ref()),
            "nova" => services.nova.as_ref().and_then(|service| service.public_endpoint.as_ref()),
            "neutron" => services.neutron.as_ref().and_then(|service| service.public_endpoint.as_ref()),
            "cinder" => services.cinder.as_ref().and_then(|service| service.public_endpoint.as_ref()),
            _ => None,
        };
        let own = own.map(|url| (url.to_string(), format!("{}.publicEndpoint", part.field)));
        own.or_else(|| self.in_domain(part.name))
    }

    /// The URL of a name in the domain of the cloud, and where that comes from; none without a domain.
    pub(super) fn in_domain(&self, name: &str) -> Option<(String, String)> {
        let domain = self.spec.global.as_ref()?.public_domain.as_ref()?;
        Some((format!("https://{name}.{domain}"), "spec.global.publicDomain".into()))
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
