//! Users of Ceph. Rook makes the key of a user, so a Secret has a copy of it, and the ControlPlane makes the users that a rotation
//! speaks of: it knows what they may do.

use std::collections::BTreeSet;

use c5c3_api::c5c3::{ACCOUNTS, CredentialRotation, RotationPhase};
use c5c3_kit::{Inputs, Ref, Wait, readiness};
use k8s_openapi::ByteString;
use kube::Resource;
use secrecy::{ExposeSecret, SecretString};

use super::account::Names;
use super::objects::Data;
use super::server_account::{PASSWORD, USERNAME, username, versions};
use super::state::State;
use crate::ceph_users;

const BECAUSE: &str = "the ControlPlane makes the user, and Rook its key";

/// What has to be read about these users.
pub(super) fn needs(inputs: &Inputs<CredentialRotation>, users: impl Iterator<Item = String>) -> Vec<Ref> {
    let of_users = users.flat_map(|user| [ceph_users::user(&user), ceph_users::source(&user)]);
    [cluster(inputs), ceph_users::endpoints()].into_iter().chain(of_users).collect()
}

/// The users that have to exist for a rotation: those that it keeps, those that services were given, and the first one before
/// anything is known.
pub(crate) fn kept<K: Resource>(
    inputs: &Inputs<K>,
    rotation: Option<&CredentialRotation>,
    names: &Names,
) -> BTreeSet<String> {
    let state = rotation.and_then(|rotation| State::recorded(rotation.status.as_ref()));
    let recorded = state.iter().flat_map(State::kept).map(|account| account.version);
    let target = inputs.get(&names.secret(ceph_users::delivered(&names.service)));
    let listed = target.and_then(|target| target.metadata.annotations.as_ref()?.get(ACCOUNTS).cloned());
    let listed: Vec<i64> = versions(names, listed.as_deref().unwrap_or_default()).collect();
    let known: BTreeSet<String> = recorded.chain(listed).map(|version| username(names, version)).collect();
    if known.is_empty() { [names.service.clone()].into() } else { known }
}

/// The user that a rotation has seen all services leave, and now wants gone.
pub(crate) fn replaced<K: Resource>(
    inputs: &Inputs<K>,
    rotation: Option<&CredentialRotation>,
    names: &Names,
) -> Option<String> {
    let state = State::recorded(rotation?.status.as_ref()).filter(|state| state.phase == RotationPhase::Revoking)?;
    let user = username(names, state.previous?.version);
    (!kept(inputs, rotation, names).contains(&user)).then_some(user)
}

/// Name and key of a user, once Rook has made it and it may do what it has to.
pub(super) fn content(inputs: &Inputs<CredentialRotation>, user: &str) -> Result<Data, Wait> {
    let reference = ceph_users::user(user);
    let because = |wait: Wait| wait.because(BECAUSE).with_reason("WaitingForCephUser");
    let found = inputs.get(&reference).ok_or_else(|| because(inputs.missing(&reference)))?;
    if let Some(wait) = readiness::wait(&reference, found) {
        return Err(because(wait));
    }
    let key = ceph_users::key(inputs, user).map_err(because)?;
    let value = |text: &str| ByteString(text.as_bytes().to_vec());
    Ok([(USERNAME.to_owned(), value(user)), (PASSWORD.to_owned(), value(key.expose_secret()))].into())
}

/// What services read of a user.
pub(super) fn delivered(inputs: &Inputs<CredentialRotation>, content: &Data) -> Result<Data, Wait> {
    let text =
        |key: &str| content.get(key).map(|value| String::from_utf8_lossy(&value.0).into_owned()).unwrap_or_default();
    let key = SecretString::from(text(PASSWORD));
    ceph_users::credentials(inputs, &cluster(inputs), &text(USERNAME), &key)
}

/// The wait for a user that is not deleted yet.
pub(super) fn undeleted(inputs: &Inputs<CredentialRotation>, user: &str) -> Option<Wait> {
    let reference = ceph_users::user(user);
    inputs.get(&reference)?;
    let because = "the ControlPlane deletes it, and Rook the user of Ceph";
    Some(Wait::on(&reference).condition("is gone").now("it still exists").because(because))
}

fn cluster(inputs: &Inputs<CredentialRotation>) -> Ref {
    let named = inputs.object.spec.ceph_cluster.as_ref().map(ToString::to_string);
    ceph_users::cluster(named.unwrap_or_default())
}
