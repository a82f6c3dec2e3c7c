//! Pods as every service has them: not root, a read-only root file system, no capabilities, no token of the API.

use std::collections::{BTreeMap, BTreeSet};

use c5c3_api::blocks::{Resources, Scheduling};
use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapVolumeSource, Container, EmptyDirVolumeSource, EnvVar, HostPathVolumeSource, KeyToPath,
    LocalObjectReference, PersistentVolumeClaimVolumeSource, PodSecurityContext, PodSpec, PodTemplateSpec,
    ResourceRequirements, SeccompProfile, SecretVolumeSource, SecurityContext, TopologySpreadConstraint, Volume,
    VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::core::ObjectMeta;

use crate::instance::Instance;

/// The user and group of every image.
const USER: i64 = 42424;

/// Files of a Secret: for the user's group, and for no other.
const MODE: i32 = 0o440;

/// A folder of a pod, or one file in it.
#[derive(Clone, Debug)]
pub struct Mount {
    name: String,
    path: String,
    source: Source,
    sub_path: Option<String>,
    /// Whether the pod starts without the Secret, and the files appear with it.
    optional: bool,
    /// Whether mounts that appear below it later are seen on the other side, too.
    propagation: Option<&'static str>,
}

#[derive(Clone, Debug)]
enum Source {
    Secret {
        name: String,
        items: Vec<(String, String)>,
    },
    ConfigMap {
        name: String,
    },
    Claim {
        name: String,
    },
    HostPath {
        path: String,
        kind: &'static str,
    },
    Empty {
        limit: Option<String>,
    },
    /// A volume from the claim template of a StatefulSet, which names it.
    Template,
}

impl Mount {
    fn new(name: &str, path: &str, source: Source) -> Self {
        Self { name: name.into(), path: path.into(), source, sub_path: None, optional: false, propagation: None }
    }

    /// A Secret's keys as files. Those of a pod that runs follow the Secret.
    pub fn secret(name: &str, secret: &str, path: &str) -> Self {
        Self::new(name, path, Source::Secret { name: secret.into(), items: Vec::new() })
    }

    /// Some of a Secret's keys as files of the names beside them.
    pub fn secret_items(name: &str, secret: &str, path: &str, items: &[(&str, &str)]) -> Self {
        let items = items.iter().map(|(key, file)| ((*key).to_owned(), (*file).to_owned())).collect();
        Self::new(name, path, Source::Secret { name: secret.into(), items })
    }

    /// A ConfigMap's keys as files.
    pub fn config_map(name: &str, map: &str, path: &str) -> Self {
        Self::new(name, path, Source::ConfigMap { name: map.into() })
    }

    /// A PersistentVolumeClaim.
    pub fn claim(name: &str, claim: &str, path: &str) -> Self {
        Self::new(name, path, Source::Claim { name: claim.into() })
    }

    /// A folder of the node, which is made if it is not there.
    pub fn host_path(name: &str, host: &str, path: &str) -> Self {
        Self::new(name, path, Source::HostPath { path: host.into(), kind: "DirectoryOrCreate" })
    }

    /// The volume that a StatefulSet's claim template of the same name makes.
    pub fn template(name: &str, path: &str) -> Self {
        Self::new(name, path, Source::Template)
    }

    /// An empty folder that can be written to.
    pub fn empty(name: &str, path: &str) -> Self {
        Self::new(name, path, Source::Empty { limit: None })
    }

    /// An empty folder that can be written to, up to a size such as `10Gi`.
    pub fn scratch(name: &str, path: &str, limit: &str) -> Self {
        Self::new(name, path, Source::Empty { limit: Some(limit.into()) })
    }

    /// Mounts one file or folder of the volume in the place of all of it.
    pub fn sub_path(self, sub_path: &str) -> Self {
        Self { sub_path: Some(sub_path.into()), ..self }
    }

    /// Starts the pod without the Secret, or without its keys. Their files appear when they do.
    pub fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    /// Shares mounts that appear below it later, in both directions. It needs a privileged container.
    pub fn bidirectional(self) -> Self {
        Self { propagation: Some("Bidirectional"), ..self }
    }

