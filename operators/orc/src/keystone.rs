//! Keystone as a remote: questions and changes as data, tokens and lists shared by all objects of a credential.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use c5c3_kit::hash;
use c5c3_kit::remote::{Action, Class, Failure, Remote, Verb};
use c5c3_openstack::{Access, Client, Clients, Error, Request};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};

use crate::condition::Condition;

/// How long a list answers for all objects, and the time in which single requests are counted.
pub const SHARED: Duration = Duration::from_secs(10);

/// After this many single requests to one collection within that time, one list is read for all.
const SINGLE: usize = 4;

/// Where in an answer the digest of the password is that was set last, as far as this process knows.
pub const APPLIED: &str = "c5c3_applied_secret";

/// A collection of resources.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Collection {
    /// The key of one.
    pub singular: &'static str,
    /// The key of a list, and the end of the path.
    pub plural: &'static str,
    /// The user whose resources they are, for kinds that belong to one.
    pub user: Option<Owner>,
}

/// The user whose resources a collection has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// The user of the credential.
    Own,
    /// The user with this id.
    Id(String),
}

impl Collection {
    async fn path(&self, client: &Client) -> Result<Vec<String>, Error> {
        let user = match &self.user {
            None => return Ok(vec![self.plural.to_owned()]),
            Some(Owner::Own) => client.subject().await?.user_id,
            Some(Owner::Id(id)) => id.clone(),
        };
        Ok(vec!["users".into(), user, self.plural.to_owned()])
    }

    /// Whether Keystone shows the resource in a list without parameters. It shows roles of no domain only, so that a role is not
    /// taken for one of the same name in a domain.
    fn lists(&self, resource: &Value) -> bool {
        self.plural != ROLES || !resource["domain_id"].is_string()
    }

    async fn path_of(&self, id: &str, client: &Client) -> Result<Vec<String>, Error> {
        if self.plural == ASSIGNMENTS {
            return Ok(id.split('/').map(ToOwned::to_owned).collect());
        }
        Ok(self.path(client).await?.into_iter().chain([id.to_owned()]).collect())
    }
}

/// Role assignments have no id in Keystone. Here the path of the grant is their id.
pub const ASSIGNMENTS: &str = "role_assignments";

/// Roles, the one collection of which Keystone lists a part unless it is told a domain.
const ROLES: &str = "roles";

/// The path of the grant that these fields describe.
fn grant(fields: &Map<String, Value>) -> String {
    let part = |plural: &str, field: &str| Some(format!("{plural}/{}", fields.get(field)?.as_str()?));
    let parts = [
        part("projects", "project_id").or_else(|| part("domains", "domain_id")),
        part("users", "user_id").or_else(|| part("groups", "group_id")),
        part("roles", "role_id"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("/")
}

/// An assignment as Keystone lists it, with the fields of other resources. None for one that is inherited or for the system.
fn assignment(listed: &Value) -> Option<Value> {
    let scope = &listed["scope"];
    if scope.get("OS-INHERIT:inherited_to").is_some() || scope.get("system").is_some() {
        return None;
    }
    let ids = [
        ("role_id", &listed["role"]),
        ("user_id", &listed["user"]),
        ("group_id", &listed["group"]),
        ("project_id", &scope["project"]),
        ("domain_id", &scope["domain"]),
    ];
    let mut fields: Map<String, Value> = ids
        .into_iter()
        .filter(|(_, of)| of["id"].is_string())
        .map(|(field, of)| (field.into(), of["id"].clone()))
        .collect();
    fields.insert("id".into(), grant(&fields).into());
    Some(Value::Object(fields))
}

/// Which resources are looked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Which {
    /// The one with this id.
    Id(String),
    /// All that fulfil these conditions.
    Where(Vec<Condition>),
}

/// A question to Keystone. The answer is a list of resources.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Lookup {
    /// Where, and as whom.
    pub access: Access,
    /// Among what.
    pub collection: Collection,
    /// Which.
    pub which: Which,
}

