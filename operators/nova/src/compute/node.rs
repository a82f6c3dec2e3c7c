//! Pods that belong to a node and work on it: in its network, with its folders, as root.

use std::collections::BTreeMap;

use c5c3_api::blocks::{Resources, Scheduling};
use c5c3_kit::Child;
use c5c3_service::Instance;
use c5c3_service::pod::{self, Mount, Pod, Shared};
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy, RollingUpdateDaemonSet};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, EnvVar, EnvVarSource, ExecAction, ObjectFieldSelector, PodSecurityContext,
    PodTemplateSpec, Probe, SeccompProfile, SecurityContext, Toleration, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{CAPABILITIES, DEAF_SECONDS, LOST_SECONDS, SCRIPTS};

/// The volume of the guest that shows whether KVM works, and the one that keys of Ceph are in.
pub(super) const GUEST: &str = "guest";
pub(super) const KEYS: &str = "etc";

/// How nova-compute is started, and what says whether it hears others.
const PYTHON: &str = "/opt/nova/bin/python";
const SCRIPT: &str = "/etc/nova/compute.py";
const CONF: &str = "--config-file=/etc/nova/nova.conf";

/// What the kubelet evicts last: a node without it has guests that nobody manages.
const PRIORITY: &str = "system-node-critical";

/// A pod for each node with some labels.
pub(super) struct NodePod<'a> {
    pub(super) instance: &'a Instance,
    pub(super) component: String,
    pub(super) shared: &'a Shared,
    pub(super) containers: Vec<Container>,
    pub(super) init_containers: Vec<Container>,
    pub(super) mounts: Vec<Mount>,
    pub(super) labels: BTreeMap<String, String>,
    /// All taints when empty.
    pub(super) tolerations: Vec<Toleration>,
    pub(super) grace_seconds: i64,
    /// Whether it sees the node's processes.
    pub(super) shares_processes: bool,
}

impl NodePod<'_> {
    /// The DaemonSet. A change of `image` waits for what the pods need.
    pub(super) fn child(self, image: &str) -> Child {
        let metadata = self.instance.meta(self.instance.named(&self.component), &self.component);
        let selector = self.instance.selector(&self.component);
        // One hypervisor after the other: a version that does not work stops at the first.
        let rolling = RollingUpdateDaemonSet { max_unavailable: Some(IntOrString::Int(1)), max_surge: None };
        let strategy = DaemonSetUpdateStrategy { type_: Some("RollingUpdate".into()), rolling_update: Some(rolling) };
        let spec = DaemonSetSpec {
            selector,
            update_strategy: Some(strategy),
            template: self.template(),
            ..DaemonSetSpec::default()
        };
        Child::new(&DaemonSet { metadata, spec: Some(spec), ..DaemonSet::default() }).version(image)
    }

    fn template(self) -> PodTemplateSpec {
        let all = || vec![Toleration { operator: Some("Exists".into()), ..Toleration::default() }];
        let tolerations = if self.tolerations.is_empty() { all() } else { self.tolerations };
        let scheduling = Scheduling { node_selector: self.labels, tolerations, ..Scheduling::default() };
        let mut template = Pod {
            instance: self.instance,
            component: &self.component,
            shared: self.shared,
            containers: self.containers,
            init_containers: self.init_containers,
            mounts: self.mounts,
            scheduling: Some(&scheduling),
            service_account: None,
            annotations: BTreeMap::new(),
        }
        .template();
        if let Some(spec) = &mut template.spec {
            spec.host_network = Some(true);
            spec.dns_policy = Some("ClusterFirstWithHostNet".into());
            spec.host_pid = self.shares_processes.then_some(true);
            spec.priority_class_name = Some(PRIORITY.into());
            spec.termination_grace_period_seconds = Some(self.grace_seconds);
            // Its containers say who they are.
            spec.security_context =
                Some(PodSecurityContext { seccomp_profile: Some(seccomp()), ..PodSecurityContext::default() });
            for volume in spec.volumes.iter_mut().flatten().filter(|volume| volume.name == KEYS) {
                let source = volume.empty_dir.get_or_insert_default();
                source.medium = Some("Memory".into());
            }
        }
        template
    }
}

fn seccomp() -> SeccompProfile {
    SeccompProfile { type_: "RuntimeDefault".into(), ..SeccompProfile::default() }
}

