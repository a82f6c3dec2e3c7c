//! Databases, users and grants: carried out over SQL as root, again when anything about them changes, and taken back when
//! they go.

mod connection;
mod password;
mod statements;

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use c5c3_api::blocks::{Condition, ConditionStatus};
use c5c3_api::ext::mariadb::{CleanupPolicy, Database, Grant, MariaDB, MariaDbRef, User, WATCH_LABEL};
use c5c3_api::ext::{Readiness, Ready};
use c5c3_kit::condition::ConditionState;
use c5c3_kit::hash;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::MANAGER;
use crate::failure::Error;
use crate::queue::{Kind, RESYNC};
use crate::{objects, queue};
use connection::Access;
use statements::Statement;

pub(crate) use connection::SqlError;
pub(super) use password::follow;

/// How soon to try again what was refused, or could not be reached.
const AGAIN: Duration = Duration::from_secs(3);

/// Something in a server.
pub(super) trait InServer: Kind + Resource<Scope = k8s_openapi::NamespaceResourceScope> {
    /// Held until it is taken back.
    const FINALIZER: &'static str;

    /// The server that it is in.
    fn server(&self) -> &MariaDbRef;

    /// What becomes of it in the server when the object goes.
    fn cleanup_policy(&self) -> Option<CleanupPolicy>;

    /// What makes it be there; or what is wrong with the object, by its field.
    fn statements(&self, password: Option<&SecretString>) -> Result<Vec<Statement>, String>;

    /// What takes it back.
    fn removal(&self) -> Vec<Statement>;

    /// Its status, as JSON.
    fn status(&self) -> Value;

    /// What its status has beside conditions once it is carried out.
    fn also(&self) -> Value {
        json!({})
    }

    /// The key of a Secret that its password is in.
    fn password(&self) -> Option<(&str, &str)> {
        None
    }
}

macro_rules! in_server {
    ($kind:ty, $finalizer:literal, $removal:path) => {
        const FINALIZER: &'static str = $finalizer;

        fn server(&self) -> &MariaDbRef {
            &self.spec.maria_db_ref
        }

        fn cleanup_policy(&self) -> Option<CleanupPolicy> {
            self.spec.cleanup_policy
        }

        fn removal(&self) -> Vec<Statement> {
            $removal(self)
        }

        fn status(&self) -> Value {
            json!(self.status)
        }
    };
}

impl InServer for Database {
    in_server!(Database, "database.k8s.mariadb.com/finalizer", statements::drop_database);

    fn statements(&self, _: Option<&SecretString>) -> Result<Vec<Statement>, String> {
        statements::database(self)
    }
}

impl InServer for User {
    in_server!(User, "user.k8s.mariadb.com/finalizer", statements::drop_user);

    fn statements(&self, password: Option<&SecretString>) -> Result<Vec<Statement>, String> {
        Ok(statements::user(self, password))
    }

    fn password(&self) -> Option<(&str, &str)> {
        self.spec.password_secret_key_ref.as_ref().map(|key| (key.name.as_str(), key.key.as_str()))
    }
}

impl InServer for Grant {
    in_server!(Grant, "grant.k8s.mariadb.com/finalizer", statements::revoke);

    fn statements(&self, _: Option<&SecretString>) -> Result<Vec<Statement>, String> {
        statements::grant(self)
    }

    fn also(&self) -> Value {
        json!({"currentPrivileges": self.spec.privileges})
    }
}

/// Looks after all objects of a kind until `stop`.
pub(super) async fn run<K: InServer>(client: Client, stop: CancellationToken) {
    let done = std::sync::Arc::new(Done::default());
    queue::run(controller::<K>(&client), client, stop, move |object, client| {
        let done = done.clone();
        async move { Look { object: &object, client: &client, done: &done }.reconcile().await }
    })
    .await;
}

/// Looks again when the server of an object changes, and when a Secret does that it names and that is labelled so.
fn controller<K: InServer>(client: &Client) -> Controller<K> {
    let controller = queue::controller::<K>(client);
    let (servers, secrets) = (controller.store(), controller.store());
    let all = Api::<MariaDB>::all(client.clone());
    controller
        .watches(all, watcher::Config::default(), move |mariadb| {
            queue::concerned(&servers, |object: &K| {
                let named = object.server();
                let namespace = named.namespace.clone().or_else(|| object.namespace());
                named.name == mariadb.name_any() && namespace == mariadb.namespace()
            })
        })
        .watches_stream(queue::labelled::<Secret>(client, WATCH_LABEL), move |secret| {
            let name = secret.metadata.name.clone();
            queue::concerned(&secrets, |object: &K| {
                object.namespace() == secret.metadata.namespace
                    && object.password().is_some_and(|(named, _)| Some(named) == name.as_deref())
            })
        })
}

/// What was carried out last for each object, and when: the same is not told a server over and over.
#[derive(Default)]
struct Done(Mutex<HashMap<String, (String, Instant)>>);

impl Done {
    fn is(&self, uid: &str, what: &str) -> bool {
        let done = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        done.get(uid).is_some_and(|(last, when)| last == what && when.elapsed() < RESYNC)
    }

    fn set(&self, uid: &str, what: Option<String>) {
        let mut done = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match what {
            Some(what) => done.insert(uid.to_owned(), (what, Instant::now())),
            None => done.remove(uid),
        };
    }
}

/// One look at one object.
struct Look<'l, K> {
    object: &'l K,
    client: &'l Client,
    done: &'l Done,
}

