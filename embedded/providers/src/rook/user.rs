//! Looks after CephClients: users of Ceph, and the Secrets with their keys.

use std::collections::BTreeMap;
use std::time::Duration;

use c5c3_api::ext::rook::{CephClient, CephClientStatus, CephxKeyType, CephxStatus, KeyRotationPolicy};
use c5c3_kit::{Plan, Step};
use kube::runtime::controller::Action;
use kube::{Client, ResourceExt};
use serde::Deserialize;
use serde_json::json;

use super::ceph::{Ceph, Command};
use super::{Home, MANAGER, home};
use crate::failure::Error;
use crate::queue::RESYNC;
use crate::{objects, objects::secret_child};

/// Keeps an object until its user is deleted in Ceph; the name that Rook gives it.
const FINALIZER: &str = "cephclient.ceph.rook.io";

/// How often it is looked for what a user waits for, besides changes of its cluster.
const SOON: Duration = Duration::from_secs(5);

/// Users that daemons and their operator need.
const RESERVED: &[&str] = &["admin", "bootstrap-osd", "bootstrap-mgr", "bootstrap-mds", "bootstrap-rgw"];

/// A user as Ceph knows it. Its key is not shown.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Known {
    key: String,
    caps: BTreeMap<String, String>,
}

/// Brings a user to what its object says, and says how far it got.
pub(super) async fn reconcile(user: CephClient, client: Client) -> Result<Action, Error> {
    let namespace = user.namespace().unwrap_or_default();
    let home = home(&client, &namespace).await?;
    if user.metadata.deletion_timestamp.is_some() {
        return farewell(&user, &client, home).await;
    }
    let before = user.status.clone().unwrap_or_default();
    let phase = |phase: &str| CephClientStatus {
        phase: Some(phase.to_owned()),
        observed_generation: user.metadata.generation,
        ..before.clone()
    };
    if let Some(why) = refused(&user) {
        // There is no place for a message in the status of this kind.
        tracing::warn!(namespace, name = user.name_any(), why, "a CephClient cannot be had");
        objects::report(&client, &user, MANAGER, user.status.as_ref(), &phase("Failure")).await?;
        return Ok(Action::await_change());
    }
    let Home::Ready(ceph) = home else {
        objects::report(&client, &user, MANAGER, user.status.as_ref(), &phase("Progressing")).await?;
        return Ok(Action::requeue(SOON));
    };
    if !user.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
        objects::hold(&client, &user, FINALIZER, true).await?;
        return Ok(Action::await_change());
    }
    match carry_out(&client, &ceph, &user).await {
        Ok(cephx) => {
            let secret = user.secret().unwrap_or_default();
            let info = if user.spec.remove_secret == Some(true) {
                BTreeMap::new()
            } else {
                [("secretName".to_owned(), secret)].into()
            };
            let status = CephClientStatus { info, cephx: Some(cephx), ..phase("Ready") };
            objects::report(&client, &user, MANAGER, user.status.as_ref(), &status).await?;
            Ok(Action::requeue(RESYNC))
        }
        Err(error) => {
            objects::report(&client, &user, MANAGER, user.status.as_ref(), &phase("Failure")).await?;
            Err(error)
        }
    }
}

/// Why nothing is done with an object as it is.
fn refused(user: &CephClient) -> Option<String> {
    let name = user.user().unwrap_or_default();
    if RESERVED.contains(&name) {
        return Some(format!("spec.name: client.{name} belongs to Rook; choose another name"));
    }
    let cephx = user.spec.security.as_ref().and_then(|security| security.cephx.as_ref());
    if cephx.and_then(|cephx| cephx.key_type) == Some(CephxKeyType::Aes256k) {
        return Some(
            "spec.security.cephx.keyType: the Ceph of the embedded cluster has no aes256k; leave it out".into(),
        );
    }
    None
}

/// The generation that a key should have, if it is to be rotated.
fn rotation(user: &CephClient) -> Option<i64> {
    let cephx = user.spec.security.as_ref()?.cephx.as_ref()?;
    if cephx.key_rotation_policy != Some(KeyRotationPolicy::KeyGeneration) {
        return None;
    }
    let has = user.status.as_ref()?.cephx.as_ref()?.key_generation?;
    cephx.key_generation.filter(|wanted| *wanted > has)
}

async fn carry_out(client: &Client, ceph: &Ceph, user: &CephClient) -> Result<CephxStatus, Error> {
    let entity = format!("client.{}", user.user().unwrap_or_default());
    let known = find(ceph, &entity).await?;
    let is_new = known.is_none();
    let mut generation = user.status.as_ref().and_then(|status| status.cephx.as_ref()?.key_generation);
    ceph.run_all(&commands(&entity, &user.spec.caps, known.as_ref())).await?;
    if let Some(wanted) = rotation(user).filter(|_| !is_new) {
        ceph.run_all(&rotate(&entity)).await?;
        generation = Some(wanted);
    }
    let lost = || Error::Missing(format!("{entity} is not there after it was made"));
    let known = find(ceph, &entity).await?.ok_or_else(lost)?;
    // A user that is made now has the generation that is asked for; Rook counts from 1.
    let asked = user.spec.security.as_ref().and_then(|security| security.cephx.as_ref()?.key_generation);
    let generation = generation.filter(|_| !is_new).unwrap_or_else(|| asked.unwrap_or(1).max(1));
    if user.spec.remove_secret != Some(true) {
        objects::apply(client, user, MANAGER, &plan(user, &known.key)).await?;
    }
    let made_by = user.status.as_ref().and_then(|status| status.cephx.as_ref()?.key_ceph_version.clone());
    Ok(CephxStatus { key_generation: Some(generation), key_type: Some("aes".into()), key_ceph_version: made_by })
}

