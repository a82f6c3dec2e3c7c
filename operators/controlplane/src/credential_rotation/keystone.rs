//! The one question that a rotation has for Keystone: whether it accepts an application credential.

use std::fmt;

use c5c3_kit::remote::{Action, Class, Failure, Remote, Verb};
use c5c3_openstack::{Access, Client, Cloud, Credential, Error, Options};
use secrecy::SecretString;

/// Whether Keystone accepts an application credential.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct SignIn {
    access: Access,
    id: String,
}

impl SignIn {
    /// With this id and secret.
    pub(crate) fn new(cloud: &Cloud, id: &str, secret: &SecretString) -> Self {
        let credential = Credential::Application { id: id.to_owned(), secret: secret.clone() };
        Self { access: Access::new(cloud.clone(), credential), id: id.to_owned() }
    }
}

impl fmt::Display for SignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "whether application credential {} is accepted", self.id)
    }
}

/// Nothing is changed in Keystone from here: K-ORC's objects do that.
pub(crate) enum NoAction {}

impl fmt::Display for NoAction {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl Action for NoAction {
    fn verb(&self) -> Verb {
        match *self {}
    }
}

/// Keystone, as far as signing in goes.
pub(crate) struct SignIns {
    options: Options,
}

impl SignIns {
    /// Each sign-in has a client of its own, with these options: a token from before proves nothing.
    pub(crate) fn new(options: Options) -> Self {
        Self { options }
    }
}

impl Remote for SignIns {
    type Question = SignIn;
    type Answer = bool;
    type Action = NoAction;
    const NAME: &'static str = "keystone";

    async fn ask(&self, question: &SignIn) -> Result<bool, Failure> {
        let (cloud, credential) = (question.access.cloud().clone(), question.access.credential().clone());
        let client = Client::new(cloud, credential, self.options.clone())
            .map_err(|error| Failure::new(Class::Refused, "InvalidCloud", error.to_string()))?;
        match client.subject().await {
            Ok(_) => Ok(true),
            Err(error) if is_refusal(&error) => Ok(false),
            Err(error) => Err(Failure::new(Class::Unreachable, error.reason(), error.to_string())
                .retry_after(error.failure().retry_after)),
        }
    }

    async fn perform(&self, action: &NoAction) -> Result<(), Failure> {
        match *action {}
    }
}

/// Whether Keystone says that it does not know the credential. Everything else says nothing about it.
fn is_refusal(error: &Error) -> bool {
    let status = error.failure().status.map(|status| status.as_u16());
    matches!(error, Error::Unauthorized(_)) && matches!(status, Some(401 | 404))
}
