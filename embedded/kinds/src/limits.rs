//! What a LimitRange makes of pods and claims: what it gives to containers that say nothing, and what it finds too little
//! or too much. Pure: who reads the ranges of a namespace, and refuses, is elsewhere.

use serde_json::Value;

use crate::quantity::Quantity;
use crate::quota::{Amounts, add, amounts};
use crate::read::{list_at, str_at};
use crate::resource::Resource;
use crate::write::{child, each, ensure, fill, put};

/// Where it is written down what a range has given to a pod.
const NOTE: &str = "kubernetes.io/limit-ranger";

/// Gives the containers of a pod what a range has for those that do not say what they need, and notes it.
pub fn complete(range: &Value, pod: &mut Value) {
    let mut notes = Vec::new();
    for limit in list_at(&range["spec"], "limits").iter().filter(|limit| str_at(limit, "type") == "Container") {
        let Some(spec) = child(pod, "spec") else { return };
        for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
            each(spec, list, |container| notes.extend(complete_container(limit, container, what)));
        }
    }
    if notes.is_empty() {
        return;
    }
    let note = format!("LimitRanger plugin set: {}", notes.join("; "));
    if let Some(annotations) = ensure(pod, "metadata").and_then(|metadata| ensure(metadata, "annotations")) {
        put(annotations, NOTE, note);
    }
}

/// The notes on what was given to a container.
fn complete_container(limit: &Value, container: &mut Value, what: &str) -> Vec<String> {
    let name = str_at(container, "name").to_owned();
    let mut notes = Vec::new();
    for (source, field, word) in [("defaultRequest", "requests", "request"), ("default", "limits", "limit")] {
        let given = limit.get(source).and_then(Value::as_object).into_iter().flatten();
        let has = container["resources"][field].clone();
        let given: Vec<_> = given.filter(|(resource, _)| has.get(resource.as_str()).is_none()).collect();
        if given.is_empty() {
            continue;
        }
        let names: Vec<&str> = given.iter().map(|(resource, _)| resource.as_str()).collect();
        notes.push(format!("{} {word} for {what} {name}", names.join(", ")));
        if let Some(fields) = ensure(container, "resources").and_then(|resources| ensure(resources, field)) {
            for (resource, amount) in given {
                fill(fields, resource, amount.clone());
            }
        }
    }
    notes
}

/// Why a range refuses an object; nothing if it does not.
pub fn excesses(range: &Value, resource: &Resource, object: &Value) -> Vec<String> {
    let spec = &object["spec"];
    let limits = list_at(&range["spec"], "limits").iter();
    let found = limits.flat_map(|limit| {
        let kind = str_at(limit, "type");
        let judged: Vec<Amount> = match (resource.built_in_kind(), kind) {
            (("", "Pod"), "Container") => {
                let lists = ["containers", "initContainers"].into_iter().flat_map(|list| list_at(spec, list));
                lists.map(Amount::of_container).collect()
            }
            (("", "Pod"), "Pod") => vec![Amount::of_pod(spec)],
            (("", "PersistentVolumeClaim"), "PersistentVolumeClaim") => {
                let requests = amounts(&spec["resources"]["requests"]);
                vec![Amount { limits: requests.clone(), requests }]
            }
            _ => Vec::new(),
        };
        judged.into_iter().flat_map(|amount| amount.judged(limit, kind)).collect::<Vec<_>>()
    });
    found.collect()
}

/// What a container, a pod or a claim asks for.
struct Amount {
    requests: Amounts,
    limits: Amounts,
}

impl Amount {
    fn of_container(container: &Value) -> Self {
        let of = |field: &str| amounts(&container["resources"][field]);
        Self { requests: of("requests"), limits: of("limits") }
    }

    /// The containers together, or an init container that needs more than they do.
    fn of_pod(spec: &Value) -> Self {
        let sum = |field: &str| {
            let mut sum = Amounts::new();
            for container in list_at(spec, "containers") {
                for (name, amount) in amounts(&container["resources"][field]) {
                    add(&mut sum, name, amount);
                }
            }
            for container in list_at(spec, "initContainers") {
                for (name, amount) in amounts(&container["resources"][field]) {
                    if sum.get(&name).is_none_or(|before| *before < amount) {
                        sum.insert(name, amount);
                    }
                }
            }
            sum
        };
        Self { requests: sum("requests"), limits: sum("limits") }
    }

