//! Plans in full, and what is told of a Cortex.

use c5c3_kit::Plan;
use c5c3_stage::waits;
use serde_json::{Value, json};

use crate::world::{World, cortex, deployment, pipeline};

const SMALL: &str = include_str!("../../../../examples/cortex/cortex-small.yaml");
const FULL: &str = include_str!("../../../../examples/cortex/cortex-full.yaml");
const STEPS: &str = r#"{"pipelines": {"nova": {"filters": [{"name": "ComputeFilter"}], "weighers": [{"name": "RAMWeigher", "weight": 2.0}]}}}"#;

fn example(text: &str) -> Value {
    let example: Value = serde_saphyr::from_str(text).unwrap();
    cortex(&example["spec"])
}

fn spec(text: &str) -> Value {
    cortex(&serde_json::from_str(text).unwrap())
}

fn child(plan: &Plan, kind: &str) -> Value {
    let found = plan.children().find(|child| child.resource.kind == kind);
    found.map(|child| child.object.data.clone()).unwrap_or_default()
}

fn args(plan: &Plan) -> String {
    child(plan, "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"].to_string()
}

#[test]
fn the_plan_of_a_small_cortex() {
    insta::assert_snapshot!(World::new().plan(&example(SMALL)).unwrap().golden());
}

#[test]
fn what_a_full_cortex_waits_for_and_which_pipelines_it_has() {
    let plan = World::new().plan(&example(FULL)).unwrap();
    let pipelines = plan.children().filter(|child| child.resource.kind == "Pipeline");
    let pipelines: Vec<String> = pipelines.map(|one| serde_json::to_string_pretty(&one.object.data).unwrap()).collect();
    insta::assert_snapshot!(format!("{}\n{}", waits(&plan), pipelines.join("\n")));
}

#[test]
fn with_tls_the_scheduler_has_a_certificate_and_without_it_says_that_tokens_are_in_the_clear() {
    let plain = World::new().plan(&spec("{}")).unwrap();
    assert!(args(&plain).contains("--plaintext") && child(&plain, "Certificate").is_null());
    assert_eq!(plain.status["endpoint"], "http://gate.cloud.svc.cluster.local:8080");
    let issued = World::new().plan(&spec(r#"{"tls": {"enabled": true, "issuerRef": {"name": "ca"}}}"#)).unwrap();
    assert!(args(&issued).contains("--certificates=/etc/api-tls") && !args(&issued).contains("--plaintext"));
    assert!(child(&issued, "Certificate")["spec"]["dnsNames"].to_string().contains("gate.cloud.svc.cluster.local"));
    assert_eq!(issued.status["endpoint"], "https://gate.cloud.svc.cluster.local:8080");
    let given = spec(r#"{"tls": {"enabled": true, "certSecretRef": {"name": "nowhere"}}}"#);
    assert!(waits(&World::new().plan(&given).unwrap()).contains("SecretsReady: secret/nowhere does not exist"));
}

#[test]
fn a_database_and_datasources_are_refused_by_their_fields_and_the_scheduler_runs_all_the_same() {
    let asks =
        r#"{"database": {"database": "cortex"}, "datasources": {"nova": {"endpoint": "https://nova.example.net"}}}"#;
    let plan = World::new().own(deployment(2, 1)).plan(&spec(asks)).unwrap();
    let said = waits(&plan);
    assert!(
        said.contains("DatabaseReady: cortex/gate sets spec.database") && said.contains("remove spec.database"),
        "{said}"
    );
    assert!(said.contains("ConfigReady: cortex/gate sets spec.datasources.nova"), "{said}");
    assert!(!child(&plan, "Deployment").is_null());
    let off = r#"{"datasources": {"nova": {"enabled": false}}}"#;
    assert_eq!(waits(&World::new().own(deployment(2, 1)).plan(&spec(off)).unwrap()), "");
}

#[test]
fn a_pipeline_has_the_steps_of_the_spec_and_cortexs_own_for_what_is_left_out() {
    let plan = World::new().plan(&spec(STEPS)).unwrap();
    let pipeline = child(&plan, "Pipeline");
    assert_eq!(pipeline["spec"]["filters"], json!([{"name": "ComputeFilter"}]));
    assert_eq!(pipeline["spec"]["weighers"], json!([{"name": "RAMWeigher", "multiplier": 2.0}]));
    let filters = r#"{"pipelines": {"nova": {"filters": [{"name": "ComputeFilter"}]}}}"#;
    let weighers = child(&World::new().plan(&spec(filters)).unwrap(), "Pipeline")["spec"]["weighers"].to_string();
    assert!(weighers.contains("weigher_general_purpose_balancing"), "{weighers}");
    let none = World::new().plan(&spec(r#"{"pipelines": {"nova": {}, "cinder": {"enabled": false}}}"#)).unwrap();
    assert!(child(&none, "Pipeline").is_null() && args(&none).contains("--domains=nova\""), "{}", args(&none));
}

#[test]
fn a_step_that_no_scheduler_knows_is_told_with_the_nearest_one_and_keeps_nothing_else_back() {
    let wrong = spec(r#"{"replicas": 3, "pipelines": {"nova": {"weighers": [{"name": "RAMWheigher"}]}}}"#);
    let plan = World::new().own(deployment(2, 1)).own(pipeline("nova", "True")).plan(&wrong).unwrap();
    let said = waits(&plan);
    assert!(
        said.contains("PipelinesReady: cortex/gate has a mistake at spec.pipelines.nova.weighers[0].name"),
        "{said}"
    );
    assert!(said.contains("did you mean RAMWeigher?"), "{said}");
    assert_eq!(child(&plan, "Deployment")["spec"]["replicas"], 3);
    assert_eq!(plan.status["activePipelines"], json!(["nova"]), "the last good one goes on");
}

#[test]
fn a_cortex_is_ready_when_one_of_its_pods_decides() {
    let said = |updated, available| waits(&World::new().own(deployment(updated, available)).plan(&spec("{}")).unwrap());
    assert!(said(2, 0).contains("none of them decides yet") && said(1, 1).contains("1 of 2 pods updated"));
    assert_eq!(said(2, 1), "");
    assert!(waits(&World::new().plan(&spec("{}")).unwrap()).contains("has no status yet"));
}

#[test]
fn a_pipeline_is_active_when_the_scheduler_says_so() {
    let active = |world: World| world.plan(&spec(STEPS)).unwrap().status["activePipelines"].clone();
    let decides = World::new().own(deployment(2, 1));
    assert_eq!(active(decides.clone()), json!([]));
    assert_eq!(active(decides.clone().own(pipeline("nova", "False"))), json!([]));
    assert_eq!(active(decides.own(pipeline("nova", "True"))), json!(["nova"]));
    assert_eq!(active(World::new().own(deployment(2, 0)).own(pipeline("nova", "True"))), json!([]));
}
