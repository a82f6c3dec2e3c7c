//! The Node object of a machine. Nothing here talks to anything.

use std::collections::BTreeMap;

use c5c3_cri::v1;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    DaemonEndpoint, Node as NodeObject, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec, NodeStatus,
    NodeSystemInfo, Taint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::config::NodeConfig;
use crate::devices;
use crate::machine::{Machine, Pressure};

/// What the node says to be: the version of the API that it was made for.
const VERSION: &str = "v1.33.0";

/// Whether the runtime can run pods.
pub(crate) struct Readiness {
    is_ready: bool,
    reason: &'static str,
    message: String,
}

impl Readiness {
    pub(crate) fn no(reason: &'static str, message: String) -> Self {
        Self { is_ready: false, reason, message }
    }
}

/// What the runtime's conditions say together.
pub(crate) fn readiness(status: v1::RuntimeStatus) -> Readiness {
    let bad: Vec<String> = status
        .conditions
        .into_iter()
        .filter(|condition| !condition.status)
        .map(|bad| format!("{} not ready: reason:{} message:{}", bad.r#type, bad.reason, bad.message))
        .collect();
    if bad.is_empty() {
        let message = "kubelet is posting ready status".to_owned();
        return Readiness { is_ready: true, reason: "KubeletReady", message };
    }
    Readiness::no("KubeletNotReady", bad.join(", "))
}

/// The object as the node registers it.
pub(crate) fn desired(config: &NodeConfig, machine: &Machine) -> NodeObject {
    let architecture = architecture();
    let mut labels = BTreeMap::from([
        ("kubernetes.io/hostname".to_owned(), config.name().to_owned()),
        ("kubernetes.io/os".to_owned(), "linux".to_owned()),
        ("kubernetes.io/arch".to_owned(), architecture.to_owned()),
        ("topology.kubernetes.io/zone".to_owned(), config.zone.clone()),
    ]);
    labels.extend(config.labels.clone());
    let cidr = Some(config.pod_cidr.clone()).filter(|cidr| !cidr.is_empty());
    let mut node = NodeObject {
        spec: Some(NodeSpec {
            pod_cidrs: cidr.clone().map(|cidr| vec![cidr]),
            pod_cidr: cidr,
            taints: Some(config.taints.iter().cloned().chain([not_ready()]).collect()),
            ..NodeSpec::default()
        }),
        status: Some(status(config, machine, "")),
        ..NodeObject::default()
    };
    node.metadata.name = Some(config.name().to_owned());
    node.metadata.labels = Some(labels);
    node
}

/// No pod is to come before the node has said that it is ready. Whoever looks after nodes takes it away then.
fn not_ready() -> Taint {
    let (key, effect) = ("node.kubernetes.io/not-ready".to_owned(), "NoSchedule".to_owned());
    Taint { key, effect, ..Taint::default() }
}

/// The status without conditions and images.
pub(crate) fn status(config: &NodeConfig, machine: &Machine, containerd: &str) -> NodeStatus {
    let amounts = |memory: i64| {
        let mut list = BTreeMap::from([
            ("cpu", format!("{}m", machine.milli_cpu)),
            ("memory", format!("{}Ki", memory / 1024)),
            ("ephemeral-storage", format!("{}Ki", machine.storage / 1024)),
            ("pods", config.max_pods.to_string()),
        ]);
        let pages = machine.huge_pages.iter();
        list.extend(pages.map(|(resource, bytes)| (resource.as_str(), format!("{}Ki", bytes / 1024))));
        list.extend(machine.devices.iter().map(|resource| (*resource, devices::EACH.to_owned())));
        Some(list.into_iter().map(|(name, amount)| (name.to_owned(), Quantity(amount))).collect())
    };
    let address = |kind: &str, address: String| NodeAddress { type_: kind.to_owned(), address };
    NodeStatus {
        capacity: amounts(machine.memory),
        allocatable: amounts(machine.allocatable_memory()),
        addresses: Some(vec![
            address("InternalIP", config.address.to_string()),
            address("Hostname", config.name().to_owned()),
        ]),
        daemon_endpoints: Some(NodeDaemonEndpoints {
            kubelet_endpoint: Some(DaemonEndpoint { port: i32::from(config.port) }),
        }),
        node_info: Some(NodeSystemInfo {
            machine_id: machine.id.clone(),
            system_uuid: machine.id.clone(),
            boot_id: machine.boot_id.clone(),
            kernel_version: machine.kernel.clone(),
            os_image: machine.os_image.clone(),
            container_runtime_version: format!("containerd://{}", containerd.trim_start_matches('v')),
            kubelet_version: VERSION.to_owned(),
            kube_proxy_version: String::new(),
            operating_system: "linux".to_owned(),
            architecture: architecture().to_owned(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}

/// As Go names it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The node's conditions, which keep the time of their last change.
pub(crate) fn conditions(
    readiness: &Readiness,
    pressure: Pressure,
    old: &[NodeCondition],
    now: Timestamp,
) -> Vec<NodeCondition> {
    let shortage = |is_short: bool, of: &str, short: (&'static str, &str), fine: (&'static str, &str)| {
        let (reason, message) = if is_short { short } else { fine };
        (of.to_owned(), is_short, reason, message.to_owned())
    };
    let answers = [
        shortage(
            pressure.memory,
            "MemoryPressure",
            ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
            ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ),
        shortage(
            pressure.disk,
            "DiskPressure",
            ("KubeletHasDiskPressure", "kubelet has disk pressure"),
            ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ),
        shortage(
            pressure.processes,
            "PIDPressure",
            ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
            ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ),
        ("Ready".to_owned(), readiness.is_ready, readiness.reason, readiness.message.clone()),
    ];
    let condition = |(type_, is_true, reason, message): (String, bool, &str, String)| {
        let status = if is_true { "True" } else { "False" };
        let same = old.iter().find(|old| old.type_ == type_ && old.status == status);
        NodeCondition {
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_heartbeat_time: Some(Time(now)),
            last_transition_time: same.and_then(|same| same.last_transition_time.clone()).or(Some(Time(now))),
            type_,
        }
    };
    answers.map(condition).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Capacity;
    use crate::config::testing::config;
    use crate::observe::testing::at;

    #[test]
    fn a_node_has_the_labels_and_amounts_that_schedulers_read() {
        let mut config = config();
        config.labels.insert("role".to_owned(), "till".to_owned());
        config.pod_cidr = "10.124.1.0/24".to_owned();
        let most = Capacity { milli_cpu: Some(1500), memory: Some(200 << 20), ..Capacity::default() };
        let mut machine = Machine::read("/".as_ref(), most);
        machine.huge_pages = [("hugepages-2Mi".to_owned(), 50 << 20)].into();
        let node = desired(&config, &machine);
        let labels = node.metadata.labels.unwrap();
        for name in ["kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "role"] {
            assert!(labels.contains_key(name), "{name}");
        }
        let status = node.status.unwrap();
        let (capacity, allocatable) = (status.capacity.unwrap(), status.allocatable.unwrap());
        assert_eq!((capacity["cpu"].0.as_str(), capacity["memory"].0.as_str()), ("1500m", "204800Ki"));
        assert_eq!((allocatable["memory"].0.as_str(), allocatable["pods"].0.as_str()), ("51200Ki", "110"));
        assert_eq!(
            (capacity["hugepages-2Mi"].0.as_str(), allocatable["hugepages-2Mi"].0.as_str()),
            ("51200Ki", "51200Ki")
        );
        let spec = node.spec.unwrap();
        assert_eq!(spec.pod_cidrs.unwrap(), ["10.124.1.0/24"]);
        assert_eq!(spec.taints.unwrap()[0].key, "node.kubernetes.io/not-ready", "it is not ready when it registers");
        assert_eq!(status.daemon_endpoints.unwrap().kubelet_endpoint.unwrap().port, 10250);
    }

    #[test]
    fn conditions_keep_their_time_until_they_change() {
        let condition = |r#type: &str, status: bool| v1::RuntimeCondition {
            r#type: r#type.to_owned(),
            status,
            reason: "NetworkPluginNotReady".to_owned(),
            message: "cni".to_owned(),
        };
        let status = |network| v1::RuntimeStatus {
            conditions: vec![condition("RuntimeReady", true), condition("NetworkReady", network)],
        };
        let first = conditions(&readiness(status(true)), Pressure::default(), &[], at(0));
        let again = conditions(&readiness(status(true)), Pressure::default(), &first, at(9));
        let ready = again.iter().find(|condition| condition.type_ == "Ready").unwrap();
        assert_eq!((ready.status.as_str(), &ready.last_transition_time), ("True", &Some(Time(at(0)))));
        let broken = conditions(&readiness(status(false)), Pressure::default(), &again, at(10));
        let ready = broken.iter().find(|condition| condition.type_ == "Ready").unwrap();
        assert_eq!((ready.status.as_str(), &ready.last_transition_time), ("False", &Some(Time(at(10)))));
        assert!(ready.message.as_ref().unwrap().contains("NetworkPluginNotReady"));
    }
}