async fn find(ceph: &Ceph, entity: &str) -> Result<Option<Known>, Error> {
    let Some(said) = ceph.find(&Command::ceph(["auth", "get", entity])).await? else { return Ok(None) };
    let known = said.as_array().and_then(|users| users.first()).cloned();
    let unreadable = |error| Error::Missing(format!("what Ceph says of {entity} is not as expected: {error}"));
    known.map(|known| serde_json::from_value(known).map_err(unreadable)).transpose()
}

/// The commands that give a user its caps.
fn commands(entity: &str, caps: &BTreeMap<String, String>, known: Option<&Known>) -> Vec<Command> {
    let verb = match known {
        Some(known) if known.caps == *caps => return Vec::new(),
        Some(_) => "caps",
        None => "get-or-create",
    };
    let caps = caps.iter().flat_map(|(daemon, cap)| [daemon.as_str(), cap.as_str()]);
    vec![Command::ceph(["auth", verb, entity].into_iter().chain(caps))]
}

/// The commands that give a user another key: one that is pending, which then takes the place of the old one.
fn rotate(entity: &str) -> Vec<Command> {
    ["get-or-create-pending", "commit-pending"].map(|verb| Command::ceph(["auth", verb, entity])).into()
}

/// The Secret with the key.
fn plan(user: &CephClient, key: &str) -> Plan {
    let name = user.user().unwrap_or_default();
    let metadata = json!({
        "name": user.secret(), "namespace": user.namespace(), "labels": {"rook_cluster": user.namespace()},
    });
    let values = [(name, key.to_owned()), ("userID", name.to_owned()), ("userKey", key.to_owned())];
    Plan::new().step(Step::new("Ready").child(secret_child(&metadata, "kubernetes.io/rook", values)))
}

/// Deletes a user.
async fn farewell(user: &CephClient, client: &Client, home: Home) -> Result<Action, Error> {
    match home {
        Home::Gone => {}
        Home::Waits(why) => {
            tracing::debug!(user = user.name_any(), why, "cannot be deleted yet");
            return Ok(Action::requeue(SOON));
        }
        Home::Ready(_) if refused(user).is_some() => {}
        Home::Ready(ceph) => {
            let entity = format!("client.{}", user.user().unwrap_or_default());
            ceph.find(&Command::ceph(["auth", "del", &entity])).await?;
        }
    }
    objects::hold(client, user, FINALIZER, false).await?;
    Ok(Action::await_change())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(spec: &serde_json::Value, generation: i64) -> CephClient {
        serde_json::from_value(json!({
            "apiVersion": "ceph.rook.io/v1", "kind": "CephClient", "metadata": {"name": "potter", "namespace": "clay"},
            "spec": spec, "status": {"phase": "Ready", "cephx": {"keyGeneration": generation}},
        }))
        .unwrap()
    }

    #[test]
    fn caps_are_given_once_and_changed_where_they_differ() {
        let caps: BTreeMap<String, String> = [("mon".to_owned(), "profile rbd".to_owned())].into();
        let told = |known: Option<&Known>| format!("{:?}", commands("client.potter", &caps, known));
        assert_eq!(
            told(None),
            "[ceph --connect-timeout 10 --format json auth get-or-create client.potter mon profile rbd]"
        );
        assert_eq!(told(Some(&Known { key: "k".into(), caps: caps.clone() })), "[]");
        let other = Known::default();
        assert!(told(Some(&other)).contains("auth caps client.potter mon profile rbd"));
    }

    #[test]
    fn a_key_is_rotated_by_a_higher_generation_only() {
        let with = |policy: &str, generation: i64| json!({"caps": {}, "security": {"cephx": {"keyRotationPolicy": policy, "keyGeneration": generation}}});
        assert_eq!(rotation(&user(&with("KeyGeneration", 3), 2)), Some(3));
        assert_eq!(rotation(&user(&with("KeyGeneration", 2), 2)), None);
        assert_eq!(rotation(&user(&with("Disabled", 3), 2)), None);
    }

    #[test]
    fn the_secret_has_the_key_by_three_names() {
        let text = plan(&user(&json!({"caps": {}, "name": "clay"}), 1), "a2V5").golden();
        for key in ["userID", "userKey", "clay", "rook-ceph-client-potter"] {
            assert!(text.contains(key), "{text}");
        }
        assert!(refused(&user(&json!({"caps": {}, "name": "admin"}), 1)).is_some());
    }
}
