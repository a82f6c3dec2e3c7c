//! Validation of the kinds that keep pods running.

use serde_json::{Value, json};

use super::pod;
use super::report::Report;
use crate::read::{entries_at, is_empty_at, list_at, str_at};
use crate::selector::selects;

pub(super) fn deployment(object: &Value, old: Option<&Value>, report: &mut Report) {
    let spec = &object["spec"];
    selected_template("deployment", spec, report);
    report.not_negative("spec.replicas", &spec["replicas"]);
    report.not_negative("spec.minReadySeconds", &spec["minReadySeconds"]);
    report.not_negative("spec.revisionHistoryLimit", &spec["revisionHistoryLimit"]);
    let deadline = &spec["progressDeadlineSeconds"];
    report.not_negative("spec.progressDeadlineSeconds", deadline);
    if deadline.as_i64().is_some_and(|deadline| deadline <= spec["minReadySeconds"].as_i64().unwrap_or(0)) {
        report.invalid("spec.progressDeadlineSeconds", deadline.clone(), "must be greater than minReadySeconds");
    }
    let rolling = &spec["strategy"]["rollingUpdate"];
    if str_at(&spec["strategy"], "type") == "Recreate" && !is_empty_at(&spec["strategy"], "rollingUpdate") {
        let why = "may not be specified when strategy `type` is 'Recreate'";
        report.forbidden("spec.strategy.rollingUpdate", why);
    } else if is_zero(&rolling["maxUnavailable"]) && is_zero(&rolling["maxSurge"]) {
        let path = "spec.strategy.rollingUpdate.maxUnavailable";
        report.invalid(path, rolling["maxUnavailable"].clone(), "may not be 0 when `maxSurge` is 0");
    }
    if let Some(old) = old {
        report.immutable("spec.selector", &spec["selector"], &old["spec"]["selector"]);
    }
}

fn is_zero(bound: &Value) -> bool {
    *bound == 0 || *bound == "0%"
}

pub(super) fn replica_set(object: &Value, old: Option<&Value>, report: &mut Report) {
    selected_template("replicaset", &object["spec"], report);
    report.not_negative("spec.replicas", &object["spec"]["replicas"]);
    if let Some(old) = old {
        report.immutable("spec.selector", &object["spec"]["selector"], &old["spec"]["selector"]);
    }
}

pub(super) fn replication_controller(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    report.not_negative("spec.replicas", &spec["replicas"]);
    if is_empty_at(spec, "selector") {
        report.required("spec.selector", "");
    }
    if is_empty_at(spec, "template") {
        report.required("spec.template", "");
        return;
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if entries_at(spec, "selector").any(|(key, value)| labels.get(key) != Some(value)) {
        report.invalid("spec.template.metadata.labels", labels.clone(), "`selector` does not match template `labels`");
    }
    pod::template("spec.template", &spec["template"], report);
    always_restarts(spec, report);
}

pub(super) fn daemon_set(object: &Value, old: Option<&Value>, report: &mut Report) {
    selected_template("daemonset", &object["spec"], report);
    if let Some(old) = old {
        report.immutable("spec.selector", &object["spec"]["selector"], &old["spec"]["selector"]);
    }
}

/// The spec with a volume for each claim, as its pods will have it: containers mount claims by their names.
fn with_claims(spec: &Value) -> Value {
    let mut whole = spec.clone();
    let had: Vec<_> =
        list_at(&spec["template"]["spec"], "volumes").iter().map(|volume| volume["name"].clone()).collect();
    let claims = list_at(spec, "volumeClaimTemplates").iter().map(|claim| claim["metadata"]["name"].clone());
    let added: Vec<_> =
        claims.filter(|name| !had.contains(name)).map(|name| json!({"name": name, "emptyDir": {}})).collect();
    let pod = whole.pointer_mut("/template/spec").and_then(Value::as_object_mut);
    if let Some(pod) = pod.filter(|_| !added.is_empty()) {
        match pod.get_mut("volumes").and_then(Value::as_array_mut) {
            Some(volumes) => volumes.extend(added),
            None => drop(pod.insert("volumes".into(), added.into())),
        }
    }
    whole
}

pub(super) fn stateful_set(object: &Value, old: Option<&Value>, report: &mut Report) {
    let spec = &object["spec"];
    selected_template("statefulset", &with_claims(spec), report);
    report.not_negative("spec.replicas", &spec["replicas"]);
    let Some(old) = old else { return };
    let may_change = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let fixed = |spec: &Value| {
        let mut spec = spec.clone();
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|key, _| !may_change.contains(&key.as_str()));
        }
        spec
    };
    if !pod::same(&fixed(spec), &fixed(&old["spec"])) {
        report.forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
             'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        );
    }
}

