//! The sandbox of a pod: names, network, ports, namespaces, cgroup.

use std::collections::BTreeMap;
use std::path::Path;

use c5c3_cri::v1;
use c5c3_cri::v1::security_profile::ProfileType;
use k8s_openapi::api::core::v1::Container;

use super::{dns, resources, security};
use crate::config::NodeConfig;
use crate::folders::Folders;
use crate::labels;
use crate::pod::Pod;

/// Linux takes no longer host name.
const LONGEST_HOST_NAME: usize = 63;

/// The sandbox as it is to be. `resolv_conf` is the node's own.
pub(crate) fn config(
    pod: &Pod,
    attempt: u32,
    node: &NodeConfig,
    folders: &Folders,
    resolv_conf: &str,
) -> v1::PodSandboxConfig {
    v1::PodSandboxConfig {
        metadata: Some(v1::PodSandboxMetadata {
            name: pod.name().to_owned(),
            uid: pod.uid().to_owned(),
            namespace: pod.namespace().to_owned(),
            attempt,
        }),
        hostname: if pod.is_host_network() { String::new() } else { host_name(pod) },
        log_directory: folders.pod_logs(pod).display().to_string(),
        dns_config: Some(dns::config(pod, node, resolv_conf)),
        port_mappings: ports(pod),
        labels: pod_labels(pod),
        annotations: pod.object().metadata.annotations.clone().unwrap_or_default().into_iter().collect(),
        linux: Some(v1::LinuxPodSandboxConfig {
            cgroup_parent: resources::cgroup(&node.site.cgroup_parent(), pod),
            security_context: Some(security_context(pod, &folders.seccomp())),
            sysctls: sysctls(pod),
            resources: Some(resources::of_pod(pod)),
            ..v1::LinuxPodSandboxConfig::default()
        }),
        ..v1::PodSandboxConfig::default()
    }
}

/// The labels that sandbox and containers are found by, after those of the pod.
pub(crate) fn pod_labels(pod: &Pod) -> BTreeMap<String, String> {
    let own = pod.object().metadata.labels.clone().unwrap_or_default();
    let found_by =
        [(labels::POD_NAME, pod.name()), (labels::POD_NAMESPACE, pod.namespace()), (labels::POD_UID, pod.uid())];
    own.into_iter().chain(found_by.map(|(name, value)| (name.to_owned(), value.to_owned()))).collect()
}

/// `spec.hostname`, or as much of the pod's name as fits.
pub(crate) fn host_name(pod: &Pod) -> String {
    let wanted = pod.spec().hostname.as_deref().filter(|name| !name.is_empty());
    let name = wanted.unwrap_or(pod.name());
    name[..name.len().min(LONGEST_HOST_NAME)].trim_end_matches(['-', '.']).to_owned()
}

/// The full name of a pod with a subdomain.
pub(crate) fn full_name(pod: &Pod, domain: &str) -> Option<String> {
    let subdomain = pod.spec().subdomain.as_deref().filter(|name| !name.is_empty())?;
    Some(format!("{}.{subdomain}.{}.svc.{domain}", host_name(pod), pod.namespace()))
}

fn ports(pod: &Pod) -> Vec<v1::PortMapping> {
    // In the node's network a port is the node's already.
    let containers = pod.containers().filter(|_| !pod.is_host_network());
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    let mapped = ports.filter_map(|port| {
        let host_port = port.host_port.filter(|port| *port > 0)?;
        let protocol = match port.protocol.as_deref() {
            Some("UDP") => v1::Protocol::Udp,
            Some("SCTP") => v1::Protocol::Sctp,
            _ => v1::Protocol::Tcp,
        };
        let host_ip = port.host_ip.clone().unwrap_or_default();
        Some(v1::PortMapping { protocol: protocol as i32, container_port: port.container_port, host_port, host_ip })
    });
    mapped.collect()
}

