//! The agent on hypervisors that leads instances to Nova's metadata: in a network namespace for each network a proxy, which says
//! on whose behalf it asks.

use std::collections::BTreeMap;

use c5c3_api::openstack::Neutron;
use c5c3_api::ovn::NodeDaemon;
use c5c3_kit::config::ConfigFiles;
use c5c3_kit::ini::{Ini, IniError, OsloValue};
use c5c3_kit::{Child, Ref, Step};
use c5c3_service::instance::host;
use c5c3_service::pod::{Mount, Pod, container, resources};
use c5c3_service::service_plan::Resolved;
use c5c3_service::{Instance, ServicePlan};
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::{
    Container, ExecAction, PodSecurityContext, PodTemplateSpec, Probe, Secret, SecurityContext, Toleration,
};
use kube::ResourceExt;
use secrecy::SecretString;

use crate::config::{FOLDER, STATE};
use crate::{LAUNCH, Networking, PYTHON, ovn};

/// The condition that says whether the agents run.
pub(crate) const CONDITION: &str = "MetadataAgentReady";

/// The agent's component, and what its objects are called.
const AGENT: &str = "ovn-metadata";

/// What Nova's metadata and the agents know, and no instance: made by Nova's operator.
const SECRET: &str = "nova-metadata-proxy";
const KEY: &str = "shared-secret";

/// Where Nova's metadata is.
const SERVICE: &str = "nova-metadata";
const PORT: i32 = 8775;

/// Where Open vSwitch of the node listens.
const SWITCH: &str = "/run/openvswitch";
/// Where network namespaces of the node are.
const NAMESPACES: &str = "/run/netns";

/// What the kubelet evicts last: its proxies end with it, and instances of the node have no metadata then.
const PRIORITY: &str = "system-node-critical";

/// The file of the agent. It has no account of the database or the message broker: hypervisors need neither.
const FILE: &str = "agent.conf";

/// Options of `[DEFAULT]` that are the agent's, which users may set.
const OPTIONS: &[&str] = &[
    "debug",
    "metadata_workers",
    "metadata_backlog",
    "nova_metadata_host",
    "nova_metadata_port",
    "nova_metadata_protocol",
    "nova_metadata_insecure",
];

/// Sections of the agent, which hold no account either.
const SECTIONS: &[&str] = &["agent", "metadata_rate_limiting", "ovs"];

/// What has to be read.
pub(crate) fn needs(neutron: &Neutron) -> Option<Ref> {
    neutron.spec.metadata_agent.as_ref()?;
    Some(secret(&neutron.namespace().unwrap_or_default()))
}

fn secret(namespace: &str) -> Ref {
    Ref::namespaced::<Secret>(namespace, SECRET)
}

/// The agent on every hypervisor.
pub(crate) fn agent(plan: &ServicePlan<'_, Networking>) -> Step {
    let step = Step::new(CONDITION).reasons("DaemonSetAvailable", "DaemonSetProgressing");
    let Some(daemon) = &plan.parts.object.spec.metadata_agent else {
        return step.node("metadata-agent", []).childless().done("no agent is asked for");
    };
    let step = step.node("metadata-agent", ["api"]).done("the agent runs on every hypervisor");
    let Ok(resolved) = plan.resolved else { return step.undecided([]) };
    let shared = match plan.inputs.secret(&secret(&plan.parts.instance.namespace), KEY) {
        Ok(shared) => shared,
        Err(wait) => {
            let wait = wait.because("Nova knows by it that a question for metadata comes from an agent");
            let wait = wait.look_at("enable Nova, or remove spec.metadataAgent");
            return step.undecided([wait.with_reason("WaitingForNova")]);
        }
    };
    let conf = match conf(plan, resolved, shared) {
        Ok(conf) => conf,
        Err(error) => {
            let wait =
                c5c3_kit::Wait::on(&secret(&plan.parts.instance.namespace)).condition("can be written to a file");
            return step.undecided([wait.now(format!("cannot be written to a file: {error}")).failed("Malformed")]);
        }
    };
    let instance = &plan.parts.instance;
    let mut files = ConfigFiles::new(&instance.namespace, instance.named(AGENT))
        .file(FILE, conf.render())
        .file("launch.py", include_str!("launch.py").into());
    for (name, content) in ovn::certificates(&resolved.backing) {
        files = files.file(name, content);
    }
    let metadata = instance.meta(instance.named(AGENT), AGENT);
    let set = DaemonSet {
        metadata,
        spec: Some(DaemonSetSpec {
            selector: instance.selector(AGENT),
            template: template(plan, daemon, instance, &files),
            ..DaemonSetSpec::default()
        }),
        ..DaemonSet::default()
    };
    step.child(files.child()).child(Child::new(&set).version(plan.parts.image.clone()))
}