    fn judged(&self, limit: &Value, kind: &str) -> Vec<String> {
        let mut found = Vec::new();
        for (name, least) in amounts(&limit["min"]) {
            let told = self.told(&name, "request", |amount| amount < least);
            found.extend(told.map(|told| format!("minimum {name} usage per {kind} is {least}{told}")));
        }
        for (name, most) in amounts(&limit["max"]) {
            let told = self.told(&name, "limit", |amount| amount > most);
            found.extend(told.map(|told| format!("maximum {name} usage per {kind} is {most}{told}")));
        }
        for (name, ratio) in amounts(&limit["maxLimitRequestRatio"]) {
            let told = self.strays(&name, ratio);
            found.extend(
                told.map(|told| format!("{name} max limit to request ratio per {kind} is {ratio}, but {told}")),
            );
        }
        found
    }

    /// What is wrong with an amount that must be said as a `needed` one, if anything is.
    fn told(&self, name: &str, needed: &str, is_wrong: impl Fn(Quantity) -> bool) -> Option<String> {
        let of = |amounts: &Amounts| amounts.get(name).copied();
        let said = [("limit", of(&self.limits)), ("request", of(&self.requests))];
        if said.iter().any(|(word, amount)| *word == needed && amount.is_none()) {
            return Some(format!(".  No {needed} is specified"));
        }
        let wrong = said
            .iter()
            .find_map(|(word, amount)| amount.filter(|amount| is_wrong(*amount)).map(|amount| (word, amount)));
        wrong.map(|(word, amount)| format!(", but {word} is {amount}"))
    }

    /// How a limit is too far from its request, if it is.
    fn strays(&self, name: &str, ratio: Quantity) -> Option<String> {
        let of = |amounts: &Amounts| amounts.get(name).copied().filter(|amount| !amount.is_zero());
        let (Some(request), limit) = (of(&self.requests), of(&self.limits)) else {
            return Some("no request is specified or request is 0".to_owned());
        };
        let Some(limit) = limit else { return Some("no limit is specified or limit is 0".to_owned()) };
        let found = limit.ratio_to(request);
        (found > ratio.ratio_to(Quantity::whole(1))).then(|| format!("provided ratio is {found:.6}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::find;

    fn range(limit: &Value) -> Value {
        json!({"spec": {"limits": [limit]}})
    }

    fn pod(resources: &Value) -> Value {
        json!({"metadata": {"name": "oak"}, "spec": {"containers": [{"name": "bark", "resources": resources}]}})
    }

    #[test]
    fn a_container_that_says_nothing_gets_what_the_range_has_for_it() {
        let range = range(&json!({
            "type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m", "memory": "1Mi"},
        }));
        let mut silent = pod(&json!({}));
        complete(&range, &mut silent);
        let resources = json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "100m", "memory": "1Mi"}});
        assert_eq!(silent["spec"]["containers"][0]["resources"], resources);
        let note = "LimitRanger plugin set: cpu, memory request for container bark; cpu limit for container bark";
        assert_eq!(silent["metadata"]["annotations"][NOTE], note);
        let mut said = pod(&resources);
        complete(&range, &mut said);
        assert_eq!(said, pod(&resources), "who says it all is given nothing");
    }

    #[test]
    fn too_little_too_much_and_nothing_at_all_are_told() {
        let told = |limit: Value, resources: Value| {
            excesses(&range(&limit), find("", "v1", "pods").unwrap(), &pod(&resources)).join("; ")
        };
        let both = |cpu: &str| json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
        let between = json!({"type": "Container", "min": {"cpu": "50m"}, "max": {"cpu": "500m"}});
        assert_eq!(told(between.clone(), both("100m")), "");
        assert_eq!(told(between.clone(), both("10m")), "minimum cpu usage per Container is 50m, but limit is 10m");
        assert_eq!(told(between.clone(), both("1")), "maximum cpu usage per Container is 500m, but limit is 1");
        assert_eq!(
            told(between, json!({})),
            "minimum cpu usage per Container is 50m.  No request is specified; \
             maximum cpu usage per Container is 500m.  No limit is specified"
        );
        let ratio = json!({"type": "Pod", "maxLimitRequestRatio": {"cpu": "2"}});
        assert_eq!(told(ratio.clone(), json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}})), "");
        assert_eq!(
            told(ratio, json!({"requests": {"cpu": "1"}, "limits": {"cpu": "3"}})),
            "cpu max limit to request ratio per Pod is 2, but provided ratio is 3.000000"
        );
    }

    #[test]
    fn a_claim_is_judged_by_what_it_requests() {
        let range = range(&json!({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}));
        let claim = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
        let claims = find("", "v1", "persistentvolumeclaims").unwrap();
        assert!(excesses(&range, claims, &claim("1Gi")).is_empty());
        let told = excesses(&range, claims, &claim("2Gi"));
        assert_eq!(told, ["maximum storage usage per PersistentVolumeClaim is 1Gi, but limit is 2Gi"]);
    }
}