fn security_context(pod: &Pod, seccomp: &Path) -> v1::LinuxSandboxSecurityContext {
    let context = pod.spec().security_context.clone().unwrap_or_default();
    let is_privileged = |container: &Container| {
        container.security_context.as_ref().is_some_and(|context| context.privileged == Some(true))
    };
    // The runtime refuses a group without a user.
    let group = context.run_as_group.filter(|_| context.run_as_user.is_some());
    v1::LinuxSandboxSecurityContext {
        namespace_options: Some(security::namespaces(pod)),
        run_as_user: context.run_as_user.map(|value| v1::Int64Value { value }),
        run_as_group: group.map(|value| v1::Int64Value { value }),
        supplemental_groups: security::groups(pod),
        privileged: pod.every_container().any(is_privileged),
        seccomp: Some(security::seccomp(context.seccomp_profile.as_ref(), seccomp, ProfileType::RuntimeDefault)),
        ..v1::LinuxSandboxSecurityContext::default()
    }
}

fn sysctls(pod: &Pod) -> BTreeMap<String, String> {
    let sysctls = pod.spec().security_context.as_ref().and_then(|context| context.sysctls.clone());
    sysctls.into_iter().flatten().map(|sysctl| (sysctl.name.replace('/', "."), sysctl.value)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pod::testing::pod;

    fn made(spec: serde_json::Value) -> v1::PodSandboxConfig {
        let node = crate::config::testing::config();
        config(&pod(spec), 2, &node, &Folders::new(node.site.data()), "nameserver 192.0.2.1\n")
    }

    #[test]
    fn a_sandbox_is_found_again_by_its_labels_and_logs_to_its_own_folder() {
        let sandbox = made(json!({}));
        assert_eq!(sandbox.labels[labels::POD_UID], "u-1");
        assert_eq!(sandbox.log_directory, "/data/n1/logs/shop_web_u-1");
        assert_eq!(sandbox.metadata.unwrap().attempt, 2);
        assert_eq!(sandbox.hostname, "web");
        assert_eq!(sandbox.linux.unwrap().cgroup_parent, "/c5c3-test/n1/besteffort/podu-1");
    }

    #[test]
    fn host_ports_are_mapped_unless_the_pod_is_in_the_hosts_network() {
        let ports = json!([{"containerPort": 80, "protocol": "TCP"},
            {"containerPort": 53, "hostPort": 5353, "protocol": "UDP"}]);
        let spec = json!({"containers": [{"name": "app", "ports": ports}]});
        let mapped = made(spec.clone()).port_mappings;
        assert_eq!(mapped.iter().map(|port| (port.host_port, port.protocol)).collect::<Vec<_>>(), [(5353, 1)]);
        let mut on_host = spec;
        on_host["hostNetwork"] = true.into();
        assert_eq!(made(on_host.clone()).port_mappings, []);
        assert_eq!(made(on_host).hostname, "");
    }

    #[test]
    fn names_of_pods() {
        let named = pod(json!({"hostname": "db-0", "subdomain": "db"}));
        assert_eq!(full_name(&named, "cluster.local").as_deref(), Some("db-0.db.shop.svc.cluster.local"));
        assert_eq!(full_name(&pod(json!({})), "cluster.local"), None);
    }

    #[test]
    fn sysctls_and_namespaces_are_passed_on() {
        let linux = made(json!({"hostPID": true, "securityContext": {
            "sysctls": [{"name": "net/ipv4/ip_unprivileged_port_start", "value": "0"}]}}));
        let linux = linux.linux.unwrap();
        assert_eq!(linux.sysctls["net.ipv4.ip_unprivileged_port_start"], "0");
        let namespaces = linux.security_context.unwrap().namespace_options.unwrap();
        assert_eq!(namespaces.pid, v1::NamespaceMode::Node as i32);
        assert_eq!(namespaces.network, v1::NamespaceMode::Pod as i32);
    }
}
