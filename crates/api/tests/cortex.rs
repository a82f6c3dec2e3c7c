//! What the kinds of Cortex's scheduler accept, and what they say about what they refuse.

use c5c3_api::cortex::{Decision, Descheduling, Pipeline};
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
fn the_documented_pipeline_decision_and_descheduling_are_taken_as_they_stand() {
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
    keeps::<Descheduling>(
        r#"
apiVersion: cortex.c5c3.io/v1alpha1
kind: Descheduling
metadata: { name: move-6f2c }
spec: { resourceID: 6f2c0000-0000-4000-8000-000000000001, prevHost: hv-01, reason: "long term contention" }
"#,
    );
}

#[test]
fn a_descheduling_is_a_dry_run_and_a_pipeline_of_detectors_proposes_until_they_say_otherwise() {
    let spec = json!({"resourceID": "s-1", "prevHost": "plum", "reason": "full"});
    let object = json!({"apiVersion": VERSION, "kind": "Descheduling", "metadata": {"name": "pear"}, "spec": spec});
    assert!(serde_json::from_value::<Descheduling>(object).unwrap().spec.dry_run);
    let usual = c5c3_api::cortex::PipelineDescheduling::default();
    assert_eq!((usual.dry_run, usual.max_migrations, usual.cooldown.get().as_secs()), (true, 1, 3600));
}

#[test]
fn a_pipeline_of_detectors_has_detectors_and_nothing_else() {
    let full = |name: &str| json!([{"name": name, "params": [{"key": "threshold", "intValue": 80}]}]);
    let good = json!({"type": "detector", "schedulingDomain": "nova", "detectors": full("avoid_high_memory_pct"),
        "descheduling": {"dryRun": false, "maxMigrations": 3, "cooldown": "2h"}});
    assert_eq!(problems("Pipeline", &good), [""; 0]);
    let wrong = json!({"type": "detector", "schedulingDomain": "nova", "detectors": full("avoid_high_memory")});
    assert_eq!(
        problems("Pipeline", &wrong),
        ["spec.detectors[0].name: no detector is called avoid_high_memory; did you mean avoid_high_memory_pct?"]
    );
    let says = |spec: &Value, what: &str| {
        let said = problems("Pipeline", spec);
        assert!(said.iter().any(|one| one.contains(what)), "{what} is not in {said:?}");
    };
    says(&json!({"type": "detector", "schedulingDomain": "nova"}), "without detectors; list at least one");
    let mut mixed = good.clone();
    mixed["weighers"] = json!([{"name": "weigher_ram"}]);
    says(&mixed, "has filters or weighers; remove them");
    let mut plain = good;
    plain["type"] = json!("filter-weigher");
    says(&plain, "only a pipeline of type detector has; set type to detector");
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
    let machines = problems("Pipeline", &json!({"schedulingDomain": "machines"}));
    assert!(machines[0].starts_with("spec.schedulingDomain: ") && machines[0].contains("nova"), "{machines:?}");
    let volumes = json!({"schedulingDomain": "cinder", "filters": [{"name": "filter_correct_az"}]});
    assert_eq!(
        problems("Pipeline", &volumes),
        ["spec.filters[0].name: filter_correct_az knows nothing of cinder; remove it"]
    );
}
