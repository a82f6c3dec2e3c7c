//! Requests and limits as cgroup settings, and the cgroup that a pod's containers are in.

use std::collections::BTreeMap;

use c5c3_cri::v1;
use k8s_openapi::api::core::v1::{Container, ResourceRequirements};

use crate::pod::{Pod, Role, milli, units};

/// The period that quotas refer to, in microseconds.
const PERIOD: i64 = 100_000;
const SMALLEST_QUOTA: i64 = 1_000;
const SMALLEST_SHARES: i64 = 2;
const MOST_SHARES: i64 = 262_144;

/// The cgroup of a pod: by quality of service, so that each class can be weighed as a whole.
pub(crate) fn cgroup(node: &str, pod: &Pod) -> String {
    match pod.qos_class() {
        "Guaranteed" => format!("{node}/pod{}", pod.uid()),
        class => format!("{node}/{}/pod{}", class.to_lowercase(), pod.uid()),
    }
}

/// The settings of one container. `memory` is what the node has in all.
pub(crate) fn of_container(pod: &Pod, container: &Container, memory: i64) -> v1::LinuxContainerResources {
    let (requests, limits) = amounts(container.resources.as_ref());
    v1::LinuxContainerResources {
        oom_score_adj: oom_score(pod, requests.memory.unwrap_or(0), memory),
        ..settings(&requests, &limits)
    }
}

/// The settings of a pod as a whole: a limit only where every container has one.
pub(crate) fn of_pod(pod: &Pod) -> v1::LinuxContainerResources {
    let (requests, limits) = (total(pod, |(requests, _)| requests), total(pod, |(_, limits)| limits));
    let all = |has: fn(&Amounts) -> bool| pod.containers().all(|one| has(&amounts(one.resources.as_ref()).1));
    let limits = Amounts {
        cpu: limits.cpu.filter(|_| all(|limits| limits.cpu.is_some())),
        memory: limits.memory.filter(|_| all(|limits| limits.memory.is_some())),
    };
    settings(&requests, &limits)
}

/// An amount of each of the two that cgroups limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    /// In thousandths of a core.
    pub(crate) cpu: Option<i64>,
    /// In bytes.
    pub(crate) memory: Option<i64>,
}

impl Amounts {
    pub(crate) fn combine(self, other: Self, how: fn(i64, i64) -> i64) -> Self {
        let either = |a: Option<i64>, b: Option<i64>| match (a, b) {
            (Some(a), Some(b)) => Some(how(a, b)),
            (a, b) => a.or(b),
        };
        Self { cpu: either(self.cpu, other.cpu), memory: either(self.memory, other.memory) }
    }
}

/// What a pod asks for: the sum of its containers and sidecars, or what initializing takes if that is more; and its
/// overhead.
pub(crate) fn requests(pod: &Pod) -> Amounts {
    let overhead = pod.spec().overhead.as_ref();
    let get = |name: &str| overhead.and_then(|overhead| overhead.get(name));
    let overhead = Amounts { cpu: milli(get("cpu")), memory: units(get("memory")) };
    total(pod, |(requests, _)| requests).combine(overhead, i64::saturating_add)
}

fn total(pod: &Pod, which: fn((Amounts, Amounts)) -> Amounts) -> Amounts {
    let of = |container: &Container| which(amounts(container.resources.as_ref()));
    let (mut sidecars, mut init) = (Amounts::default(), Amounts::default());
    for container in pod.init_containers() {
        if pod.role(container) == Role::Sidecar {
            sidecars = sidecars.combine(of(container), i64::saturating_add);
            init = init.combine(sidecars, i64::max);
        } else {
            init = init.combine(sidecars.combine(of(container), i64::saturating_add), i64::max);
        }
    }
    let main = pod.main_containers().iter().map(of);
    main.fold(sidecars, |sum, one| sum.combine(one, i64::saturating_add)).combine(init, i64::max)
}

/// Requests and limits; a request that is not set is the limit.
pub(crate) fn amounts(resources: Option<&ResourceRequirements>) -> (Amounts, Amounts) {
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    let limits = resources.and_then(|resources| resources.limits.as_ref());
    let get = |list: Option<&BTreeMap<String, _>>| Amounts {
        cpu: milli(list.and_then(|list| list.get("cpu"))),
        memory: units(list.and_then(|list| list.get("memory"))).filter(|bytes| *bytes > 0),
    };
    let (requests, limits) = (get(requests), get(limits));
    (requests.combine(limits, |request, _| request), limits)
}