    /// The volume; none where a StatefulSet makes it.
    fn volume(&self) -> Option<Volume> {
        let volume = Volume { name: self.name.clone(), ..Volume::default() };
        Some(match &self.source {
            Source::Template => return None,
            Source::Secret { name, items } => {
                let item = |(key, path): &(String, String)| KeyToPath {
                    key: key.clone(),
                    path: path.clone(),
                    ..KeyToPath::default()
                };
                let secret = SecretVolumeSource {
                    secret_name: Some(name.clone()),
                    default_mode: Some(MODE),
                    items: Some(items.iter().map(item).collect::<Vec<_>>()).filter(|items| !items.is_empty()),
                    optional: self.optional.then_some(true),
                };
                Volume { secret: Some(secret), ..volume }
            }
            Source::ConfigMap { name } => {
                let map = ConfigMapVolumeSource { name: name.clone(), ..ConfigMapVolumeSource::default() };
                Volume { config_map: Some(map), ..volume }
            }
            Source::Claim { name } => {
                let claim = PersistentVolumeClaimVolumeSource { claim_name: name.clone(), read_only: None };
                Volume { persistent_volume_claim: Some(claim), ..volume }
            }
            Source::HostPath { path, kind } => {
                let host_path = HostPathVolumeSource { path: path.clone(), type_: Some((*kind).into()) };
                Volume { host_path: Some(host_path), ..volume }
            }
            Source::Empty { limit } => {
                let size_limit = limit.clone().map(Quantity);
                Volume { empty_dir: Some(EmptyDirVolumeSource { size_limit, medium: None }), ..volume }
            }
        })
    }

    pub(crate) fn mount(&self) -> VolumeMount {
        let read_only = matches!(self.source, Source::Secret { .. } | Source::ConfigMap { .. }).then_some(true);
        VolumeMount {
            name: self.name.clone(),
            mount_path: self.path.clone(),
            sub_path: self.sub_path.clone(),
            mount_propagation: self.propagation.map(ToOwned::to_owned),
            read_only,
            ..VolumeMount::default()
        }
    }
}

/// What all pods of an instance have in common, whatever runs in them.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// The Secrets that images are pulled with.
    pub pull_secrets: Vec<String>,
    /// Folders of all containers.
    pub mounts: Vec<Mount>,
    /// The environment of all containers.
    pub env: Vec<(&'static str, String)>,
    /// What has to run before everything else.
    pub init_containers: Vec<Container>,
}

/// A pod of a service.
#[derive(Clone, Debug)]
pub struct Pod<'a> {
    /// Whose.
    pub instance: &'a Instance,
    /// Which part of the service it is.
    pub component: &'a str,
    /// What it has in common with all others.
    pub shared: &'a Shared,
    /// What runs in it.
    pub containers: Vec<Container>,
    /// What runs before that, one after the other.
    pub init_containers: Vec<Container>,
    /// Its folders. A container that names its own mounts gets those alone, and no other gets them.
    pub mounts: Vec<Mount>,
    /// Where it goes.
    pub scheduling: Option<&'a Scheduling>,
    /// The account whose token of the API it gets; none when absent.
    pub service_account: Option<String>,
    /// Annotations of the pods: a change of them replaces the pods.
    pub annotations: BTreeMap<String, String>,
}

impl Pod<'_> {
    /// The pod as a template.
    pub fn template(mut self) -> PodTemplateSpec {
        self.mounts.extend(self.shared.mounts.clone());
        self.mounts.extend([Mount::empty("tmp", "/tmp"), Mount::empty("run", "/run")]);
        let env: Vec<EnvVar> = self.shared.env.iter().map(|(name, value)| variable(name, value)).collect();
        self.init_containers.splice(0..0, self.shared.init_containers.clone());
        let own: BTreeSet<&str> = self.containers.iter().flat_map(own_mounts).collect();
        let shared = self.mounts.iter().filter(|mount| !own.contains(mount.name.as_str()));
        let mounts: Vec<VolumeMount> = shared.map(Mount::mount).collect();
        let with_mounts = |containers: &[Container]| -> Vec<Container> {
            let add = |container: &Container| {
                let own = container.volume_mounts.clone();
                let shared = env.iter().filter(|_| own.is_none());
                let with_env = container.env.iter().flatten().chain(shared).cloned().collect::<Vec<_>>();
                Container {
                    volume_mounts: own.or_else(|| Some(mounts.clone())),
                    env: Some(with_env).filter(|env| !env.is_empty()),
                    ..container.clone()
                }
            };
            containers.iter().map(add).collect()
        };
        let spec = PodSpec {
            containers: with_mounts(&self.containers),
            init_containers: Some(with_mounts(&self.init_containers)).filter(|containers| !containers.is_empty()),
            volumes: Some(volumes(&self.mounts)),
            image_pull_secrets: Some(pull_secrets(&self.shared.pull_secrets)).filter(|secrets| !secrets.is_empty()),
            automount_service_account_token: Some(self.service_account.is_some()),
            service_account_name: self.service_account,
            enable_service_links: Some(false),
            security_context: Some(PodSecurityContext {
                run_as_non_root: Some(true),
                run_as_user: Some(USER),
                run_as_group: Some(USER),
                fs_group: Some(USER),
                seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".into(), ..SeccompProfile::default() }),
                ..PodSecurityContext::default()
            }),
            ..PodSpec::default()
        };
        let metadata = ObjectMeta {
            labels: Some(self.instance.labels(self.component)),
            annotations: Some(self.annotations).filter(|annotations| !annotations.is_empty()),
            ..ObjectMeta::default()
        };
        PodTemplateSpec { metadata: Some(metadata), spec: Some(placed(spec, self.scheduling)) }
    }
}