pub(super) fn revision(object: &Value, old: Option<&Value>, report: &mut Report) {
    report.not_negative("revision", &object["revision"]);
    if let Some(old) = old {
        report.immutable("data", &object["data"], &old["data"]);
    }
}

/// A selector that is there, is not empty, and selects the pods of the template.
fn selected_template(kind: &str, spec: &Value, report: &mut Report) {
    let (selector, labels) = (&spec["selector"], &spec["template"]["metadata"]["labels"]);
    if selector.is_null() {
        report.required("spec.selector", "");
    } else if is_empty_at(selector, "matchLabels") && is_empty_at(selector, "matchExpressions") {
        report.invalid("spec.selector", selector.clone(), format!("empty selector is invalid for {kind}"));
    } else if !selects(selector, labels) {
        report.invalid("spec.template.metadata.labels", labels.clone(), "`selector` does not match template `labels`");
    }
    pod::template("spec.template", &spec["template"], report);
    always_restarts(spec, report);
}

fn always_restarts(spec: &Value, report: &mut Report) {
    let pod = &spec["template"]["spec"];
    let policy = str_at(pod, "restartPolicy");
    if matches!(policy, "Never" | "OnFailure") {
        report.unsupported("spec.template.spec.restartPolicy", policy, &["Always"]);
    }
    if !pod["activeDeadlineSeconds"].is_null() {
        let path = "spec.template.spec.activeDeadlineSeconds";
        report.forbidden(path, "activeDeadlineSeconds in a template of pods that always restart is not supported");
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_has, extend, problems};
    use super::*;

    fn with(more: Value) -> Value {
        let mut spec = json!({
            "selector": {"matchLabels": {"app": "oak"}},
            "template": {
                "metadata": {"labels": {"app": "oak"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]},
            },
        });
        extend(&mut spec, more);
        json!({"spec": spec})
    }

    fn check(plural: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
        problems("apps", plural, object, old)
    }

    #[test]
    fn a_selector_is_there_and_matches_the_template() {
        for plural in ["deployments", "replicasets", "statefulsets", "daemonsets"] {
            assert_eq!(check(plural, &with(json!({})), None), Vec::<String>::new(), "{plural}");
            let mut missing = with(json!({}));
            missing["spec"].as_object_mut().unwrap().remove("selector");
            assert_has(&check(plural, &missing, None), "spec.selector: Required value");
            let other = with(json!({"selector": {"matchLabels": {"app": "elm"}}}));
            assert_has(
                &check(plural, &other, None),
                "spec.template.metadata.labels: Invalid value: {\"app\":\"oak\"}: `selector` does not match template `labels`",
            );
        }
    }

    #[test]
    fn containers_of_a_stateful_set_mount_its_claims() {
        let mounts = |name: &str| {
            let container = json!({"name": "c", "image": "i", "volumeMounts": [{"name": name, "mountPath": "/data"}]});
            with(json!({
                "template": {"metadata": {"labels": {"app": "oak"}}, "spec": {"containers": [container]}},
                "volumeClaimTemplates": [{"metadata": {"name": "sap"}, "spec": {}}],
            }))
        };
        assert_eq!(check("statefulsets", &mounts("sap"), None), Vec::<String>::new());
        assert_has(
            &check("statefulsets", &mounts("resin"), None),
            r#"spec.template.spec.containers[0].volumeMounts[0].name: Not found: "resin""#,
        );
    }

    #[test]
    fn a_selector_does_not_change() {
        let new = with(json!({
            "selector": {"matchLabels": {"app": "elm"}},
            "template": {"metadata": {"labels": {"app": "elm"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        }));
        assert_eq!(
            check("deployments", &new, Some(&with(json!({})))),
            [r#"spec.selector: Invalid value: {"matchLabels":{"app":"elm"}}: field is immutable"#]
        );
    }

    #[test]
    fn the_template_of_a_stateful_set_may_change_and_its_claims_may_not() {
        let scaled = with(json!({"replicas": 5, "minReadySeconds": 3}));
        assert!(check("statefulsets", &scaled, Some(&with(json!({})))).is_empty());
        let renamed = with(json!({"serviceName": "other"}));
        let problems = check("statefulsets", &renamed, Some(&with(json!({}))));
        assert!(
            problems[0].starts_with("spec: Forbidden: updates to statefulset spec for fields other than 'replicas'")
        );
    }

    #[test]
    fn pods_that_are_kept_running_always_restart() {
        let mut object = with(json!({}));
        object["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
        assert_eq!(
            check("deployments", &object, None),
            [r#"spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always""#]
        );
    }

    #[test]
    fn a_rolling_update_can_move() {
        let stuck = with(json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}}));
        assert_has(
            &check("deployments", &stuck, None),
            r#"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0"#,
        );
        assert_has(
            &check("deployments", &with(json!({"replicas": -1})), None),
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        );
    }
}
