//! An object with everything that it refers to, read by its table: the credential, the ids of other objects, what is wanted.

use c5c3_api::orc::ManagementPolicy;
use c5c3_kit::{Inputs, Ref, Wait};
use c5c3_openstack::Access;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::DynamicObject;
use secrecy::SecretString;
use serde_json::{Map, Value, json};

use crate::condition::Condition;
use crate::keystone::{Collection, Hidden, Owner};
use crate::table::{Absent, Kind, Shape, Table, kind_ref};

/// The lists of an application credential in Keystone.
const ROLES: &str = "roles";
const ACCESS_RULES: &str = "access_rules";

/// The reason of waits whose message is K-ORC's own, word for word.
pub const PROGRESSING: &str = "Progressing";
/// The reason of waits that are tried again.
pub const TRANSIENT: &str = "TransientError";

/// A wait that K-ORC's conditions tell with this message.
pub fn waiting(object: &Ref, message: impl Into<String>) -> Wait {
    let message = message.into();
    Wait::on(object).now(message.clone()).error(message).with_reason(PROGRESSING)
}

/// A wait that only a change of the object ends.
pub fn terminal(object: &Ref, reason: &'static str, message: impl Into<String>) -> Wait {
    let message = message.into();
    Wait::on(object).now(message.clone()).error(message).failed(reason)
}

/// An object, read by its table.
pub struct View<'a, K> {
    object: &'a K,
    inputs: Option<&'a Inputs<K>>,
    value: Value,
    table: &'static Table,
    /// Certificates that are trusted where the credential has none.
    authority: Option<&'a str>,
}

impl<'a, K: Kind> View<'a, K> {
    pub fn new(inputs: &'a Inputs<K>) -> Self {
        Self { inputs: Some(inputs), ..Self::of(&inputs.object) }
    }

    /// The object alone.
    pub fn of(object: &'a K) -> Self {
        let value = serde_json::to_value(object).unwrap_or_default();
        Self { object, inputs: None, value, table: K::TABLE, authority: None }
    }

    /// With certificates that are trusted where the credential has none.
    pub fn trusting(self, authority: Option<&'a str>) -> Self {
        Self { authority, ..self }
    }

