//! What objects use of a ResourceQuota. Pure: who counts them together and refuses more is elsewhere.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::qos;
use crate::quantity::Quantity;
use crate::read::{entries_at, list_at, str_at};
use crate::resource::Resource;
use crate::selector::meets;
use crate::service::has_node_ports;

/// Amounts by the names that quotas know them by.
pub type Amounts = BTreeMap<String, Quantity>;

/// What a container needs a quota of by another name, too: `cpu` is `requests.cpu`.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// What an object uses.
pub fn usage(resource: &Resource, object: &Value) -> Amounts {
    let mut used = Amounts::new();
    let mut one = |name: String| add(&mut used, name, Quantity::whole(1));
    one(format!("count/{}", resource.qualified_plural()));
    match resource.built_in_kind() {
        (
            "",
            "ConfigMap" | "ReplicationController" | "ResourceQuota" | "Secret" | "Service" | "PersistentVolumeClaim",
        ) => {
            one(resource.plural.clone());
        }
        ("", "Pod") if !is_over(object) => one("pods".to_owned()),
        _ => {}
    }
    match resource.built_in_kind() {
        ("", "Pod") if !is_over(object) => pod(&object["spec"], &mut used),
        ("", "Service") => service(&object["spec"], &mut used),
        ("", "PersistentVolumeClaim") => claim(object, &mut used),
        _ => {}
    }
    used
}

/// Adds to an amount.
pub fn add(amounts: &mut Amounts, name: String, amount: Quantity) {
    let sum = amounts.get(&name).map_or(amount, |before| before.plus(amount));
    amounts.insert(name, sum);
}

/// The amounts in a map of an object: `spec.hard`.
pub fn amounts(of: &Value) -> Amounts {
    let entries = of.as_object().into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), Quantity::from_json(value)?))).collect()
}

fn is_over(pod: &Value) -> bool {
    matches!(str_at(&pod["status"], "phase"), "Succeeded" | "Failed")
}

fn service(spec: &Value, used: &mut Amounts) {
    let ports = i64::try_from(list_at(spec, "ports").len()).unwrap_or(i64::MAX);
    let balanced = i64::from(str_at(spec, "type") == "LoadBalancer");
    add(used, "services.nodeports".to_owned(), Quantity::whole(if has_node_ports(spec) { ports } else { 0 }));
    add(used, "services.loadbalancers".to_owned(), Quantity::whole(balanced));
}

fn claim(claim: &Value, used: &mut Amounts) {
    let spec = &claim["spec"];
    let beta = str_at(&claim["metadata"]["annotations"], "volume.beta.kubernetes.io/storage-class");
    let class = if beta.is_empty() { str_at(spec, "storageClassName") } else { beta };
    let storage = spec["resources"]["requests"].get("storage").and_then(Quantity::from_json);
    let storage = storage.unwrap_or(Quantity::whole(0));
    add(used, "requests.storage".to_owned(), storage);
    if !class.is_empty() {
        let of_class = |name: &str| format!("{class}.storageclass.storage.k8s.io/{name}");
        add(used, of_class("requests.storage"), storage);
        add(used, of_class("persistentvolumeclaims"), Quantity::whole(1));
    }
}

/// What the containers of a pod need together; those that run before the others need it at other times.
fn pod(spec: &Value, used: &mut Amounts) {
    for (kind, prefix) in [("requests", "requests."), ("limits", "limits.")] {
        let mut sum = Amounts::new();
        for container in list_at(spec, "containers") {
            for (name, amount) in amounts(&container["resources"][kind]) {
                add(&mut sum, name, amount);
            }
        }
        for container in list_at(spec, "initContainers") {
            let stays = str_at(container, "restartPolicy") == "Always";
            for (name, amount) in amounts(&container["resources"][kind]) {
                let before = sum.get(&name).copied();
                match before {
                    Some(before) if !stays && before >= amount => {}
                    Some(_) if !stays => drop(sum.insert(name, amount)),
                    _ => add(&mut sum, name, amount),
                }
            }
        }
        if !sum.is_empty() || kind == "requests" {
            for (name, amount) in amounts(&spec["overhead"]) {
                add(&mut sum, name, amount);
            }
        }
        for (name, amount) in sum {
            let known = COMPUTE.contains(&name.as_str()) || name.starts_with("hugepages-");
            if kind == "requests" && known {
                add(used, name.clone(), amount);
            }
            if kind == "requests" || known {
                add(used, format!("{prefix}{name}"), amount);
            }
        }
    }
}

/// Whether a quota is about an object: one with scopes is about pods that are in all of them.
pub fn is_about(quota: &Value, resource: &Resource, object: &Value) -> bool {
    let spec = &quota["spec"];
    let scopes = list_at(spec, "scopes").iter().filter_map(Value::as_str).map(|scope| (scope, "Exists", Vec::new()));
    let selected = list_at(&spec["scopeSelector"], "matchExpressions").iter().map(|expression| {
        let values = list_at(expression, "values").iter().filter_map(Value::as_str).collect();
        (str_at(expression, "scopeName"), str_at(expression, "operator"), values)
    });
    let mut scopes = scopes.chain(selected).peekable();
    if scopes.peek().is_none() {
        return true;
    }
    resource.is("", "Pod") && scopes.all(|(scope, operator, values)| is_in(scope, operator, &values, &object["spec"]))
}

