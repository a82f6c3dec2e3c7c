//! Looks after Vhosts, Users and Permissions: each is made by calls to the broker it names, and taken away by others.

use c5c3_api::blocks::Condition;
use c5c3_api::ext::NamedRef;
use c5c3_api::ext::rabbitmq::{
    DeletionPolicy, IMPORT_LABEL, Permission, RabbitmqClusterRef, TopologyStatus, User, UserStatus, Vhost,
    user_credentials_secret,
};
use c5c3_kit::condition::{ConditionState, find};
use c5c3_kit::{Plan, Step};
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::controller::Action;
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde_json::json;

use super::MANAGER;
use super::broker::Broker;
use super::calls::{self, Call, Proof};
use crate::failure::Error;
use crate::queue::{Kind, RESYNC};
use crate::{generated, objects};

/// Something in a broker that an object stands for.
pub(super) trait Topology: Kind + Resource<Scope = NamespaceResourceScope> {
    /// What is said of it.
    type Status: Serialize + PartialEq + Sync;
    /// What must be looked up before it can be made.
    type Facts: Send + Sync;

    /// Held while it is in the broker.
    const FINALIZER: &'static str;

    /// The broker.
    fn broker(&self) -> &RabbitmqClusterRef;
    /// Looks up what is needed to make it.
    fn facts(&self, client: &Client) -> impl Future<Output = Result<Self::Facts, Error>> + Send;
    /// The calls that make it.
    fn make(&self, facts: &Self::Facts) -> Vec<Call>;
    /// The calls that take it away.
    fn unmake(&self, client: &Client) -> impl Future<Output = Result<Vec<Call>, Error>> + Send;
    /// What was said before.
    fn said(&self) -> Option<&Self::Status>;
    /// What is said now.
    fn say(&self, facts: Option<&Self::Facts>, ready: &ConditionState, now: Timestamp) -> Self::Status;
}

/// Brings the broker to what an object says, and says how that went.
pub(super) async fn reconcile<T: Topology>(object: T, client: Client) -> Result<Action, Error> {
    let held = object.finalizers().iter().any(|finalizer| finalizer == T::FINALIZER);
    if object.meta().deletion_timestamp.is_some() {
        if held {
            take_away(&object, &client).await?;
            objects::hold(&client, &object, T::FINALIZER, false).await?;
        }
        return Ok(Action::await_change());
    }
    if !held {
        // The change comes back through the watch and starts the next reconcile.
        objects::hold(&client, &object, T::FINALIZER, true).await?;
        return Ok(Action::await_change());
    }
    let facts = object.facts(&client).await;
    let made = match &facts {
        Ok(facts) => bring(&object, facts, &client).await,
        Err(_) => Ok(()),
    };
    let failure = facts.as_ref().err().map(ToString::to_string).or(made.as_ref().err().map(ToString::to_string));
    let ready = match failure {
        None => ConditionState::met("Ready", "SuccessfulCreateOrUpdate", ""),
        Some(why) => ConditionState::unmet("Ready", "FailedCreateOrUpdate", why),
    };
    let status = object.say(facts.as_ref().ok(), &ready, Timestamp::now());
    objects::report(&client, &object, MANAGER, object.said(), &status).await?;
    facts?;
    made?;
    Ok(Action::requeue(RESYNC))
}

async fn bring<T: Topology>(object: &T, facts: &T::Facts, client: &Client) -> Result<(), Error> {
    match Broker::of(client, &object.namespace().unwrap_or_default(), object.broker()).await? {
        Broker::There(server) => Ok(calls::make(&server, &object.make(facts)).await?),
        Broker::Gone => {
            let name = object.broker().name.as_deref().unwrap_or_default();
            Err(Error::Missing(format!("the RabbitmqCluster {name} is not there")))
        }
    }
}

