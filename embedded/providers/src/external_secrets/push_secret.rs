//! Looks after PushSecrets: Secrets that are written to stores.

use std::collections::BTreeMap;
use std::time::Duration;

use c5c3_api::ext::external_secrets::{Match, PushDeletionPolicy, PushSecret, PushSecretStatus, UpdatePolicy};
use c5c3_kit::condition::{ConditionState, find};
use c5c3_kit::hash;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::runtime::controller::Action;
use kube::{Client, ResourceExt};
use serde_json::{Map, Value, json};

use super::remote::Remote;
use super::{MANAGER, refresh, stores};
use crate::failure::Error;
use crate::objects;
use crate::queue::RESYNC;

/// Held while something must be deleted from a store when the object goes.
const FINALIZER: &str = "pushsecret.externalsecrets.io/finalizer";

/// What comes first for a PushSecret.
#[derive(Debug, PartialEq, Eq)]
enum First {
    /// What was written is deleted from the stores, and then it is released.
    TakeBack,
    /// It is released. Who asked for it to be deleted and has changed his mind since keeps what was written.
    LetGo,
    /// It is going, and nothing holds it.
    Leave,
    /// It is held from now on, or no longer.
    Hold(bool),
    /// What the Secret says is written.
    Write,
}

fn first(push: &PushSecret) -> First {
    let held = push.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
    let deletes = push.spec.deletion_policy == Some(PushDeletionPolicy::Delete);
    match (push.metadata.deletion_timestamp.is_some(), held) {
        (true, true) if deletes => First::TakeBack,
        (true, true) => First::LetGo,
        (true, false) => First::Leave,
        (false, held) if held != deletes => First::Hold(deletes),
        (false, _) => First::Write,
    }
}

/// Brings the stores to what a Secret says, and says how that went.
pub(super) async fn reconcile(push: PushSecret, client: Client) -> Result<Action, Error> {
    // A change of who holds it comes back through the watch and starts the next reconcile.
    let hold = async |held: bool| objects::hold(&client, &push, FINALIZER, held).await;
    match first(&push) {
        First::Write => return write_all(&push, &client).await,
        First::TakeBack => {
            take_back(&client, &push).await?;
            hold(false).await?;
        }
        First::LetGo => hold(false).await?,
        First::Hold(held) => hold(held).await?,
        First::Leave => {}
    }
    Ok(Action::await_change())
}

async fn write_all(push: &PushSecret, client: &Client) -> Result<Action, Error> {
    let now = Timestamp::now();
    let before = push.status.clone().unwrap_or_default();
    let interval = refresh::interval(push.spec.refresh_interval.as_deref());
    let synced = match &interval {
        Err(why) => Err(Error::Missing(why.clone())),
        Ok(interval) => synchronise(client, push, &before, *interval, now).await,
    };
    let said = match &synced {
        Ok(_) => ConditionState::met("Ready", "Synced", "PushSecret synced successfully"),
        Err(error) => ConditionState::unmet("Ready", "Errored", error.to_string()),
    };
    let ready = said.to_condition(find(&before.conditions, "Ready"), None, now);
    let mut status = PushSecretStatus { conditions: vec![ready], ..before };
    if let Ok(Some(version)) = &synced {
        status.refresh_time = Some(Time(now));
        status.synced_resource_version = Some(version.clone());
    }
    objects::report(client, push, MANAGER, push.status.as_ref(), &status).await?;
    synced?;
    Ok(Action::requeue(interval.ok().flatten().unwrap_or(RESYNC).min(RESYNC)))
}

