//! What is gathered for a bundle, each by itself: what cannot be read is noted, and the rest is gathered all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use c5c3_kit::KindRef;
use c5c3_kit::object::api;
use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{ApiResource, ListParams, LogParams};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::bundle::Bundle;
use super::clean;
use crate::status::{Asked, Object, Tree, World, causes, kinds, overview};
use crate::target;

/// How much of one container's log.
const LONGEST_LOG: i64 = 512 << 10;

/// How many logs are read at a time.
const CONCURRENCY: usize = 8;

/// Keys of Secrets whose values are no secrets: they are in many texts.
const PUBLIC: &[&str] = &[
    "username",
    "user",
    "userName",
    "host",
    "hostname",
    "port",
    "database",
    "dbname",
    "name",
    "namespace",
    "type",
    "ca.crt",
    "tls.crt",
    "ca",
    "ca-bundle.crt",
    "region",
    "auth_url",
    "project_name",
    "user_domain_name",
    "project_domain_name",
    "mon_host",
    "fsid",
    "application_credential_id",
    "provider",
    "default_user.conf",
    "endpoint",
    "bucket",
];

/// What is looked at, and how much of it.
pub(super) struct Gather<'a> {
    pub(super) asked: &'a Asked<'a>,
    pub(super) world: &'a World,
    pub(super) tail: i64,
    pub(super) since: Option<i64>,
}