impl fmt::Display for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.which {
            Which::Id(id) => write!(f, "{} {id}", self.collection.singular),
            Which::Where(conditions) => {
                let conditions: Vec<String> = conditions.iter().map(ToString::to_string).collect();
                write!(f, "{} with {}", self.collection.plural, conditions.join(", "))
            }
        }
    }
}

/// A secret field of a change.
#[derive(Clone)]
pub struct Hidden {
    /// Its name in Keystone.
    pub field: &'static str,
    /// Its value.
    pub value: SecretString,
}

impl Hidden {
    /// A digest of the value, which stays in this process.
    pub fn digest(&self) -> String {
        hash::short(self.value.expose_secret().as_bytes())
    }
}

/// What is done.
pub enum Change {
    /// Creates a resource.
    Create {
        /// Where, and as whom.
        access: Access,
        /// Among what.
        collection: Collection,
        /// Its fields.
        fields: Map<String, Value>,
        /// Its secret.
        hidden: Option<Hidden>,
    },
    /// Changes a resource.
    Update {
        /// Where, and as whom.
        access: Access,
        /// Among what.
        collection: Collection,
        /// Which.
        id: String,
        /// The fields that change.
        fields: Map<String, Value>,
        /// The secret, if it changes.
        hidden: Option<Hidden>,
    },
    /// Deletes a resource.
    Delete {
        /// Where, and as whom.
        access: Access,
        /// Among what.
        collection: Collection,
        /// Which.
        id: String,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (fields, hidden) = match self {
            Self::Create { collection, fields, hidden, .. } => {
                write!(f, "create {}", collection.singular)?;
                (fields, hidden)
            }
            Self::Update { collection, id, fields, hidden, .. } => {
                write!(f, "update {} {id}", collection.singular)?;
                (fields, hidden)
            }
            Self::Delete { collection, id, .. } => return write!(f, "delete {} {id}", collection.singular),
        };
        let shown = fields.iter().map(|(field, value)| format!("{field}={value}"));
        let hidden = hidden.iter().map(|hidden| format!("{}=(secret)", hidden.field));
        let all: Vec<String> = shown.chain(hidden).collect();
        write!(f, " with {}", all.join(", "))
    }
}

impl Action for Change {
    fn verb(&self) -> Verb {
        match self {
            Self::Create { .. } => Verb::Create,
            Self::Update { .. } => Verb::Update,
            Self::Delete { .. } => Verb::Delete,
        }
    }

    fn secret_digest(&self) -> Option<String> {
        match self {
            Self::Create { hidden, .. } | Self::Update { hidden, .. } => hidden.as_ref().map(Hidden::digest),
            Self::Delete { .. } => None,
        }
    }
}

/// Which list: the credential's digest and the collection.
type ListKey = ([u8; 32], Collection);

#[derive(Default)]
struct Shared {
    list: Option<(Vec<Value>, Instant)>,
    /// When single requests were sent lately.
    single: Vec<Instant>,
}

/// The Keystones of all credentials.
pub struct Keystone {
    clients: Clients,
    lists: Mutex<HashMap<ListKey, Arc<tokio::sync::Mutex<Shared>>>>,
    applied: Mutex<HashMap<([u8; 32], String), String>>,
    period: Duration,
}

impl Keystone {
    /// Keystones that are reached through these clients. A list answers for all objects for this long.
    pub fn new(clients: Clients, period: Duration) -> Self {
        Self { clients, lists: Mutex::default(), applied: Mutex::default(), period }
    }

    fn client(&self, access: &Access) -> Result<Client, Failure> {
        self.clients.client(access).map_err(|error| Failure::new(Class::Refused, "InvalidCloud", error.to_string()))
    }

    fn shared(&self, access: &Access, collection: &Collection) -> Arc<tokio::sync::Mutex<Shared>> {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        lists.entry((access.digest(), collection.clone())).or_default().clone()
    }

