//! What is seen of a rotation: the credentials in Keystone, how far they were delivered, and what holds the present phase up.

use c5c3_api::c5c3::{CredentialRotation, RotatedCredential, RotationPhase};
use c5c3_api::orc::ApplicationCredential;
use c5c3_kit::{Inputs, Ref, Wait, readiness};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::DynamicObject;
use secrecy::SecretString;

use super::account::{Account, Names};
use super::delivery::{self, Content, Delivery};
use super::keystone::{SignIn, SignIns};
use super::machine::Seen;
use super::state::State;
use super::{ROTATE, consumers, objects};

/// A rotation and everything that was read about it.
pub(crate) struct View<'a> {
    inputs: &'a Inputs<CredentialRotation>,
    account: &'a Account,
    names: &'a Names,
    state: &'a State,
}

/// The credentials of a rotation whose status was lost.
pub(crate) fn existing(inputs: &Inputs<CredentialRotation>, names: &Names) -> Vec<RotatedCredential> {
    let all = inputs.own::<ApplicationCredential>().filter(|object| object.metadata.deletion_timestamp.is_none());
    all.filter_map(|object| {
        let version = object.metadata.name.as_deref()?.strip_prefix(&names.prefix())?.parse().ok()?;
        let expires = object.data["spec"]["resource"]["expiresAt"].as_str().and_then(|text| text.parse().ok());
        Some(RotatedCredential {
            version,
            id: id(object),
            created_at: object.creation_timestamp(),
            expires_at: expires.map(Time),
            revoke_at: None,
        })
    })
    .collect()
}

/// The value of the annotation that asks for a rotation, as far as the status has room for it.
pub(crate) fn request(inputs: &Inputs<CredentialRotation>) -> Option<String> {
    inputs.object.annotations().get(ROTATE).map(|value| value.chars().take(256).collect())
}

fn id(object: &DynamicObject) -> Option<String> {
    object.data["status"]["id"].as_str().map(ToOwned::to_owned)
}

impl<'a> View<'a> {
    pub(crate) fn new(inputs: &'a Inputs<CredentialRotation>, account: &'a Account, state: &'a State) -> Self {
        Self { inputs, account, names: &account.names, state }
    }

    /// What the machine decides by.
    pub(crate) fn seen(&self) -> Seen {
        let objects = self.state.all().filter_map(|credential| {
            let object = self.inputs.get(&objects::reference(self.names, credential))?;
            Some((credential.version, object))
        });
        let objects: Vec<(i64, &DynamicObject)> = objects.collect();
        let available = |version: i64, object: &DynamicObject| {
            let reference =
                Ref::namespaced::<ApplicationCredential>(&self.names.namespace, self.names.version(version));
            readiness::wait(&reference, object).is_none()
        };
        let ids = objects.iter().filter(|(version, object)| available(*version, object));
        let delivery = Delivery::new(self.inputs, self.names);
        Seen {
            ids: ids.filter_map(|(version, object)| Some((*version, id(object)?))).collect(),
            delivered: self.content().is_some_and(|content| delivery.has_arrived(&content)),
            verified: self.state.phase == RotationPhase::Verifying && self.waits().is_empty(),
            refused: self.state.phase == RotationPhase::VerifyingRevoked && self.waits().is_empty(),
            request: request(self.inputs),
            outdated: self.is_outdated(),
            objects: objects.into_iter().map(|(version, _)| version).collect(),
        }
    }

    /// Whether the Secret with the secret of a credential is there.
    pub(crate) fn has_value(&self, credential: &RotatedCredential) -> bool {
        self.value(credential).is_ok()
    }

    fn value(&self, credential: &RotatedCredential) -> Result<SecretString, Wait> {
        self.inputs.secret(&self.names.secret(self.names.version(credential.version)), objects::VALUE)
    }

    fn is_outdated(&self) -> bool {
        let Some(current) = &self.state.current else { return false };
        let live = self.inputs.get(&objects::reference(self.names, current));
        live.is_some_and(|live| objects::is_outdated(&self.inputs.object, live)) || !self.has_value(current)
    }

    /// What services get; none as long as it is not known.
    pub(crate) fn content(&self) -> Option<Content> {
        let (active, cloud) = (self.state.active()?, &self.account.cloud);
        let (id, value) = (active.id.as_ref()?, self.value(active).ok()?);
        let version = delivery::version(active.version, id, &cloud.auth_url, cloud.region.as_deref());
        Some(Content { data: objects::delivered(cloud, id, &value), version })
    }

