//! The Memcached servers that a service caches in.

use c5c3_api::blocks::Cache;
use c5c3_api::{Problem, problem};
use c5c3_kit::{Inputs, Ref, Wait};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::Resource;
use kube::core::ApiResource;

use crate::instance::{Instance, host};
use crate::network::Egress;

/// The port of a Memcached.
pub const PORT: i32 = 11211;

/// The backend when a spec names none.
const BACKEND: &str = "dogpile.cache.pymemcache";

/// Which cache a service has.
#[derive(Clone, Debug)]
pub struct Servers {
    given: Option<Vec<String>>,
    cluster: Ref,
}

impl Servers {
    /// The cache of a spec, or what is used by convention: `memcached`.
    pub fn new(instance: &Instance, spec: Option<&Cache>) -> Self {
        let reference = spec.and_then(|spec| spec.cluster_ref.as_ref());
        let namespace = reference.and_then(|reference| reference.namespace.as_ref()).map(ToString::to_string);
        let name = reference.map_or_else(|| "memcached".to_owned(), |reference| reference.name.to_string());
        let servers = spec.and_then(|spec| spec.servers.as_ref());
        Self {
            given: servers.map(|servers| servers.iter().map(ToString::to_string).collect()),
            cluster: Ref {
                resource: memcached(),
                namespace: Some(namespace.unwrap_or_else(|| instance.namespace.clone())),
                name,
            },
        }
    }

    /// What has to be read: an object of a Memcached operator, or the StatefulSet that a ControlPlane makes without one.
    pub fn needs(&self) -> Vec<Ref> {
        if self.given.is_some() { Vec::new() } else { vec![self.cluster.clone(), self.stateful_set()] }
    }

    fn stateful_set(&self) -> Ref {
        Ref::namespaced::<StatefulSet>(self.cluster.namespace.clone().unwrap_or_default(), &self.cluster.name)
    }

    /// The servers as `host:port`, or the wait for them. A cache may be empty or partly down, so its
    /// readiness is not waited for, only its addresses.
    pub fn addresses<K: Resource>(&self, inputs: &Inputs<K>) -> Result<Vec<String>, Wait> {
        if let Some(given) = &self.given {
            return Ok(given.clone());
        }
        let because = "tokens and lookups are cached there";
        if let Some(object) = inputs.get(&self.cluster) {
            let listed = object.data["status"]["serverList"].as_array().into_iter().flatten();
            let servers: Vec<String> = listed.filter_map(|server| server.as_str().map(ToOwned::to_owned)).collect();
            let wait =
                Wait::on(&self.cluster).condition("has a serverList").now("has no serverList yet").because(because);
            return if servers.is_empty() { Err(wait.with_reason("WaitingForCache")) } else { Ok(servers) };
        }
        let reference = self.stateful_set();
        let set: StatefulSet =
            inputs.typed(&reference).map_err(|wait| wait.because(because).with_reason("WaitingForCache"))?;
        let spec = set.spec.unwrap_or_default();
        let service = host(
            &spec.service_name.unwrap_or_else(|| reference.name.clone()),
            reference.namespace.as_deref().unwrap_or_default(),
        );
        Ok((0..spec.replicas.unwrap_or(1))
            .map(|index| format!("{}-{index}.{service}:{PORT}", reference.name))
            .collect())
    }

    /// What pods have to reach: the ports of the servers, which are in a namespace unless they are external.
    pub fn egress(&self, servers: &[String]) -> Vec<Egress> {
        let namespace = self.cluster.namespace.clone().filter(|_| self.given.is_none());
        let port = |server: &String| server.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(PORT);
        servers.iter().map(|server| Egress::new(namespace.clone(), port(server))).collect()
    }
}

/// The dogpile backend of a spec, or the usual one.
pub fn backend(spec: Option<&Cache>) -> &str {
    spec.and_then(|spec| spec.backend.as_deref()).unwrap_or(BACKEND)
}

/// What is wrong with a backend of a service that caches nothing but tokens, in the way of keystonemiddleware.
pub fn no_backend(spec: Option<&Cache>) -> Option<Problem> {
    let what = "has no effect: the service caches tokens alone, and what validates them has no backends";
    spec?.backend.as_ref().map(|_| problem("spec.cache.backend", what, "remove it"))
}

/// The kind of a Memcached operator's objects. We hold no slice of it: all that is read is the list of servers.
pub(crate) fn memcached() -> ApiResource {
    ApiResource {
        group: "memcached.c5c3.io".into(),
        version: "v1beta1".into(),
        api_version: "memcached.c5c3.io/v1beta1".into(),
        kind: "Memcached".into(),
        plural: "memcacheds".into(),
    }
}
