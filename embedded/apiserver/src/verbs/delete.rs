//! Deleting objects: preconditions, finalizers, and what becomes of what they own.

use std::sync::Arc;

use c5c3_store::{Entry, Expect, WriteError};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::list::Selection;
use super::{Done, get};
use crate::admission;
use crate::call::{Call, decode};
use crate::object::{finalizers, is_going, meta, meta_mut, of_entry, timestamp, write};
use crate::registry::Served;
use crate::server::Server;
use crate::status::{ApiError, deleted};

/// Held while dependents go first.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Held while dependents are set free.
pub(crate) const ORPHAN: &str = "orphan";

/// How something is to be deleted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) propagation: Option<String>,
    pub(crate) grace: Option<i64>,
    pub(crate) dry_run: bool,
}

impl Options {
    fn parse(call: &Call<'_>) -> Result<Self, ApiError> {
        let body = if call.body.is_empty() { Value::Null } else { decode(&call.headers, &call.body)? };
        Self::of(call, &body)
    }

    /// The options of a body, and of the query.
    pub(super) fn of(call: &Call<'_>, body: &Value) -> Result<Self, ApiError> {
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let orphan =
            body["orphanDependents"].as_bool().map(|orphan| if orphan { "Orphan" } else { "Background" }.to_owned());
        let propagation = text(&body["propagationPolicy"])
            .or_else(|| call.query.get("propagationPolicy").map(ToOwned::to_owned))
            .or(orphan);
        if let Some(other) =
            propagation.as_deref().filter(|policy| !matches!(*policy, "Background" | "Foreground" | "Orphan"))
        {
            return Err(ApiError::bad_request(format!(
                "propagationPolicy is Background, Foreground or Orphan, not {other:?}"
            )));
        }
        let grace = body["gracePeriodSeconds"]
            .as_i64()
            .or_else(|| call.query.get("gracePeriodSeconds").and_then(|grace| grace.parse().ok()));
        Ok(Self {
            uid: text(&body["preconditions"]["uid"]),
            resource_version: text(&body["preconditions"]["resourceVersion"]),
            propagation,
            grace,
            dry_run: call.is_dry_run()? || is_dry_run(body)?,
        })
    }
}

/// Whether the options in a body ask for nothing to be stored.
fn is_dry_run(body: &Value) -> Result<bool, ApiError> {
    match body["dryRun"].as_array().map(Vec::as_slice) {
        None | Some([]) => Ok(false),
        Some([all]) if all == "All" => Ok(true),
        Some(_) => Err(ApiError::bad_request(format!("invalid dryRun {}: only All is known", body["dryRun"]))),
    }
}

/// Deletes the object that the request names.
pub(super) async fn delete(call: &Call<'_>) -> Result<Done, ApiError> {
    let options = Options::parse(call)?;
    let (_, object) = get::live(call)?;
    Server::may_be_deleted(call, &object)?;
    may_go(call, &object).await?;
    if options.dry_run {
        return Ok(Done::ok(deleted(&call.served.resource, meta(&object, "name"), meta(&object, "uid"))));
    }
    delete_object(call.server, &call.served, &call.key(call.name()?), &options).await.map(Done::ok)
}

/// Asks admission webhooks whether an object may be deleted.
async fn may_go(call: &Call<'_>, object: &Value) -> Result<(), ApiError> {
    admission::mutate(call, "DELETE", Value::Null, Some(object)).await?;
    admission::admit(call, "DELETE", &Value::Null, Some(object)).await
}

/// Deletes every object that the request means.
pub(super) async fn delete_collection(call: &Call<'_>) -> Result<Done, ApiError> {
    let resource = &call.served.resource;
    let selection = Selection::parse(resource, &call.query, None)?;
    let options = Options::parse(call)?;
    let snapshot = call.server.store().list(&selection.prefix(call));
    let mut items = Vec::new();
    for entry in snapshot.iter() {
        let object = of_entry(resource, entry)?;
        if !selection.takes(resource, &object) {
            continue;
        }
        may_go(call, &object).await?;
        if !options.dry_run {
            match delete_object(call.server, &call.served, &entry.key, &options).await {
                Ok(_) => {}
                Err(error) if error.reason == "NotFound" => continue,
                Err(error) => return Err(error),
            }
        }
        items.push(object);
    }
    let metadata = json!({"resourceVersion": call.server.store().revision().to_string()});
    Ok(Done::ok(
        json!({"kind": resource.list_kind, "apiVersion": resource.api_version(), "metadata": metadata, "items": items}),
    ))
}