    /// The resources of a list that is new enough, or that many requests make worthwhile. It has what was there lately; that
    /// something is not in it proves nothing, since Keystone may show only a part.
    async fn listed(&self, client: &Client, lookup: &Lookup) -> Result<Vec<Value>, Failure> {
        let shared = self.shared(&lookup.access, &lookup.collection);
        let mut shared = shared.lock().await;
        let now = Instant::now();
        let is_recent = |at: &Instant| now.saturating_duration_since(*at) < self.period;
        if shared.list.as_ref().is_some_and(|(_, at)| !is_recent(at)) {
            shared.list = None;
        }
        if shared.list.is_none() {
            shared.single.retain(is_recent);
            if shared.single.len() < SINGLE {
                shared.single.push(now);
                return Ok(Vec::new());
            }
            shared.list = Some((read(client, &lookup.collection, &[]).await.map_err(|error| failed(&error))?, now));
        }
        let list = shared.list.iter().flat_map(|(list, _)| list);
        Ok(list.filter(|resource| lookup.which.matches(resource)).cloned().collect())
    }

    /// Brings the list up to date with a change, or drops it if it is not known what became of the change.
    async fn note(&self, access: &Access, collection: &Collection, id: Option<&str>, now: Option<&Value>) {
        let shared = self.shared(access, collection);
        let mut shared = shared.lock().await;
        match (&mut shared.list, id) {
            (Some((list, _)), Some(id)) => {
                list.retain(|resource| resource["id"] != id);
                list.extend(now.filter(|resource| collection.lists(resource)).cloned());
            }
            (list, _) => *list = None,
        }
    }

    fn remember(&self, access: &Access, id: &str, hidden: &Hidden) {
        let mut applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        applied.insert((access.digest(), id.to_owned()), hidden.digest());
    }

    fn with_applied(&self, access: &Access, mut resource: Value) -> Value {
        let id = resource["id"].as_str().unwrap_or_default().to_owned();
        let applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(digest) = applied.get(&(access.digest(), id)) {
            resource[APPLIED] = digest.as_str().into();
        }
        resource
    }

    async fn write(&self, change: &Change) -> Result<(), Error> {
        let (access, collection) = change.place();
        let client = self.client(access).expect("the client was made before");
        let (request, hidden) = match change {
            Change::Create { fields, .. } if collection.plural == ASSIGNMENTS => {
                let id = grant(fields);
                client.send(&Request::put("identity", id.split('/'))).await?;
                let mut made = fields.clone();
                made.insert("id".into(), id.as_str().into());
                self.note(access, collection, Some(&id), Some(&Value::Object(made))).await;
                return Ok(());
            }
            Change::Create { fields, hidden, .. } => {
                let body = json!({ collection.singular: body(fields, hidden.as_ref()) });
                (Request::post("identity", collection.path(&client).await?).json(body), hidden)
            }
            Change::Update { id, fields, hidden, .. } => {
                let body = json!({ collection.singular: body(fields, hidden.as_ref()) });
                (Request::patch("identity", collection.path_of(id, &client).await?).json(body), hidden)
            }
            Change::Delete { id, .. } => {
                match client.send(&Request::delete("identity", collection.path_of(id, &client).await?)).await {
                    Err(error) if !error.is_not_found() => return Err(error),
                    Ok(_) | Err(_) => {}
                }
                self.note(access, collection, Some(id), None).await;
                return Ok(());
            }
        };
        let mut resource: Value = client.fetch(&request, collection.singular).await?;
        if let Some(fields) = resource.as_object_mut() {
            // Keystone shows the secret of a new application credential, which is not to be kept.
            fields.remove("secret");
        }
        let id = resource["id"].as_str().unwrap_or_default();
        if let Some(hidden) = hidden {
            self.remember(access, id, hidden);
        }
        self.note(access, collection, Some(id), Some(&resource)).await;
        Ok(())
    }
}