    fn found(&self, reference: &Ref) -> Option<&'a DynamicObject> {
        self.inputs?.get(reference)
    }

    /// A key of a Secret that exists, or what it lacks.
    fn key(&self, secret: &Ref, key: &str) -> Result<SecretString, String> {
        let value = self.inputs.map(|inputs| inputs.secret(secret, key));
        match value {
            Some(Ok(value)) => Ok(value),
            Some(Err(wait)) => Err(wait.now.unwrap_or_default()),
            None => Err("was not read".into()),
        }
    }

    /// The object itself.
    pub fn reference(&self) -> Ref {
        Ref::namespaced::<K>(self.namespace(), self.object.name_any())
    }

    fn namespace(&self) -> String {
        self.object.namespace().unwrap_or_default()
    }

    /// Where its resource is. The ids are those of [`View::ids`].
    pub fn collection(&self, ids: &Map<String, Value>) -> Collection {
        let user = (self.table.shape == Shape::ApplicationCredential)
            .then(|| ids.get("user_id").and_then(Value::as_str).map_or(Owner::Own, |id| Owner::Id(id.into())));
        Collection { singular: self.table.singular, plural: self.table.plural, user }
    }

    pub fn shape(&self) -> Shape {
        self.table.shape
    }

    /// Whether the resource was there before.
    pub fn was_observed(&self) -> bool {
        self.value["status"]["resource"].as_object().is_some_and(|resource| !resource.is_empty())
    }

    /// The id in Keystone, if it is known.
    pub fn id(&self) -> Option<&str> {
        self.value["status"]["id"].as_str()
    }

    pub fn import_id(&self) -> Option<&str> {
        self.value["spec"]["import"]["id"].as_str()
    }

    pub fn has_import_filter(&self) -> bool {
        self.value["spec"]["import"]["filter"].is_object()
    }

    /// The part of the spec that names other objects.
    fn referring(&self) -> &Value {
        let spec = &self.value["spec"];
        if self.has_import_filter() { &spec["import"]["filter"] } else { &spec["resource"] }
    }

    fn resource(&self) -> &Value {
        &self.value["spec"]["resource"]
    }

    /// The status as it is, without what the kit writes.
    pub fn status(&self) -> Map<String, Value> {
        let mut status = self.value["status"].as_object().cloned().unwrap_or_default();
        status.remove("conditions");
        status
    }

    pub fn applied_secret(&self) -> Option<&str> {
        self.value["status"]["resource"]["appliedPasswordRef"].as_str()
    }

    fn credentials(&self) -> Ref {
        let name = &self.object.envelope().cloud_credentials_ref.secret_name;
        Ref::namespaced::<Secret>(self.namespace(), name)
    }

    /// What must not be deleted before the object: its credential, and what its resource is part of in Keystone.
    pub fn guards(&self) -> Vec<Ref> {
        let is_managed = self.object.envelope().management_policy == ManagementPolicy::Managed;
        let dependencies = self.dependencies().into_iter().filter(|_| is_managed).map(|(_, _, object)| object);
        [self.credentials()].into_iter().chain(dependencies).collect()
    }

    /// Everything that is read.
    pub fn needs(&self) -> Vec<Ref> {
        let mut needs = vec![self.credentials()];
        needs.extend(self.dependencies().into_iter().map(|(_, _, object)| object));
        needs.extend(self.secret_name().map(|name| Ref::namespaced::<Secret>(self.namespace(), name)));
        needs
    }

    /// The objects that the spec refers to: the field or list that names each, and its kind.
    pub fn dependencies(&self) -> Vec<(&'static str, &'static str, Ref)> {
        let referring = self.referring();
        let single = self.table.refs.iter().map(|field| (field.remote, field.kind, &referring[field.spec]));
        let roles = referring["roleRefs"].as_array().into_iter().flatten().map(|name| (ROLES, "Role", name));
        let rules = referring["accessRules"].as_array().into_iter().flatten();
        let rules = rules.map(|rule| (ACCESS_RULES, "Service", &rule["serviceRef"]));
        let named = single.chain(roles).chain(rules).filter_map(|(field, kind, name)| {
            let resource = kind_ref(kind).resource;
            let object = Ref { resource, namespace: Some(self.namespace()), name: name.as_str()?.to_owned() };
            Some((field, kind, object))
        });
        named.collect()
    }

    pub fn secret_name(&self) -> Option<String> {
        self.resource()[self.table.secret?.spec].as_str().map(ToOwned::to_owned)
    }

    /// The credential, or why there is none.
    pub fn access(&self) -> Result<Access, Wait> {
        let (secret, spec) = (self.credentials(), self.object.envelope());
        if self.found(&secret).is_none() {
            return Err(waiting(&secret, format!("Waiting for Secret/{} to be created", secret.name)));
        }
        let broken = |message: String| terminal(&secret, TRANSIENT, message);
        let text = self.key(&secret, "clouds.yaml");
        let text = text.map_err(|lacks| broken(format!("Secret/{} {lacks}", secret.name)))?;
        let ca = self.key(&secret, "cacert").ok();
        let (text, ca) = (expose(&text), ca.as_ref().map(expose).or(self.authority));
        Access::parse(text, &spec.cloud_credentials_ref.cloud_name, ca)
            .map_err(|error| broken(format!("Secret/{}: {error}", secret.name)))
    }

    /// The ids of the objects that the spec refers to, by the fields of Keystone; or all that is missing.
    pub fn ids(&self) -> Result<Map<String, Value>, Vec<Wait>> {
        let is_deleting = self.object.meta().deletion_timestamp.is_some();
        if is_deleting && self.table.shape == Shape::Assignment && self.was_observed() {
            return Ok(self.recorded_ids());
        }
        let (mut ids, mut waits) = (Map::new(), Vec::new());
        for (field, kind, object) in self.dependencies() {
            let id = match self.found(&object) {
                None => Err("created"),
                Some(found) => available_id(&found.data).map(|id| (id, found)).ok_or("ready"),
            };
            match id {
                Ok((id, _)) if field == ROLES => push(&mut ids, field, json!({ "id": id })),
                Ok((_, found)) if field == ACCESS_RULES => {
                    push(&mut ids, field, found.data["status"]["resource"]["type"].clone());
                }
                Ok((id, _)) => drop(ids.insert(field.into(), id.into())),
                Err(what) => {
                    waits.push(waiting(&object, format!("Waiting for {kind}/{} to be {what}", object.name)));
                }
            }
        }
        if waits.is_empty() { Ok(ids) } else { Err(waits) }
    }

    /// The secret that is sent, or why there is none.
    pub fn hidden(&self) -> Result<Option<Hidden>, Wait> {
        let (Some(field), Some(name)) = (self.table.secret, self.secret_name()) else { return Ok(None) };
        let secret = Ref::namespaced::<Secret>(self.namespace(), &name);
        if self.found(&secret).is_none() {
            return Err(waiting(&secret, format!("Waiting for Secret/{name} to be created")));
        }
        match self.key(&secret, field.key) {
            Ok(value) => Ok(Some(Hidden { field: field.remote, value })),
            Err(_) => Err(waiting(&secret, field.lacks_key)),
        }
    }

    /// The fields of a new resource.
    pub fn wanted(&self, ids: &Map<String, Value>) -> Map<String, Value> {
        let mut wanted = ids.clone();
        if self.table.shape == Shape::ApplicationCredential {
            wanted.remove("user_id");
            wanted.insert("unrestricted".into(), false.into());
            self.set_access_rules(&mut wanted);
        }
        for field in self.table.fields {
            if let Some(value) = self.field(field.spec) {
                wanted.insert(field.remote.into(), value);
            }
        }
        wanted
    }

    /// The access rules of a new application credential. Keystone knows services by their type.
    fn set_access_rules(&self, wanted: &mut Map<String, Value>) {
        let types = wanted.remove(ACCESS_RULES).unwrap_or_default();
        let mut types = types.as_array().cloned().unwrap_or_default().into_iter();
        let rules = self.resource()["accessRules"].as_array().cloned().unwrap_or_default();
        let rules = rules.into_iter().map(|rule| {
            let mut made = Map::new();
            for field in ["path", "method"] {
                if !rule[field].is_null() {
                    made.insert(field.into(), rule[field].clone());
                }
            }
            if !rule["serviceRef"].is_null() {
                made.insert("service".into(), types.next().unwrap_or_default());
            }
            Value::Object(made)
        });
        let rules: Vec<Value> = rules.collect();
        if !rules.is_empty() {
            wanted.insert(ACCESS_RULES.into(), rules.into());
        }
    }

    /// The value of a field of the spec.
    fn field(&self, spec: &str) -> Option<Value> {
        let value = match &self.resource()[spec] {
            Value::Null if spec == "name" && self.table.named => self.object.name_any().into(),
            Value::Null => return None,
            value => value.clone(),
        };
        Some(if spec == "tags" { sorted(&value) } else { value })
    }

    /// The fields in which a resource differs from the spec and can be changed, with what they are and should be.
    pub fn differences(&self, live: &Value) -> Vec<(&'static str, Value, Value)> {
        let mut differences = Vec::new();
        for field in self.table.fields.iter().filter(|field| field.mutable) {
            let wanted = match (self.field(field.spec), field.absent) {
                (Some(value), _) => value,
                (None, Absent::Kept) => continue,
                (None, Absent::Empty) => "".into(),
                (None, Absent::Null) => Value::Null,
                (None, Absent::True) => true.into(),
                (None, Absent::EmptyList) => json!([]),
            };
            let is = match &live[field.remote] {
                Value::Null if field.absent == Absent::Empty => "".into(),
                Value::Null if field.absent == Absent::EmptyList => json!([]),
                Value::String(text) if text.is_empty() && field.absent == Absent::Null => Value::Null,
                tags if field.absent == Absent::EmptyList => sorted(tags),
                other => other.clone(),
            };
            if is != wanted {
                differences.push((field.remote, is, wanted));
            }
        }
        differences
    }

    /// The conditions that find the role assignment of the status again, which has no id. `None` while the status has none.
    pub fn recorded_grant(&self) -> Option<Vec<Condition>> {
        let ids = self.recorded_ids();
        let has = |field| ids.contains_key(field);
        let is_whole = has("role_id") && (has("user_id") || has("group_id")) && (has("project_id") || has("domain_id"));
        (self.table.shape == Shape::Assignment && is_whole)
            .then(|| self.by_reference(&ids).map(|(_, condition)| condition).collect())
    }

    /// The fields of the status as Keystone names them.
    fn recorded_ids(&self) -> Map<String, Value> {
        let recorded = &self.value["status"]["resource"];
        let known = self.table.observed.iter().filter(|field| recorded[field.status].is_string());
        known.map(|field| (field.remote.into(), recorded[field.status].clone())).collect()
    }

    /// What an import searches for.
    pub fn import_conditions(&self, ids: &Map<String, Value>) -> Vec<Condition> {
        let filter = &self.value["spec"]["import"]["filter"];
        let by_value = self.table.filters.iter().filter(|field| !filter[field.spec].is_null());
        let by_value = by_value.map(|field| Condition::of(field, filter[field.spec].clone()));
        by_value.chain(self.by_reference(ids).map(|(_, condition)| condition)).collect()
    }

    /// What finds a resource that was created and not recorded.
    pub fn identity(&self, ids: &Map<String, Value>) -> Vec<Condition> {
        let fields = self.table.fields.iter().filter(|field| self.table.identity.contains(&field.remote));
        let by_value = fields.filter_map(|field| {
            // Keystone filters neither endpoints by their URL nor application credentials by their description.
            let query = Some(field.remote).filter(|field| !["url", "description"].contains(field));
            Some(Condition::equal(field.remote, query, self.field(field.spec)?))
        });
        let references = self.by_reference(ids).filter(|(field, _)| self.table.identity.contains(field));
        by_value.chain(references.map(|(_, condition)| condition)).collect()
    }

    fn by_reference(&self, ids: &Map<String, Value>) -> impl Iterator<Item = (&'static str, Condition)> {
        // The application credentials of a user are a collection of their own.
        let refs = self.table.refs.iter().filter(|_| self.table.shape != Shape::ApplicationCredential);
        refs.filter_map(|field| {
            let id = ids.get(field.remote)?.clone();
            Some((field.remote, Condition::equal(field.remote, Some(field.query), id)))
        })
    }

    /// The status of a resource.
    pub fn observed(&self, live: &Value) -> Map<String, Value> {
        let mut observed = Map::new();
        for field in self.table.observed {
            let value = match &live[field.remote] {
                Value::Null if field.always => "".into(),
                Value::Null => continue,
                Value::String(text) if text.is_empty() && !field.always => continue,
                Value::Array(list) if list.is_empty() => continue,
                value => value.clone(),
            };
            observed.insert(field.status.into(), value);
        }
        if self.table.shape == Shape::ApplicationCredential {
            observed.extend(lists(live));
        }
        observed
    }
}

