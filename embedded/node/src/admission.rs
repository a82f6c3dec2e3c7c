//! Whether a pod that was given to this node can run here. The scheduler has looked; a pod with `nodeName` has not asked
//! it, and two schedulers do not ask each other.

use std::path::{Component, Path};

use k8s_openapi::api::core::v1::AppArmorProfile;

use crate::cri_config::resources::{Amounts, requests};
use crate::memory::Verdict;
use crate::pod::Pod;

/// Kernel settings that a pod may change without harm to others.
const SAFE_SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

/// A port of the node that a pod wants for itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HostPort {
    /// Nothing for all addresses.
    address: Option<String>,
    protocol: String,
    port: i32,
}

impl HostPort {
    fn clashes(&self, other: &Self) -> bool {
        let same_address = self.address.is_none() || other.address.is_none() || self.address == other.address;
        same_address && (self.port, &self.protocol) == (other.port, &other.protocol)
    }
}

/// The ports of the node that a pod wants.
pub(crate) fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let ports = pod.main_containers().iter().flat_map(|container| container.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let everywhere = |address: &String| address.is_empty() || address == "0.0.0.0";
            Some(HostPort {
                address: port.host_ip.clone().filter(|address| !everywhere(address)),
                protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                port: port.host_port.filter(|port| *port > 0)?,
            })
        })
        .collect()
}

/// What the node has and what others use of it.
pub(crate) struct Room {
    pub(crate) capacity: Amounts,
    pub(crate) used: Amounts,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) pods: usize,
    pub(crate) max_pods: usize,
}

/// Why a pod is not taken, if it is not.
pub(crate) fn refusal(pod: &Pod, room: &Room, unsafe_sysctls: &[String]) -> Option<Verdict> {
    if let Some(sysctl) = forbidden_sysctl(pod, unsafe_sysctls) {
        let message = format!("Pod was rejected: forbidden sysctl: \"{sysctl}\" not allowlisted");
        return Some(Verdict { reason: "SysctlForbidden".to_owned(), message });
    }
    if let Some(profile) = escaping_profile(pod) {
        let message = format!(
            "Pod was rejected: seccompProfile.localhostProfile {profile:?} is not below the node's folder of profiles"
        );
        return Some(Verdict { reason: "UnexpectedAdmissionError".to_owned(), message });
    }
    if let Some(field) = unsupported(pod) {
        let message = format!("Pod was rejected: {field} is not supported by this node; leave it out");
        return Some(Verdict { reason: "UnexpectedAdmissionError".to_owned(), message });
    }
    if host_ports(pod).iter().any(|port| room.ports.iter().any(|taken| taken.clashes(port))) {
        let message = "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested \
                       pod ports";
        return Some(Verdict { reason: "NodePorts".to_owned(), message: message.to_owned() });
    }
    let short = |name: &str, asked: usize, used: usize, capacity: usize| Verdict {
        reason: format!("OutOf{name}"),
        message: format!(
            "Pod was rejected: Node didn't have enough resource: {name}, requested: {asked}, used: {used}, capacity: \
             {capacity}"
        ),
    };
    if room.pods >= room.max_pods {
        return Some(short("pods", 1, room.pods, room.max_pods));
    }
    let asked = requests(pod);
    let amounts = [
        ("cpu", asked.cpu, room.used.cpu, room.capacity.cpu),
        ("memory", asked.memory, room.used.memory, room.capacity.memory),
    ];
    let number = |amount: Option<i64>| usize::try_from(amount.unwrap_or(0)).unwrap_or(0);
    let mut all = amounts.into_iter().map(|(name, asked, used, has)| (name, number(asked), number(used), number(has)));
    let (name, asked, used, has) = all.find(|(_, asked, used, has)| *asked > 0 && used + asked > *has)?;
    Some(short(name, asked, used, has))
}