fn conf(plan: &ServicePlan<'_, Networking>, resolved: &Resolved, shared: SecretString) -> Result<Ini, IniError> {
    let mut conf = resolved.conf.only(SECTIONS);
    conf.set("DEFAULT", "state_path", STATE)?;
    conf.set("DEFAULT", "use_stderr", true)?;
    conf.set("DEFAULT", "nova_metadata_host", host(SERVICE, &plan.parts.instance.namespace))?;
    conf.set("DEFAULT", "nova_metadata_port", PORT)?;
    conf.set("DEFAULT", "metadata_proxy_shared_secret", shared)?;
    // Each is a process that holds what the agent does.
    conf.set("DEFAULT", "metadata_workers", 1)?;
    conf.set("oslo_concurrency", "lock_path", format!("{STATE}/lock"))?;
    conf.set("ovs", "ovsdb_connection", format!("unix:{SWITCH}/db.sock"))?;
    // The container has what sudo would give.
    conf.set("agent", "root_helper", "env")?;
    let helper = format!("/opt/neutron/bin/privsep-helper --config-file {FOLDER}/{FILE}");
    for section in ["privsep", "privsep_link", "privsep_namespace", "privsep_ovs_vsctl", "privsep_conntrack"] {
        conf.set(section, "helper_command", helper.as_str())?;
    }
    ovn::southbound(&resolved.backing, &mut conf)?;
    let additions = plan.parts.additions();
    for option in OPTIONS {
        if let Some(value) = additions.get("DEFAULT", option) {
            conf.set("DEFAULT", option, OsloValue::interpolated(value))?;
        }
    }
    Ok(conf)
}

fn template(
    plan: &ServicePlan<'_, Networking>,
    daemon: &NodeDaemon,
    instance: &Instance,
    files: &ConfigFiles,
) -> PodTemplateSpec {
    let command = [PYTHON, LAUNCH, "neutron-ovn-metadata-agent", &format!("--config-file={FOLDER}/{FILE}")];
    let socket = ["test", "-S", &format!("{STATE}/metadata_proxy")].map(ToOwned::to_owned);
    let container = Container {
        resources: resources(daemon.resources.as_ref()),
        readiness_probe: Some(Probe {
            exec: Some(ExecAction { command: Some(socket.into()) }),
            period_seconds: Some(10),
            ..Probe::default()
        }),
        // It makes network namespaces that the node sees, which Kubernetes allows privileged containers alone.
        security_context: Some(SecurityContext {
            privileged: Some(true),
            run_as_user: Some(0),
            read_only_root_filesystem: Some(true),
            ..SecurityContext::default()
        }),
        ..container(AGENT, &plan.parts.image, &command, &[])
    };
    let pod = Pod {
        instance,
        component: AGENT,
        shared: &plan.parts.shared,
        containers: vec![container],
        init_containers: Vec::new(),
        mounts: vec![
            Mount::secret("config", &files.name(), FOLDER),
            Mount::scratch("state", STATE, "64Mi"),
            Mount::host_path("switch", SWITCH, SWITCH),
            Mount::host_path("namespaces", NAMESPACES, NAMESPACES).bidirectional(),
        ],
        scheduling: None,
        service_account: None,
        annotations: BTreeMap::new(),
    };
    let mut template = pod.template();
    if let Some(spec) = &mut template.spec {
        spec.host_network = Some(true);
        // Names of Services are the cluster's.
        spec.dns_policy = Some("ClusterFirstWithHostNet".into());
        spec.node_selector = Some(daemon.node_selector.clone()).filter(|labels| !labels.is_empty());
        // Instances need their metadata also on a node that takes no other pods.
        let all = || vec![Toleration { operator: Some("Exists".into()), ..Toleration::default() }];
        spec.tolerations = Some(if daemon.tolerations.is_empty() { all() } else { daemon.tolerations.clone() });
        spec.priority_class_name = Some(PRIORITY.into());
        spec.security_context = Some(PodSecurityContext { run_as_user: Some(0), ..PodSecurityContext::default() });
    }
    template
}