/// Writes to the stores if it is time to, or if the Secret has changed; none if it was not.
async fn synchronise(
    client: &Client,
    push: &PushSecret,
    before: &PushSecretStatus,
    interval: Option<Duration>,
    now: Timestamp,
) -> Result<Option<String>, Error> {
    let namespace = push.namespace().unwrap_or_default();
    let Some(source) = &push.spec.selector.secret else {
        return Err(Error::Missing("spec.selector: only a Secret by its name is provided".into()));
    };
    let secret = objects::secret(client, &namespace, &source.name).await?;
    let secret = secret.ok_or_else(|| Error::Missing(format!("the Secret {} is not there", source.name)))?;
    // As the genuine operator has it, with the content in the hash: a change of the Secret is pushed at once.
    let version = format!("{}{}", refresh::version(&push.metadata), hash::of_json(&json!(secret)));
    let (synced, at) = (before.synced_resource_version.as_deref(), before.refresh_time.as_ref().map(|time| time.0));
    if refresh::rest(synced, &version, at, interval, now).is_some() {
        return Ok(None);
    }
    for store in &push.spec.secret_store_refs {
        let remote = stores::open(client, &namespace, store).await?;
        for data in &push.spec.data {
            write(&remote, &data.r#match, &secret, push.spec.update_policy).await?;
        }
    }
    Ok(Some(version))
}

async fn write(
    remote: &Remote,
    asked: &Match,
    secret: &BTreeMap<String, String>,
    policy: Option<UpdatePolicy>,
) -> Result<(), Error> {
    let key = asked.remote_ref.remote_key.as_str();
    let had = remote.read(key, None).await?;
    let next = merged(asked, secret, had.as_ref()).map_err(Error::Missing)?;
    let exists = had
        .as_ref()
        .is_some_and(|had| asked.remote_ref.property.as_ref().is_none_or(|property| had.contains_key(property)));
    if had.as_ref() == Some(&next) || (exists && policy == Some(UpdatePolicy::IfNotExists)) {
        return Ok(());
    }
    remote.write(key, &next).await
}

/// What a secret in the store is to hold: all of the Secret, one key of it, or what it held with one property changed.
fn merged(
    asked: &Match,
    secret: &BTreeMap<String, String>,
    had: Option<&Map<String, Value>>,
) -> Result<Map<String, Value>, String> {
    let text = match &asked.secret_key {
        None => None,
        Some(key) => Some(secret.get(key).ok_or_else(|| format!("the Secret has no key {key}"))?),
    };
    match (text, &asked.remote_ref.property) {
        (None, None) => Ok(secret.iter().map(|(key, value)| (key.clone(), json!(value))).collect()),
        (Some(text), None) => {
            let object = serde_json::from_str::<Value>(text).ok().and_then(|value| value.as_object().cloned());
            object.ok_or_else(|| "without a property, the value must be a JSON object".to_owned())
        }
        (text, Some(property)) => {
            let value = text.cloned().unwrap_or_else(|| json!(secret).to_string());
            let mut data = had.cloned().unwrap_or_default();
            data.insert(property.clone(), json!(value));
            Ok(data)
        }
    }
}

/// Deletes from the stores what was written there.
async fn take_back(client: &Client, push: &PushSecret) -> Result<(), Error> {
    let namespace = push.namespace().unwrap_or_default();
    for store in &push.spec.secret_store_refs {
        let remote = match stores::open(client, &namespace, store).await {
            Ok(remote) => remote,
            // What went first, as in a namespace that is deleted, tells no one any more how to reach the store.
            Err(Error::Missing(why)) => {
                tracing::warn!(store = store.name, why, "what was pushed is left in the store");
                continue;
            }
            Err(error) => return Err(error),
        };
        for data in &push.spec.data {
            let at = &data.r#match.remote_ref;
            let mut left = match (&at.property, remote.read(at.remote_key.as_str(), None).await?) {
                (Some(property), Some(mut had)) => {
                    had.remove(property);
                    had
                }
                _ => Map::new(),
            };
            if left.is_empty() {
                remote.delete(at.remote_key.as_str()).await?;
            } else {
                remote.write(at.remote_key.as_str(), &std::mem::take(&mut left)).await?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use c5c3_api::ext::external_secrets::{PushData, RemoteKey};

    #[test]
    fn what_was_written_goes_only_if_that_is_still_asked_for_when_the_object_goes() {
        let first = |policy: &str, held: bool, going: bool| {
            let push = json!({"apiVersion": "external-secrets.io/v1alpha1", "kind": "PushSecret", "metadata": {
                "name": "riddle", "finalizers": if held { json!([FINALIZER]) } else { json!([]) },
                "deletionTimestamp": going.then_some("2026-01-01T00:00:00Z"),
            }, "spec": {"secretStoreRefs": [], "selector": {}, "deletionPolicy": policy}});
            super::first(&serde_json::from_value(push).unwrap())
        };
        assert_eq!(first("Delete", false, false), First::Hold(true));
        assert_eq!(first("Delete", true, false), First::Write);
        assert_eq!(first("Delete", true, true), First::TakeBack);
        assert_eq!(first("None", true, true), First::LetGo);
        assert_eq!(first("None", true, false), First::Hold(false));
        assert_eq!(first("None", false, true), First::Leave);
        assert_eq!(first("None", false, false), First::Write);
    }

    #[test]
    fn a_secret_is_written_whole_by_key_or_into_a_property() {
        let secret = [("word", "owl"), ("json", r#"{"a": 1}"#)].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let (secret, key) = (secret.into(), RemoteKey::new("kv", "riddle"));
        let with = |asked: &Match, had: Value| merged(asked, &secret, had.as_object()).map(Value::Object);
        let whole = PushData::whole(key.clone()).r#match;
        assert_eq!(with(&whole, Value::Null), Ok(json!({"word": "owl", "json": r#"{"a": 1}"#})));
        let property = PushData::property(key, "word").r#match;
        assert_eq!(with(&property, json!({"other": "x"})), Ok(json!({"other": "x", "word": "owl"})));
        let mut object = Match { secret_key: Some("json".into()), ..whole };
        assert_eq!(with(&object, Value::Null), Ok(json!({"a": 1})));
        object.secret_key = Some("word".into());
        assert!(with(&object, Value::Null).is_err());
        object.secret_key = Some("nobody".into());
        assert!(with(&object, Value::Null).unwrap_err().contains("nobody"));
    }
}
