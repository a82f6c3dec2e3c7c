//! Looks after ExternalSecrets: Secrets that are read from a store.

use std::collections::BTreeMap;
use std::time::Duration;

use c5c3_api::ext::NamedRef;
use c5c3_api::ext::external_secrets::{
    CreationPolicy, DeletionPolicy, ExternalSecret, ExternalSecretStatus, RefreshPolicy,
};
use c5c3_kit::condition::{ConditionState, find};
use c5c3_kit::hash;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::{Client, Resource, ResourceExt};
use serde_json::{Map, Value, json};

use super::remote::Remote;
use super::{MANAGER, refresh, stores, template};
use crate::failure::Error;
use crate::objects;
use crate::queue::RESYNC;

/// The annotation of a Secret that stands for what was written into it.
const HASH: &str = "reconcile.external-secrets.io/data-hash";

/// The label of every Secret that is looked after here, and its value.
pub(super) const LABEL: (&str, &str) = ("reconcile.external-secrets.io/managed", "true");

/// What came of a synchronisation.
enum Synced {
    /// The Secret is what the store says.
    Whole,
    /// The secret is gone from the store, and the Secret with it.
    Deleted,
}

/// Brings a Secret to what the store says, if it is time to, and says how that went.
pub(super) async fn reconcile(external: ExternalSecret, client: Client) -> Result<Action, Error> {
    if external.metadata.deletion_timestamp.is_some() {
        // A Secret that belongs to it is collected after it.
        return Ok(Action::await_change());
    }
    let now = Timestamp::now();
    let status = external.status.clone().unwrap_or_default();
    let version = refresh::version(&external.metadata);
    let interval = match external.spec.refresh_policy {
        Some(RefreshPolicy::OnChange | RefreshPolicy::CreatedOnce) => Ok(None),
        _ => refresh::interval(external.spec.refresh_interval.as_deref()),
    };
    let synced = match &interval {
        Err(why) => Err(Error::Missing(why.clone())),
        Ok(interval) => {
            let once =
                external.spec.refresh_policy == Some(RefreshPolicy::CreatedOnce) && status.refresh_time.is_some();
            let synced =
                status.synced_resource_version.as_deref().map(|synced| if once { version.as_str() } else { synced });
            let at = status.refresh_time.as_ref().map(|time| time.0);
            let rest = refresh::rest(synced, &version, at, *interval, now);
            if let Some(rest) = rest.filter(|_| is_ready(&status))
                && is_whole(&client, &external).await?
            {
                return Ok(Action::requeue(rest.min(RESYNC)));
            }
            synchronise(&client, &external).await
        }
    };
    let said = match &synced {
        Ok(Synced::Whole) => ConditionState::met("Ready", "SecretSynced", "secret synced"),
        Ok(Synced::Deleted) => ConditionState::met("Ready", "SecretDeleted", "secret deleted due to DeletionPolicy"),
        Err(error) => ConditionState::unmet("Ready", "SecretSyncedError", error.to_string()),
    };
    let ready = said.to_condition(find(&status.conditions, "Ready"), None, now);
    let mut next = ExternalSecretStatus { conditions: vec![ready], ..status.clone() };
    if synced.is_ok() {
        next.refresh_time = Some(Time(now));
        next.synced_resource_version = Some(version);
        next.binding = external.secret().map(NamedRef::new);
    }
    objects::report(&client, &external, MANAGER, external.status.as_ref(), &next).await?;
    synced?;
    let again = interval.ok().flatten().unwrap_or(Duration::MAX);
    Ok(Action::requeue(again.min(RESYNC)))
}

fn is_ready(status: &ExternalSecretStatus) -> bool {
    find(&status.conditions, "Ready").is_some_and(|ready| ready.status == c5c3_api::blocks::ConditionStatus::True)
}

fn creation(external: &ExternalSecret) -> CreationPolicy {
    external.spec.target.as_ref().and_then(|target| target.creation_policy).unwrap_or(CreationPolicy::Owner)
}

