//! CustomResourceDefinitions: names are accepted or not, and the last object goes before its kind does.

use std::sync::Arc;

use serde_json::Value;

use super::{Change, SERVER, drop_finalizer, edit, set_condition};
use crate::object::{Head, finalizers, is_going, meta, meta_mut, of_entry};
use crate::registry::Served;
use crate::server::Server;
use crate::status::{ApiError, Reason};
use crate::verbs::{DeleteOptions, Deleted, delete_object};

/// Held by a definition whose objects must go first.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Whether a definition is served: before it says that it is established, and though its names are contested later.
pub(crate) fn is_served(definition: &Value) -> bool {
    holds(definition, "NamesAccepted") || holds(definition, "Established")
}

fn holds(definition: &Value, condition: &str) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|found| found["type"] == condition && found["status"] == "True")
}

/// Brings a definition's status up to date, or cleans up after it.
pub(super) async fn reconcile(server: &Arc<Server>, key: &str) -> Result<(), ApiError> {
    let Some(served) = kind(server) else { return Ok(()) };
    let Some(entry) = server.store().get(key) else {
        server.reload_registry();
        return accept_waiting(server, &served).await;
    };
    let definition = of_entry(&served.resource, &entry)?;
    if is_going(&definition) {
        return clean_up(server, &served, key, &definition).await;
    }
    bring_up(server, &served, key, &definition).await
}

/// Accepts or refuses names. Established is written when what it promises holds: who sees it asks for objects at once.
async fn bring_up(server: &Arc<Server>, served: &Arc<Served>, key: &str, definition: &Value) -> Result<(), ApiError> {
    let conflict = conflict(server, definition);
    edit(server, SERVER, served, key, |definition| accept(definition, conflict.as_deref())).await?;
    server.reload_registry();
    edit(server, SERVER, served, key, establish).await
}

fn kind(server: &Server) -> Option<Arc<Served>> {
    server.registry().find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}

/// Looks again at the definitions whose names were taken: they may be free now.
async fn accept_waiting(server: &Arc<Server>, served: &Arc<Served>) -> Result<(), ApiError> {
    for entry in server.store().list(&served.prefix(None)).iter() {
        let definition = of_entry(&served.resource, entry)?;
        if !holds(&definition, "NamesAccepted") && !is_going(&definition) {
            bring_up(server, served, &entry.key, &definition).await?;
        }
    }
    Ok(())
}

/// Says that a definition whose names are accepted is served. False: it says so already.
fn establish(definition: &mut Value) -> bool {
    let is_new = holds(definition, "NamesAccepted") && !holds(definition, "Established");
    if is_new {
        let message = "the initial names have been accepted";
        set_condition(definition, "Established", "True", "InitialNamesAccepted", message);
    }
    is_new
}

/// Writes whether a definition's names are accepted. False: it is so already.
fn accept(definition: &mut Value, conflict: Option<&str>) -> bool {
    let before = definition.clone();
    if !finalizers(definition).contains(&CLEANUP) {
        let mut held: Vec<String> = finalizers(definition).into_iter().map(ToOwned::to_owned).collect();
        held.push(CLEANUP.to_owned());
        meta_mut(definition).insert("finalizers".into(), held.into());
    }
    match conflict {
        None => {
            definition["status"]["acceptedNames"] = definition["spec"]["names"].clone();
            set_condition(definition, "NamesAccepted", "True", "NoConflicts", "no conflicts found");
        }
        Some(conflict) => {
            set_condition(definition, "NamesAccepted", "False", "NameConflict", conflict);
            if !holds(definition, "Established") {
                set_condition(definition, "Established", "False", "NotAccepted", "not all names are accepted");
            }
        }
    }
    let stored =
        definition["spec"]["versions"].as_array().into_iter().flatten().find(|version| version["storage"] == true);
    let stored = stored.map(|version| version["name"].clone()).unwrap_or_default();
    let mut versions = definition["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
    if !versions.contains(&stored) {
        versions.push(stored);
    }
    definition["status"]["storedVersions"] = versions.into();
    *definition != before
}

/// What another definition of the same group has taken of a definition's names.
fn conflict(server: &Server, definition: &Value) -> Option<String> {
    let names = &definition["spec"]["names"];
    let is_other = |served: &Arc<Served>| {
        let custom = served.resource.custom();
        definition["spec"]["group"] == *served.resource.group
            && custom.is_some_and(|custom| custom.definition != meta(definition, "name"))
    };
    for served in server.registry().all().into_iter().filter(is_other) {
        let other = &served.resource;
        let taken = [
            (&other.plural, "plural"),
            (&other.singular, "singular"),
            (&other.kind, "kind"),
            (&other.list_kind, "listKind"),
        ];
        if let Some((name, _)) = taken.into_iter().find(|(name, field)| names[field] == **name) {
            return Some(format!("{name:?} is already in use"));
        }
        let shorts = names["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str);
        if let Some(short) = shorts.into_iter().find(|short| other.short_names.iter().any(|taken| taken == short)) {
            return Some(format!("{short:?} is already in use"));
        }
    }
    None
}

/// Deletes a definition's objects, and lets it go when none is left.
async fn clean_up(
    server: &Arc<Server>,
    definitions: &Arc<Served>,
    key: &str,
    definition: &Value,
) -> Result<(), ApiError> {
    let mut left = 0;
    for resource in c5c3_kinds::custom(definition) {
        let Some(served) = server.registry().find(&resource.group, &resource.version, &resource.plural) else {
            continue;
        };
        for entry in server.store().list(&served.prefix(None)).iter() {
            left += 1;
            match delete_object(server, &served, &entry.key, &DeleteOptions::default()).await {
                Ok(Deleted::Gone(_)) => left -= 1,
                Ok(Deleted::Going(_)) => {}
                Err(error) if error.reason == Reason::NotFound => left -= 1,
                Err(error) => return Err(error),
            }
        }
        break; // All versions show the same objects.
    }
    if left == 0 {
        edit(server, SERVER, definitions, key, |definition| drop_finalizer(definition, CLEANUP)).await?;
        server.reload_registry();
    }
    Ok(())
}

/// The definition that waits for its objects to go, if the change is that one has gone.
pub(super) fn waiting(server: &Server, change: &Change) -> Option<String> {
    let custom = change.served.resource.custom().filter(|_| change.gone)?;
    let served = kind(server)?;
    let key = served.key(None, &custom.definition);
    let definition = Head::read(&server.store().get(&key)?.value).ok()?;
    definition.is_going().then_some(key)
}
