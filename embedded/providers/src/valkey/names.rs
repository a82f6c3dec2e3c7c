//! What everything that belongs to a Valkey is called.

use c5c3_api::ext::valkey::{Valkey, binding_secret};
use kube::ResourceExt;
use serde_json::{Value, json};

pub(super) const SERVER_PORT: u16 = 6379;
pub(super) const SENTINEL_PORT: u16 = 26379;

/// What clients of Sentinel call the primary.
pub(super) const PRIMARY_NAME: &str = "myprimary";

/// The names of a Valkey.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) members: i32,
    pub(super) sentinel: bool,
    /// The Secret with the certificate; none without TLS.
    pub(super) tls: Option<String>,
    binding: String,
}

impl Names {
    pub(super) fn of(valkey: &Valkey) -> Self {
        let name = valkey.name_any();
        let tls = valkey.spec.tls.as_ref().filter(|tls| tls.enabled);
        let given = valkey.spec.binding.as_ref().and_then(|binding| binding.secret_name.clone());
        Self {
            namespace: valkey.namespace().unwrap_or_default(),
            members: valkey.spec.replicas.unwrap_or(1),
            sentinel: valkey.spec.sentinel.is_some_and(|sentinel| sentinel.enabled),
            tls: tls.map(|tls| format!("valkey-{name}-{}", if tls.cert_manager.is_some() { "tls" } else { "crt" })),
            binding: given.unwrap_or_else(|| binding_secret(&name)),
            name,
        }
    }

    /// What all names begin with: the Service of a Valkey with Sentinel, and the Secret with the password.
    pub(super) fn base(&self) -> String {
        format!("valkey-{}", self.name)
    }

    /// The base with something behind it.
    pub(super) fn part(&self, part: &str) -> String {
        format!("{}-{part}", self.base())
    }

    pub(super) fn binding(&self) -> &str {
        &self.binding
    }

    /// The domain in which every member has a lasting name.
    pub(super) fn domain(&self) -> String {
        self.host(&self.part("headless"))
    }

    /// The full name of a Service.
    pub(super) fn host(&self, service: &str) -> String {
        format!("{service}.{}.svc.cluster.local", self.namespace)
    }

    /// The StatefulSets: what each is called, and how many members it has.
    pub(super) fn sets(&self) -> Vec<(&'static str, i32)> {
        match (self.sentinel, self.members) {
            (true, members) => vec![("node", members)],
            (false, 1) => vec![("primary", 1)],
            (false, members) => vec![("primary", 1), ("replicas", members - 1)],
        }
    }

    /// The lasting names of the members, the first primary first.
    pub(super) fn peers(&self) -> impl Iterator<Item = String> + '_ {
        let sets = self.sets().into_iter();
        sets.flat_map(|(part, members)| (0..members).map(move |number| (part, number)))
            .map(|(part, number)| format!("{}-{number}.{}", self.part(part), self.domain()))
    }

    /// How many sentinels must agree.
    pub(super) fn quorum(&self) -> Option<i32> {
        self.sentinel.then_some(self.members / 2 + 1)
    }

    pub(super) fn labels(&self, component: Option<&str>) -> Value {
        let mut labels = json!({"app.kubernetes.io/name": "valkey", "app.kubernetes.io/instance": self.name});
        if let Some(component) = component {
            labels["app.kubernetes.io/component"] = json!(component);
        }
        labels
    }

    /// The metadata of something that belongs to the Valkey.
    pub(super) fn metadata(&self, name: &str) -> Value {
        json!({"name": name, "namespace": self.namespace, "labels": self.labels(None)})
    }
}
