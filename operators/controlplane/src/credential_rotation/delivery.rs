//! The way of a credential to the Secret that services read: a plain Secret, or through a store of External Secrets.
//!
//! ```text
//! Secret <svc>-app-credential ─► PushSecret ─► store ─► ExternalSecret ─► Secret <svc>-keystone-credentials
//! ```

use c5c3_api::blocks::{SecretStoreKind, SecretStoreRef};
use c5c3_api::c5c3::CredentialRotation;
use c5c3_api::ext::external_secrets::{
    ClusterSecretStore, CreationPolicy, DataFrom, ExternalSecret, ExternalSecretSpec, Extract, PushData,
    PushDeletionPolicy, PushSecret, PushSecretSpec, RemoteKey, SecretStore, Selector, StoreRef, Target,
};
use c5c3_kit::{Child, Inputs, KindRef, Plan, Ref, Step, Wait, hash, readiness};
use k8s_openapi::api::core::v1::Secret;
use kube::core::ObjectMeta;
use serde_json::json;

use super::account::Names;
use super::objects::{self, Data};

/// The condition of the steps.
pub(crate) const CONDITION: &str = "CredentialDelivered";

/// The step that says whether services can read the credential.
pub(crate) const TARGET: &str = "target";

/// The store that is used, if it is there, when a spec names none.
const STORE: &str = "openbao-cluster-store";

/// Which content is to be delivered. External Secrets does not watch Secrets: it synchronises at its interval, and at once when
/// the annotations of its object change.
const VERSION: &str = "c5c3.io/content-version";

/// How often a synchronisation is asked for again while the credential has not arrived, in seconds.
pub(crate) const AGAIN: i64 = 30;

/// What is delivered: the content, and a text that changes with it and says nothing secret about it.
pub(crate) struct Content {
    pub(crate) data: Data,
    pub(crate) version: String,
}

/// The way of a credential.
pub(crate) struct Delivery<'a> {
    inputs: &'a Inputs<CredentialRotation>,
    names: &'a Names,
    /// The Secret that services read.
    target: Ref,
    store: Option<(Ref, StoreRef)>,
}

/// The kinds of stores.
pub(crate) fn reads() -> [KindRef; 2] {
    [KindRef::of::<ClusterSecretStore>(), KindRef::of::<SecretStore>()]
}

/// What has to be read to see how far a credential has got.
pub(crate) fn needs(inputs: &Inputs<CredentialRotation>, names: &Names) -> Vec<Ref> {
    let target = names.target(&inputs.object);
    vec![
        store(inputs.object.spec.secret_store_ref.as_ref(), &names.namespace).0,
        Ref::namespaced::<PushSecret>(&names.namespace, names.delivered()),
        Ref::namespaced::<ExternalSecret>(&names.namespace, &target),
        names.secret(target),
    ]
}

fn store(spec: Option<&SecretStoreRef>, namespace: &str) -> (Ref, StoreRef) {
    let name = spec.map_or_else(|| STORE.to_owned(), |spec| spec.name.to_string());
    match spec.map_or(SecretStoreKind::ClusterSecretStore, |spec| spec.kind) {
        SecretStoreKind::ClusterSecretStore => (Ref::cluster::<ClusterSecretStore>(&name), StoreRef::cluster(&name)),
        SecretStoreKind::SecretStore => (Ref::namespaced::<SecretStore>(namespace, &name), StoreRef::local(&name)),
    }
}

impl<'a> Delivery<'a> {
    pub(crate) fn new(inputs: &'a Inputs<CredentialRotation>, names: &'a Names) -> Self {
        let spec = inputs.object.spec.secret_store_ref.as_ref();
        let (reference, store) = store(spec, &names.namespace);
        let is_used = spec.is_some() || inputs.get(&reference).is_some();
        let target = names.secret(names.target(&inputs.object));
        Self { inputs, names, target, store: is_used.then_some((reference, store)) }
    }

    /// Whether it goes through a store.
    pub(crate) fn is_through_store(&self) -> bool {
        self.store.is_some()
    }

    /// Whether services can read this content.
    pub(crate) fn has_arrived(&self, content: &Content) -> bool {
        let found = self.inputs.typed::<Secret>(&self.target).ok().and_then(|secret| secret.data).unwrap_or_default();
        content.data.iter().all(|(key, value)| found.get(key) == Some(value))
    }

    /// The link that content has not passed yet; none if services can read it.
    pub(crate) fn missing_link(&self, content: &Content) -> Option<Wait> {
        if self.has_arrived(content) {
            return None;
        }
        let push = Ref::namespaced::<PushSecret>(&self.names.namespace, self.names.delivered());
        let external = Ref::namespaced::<ExternalSecret>(&self.names.namespace, &self.target.name);
        let link = |reference: &Ref| match self.inputs.get(reference) {
            Some(object) => readiness::wait(reference, object),
            None => Some(self.inputs.missing(reference)),
        };
        let broken = self.store.as_ref().and_then(|(store, _)| {
            self.unusable_store().or_else(|| link(&push)).or_else(|| link(&external)).or_else(|| {
                let now = "has not read the new credential yet";
                Some(
                    Wait::on(&external)
                        .condition("has read the new credential")
                        .now(now)
                        .because(format!("it is on its way through {}", store.short())),
                )
            })
        });
        let plain = || Wait::on(&self.target).condition("has the new credential").now("does not have it yet");
        Some(broken.unwrap_or_else(plain))
    }

