//! CustomResourceDefinitions that tests share: a cluster has one of each name, whoever uses it.
//!
//! Each test cluster that uses a definition is written on it. Who takes the last name off removes it, on condition that
//! no one has come since. A definition that no test installed is used as it is, and stays.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::{conditions, wait};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::error::Error;
use crate::patience::{PATIENCE, Rounds};

/// The label of definitions that tests have installed.
pub(crate) const SHARED: &str = "harness.c5c3.io/shared";

/// The annotation of a definition for each test cluster that uses it, followed by the cluster's name.
const USER: &str = "harness.c5c3.io/used-by-";

fn user_key(user: &str) -> String {
    format!("{USER}{user}")
}

/// Whether a test cluster uses this definition.
fn is_used(definition: &CustomResourceDefinition) -> bool {
    definition.annotations().keys().any(|key| key.starts_with(USER))
}

/// Installs a definition, or joins those who use it, and waits until it is served.
pub(crate) async fn install(client: &Client, user: &str, definition: &CustomResourceDefinition) -> Result<(), Error> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let name = definition.name_any();
    let mut rounds = Rounds::begin();
    while !join(&api, user, definition).await? {
        if !rounds.next().await {
            return Err(Error::TooLate(format!("the definition {name} cannot be installed")));
        }
    }
    let established = wait::await_condition(api, &name, conditions::is_crd_established());
    match tokio::time::timeout(PATIENCE, established).await {
        Ok(Ok(_)) => Ok(()),
        _ => Err(Error::TooLate(format!("the definition {name} is not established"))),
    }
}

/// One attempt. False: it is just going, or just coming.
async fn join(
    api: &Api<CustomResourceDefinition>,
    user: &str,
    definition: &CustomResourceDefinition,
) -> Result<bool, Error> {
    match api.get_opt(&definition.name_any()).await? {
        None => {
            let mut own = definition.clone();
            own.labels_mut().insert(SHARED.to_owned(), "true".to_owned());
            own.annotations_mut().insert(user_key(user), String::new());
            match api.create(&PostParams::default(), &own).await {
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
                created => Ok(created.map(|_| true)?),
            }
        }
        Some(found) if found.metadata.deletion_timestamp.is_some() => Ok(false),
        Some(found) if !found.labels().contains_key(SHARED) => Ok(true),
        Some(_) => Ok(mark(api, &definition.name_any(), user, Some(""))
            .await?
            .is_some_and(|joined| joined.metadata.deletion_timestamp.is_none())),
    }
}

/// Leaves a definition. The last one removes it, and is told the uid of what now goes: the next one under that name
/// belongs to someone else.
pub(crate) async fn leave(client: &Client, user: &str, name: &str) -> Result<Option<String>, Error> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let left = match api.get_opt(name).await? {
        Some(found) if found.labels().contains_key(SHARED) => mark(&api, name, user, None).await?,
        _ => None,
    };
    let Some(left) = left.filter(|left| !is_used(left)) else { return Ok(None) };
    let only_this = Preconditions { uid: left.uid(), resource_version: left.resource_version() };
    match api.delete(name, &DeleteParams::default().preconditions(only_this)).await {
        Ok(_) => Ok(left.uid()),
        // Someone else has come, or the other one who left last was faster.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Writes a user on a definition, or off it. None: it is gone.
async fn mark(
    api: &Api<CustomResourceDefinition>,
    name: &str,
    user: &str,
    value: Option<&str>,
) -> Result<Option<CustomResourceDefinition>, Error> {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {user_key(user): value}}}));
    match api.patch(name, &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        patched => Ok(Some(patched?)),
    }
}
