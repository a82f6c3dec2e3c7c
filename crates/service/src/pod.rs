//! Pods as every service has them: not root, a read-only root file system, no capabilities, no token of the API.

use std::collections::{BTreeMap, BTreeSet};

use c5c3_api::blocks::{Resources, Scheduling};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, EmptyDirVolumeSource, EnvVar, PodSecurityContext, PodSpec, PodTemplateSpec,
    ResourceRequirements, SeccompProfile, SecretVolumeSource, SecurityContext, TopologySpreadConstraint, Volume,
    VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::core::ObjectMeta;

use crate::instance::Instance;

/// The user and group of every image.
const USER: i64 = 42424;

/// Files of a Secret: for the user's group, and for nobody else.
const MODE: i32 = 0o440;

/// A folder of a pod.
#[derive(Clone, Debug)]
pub struct Mount {
    name: String,
    path: String,
    secret: Option<String>,
}

impl Mount {
    /// A Secret's keys as files. Those of a pod that runs follow the Secret.
    pub fn secret(name: &str, secret: &str, path: &str) -> Self {
        Self { name: name.into(), path: path.into(), secret: Some(secret.into()) }
    }

    /// An empty folder that can be written to.
    pub fn empty(name: &str, path: &str) -> Self {
        Self { name: name.into(), path: path.into(), secret: None }
    }

    fn volume(&self) -> Volume {
        let secret = self.secret.clone().map(|secret| SecretVolumeSource {
            secret_name: Some(secret),
            default_mode: Some(MODE),
            ..SecretVolumeSource::default()
        });
        let empty_dir = secret.is_none().then(EmptyDirVolumeSource::default);
        Volume { name: self.name.clone(), secret, empty_dir, ..Volume::default() }
    }

    pub(crate) fn mount(&self) -> VolumeMount {
        let read_only = self.secret.is_some().then_some(true);
        VolumeMount { name: self.name.clone(), mount_path: self.path.clone(), read_only, ..VolumeMount::default() }
    }
}

/// A pod of a service.
#[derive(Clone, Debug)]
pub struct Pod<'a> {
    /// Whose.
    pub instance: &'a Instance,
    /// Which part of the service it is.
    pub component: &'a str,
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
    /// Annotations: what changes with them is made anew.
    pub annotations: BTreeMap<String, String>,
}

impl Pod<'_> {
    /// The pod as a template.
    pub fn template(mut self) -> PodTemplateSpec {
        self.mounts.extend([Mount::empty("tmp", "/tmp"), Mount::empty("run", "/run")]);
        let own: BTreeSet<&str> = self.containers.iter().flat_map(own_mounts).collect();
        let shared = self.mounts.iter().filter(|mount| !own.contains(mount.name.as_str()));
        let mounts: Vec<VolumeMount> = shared.map(Mount::mount).collect();
        let with_mounts = |containers: &[Container]| -> Vec<Container> {
            let add = |container: &Container| {
                let own = container.volume_mounts.clone();
                Container { volume_mounts: own.or_else(|| Some(mounts.clone())), ..container.clone() }
            };
            containers.iter().map(add).collect()
        };
        let spec = PodSpec {
            containers: with_mounts(&self.containers),
            init_containers: Some(with_mounts(&self.init_containers)).filter(|containers| !containers.is_empty()),
            volumes: Some(self.mounts.iter().map(Mount::volume).collect()),
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
    let env = env.iter().map(|(name, value)| EnvVar {
        name: (*name).into(),
        value: Some((*value).into()),
        ..EnvVar::default()
    });
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
