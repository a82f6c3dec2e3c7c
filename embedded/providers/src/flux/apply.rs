//! Objects are applied: all of them are tried first, so that a commit with something wrong in it changes nothing.
//!
//! What can only be tried once the commit's own kinds and namespaces are there is tried right after those are applied. A
//! mistake found then leaves behind nothing but new kinds and new namespaces.

use std::collections::BTreeSet;
use std::time::Duration;

use c5c3_kit::Ref;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::runtime::{conditions, wait};
use kube::{Api, Client, ResourceExt};

use super::inventory;
use super::items::{self, Item};
use super::kinds::Entry;

/// The field manager, as Flux calls it.
const MANAGER: &str = "kustomize-controller";

/// Keeps an object that is gone from the repository.
const PRUNE: &str = "kustomize.toolkit.fluxcd.io/prune";

/// How many objects are tried at the same time.
const AT_ONCE: usize = 8;

/// How many mistakes are told at once.
const TOLD: usize = 5;

/// How long a new kind may take to be served.
const SERVED: Duration = Duration::from_secs(30);

/// The objects of a commit of which those that could be were tried.
pub(super) struct Tried<'a> {
    items: &'a [Item],
    /// Kinds, as group and kind, and namespaces that are not yet as the commit has them.
    kinds: BTreeSet<(String, String)>,
    namespaces: BTreeSet<String>,
}

/// Tries every object that can be tried now. Changes nothing.
pub(super) async fn try_all<'a>(client: &Client, items: &'a [Item]) -> Result<Tried<'a>, String> {
    let ground: Vec<&Item> = items.iter().filter(|item| item.is_ground() && !item.is_left_alone).collect();
    let would_be = attempt(client, &ground).await?;
    let mut tried = Tried { items, kinds: BTreeSet::new(), namespaces: BTreeSet::new() };
    for (item, would_be) in ground.iter().zip(would_be) {
        let is = item.at.api(client.clone()).get_opt(&item.at.name).await;
        let is = is.map_err(|error| told(item, &error))?;
        if item.is_namespace() && is.is_none() {
            tried.namespaces.insert(item.at.name.clone());
        } else if item.is_definition() && is.is_none_or(|is| is.metadata.generation != would_be.metadata.generation) {
            tried.kinds.insert(item.defines());
        }
    }
    let ready: Vec<&Item> = items.iter().filter(|item| !item.is_ground() && !tried.is_later(item)).collect();
    attempt(client, &ready).await?;
    Ok(tried)
}

impl Tried<'_> {
    /// Whether it can be tried only when the commit's kinds and namespaces are there.
    fn is_later(&self, item: &Item) -> bool {
        let kind = (item.at.resource.group.clone(), item.at.resource.kind.clone());
        let namespace = item.at.namespace.as_ref();
        !item.is_served
            || self.kinds.contains(&kind)
            || namespace.is_some_and(|namespace| self.namespaces.contains(namespace))
    }

    /// Applies them.
    pub(super) async fn apply(&self, client: &Client) -> Result<(), String> {
        for item in self.items.iter().filter(|item| item.is_ground()) {
            apply(client, item).await?;
        }
        for item in self.items.iter().filter(|item| item.is_definition()) {
            let api = Api::<CustomResourceDefinition>::all(client.clone());
            let served = wait::await_condition(api, &item.at.name, conditions::is_crd_established());
            if !matches!(tokio::time::timeout(SERVED, served).await, Ok(Ok(_))) {
                return Err(format!("{}: {} is not served within {SERVED:?}", item.file, item.at));
            }
        }
        let later: Vec<&Item> = self.items.iter().filter(|item| !item.is_ground() && self.is_later(item)).collect();
        attempt(client, &later).await?;
        for item in self.items.iter().filter(|item| !item.is_ground()) {
            apply(client, item).await?;
        }
        Ok(())
    }
}