    /// Why there is nothing to deliver.
    pub(crate) fn undelivered(&self) -> Vec<Wait> {
        let credential = self.state.active().or(self.state.next.as_ref());
        credential
            .and_then(|credential| self.unavailable(credential).or(self.value(credential).err()))
            .into_iter()
            .collect()
    }

    /// That the credential in use has come to its end.
    pub(crate) fn expired(&self) -> Option<Wait> {
        let active = self.state.active()?;
        let expires = active.expires_at.as_ref().filter(|expires| expires.0 <= self.inputs.now)?;
        let wait = Wait::on(&objects::reference(self.names, active)).condition("is valid");
        Some(wait.now(format!("expired at {:.0}", expires.0)).failed("CredentialExpired"))
    }

    fn unavailable(&self, credential: &RotatedCredential) -> Option<Wait> {
        let reference = objects::reference(self.names, credential);
        match self.inputs.get(&reference) {
            Some(object) => readiness::wait(&reference, object),
            None => Some(self.inputs.missing(&reference)),
        }
    }

    /// What Keystone is asked in this phase.
    pub(crate) fn question(&self) -> Option<SignIn> {
        let credential = match self.state.phase {
            RotationPhase::Verifying => self.state.next.as_ref()?,
            RotationPhase::VerifyingRevoked => self.state.previous.as_ref()?,
            _ => return None,
        };
        Some(SignIn::new(&self.account.cloud, credential.id.as_ref()?, &self.value(credential).ok()?))
    }

    /// What holds the present phase up, the first link first.
    pub(crate) fn waits(&self) -> Vec<Wait> {
        let State { phase, next, previous, .. } = self.state;
        match phase {
            RotationPhase::Creating => next.iter().filter_map(|next| self.unavailable(next)).collect(),
            RotationPhase::Delivering => match self.content() {
                Some(content) => Delivery::new(self.inputs, self.names).missing_link(&content).into_iter().collect(),
                None => self.undelivered(),
            },
            RotationPhase::Verifying => self.unverified(),
            RotationPhase::Revoking => previous.iter().filter_map(|old| self.undeleted(old)).collect(),
            RotationPhase::VerifyingRevoked => self.unrefused().into_iter().collect(),
            RotationPhase::Grace | RotationPhase::Idle => Vec::new(),
        }
    }

    fn unverified(&self) -> Vec<Wait> {
        let Some(next) = &self.state.next else { return Vec::new() };
        let Some(question) = self.question() else { return self.undelivered() };
        let refused = match self.inputs.answered::<SignIns>(&question) {
            Ok(true) => None,
            Ok(false) => Some(
                Wait::on(&objects::reference(self.names, next))
                    .condition("is accepted by Keystone")
                    .now("is refused by Keystone")
                    .because("services must not be left with it alone")
                    .with_reason("CredentialRefused"),
            ),
            Err(wait) => Some(wait),
        };
        let id = next.id.as_deref().unwrap_or_default();
        let consumers = consumers::unverified(self.inputs, &self.names.namespace, id);
        refused.into_iter().chain(consumers).collect()
    }

    fn undeleted(&self, old: &RotatedCredential) -> Option<Wait> {
        let reference = objects::reference(self.names, old);
        let object = self.inputs.get(&reference)?;
        let now = match object.metadata.deletion_timestamp {
            Some(_) => "is being deleted",
            None => "is not deleted yet",
        };
        let look_at = format!("kubectl describe applicationcredential {} -n {}", reference.name, self.names.namespace);
        Some(Wait::on(&reference).condition("is deleted").now(now).look_at(look_at).with_reason("Revoking"))
    }

    /// A credential whose secret is lost cannot be tried; its object was gone only when Keystone had deleted it.
    fn unrefused(&self) -> Option<Wait> {
        let question = self.question()?;
        match self.inputs.answered::<SignIns>(&question) {
            Ok(false) => None,
            Ok(true) => {
                let old = self.state.previous.as_ref()?;
                let wait = Wait::on(&objects::reference(self.names, old)).condition("is refused by Keystone");
                let look_at = format!(
                    "openstack application credential delete {}, as the user {}",
                    old.id.as_deref().unwrap_or_default(),
                    self.names.service
                );
                Some(wait.now("is deleted, and Keystone still accepts it").look_at(look_at).failed("NotRevoked"))
            }
            Err(wait) => Some(wait),
        }
    }
}