impl<K: InServer> Look<'_, K> {
    async fn reconcile(&self) -> Result<Action, Error> {
        let object = self.object;
        let named = object.server();
        let namespace = named.namespace.clone().or_else(|| object.namespace()).unwrap_or_default();
        let mariadb = objects::find::<MariaDB>(self.client, &namespace, &named.name).await?;
        if object.meta().deletion_timestamp.is_some() {
            return self.let_go(mariadb).await;
        }
        if !object.finalizers().iter().any(|finalizer| finalizer == K::FINALIZER) {
            objects::hold(self.client, object, K::FINALIZER, true).await?;
            return Ok(Action::requeue(Duration::ZERO));
        }
        let Some(mariadb) = mariadb else {
            let why = format!("spec.mariaDbRef: mariadb/{} is not there", named.name);
            return self.say(ConditionState::unmet("Ready", "Failed", why), false).await;
        };
        if named.wait_for_it.unwrap_or(true)
            && let Ready::No { message, .. } = mariadb.readiness()
        {
            // What is in the server already is not gone because one of its members is.
            if self.ready().is_some_and(|ready| ready.status == ConditionStatus::True) {
                return Ok(Action::requeue(AGAIN));
            }
            return self
                .say(ConditionState::unmet("Ready", "Failed", format!("MariaDB not ready: {message}")), false)
                .await;
        }
        match self.carry_out(&mariadb).await? {
            Ok(()) => self.say(ConditionState::met("Ready", "Created", "Created"), true).await,
            Err((reason, why)) => self.say(ConditionState::unmet("Ready", reason, why), false).await,
        }
    }

    /// Tells the server, unless it was told the same before. An error is what to say of it.
    async fn carry_out(&self, mariadb: &MariaDB) -> Result<Result<(), (&'static str, String)>, Error> {
        let password = match self.password().await? {
            Ok(password) => password,
            Err(why) => return Ok(Err(("Failed", why))),
        };
        let statements = match self.object.statements(password.as_ref()) {
            Ok(statements) => statements,
            Err(why) => return Ok(Err(("Failed", why))),
        };
        let uid = self.object.uid().unwrap_or_default();
        let texts: Vec<&str> = statements.iter().map(Statement::text).collect();
        let what = format!("{} {}", mariadb.uid().unwrap_or_default(), hash::short(texts.join("\n").as_bytes()));
        if self.done.is(&uid, &what) {
            return Ok(Ok(()));
        }
        self.done.set(&uid, None);
        let Some(access) = Access::to(mariadb, self.client).await? else {
            return Ok(Err(("ConnectionFailed", format!("mariadb/{} has no address yet", mariadb.name_any()))));
        };
        Ok(match access.carry_out(&statements).await {
            Ok(()) => {
                self.done.set(&uid, Some(what));
                Ok(())
            }
            Err(error @ SqlError::Refused { .. }) => Err(("Failed", error.to_string())),
            Err(error) => Err(("ConnectionFailed", error.to_string())),
        })
    }

    /// The password that the object names, if it names one; or what is wrong with it.
    async fn password(&self) -> Result<Result<Option<SecretString>, String>, Error> {
        let Some((secret, key)) = self.object.password() else { return Ok(Ok(None)) };
        let namespace = self.object.namespace().unwrap_or_default();
        let found = objects::secret(self.client, &namespace, secret).await?;
        Ok(match found.map(|mut values| values.remove(key)) {
            Some(Some(password)) => Ok(Some(password.into())),
            Some(None) => Err(format!("spec.passwordSecretKeyRef.key: secret/{secret} has no key {key}")),
            None => Err(format!("spec.passwordSecretKeyRef.name: secret/{secret} is not there")),
        })
    }

    /// Takes back what was made, unless it is to stay, or its server is gone or going, and everything in it.
    async fn let_go(&self, mariadb: Option<MariaDB>) -> Result<Action, Error> {
        let object = self.object;
        if !object.finalizers().iter().any(|finalizer| finalizer == K::FINALIZER) {
            return Ok(Action::await_change());
        }
        let stays = object.cleanup_policy() == Some(CleanupPolicy::Skip);
        let server = mariadb.filter(|mariadb| mariadb.metadata.deletion_timestamp.is_none() && !stays);
        if let Some(mariadb) = server
            && let Some(access) = Access::to(&mariadb, self.client).await?
            && let Err(error) = access.carry_out(&object.removal()).await
            && !error.is_nothing_there()
        {
            return self
                .say(ConditionState::unmet("Ready", "Failed", format!("cannot be taken back: {error}")), false)
                .await;
        }
        self.done.set(&object.uid().unwrap_or_default(), None);
        objects::hold(self.client, object, K::FINALIZER, false).await?;
        Ok(Action::await_change())
    }

    /// The condition that it has.
    fn ready(&self) -> Option<Condition> {
        let conditions: Vec<Condition> = serde_json::from_value(self.object.status()["conditions"].clone()).ok()?;
        conditions.into_iter().find(|condition| condition.r#type == "Ready")
    }

    async fn say(&self, said: ConditionState, carried_out: bool) -> Result<Action, Error> {
        let before = self.object.status();
        let mut status = if before.is_object() { before.clone() } else { json!({}) };
        status["conditions"] = json!([said.to_condition(self.ready().as_ref(), None, Timestamp::now())]);
        if carried_out {
            for (field, value) in self.object.also().as_object().into_iter().flatten() {
                status[field] = value.clone();
            }
        }
        objects::report(self.client, self.object, MANAGER, Some(&before), &status).await?;
        Ok(Action::requeue(if carried_out { RESYNC } else { AGAIN }))
    }
}
