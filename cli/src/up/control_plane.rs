//! The ControlPlane that `c5c3 up` brings up: the one in a file, or one of the two that are built in.

use std::convert::Infallible;
use std::path::Path;
use std::time::{Duration, Instant};

use c5c3_api::c5c3::ControlPlane;
use c5c3_api::ext::rook::CephCluster;
use c5c3_cluster::Folder;
use c5c3_images::Catalogue;
use c5c3_kit::Probe;
use c5c3_operator_hypervisor::CloudSecret;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::Scope;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Map, Value, json};

use super::{clouds, images, live, operators};
use crate::validate;

/// Who applied it, among the managers of its fields.
const MANAGER: &str = "c5c3-up";

/// Who says where the services are reached. Not the one who applied the rest, or a second start would take it back.
const ENDPOINT_MANAGER: &str = "c5c3-up-endpoint";

/// The services with an API.
const SERVICES: &[&str] = &["keystone", "glance", "placement", "nova", "neutron", "cinder"];

/// Graphical consoles, which are a part of Nova.
const CONSOLE: &str = "nova/console";

/// How often it is looked whether the services have addresses.
const INTERVAL: Duration = Duration::from_millis(200);

/// How often it is looked whether the way into the cloud has changed.
const FOLLOWED_EVERY: Duration = Duration::from_secs(2);

/// How long it may take until the kinds of others are installed.
const INSTALLED: Duration = Duration::from_secs(30);

/// Where it is written what to bring up.
#[derive(Clone, Copy)]
pub(super) enum Manifest<'a> {
    /// A file of the user's.
    File(&'a Path),
    /// A whole cloud.
    Cloud,
    /// A Keystone and what it stands on.
    Minimal,
}

impl Manifest<'_> {
    /// What it is called in messages, and its text.
    fn read(self) -> Result<(String, String), String> {
        match self {
            Self::Cloud => Ok(("the built-in ControlPlane".to_owned(), include_str!("cloud.yaml").to_owned())),
            Self::Minimal => Ok(("the built-in ControlPlane".to_owned(), include_str!("small.yaml").to_owned())),
            Self::File(path) => {
                let text = std::fs::read_to_string(path);
                Ok((path.display().to_string(), text.map_err(|error| format!("{}: {error}", path.display()))?))
            }
        }
    }
}

/// What is to be brought up.
pub(super) struct Wanted {
    /// Everything that is applied, in order.
    documents: Vec<Value>,
    /// The ControlPlane among it.
    plane: ControlPlane,
    /// Whether it needs servers of Ceph, which are no part of a ControlPlane.
    has_ceph: bool,
    /// Whether this command sets the public endpoints of services for which the ControlPlane names none.
    publishes: bool,
}

