//! Keystone's resources. One implementation of list, get, create, update and delete serves all kinds; a kind adds its
//! structs. Role assignments have no id and are in `assignments`.

/// Defines a struct of optional fields, which are left out when `None`: a filter or an update.
macro_rules! optional {
    ($(#[$doc:meta])* $name:ident { $($(#[$meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, Serialize)]
        pub struct $name {
            $($(#[$meta])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<$type>,)*
        }
    };
}

mod application_credentials;
mod assignments;
mod catalog;
mod kinds;

use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

pub use application_credentials::{
    AccessRule, ApplicationCredential, ApplicationCredentialCreate, ApplicationCredentialFilter, Immutable, RoleRef,
};
pub use assignments::{Actor, AssignmentFilter, Grant, Inheritance, RoleAssignment, Target};
pub use catalog::{
    Endpoint, EndpointCreate, EndpointFilter, EndpointUpdate, Service, ServiceCreate, ServiceFilter, ServiceUpdate,
};
pub use kinds::{
    Domain, DomainCreate, DomainFilter, DomainUpdate, Group, GroupCreate, GroupFilter, GroupUpdate, Project,
    ProjectCreate, ProjectFilter, ProjectUpdate, Role, RoleCreate, RoleFilter, RoleUpdate, User, UserCreate,
    UserFilter, UserUpdate,
};

use crate::client::Client;
use crate::error::Error;
use crate::request::Request;

/// The service type of Keystone in the catalog.
pub(crate) const IDENTITY: &str = "identity";

/// A kind of Keystone's resources.
pub trait Resource: DeserializeOwned {
    /// The key of one resource in a body, as in `{"user": {...}}`.
    const SINGULAR: &'static str;
    /// The key of a list, and the last segment of the path.
    const PLURAL: &'static str;
    /// The fields that a list is filtered by.
    type Filter: Serialize;
    /// The fields of a new resource.
    type Create: Serialize;
    /// The fields that can be changed.
    type Update: Serialize;
}

/// All resources of a kind, seen with a client's credential.
#[derive(Clone, Debug)]
pub struct Resources<R> {
    client: Client,
    path: Vec<String>,
    kind: std::marker::PhantomData<fn() -> R>,
}

impl<R: Resource> Resources<R> {
    fn new(client: &Client, parent: &[&str]) -> Self {
        let path = parent.iter().copied().chain([R::PLURAL]).map(Into::into).collect();
        Self { client: client.clone(), path, kind: std::marker::PhantomData }
    }

    fn of(&self, id: &str) -> Vec<String> {
        self.path.iter().cloned().chain([id.into()]).collect()
    }

    /// The resources that match a filter, from all pages.
    pub async fn list(&self, filter: &R::Filter) -> Result<Vec<R>, Error> {
        let mut request = Request::get(IDENTITY, &self.path);
        request.query = query(filter);
        self.client.list(&request, R::PLURAL).await
    }

    /// One resource.
    pub async fn get(&self, id: &str) -> Result<R, Error> {
        self.client.fetch(&Request::get(IDENTITY, self.of(id)), R::SINGULAR).await
    }

    /// Creates a resource.
    pub async fn create(&self, fields: &R::Create) -> Result<R, Error> {
        let request = Request::post(IDENTITY, &self.path).json(body::<R>(fields));
        self.client.fetch(&request, R::SINGULAR).await
    }

    /// Changes fields of a resource; those that are `None` keep their values.
    pub async fn update(&self, id: &str, fields: &R::Update) -> Result<R, Error> {
        let request = Request::patch(IDENTITY, self.of(id)).json(body::<R>(fields));
        self.client.fetch(&request, R::SINGULAR).await
    }

    /// Deletes a resource.
    pub async fn delete(&self, id: &str) -> Result<(), Error> {
        self.client.send(&Request::delete(IDENTITY, self.of(id))).await.map(|_| ())
    }
}

#[expect(clippy::ref_option, reason = "the signature is serde's")]
fn expose<S: Serializer>(secret: &Option<SecretString>, serializer: S) -> Result<S::Ok, S::Error> {
    secret.as_ref().map(ExposeSecret::expose_secret).serialize(serializer)
}

fn body<R: Resource>(fields: &impl Serialize) -> Value {
    json!({ R::SINGULAR: value(fields) })
}

fn value(fields: &impl Serialize) -> Value {
    serde_json::to_value(fields).expect("the fields are strings, booleans and lists")
}

/// The fields of a filter as query parameters. Lists are joined by commas, as Keystone expects tags.
pub(crate) fn query(filter: &impl Serialize) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), Into::into);
    let Value::Object(fields) = value(filter) else { return Vec::new() };
    let pairs = fields.into_iter().filter_map(|(key, value)| match &value {
        Value::Null => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Array(items) => Some((key, items.iter().map(text).collect::<Vec<_>>().join(","))),
        other => Some((key, text(other))),
    });
    pairs.collect()
}

impl Client {
    /// Keystone's domains.
    pub fn domains(&self) -> Resources<Domain> {
        Resources::new(self, &[])
    }

    /// Keystone's projects.
    pub fn projects(&self) -> Resources<Project> {
        Resources::new(self, &[])
    }

    /// Keystone's roles.
    pub fn roles(&self) -> Resources<Role> {
        Resources::new(self, &[])
    }

    /// Keystone's groups.
    pub fn groups(&self) -> Resources<Group> {
        Resources::new(self, &[])
    }

    /// Keystone's users.
    pub fn users(&self) -> Resources<User> {
        Resources::new(self, &[])
    }

    /// The services of the catalog.
    pub fn services(&self) -> Resources<Service> {
        Resources::new(self, &[])
    }

    /// The endpoints of the catalog.
    pub fn endpoints(&self) -> Resources<Endpoint> {
        Resources::new(self, &[])
    }

    /// The application credentials of a user. Keystone lets only the user itself create them.
    pub fn application_credentials(&self, user_id: &str) -> Resources<ApplicationCredential> {
        Resources::new(self, &["users", user_id])
    }
}