/// Deletes an object, or marks it as going if something holds it. Returns what a client is answered.
pub(crate) async fn delete_object(
    server: &Arc<Server>,
    served: &Arc<Served>,
    key: &str,
    options: &Options,
) -> Result<Value, ApiError> {
    let resource = &served.resource;
    let name = key.rsplit('/').next().unwrap_or_default();
    loop {
        let entry = server.store().get(key).ok_or_else(|| ApiError::not_found(resource, name))?;
        let object = of_entry(resource, &entry)?;
        for (wanted, field) in [(&options.uid, "UID"), (&options.resource_version, "ResourceVersion")] {
            let found = if field == "UID" { meta(&object, "uid") } else { meta(&object, "resourceVersion") };
            if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) {
                let why =
                    format!("Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}");
                return Err(ApiError::conflict(resource, name, &why));
            }
        }
        let mut going = object.clone();
        hold(&mut going, options);
        let grace = grace(served, &object, options);
        if finalizers(&going).is_empty() && grace == 0 && !is_namespace_in_use(served, &object) {
            match server.store().write(key, Expect::Revision(entry.revision), |_| None).await {
                Ok(_) => {
                    server.written(served, &object);
                    return Ok(deleted(resource, name, meta(&object, "uid")));
                }
                Err(WriteError::Conflict { .. }) => continue,
                Err(error) => return Err(ApiError::internal(error.to_string())),
            }
        }
        if !is_going(&object) {
            let when = Timestamp::now() + SignedDuration::from_secs(grace);
            let fields = meta_mut(&mut going);
            fields.insert("deletionTimestamp".into(), timestamp(when).into());
            fields.insert("deletionGracePeriodSeconds".into(), grace.into());
            if let Some(generation) = fields.get("generation").and_then(Value::as_i64) {
                fields.insert("generation".into(), (generation + 1).into());
            }
        }
        if going["kind"] == "Namespace" {
            going["status"]["phase"] = "Terminating".into();
        }
        if going == object {
            return Ok(object);
        }
        let (to_write, stored) = (going.clone(), resource.clone());
        match server
            .store()
            .write(key, Expect::Revision(entry.revision), move |revision| Some(write(&stored, to_write, revision)))
            .await
        {
            Ok(written) => {
                going["metadata"]["resourceVersion"] = written.revision.to_string().into();
                server.written(served, &going);
                return Ok(going);
            }
            Err(WriteError::Conflict { .. }) => {}
            Err(error) => return Err(ApiError::internal(error.to_string())),
        }
    }
}

/// Sets the finalizers that a propagation policy works by.
fn hold(object: &mut Value, options: &Options) {
    let mut held: Vec<String> = finalizers(object).into_iter().map(ToOwned::to_owned).collect();
    let (wanted, unwanted) = match options.propagation.as_deref() {
        Some("Foreground") => (Some(FOREGROUND), ORPHAN),
        Some("Orphan") => (Some(ORPHAN), FOREGROUND),
        _ => (None, ""),
    };
    held.retain(|finalizer| finalizer != unwanted);
    if let Some(wanted) = wanted
        && !held.iter().any(|finalizer| finalizer == wanted)
    {
        held.push(wanted.into());
    }
    if held.is_empty() {
        meta_mut(object).remove("finalizers");
    } else {
        meta_mut(object).insert("finalizers".into(), held.into());
    }
}

/// How long a pod on a node has to stop; nothing else is asked to.
fn grace(served: &Served, object: &Value, options: &Options) -> i64 {
    let resource = &served.resource;
    let is_pod = resource.group.is_empty() && resource.kind == "Pod";
    let runs = object["spec"]["nodeName"].is_string()
        && !matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if !is_pod || !runs {
        return 0;
    }
    options.grace.or(object["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(30).max(0)
}

/// A namespace goes when its contents have gone: its own finalizers are in its spec.
fn is_namespace_in_use(served: &Served, object: &Value) -> bool {
    let resource = &served.resource;
    resource.group.is_empty()
        && resource.kind == "Namespace"
        && object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
}

/// Removes an object that was waiting for its last finalizer to go. False: it is not such an object.
pub(crate) async fn finish_deletion(
    server: &Arc<Server>,
    served: &Arc<Served>,
    entry: &Entry,
    new: &Value,
) -> Result<bool, ApiError> {
    let graceful = new["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) > 0;
    if !is_going(new) || graceful || !finalizers(new).is_empty() || is_namespace_in_use(served, new) {
        return Ok(false);
    }
    match server.store().write(&entry.key, Expect::Revision(entry.revision), |_| None).await {
        Ok(_) => {
            server.written(served, new);
            Ok(true)
        }
        Err(WriteError::Conflict { .. }) => Err(ApiError::modified(&served.resource, meta(new, "name"))),
        Err(error) => Err(ApiError::internal(error.to_string())),
    }
}
