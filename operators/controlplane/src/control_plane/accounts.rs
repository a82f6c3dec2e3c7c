//! The Secrets that services sign in with. On a server of ours an account is made up, and rotated; on an external one it must be
//! brought along.

use c5c3_api::c5c3::{ControlPlane, CredentialRotation};
use c5c3_kit::ownership::{MANAGED_BY, label};
use c5c3_kit::{Child, Inputs, KindRef, Ref, Step, Wait, random_secret};
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;

use super::cloud::Cloud;
use super::identity;
use super::part::Part;
use super::parts::{MARIADB, RABBITMQ};

/// The Secret with the administrator's password, if none is named.
pub(super) const ADMIN_SECRET: &str = "keystone-admin-credentials";

/// Something that a service signs in to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// A database on MariaDB.
    Database,
    /// The queues of RabbitMQ.
    Queue,
    /// Keystone, as its first administrator.
    Administrator,
}

/// A Secret that must be there already.
struct Brought {
    /// The Secret.
    secret: Ref,
    /// What it must hold.
    keys: Vec<String>,
    /// Why it must be there already.
    because: String,
}

impl Account {
    /// The Secret of the account, if the ControlPlane chooses its name.
    pub(super) fn secret(self, part: &Part) -> String {
        match self {
            Self::Database => database_secret(part),
            Self::Queue => queue_secret(part),
            Self::Administrator => ADMIN_SECRET.to_owned(),
        }
    }

    /// What makes up an account, and the Secret that it ends in; none if it must be brought along, or was.
    fn made(self, part: &Part, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<Child> {
        let child = match self {
            Self::Database if database_is_ours(cloud) => return self.rotation(part, cloud, inputs),
            Self::Queue if cloud.has(&RABBITMQ) => return self.rotation(part, cloud, inputs),
            Self::Administrator if admin(cloud).is_none() => {
                random_secret::child(&cloud.namespace, ADMIN_SECRET, &[], &["password"])
            }
            Self::Database | Self::Queue | Self::Administrator => return None,
        };
        Some(child.kept(cloud.keeps_data()))
    }

    /// The rotation of an account; none if a user provides the Secret.
    fn rotation(self, part: &Part, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Option<Child> {
        let found = inputs.get(&Ref::namespaced::<Secret>(&cloud.namespace, self.secret(part)));
        if found.is_some_and(|found| label(&found.metadata, MANAGED_BY).is_none_or(|by| by != crate::NAME)) {
            return None;
        }
        let kind = if self == Self::Queue { "brokerAccount" } else { "databaseAccount" };
        let mut spec = identity::rotation(part.name, kind);
        if let Some(KindRef { resource, .. }) = part.kind() {
            spec["consumers"] = json!([{"apiVersion": resource.api_version, "kind": resource.kind, "name": part.name}]);
        }
        let server = if self == Self::Queue { "broker" } else { "database" };
        Some(identity::child::<CredentialRotation>(cloud, &format!("{}-{server}-rotation", part.name), &spec))
    }

    /// The Secret that outlives the ControlPlane if data does. Accounts on servers are made again, with another password.
    pub(super) fn kept_secret(self, part: &Part) -> Option<String> {
        (self == Self::Administrator).then(|| self.secret(part))
    }

    /// The Secret with an account that we cannot make up; none if we can.
    fn brought(self, part: &Part, cloud: &Cloud) -> Option<Brought> {
        let secret = |name: String| Ref::namespaced::<Secret>(&cloud.namespace, name);
        let account = |whose: String| Brought {
            secret: secret(self.secret(part)),
            keys: vec!["username".into(), "password".into()],
            because: format!("{} signs in with it to {whose}", part.name),
        };
        match self {
            Self::Database if database_is_ours(cloud) => None,
            Self::Database => Some(account(format!("the server of {}.host", MARIADB.field))),
            Self::Queue if cloud.has(&RABBITMQ) => None,
            Self::Queue => Some(account(format!("the brokers of {}.hosts", RABBITMQ.field))),
            Self::Administrator => admin(cloud).map(|(name, key)| Brought {
                secret: secret(name),
                keys: vec![key],
                because: "spec.identity.keystone.bootstrap.adminUser.passwordSecretRef names it".into(),
            }),
        }
    }
}

/// Every Secret that must be there already, or may be.
pub(super) fn needs(cloud: &Cloud) -> Vec<Ref> {
    let of = |part: &'static Part| part.accounts.iter().map(move |account| (part, account));
    let all = cloud.parts().flat_map(of).map(|(part, account)| match account.brought(part, cloud) {
        Some(brought) => brought.secret,
        None => Ref::namespaced::<Secret>(&cloud.namespace, account.secret(part)),
    });
    all.collect()
}

/// Adds the accounts of a service: makes up what can be made up, and waits for what must be brought along.
pub(super) fn of(part: &Part, mut step: Step, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Step {
    for account in brought(part, cloud) {
        for key in &account.keys {
            if let Err(wait) = inputs.secret(&account.secret, key) {
                step = step.wait(missing(wait, &account));
                break;
            }
        }
    }
    step.children(part.accounts.iter().filter_map(|account| account.made(part, cloud, inputs)))
}

fn brought(part: &Part, cloud: &Cloud) -> Vec<Brought> {
    part.accounts.iter().filter_map(|account| account.brought(part, cloud)).collect()
}

fn missing(wait: Wait, account: &Brought) -> Wait {
    let Ref { namespace, name, .. } = &account.secret;
    let namespace = namespace.as_deref().unwrap_or_default();
    let keys: Vec<String> = account.keys.iter().map(|key| format!("--from-literal={key}=...")).collect();
    wait.because(account.because.clone())
        .look_at(format!("create it: kubectl create secret generic {name} -n {namespace} {}", keys.join(" ")))
        .failed("SecretMissing")
}

/// An external server is known by its address; one that is an object takes accounts of ours.
fn database_is_ours(cloud: &Cloud) -> bool {
    cloud.infrastructure.mariadb.as_ref().is_none_or(|database| database.host.is_none())
}

pub(super) fn database_secret(part: &Part) -> String {
    format!("{}-db-credentials", part.name)
}

pub(super) fn queue_secret(part: &Part) -> String {
    format!("{}-rabbitmq-credentials", part.name)
}

/// Secret and key of the administrator's password, if they are named.
pub(super) fn admin(cloud: &Cloud) -> Option<(String, String)> {
    let bootstrap = cloud.spec.identity.as_ref()?.keystone.as_ref()?.bootstrap.as_ref()?;
    let secret = bootstrap.admin_user.as_ref()?.password_secret_ref.as_ref()?;
    Some((secret.name.to_string(), secret.key.to_string()))
}
