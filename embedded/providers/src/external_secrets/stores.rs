//! Looks after SecretStores and ClusterSecretStores, and finds them for those who use them.

use std::time::Duration;

use c5c3_api::ext::external_secrets::{
    ClusterSecretStore, SecretStore, SecretStoreSpec, StoreCondition, StoreKind, StoreRef, StoreStatus,
};
use c5c3_kit::condition::{ConditionState, find};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::runtime::controller::Action;
use kube::{Api, Client, ResourceExt};

use super::MANAGER;
use super::remote::{Home, Remote};
use crate::failure::Error;
use crate::objects;
use crate::queue::Kind;

/// How often a store is logged in to, to say whether it still works.
const LOOK: Duration = Duration::from_mins(5);

/// How often one is tried that does not work.
const AGAIN: Duration = Duration::from_secs(5);

/// A SecretStore or a ClusterSecretStore.
pub(super) trait StoreObject: Kind {
    const KIND: StoreKind;
    fn spec(&self) -> &SecretStoreSpec;
    fn status(&self) -> Option<&StoreStatus>;
}

impl StoreObject for SecretStore {
    const KIND: StoreKind = StoreKind::SecretStore;
    fn spec(&self) -> &SecretStoreSpec {
        &self.spec
    }
    fn status(&self) -> Option<&StoreStatus> {
        self.status.as_ref()
    }
}

impl StoreObject for ClusterSecretStore {
    const KIND: StoreKind = StoreKind::ClusterSecretStore;
    fn spec(&self) -> &SecretStoreSpec {
        &self.spec.store
    }
    fn status(&self) -> Option<&StoreStatus> {
        self.status.as_ref()
    }
}

/// Says whether a store can be used.
pub(super) async fn reconcile<S: StoreObject>(store: S, client: Client) -> Result<Action, Error> {
    if store.meta().deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let namespace = store.namespace().unwrap_or_default();
    let connected = connect(&client, store.spec(), &Home { kind: S::KIND, namespace: &namespace }).await;
    let said = match &connected {
        Ok(_) => ConditionState::met("Ready", "Valid", "store validated"),
        Err(error) => ConditionState::unmet("Ready", "InvalidProviderConfig", error.to_string()),
    };
    let before = store.status().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let status = StoreStatus {
        conditions: vec![said.to_condition(find(before, "Ready"), None, Timestamp::now())],
        capabilities: Some("ReadWrite".to_owned()),
    };
    objects::report(&client, &store, MANAGER, store.status(), &status).await?;
    Ok(Action::requeue(if connected.is_ok() { LOOK } else { AGAIN }))
}

async fn connect(client: &Client, spec: &SecretStoreSpec, home: &Home<'_>) -> Result<Remote, Error> {
    let vault = spec.provider.vault.as_ref();
    let vault = vault.ok_or_else(|| Error::Missing("spec.provider: only vault is provided".into()))?;
    Remote::connect(client, vault, home).await
}

/// Logs in to the store that an object of a namespace names.
pub(super) async fn open(client: &Client, namespace: &str, reference: &StoreRef) -> Result<Remote, Error> {
    let name = &reference.name;
    let missing = |kind: &str| Error::Missing(format!("the {kind} {name} is not there"));
    let home = Home { kind: reference.kind, namespace };
    if reference.kind != StoreKind::ClusterSecretStore {
        let store = objects::find::<SecretStore>(client, namespace, name).await?;
        let store = store.ok_or_else(|| missing("SecretStore"))?;
        return connect(client, &store.spec, &home).await;
    }
    let api = Api::<ClusterSecretStore>::all(client.clone());
    let store = api.get_opt(name).await.map_err(Error::api(format!("read the ClusterSecretStore {name}")))?;
    let store = store.ok_or_else(|| missing("ClusterSecretStore"))?;
    if !admits(client, &store.spec.conditions, namespace).await? {
        return Err(Error::Missing(format!("the ClusterSecretStore {name} is not for the namespace {namespace}")));
    }
    connect(client, &store.spec.store, &home).await
}

/// Whether a store's conditions let a namespace use it; without any, all may.
async fn admits(client: &Client, conditions: &[StoreCondition], namespace: &str) -> Result<bool, Error> {
    if conditions.is_empty() {
        return Ok(true);
    }
    let found = Api::<Namespace>::all(client.clone()).get(namespace).await;
    let found = found.map_err(Error::api(format!("read the namespace {namespace}")))?;
    for condition in conditions {
        let by_name = condition.namespaces.iter().any(|name| name == namespace);
        let by_expression = condition
            .namespace_regexes
            .iter()
            .any(|pattern| regex::Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(namespace)));
        let labels = condition.namespace_selector.as_ref().and_then(|selector| selector.match_labels.as_ref());
        let by_label = labels.is_some_and(|wanted| {
            !wanted.is_empty() && wanted.iter().all(|(key, value)| found.labels().get(key) == Some(value))
        });
        if by_name || by_expression || by_label {
            return Ok(true);
        }
    }
    Ok(false)
}
