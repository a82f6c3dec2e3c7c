//! What a service account token says, and whether it still holds.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Kind, LEEWAY_SECONDS, Lookup, TokenError};
use crate::user::{CREDENTIAL_ID, UserInfo};

/// The claims of a bound service account token, as a real cluster writes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Whom the token is meant for.
    pub aud: Vec<String>,
    /// Until when it holds, in seconds since 1970.
    pub exp: i64,
    /// When it was issued.
    pub iat: i64,
    /// Who issued it.
    pub iss: String,
    /// What names this very token.
    pub jti: String,
    /// Whose it is and what it is bound to.
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: Binding,
    /// From when it holds.
    pub nbf: i64,
    /// The user name.
    pub sub: String,
}

/// The service account of a token, and the objects without which the token is void.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// Namespace of the service account, pod and secret.
    pub namespace: String,
    /// A node; beside a pod, the one that it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    /// A pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    /// A secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    /// The service account.
    pub serviceaccount: Reference,
    /// When the holder should have fetched a new token, though this one goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnafter: Option<i64>,
}

/// An object by name and identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl Claims {
    /// Whether now is between the beginning and the end.
    pub(super) fn in_force(&self, now: Timestamp) -> Result<(), TokenError> {
        let now = now.as_second();
        if now.saturating_add(LEEWAY_SECONDS) < self.nbf {
            Err(TokenError::NotYetValid)
        } else if now.saturating_sub(LEEWAY_SECONDS) > self.exp {
            Err(TokenError::Expired)
        } else if now.saturating_add(LEEWAY_SECONDS) < self.iat {
            Err(TokenError::FromTheFuture)
        } else {
            Ok(())
        }
    }

    /// Whether the service account and what the token is bound to are the same objects as when it was issued.
    pub(super) fn still_bound(&self, lookup: &dyn Lookup, now: Timestamp) -> Result<(), TokenError> {
        let binding = &self.kubernetes;
        let owner = &binding.serviceaccount;
        let too_old = now.as_second() - LEEWAY_SECONDS;
        let gone = |deleted: Option<Timestamp>| deleted.is_some_and(|at| at.as_second() < too_old);
        let found = lookup
            .find(Kind::ServiceAccount, &binding.namespace, &owner.name)
            .ok_or_else(|| TokenError::NoServiceAccount(owner.name.clone()))?;
        if gone(found.deleted_at) {
            return Err(TokenError::Deleted(format!("{}/{}", binding.namespace, owner.name)));
        }
        if found.uid != owner.uid {
            return Err(TokenError::Replaced { found: found.uid, claimed: owner.uid.clone() });
        }
        // The node beside a pod is information: pods do not outlive their nodes unnoticed.
        let node = binding.node.as_ref().filter(|_| binding.pod.is_none());
        let bound = [
            (Kind::Pod, binding.namespace.as_str(), binding.pod.as_ref()),
            (Kind::Secret, binding.namespace.as_str(), binding.secret.as_ref()),
            (Kind::Node, "", node),
        ];
        for (kind, namespace, reference) in bound {
            let Some(reference) = reference else { continue };
            let found = lookup.find(kind, namespace, &reference.name).ok_or(TokenError::Unbound)?;
            if found.uid != reference.uid || gone(found.deleted_at) {
                return Err(TokenError::Unbound);
            }
        }
        Ok(())
    }

    /// The identity that the token proves.
    pub fn user(&self) -> UserInfo {
        let binding = &self.kubernetes;
        let mut user = UserInfo::service_account(&binding.namespace, &binding.serviceaccount.name);
        user.uid.clone_from(&binding.serviceaccount.uid);
        user.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={}", self.jti)]);
        let mut note = |key: &str, value: &str| {
            if !value.is_empty() {
                user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
            }
        };
        for (kind, reference) in [("pod", &binding.pod), ("node", &binding.node)] {
            if let Some(reference) = reference {
                note(&format!("{kind}-name"), &reference.name);
                note(&format!("{kind}-uid"), &reference.uid);
            }
        }
        user
    }
}