/// Tries objects, and tells the mistakes of all of them.
async fn attempt(client: &Client, items: &[&Item]) -> Result<Vec<DynamicObject>, String> {
    let wanted = items.iter().filter(|item| !item.is_left_alone);
    let attempts: Vec<BoxFuture<'_, _>> = wanted.map(|item| dry_run(client, item).boxed()).collect();
    let answers: Vec<Result<DynamicObject, String>> = stream::iter(attempts).buffered(AT_ONCE).collect().await;
    let (good, bad): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    let mut bad: Vec<String> = bad.into_iter().filter_map(Result::err).collect();
    if bad.is_empty() {
        return Ok(good.into_iter().filter_map(Result::ok).collect());
    }
    let more = bad.len().saturating_sub(TOLD);
    bad.truncate(TOLD);
    Err(bad.join("; ") + &if more > 0 { format!("; and {more} more") } else { String::new() })
}

async fn dry_run(client: &Client, item: &Item) -> Result<DynamicObject, String> {
    let params = PatchParams { dry_run: true, ..parameters() };
    patched(client, item, &params).await
}

async fn apply(client: &Client, item: &Item) -> Result<(), String> {
    if item.is_left_alone {
        return Ok(());
    }
    patched(client, item, &parameters()).await.map(|_| ())
}

fn parameters() -> PatchParams {
    PatchParams::apply(MANAGER).force().validation_strict()
}

async fn patched(client: &Client, item: &Item, params: &PatchParams) -> Result<DynamicObject, String> {
    let answer = item.at.api(client.clone()).patch(&item.at.name, params, &Patch::Apply(&item.object)).await;
    answer.map_err(|error| told(item, &error))
}

/// What the API says of an object. It may quote values, which those of a Secret are too good for.
fn told(item: &Item, error: &kube::Error) -> String {
    let is_secret = item.at.resource.group.is_empty() && item.at.resource.kind == "Secret";
    let said = match error {
        kube::Error::Api(status) if is_secret => {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            let fields: Vec<&str> =
                causes.map(|cause| cause.field.as_str()).filter(|field| !field.is_empty()).collect();
            let fields = if fields.is_empty() { "data, stringData, type".to_owned() } else { fields.join(", ") };
            format!("{}; look at {fields} (what a Secret holds is not quoted)", status.reason)
        }
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    };
    format!("{}: {}: {said}", item.file, item.at)
}

/// Deletes what is gone from the repository, unless someone else has it now or an annotation keeps it. Returns the entries of
/// what could not be deleted, and why.
pub(super) async fn prune(client: &Client, name: &str, namespace: &str, gone: &[Entry]) -> (Vec<Entry>, Vec<String>) {
    let mut listed: Vec<_> = gone.iter().filter_map(|entry| Some((entry, inventory::listed(entry)?))).collect();
    listed.sort_by_key(|(_, listed)| std::cmp::Reverse(items::rank(&listed.kind.kind)));
    let (mut left, mut said) = (Vec::new(), Vec::new());
    for (entry, listed) in listed {
        if let Err(error) = delete(client, name, namespace, &listed).await {
            left.push(entry.clone());
            said.push(format!("{}/{}: {error}", listed.kind.kind, listed.name));
        }
    }
    (left, said)
}

async fn delete(client: &Client, name: &str, namespace: &str, listed: &inventory::Listed) -> Result<(), String> {
    let found = items::served(client, &listed.kind).await.map_err(|error| error.to_string())?;
    // With the kind, all of its objects went.
    let Some((resource, is_namespaced)) = found else { return Ok(()) };
    let namespace_of = is_namespaced.then(|| listed.namespace.clone());
    let at = Ref { resource, namespace: namespace_of, name: listed.name.clone() };
    let api = at.api(client.clone());
    let Some(object) = api.get_opt(&at.name).await.map_err(|error| error.to_string())? else { return Ok(()) };
    let is_ours =
        items::labels(name, namespace).iter().all(|(label, value)| object.labels().get(*label) == Some(value));
    let is_kept = object.annotations().get(PRUNE).is_some_and(|kept| kept.eq_ignore_ascii_case("disabled"));
    if !is_ours || is_kept || object.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let preconditions = Preconditions { uid: object.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
    match api.delete(&at.name, &params).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