/// What libvirt and nova-compute know of their node.
fn about_node(container: &mut Container) {
    let field = |name: &str, path: &str| EnvVar {
        name: name.into(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector { field_path: path.into(), ..ObjectFieldSelector::default() }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    };
    let fields = [("NODE_NAME", "spec.nodeName"), ("NODE_IP", "status.hostIP"), ("POD_UID", "metadata.uid")];
    container.env.get_or_insert_default().extend(fields.map(|(name, path)| field(name, path)));
}

fn asks(command: &[&str], period_seconds: i32, failure_threshold: i32) -> Probe {
    Probe {
        exec: Some(ExecAction { command: Some(command.iter().map(|part| (*part).to_owned()).collect()) }),
        period_seconds: Some(period_seconds),
        timeout_seconds: Some(20),
        failure_threshold: Some(failure_threshold),
        ..Probe::default()
    }
}

/// libvirtd. It makes devices, cgroups and namespaces: less than everything is not enough.
pub(super) fn libvirt(image: &str, size: Option<&Resources>) -> Container {
    let (script, settings) = (format!("{SCRIPTS}/libvirt.py"), format!("{SCRIPTS}/settings.json"));
    let answers = ["virsh", "-q", "-c", "qemu:///system", "version"];
    let mut container = Container {
        security_context: Some(SecurityContext {
            privileged: Some(true),
            run_as_user: Some(0),
            run_as_group: Some(0),
            read_only_root_filesystem: Some(true),
            ..SecurityContext::default()
        }),
        resources: pod::resources(size),
        // Five minutes: a probe of KVM, and one of each QEMU.
        startup_probe: Some(asks(&answers, 5, 60)),
        readiness_probe: Some(asks(&answers, 10, 3)),
        // A libvirtd that hangs is started again; guests do not notice.
        liveness_probe: Some(asks(&answers, 30, 5)),
        // Among the node's processes tini is not the first, and has to ask for the orphans of libvirtd.
        ..pod::container("libvirt", image, &["python3", &script, &settings], &[("TINI_SUBREAPER", "1")])
    };
    about_node(&mut container);
    container
}

/// Copies the guest that shows whether KVM works.
pub(super) fn probe(image: &str) -> Container {
    let copy = pod::container("guest", image, &["cp", "/guest/vmlinuz", "/guest/initramfs.gz", "/copy"], &[]);
    let volume = VolumeMount { name: GUEST.into(), mount_path: "/copy".into(), ..VolumeMount::default() };
    let context = copy.security_context.clone().unwrap_or_default();
    Container {
        volume_mounts: Some(vec![volume]),
        security_context: Some(SecurityContext { run_as_non_root: Some(true), run_as_user: Some(42424), ..context }),
        ..copy
    }
}

/// nova-compute. It is root for the sake of its helpers, which there is no sudo for, and has their capabilities and no others.
pub(super) fn nova_compute(image: &str, size: Option<&Resources>) -> Container {
    let mut container = Container {
        security_context: Some(SecurityContext {
            run_as_user: Some(0),
            run_as_group: Some(0),
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".into()]),
                add: Some(CAPABILITIES.iter().map(|name| (*name).to_owned()).collect()),
            }),
            ..SecurityContext::default()
        }),
        resources: pod::resources(size),
        readiness_probe: Some(asks(&[PYTHON, SCRIPT, "ready", DEAF_SECONDS], 10, 1)),
        liveness_probe: Some(asks(&[PYTHON, SCRIPT, "alive", LOST_SECONDS], 60, 1)),
        ..pod::container("nova-compute", image, &[PYTHON, SCRIPT, "start", CONF], &[])
    };
    about_node(&mut container);
    container
}

/// nova-compute with Nova's fake driver, which needs no privileges.
pub(super) fn fake_compute(image: &str, size: Option<&Resources>) -> Container {
    Container {
        resources: pod::resources(size),
        // Each is a program that starts, and a node may have a hundred of these pods.
        readiness_probe: Some(asks(&[PYTHON, SCRIPT, "ready", DEAF_SECONDS], 30, 1)),
        liveness_probe: Some(asks(&[PYTHON, SCRIPT, "alive", LOST_SECONDS], 60, 1)),
        ..pod::container("nova-compute", image, &[PYTHON, "/etc/nova/fake.py", CONF], &[])
    }
}