fn is_in(scope: &str, operator: &str, values: &[&str], pod: &Value) -> bool {
    let ends = pod.get("activeDeadlineSeconds").is_some_and(Value::is_number);
    let best_effort = qos::class(pod) == "BestEffort";
    match scope {
        "Terminating" => ends,
        "NotTerminating" => !ends,
        "BestEffort" => best_effort,
        "NotBestEffort" => !best_effort,
        "PriorityClass" => {
            let class = str_at(pod, "priorityClassName");
            meets(Some(class).filter(|class| !class.is_empty()), operator, values)
        }
        _ => false,
    }
}

/// What containers of a pod must say because a quota limits it, and do not: `cpu for: a,b; memory for: b`.
pub fn unsaid(hard: &Amounts, resource: &Resource, object: &Value) -> String {
    if !resource.is("", "Pod") {
        return String::new();
    }
    let mut missing = Vec::new();
    for name in hard.keys() {
        let (kind, wanted) = name.split_once('.').unwrap_or(("requests", name));
        if !COMPUTE[..2].contains(&wanted) || !["requests", "limits"].contains(&kind) {
            continue;
        }
        let containers =
            list_at(&object["spec"], "containers").iter().chain(list_at(&object["spec"], "initContainers"));
        let silent: Vec<&str> = containers
            .filter(|container| !entries_at(&container["resources"], kind).any(|(said, _)| said == wanted))
            .map(|container| str_at(container, "name"))
            .collect();
        if !silent.is_empty() {
            missing.push(format!("{name} for: {}", silent.join(",")));
        }
    }
    missing.join("; ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::find;

    fn used(plural: &str, object: &Value) -> BTreeMap<String, String> {
        usage(find("", "v1", plural).unwrap(), object)
            .into_iter()
            .map(|(name, amount)| (name, amount.to_string()))
            .collect()
    }

    fn pod(requests: &Value) -> Value {
        json!({"spec": {"containers": [{"name": "a", "resources": {"requests": requests, "limits": {"cpu": "1"}}}, {"name": "b"}],
                        "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "900m"}}}]}})
    }

    #[test]
    fn a_pod_uses_what_its_containers_need_at_once() {
        let used = used("pods", &pod(&json!({"cpu": "500m", "memory": "64Mi", "example.com/gpu": "2"})));
        for (name, amount) in [
            ("pods", "1"),
            ("count/pods", "1"),
            ("cpu", "900m"),
            ("requests.cpu", "900m"),
            ("memory", "64Mi"),
            ("limits.cpu", "1"),
            ("requests.example.com/gpu", "2"),
        ] {
            assert_eq!(used.get(name).map(String::as_str), Some(amount), "{name}");
        }
        let mut over = pod(&json!({"cpu": "1"}));
        over["status"] = json!({"phase": "Succeeded"});
        assert_eq!(super::tests::used("pods", &over), [("count/pods".to_owned(), "1".to_owned())].into());
    }

    #[test]
    fn services_and_claims_use_ports_and_storage() {
        let service = used("services", &json!({"spec": {"type": "NodePort", "ports": [{}, {}]}}));
        assert_eq!((service["services"].as_str(), service["services.nodeports"].as_str()), ("1", "2"));
        let claim = json!({"spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}}});
        let claim = used("persistentvolumeclaims", &claim);
        assert_eq!(claim["gold.storageclass.storage.k8s.io/requests.storage"], "1Gi");
    }

    #[test]
    fn a_quota_with_scopes_is_about_some_pods_only() {
        let pods = find("", "v1", "pods").unwrap();
        let about = |scope: &str, pod: &Value| is_about(&json!({"spec": {"scopes": [scope]}}), pods, pod);
        let plain = json!({"spec": {"containers": [{}]}});
        let ends = json!({"spec": {"containers": [{}], "activeDeadlineSeconds": 5}});
        assert!(about("BestEffort", &plain) && !about("NotBestEffort", &plain) && about("NotTerminating", &plain));
        assert!(about("Terminating", &ends) && !about("NotTerminating", &ends));
        assert!(!is_about(&json!({"spec": {"scopes": ["BestEffort"]}}), find("", "v1", "secrets").unwrap(), &plain));
    }

    #[test]
    fn containers_say_what_a_quota_limits() {
        let hard = amounts(&json!({"limits.memory": "1Gi", "cpu": "1", "pods": "3"}));
        let pods = find("", "v1", "pods").unwrap();
        assert_eq!(unsaid(&hard, pods, &pod(&json!({"cpu": "1"}))), "cpu for: b; limits.memory for: a,b,i");
    }
}