/// What a pod asks for and this node cannot do. To run it without would be to drop a protection without a word.
fn unsupported(pod: &Pod) -> Option<String> {
    let of_pod = pod.spec().security_context.as_ref();
    if pod.spec().host_users == Some(false) {
        return Some("spec.hostUsers: false".to_owned());
    }
    if of_pod.and_then(|context| context.supplemental_groups_policy.as_deref()) == Some("Strict") {
        return Some("spec.securityContext.supplementalGroupsPolicy: Strict".to_owned());
    }
    let is_confined = |profile: Option<&AppArmorProfile>| profile.is_some_and(|profile| profile.type_ != "Unconfined");
    if is_confined(of_pod.and_then(|context| context.app_armor_profile.as_ref())) {
        return Some("spec.securityContext.appArmorProfile".to_owned());
    }
    pod.containers().find_map(|container| {
        let mut mounts = container.volume_mounts.iter().flatten();
        let profile = container.security_context.as_ref().and_then(|context| context.app_armor_profile.as_ref());
        let field = if container.volume_devices.as_ref().is_some_and(|devices| !devices.is_empty()) {
            "volumeDevices"
        } else if is_confined(profile) {
            "securityContext.appArmorProfile"
        } else if mounts.any(|mount| mount.recursive_read_only.as_deref() == Some("Enabled")) {
            "volumeMounts.recursiveReadOnly: Enabled"
        } else {
            return None;
        };
        Some(format!("{field} of container {}", container.name))
    })
}

/// A seccomp profile that is not one of the node's. The API server refuses it as well, but the file is read as root.
fn escaping_profile(pod: &Pod) -> Option<String> {
    let of_pod = pod.spec().security_context.as_ref().and_then(|context| context.seccomp_profile.as_ref());
    let own = pod.containers().filter_map(|container| container.security_context.as_ref()?.seccomp_profile.as_ref());
    let paths = of_pod.into_iter().chain(own).filter_map(|profile| profile.localhost_profile.clone());
    let is_below = |path: &str| Path::new(path).components().all(|step| matches!(step, Component::Normal(_)));
    paths.into_iter().find(|path| !is_below(path))
}

