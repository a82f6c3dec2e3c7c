//! The Secrets that services sign in with. On a server of ours an account is made up; on one that exists already it must be
//! brought along.

use c5c3_api::c5c3::ControlPlane;
use c5c3_api::ext::mariadb::WATCH_LABEL;
use c5c3_api::ext::rabbitmq::IMPORT_LABEL;
use c5c3_kit::{Child, Inputs, Ref, Step, Wait, generated};
use k8s_openapi::api::core::v1::Secret;

use super::cloud::Cloud;
use super::graph;

/// The Secret with the administrator's password, if none is named.
pub(super) const ADMIN_SECRET: &str = "keystone-admin-credentials";

/// Something that a service signs in to.
struct Account {
    /// The Secret.
    secret: Ref,
    /// What it must hold.
    keys: Vec<String>,
    /// Why it must be there already.
    because: String,
}

/// Every Secret that must be there already.
pub(super) fn needs(cloud: &Cloud) -> Vec<Ref> {
    cloud.nodes().flat_map(|node| brought(node.name, cloud)).map(|account| account.secret).collect()
}

/// Adds the accounts of a service: makes up what can be made up, and waits for what must be brought along.
pub(super) fn of(service: &'static str, mut step: Step, cloud: &Cloud, inputs: &Inputs<ControlPlane>) -> Step {
    for account in brought(service, cloud) {
        for key in &account.keys {
            if let Err(wait) = inputs.secret(&account.secret, key) {
                step = step.wait(missing(wait, &account));
                break;
            }
        }
    }
    if uses("mariadb", service) && database_is_ours(cloud) {
        step = step.child(account(cloud, &database_secret(service), service, (WATCH_LABEL, "")));
    }
    if uses("rabbitmq", service) && cloud.has("rabbitmq") {
        step = step.child(account(cloud, &queue_secret(service), service, IMPORT_LABEL));
    }
    if service == "keystone" && admin(cloud).is_none() {
        step =
            step.child(generated::secret(&cloud.namespace, ADMIN_SECRET, &[], &["password"]).kept(cloud.keeps_data()));
    }
    step
}

/// A user name and a password that is made up, with the label by which the operator of the server sees changes.
fn account(cloud: &Cloud, secret: &str, user: &str, (label, value): (&str, &str)) -> Child {
    let mut child = generated::secret(&cloud.namespace, secret, &[("username", user)], &["password"]);
    child.object.metadata.labels = Some([(label.to_owned(), value.to_owned())].into());
    child.kept(cloud.keeps_data())
}

fn missing(wait: Wait, account: &Account) -> Wait {
    let Ref { namespace, name, .. } = &account.secret;
    let namespace = namespace.as_deref().unwrap_or_default();
    let keys: Vec<String> = account.keys.iter().map(|key| format!("--from-literal={key}=...")).collect();
    wait.because(account.because.clone())
        .look_at(format!("create it: kubectl create secret generic {name} -n {namespace} {}", keys.join(" ")))
        .failed("SecretMissing")
}

/// The Secrets of a service that we cannot make up.
fn brought(service: &'static str, cloud: &Cloud) -> Vec<Account> {
    let mut accounts = Vec::new();
    let secret = |name: String| Ref::namespaced::<Secret>(&cloud.namespace, name);
    if uses("mariadb", service) && !database_is_ours(cloud) {
        accounts.push(Account {
            secret: secret(database_secret(service)),
            keys: vec!["username".into(), "password".into()],
            because: format!("{service} signs in with it to the server of spec.infrastructure.mariadb.host"),
        });
    }
    if uses("rabbitmq", service) && !cloud.has("rabbitmq") {
        accounts.push(Account {
            secret: secret(queue_secret(service)),
            keys: vec!["username".into(), "password".into()],
            because: format!("{service} signs in with it to the brokers of spec.infrastructure.rabbitmq.hosts"),
        });
    }
    if let Some((name, key)) = admin(cloud).filter(|_| service == "keystone") {
        accounts.push(Account {
            secret: secret(name),
            keys: vec![key],
            because: "spec.identity.keystone.bootstrap.adminUser.passwordSecretRef names it".into(),
        });
    }
    accounts
}

fn uses(infrastructure: &str, service: &str) -> bool {
    graph::find(service).is_some_and(|node| node.needs.contains(&infrastructure))
}

/// A server that exists already and is known by its address is not ours; one that is an object takes accounts of ours.
fn database_is_ours(cloud: &Cloud) -> bool {
    cloud.infrastructure.mariadb.as_ref().is_none_or(|database| database.host.is_none())
}

pub(super) fn database_secret(service: &str) -> String {
    format!("{service}-db-credentials")
}

pub(super) fn queue_secret(service: &str) -> String {
    format!("{service}-rabbitmq-credentials")
}

/// Secret and key of the administrator's password, if they are named.
pub(super) fn admin(cloud: &Cloud) -> Option<(String, String)> {
    let bootstrap = cloud.spec.identity.as_ref()?.keystone.as_ref()?.bootstrap.as_ref()?;
    let secret = bootstrap.admin_user.as_ref()?.password_secret_ref.as_ref()?;
    Some((secret.name.to_string(), secret.key.to_string()))
}