/// The lists of an application credential, and when it expires.
fn lists(live: &Value) -> Map<String, Value> {
    let rename = |list: &Value, names: &[(&str, &str)]| -> Vec<Value> {
        let one = |of: &Value| -> Value {
            let known = names.iter().filter(|(remote, _)| !of[*remote].is_null());
            known.map(|(remote, status)| ((*status).to_owned(), of[*remote].clone())).collect::<Map<_, _>>().into()
        };
        list.as_array().into_iter().flatten().map(one).collect()
    };
    let roles = rename(&live["roles"], &[("id", "id"), ("name", "name"), ("domain_id", "domainID")]);
    let rules = [("id", "id"), ("path", "path"), ("method", "method"), ("service", "service")];
    let rules = rename(&live["access_rules"], &rules);
    let lists = [("roles", roles), ("accessRules", rules)];
    let mut shown: Map<String, Value> =
        lists.into_iter().filter(|(_, list)| !list.is_empty()).map(|(name, list)| (name.into(), list.into())).collect();
    // Keystone's times are in UTC and do not say so.
    if let Some(time) = live["expires_at"].as_str().and_then(|time| time.get(..19)) {
        shown.insert("expiresAt".into(), format!("{time}Z").into());
    }
    shown
}

fn push(ids: &mut Map<String, Value>, field: &str, value: Value) {
    if let Some(list) = ids.entry(field).or_insert_with(|| json!([])).as_array_mut() {
        list.push(value);
    }
}

/// The id of an object that is available.
fn available_id(object: &Value) -> Option<String> {
    let conditions = object["status"]["conditions"].as_array()?;
    let is_available = conditions.iter().any(|one| one["type"] == "Available" && one["status"] == "True");
    object["status"]["id"].as_str().filter(|_| is_available).map(ToOwned::to_owned)
}

fn sorted(list: &Value) -> Value {
    let mut list: Vec<String> = serde_json::from_value(list.clone()).unwrap_or_default();
    list.sort();
    json!(list)
}

fn expose(secret: &SecretString) -> &str {
    secrecy::ExposeSecret::expose_secret(secret)
}