impl Wanted {
    /// What a manifest asks for. Mistakes are found before anything is started.
    pub(super) fn read(manifest: Manifest<'_>) -> Result<Self, String> {
        if let Manifest::File(path) = manifest {
            let problems = validate::problems(path);
            if !problems.is_empty() {
                return Err(problems.join("\n"));
            }
        }
        let (name, text) = manifest.read()?;
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).map_err(|error| format!("{name}: is not YAML: {error}"))?;
        let mut planes = documents.iter().filter(|document| document["kind"] == "ControlPlane");
        let (Some(plane), None) = (planes.next(), planes.next()) else {
            return Err(format!("{name}: must hold one ControlPlane; start with examples/controlplane/"));
        };
        let plane: ControlPlane =
            c5c3_kit::controller::parse(plane).map_err(|problems| format!("{name}:\n{problems}"))?;
        let has_ceph = documents.iter().any(|document| document["kind"] == *CephCluster::kind(&()));
        Ok(Self { documents, plane, has_ceph, publishes: true })
    }

    /// The ControlPlane that a cluster has already, the oldest if there are several. It is left as it is.
    pub(super) async fn found(client: &Client) -> Result<Option<Self>, String> {
        let planes = listed(client, &ApiResource::erase::<ControlPlane>(&())).await?;
        let oldest = planes.into_iter().min_by_key(|plane| (plane.creation_timestamp(), plane.name_any()));
        let Some(object) = oldest else { return Ok(None) };
        let publishes = object.managed_fields().iter().any(|entry| entry.manager.as_deref() == Some(ENDPOINT_MANAGER));
        let value = serde_json::to_value(&object).map_err(|error| error.to_string())?;
        // One that is wrong goes on with what ran before, and says itself what is wrong with it.
        let plane = c5c3_kit::controller::parse(&value).or_else(|_| {
            let metadata = json!({"name": object.name_any(), "namespace": object.namespace()});
            serde_json::from_value(json!({"metadata": metadata, "spec": {}}))
        });
        let plane: ControlPlane =
            plane.map_err(|error| format!("cannot read controlplane/{}: {error}", object.name_any()))?;
        let has_ceph = !listed(client, &ApiResource::erase::<CephCluster>(&())).await?.is_empty();
        Ok(Some(Self { documents: Vec::new(), plane, has_ceph, publishes }))
    }

    /// Refuses objects of a kind whose provider is switched off.
    pub(super) fn refuse_without(&self, switched_off: &[String]) -> Result<(), String> {
        for document in &self.documents {
            let text = |field: &str| document[field].as_str().unwrap_or_default();
            let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
            let provider = c5c3_providers::provider_of(group, text("kind"));
            if let Some(provider) = provider.filter(|provider| switched_off.iter().any(|name| name == provider)) {
                return Err(format!(
                    "the built-in cloud has a {}, which --without-provider {provider} leaves nothing to act on; go without the \
                     flag, or with --file, --minimal or --bare",
                    text("kind")
                ));
            }
        }
        Ok(())
    }

    /// How it is called in messages.
    pub(super) fn title(&self) -> String {
        format!("controlplane/{} in {}", self.plane.name_any(), self.namespace())
    }

    /// The images that its pods are made of: one for each part that the catalogue has an image for.
    pub(super) fn images(&self) -> Result<Vec<&'static str>, String> {
        let catalogue = Catalogue::find(None).map_err(|error| error.to_string())?;
        let parts = self.parts();
        let tls = self.plane.spec.global.as_ref().and_then(|global| global.tls.as_ref()?.enabled);
        // This very program speaks TLS for services, and is Cortex's scheduler.
        let own = (tls.unwrap_or(false) || parts.contains(&"cortex")).then_some("c5c3");
        // OVN's part on hypervisors runs in an image of its own.
        let switch = parts.contains(&"ovn").then_some("openvswitch");
        // libvirt does so, too, and boots a guest to find out whether KVM works.
        let libvirt: &[&'static str] = if parts.contains(&"nova") { &["libvirt", "guest"] } else { &[] };
        let built = parts.into_iter().filter(|part| catalogue.images().any(|image| image.name == *part));
        let ceph = self.has_ceph.then_some("ceph");
        Ok(built.chain(switch).chain(libvirt.iter().copied()).chain(ceph).chain(own).collect())
    }

    /// The names of its parts.
    pub(super) fn parts(&self) -> Vec<&'static str> {
        c5c3_operator_controlplane::parts(&self.plane)
    }

    /// Where its objects are.
    pub(super) fn namespace(&self) -> String {
        self.plane.namespace().unwrap_or_else(|| "openstack".to_owned())
    }

    /// The Secret with which the operator of hypervisors signs in to it. `spec.korc.cloudCredentialsRef` is K-ORC's alone.
    pub(super) fn credential(&self) -> CloudSecret {
        CloudSecret { namespace: self.namespace(), ..operators::usual_credential() }
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
        let has_keystone = self.parts().contains(&"keystone");
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
        tokio::select! {
            come = come_up => come,
            never = self.publish(client, (&namespace, &name)) => match never {},
        }
    }

    /// Keeps the way in open, for ever: the address of Keystone changes with its Service, and the administrator's password with
    /// its Secret.
    pub(super) async fn follow(&self, client: &Client, folder: &Folder) {
        let (namespace, name) = (self.namespace(), self.plane.name_any());
        loop {
            tokio::time::sleep(FOLLOWED_EVERY).await;
            if let Err(error) = self.follow_once(client, folder, (&namespace, &name)).await {
                tracing::debug!(error, "the way into the cloud cannot be looked at");
            }
        }
    }

    async fn follow_once(
        &self,
        client: &Client,
        folder: &Folder,
        (namespace, name): (&str, &str),
    ) -> Result<(), String> {
        let keystone = keystone(client, namespace).await?;
        self.publish_once(client, (namespace, name)).await?;
        clouds::write(client, folder, &keystone).await
    }

    /// Says in the ControlPlane where this machine reaches each API, as soon as that is known: the catalog is made from it, and
    /// names of the cluster mean nothing outside.
    async fn publish(&self, client: &Client, plane: (&str, &str)) -> Infallible {
        loop {
            if let Err(error) = self.publish_once(client, plane).await {
                tracing::debug!(error, "the addresses of services are not published yet");
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn publish_once(&self, client: &Client, (namespace, name): (&str, &str)) -> Result<(), String> {
        if !self.publishes {
            return Ok(());
        }
        let planes: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<ControlPlane>(&()));
        let plane = planes.get(name).await.map_err(|error| format!("cannot read controlplane/{name}: {error}"))?;
        let tls = plane.data.pointer("/spec/global/tls/enabled") == Some(&Value::Bool(true));
        let mut endpoints = Map::new();
        for service in SERVICES.iter().filter(|service| is_unpublished(&plane, service)) {
            let url = match *service {
                "keystone" => clouds::url(client, namespace, &keystone(client, namespace).await?).await,
                other => clouds::address(client, namespace, other, tls).await,
            };
            // One that has no address yet is published later.
            if let Ok(url) = url {
                endpoints.insert((*service).to_owned(), json!({"publicEndpoint": url}));
            }
        }
        if is_unpublished(&plane, CONSOLE) {
            // Browsers reach it without TLS.
            if let Ok(url) = clouds::address(client, namespace, "nova-console", false).await {
                endpoints.entry("nova").or_insert_with(|| json!({}))["console"] = json!({"publicEndpoint": url});
            }
        }
        let services = &plane.data["spec"]["services"];
        let is_known = |(service, own): (&String, &Value)| {
            let is_said =
                |place: &str| own.pointer(place).is_none_or(|url| services[service].pointer(place) == Some(url));
            is_said("/publicEndpoint") && is_said("/console/publicEndpoint")
        };
        if endpoints.iter().all(is_known) {
            return Ok(());
        }
        // With the uid, one that is deleted meanwhile is not created again.
        let patch = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
            "metadata": {"name": name, "uid": plane.uid()}, "spec": {"services": endpoints}});
        let params = PatchParams::apply(ENDPOINT_MANAGER).force();
        let patched = planes.patch(name, &params, &Patch::Apply(patch)).await;
        patched.map(drop).map_err(|error| format!("cannot publish the addresses of services: {error}"))
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

/// Whether Keystone answers. After a restart, what objects say of themselves is from before it at first.
async fn answers(client: &Client, namespace: &str) -> bool {
    let Ok(keystone) = keystone(client, namespace).await else { return false };
    let probe = Probe {
        namespace: namespace.to_owned(),
        service: "keystone".into(),
        port: 5000,
        tls: keystone["spec"]["tls"]["enabled"] == true,
        path: "/v3".into(),
        keeps_text: false,
        interval: Probe::INTERVAL,
    };
    let answer = probe.ask(client).await;
    answer.inspect_err(|said| tracing::debug!(said, "keystone does not answer yet")).is_ok()
}

/// Whether a service runs whose public endpoint is absent, or one that this command has set. A part of a service is named with a
/// slash before it.
fn is_unpublished(plane: &DynamicObject, service: &str) -> bool {
    let spec = &plane.data["spec"];
    let asked = spec["services"].pointer(&format!("/{service}")).unwrap_or(&Value::Null);
    let field = format!("/f:spec/f:services/f:{}/f:publicEndpoint", service.replace('/', "/f:"));
    let sets = |entry: &ManagedFieldsEntry| entry.fields_v1.as_ref().is_some_and(|set| set.0.pointer(&field).is_some());
    let mut own = plane.managed_fields().iter().filter(|entry| entry.manager.as_deref() == Some(ENDPOINT_MANAGER));
    let is_named = asked.get("publicEndpoint").is_some() || spec["global"].get("publicDomain").is_some();
    asked.is_object() && (own.any(sets) || !is_named)
}

async fn keystone(client: &Client, namespace: &str) -> Result<Value, String> {
    let resource = ApiResource::erase::<c5c3_api::openstack::Keystone>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let found = api.get("keystone").await.map_err(|error| format!("cannot read keystone/keystone: {error}"))?;
    serde_json::to_value(found).map_err(|error| error.to_string())
}

/// All objects of a kind; none if the cluster does not know the kind yet.
async fn listed(client: &Client, resource: &ApiResource) -> Result<Vec<DynamicObject>, String> {
    let all: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    match all.list(&ListParams::default()).await {
        Ok(listed) => Ok(listed.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(format!("cannot list {}: {error}", resource.plural)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_control_plane_is_good_and_its_images_are_known() {
        let wanted = Wanted::read(Manifest::Minimal).unwrap();
        assert_eq!(wanted.images().unwrap(), ["mariadb", "rabbitmq", "valkey", "memcached", "keystone"]);
        assert_eq!(wanted.namespace(), "openstack");
        let cloud = Wanted::read(Manifest::Cloud).unwrap();
        let images = cloud.images().unwrap();
        for image in
            ["keystone", "placement", "glance", "cinder", "ceph", "neutron", "ovn", "openvswitch", "nova", "libvirt"]
        {
            assert!(images.contains(&image), "{images:?} lacks {image}");
        }
    }

    #[test]
    fn the_built_in_cloud_cannot_go_without_the_provider_of_its_ceph() {
        let lacks = |manifest, off: &str| Wanted::read(manifest).unwrap().refuse_without(&[off.to_owned()]).err();
        let said = lacks(Manifest::Cloud, "rook").unwrap();
        assert!(said.starts_with("the built-in cloud has a CephCluster, which --without-provider rook "), "{said}");
        assert_eq!((lacks(Manifest::Minimal, "rook"), lacks(Manifest::Cloud, "flux")), (None, None));
    }

    #[test]
    fn operators_sign_in_with_the_secret_of_the_control_planes_namespace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.yaml");
        let told = |korc: &str| {
            let plane = format!(
                "{{apiVersion: c5c3.io/v1alpha1, kind: ControlPlane, metadata: {{name: x, namespace: cloud}}, spec: {{
                services: {{keystone: {{enabled: true}}, placement: {{enabled: true}}}}{korc}}}}}"
            );
            std::fs::write(&path, plane).unwrap();
            let CloudSecret { namespace, name, cloud } = Wanted::read(Manifest::File(&path)).unwrap().credential();
            format!("{namespace}/{name}/{cloud}")
        };
        let own = "cloud/hypervisor-operator-clouds-yaml/openstack";
        assert_eq!(told(""), own);
        let named = ", korc: {cloudCredentialsRef: {secretName: keys, cloudName: north}}";
        assert_eq!(told(named), own, "that is K-ORC's");
        assert_eq!(Wanted::read(Manifest::Cloud).unwrap().credential(), operators::usual_credential());
    }

    #[test]
    fn with_tls_this_program_is_among_the_images() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.yaml");
        let plane = "{apiVersion: c5c3.io/v1alpha1, kind: ControlPlane, metadata: {name: x}, spec: {
            global: {tls: {enabled: true, issuerRef: {name: notary}}}, infrastructure: {valkey: {}}}}";
        std::fs::write(&path, plane).unwrap();
        assert_eq!(Wanted::read(Manifest::File(&path)).unwrap().images().unwrap(), ["valkey", "c5c3"]);
    }

    #[test]
    fn every_service_that_is_asked_for_has_its_image_built() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.yaml");
        let plane = "{apiVersion: c5c3.io/v1alpha1, kind: ControlPlane, metadata: {name: x}, spec: {
            services: {keystone: {enabled: true}, placement: {enabled: true}, glance: {enabled: true}}}}";
        std::fs::write(&path, plane).unwrap();
        let images = Wanted::read(Manifest::File(&path)).unwrap().images().unwrap();
        for image in ["mariadb", "memcached", "keystone", "placement", "glance"] {
            assert!(images.contains(&image), "{images:?} lacks {image}");
        }
    }

    #[test]
    fn a_file_without_a_control_plane_or_with_a_wrong_one_starts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.yaml");
        std::fs::write(&path, "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}").unwrap();
        assert!(Wanted::read(Manifest::File(&path)).err().unwrap().contains("must hold one ControlPlane"));
        let wrong = "{apiVersion: c5c3.io/v1alpha1, kind: ControlPlane, metadata: {name: x}, spec: {infrastructure: {mariadb: {replicas: 2}}}}";
        std::fs::write(&path, wrong).unwrap();
        assert!(
            Wanted::read(Manifest::File(&path))
                .err()
                .unwrap()
                .contains("spec.infrastructure.mariadb.replicas: is even")
        );
    }

    #[tokio::test]
    async fn a_control_plane_that_is_there_is_gone_on_with() {
        let cluster = c5c3_harness::TestCluster::start().await.unwrap();
        let client = cluster.client();
        cluster.install(&c5c3_api::find("c5c3.io/v1alpha1", "ControlPlane").unwrap().crd()).await.unwrap();
        let planes: Api<DynamicObject> =
            Api::default_namespaced_with(client.clone(), &ApiResource::erase::<ControlPlane>(&()));
        let mine = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane", "metadata": {"name": "mine"},
            "spec": {"infrastructure": {"valkey": {"replicas": 1}}}});
        planes.patch("mine", &PatchParams::apply("someone"), &Patch::Apply(&mine)).await.unwrap();
        let found = Wanted::found(&client).await.unwrap().unwrap();
        assert_eq!(found.title(), format!("controlplane/mine in {}", cluster.namespace()));
        assert_eq!((found.images().unwrap(), found.documents.len(), found.publishes), (vec!["valkey"], 0, false));
        let endpoint = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane", "metadata": {"name": "mine"},
            "spec": {"services": {"keystone": {"publicEndpoint": "http://10.0.0.1:5000/v3"}}}});
        planes.patch("mine", &PatchParams::apply(ENDPOINT_MANAGER), &Patch::Apply(&endpoint)).await.unwrap();
        assert!(Wanted::found(&client).await.unwrap().unwrap().publishes, "the address is ours to follow");
    }

    #[tokio::test]
    async fn another_address_or_password_of_keystone_is_followed() {
        let cluster = c5c3_harness::TestCluster::start().await.unwrap();
        let client = cluster.client();
        for (version, kind) in
            [("c5c3.io/v1alpha1", "ControlPlane"), ("keystone.openstack.c5c3.io/v1alpha1", "Keystone")]
        {
            cluster.install(&c5c3_api::find(version, kind).unwrap().crd()).await.unwrap();
        }
        let put = async |object: Value| {
            let (version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            let api: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource);
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            api.patch(&name, &PatchParams::apply("someone").force(), &Patch::Apply(&object)).await.unwrap();
        };
        let secret = |password: &str| {
            json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"password": password},
            "metadata": {"name": "keystone-admin-credentials"}})
        };
        let service = |port: u16| {
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "keystone"},
            "spec": {"ports": [{"name": format!("p{port}"), "port": port}]}})
        };
        put(json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane", "metadata": {"name": "lab"},
            "spec": {"services": {"keystone": {}}}}))
        .await;
        put(json!({"apiVersion": "keystone.openstack.c5c3.io/v1alpha1", "kind": "Keystone", "metadata": {"name": "keystone"},
            "spec": {"database": {"host": "db", "database": "keystone", "secretRef": {"name": "x"}}, "cache": {"servers": ["c:1"]}}}))
        .await;
        let data = tempfile::tempdir().unwrap();
        let folder = Folder::new(data.path()).unwrap();
        let plane = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
            "metadata": {"name": "lab", "namespace": cluster.namespace()}, "spec": {"services": {"keystone": {}}}});
        let plane = c5c3_kit::controller::parse(&plane).unwrap();
        let wanted = Wanted { documents: Vec::new(), plane, has_ceph: false, publishes: true };
        for (password, port) in [("first", 5000), ("second", 5000), ("second", 6000)] {
            put(secret(password)).await;
            put(service(port)).await;
            wanted.follow_once(&client, &folder, (cluster.namespace(), "lab")).await.unwrap();
            let clouds = std::fs::read_to_string(clouds::path(&folder)).unwrap();
            assert!(clouds.contains(password) && clouds.contains(&format!(":{port}/v3")), "{clouds}");
            let planes: Api<DynamicObject> =
                Api::default_namespaced_with(client.clone(), &ApiResource::erase::<ControlPlane>(&()));
            let public =
                planes.get("lab").await.unwrap().data["spec"]["services"]["keystone"]["publicEndpoint"].clone();
            assert!(public.as_str().unwrap().ends_with(&format!(":{port}/v3")), "{public}");
        }
    }
}
