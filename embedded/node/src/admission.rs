//! Whether a pod that was given to this node can run here. The scheduler has looked; a pod with `nodeName` has not asked
//! it, and two schedulers do not ask each other.

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

/// What the node has and what others use of it.
pub(crate) struct Room {
    pub(crate) capacity: Amounts,
    pub(crate) used: Amounts,
    pub(crate) pods: usize,
    pub(crate) max_pods: usize,
}

/// Why a pod is not taken, if it is not.
pub(crate) fn refusal(pod: &Pod, room: &Room) -> Option<Verdict> {
    if let Some(sysctl) = forbidden_sysctl(pod) {
        let message = format!("Pod was rejected: forbidden sysctl: \"{sysctl}\" not allowlisted");
        return Some(Verdict { reason: "SysctlForbidden".to_owned(), message });
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

fn forbidden_sysctl(pod: &Pod) -> Option<String> {
    let context = pod.spec().security_context.as_ref()?;
    let names = context.sysctls.iter().flatten().map(|sysctl| sysctl.name.replace('/', "."));
    names.into_iter().find(|name| !SAFE_SYSCTLS.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::testing::pod;

    fn refused(spec: Value) -> Option<String> {
        let used = Amounts { cpu: Some(500), memory: None };
        let capacity = Amounts { cpu: Some(2000), memory: Some(1 << 30) };
        let verdict = refusal(&pod(spec), &Room { capacity, used, pods: 1, max_pods: 2 })?;
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
        let room = Room { capacity: Amounts::default(), used: Amounts::default(), pods: 2, max_pods: 2 };
        assert_eq!(refusal(&pod(json!({})), &room).unwrap().reason, "OutOfpods");
    }

    #[test]
    fn a_dangerous_kernel_setting_is_refused() {
        let with = |name: &str| refused(json!({"securityContext": {"sysctls": [{"name": name, "value": "1"}]}}));
        assert_eq!(with("net.ipv4.ip_unprivileged_port_start"), None);
        assert!(with("kernel.msgmax").unwrap().starts_with("SysctlForbidden: "));
    }
}
