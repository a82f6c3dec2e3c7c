//! Validation of ephemeral containers: what they may have, and that they are only ever added.

use c5c3_schema::Problems;
use serde_json::Value;

use super::pod::{same, spec};
use super::report::Report;
use super::walk;
use crate::read::{is_empty_at, list_at, str_at};
use crate::resource::find;

/// What an ephemeral container, which nothing waits for and nothing is promised to, cannot have.
const FORBIDDEN: [&str; 7] =
    ["ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resizePolicy"];
const WHY: &str = "cannot be set for an Ephemeral Container";

/// What is wrong with a pod whose ephemeral containers are written. `old` is the pod as it was.
pub fn validate_ephemeral_containers(pod: &Value, old: &Value) -> Problems {
    let mut report = Report::default();
    if let Some(resource) = find("", "v1", "pods") {
        walk::walk(&crate::schema::schema(resource), pod, &mut report);
    }
    spec("spec", &pod["spec"], &mut report);
    let (path, after) = ("spec.ephemeralContainers", list_at(&pod["spec"], "ephemeralContainers"));
    for before in list_at(&old["spec"], "ephemeralContainers") {
        let name = str_at(before, "name");
        match after.iter().find(|container| str_at(container, "name") == name) {
            None => report.forbidden(path, &format!("existing ephemeral containers {name:?} may not be removed")),
            Some(now) if !same(now, before) => {
                report.forbidden(path, &format!("existing ephemeral containers {name:?} may not be changed"));
            }
            Some(_) => {}
        }
    }
    report.into_problems()
}

/// What is special about an ephemeral container of a pod.
pub(super) fn container(path: &str, container: &Value, spec: &Value, report: &mut Report) {
    for field in FORBIDDEN.into_iter().filter(|field| !is_empty_at(container, field)) {
        report.forbidden(format!("{path}.{field}"), WHY);
    }
    for (at, mount) in list_at(container, "volumeMounts").iter().enumerate() {
        for field in ["subPath", "subPathExpr"].into_iter().filter(|field| !is_empty_at(mount, field)) {
            report.forbidden(format!("{path}.volumeMounts[{at}].{field}"), WHY);
        }
    }
    let target = str_at(container, "targetContainerName");
    let mut others = ["containers", "initContainers"].into_iter().flat_map(|list| list_at(spec, list));
    if !target.is_empty() && !others.any(|other| str_at(other, "name") == target) {
        report.not_found(format!("{path}.targetContainerName"), target);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::assert_has;
    use super::*;

    fn pod(ephemeral: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "oak", "namespace": "grove"},
            "spec": {"containers": [{"name": "app", "image": "i"}], "ephemeralContainers": ephemeral},
        })
    }

    fn check(new: &Value, old: &Value) -> Vec<String> {
        let complete = |ephemeral: &Value| {
            let mut pod = pod(ephemeral);
            crate::default(find("", "v1", "pods").unwrap(), &mut pod);
            pod
        };
        let problems = validate_ephemeral_containers(&complete(new), &complete(old));
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn one_is_added_and_then_neither_changed_nor_removed() {
        let debugger =
            json!({"name": "debugger", "image": "i", "stdin": true, "tty": true, "targetContainerName": "app"});
        assert_eq!(check(&json!([debugger]), &json!([])), Vec::<String>::new());
        let second = json!({"name": "second", "image": "i"});
        assert_eq!(check(&json!([second, debugger]), &json!([debugger])), Vec::<String>::new());
        let path = "spec.ephemeralContainers: Forbidden: existing ephemeral containers";
        assert_eq!(check(&json!([]), &json!([debugger])), [format!("{path} \"debugger\" may not be removed")]);
        let mut other = debugger.clone();
        other["image"] = json!("j");
        assert_eq!(check(&json!([other]), &json!([debugger])), [format!("{path} \"debugger\" may not be changed")]);
    }

    #[test]
    fn names_are_unique_among_all_containers_and_a_target_is_one_of_the_others() {
        let problems = check(
            &json!([{"name": "app", "image": "i"}, {"name": "b", "image": "i", "targetContainerName": "c"}]),
            &json!([]),
        );
        assert_has(&problems, "spec.ephemeralContainers[0].name: Duplicate value: \"app\"");
        assert_has(&problems, "spec.ephemeralContainers[1].targetContainerName: Not found: \"c\"");
    }

    #[test]
    fn what_only_lasting_containers_have_is_refused() {
        let probe = json!({"exec": {"command": ["true"]}});
        for (field, value) in [
            ("ports", json!([{"containerPort": 80}])),
            ("resources", json!({"limits": {"cpu": "1"}})),
            ("livenessProbe", probe.clone()),
            ("readinessProbe", probe.clone()),
            ("startupProbe", probe),
            ("lifecycle", json!({"preStop": {"exec": {"command": ["true"]}}})),
        ] {
            let mut container = json!({"name": "debugger", "image": "i"});
            container[field] = value;
            let problems = check(&json!([container]), &json!([]));
            assert_has(&problems, &format!("spec.ephemeralContainers[0].{field}: Forbidden: {WHY}"));
        }
        let mount = json!({"name": "debugger", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a"}]});
        let problems = check(&json!([mount]), &json!([]));
        assert_has(&problems, &format!("spec.ephemeralContainers[0].volumeMounts[0].subPath: Forbidden: {WHY}"));
    }
}
