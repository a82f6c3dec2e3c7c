//! Root's password: made up where that is asked for, and followed when it changes.
//!
//! Servers know the password that they began with, and no one can read it from them. A second Secret remembers which one
//! that is, so that a change of the first can be told to them: see [`follow`](super::sql::follow).

use std::collections::BTreeMap;

use c5c3_api::ext::mariadb::MariaDB;
use c5c3_kit::ownership::MANAGED_BY;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};

use super::MANAGER;
use super::wanted::Wanted;
use crate::failure::Error;
use crate::{generated, objects};

/// The key of the Secret that remembers.
const KEY: &str = "password";

/// The Secret that remembers which password servers have.
pub(super) fn memory(name: &str) -> String {
    format!("{name}-root-in-force")
}

/// The password that is asked for, which is made if that is asked for, too; or what is missing.
pub(super) async fn asked(client: &Client, wanted: &Wanted) -> Result<Result<String, String>, Error> {
    let root = &wanted.root;
    let found = objects::secret(client, &wanted.namespace, &root.secret).await?;
    Ok(match found.map(|mut values| values.remove(&root.key)) {
        Some(Some(password)) => Ok(password),
        Some(None) => Err(format!("spec.rootPasswordSecretKeyRef.key: secret/{} has no key {}", root.secret, root.key)),
        None => return lost(client, wanted).await,
    })
}

/// The password when its Secret is not there: the one that servers have, if it is remembered, or a new one where that is asked
/// for. Its Secret is made in both cases.
async fn lost(client: &Client, wanted: &Wanted) -> Result<Result<String, String>, Error> {
    let root = &wanted.root;
    let password = match in_force(client, wanted).await? {
        Some(remembered) => remembered,
        None if root.generate => generated::password(),
        None => {
            return Ok(Err(format!(
                "spec.rootPasswordSecretKeyRef.name: secret/{} is not there, and generate is not true",
                root.secret
            )));
        }
    };
    make(client, &wanted.namespace, &root.secret, &root.key, &password).await?;
    Ok(Ok(password))
}

/// The password that servers have, as far as it is remembered.
pub(super) async fn in_force(client: &Client, wanted: &Wanted) -> Result<Option<String>, Error> {
    let found = objects::secret(client, &wanted.namespace, &memory(&wanted.name)).await?;
    Ok(found.and_then(|mut values| values.remove(KEY)))
}

/// Remembers which password servers have, as long as the MariaDB is there.
pub(super) async fn remember(client: &Client, mariadb: &MariaDB, wanted: &Wanted, password: &str) -> Result<(), Error> {
    let name = memory(&wanted.name);
    let mut secret = secret(&name, KEY, password);
    secret.metadata.owner_references = mariadb.controller_owner_ref(&()).map(|owner| vec![owner]);
    let params = PatchParams::apply(MANAGER).force();
    let api = Api::<Secret>::namespaced(client.clone(), &wanted.namespace);
    let applied = api.patch(&name, &params, &Patch::Apply(&secret)).await;
    applied.map(drop).map_err(Error::api(format!("write secret/{name}")))
}

/// Makes the Secret with a password. If another client was faster, the next look finds theirs.
async fn make(client: &Client, namespace: &str, name: &str, key: &str, password: &str) -> Result<(), Error> {
    let api = Api::<Secret>::namespaced(client.clone(), namespace);
    let made = api.create(&PostParams::default(), &secret(name, key, password)).await;
    made.map(drop).map_err(Error::api(format!("create secret/{name}")))
}

/// A Secret with a password. One that was made up is no one's child: it stays as long as the volumes may that it is in.
fn secret(name: &str, key: &str, password: &str) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([(MANAGED_BY.to_owned(), MANAGER.to_owned())])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(key.to_owned(), ByteString(password.as_bytes().to_vec()))])),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use c5c3_kit::testing::FakeApi;
    use serde_json::json;

    use super::*;
    use crate::testing::mariadb;

    #[tokio::test]
    async fn a_secret_that_was_lost_gets_the_password_that_servers_have() {
        let api = FakeApi::default();
        let spec = json!({"rootPasswordSecretKeyRef": {"name": "root", "key": "password"}, "storage": {"size": "1Gi"}});
        let wanted = Wanted::of(&mariadb(spec)).unwrap();
        let missing = asked(&api.client(), &wanted).await.unwrap().unwrap_err();
        assert!(missing.contains("secret/root is not there"), "{missing}");
        let remembered = json!({"apiVersion": "v1", "kind": "Secret", "data": {"password": "a25vd24="},
            "metadata": {"name": memory(&wanted.name), "namespace": wanted.namespace}});
        api.put(&remembered);
        assert_eq!(asked(&api.client(), &wanted).await.unwrap().unwrap(), "known");
        let root =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "root", "namespace": wanted.namespace}});
        assert_eq!(api.get(&root).unwrap()["data"]["password"], "a25vd24=");
    }
}