/// Whether the Secret is there, and holds what was written into it.
async fn is_whole(client: &Client, external: &ExternalSecret) -> Result<bool, Error> {
    if creation(external) == CreationPolicy::None {
        return Ok(true);
    }
    let (namespace, name) = (external.namespace().unwrap_or_default(), external.secret().unwrap_or_default());
    let Some(secret) = objects::find::<Secret>(client, &namespace, name).await? else { return Ok(false) };
    let Some(written) = secret.annotations().get(HASH) else { return Ok(false) };
    let keys: Vec<&str> = written.split(':').nth(1).unwrap_or_default().split(',').collect();
    let data = objects::text(&secret).into_iter().filter(|(key, _)| keys.contains(&key.as_str())).collect();
    Ok(*written == summary(&data))
}

/// Stands for data, and names its keys: others may have keys of their own in the same Secret.
fn summary(data: &BTreeMap<String, String>) -> String {
    format!("{}:{}", hash::of_json(&json!(data)), data.keys().cloned().collect::<Vec<_>>().join(","))
}

async fn synchronise(client: &Client, external: &ExternalSecret) -> Result<Synced, Error> {
    let namespace = external.namespace().unwrap_or_default();
    let target = external.spec.target.clone().unwrap_or_default();
    let (creation, deletion) = (creation(external), target.deletion_policy.unwrap_or(DeletionPolicy::Retain));
    if deletion == DeletionPolicy::Delete && !matches!(creation, CreationPolicy::Owner | CreationPolicy::Orphan) {
        return Err(Error::Missing(
            "spec.target: deletionPolicy Delete goes with creationPolicy Owner or Orphan".into(),
        ));
    }
    let gathered = gather(client, external, &namespace).await?;
    let api = Api::<Secret>::namespaced(client.clone(), &namespace);
    let name = external.secret().unwrap_or_default();
    let failed = |what: &str| Error::api(format!("{what} the Secret {namespace}/{name}"));
    let data = match gathered {
        Ok(data) => data,
        Err(_) if deletion == DeletionPolicy::Delete => {
            return match api.delete(name, &DeleteParams::default()).await {
                Ok(_) => Ok(Synced::Deleted),
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(Synced::Deleted),
                Err(error) => Err(failed("delete")(error)),
            };
        }
        Err(_) if deletion == DeletionPolicy::Merge => BTreeMap::new(),
        Err(missing) => return Err(Error::Missing(missing)),
    };
    if creation == CreationPolicy::None {
        return Ok(Synced::Whole);
    }
    let found = objects::find::<Secret>(client, &namespace, name).await?;
    check_owner(external, found.as_ref(), creation)?;
    let secret = secret(external, &namespace, name, &data, creation).map_err(Error::Missing)?;
    let params = PatchParams::apply(MANAGER).force();
    api.patch(name, &params, &Patch::Apply(&secret)).await.map_err(failed("write"))?;
    Ok(Synced::Whole)
}

/// A Secret that someone else controls is left alone.
fn check_owner(external: &ExternalSecret, found: Option<&Secret>, creation: CreationPolicy) -> Result<(), Error> {
    let name = external.secret().unwrap_or_default();
    let Some(found) = found else {
        let missing = || Error::Missing(format!("spec.target: the Secret {name} to merge into is not there"));
        return if creation == CreationPolicy::Merge { Err(missing()) } else { Ok(()) };
    };
    let other = found
        .owner_references()
        .iter()
        .find(|owner| owner.controller == Some(true) && Some(&owner.uid) != external.metadata.uid.as_ref());
    match other.filter(|_| creation == CreationPolicy::Owner) {
        Some(owner) => Err(Error::Missing(format!("the Secret {name} belongs to the {} {}", owner.kind, owner.name))),
        None => Ok(()),
    }
}

