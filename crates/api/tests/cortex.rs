//! What the kinds of Cortex's scheduler accept, and what they say about what they refuse.

use c5c3_api::cortex::{Decision, Pipeline};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const VERSION: &str = "cortex.c5c3.io/v1alpha1";

fn problems(kind: &str, spec: &Value) -> Vec<String> {
    let object = json!({"apiVersion": VERSION, "kind": kind, "metadata": {"name": "plum"}, "spec": spec});
    let problems = c5c3_api::find(VERSION, kind).unwrap().check(&object, None);
    problems.sorted().to_string().lines().map(str::to_owned).collect()
}

fn keeps<K: Serialize + DeserializeOwned>(text: &str) {
    let written: Value = serde_saphyr::from_str(text).unwrap();
    let kind = c5c3_api::find(VERSION, written["kind"].as_str().unwrap()).unwrap();
    assert_eq!(kind.check(&written, None).to_string(), "");
    let read: K = serde_json::from_value(written.clone()).unwrap();
    let kept = serde_json::to_value(read).unwrap();
    for (field, value) in written["spec"].as_object().unwrap() {
        assert!(kept["spec"].get(field).is_some(), "{field}: {value} is lost");
    }
}

#[test]
fn the_documented_pipeline_and_decision_are_taken_as_they_stand() {
    keeps::<Pipeline>(
        r"
apiVersion: cortex.c5c3.io/v1alpha1
kind: Pipeline
metadata: { name: kvm-general }
spec:
  type: filter-weigher
  schedulingDomain: nova
  createDecisions: true
  filters: [ { name: filter_has_enough_capacity } ]
  weighers: [ { name: weigher_general_purpose_balancing, multiplier: 1.0 } ]
",
    );
    keeps::<Decision>(
        r"
apiVersion: cortex.c5c3.io/v1alpha1
kind: Decision
metadata: { name: nova-6f2c }
spec: { schedulingDomain: nova, pipelineRef: { name: kvm-general }, resourceID: 6f2c0000-0000-4000-8000-000000000001 }
",
    );
}

#[test]
fn a_wrong_step_is_refused_with_the_nearest_one() {
    let spec = json!({
        "schedulingDomain": "nova",
        "filters": [{"name": "AvailabilityZonesFilter"}, {"name": "kvm_binpack"}],
        "weighers": [{"name": "weigher_rma", "multiplier": 2}],
    });
    assert_eq!(
        problems("Pipeline", &spec),
        [
            "spec.filters[0].name: no filter is called AvailabilityZonesFilter; did you mean AvailabilityZoneFilter?",
            "spec.filters[1].name: no filter is called kvm_binpack; it is a weigher; list it under weighers",
            "spec.weighers[0].name: no weigher is called weigher_rma; did you mean weigher_ram?",
        ]
    );
}

#[test]
fn a_parameter_has_one_value_of_the_right_type() {
    let hosts = |param: Value| json!({"schedulingDomain": "nova", "filters": [{"name": "filter_exclude_hosts", "params": [param]}]});
    assert_eq!(problems("Pipeline", &hosts(json!({"key": "hosts", "stringListValue": ["plum"]}))), [""; 0]);
    let two = problems("Pipeline", &hosts(json!({"key": "hosts", "stringListValue": ["plum"], "boolValue": true})));
    assert!(two.contains(&"spec.filters[0].params[0]: has 2 values; set exactly one value".to_owned()), "{two:?}");
    let text = problems("Pipeline", &hosts(json!({"key": "hosts", "stringValue": "plum"})));
    assert_eq!(text, ["spec.filters[0].params.hosts: is a string; write a list of strings"]);
}

#[test]
fn what_is_not_built_is_refused() {
    let detector = problems("Pipeline", &json!({"schedulingDomain": "nova", "type": "detector"}));
    assert!(detector[0].starts_with("spec.type: ") && detector[0].contains("filter-weigher"), "{detector:?}");
    let machines = problems("Pipeline", &json!({"schedulingDomain": "machines"}));
    assert!(machines[0].starts_with("spec.schedulingDomain: ") && machines[0].contains("nova"), "{machines:?}");
    let volumes = json!({"schedulingDomain": "cinder", "filters": [{"name": "filter_correct_az"}]});
    assert_eq!(
        problems("Pipeline", &volumes),
        ["spec.filters[0].name: filter_correct_az knows nothing of cinder; remove it"]
    );
}
