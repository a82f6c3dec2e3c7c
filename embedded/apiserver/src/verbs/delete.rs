//! Deleting objects: preconditions, finalizers, and what becomes of what they own.

use std::sync::Arc;

use bytes::Bytes;
use c5c3_auth::UserInfo;
use c5c3_kinds::Resource;
use c5c3_store::{Entry, Expect, WriteError};
use http::{HeaderMap, StatusCode, Uri};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::list::Selection;
use super::{Done, get};
use crate::admission;
use crate::call::{Call, Warnings, decode};
use crate::conversion;
use crate::object::{finalizers, is_going, meta, meta_mut, of_entry, put, timestamp};
use crate::path::{Query, Target};
use crate::registry::Served;
use crate::server::Server;
use crate::status::{ApiError, Reason, deleted};

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
    /// Whether the client expects to hear `Accepted` when the object stays for now.
    pub(crate) accepts: bool,
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
            accepts: body["orphanDependents"] == false,
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
    let (_, object) = get::live(call).await?;
    Server::may_be_deleted(call, &object)?;
    may_go(call, &object).await?;
    if options.dry_run {
        is_meant(&call.served.resource, &object, &options)?;
        let mut going = object.clone();
        mark(&call.served.resource, &mut going, &options, Timestamp::now());
        return Ok(Done::ok(answer(&call.served.resource, object, going)));
    }
    match delete_object(call.server, &call.served, &call.key(call.name()?), &options).await? {
        Deleted::Gone(answer) => Ok(Done::ok(answer)),
        Deleted::Going(object) => {
            let code = if options.accepts { StatusCode::ACCEPTED } else { StatusCode::OK };
            let object = conversion::shown(call.server, &call.served.resource, object).await?;
            Ok(Done { code, ..Done::ok(object) })
        }
    }
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
        let object = conversion::of_entry(call.server, resource, entry).await?;
        if !selection.takes(resource, &object) {
            continue;
        }
        may_go(call, &object).await?;
        if !options.dry_run {
            match delete_object(call.server, &call.served, &entry.key, &options).await {
                Ok(_) => {}
                Err(error) if error.reason == Reason::NotFound => continue,
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

/// What became of an object that was to be deleted.
pub(crate) enum Deleted {
    /// It is gone; this is what a client is answered.
    Gone(Value),
    /// Something holds it, or it has time to stop; this is how it is now.
    Going(Value),
}

/// Deletes an object as a controller does that is a client of a real server: if admission lets it.
pub(crate) async fn delete_as(
    server: &Arc<Server>,
    served: &Arc<Served>,
    key: &str,
    options: &Options,
    account: &str,
) -> Result<Deleted, ApiError> {
    let mut parts = key.rsplit('/').map(ToOwned::to_owned);
    let (name, namespace) = (parts.next(), parts.next());
    let resource = &served.resource;
    let call = Call {
        server,
        served: served.clone(),
        target: Target {
            group: resource.group.clone(),
            version: resource.version.clone(),
            plural: resource.plural.clone(),
            namespace: namespace.filter(|_| resource.namespaced),
            name,
            subresource: None,
        },
        query: Query::default(),
        uri: Uri::default(),
        headers: HeaderMap::new(),
        body: Bytes::new(),
        connection: None,
        user: UserInfo::service_account("kube-system", account),
        warnings: &Warnings::default(),
    };
    // As it is stored: no one needs to be asked to see whether it may go.
    let missing = || ApiError::not_found(resource, call.target.name.as_deref().unwrap_or_default());
    let object = of_entry(resource, &server.store().get(key).ok_or_else(missing)?)?;
    if !is_going(&object) {
        may_go(&call, &object).await?;
    }
    delete_object(server, served, key, options).await
}

/// Deletes an object, or marks it as going if something holds it.
pub(crate) async fn delete_object(
    server: &Arc<Server>,
    served: &Arc<Served>,
    key: &str,
    options: &Options,
) -> Result<Deleted, ApiError> {
    let resource = &served.resource;
    let name = key.rsplit('/').next().unwrap_or_default();
    loop {
        let entry = server.store().get(key).ok_or_else(|| ApiError::not_found(resource, name))?;
        let object = of_entry(resource, &entry)?;
        is_meant(resource, &object, options)?;
        let mut going = object.clone();
        hold(&mut going, options);
        mark(resource, &mut going, options, Timestamp::now());
        let grace = going["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        if finalizers(&going).is_empty() && grace == 0 && !is_namespace_in_use(served, &object) {
            match server.store().write(key, Expect::Revision(entry.revision), |_| None).await {
                Ok(_) => {
                    server.written(served, &object);
                    return Ok(Deleted::Gone(answer(resource, object, going)));
                }
                Err(WriteError::Conflict { .. }) => continue,
                Err(error) => return Err(ApiError::internal(error.to_string())),
            }
        }
        if going == object {
            return Ok(Deleted::Going(object));
        }
        let going = Arc::new(going);
        match put(server.store(), served, key, Expect::Revision(entry.revision), &going).await {
            Ok(written) => {
                let mut going = Arc::unwrap_or_clone(going);
                going["metadata"]["resourceVersion"] = written.revision.to_string().into();
                server.written(served, &going);
                return Ok(Deleted::Going(going));
            }
            Err(WriteError::Conflict { .. }) => {}
            Err(error) => return Err(ApiError::internal(error.to_string())),
        }
    }
}

/// Refuses to delete another object than the one that is meant.
fn is_meant(resource: &Resource, object: &Value, options: &Options) -> Result<(), ApiError> {
    for (wanted, field) in [(&options.uid, "UID"), (&options.resource_version, "ResourceVersion")] {
        let found = if field == "UID" { meta(object, "uid") } else { meta(object, "resourceVersion") };
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) {
            let why =
                format!("Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}");
            return Err(ApiError::conflict(resource, meta(object, "name"), &why));
        }
    }
    Ok(())
}

/// What a client is answered when an object is gone: the object, of kinds where that is the custom, or that it is gone.
fn answer(resource: &Resource, object: Value, going: Value) -> Value {
    match (resource.group.as_str(), resource.kind.as_str()) {
        _ if resource.custom().is_some() => deleted(resource, &object),
        ("", "Pod") => going,
        (
            "",
            "PersistentVolume"
            | "PersistentVolumeClaim"
            | "PodTemplate"
            | "ResourceQuota"
            | "Service"
            | "ServiceAccount",
        )
        | ("storage.k8s.io", "CSIDriver" | "CSINode" | "StorageClass" | "VolumeAttachment") => object,
        _ => deleted(resource, &object),
    }
}

/// Sets the finalizers that a propagation policy works by.
fn hold(object: &mut Value, options: &Options) {
    let Some(policy) = options.propagation.as_deref() else { return };
    let mut held: Vec<String> = finalizers(object).into_iter().map(ToOwned::to_owned).collect();
    let wanted = match policy {
        "Foreground" => Some(FOREGROUND),
        "Orphan" => Some(ORPHAN),
        _ => None,
    };
    held.retain(|finalizer| Some(finalizer.as_str()) == wanted || ![FOREGROUND, ORPHAN].contains(&finalizer.as_str()));
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

/// Marks an object as going, and by when. One that is going already can only be made to hurry.
fn mark(resource: &Resource, object: &mut Value, options: &Options, now: Timestamp) {
    // Less than nothing is asked for by those who mean the least.
    let asked = options.grace.map(|grace| if grace < 0 { 1 } else { grace });
    let is_pod = resource.custom().is_none() && resource.group.is_empty() && resource.kind == "Pod";
    let (when, grace) = if is_going(object) {
        let before = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        let due: Option<Timestamp> = meta(object, "deletionTimestamp").parse().ok();
        match (asked.filter(|grace| is_pod && *grace < before), due) {
            (Some(grace), Some(due)) => (due - SignedDuration::from_secs(before - grace), grace),
            _ => return,
        }
    } else {
        let grace = if is_pod { time_to_stop(object, asked) } else { 0 };
        let fields = meta_mut(object);
        if let Some(generation) = fields.get("generation").and_then(Value::as_i64) {
            fields.insert("generation".into(), (generation + 1).into());
        }
        (now + SignedDuration::from_secs(grace), grace)
    };
    let fields = meta_mut(object);
    fields.insert("deletionTimestamp".into(), timestamp(when).into());
    fields.insert("deletionGracePeriodSeconds".into(), grace.into());
    if resource.custom().is_none() && resource.group.is_empty() && resource.kind == "Namespace" {
        object["status"]["phase"] = "Terminating".into();
    }
}

/// How long a pod that runs on a node has to stop.
fn time_to_stop(pod: &Value, asked: Option<i64>) -> i64 {
    let runs = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty())
        && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if !runs {
        return 0;
    }
    let grace = asked.or(pod["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(0);
    if grace < 0 { 1 } else { grace }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> &'static Resource {
        c5c3_kinds::find("", "v1", "pods").expect("pods are built in")
    }

    fn marked(mut pod: Value, grace: Option<i64>) -> (Value, Value) {
        let options = Options { grace, ..Options::default() };
        mark(pods(), &mut pod, &options, "2026-01-31T12:00:00Z".parse().unwrap());
        let mut metadata = pod["metadata"].take();
        (metadata["deletionTimestamp"].take(), metadata["deletionGracePeriodSeconds"].take())
    }

    #[test]
    fn a_pod_on_a_node_has_time_to_stop() {
        let pod = |phase: &str, node: &str| json!({"spec": {"nodeName": node, "terminationGracePeriodSeconds": 20}, "status": {"phase": phase}});
        assert_eq!(marked(pod("Running", "n"), None), (json!("2026-01-31T12:00:20Z"), json!(20)));
        assert_eq!(marked(pod("Running", "n"), Some(5)), (json!("2026-01-31T12:00:05Z"), json!(5)));
        assert_eq!(marked(pod("Running", "n"), Some(-7)).1, 1);
        assert_eq!(marked(pod("Running", "n"), Some(0)).1, 0);
        assert_eq!((marked(pod("Failed", "n"), Some(9)).1, marked(pod("Pending", ""), None).1), (json!(0), json!(0)));
    }

    #[test]
    fn who_is_going_can_only_be_made_to_hurry() {
        let going =
            json!({"metadata": {"deletionTimestamp": "2026-01-31T12:00:10Z", "deletionGracePeriodSeconds": 20}});
        assert_eq!(marked(going.clone(), Some(5)), (json!("2026-01-31T11:59:55Z"), json!(5)));
        assert_eq!(marked(going.clone(), Some(0)), (json!("2026-01-31T11:59:50Z"), json!(0)));
        for none in [None, Some(20), Some(60)] {
            assert_eq!(marked(going.clone(), none), (json!("2026-01-31T12:00:10Z"), json!(20)));
        }
    }

    #[test]
    fn a_policy_takes_the_place_of_another() {
        let held = |policy: Option<&str>| {
            let mut object = json!({"metadata": {"finalizers": ["orphan", "own"]}});
            hold(&mut object, &Options { propagation: policy.map(ToOwned::to_owned), ..Options::default() });
            object["metadata"]["finalizers"].take()
        };
        assert_eq!(held(None), json!(["orphan", "own"]));
        assert_eq!(held(Some("Background")), json!(["own"]));
        assert_eq!(held(Some("Foreground")), json!(["own", "foregroundDeletion"]));
    }
}