/// The values by key; or, as the inner error, what is not in the store.
async fn gather(
    client: &Client,
    external: &ExternalSecret,
    namespace: &str,
) -> Result<Result<BTreeMap<String, String>, String>, Error> {
    let spec = &external.spec;
    let store =
        spec.secret_store_ref.as_ref().ok_or_else(|| Error::Missing("spec.secretStoreRef is not set".into()))?;
    let remote = stores::open(client, namespace, store).await?;
    let mut values = BTreeMap::new();
    for from in &spec.data_from {
        let Some(extract) = &from.extract else {
            return Err(Error::Missing("spec.dataFrom: only extract is provided".into()));
        };
        let key = extract.key.as_str();
        match remote.read(key, extract.version.as_deref()).await? {
            Some(data) => values.extend(data.iter().map(|(key, value)| (key.clone(), as_text(value)))),
            None => return Ok(Err(format!("{key} is not in the store"))),
        }
    }
    for data in &spec.data {
        let at = &data.remote_ref;
        let found = one(&remote, at.key.as_str(), at.property.as_deref(), at.version.as_deref()).await?;
        let Some(value) = found else {
            let property = at.property.as_ref().map(|property| format!(", property {property},")).unwrap_or_default();
            return Ok(Err(format!("{}{property} is not in the store", at.key.as_str())));
        };
        values.insert(data.secret_key.clone(), value);
    }
    Ok(Ok(values))
}

async fn one(
    remote: &Remote,
    key: &str,
    property: Option<&str>,
    version: Option<&str>,
) -> Result<Option<String>, Error> {
    let Some(data) = remote.read(key, version).await? else { return Ok(None) };
    Ok(match property {
        None => Some(Value::Object(data).to_string()),
        Some(property) => property_of(&data, property).map(as_text),
    })
}

/// A property by its name, or by the path to it.
fn property_of<'a>(data: &'a Map<String, Value>, property: &str) -> Option<&'a Value> {
    data.get(property).or_else(|| {
        let (first, rest) = property.split_once('.')?;
        property_of(data.get(first)?.as_object()?, rest)
    })
}

/// A value as a Secret holds it.
fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The Secret, with just what is ours in it.
fn secret(
    external: &ExternalSecret,
    namespace: &str,
    name: &str,
    values: &BTreeMap<String, String>,
    creation: CreationPolicy,
) -> Result<kube::api::DynamicObject, String> {
    let target = external.spec.target.clone().unwrap_or_default();
    let template = target.template.unwrap_or_default();
    let data = if template.data.is_empty() {
        values.clone()
    } else {
        let rendered = template.data.iter().map(|(key, text)| Ok((key.clone(), template::render(text, values)?)));
        rendered.collect::<Result<_, String>>()?
    };
    let metadata = template.metadata.unwrap_or_default();
    let (mut labels, mut annotations) = (metadata.labels, metadata.annotations);
    labels.insert(LABEL.0.into(), LABEL.1.into());
    annotations.insert(HASH.into(), summary(&data));
    let mut meta = json!({"name": name, "namespace": namespace, "labels": labels, "annotations": annotations});
    if creation == CreationPolicy::Owner {
        meta["ownerReferences"] = json!([external.controller_owner_ref(&())]);
    }
    let values = data.iter().map(|(key, value)| (key.as_str(), value.clone()));
    let kind = template.r#type.as_deref().unwrap_or("Opaque");
    let mut secret = objects::secret_child(&meta, kind, values).object;
    if target.immutable == Some(true) {
        secret.data["immutable"] = json!(true);
    }
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_is_found_by_its_name_or_by_the_path_to_it() {
        let data = json!({"a.b": "plain", "c": {"d": {"e": 7}}}).as_object().cloned().unwrap();
        assert_eq!(property_of(&data, "a.b").map(as_text).as_deref(), Some("plain"));
        assert_eq!(property_of(&data, "c.d.e").map(as_text).as_deref(), Some("7"));
        assert_eq!(property_of(&data, "c.x"), None);
    }
}