fn settings(requests: &Amounts, limits: &Amounts) -> v1::LinuxContainerResources {
    let quota = limits.cpu.filter(|milli| *milli > 0).map_or(0, |milli| (milli * PERIOD / 1000).max(SMALLEST_QUOTA));
    v1::LinuxContainerResources {
        cpu_period: PERIOD,
        cpu_quota: quota,
        cpu_shares: (requests.cpu.unwrap_or(0) * 1024 / 1000).clamp(SMALLEST_SHARES, MOST_SHARES),
        memory_limit_in_bytes: limits.memory.unwrap_or(0),
        ..v1::LinuxContainerResources::default()
    }
}

/// Who is killed first when memory runs out: those that asked for least of it.
fn oom_score(pod: &Pod, request: i64, memory: i64) -> i64 {
    match pod.qos_class() {
        "Guaranteed" => -997,
        "Burstable" => {
            let share = if memory > 0 { i128::from(request) * 1000 / i128::from(memory) } else { 0 };
            // Between the guaranteed and those that asked for nothing.
            (1000 - i64::try_from(share).unwrap_or(1000)).clamp(3, 999)
        }
        _ => 1000,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::testing::{pod, pod_with};

    fn container(resources: Value) -> Value {
        json!({"name": "app", "image": "a", "resources": resources})
    }

    fn made(resources: Value, class: &str) -> v1::LinuxContainerResources {
        let pod = pod_with(json!({"containers": [container(resources)]}), json!({"qosClass": class}));
        of_container(&pod, &pod.main_containers()[0], 8 << 30)
    }

    #[test]
    fn requests_become_shares_and_limits_quotas() {
        let requests = json!({"cpu": "250m", "memory": "1Gi"});
        let set = made(json!({"requests": requests, "limits": {"cpu": "1500m", "memory": "2Gi"}}), "Burstable");
        assert_eq!((set.cpu_shares, set.cpu_quota, set.cpu_period), (256, 150_000, 100_000));
        assert_eq!((set.memory_limit_in_bytes, set.oom_score_adj), (2 << 30, 875));
        let none = made(json!({}), "BestEffort");
        assert_eq!((none.cpu_shares, none.cpu_quota, none.memory_limit_in_bytes, none.oom_score_adj), (2, 0, 0, 1000));
        assert_eq!(made(json!({"limits": {"cpu": "5m"}}), "Guaranteed").cpu_quota, 1000);
        assert_eq!(made(json!({"limits": {"cpu": "1"}}), "Guaranteed").oom_score_adj, -997);
    }

    #[test]
    fn a_pod_asks_for_its_containers_or_for_initializing_if_that_is_more() {
        let with = |name: &str, cpu: &str, policy: Option<&str>| json!({"name": name, "image": "a", "restartPolicy": policy, "resources": {"requests": {"cpu": cpu}}});
        let asks = |inits: Vec<Value>| {
            let main = with("app", "1", None);
            requests(&pod(json!({"initContainers": inits, "containers": [main], "overhead": {"cpu": "10m"}}))).cpu
        };
        assert_eq!(asks(vec![]), Some(1010));
        assert_eq!(asks(vec![with("init", "3", None)]), Some(3010));
        assert_eq!(asks(vec![with("proxy", "500m", Some("Always"))]), Some(1510));
        assert_eq!(asks(vec![with("proxy", "500m", Some("Always")), with("init", "2", None)]), Some(2510));
    }

    #[test]
    fn a_pod_is_limited_where_all_its_containers_are() {
        let limits = |memory: Value| {
            let limited = container(json!({"limits": {"cpu": "1", "memory": "1Gi"}}));
            let pod = pod(json!({"containers": [limited, {"name": "b", "resources": {"limits": memory}}]}));
            let set = of_pod(&pod);
            (set.cpu_quota, set.memory_limit_in_bytes)
        };
        assert_eq!(limits(json!({"memory": "1Gi"})), (0, 2 << 30));
        assert_eq!(limits(json!({"cpu": "500m"})), (150_000, 0));
    }

    #[test]
    fn each_class_has_its_cgroup() {
        let of = |class| cgroup("/c5c3/test/n1", &pod_with(json!({}), json!({"qosClass": class})));
        assert_eq!(of("Guaranteed"), "/c5c3/test/n1/podu-1");
        assert_eq!(of("Burstable"), "/c5c3/test/n1/burstable/podu-1");
    }
}
