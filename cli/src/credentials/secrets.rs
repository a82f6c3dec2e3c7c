//! What is known of Secrets without reading them: since when their data is as it is, and annotations.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::status::World;
use crate::target;

/// Metadata of Secrets, by namespace and name.
#[derive(Clone, Debug, Default)]
pub(super) struct Secrets(BTreeMap<(String, String), ObjectMeta>);

impl Secrets {
    pub(super) fn new(metadata: impl IntoIterator<Item = ObjectMeta>) -> Self {
        let named = |meta: ObjectMeta| {
            let name = (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
            (name, meta)
        };
        Self(metadata.into_iter().map(named).collect())
    }

    /// Since when the data of a Secret is as it is: the last write to it by whoever writes it, else its creation.
    pub(super) fn since(&self, namespace: &str, name: &str) -> Option<Timestamp> {
        let meta = self.find(namespace, name)?;
        let writes = meta.managed_fields.iter().flatten().filter(|entry| {
            let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
            fields.is_some_and(|fields| fields.get("f:data").is_some() || fields.get("f:stringData").is_some())
        });
        let written = writes.filter_map(|entry| Some(entry.time.as_ref()?.0)).max();
        written.or_else(|| Some(meta.creation_timestamp.as_ref()?.0))
    }

    pub(super) fn annotation(&self, namespace: &str, name: &str, key: &str) -> Option<&str> {
        self.find(namespace, name)?.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Whether a Secret is known not to be there.
    pub(super) fn lacks(&self, namespace: &str, name: &str) -> bool {
        !self.0.is_empty() && self.find(namespace, name).is_none()
    }

    fn find(&self, namespace: &str, name: &str) -> Option<&ObjectMeta> {
        self.0.get(&(namespace.to_owned(), name.to_owned()))
    }
}

/// Reads the metadata of Secrets, as far as that is allowed.
pub(super) async fn read(client: &Client, namespace: Option<&str>, world: &mut World) -> Result<Secrets, String> {
    let api: Api<Secret> =
        namespace.map_or_else(|| Api::all(client.clone()), |namespace| Api::namespaced(client.clone(), namespace));
    match api.list_metadata(&ListParams::default()).await {
        Ok(list) => Ok(Secrets::new(list.items.into_iter().map(|item| item.metadata))),
        Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403) => {
            world.unread.push("ages of secrets (not allowed)".to_owned());
            Ok(Secrets::default())
        }
        Err(error) => Err(target::root(&error)),
    }
}
