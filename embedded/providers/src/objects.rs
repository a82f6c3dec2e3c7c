//! Objects of the cluster, as every provider reads and writes them.

use std::collections::BTreeMap;

use c5c3_kit::apply::{Applied, Executor};
use c5c3_kit::ownership::Owner;
use c5c3_kit::{Child, Plan, Ref};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::failure::Error;
use crate::queue::Kind;

/// An object as it is now; none if it is gone.
pub(crate) async fn again<K: Kind>(client: &Client, object: &K) -> Result<Option<K>, Error> {
    let about = reference(object);
    let found = about.api(client.clone()).get_opt(&about.name).await.map_err(Error::api(format!("read {about}")))?;
    found
        .map(|found| found.try_parse().map_err(|error| Error::Missing(format!("cannot read {about}: {error}"))))
        .transpose()
}

/// An object of a namespace, if it is there.
pub(crate) async fn find<K>(client: &Client, namespace: &str, name: &str) -> Result<Option<K>, Error>
where
    K: Kind + Resource<Scope = k8s_openapi::NamespaceResourceScope>,
{
    let api = Api::<K>::namespaced(client.clone(), namespace);
    api.get_opt(name).await.map_err(Error::api(format!("read {} {namespace}/{name}", K::kind(&()))))
}

/// The content of a Secret, as text by key.
pub(crate) async fn secret(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<BTreeMap<String, String>>, Error> {
    let found = find::<Secret>(client, namespace, name).await?;
    Ok(found.map(|secret| text(&secret)))
}

/// The values of a Secret that are text.
pub(crate) fn text(secret: &Secret) -> BTreeMap<String, String> {
    let values = secret.data.iter().flatten();
    values.filter_map(|(key, value)| Some((key.clone(), String::from_utf8(value.0.clone()).ok()?))).collect()
}

/// A child written as JSON.
pub(crate) fn child<K: Resource<DynamicType = ()> + Serialize + DeserializeOwned>(object: Value) -> Child {
    Child::new(&serde_json::from_value::<K>(object).expect("what a provider makes is of the kind that it says"))
}

/// A Secret as a child, with its values as they are.
pub(crate) fn secret_child<'a>(
    metadata: &Value,
    r#type: &str,
    values: impl IntoIterator<Item = (&'a str, String)>,
) -> Child {
    let values: BTreeMap<&str, String> = values.into_iter().collect();
    let data = values.into_iter().map(|(key, value)| (key, k8s_openapi::ByteString(value.into_bytes())));
    child::<Secret>(json!({"metadata": metadata, "type": r#type, "data": data.collect::<BTreeMap<_, _>>()}))
}

/// Which object this is.
pub(crate) fn reference<K: Resource<DynamicType = ()>>(object: &K) -> Ref {
    Ref::of(&ApiResource::erase::<K>(&()), object.meta())
}

/// Brings an object's children to the plan, as far as it goes.
pub(crate) async fn apply<K: Kind>(
    client: &Client,
    object: &K,
    manager: &'static str,
    plan: &Plan,
) -> Result<Applied, Error> {
    let owner = Owner { reference: reference(object), uid: object.uid().unwrap_or_default(), manager };
    let executor =
        Executor { client, owner: &owner, existing: &[], now: Timestamp::now(), write_limit: None, apply_cache: None };
    Ok(executor.apply(plan).await?)
}

/// Writes a status if it differs from the one that is there.
pub(crate) async fn report<K: Kind, S: Serialize + PartialEq>(
    client: &Client,
    object: &K,
    manager: &str,
    before: Option<&S>,
    status: &S,
) -> Result<(), Error> {
    if before == Some(status) {
        return Ok(());
    }
    let about = reference(object);
    let patch = json!({
        "apiVersion": about.resource.api_version,
        "kind": about.resource.kind,
        "metadata": {"name": about.name, "uid": object.uid()},
        "status": status,
    });
    let params = PatchParams::apply(manager).force();
    match about.api(client.clone()).patch_status(&about.name, &params, &Patch::Apply(patch)).await {
        Ok(_) => Ok(()),
        // The object went while we worked; there is no one to tell.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(Error::api(format!("write the status of {about}"))(error)),
    }
}

/// Puts a finalizer on an object, or takes it off. Fails when someone else changed the object meanwhile, and is tried
/// again then.
pub(crate) async fn hold<K: Kind>(client: &Client, object: &K, finalizer: &str, held: bool) -> Result<(), Error> {
    let mut finalizers = object.finalizers().to_vec();
    finalizers.retain(|other| other != finalizer);
    if held {
        finalizers.push(finalizer.to_owned());
    }
    let about = reference(object);
    let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": object.resource_version()}});
    let patched = about.api(client.clone()).patch(&about.name, &PatchParams::default(), &Patch::Merge(patch)).await;
    match patched {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(Error::api(format!("change the finalizers of {about}"))(error)),
    }
}