impl Gather<'_> {
    /// Names, types and keys of Secrets. Their values are remembered to be taken out of everything that is added later, which is
    /// why this comes first.
    pub(super) async fn secrets(&self, bundle: &mut Bundle) {
        let secrets: Api<Secret> = match self.asked.namespace {
            Some(namespace) => Api::namespaced(self.asked.client.clone(), namespace),
            None => Api::all(self.asked.client.clone()),
        };
        let listed = match secrets.list(&ListParams::default()).await {
            Ok(listed) => listed.items,
            Err(error) => {
                let why = target::root(&error);
                bundle
                    .note(format!("secrets: {why}; without them only what looks like a secret is taken out of texts"));
                return;
            }
        };
        let mut told = Vec::new();
        for secret in &listed {
            let data = secret.data.iter().flatten();
            for (key, value) in data.clone() {
                if !PUBLIC.contains(&key.as_str()) {
                    bundle.known.add(key, &value.0);
                }
            }
            told.push(json!({"namespace": secret.namespace(), "name": secret.name_any(), "type": secret.type_,
                "keys": data.map(|(key, _)| key).collect::<Vec<_>>(), "created": secret.metadata.creation_timestamp,
                "labels": secret.metadata.labels, "owners": secret.metadata.owner_references}));
        }
        bundle.secrets = listed.iter().map(ResourceExt::name_any).collect();
        bundle.add_value("secrets.yaml", &told.into());
    }

    /// Which versions of everything there are.
    pub(super) async fn versions(&self, bundle: &mut Bundle) {
        let kubernetes = match self.asked.client.apiserver_version().await {
            Ok(version) => json!(version),
            Err(error) => {
                bundle.note(format!("the version of Kubernetes: {}", target::root(&error)));
                Value::Null
            }
        };
        let mut images: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for workload in ["Deployment", "StatefulSet", "DaemonSet"].iter().flat_map(|kind| self.world.of_kind(kind)) {
            let of = images.entry(workload.reference.to_string()).or_default();
            for list in ["/spec/template/spec/initContainers", "/spec/template/spec/containers"] {
                of.extend(workload.list(list).iter().filter_map(|one| one["image"].as_str()).map(ToOwned::to_owned));
            }
        }
        let versions = json!({"c5c3": env!("CARGO_PKG_VERSION"), "kubernetes": kubernetes, "images": images});
        bundle.add_value("versions.yaml", &versions);
    }

    /// What `c5c3 status` and `c5c3 why` say.
    pub(super) fn told(&self, bundle: &mut Bundle) {
        let text = |trees: &[Tree], none: &str| match trees {
            [] => none.to_owned(),
            trees => trees.iter().map(Tree::render).collect::<Vec<_>>().join("\n"),
        };
        bundle.add("status.txt", &text(&overview(self.world), "there is no ControlPlane\n"));
        bundle.add("why.txt", &text(&causes(self.world), "all is ready, or there is nothing to ask about\n"));
        if let Some(why) = &self.world.unready {
            bundle.add("apiserver.txt", why);
        }
        for unread in &self.world.unread {
            bundle.note(unread);
        }
    }

    /// All objects of ours and what they are made of, a file for each kind, and events in the order of time.
    pub(super) async fn objects(&self, bundle: &mut Bundle) {
        let names = bundle.secrets.clone();
        let is_name = |text: &str| names.contains(text);
        let mut files: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for object in self.world.objects.iter().filter(|object| object.kind() != "Event") {
            let resource = &object.reference.resource;
            files.entry(file_of(resource)).or_default().push(clean::object(object.value.clone(), &is_name));
        }
        for kind in other_kinds() {
            let namespace = self.asked.namespace.filter(|_| kind.namespaced);
            // A list of ConfigMaps has those of everybody; ours say whose they are.
            let is_config = kind == KindRef::of::<ConfigMap>();
            let all = ListParams::default();
            let params = if is_config { all.labels("c5c3.io/owner-uid") } else { all };
            match api(self.asked.client.clone(), &kind.resource, namespace).list(&params).await {
                Ok(listed) => {
                    let items = listed.items.iter().filter_map(|item| serde_json::to_value(item).ok());
                    let items: Vec<Value> = items.map(|item| clean::object(item, &is_name)).collect();
                    if !items.is_empty() {
                        files.entry(file_of(&kind.resource)).or_default().extend(items);
                    }
                }
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => bundle.note(format!("{}: {}", kind.resource.plural, target::root(&error))),
            }
        }
        for (file, objects) in files {
            bundle.add_value(file, &objects.into());
        }
        let mut events: Vec<&Object> = self.world.of_kind("Event").collect();
        events.sort_by_key(|event| when(event));
        let line = |event: &&Object| {
            let text = |pointer: &str| event.text(pointer).unwrap_or("-").to_owned();
            let about = format!("{}/{}", text("/involvedObject/kind").to_lowercase(), text("/involvedObject/name"));
            let says = text("/message").replace('\n', " ");
            let (kind, reason) = (text("/type"), text("/reason"));
            format!("{} {} {kind} {about} {reason}: {says}\n", when(event), event.namespace().unwrap_or("-"))
        };
        bundle.add("events.txt", &events.iter().map(line).collect::<String>());
    }

    /// The last lines of the logs of operators and services, and of what their containers wrote before a restart.
    pub(super) async fn logs(&self, bundle: &mut Bundle) {
        let mut wanted: Vec<(&Object, String, bool)> = Vec::new();
        for pod in self.world.of_kind("Pod").filter(|pod| self.is_ours(pod)) {
            for (status, list) in [
                ("/status/initContainerStatuses", "/spec/initContainers"),
                ("/status/containerStatuses", "/spec/containers"),
            ] {
                for container in pod.list(list).iter().filter_map(|container| container["name"].as_str()) {
                    let status = pod.list(status).iter().find(|one| one["name"] == container);
                    let has_started =
                        status.is_some_and(|one| one["state"]["waiting"].is_null() || one["restartCount"] != 0);
                    let was_restarted = status.is_some_and(|one| one["restartCount"].as_i64().unwrap_or_default() > 0);
                    if has_started {
                        wanted.push((pod, container.to_owned(), false));
                    }
                    if was_restarted {
                        wanted.push((pod, container.to_owned(), true));
                    }
                }
            }
        }
        let reads = wanted.into_iter().map(|(pod, container, previous)| async move {
            let pods: Api<Pod> = Api::namespaced(self.asked.client.clone(), pod.namespace().unwrap_or_default());
            let params = LogParams {
                container: Some(container.clone()),
                previous,
                tail_lines: Some(self.tail),
                since_seconds: self.since,
                limit_bytes: Some(LONGEST_LOG),
                timestamps: true,
                ..LogParams::default()
            };
            let suffix = if previous { ".previous" } else { "" };
            let (namespace, name) = (pod.namespace().unwrap_or_default(), &pod.reference.name);
            let path = format!("logs/{namespace}/{name}/{container}{suffix}.log");
            (path, pods.logs(name, &params).await)
        });
        let mut reads = stream::iter(reads).buffered(CONCURRENCY);
        while let Some((path, read)) = reads.next().await {
            match read {
                Ok(text) => bundle.add(path, &text),
                Err(error) => bundle.note(format!("{path}: {}", target::root(&error))),
            }
        }
    }

    /// Whether a pod is of an operator, or in a namespace with objects of ours.
    fn is_ours(&self, pod: &Object) -> bool {
        let part_of = pod.value["metadata"]["labels"]["app.kubernetes.io/part-of"].as_str();
        let ours = self.world.objects.iter().filter(|object| object.reference.resource.group.ends_with("c5c3.io"));
        part_of == Some("c5c3")
            || ours.filter_map(Object::namespace).any(|namespace| Some(namespace) == pod.namespace())
    }

    /// The end of the log of the process that `c5c3 up` has started: the operators are in it.
    pub(super) fn own_log(&self, path: &Path, bundle: &mut Bundle) {
        match std::fs::read(path) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let lines: Vec<&str> = text.lines().collect();
                let skipped = lines.len().saturating_sub(usize::try_from(self.tail).unwrap_or_default() * 5);
                bundle.add("logs/c5c3-up.log", &lines[skipped..].join("\n"));
            }
            Err(error) => bundle.note(format!("{}: {error}", path.display())),
        }
    }
}

/// When an event was told last.
fn when(event: &Object) -> String {
    let times = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    times.iter().find_map(|time| event.text(time)).unwrap_or_default().to_owned()
}

fn file_of(resource: &ApiResource) -> String {
    match resource.group.as_str() {
        "" => format!("objects/{}.yaml", resource.plural),
        group => format!("objects/{}.{group}.yaml", resource.plural),
    }
}

/// The kinds of ours that a status does not look at, and ConfigMaps.
fn other_kinds() -> Vec<KindRef> {
    let seen = kinds();
    let ours = c5c3_api::all().iter().map(|kind| {
        let (crd, version) = (kind.crd(), kind.api_version());
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let gvk = GroupVersionKind::gvk(group, version, kind.name());
        let resource = ApiResource::from_gvk_with_plural(&gvk, &crd.spec.names.plural);
        KindRef { resource, namespaced: crd.spec.scope == "Namespaced" }
    });
    ours.chain([KindRef::of::<ConfigMap>()]).filter(|kind| !seen.contains(kind)).collect()
}