fn forbidden_sysctl(pod: &Pod, allowed: &[String]) -> Option<String> {
    let context = pod.spec().security_context.as_ref()?;
    let names = context.sysctls.iter().flatten().map(|sysctl| sysctl.name.replace('/', "."));
    let is_allowed = |name: &str| {
        allowed.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == pattern,
        })
    };
    names.into_iter().find(|name| !SAFE_SYSCTLS.contains(&name.as_str()) && !is_allowed(name))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::testing::pod;

    fn refused(spec: Value) -> Option<String> {
        let used = Amounts { cpu: Some(500), memory: None };
        let capacity = Amounts { cpu: Some(2000), memory: Some(1 << 30) };
        let verdict = refusal(&pod(spec), &Room { capacity, used, ports: Vec::new(), pods: 1, max_pods: 2 }, &[])?;
        Some(format!("{}: {}", verdict.reason, verdict.message))
    }

    fn asking(amounts: Value) -> Value {
        json!({"containers": [{"name": "app", "resources": {"requests": amounts}}]})
    }

    #[test]
    fn a_pod_that_does_not_fit_is_refused_as_upstream_words_it() {
        assert_eq!(refused(asking(json!({"cpu": "1500m", "memory": "1Gi"}))), None);
        let wanted = "OutOfcpu: Pod was rejected: Node didn't have enough resource: cpu, requested: 1501, used: 500, \
                      capacity: 2000";
        assert_eq!(refused(asking(json!({"cpu": "1501m"}))).as_deref(), Some(wanted));
        assert!(refused(asking(json!({"memory": "2Gi"}))).unwrap().starts_with("OutOfmemory: "));
        let room = Room { pods: 2, ..empty() };
        assert_eq!(refusal(&pod(json!({})), &room, &[]).unwrap().reason, "OutOfpods");
    }

    fn empty() -> Room {
        Room { capacity: Amounts::default(), used: Amounts::default(), ports: Vec::new(), pods: 0, max_pods: 2 }
    }

    #[test]
    fn a_port_of_the_node_that_another_pod_has_is_refused() {
        let with = |port: Value| pod(json!({"containers": [{"name": "app", "ports": [port]}]}));
        let room = Room { ports: host_ports(&with(json!({"containerPort": 80, "hostPort": 8080}))), ..empty() };
        let reason = |port: Value| refusal(&with(port), &room, &[]).map(|verdict| verdict.reason);
        let clash = Some("NodePorts".to_owned());
        assert_eq!(reason(json!({"containerPort": 81, "hostPort": 8080})), clash);
        assert_eq!(reason(json!({"containerPort": 81, "hostPort": 8080, "hostIP": "127.0.0.1"})), clash);
        assert_eq!(reason(json!({"containerPort": 81, "hostPort": 8080, "protocol": "UDP"})), None);
        assert_eq!(reason(json!({"containerPort": 80, "hostPort": 8081})), None);
        assert_eq!(reason(json!({"containerPort": 80})), None);
    }

    #[test]
    fn a_protection_that_the_node_cannot_give_is_refused_by_name() {
        let container = |more: Value| {
            let mut app = json!({"name": "app"});
            app.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"containers": [app]})
        };
        let cases = [
            (json!({"hostUsers": false}), "spec.hostUsers"),
            (json!({"securityContext": {"supplementalGroupsPolicy": "Strict"}}), "supplementalGroupsPolicy"),
            (json!({"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}), "appArmorProfile"),
            (
                container(json!({"volumeDevices": [{"name": "v", "devicePath": "/dev/v"}]})),
                "volumeDevices of container app",
            ),
            (
                container(json!({"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}})),
                "appArmorProfile of",
            ),
            (
                container(json!({"volumeMounts": [{"name": "v", "mountPath": "/v", "recursiveReadOnly": "Enabled"}]})),
                "volumeMounts.recursiveReadOnly",
            ),
        ];
        for (spec, field) in cases {
            let said = refused(spec).unwrap();
            assert!(said.starts_with("UnexpectedAdmissionError: ") && said.contains(field), "{said}");
        }
        assert_eq!(refused(json!({"hostUsers": true})), None);
        assert_eq!(refused(json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}})), None);
    }

    #[test]
    fn a_profile_that_is_not_the_nodes_is_refused() {
        let of_pod = |path: &str| {
            let profile = json!({"type": "Localhost", "localhostProfile": path});
            refused(json!({"securityContext": {"seccompProfile": profile}}))
        };
        let own = |path: &str| {
            let profile = json!({"type": "Localhost", "localhostProfile": path});
            refused(json!({"containers": [{"name": "app", "securityContext": {"seccompProfile": profile}}]}))
        };
        for path in ["/etc/shadow", "../../etc/shadow", "a/../../b", ".."] {
            for said in [of_pod(path), own(path)] {
                assert!(said.is_some_and(|said| said.contains(path)), "{path}");
            }
        }
        assert_eq!((of_pod("audit/a.json"), own("a.json")), (None, None));
    }

    #[test]
    fn a_dangerous_kernel_setting_is_refused() {
        let with = |name: &str| refused(json!({"securityContext": {"sysctls": [{"name": name, "value": "1"}]}}));
        assert_eq!(with("net.ipv4.ip_unprivileged_port_start"), None);
        assert!(with("kernel.msgmax").unwrap().starts_with("SysctlForbidden: "));
    }

    #[test]
    fn a_kernel_setting_is_taken_where_the_node_allows_it() {
        let with = |name: &str, allowed: &[&str]| {
            let asking = pod(json!({"securityContext": {"sysctls": [{"name": name, "value": "1"}]}}));
            let allowed: Vec<_> = allowed.iter().map(|name| (*name).to_owned()).collect();
            refusal(&asking, &empty(), &allowed).map(|verdict| verdict.reason)
        };
        assert_eq!(with("net.ipv4.ip_forward", &["net.ipv4.ip_forward"]), None);
        assert_eq!(with("net/ipv4/ip_forward", &["net.*"]), None);
        assert_eq!(with("net.ipv4.ip_forward", &["net.ipv4.ip_for"]).as_deref(), Some("SysctlForbidden"));
        assert_eq!(with("kernel.msgmax", &["net.*"]).as_deref(), Some("SysctlForbidden"));
    }
}