async fn take_away<T: Topology>(object: &T, client: &Client) -> Result<(), Error> {
    match Broker::of(client, &object.namespace().unwrap_or_default(), object.broker()).await {
        Ok(Broker::There(server)) => Ok(calls::make(&server, &object.unmake(client).await?).await?),
        Ok(Broker::Gone) => Ok(()),
        // Who went first, as in a namespace that is deleted, tells no one any more how to reach the broker.
        Err(Error::Missing(why)) => {
            tracing::warn!(object = %objects::reference(object), why, "is let go, and left in the broker if that is there");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn conditions(before: Option<&[Condition]>, ready: &ConditionState, now: Timestamp) -> Vec<Condition> {
    vec![ready.to_condition(find(before.unwrap_or_default(), "Ready"), None, now)]
}

/// The generation that a status is about: a failure says nothing of the new one.
fn observed(generation: Option<i64>, before: Option<i64>, ready: &ConditionState) -> Option<i64> {
    if ready.status == c5c3_api::blocks::ConditionStatus::True { generation } else { before }
}

impl Topology for Vhost {
    type Status = TopologyStatus;
    type Facts = ();
    const FINALIZER: &'static str = "deletion.finalizers.vhosts.rabbitmq.com";

    fn broker(&self) -> &RabbitmqClusterRef {
        &self.spec.rabbitmq_cluster_reference
    }

    async fn facts(&self, _: &Client) -> Result<(), Error> {
        Ok(())
    }

    fn make(&self, (): &()) -> Vec<Call> {
        calls::vhost(&self.spec)
    }

    async fn unmake(&self, _: &Client) -> Result<Vec<Call>, Error> {
        let kept = self.spec.deletion_policy == Some(DeletionPolicy::Retain);
        Ok(if kept { Vec::new() } else { calls::no_vhost(&self.spec.name) })
    }

    fn said(&self) -> Option<&TopologyStatus> {
        self.status.as_ref()
    }

    fn say(&self, _: Option<&()>, ready: &ConditionState, now: Timestamp) -> TopologyStatus {
        topology_status(self.status.as_ref(), self.metadata.generation, ready, now)
    }
}

fn topology_status(
    before: Option<&TopologyStatus>,
    generation: Option<i64>,
    ready: &ConditionState,
    now: Timestamp,
) -> TopologyStatus {
    TopologyStatus {
        conditions: conditions(before.map(|before| before.conditions.as_slice()), ready, now),
        observed_generation: observed(generation, before.and_then(|before| before.observed_generation), ready),
    }
}

/// Who a user is in the broker.
pub(super) struct Credentials {
    name: String,
    proof: Proof,
    secret: String,
}

impl Topology for User {
    type Status = UserStatus;
    type Facts = Credentials;
    const FINALIZER: &'static str = "deletion.finalizers.users.rabbitmq.com";

    fn broker(&self) -> &RabbitmqClusterRef {
        &self.spec.rabbitmq_cluster_reference
    }

    async fn facts(&self, client: &Client) -> Result<Credentials, Error> {
        match &self.spec.import_credentials_secret {
            Some(given) => imported(client, self, &given.name).await,
            None => own(client, self).await,
        }
    }

    fn make(&self, credentials: &Credentials) -> Vec<Call> {
        calls::user(&credentials.name, &credentials.proof, &self.spec)
    }

    async fn unmake(&self, _: &Client) -> Result<Vec<Call>, Error> {
        let name = self.status.as_ref().map(|status| status.username.as_str()).filter(|name| !name.is_empty());
        Ok(name.map(calls::no_user).unwrap_or_default())
    }

    fn said(&self) -> Option<&UserStatus> {
        self.status.as_ref()
    }

    fn say(&self, credentials: Option<&Credentials>, ready: &ConditionState, now: Timestamp) -> UserStatus {
        let before = self.status.clone().unwrap_or_default();
        UserStatus {
            conditions: conditions(Some(&before.conditions), ready, now),
            observed_generation: observed(self.metadata.generation, before.observed_generation, ready),
            username: credentials.map_or(before.username, |credentials| credentials.name.clone()),
            credentials: credentials.map_or(before.credentials, |credentials| Some(NamedRef::new(&credentials.secret))),
        }
    }
}

/// The credentials in a Secret that someone else looks after.
async fn imported(client: &Client, user: &User, name: &str) -> Result<Credentials, Error> {
    let missing = |what: String| Error::Missing(format!("spec.importCredentialsSecret: the Secret {name} {what}"));
    let secret = objects::find::<Secret>(client, &user.namespace().unwrap_or_default(), name).await?;
    let secret = secret.ok_or_else(|| missing("is not there".into()))?;
    let (label, value) = IMPORT_LABEL;
    if secret.labels().get(label).is_none_or(|found| found != value) {
        return Err(missing(format!("has no label {label}={value}, without which changes of it are not heard of")));
    }
    let mut parts = objects::text(&secret);
    let username = parts.remove("username").ok_or_else(|| missing("has no username".into()))?;
    let proof = match (parts.remove("passwordHash"), parts.remove("password")) {
        (Some(hash), _) => Proof::Hash(hash),
        (None, Some(password)) => Proof::Password(password),
        (None, None) => return Err(missing("has neither password nor passwordHash".into())),
    };
    Ok(Credentials { name: username, proof, secret: name.to_owned() })
}

/// The credentials that we made, and keep in a Secret of the user's own.
async fn own(client: &Client, user: &User) -> Result<Credentials, Error> {
    let (namespace, secret) = (user.namespace().unwrap_or_default(), user_credentials_secret(&user.name_any()));
    let mut had = objects::secret(client, &namespace, &secret).await?.unwrap_or_default();
    let mut part = |key: &str| had.remove(key).unwrap_or_else(generated::password);
    let (username, password) = (part("username"), part("password"));
    let metadata = json!({"name": secret, "namespace": namespace});
    let values = [("username", username.clone()), ("password", password.clone())];
    let plan = Plan::new().step(Step::new("Ready").child(objects::secret_child(&metadata, "Opaque", values)));
    let applied = objects::apply(client, user, MANAGER, &plan).await?;
    if let Some(wait) = applied.outcomes.iter().flat_map(|outcome| &outcome.waits).next() {
        return Err(Error::Missing(wait.message(Some(&namespace))));
    }
    Ok(Credentials { name: username, proof: Proof::Password(password), secret })
}

impl Topology for Permission {
    type Status = TopologyStatus;
    /// The user's name in the broker.
    type Facts = String;
    const FINALIZER: &'static str = "deletion.finalizers.permissions.rabbitmq.com";

    fn broker(&self) -> &RabbitmqClusterRef {
        &self.spec.rabbitmq_cluster_reference
    }

    async fn facts(&self, client: &Client) -> Result<String, Error> {
        match (&self.spec.user, &self.spec.user_reference) {
            (Some(user), None) => Ok(user.clone()),
            (None, Some(user)) => named(client, self, &user.name).await?.ok_or_else(|| {
                Error::Missing(format!("spec.userReference: the User {} has no name in the broker yet", user.name))
            }),
            _ => Err(Error::Missing("exactly one of spec.user and spec.userReference must be set".into())),
        }
    }

    fn make(&self, user: &String) -> Vec<Call> {
        calls::permission(user, &self.spec)
    }

    async fn unmake(&self, client: &Client) -> Result<Vec<Call>, Error> {
        let user = match (&self.spec.user, &self.spec.user_reference) {
            (Some(user), _) => Some(user.clone()),
            // A user that is gone has taken what it was permitted along.
            (None, Some(user)) => named(client, self, &user.name).await?,
            (None, None) => None,
        };
        Ok(user.map(|user| calls::no_permission(&user, &self.spec.vhost)).unwrap_or_default())
    }

    fn said(&self) -> Option<&TopologyStatus> {
        self.status.as_ref()
    }

    fn say(&self, _: Option<&String>, ready: &ConditionState, now: Timestamp) -> TopologyStatus {
        topology_status(self.status.as_ref(), self.metadata.generation, ready, now)
    }
}

/// The name in the broker of a User of the same namespace.
async fn named(client: &Client, permission: &Permission, user: &str) -> Result<Option<String>, Error> {
    let user = objects::find::<User>(client, &permission.namespace().unwrap_or_default(), user).await?;
    Ok(user.and_then(|user| user.status).map(|status| status.username).filter(|name| !name.is_empty()))
}
