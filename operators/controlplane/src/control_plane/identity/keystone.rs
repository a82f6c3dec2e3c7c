//! Keystone as a remote of a ControlPlane: which user names exist, and the regions of endpoints. Everything else is done by
//! objects of K-ORC.

use std::fmt;

use c5c3_kit::remote::{Action, Class, Failure, Remote, Verb};
use c5c3_openstack::identity::{Endpoint, EndpointFilter, EndpointUpdate, User, UserFilter};
use c5c3_openstack::{Access, Client, Clients, Error, Options};

/// The id of the domain that service users are in.
const DOMAIN: &str = "default";

/// What Keystone is asked.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Question {
    /// The user of a name in the default domain.
    User(Access, String),
    /// All endpoints.
    Endpoints(Access),
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(_, name) => write!(f, "user {name}"),
            Self::Endpoints(_) => f.write_str("endpoints"),
        }
    }
}

/// What Keystone answers.
pub(crate) enum Answer {
    /// The user, if there is one.
    User(Option<User>),
    /// The endpoints.
    Endpoints(Vec<Endpoint>),
}

/// Puts an endpoint into a region: K-ORC's Endpoint has no field for it.
pub(crate) struct SetRegion {
    pub(super) access: Access,
    /// The id of the endpoint.
    pub(super) id: String,
    /// The object that it belongs to.
    pub(super) name: String,
    pub(super) region: String,
}

impl fmt::Display for SetRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "update endpoint {} ({}) with region_id={}", self.id, self.name, self.region)
    }
}

impl Action for SetRegion {
    fn verb(&self) -> Verb {
        Verb::Update
    }
}

/// The Keystones of all ControlPlanes.
pub(crate) struct Keystone {
    clients: Clients,
}

impl Keystone {
    pub(crate) fn new() -> Self {
        Self { clients: Clients::new(Options::default()) }
    }

    fn client(&self, access: &Access) -> Result<Client, Failure> {
        let client = self.clients.client(access);
        client.map_err(|error| Failure::new(Class::Refused, "InvalidCloud", error.to_string()))
    }
}

fn failed(error: &Error) -> Failure {
    let class = match error {
        Error::Unavailable(_) | Error::TooManyRequests(_) => Class::Unreachable,
        Error::Unauthorized(_) => Class::Unauthorized,
        Error::Conflict(_) => Class::Conflict,
        _ => Class::Refused,
    };
    Failure::new(class, error.reason(), error.to_string()).retry_after(error.failure().retry_after)
}

impl Remote for Keystone {
    type Question = Question;
    type Answer = Answer;
    type Action = SetRegion;
    const NAME: &'static str = "keystone";

    async fn ask(&self, question: &Question) -> Result<Answer, Failure> {
        let answer = match question {
            Question::User(access, name) => {
                let filter =
                    UserFilter { name: Some(name.clone()), domain_id: Some(DOMAIN.into()), ..UserFilter::default() };
                let users = self.client(access)?.users().list(&filter).await;
                users.map(|users| Answer::User(users.into_iter().find(|user| user.name == *name)))
            }
            Question::Endpoints(access) => {
                let endpoints = self.client(access)?.endpoints().list(&EndpointFilter::default()).await;
                endpoints.map(Answer::Endpoints)
            }
        };
        answer.map_err(|error| failed(&error))
    }

    async fn perform(&self, action: &SetRegion) -> Result<(), Failure> {
        let update = EndpointUpdate { region_id: Some(action.region.clone()), ..EndpointUpdate::default() };
        let done = self.client(&action.access)?.endpoints().update(&action.id, &update).await;
        done.map(drop).map_err(|error| failed(&error))
    }
}
