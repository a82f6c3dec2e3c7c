//! Secrets that are written to a store outside the cluster, if there is one, and read from it when they are gone.

use std::collections::BTreeMap;

use c5c3_api::blocks::{SecretStoreKind, SecretStoreRef};
use c5c3_api::ext::external_secrets::{
    ClusterSecretStore, CreationPolicy, DataFrom, DeletionPolicy, ExternalSecret, ExternalSecretSpec, Extract,
    PushData, PushDeletionPolicy, PushSecret, PushSecretSpec, RemoteKey, SecretStore, Selector, StoreRef, Target,
};
use c5c3_kit::retention::Retained;
use c5c3_kit::{Child, Inputs, KindRef, Ref, Wait, object, readiness};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Resource;
use serde_json::json;

use crate::instance::Instance;

/// The store that is used, if it is there, when a spec names none.
const STORE: &str = "openbao-cluster-store";

/// Which content is to be in the store. External Secrets does not watch Secrets: it writes at its interval, and at once when
/// the annotations of what asks for it change.
const VERSION: &str = "c5c3.io/content-version";

/// A store, and whether a spec asks for it.
#[derive(Clone, Debug)]
pub struct Store {
    reference: Ref,
    target: StoreRef,
    asked: bool,
}

/// What a store has of a Secret that is gone.
#[derive(Debug)]
pub enum Backup {
    /// Nothing: there is no store, or it says that it has none.
    Nothing,
    /// This.
    Found(BTreeMap<String, ByteString>),
    /// It is being asked, by this object.
    Asking(Box<Child>, Box<Wait>),
}

impl Store {
    /// The kinds of its objects.
    pub fn children() -> [KindRef; 2] {
        [KindRef::of::<PushSecret>(), KindRef::of::<ExternalSecret>()]
    }

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

    /// The store, which must exist if the spec names it.
    fn is_used<K: Resource>(&self, inputs: &Inputs<K>) -> bool {
        self.asked || inputs.get(&self.reference).is_some()
    }

    /// Writes a Secret to the store; none if there is no store and the spec names none. What was written stays there, if
    /// it is to be `kept`, when the instance goes. The `version` changes with the content, and says nothing about it.
    pub fn push<K: Resource>(
        &self,
        inputs: &Inputs<K>,
        instance: &Instance,
        secret: &str,
        version: &str,
        kept: bool,
    ) -> Option<Child> {
        if !self.is_used(inputs) {
            return None;
        }
        let spec = PushSecretSpec {
            secret_store_refs: vec![self.target.clone()],
            selector: Selector::secret(secret),
            data: vec![PushData::whole(remote(instance, secret))],
            deletion_policy: Some(when_deleted(kept)),
            ..PushSecretSpec::default()
        };
        let name = push(secret);
        let mut push = PushSecret::new(&name, spec);
        push.metadata = instance.meta(name, "backup");
        push.metadata.annotations = Some([(VERSION.to_owned(), version.to_owned())].into());
        Some(Child::new(&push))
    }

    /// Whether what was written to a store stays there when what writes it goes.
    pub fn retention(instance: &Instance, secret: &str, kept: bool) -> Retained {
        Retained::new(Ref::namespaced::<PushSecret>(&instance.namespace, push(secret)))
            .fields(json!({"spec": {"deletionPolicy": when_deleted(kept)}}))
    }

    /// What has to be read to find out whether a Secret is in the store as it is here.
    pub fn writes<K: Resource>(&self, inputs: &Inputs<K>, instance: &Instance, secret: &str) -> Option<Ref> {
        self.is_used(inputs).then(|| Ref::namespaced::<PushSecret>(&instance.namespace, push(secret)))
    }

    /// Why a Secret is not in the store as it is here; none if it is.
    pub fn unwritten<K: Resource>(&self, inputs: &Inputs<K>, instance: &Instance, secret: &str) -> Option<String> {
        let writes = self.writes(inputs, instance, secret)?;
        match inputs.get(&writes) {
            Some(push) => readiness::wait(&writes, push)?.now,
            None => self.asked.then(|| "nothing writes them there yet; is External Secrets installed?".to_owned()),
        }
    }

    /// What has to be read to find out what the store has of a Secret that is gone: what asks it, and what that writes.
    pub fn answers<K: Resource>(&self, inputs: &Inputs<K>, instance: &Instance, secret: &str) -> Vec<Ref> {
        let asks = Ref::namespaced::<ExternalSecret>(&instance.namespace, restore(secret));
        let writes = Ref::namespaced::<Secret>(&instance.namespace, restore(secret));
        if self.is_used(inputs) { vec![asks, writes] } else { Vec::new() }
    }

    /// What the store has of a Secret that is gone. It is believed to have none only when it says so: what is created in
    /// the place of the Secret is written over what it has.
    pub fn backup<K: Resource>(&self, inputs: &Inputs<K>, instance: &Instance, secret: &str) -> Backup {
        let answers = self.answers(inputs, instance, secret);
        let [asks, writes] = answers.as_slice() else { return Backup::Nothing };
        let asked = inputs.get(asks);
        let ready = asked.filter(|asked| readiness::wait(asks, asked).is_none());
        let reason = ready.and_then(|asked| object::condition(asked, "Ready")).map(|ready| &ready["reason"]);
        // With this deletion policy, that is how it says that the store has nothing.
        if reason.is_some_and(|reason| reason == "SecretDeleted") {
            return Backup::Nothing;
        }
        let written = inputs.typed::<Secret>(writes).ok().and_then(|secret| secret.data);
        if let Some(written) = written.filter(|data| ready.is_some() && !data.is_empty()) {
            return Backup::Found(written);
        }
        let wait = asked.and_then(|asked| readiness::wait(asks, asked)).unwrap_or_else(|| Wait::on(asks));
        let wait = wait.because(format!("the store may have a backup of {secret}")).with_reason("LookingForBackup");
        Backup::Asking(Box::new(self.ask(instance, secret)), Box::new(wait))
    }

    fn ask(&self, instance: &Instance, secret: &str) -> Child {
        let extract = Extract { key: remote(instance, secret), ..Extract::default() };
        let spec = ExternalSecretSpec {
            secret_store_ref: Some(self.target.clone()),
            target: Some(Target {
                creation_policy: Some(CreationPolicy::Owner),
                deletion_policy: Some(DeletionPolicy::Delete),
                ..Target::default()
            }),
            data_from: vec![DataFrom { extract: Some(extract), ..DataFrom::default() }],
            ..ExternalSecretSpec::default()
        };
        let mut ask = ExternalSecret::new(&restore(secret), spec);
        ask.metadata = instance.meta(restore(secret), "backup");
        Child::new(&ask)
    }
}

/// What writes a Secret to a store is called like this.
fn push(secret: &str) -> String {
    format!("{secret}-backup")
}

fn when_deleted(kept: bool) -> PushDeletionPolicy {
    if kept { PushDeletionPolicy::None } else { PushDeletionPolicy::Delete }
}

/// What asks a store for a Secret, and what that writes, are called like this.
fn restore(secret: &str) -> String {
    format!("{secret}-restore")
}

/// Where a Secret is in a store.
fn remote(instance: &Instance, secret: &str) -> RemoteKey {
    let Instance { service, name, namespace } = instance;
    let what = secret.strip_prefix(name.as_str()).unwrap_or(secret).trim_start_matches('-');
    RemoteKey::new("", &format!("openstack/{service}/{namespace}/{name}/{what}"))
}