    fn unusable_store(&self) -> Option<Wait> {
        let (reference, _) = self.store.as_ref()?;
        let wait = match self.inputs.get(reference) {
            Some(store) => readiness::wait(reference, store)?,
            None => self.inputs.missing(reference),
        };
        Some(wait.because("credentials are delivered through it").with_reason("StoreNotReady"))
    }

    /// Adds the steps to a plan. Without content there is nothing to deliver yet, and what was delivered stays.
    pub(crate) fn steps(&self, plan: Plan, content: Option<&Content>, waits: Vec<Wait>, expired: Option<Wait>) -> Plan {
        let step = |name: &'static str, needs: &[&'static str]| Step::new(CONDITION).node(name, needs).done("");
        let reasons = |step: Step| step.reasons("Delivered", "DeliveryInProgress");
        let Some(content) = content else {
            let first = reasons(step("secret", &[])).undecided(waits);
            let rest = ["store", "push", "external-secret", "plain"].map(|name| step(name, &[]).undecided([]));
            let target = reasons(step(TARGET, &[])).undecided([]);
            return rest.into_iter().fold(plan.step(first), Plan::step).step(target);
        };
        let copy = objects::secret(self.names, self.names.delivered(), content.data.clone());
        let plan = plan.step(reasons(step("secret", &[])).child(copy));
        let plan = if let Some((_, store)) = &self.store {
            let usable = self.unusable_store().into_iter().fold(step("store", &[]).childless(), Step::wait);
            plan.step(usable)
                .step(step("push", &["secret", "store"]).child(self.push(store, content)))
                .step(step("external-secret", &["push"]).child(self.external(store, content)))
                .without_step("plain")
        } else {
            let plain = objects::secret(self.names, self.target.name.clone(), content.data.clone());
            plan.step(step("plain", &[]).child(plain))
                .without_step("store")
                .without_step("push")
                .without_step("external-secret")
        };
        // External Secrets writes the target, so this is judged by what it holds. A plain one is ready when it is applied.
        let missing = self.missing_link(content).filter(|_| self.is_through_store());
        let target = reasons(step(TARGET, &[])).childless().done(format!("{} has it", self.target.short()));
        plan.step(missing.into_iter().chain(expired).fold(target, Step::wait))
    }

    /// Another synchronisation is asked for again and again until the content has arrived.
    fn version(&self, content: &Content) -> String {
        if self.has_arrived(content) {
            return content.version.clone();
        }
        format!("{}-{}", content.version, self.inputs.now.as_second() / AGAIN)
    }

    fn meta(&self, name: &str, content: &Content) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.names.namespace.clone()),
            annotations: Some([(VERSION.to_owned(), self.version(content))].into()),
            ..ObjectMeta::default()
        }
    }

    fn push(&self, store: &StoreRef, content: &Content) -> Child {
        let name = self.names.delivered();
        let spec = PushSecretSpec {
            secret_store_refs: vec![store.clone()],
            selector: Selector::secret(&name),
            data: vec![PushData::whole(RemoteKey::new("", &self.names.remote()))],
            // What is left in the store is revoked. To take it back would need a store that works, and hold the deletion up.
            deletion_policy: Some(PushDeletionPolicy::None),
            ..PushSecretSpec::default()
        };
        let mut push = PushSecret::new(&name, spec);
        push.metadata = self.meta(&name, content);
        Child::new(&push).because("it writes the credential to the store")
    }

    fn external(&self, store: &StoreRef, content: &Content) -> Child {
        let extract = Extract { key: RemoteKey::new("", &self.names.remote()), ..Extract::default() };
        let spec = ExternalSecretSpec {
            secret_store_ref: Some(store.clone()),
            refresh_interval: Some("1h".into()),
            target: Some(Target { creation_policy: Some(CreationPolicy::Owner), ..Target::default() }),
            data_from: vec![DataFrom { extract: Some(extract), ..DataFrom::default() }],
            ..ExternalSecretSpec::default()
        };
        let mut external = ExternalSecret::new(&self.target.name, spec);
        external.metadata = self.meta(&self.target.name, content);
        Child::new(&external).because("it reads the credential from the store for services")
    }
}

/// A text that changes with what is delivered.
pub(crate) fn version(credential: i64, id: &str, auth_url: &str, region: Option<&str>) -> String {
    format!("v{credential}-{}", hash::of_json(&json!([id, auth_url, region])))
}
