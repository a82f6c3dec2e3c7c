//! ResourceQuotas: what a namespace may use, refused when it is more.
//!
//! What is used is counted from what is stored, one request at a time in a namespace that has quotas: nothing that was
//! counted before it is written.

use std::sync::Arc;

use c5c3_kinds::quota::{self, Amounts};
use c5c3_kinds::{Quantity, Resource};
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::call::Call;
use crate::object::{meta, of_entry};
use crate::server::Server;
use crate::status::ApiError;

/// Held from the count to the write.
#[derive(Default)]
pub(crate) struct Turn(Arc<Mutex<()>>);

/// The quotas of a namespace.
pub(crate) fn quotas(server: &Server, namespace: &str) -> Vec<Value> {
    let Some(served) = server.registry().find("", "v1", "resourcequotas") else { return Vec::new() };
    let entries = server.store().list(&served.prefix(Some(namespace)));
    entries.iter().filter_map(|entry| of_entry(&served.resource, entry).ok()).collect()
}

/// What is used of a quota: of all that it limits, how much.
pub(crate) fn used(server: &Server, quota: &Value) -> Amounts {
    let hard = quota::amounts(&quota["spec"]["hard"]);
    let mut used: Amounts = hard.keys().map(|name| (name.clone(), Quantity::whole(0))).collect();
    for served in server.registry().stored().into_iter().filter(|served| served.resource.namespaced) {
        for entry in server.store().list(&served.prefix(Some(meta(quota, "namespace")))).iter() {
            let Ok(object) = of_entry(&served.resource, entry) else { continue };
            if quota::is_about(quota, &served.resource, &object) {
                let uses = quota::usage(&served.resource, &object).into_iter();
                for (name, amount) in uses.filter(|(name, _)| hard.contains_key(name)) {
                    quota::add(&mut used, name, amount);
                }
            }
        }
    }
    used
}

/// Amounts as they are written in an object.
pub(crate) fn written(amounts: &Amounts) -> Value {
    let entries = amounts.iter().map(|(name, amount)| (name.clone(), json!(amount.to_string())));
    Value::Object(entries.collect::<Map<_, _>>())
}

/// Refuses an object that uses more than there is left, and otherwise keeps others from using it first.
pub(crate) async fn admit(
    call: &Call<'_>,
    old: Option<&Value>,
    object: &Value,
) -> Result<Option<OwnedMutexGuard<()>>, ApiError> {
    let Some(namespace) = call.namespace().filter(|_| call.target.subresource.is_none()) else { return Ok(None) };
    if quotas(call.server, namespace).is_empty() {
        return Ok(None);
    }
    let turn = call.server.turn().0.clone().lock_owned().await;
    let resource = &call.served.resource;
    for quota in quotas(call.server, namespace) {
        if quota::is_about(&quota, resource, object) {
            fits(call.server, &quota, resource, (old, object))
                .map_err(|why| ApiError::forbidden_object(resource, meta(object, "name"), &why))?;
        }
    }
    Ok(Some(turn))
}

/// Whether a quota has room for what an object uses, or for what it uses more than it did. The error says why not.
fn fits(
    server: &Server,
    quota: &Value,
    resource: &Resource,
    (old, object): (Option<&Value>, &Value),
) -> Result<(), String> {
    let (name, hard) = (meta(quota, "name"), quota::amounts(&quota["spec"]["hard"]));
    let unsaid = quota::unsaid(&hard, resource, object);
    if old.is_none() && !unsaid.is_empty() {
        return Err(format!("failed quota: {name}: must specify {unsaid}"));
    }
    let had = old.filter(|old| quota::is_about(quota, resource, old)).map(|old| quota::usage(resource, old));
    let more = quota::usage(resource, object).into_iter().map(|(name, amount)| {
        let before = had.as_ref().and_then(|had| had.get(&name)).copied();
        (name, before.map_or(amount, |before| amount.minus(before)))
    });
    let more: Amounts = more.filter(|(name, amount)| hard.contains_key(name) && *amount > Quantity::whole(0)).collect();
    if more.is_empty() {
        return Ok(());
    }
    let used = used(server, quota);
    let over: Vec<&String> =
        more.iter().filter(|(name, more)| used[*name].plus(**more) > hard[*name]).map(|(name, _)| name).collect();
    if over.is_empty() {
        return Ok(());
    }
    let say =
        |amounts: &Amounts| over.iter().map(|name| format!("{name}={}", amounts[*name])).collect::<Vec<_>>().join(",");
    let (asked, used, hard) = (say(&more), say(&used), say(&hard));
    Err(format!("exceeded quota: {name}, requested: {asked}, used: {used}, limited: {hard}"))
}