/// The resources of a collection that Keystone finds with these parameters.
async fn read(client: &Client, collection: &Collection, parameters: &[(String, String)]) -> Result<Vec<Value>, Error> {
    let request = Request::get("identity", collection.path(client).await?);
    let request = parameters.iter().fold(request, |request, (key, value)| request.query(key, value));
    let list: Vec<Value> = client.list(&request, collection.plural).await?;
    Ok(match collection.plural {
        ASSIGNMENTS => list.iter().filter_map(assignment).collect(),
        _ => list,
    })
}

impl Change {
    fn place(&self) -> (&Access, &Collection) {
        match self {
            Self::Create { access, collection, .. }
            | Self::Update { access, collection, .. }
            | Self::Delete { access, collection, .. } => (access, collection),
        }
    }
}

fn body(fields: &Map<String, Value>, hidden: Option<&Hidden>) -> Value {
    let hidden = hidden.map(|hidden| (hidden.field.to_owned(), Value::from(hidden.value.expose_secret())));
    Value::Object(fields.clone().into_iter().chain(hidden).collect())
}

/// What K-ORC makes of an error of a creation or an update: 409 and 501 wait for a change of the spec, everything else is tried
/// again.
fn refused(error: &Error) -> Failure {
    let failure = error.failure();
    let is_conflict = matches!(error, Error::Conflict(_)) && !failure.message.contains("OverQuota");
    let is_unknown = failure.status.is_some_and(|status| status.as_u16() == 501);
    let made = failed(error);
    if is_conflict || is_unknown { Failure { class: Class::Terminal, ..made } } else { made }
}

/// What K-ORC makes of any other error: it is tried again. A deletion that is refused because something still uses the resource
/// succeeds when that is gone, and no change of the object would tell.
fn failed(error: &Error) -> Failure {
    let failure = error.failure();
    let class = match error {
        Error::Unavailable(_) | Error::TooManyRequests(_) => Class::Unreachable,
        Error::Unauthorized(_) => Class::Unauthorized,
        _ => Class::Refused,
    };
    Failure::new(class, error.reason(), error.to_string()).retry_after(failure.retry_after)
}

impl Which {
    fn matches(&self, resource: &Value) -> bool {
        match self {
            Self::Id(id) => resource["id"] == id.as_str(),
            Self::Where(conditions) => conditions.iter().all(|condition| condition.holds(resource)),
        }
    }
}

impl Remote for Keystone {
    type Question = Lookup;
    type Answer = Vec<Value>;
    type Action = Change;
    const NAME: &'static str = "keystone";

    async fn ask(&self, lookup: &Lookup) -> Result<Vec<Value>, Failure> {
        let client = self.client(&lookup.access)?;
        let listed = self.listed(&client, lookup).await?;
        let found = match &lookup.which {
            _ if !listed.is_empty() => listed,
            Which::Id(id) => {
                let get = async {
                    let path = lookup.collection.path_of(id, &client).await?;
                    client.fetch::<Value>(&Request::get("identity", path), lookup.collection.singular).await
                };
                match get.await {
                    Ok(resource) => vec![resource],
                    Err(error) if error.is_not_found() => Vec::new(),
                    Err(error) => return Err(failed(&error)),
                }
            }
            Which::Where(conditions) => {
                let parameters: Vec<(String, String)> = conditions.iter().filter_map(Condition::parameter).collect();
                let found = read(&client, &lookup.collection, &parameters).await.map_err(|error| failed(&error))?;
                found.into_iter().filter(|resource| lookup.which.matches(resource)).collect()
            }
        };
        Ok(found.into_iter().map(|resource| self.with_applied(&lookup.access, resource)).collect())
    }

    async fn perform(&self, change: &Change) -> Result<(), Failure> {
        let (access, collection) = change.place();
        self.client(access)?;
        match self.write(change).await {
            Ok(()) => Ok(()),
            Err(error) => {
                self.note(access, collection, None, None).await;
                Err(if change.verb() == Verb::Delete { failed(&error) } else { refused(&error) })
            }
        }
    }
}
