//! The accounts of a Secret that a CredentialRotation keeps: while one takes the place of another, both exist on the server.
//!
//! The Secret that a service reads has the account in use. Its annotations name the Secrets of all accounts that have to exist,
//! and of those that were revoked.

use c5c3_api::c5c3::{ACCOUNTS, REVOKED_ACCOUNTS};
use c5c3_kit::{Inputs, Ref, Wait};
use k8s_openapi::api::core::v1::Secret;
use kube::Resource;
use secrecy::{ExposeSecret, SecretString};

/// An account on a server.
#[derive(Clone, Debug)]
pub struct RotatedAccount {
    /// The Secret with its name and password, which never change.
    pub secret: String,
    /// Its name.
    pub username: String,
    /// Its password.
    pub password: SecretString,
}

/// The accounts that are known of a Secret.
#[derive(Clone, Debug, Default)]
pub struct RotatedAccounts {
    /// Those that have to exist; empty if nothing rotates the account.
    pub kept: Vec<RotatedAccount>,
    /// Those that must not exist.
    pub revoked: Vec<RotatedAccount>,
}

impl RotatedAccounts {
    /// The accounts of a Secret, or the wait for one of them.
    pub fn find<K: Resource>(inputs: &Inputs<K>, secret: &Ref) -> Result<Self, Wait> {
        let account = |secret: Ref| -> Result<RotatedAccount, Wait> {
            let value = |key: &str| {
                let wait = inputs.secret(&secret, key);
                wait.map_err(|wait| wait.because("an account of the service is in it").with_reason("WaitingForAccount"))
            };
            let username = value("username")?.expose_secret().to_owned();
            Ok(RotatedAccount { username, password: value("password")?, secret: secret.name.clone() })
        };
        let kept: Result<Vec<RotatedAccount>, Wait> = named(inputs, secret, ACCOUNTS).map(account).collect();
        // Without its Secret a revoked account cannot be tried, and nothing waits for that.
        let revoked = named(inputs, secret, REVOKED_ACCOUNTS).filter_map(|secret| account(secret).ok()).collect();
        Ok(Self { kept: kept?, revoked })
    }

    /// The Secrets that have to be read.
    pub fn needs<K: Resource>(inputs: &Inputs<K>, secret: &Ref) -> Vec<Ref> {
        named(inputs, secret, ACCOUNTS).chain(named(inputs, secret, REVOKED_ACCOUNTS)).collect()
    }
}

fn named<'a, K: Resource>(inputs: &'a Inputs<K>, secret: &'a Ref, annotation: &str) -> impl Iterator<Item = Ref> + 'a {
    let annotations = inputs.get(secret).and_then(|found| found.metadata.annotations.as_ref());
    let names = annotations.and_then(|all| all.get(annotation)).map(String::as_str).unwrap_or_default();
    let names = names.split(',').filter(|name| !name.is_empty());
    names.map(|name| Ref::namespaced::<Secret>(secret.namespace.clone().unwrap_or_default(), name))
}