fn placed(spec: PodSpec, scheduling: Option<&Scheduling>) -> PodSpec {
    let Some(scheduling) = scheduling else { return spec };
    let Scheduling { node_selector, tolerations, affinity, topology_spread_constraints: _, priority_class_name } =
        scheduling;
    PodSpec {
        node_selector: Some(node_selector.clone()).filter(|labels| !labels.is_empty()),
        tolerations: Some(tolerations.clone()).filter(|tolerations| !tolerations.is_empty()),
        affinity: affinity.clone(),
        priority_class_name: priority_class_name.as_ref().map(ToString::to_string),
        ..spec
    }
}

/// How a component's pods spread: as asked, or over zones and nodes as well as they can.
pub fn spread(instance: &Instance, component: &str, scheduling: Option<&Scheduling>) -> Vec<TopologySpreadConstraint> {
    let asked = scheduling.map(|scheduling| scheduling.topology_spread_constraints.clone()).unwrap_or_default();
    if !asked.is_empty() {
        return asked;
    }
    ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
        .map(|key| TopologySpreadConstraint {
            max_skew: 1,
            topology_key: key.into(),
            when_unsatisfiable: "ScheduleAnyway".into(),
            label_selector: Some(instance.selector(component)),
            ..TopologySpreadConstraint::default()
        })
        .into()
}

/// A container that may do nothing but its work. Arguments follow the image's entry point, which reaps processes.
pub fn container(name: &str, image: &str, args: &[&str], env: &[(&str, &str)]) -> Container {
    let env = env.iter().map(|(name, value)| variable(name, value));
    Container {
        name: name.into(),
        image: Some(image.into()),
        image_pull_policy: Some("IfNotPresent".into()),
        args: Some(args.iter().map(|arg| (*arg).to_owned()).collect()),
        env: Some(env.collect::<Vec<_>>()).filter(|env| !env.is_empty()),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities { drop: Some(vec!["ALL".into()]), ..Capabilities::default() }),
            read_only_root_filesystem: Some(true),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.into(), value: Some(value.into()), ..EnvVar::default() }
}

fn pull_secrets(names: &[String]) -> Vec<LocalObjectReference> {
    names.iter().map(|name| LocalObjectReference { name: name.clone() }).collect()
}

/// Each volume once: several mounts may show different files of one.
fn volumes(mounts: &[Mount]) -> Vec<Volume> {
    let mut volumes: Vec<Volume> = Vec::new();
    for volume in mounts.iter().filter_map(Mount::volume) {
        if volumes.iter().all(|other| other.name != volume.name) {
            volumes.push(volume);
        }
    }
    volumes
}

fn own_mounts(container: &Container) -> impl Iterator<Item = &str> {
    container.volume_mounts.iter().flatten().map(|mount| mount.name.as_str())
}

/// What a container asks for.
pub fn resources(resources: Option<&Resources>) -> Option<ResourceRequirements> {
    let resources = resources?;
    let quantities = |map: &BTreeMap<String, c5c3_api::blocks::Quantity>| -> BTreeMap<String, Quantity> {
        map.iter().map(|(name, quantity)| (name.clone(), Quantity(quantity.as_str().to_owned()))).collect()
    };
    Some(ResourceRequirements {
        requests: Some(quantities(&resources.requests)).filter(|map| !map.is_empty()),
        limits: Some(quantities(&resources.limits)).filter(|map| !map.is_empty()),
        ..ResourceRequirements::default()
    })
}
