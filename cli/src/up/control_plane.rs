//! The ControlPlane that `c5c3 up` brings up: the one in a file, or the small one that is built in.

use std::path::Path;
use std::time::{Duration, Instant};

use c5c3_api::c5c3::ControlPlane;
use c5c3_cluster::Folder;
use c5c3_images::Catalogue;
use c5c3_kit::Probe;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::Scope;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::{clouds, images, live};

/// Who applied it, among the managers of its fields.
const MANAGER: &str = "c5c3-up";

/// Who says where Keystone is reached. Not the one who applied the rest, or a second start would take it back.
const ENDPOINT_MANAGER: &str = "c5c3-up-endpoint";

/// How often it is looked whether Keystone has an address.
const INTERVAL: Duration = Duration::from_millis(200);

/// How long it may take until the kinds of others are installed.
const INSTALLED: Duration = Duration::from_secs(30);

/// What is to be brought up.
pub(super) struct Wanted {
    /// Everything that is applied, in order.
    documents: Vec<Value>,
    /// The ControlPlane among it.
    plane: ControlPlane,
}

impl Wanted {
    /// What a file asks for, or the built-in one. Mistakes are found before anything is started.
    pub(super) fn read(file: Option<&Path>) -> Result<Self, String> {
        let (name, text) = match file {
            None => ("the built-in ControlPlane".to_owned(), include_str!("small.yaml").to_owned()),
            Some(path) => {
                let text = std::fs::read_to_string(path);
                (path.display().to_string(), text.map_err(|error| format!("{}: {error}", path.display()))?)
            }
        };
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).map_err(|error| format!("{name}: is not YAML: {error}"))?;
        let mut planes = documents.iter().filter(|document| document["kind"] == "ControlPlane");
        let (Some(plane), None) = (planes.next(), planes.next()) else {
            return Err(format!("{name}: must hold one ControlPlane; start with examples/controlplane/"));
        };
        let plane = c5c3_kit::controller::parse(plane).map_err(|problems| format!("{name}:\n{problems}"))?;
        Ok(Self { documents, plane })
    }

    /// The images that its pods are made of: one for each part that the catalogue has an image for.
    pub(super) fn images(&self) -> Result<Vec<&'static str>, String> {
        let catalogue = Catalogue::find(None).map_err(|error| error.to_string())?;
        let parts = c5c3_operator_controlplane::parts(&self.plane);
        let tls = self.plane.spec.global.as_ref().and_then(|global| global.tls.as_ref()?.enabled);
        // This very program speaks TLS for services.
        let own = tls.unwrap_or(false).then_some("c5c3");
        let built = parts.into_iter().filter(|part| catalogue.images().any(|image| image.name == *part));
        Ok(built.chain(own).collect())
    }

    fn namespace(&self) -> String {
        self.plane.namespace().unwrap_or_else(|| "openstack".to_owned())
    }

    /// Makes sure that its images are where nodes import them from.
    pub(super) async fn provide(&self, folder: &Folder) -> Result<(), String> {
        let (folder, names) = (folder.clone(), self.images()?);
        let built = tokio::task::spawn_blocking(move || images::provide(&folder, &names)).await;
        built.map_err(|error| format!("cannot build the images: {error}"))?
    }

    /// Makes it, and stays until it is ready and can be signed in to. Tells so in the end, and before that if it is late.
    pub(super) async fn bring_up(
        &self,
        client: &Client,
        folder: &Folder,
        patience: Duration,
        tell: impl Fn(bool),
    ) -> Result<(), String> {
        self.apply(client).await?;
        let (namespace, name) = (self.namespace(), self.plane.name_any());
        let has_keystone = c5c3_operator_controlplane::parts(&self.plane).contains(&"keystone");
        let publish = async {
            if has_keystone && !self.has_public_endpoint() {
                publish(client, &namespace, &name).await;
            }
        };
        let serves = async || !has_keystone || answers(client, &namespace).await;
        let come_up = async {
            live::until_ready(client, (&namespace, &name), serves, patience, || tell(false)).await;
            if has_keystone {
                let keystone = keystone(client, &namespace).await?;
                clouds::write(client, folder, &keystone).await?;
            }
            tell(true);
            Ok(())
        };
        let ((), come) = tokio::join!(publish, come_up);
        come
    }

    fn has_public_endpoint(&self) -> bool {
        let keystone = self.plane.spec.services.as_ref().and_then(|services| services.keystone.as_ref());
        keystone.is_some_and(|keystone| keystone.public_endpoint.is_some())
    }

    async fn apply(&self, client: &Client) -> Result<(), String> {
        let namespace = self.namespace();
        let own = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let params = PatchParams::apply(MANAGER).force();
        let failed = |what: &str, error: kube::Error| format!("cannot apply {what}: {error}");
        let made = namespaces.patch(&namespace, &params, &Patch::Apply(own)).await;
        made.map_err(|error| failed("the namespace", error))?;
        for document in &self.documents {
            let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            let (version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
            let (group, version) = version.split_once('/').unwrap_or(("", &version));
            let what = format!("{}/{name}", kind.to_lowercase());
            let known = known(client, &GroupVersionKind::gvk(group, version, &kind)).await;
            let (resource, scope) = known.map_err(|error| failed(&what, error))?;
            let own = document.pointer("/metadata/namespace").and_then(Value::as_str);
            let api: Api<DynamicObject> = match scope {
                Scope::Cluster => Api::all_with(client.clone(), &resource),
                Scope::Namespaced => Api::namespaced_with(client.clone(), own.unwrap_or(&namespace), &resource),
            };
            let applied = api.patch(&name, &params, &Patch::Apply(document)).await;
            applied.map_err(|error| failed(&what, error))?;
        }
        Ok(())
    }
}

