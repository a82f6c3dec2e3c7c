//! Secrets that are written to a store outside the cluster, if there is one.

use c5c3_api::blocks::{SecretStoreKind, SecretStoreRef};
use c5c3_api::ext::external_secrets::{
    ClusterSecretStore, PushData, PushSecret, PushSecretSpec, RemoteKey, SecretStore, Selector, StoreRef,
};
use c5c3_kit::{Child, Inputs, KindRef, Ref};
use kube::Resource;

use crate::instance::Instance;

/// The store that is used, if it is there, when a spec names none.
const STORE: &str = "openbao-cluster-store";

/// A store, and whether a spec asks for it.
#[derive(Clone, Debug)]
pub struct Store {
    reference: Ref,
    target: StoreRef,
    asked: bool,
}

impl Store {
    /// The store of a spec, or the one of the convention.
    pub fn new(instance: &Instance, spec: Option<&SecretStoreRef>) -> Self {
        let name = spec.map_or_else(|| STORE.to_owned(), |spec| spec.name.to_string());
        let (reference, target) = match spec.map_or(SecretStoreKind::ClusterSecretStore, |spec| spec.kind) {
            SecretStoreKind::ClusterSecretStore => {
                (Ref::cluster::<ClusterSecretStore>(&name), StoreRef::cluster(&name))
            }
            SecretStoreKind::SecretStore => {
                (Ref::namespaced::<SecretStore>(&instance.namespace, &name), StoreRef::local(&name))
            }
        };
        Self { reference, target, asked: spec.is_some() }
    }

    /// The kinds that it may be of.
    pub fn reads() -> [KindRef; 2] {
        [KindRef::of::<ClusterSecretStore>(), KindRef::of::<SecretStore>()]
    }

    /// What has to be read.
    pub fn needs(&self) -> Ref {
        self.reference.clone()
    }

    /// Writes a Secret to the store; none if there is no store and nobody asked for one.
    pub fn push<K: Resource>(&self, inputs: &Inputs<K>, instance: &Instance, secret: &str) -> Option<Child> {
        if !self.asked && inputs.get(&self.reference).is_none() {
            return None;
        }
        let Instance { service, name, namespace } = instance;
        let what = secret.strip_prefix(name.as_str()).unwrap_or(secret).trim_start_matches('-');
        let key = RemoteKey::new("", &format!("openstack/{service}/{namespace}/{name}/{what}"));
        let spec = PushSecretSpec {
            secret_store_refs: vec![self.target.clone()],
            selector: Selector::secret(secret),
            data: vec![PushData::whole(key)],
            ..PushSecretSpec::default()
        };
        let mut push = PushSecret::new(&format!("{secret}-backup"), spec);
        push.metadata = instance.meta(format!("{secret}-backup"), "backup");
        Some(Child::new(&push))
    }
}
