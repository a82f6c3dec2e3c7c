//! A job's own rules: what a failed pod means for it, and when some indexes are success enough.

use k8s_openapi::api::batch::v1::{JobSpec, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule};
use k8s_openapi::api::core::v1::Pod;

use super::indexes::Indexes;
use super::pods;

/// What a job makes of a failed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// One more failure.
    Counts,
    /// As if nothing had happened.
    Ignored,
    /// Its index has failed for good.
    FailsIndex,
    /// The job has failed, for this reason.
    FailsJob(String),
}

/// What the first rule that fits says of a failed pod.
pub(super) fn meaning(spec: &JobSpec, pod: &Pod) -> Meaning {
    let rules = spec.pod_failure_policy.iter().flat_map(|policy| &policy.rules);
    for (position, rule) in rules.enumerate() {
        let Some(why) = fits(rule, pod) else { continue };
        return match rule.action.as_str() {
            "Ignore" => Meaning::Ignored,
            "FailIndex" if spec.backoff_limit_per_index.is_some() => Meaning::FailsIndex,
            "FailJob" => Meaning::FailsJob(format!("{why} matching FailJob rule at index {position}")),
            _ => Meaning::Counts,
        };
    }
    Meaning::Counts
}

/// Why a rule is about this pod, if it is.
fn fits(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let of = format!(
        "{}/{}",
        pod.metadata.namespace.as_deref().unwrap_or_default(),
        pod.metadata.name.as_deref().unwrap_or_default()
    );
    if let Some(codes) = &rule.on_exit_codes {
        let (container, code) = exit_that_fits(codes, pod)?;
        return Some(format!("Container {container} for pod {of} failed with exit code {code}"));
    }
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref())?;
    let met = rule.on_pod_conditions.iter().flatten().find(|pattern| {
        conditions.iter().any(|found| found.type_ == pattern.type_ && found.status == pattern.status)
    })?;
    Some(format!("Pod {of} has condition {}", met.type_))
}

fn exit_that_fits<'p>(codes: &PodFailurePolicyOnExitCodesRequirement, pod: &'p Pod) -> Option<(&'p str, i32)> {
    let asked = |name: &str| codes.container_name.as_deref().is_none_or(|wanted| wanted == name);
    pods::containers(pod).filter(|container| asked(&container.name)).find_map(|container| {
        let code = container.state.as_ref()?.terminated.as_ref()?.exit_code;
        let listed = codes.values.contains(&code);
        (code != 0 && listed == (codes.operator == "In")).then_some((container.name.as_str(), code))
    })
}

/// The rule of the success policy that these indexes meet.
pub(super) fn success(spec: &JobSpec, succeeded: &Indexes) -> Option<String> {
    let completions = spec.completions.unwrap_or(0);
    let rules = &spec.success_policy.as_ref()?.rules;
    let met = rules.iter().position(|rule| {
        let asked = rule.succeeded_indexes.as_ref().map(|text| Indexes::parse(text, completions));
        let have = asked.as_ref().map_or(succeeded.len(), |asked| succeeded.count_of(asked));
        let needed = rule.succeeded_count.or(asked.as_ref().map(Indexes::len));
        needed.is_some_and(|needed| have >= needed)
    })?;
    Some(format!("Matched rules at index {met}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{of, with};

    fn spec(more: Value) -> JobSpec {
        of(with(json!({"template": {}, "completions": 5}), more))
    }

    fn failed(code: i32, condition: Option<&str>) -> Pod {
        let conditions: Vec<Value> = condition.iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n"},
            "status": {"phase": "Failed", "conditions": conditions, "containerStatuses": [{
                "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": code}},
            }]},
        }))
        .unwrap()
    }

    fn rule(action: &str, operator: &str, container: Option<&str>) -> Value {
        json!({"action": action,
               "onExitCodes": {"operator": operator, "values": [3, 42], "containerName": container}})
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let table = vec![
            (json!([rule("Ignore", "In", None)]), failed(42, None), Meaning::Ignored),
            (json!([rule("Ignore", "In", None)]), failed(1, None), Meaning::Counts),
            (json!([rule("Ignore", "NotIn", None)]), failed(1, None), Meaning::Ignored),
            (json!([rule("Ignore", "NotIn", None)]), failed(0, None), Meaning::Counts),
            (json!([rule("Ignore", "In", Some("other"))]), failed(42, None), Meaning::Counts),
            (json!([rule("Count", "In", None), rule("Ignore", "In", None)]), failed(42, None), Meaning::Counts),
            (json!([rule("FailIndex", "In", None)]), failed(42, None), Meaning::FailsIndex),
            (
                json!([rule("Ignore", "In", Some("x")), rule("FailJob", "In", Some("main"))]),
                failed(42, None),
                Meaning::FailsJob(
                    "Container main for pod n/p failed with exit code 42 matching FailJob rule at index 1".into(),
                ),
            ),
            (
                json!([{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]),
                failed(137, Some("DisruptionTarget")),
                Meaning::FailsJob("Pod n/p has condition DisruptionTarget matching FailJob rule at index 0".into()),
            ),
        ];
        for (rules, pod, expected) in table {
            let spec = spec(json!({"podFailurePolicy": {"rules": rules}, "backoffLimitPerIndex": 1}));
            assert_eq!(meaning(&spec, &pod), expected, "{rules}");
        }
    }

    #[test]
    fn success_is_named_by_the_indexes_or_the_number_of_a_rule() {
        let table = [
            (json!([{"succeededIndexes": "0-1"}]), "0", None),
            (json!([{"succeededIndexes": "0-1"}]), "0-1,4", Some("Matched rules at index 0")),
            (json!([{"succeededCount": 2}]), "3", None),
            (json!([{"succeededIndexes": "0"}, {"succeededCount": 2}]), "3,4", Some("Matched rules at index 1")),
            (json!([{"succeededIndexes": "0-3", "succeededCount": 2}]), "2,4", None),
            (json!([{"succeededIndexes": "0-3", "succeededCount": 2}]), "2,3", Some("Matched rules at index 0")),
        ];
        for (rules, succeeded, expected) in table {
            let spec = spec(json!({"successPolicy": {"rules": rules}}));
            assert_eq!(success(&spec, &Indexes::parse(succeeded, 5)).as_deref(), expected, "{rules} {succeeded}");
        }
    }
}