/// What a kind is called by the API, and where its objects are. It may be one of the providers', which install theirs
/// meanwhile.
async fn known(client: &Client, kind: &GroupVersionKind) -> Result<(ApiResource, Scope), kube::Error> {
    let begun = Instant::now();
    loop {
        match kube::discovery::pinned_kind(client, kind).await {
            Ok((resource, capabilities)) => return Ok((resource, capabilities.scope)),
            Err(_) if begun.elapsed() < INSTALLED => tokio::time::sleep(INTERVAL).await,
            Err(error) => return Err(error),
        }
    }
}

/// Says in the ControlPlane where this machine reaches Keystone, as soon as that is known: the catalog is made from it, and
/// names of the cluster mean nothing outside.
async fn publish(client: &Client, namespace: &str, name: &str) {
    loop {
        match try_publish(client, namespace, name).await {
            Ok(()) => return,
            Err(error) => tracing::debug!(error, "keystone's address is not published yet"),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn try_publish(client: &Client, namespace: &str, name: &str) -> Result<(), String> {
    let keystone = keystone(client, namespace).await?;
    let endpoint = clouds::url(client, namespace, &keystone).await?;
    let planes: Api<ControlPlane> = Api::namespaced(client.clone(), namespace);
    let plane = planes.get_metadata(name).await.map_err(|error| format!("cannot read controlplane/{name}: {error}"))?;
    // With the uid, one that is deleted meanwhile is not created again.
    let patch = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
        "metadata": {"name": name, "uid": plane.uid()},
        "spec": {"services": {"keystone": {"publicEndpoint": endpoint}}}});
    let params = PatchParams::apply(ENDPOINT_MANAGER).force();
    let patched = planes.patch(name, &params, &Patch::Apply(patch)).await;
    patched.map(drop).map_err(|error| format!("cannot publish Keystone's address: {error}"))
}

/// Whether Keystone answers. After a restart, what objects say of themselves is from before it at first.
async fn answers(client: &Client, namespace: &str) -> bool {
    let Ok(keystone) = keystone(client, namespace).await else { return false };
    let probe = Probe {
        namespace: namespace.to_owned(),
        service: "keystone".into(),
        port: 5000,
        tls: keystone["spec"]["tls"]["enabled"] == true,
        path: "/v3".into(),
    };
    let answer = probe.ask(client).await;
    answer.inspect_err(|said| tracing::debug!(said, "keystone does not answer yet")).is_ok()
}

async fn keystone(client: &Client, namespace: &str) -> Result<Value, String> {
    let resource = ApiResource::erase::<c5c3_api::openstack::Keystone>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let found = api.get("keystone").await.map_err(|error| format!("cannot read keystone/keystone: {error}"))?;
    serde_json::to_value(found).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_control_plane_is_good_and_its_images_are_known() {
        let wanted = Wanted::read(None).unwrap();
        assert_eq!(wanted.images().unwrap(), ["mariadb", "rabbitmq", "valkey", "memcached", "keystone"]);
        assert_eq!(wanted.namespace(), "openstack");
    }

    #[test]
    fn with_tls_this_program_is_among_the_images() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.yaml");
        let plane = "{apiVersion: c5c3.io/v1alpha1, kind: ControlPlane, metadata: {name: x}, spec: {
            global: {tls: {enabled: true, issuerRef: {name: notary}}}, infrastructure: {valkey: {}}}}";
        std::fs::write(&path, plane).unwrap();
        assert_eq!(Wanted::read(Some(&path)).unwrap().images().unwrap(), ["valkey", "c5c3"]);
    }

    #[test]
    fn every_service_that_is_asked_for_has_its_image_built() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.yaml");
        let plane = "{apiVersion: c5c3.io/v1alpha1, kind: ControlPlane, metadata: {name: x}, spec: {
            services: {keystone: {enabled: true}, placement: {enabled: true}, glance: {enabled: true}}}}";
        std::fs::write(&path, plane).unwrap();
        let images = Wanted::read(Some(&path)).unwrap().images().unwrap();
        for image in ["mariadb", "memcached", "keystone", "placement", "glance"] {
            assert!(images.contains(&image), "{images:?} lacks {image}");
        }
    }

    #[test]
    fn a_file_without_a_control_plane_or_with_a_wrong_one_starts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.yaml");
        std::fs::write(&path, "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}").unwrap();
        assert!(Wanted::read(Some(&path)).err().unwrap().contains("must hold one ControlPlane"));
        let wrong = "{apiVersion: c5c3.io/v1alpha1, kind: ControlPlane, metadata: {name: x}, spec: {infrastructure: {mariadb: {replicas: 2}}}}";
        std::fs::write(&path, wrong).unwrap();
        assert!(Wanted::read(Some(&path)).err().unwrap().contains("spec.infrastructure.mariadb.replicas: is even"));
    }
}
