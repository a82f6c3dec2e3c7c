//! Nova asks Cortex where servers go: real schedulers of both, and hypervisors that pretend.

#[path = "../cloud/mod.rs"]
mod cloud;
mod computes;
#[path = "../machine/mod.rs"]
mod machine;
mod servers;

use cloud::{Cloud, client};
use serde_json::{Value, json};

/// One machine without hypervisors and, at first, without Cortex.
const CLOUD: &str = "
apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata: {name: lab, namespace: cloud}
spec:
  infrastructure:
    mariadb: {replicas: 1, storageSize: 2Gi}
    rabbitmq: {replicas: 1}
    memcached: {replicas: 1, memory: 64Mi}
  services:
    keystone: {replicas: 1}
    glance: {replicas: 1, backend: {type: file}}
    placement: {replicas: 1}
    nova:
      api: {replicas: 1}
      scheduler: {replicas: 1}
      conductor: {replicas: 1}
      template: {extraConfig: {quota: {instances: '-1', cores: '-1', ram: '-1'}}}
";

/// A filter that knows what it needs from the request alone: hypervisors that pretend have no Hypervisor object.
const STEPS: &str = r#"[{"name": "filter_host_instructions"}]"#;

/// Cortex is switched on when the cloud is there: its image is that of this very program.
fn up() -> Cloud {
    let cloud = Cloud::up(CLOUD);
    cloud.machine.import_itself();
    set(&cloud, &json!({"cortex": {"enabled": true, "replicas": 2}}));
    cloud.machine.eventually(&ready("cortex", "cortex"), "True");
    nova_fails(&cloud, "open");
    cloud
}

/// Waits until the scheduler of Nova runs that asks Cortex, and does this without an answer.
fn nova_fails(cloud: &Cloud, how: &str) {
    let it = &cloud.machine;
    let config = "{.spec.template.spec.volumes[?(@.name==\"config\")].secret.secretName}";
    let mode = format!(
        "kubectl -n cloud get secret $(kubectl -n cloud get statefulset nova-scheduler -o jsonpath='{config}') \
         -o jsonpath='{{.data.nova\\.conf}}' | base64 -d | grep ^on_failure"
    );
    it.eventually(&mode, &format!("on_failure = {how}"));
    it.ok("kubectl -n cloud rollout status statefulset/nova-scheduler --timeout=170s");
    it.eventually(&client("compute service list --service nova-scheduler -f value -c State"), "up");
}

/// Changes the spec of the ControlPlane.
fn set(cloud: &Cloud, spec: &Value) {
    let patch = json!({ "spec": spec });
    cloud.machine.ok(&format!("kubectl -n cloud patch controlplane lab --type=merge -p '{patch}'"));
}

/// The line that prints whether an object is ready.
fn ready(kind: &str, name: &str) -> String {
    format!("kubectl -n cloud get {kind} {name} -o jsonpath='{{.status.conditions[?(@.type==\"Ready\")].status}}'")
}

/// How many servers are asked for at once. Each costs seconds of a processor, so that `make clouds` has more of them.
fn batch() -> usize {
    std::env::var("C5C3_CORTEX_BATCH").map_or(6, |batch| batch.parse().expect("C5C3_CORTEX_BATCH is a number"))
}

#[test]
fn servers_go_where_cortex_says_and_it_says_why() {
    let cloud = up();
    one_scheduler_decides_and_the_other_stands_by(&cloud);
    computes::register(&cloud);
    set_filters(&cloud, STEPS);
    servers::prepare(&cloud);
    servers::each_is_on_the_first_host_of_its_decision(&cloud, 4, batch());
    a_step_with_a_wrong_name_is_refused_with_the_nearest(&cloud);
    a_filter_that_is_added_counts_at_once(&cloud);
    without_a_scheduler_novas_order_is_kept_or_no_host_is_found(&cloud);
}

fn one_scheduler_decides_and_the_other_stands_by(cloud: &Cloud) {
    let it = &cloud.machine;
    let pods =
        "kubectl -n cloud get deployment cortex-scheduler -o jsonpath='{.status.replicas} {.status.availableReplicas}'";
    it.eventually(pods, "2 1");
    let told = "{.status.endpoint} {.status.activePipelines}";
    let told = format!("kubectl -n cloud get cortex cortex -o jsonpath='{told}'");
    it.eventually(&told, r#"http://cortex.cloud.svc.cluster.local:8080 ["nova"]"#);
}

/// Sets the filters of Nova's pipeline, and waits until the scheduler has them. Nothing is restarted for it.
fn set_filters(cloud: &Cloud, filters: &str) {
    let it = &cloud.machine;
    let patch = format!(r#"{{"spec": {{"pipelines": {{"nova": {{"filters": {filters}}}}}}}}}"#);
    it.ok(&format!("kubectl -n cloud patch cortex cortex --type=merge -p '{patch}'"));
    let names: Vec<Value> = serde_json::from_str(filters).unwrap();
    let names: Vec<&str> = names.iter().map(|one| one["name"].as_str().unwrap()).collect();
    let told = "{.spec.filters[*].name} {.status.conditions[?(@.type==\"Ready\")].status}";
    let current = "{.metadata.generation} {.status.observedGeneration}";
    let look = format!(
        "set -- $(kubectl -n cloud get pipeline.cortex.c5c3.io nova -o jsonpath='{current}'); [ \"$1\" = \"$2\" ] && \
         kubectl -n cloud get pipeline.cortex.c5c3.io nova -o jsonpath='{told}'"
    );
    it.eventually(&look, &format!("{} True", names.join(" ")));
}

fn a_step_with_a_wrong_name_is_refused_with_the_nearest(cloud: &Cloud) {
    let patch = r#"{"spec": {"pipelines": {"nova": {"filters": [{"name": "ComputFilter"}]}}}}"#;
    let said = cloud.machine.ok(&format!("! kubectl -n cloud patch cortex cortex --type=merge -p '{patch}'"));
    assert!(said.contains("did you mean ComputeFilter?"), "{said}");
}

fn a_filter_that_is_added_counts_at_once(cloud: &Cloud) {
    let it = &cloud.machine;
    let pods = "kubectl -n cloud get pods -l app.kubernetes.io/name=cortex -o name | sort | xargs";
    let before = it.ok(pods);
    set_filters(cloud, r#"[{"name": "filter_host_instructions"}, {"name": "ComputeFilter"}]"#);
    let server = servers::create(cloud, "unknown", 1).remove(0);
    servers::finds_no_host(cloud, &server);
    let why = it.ok(&format!("$C5C3 why -n cloud server/{server} || [ $? -eq 1 ]"));
    assert!(why.contains("pretend-0") && why.contains("filter_status_conditions"), "{why}");
    set_filters(cloud, STEPS);
    let server = servers::create(cloud, "known", 1).remove(0);
    servers::is_active(cloud, &server);
    it.says(pods, &before);
}

fn without_a_scheduler_novas_order_is_kept_or_no_host_is_found(cloud: &Cloud) {
    let it = &cloud.machine;
    set(cloud, &json!({"cortex": {"replicas": 0}}));
    it.eventually("kubectl -n cloud get pods -l app.kubernetes.io/name=cortex -o name", "");
    let server = servers::create(cloud, "open", 1).remove(0);
    servers::is_active(cloud, &server);
    set(
        cloud,
        &json!({"services": {"nova": {"template": {"scheduler": {"externalScheduler": {"onFailure": "Closed"}}}}}}),
    );
    nova_fails(cloud, "closed");
    let server = servers::create(cloud, "closed", 1).remove(0);
    servers::finds_no_host(cloud, &server);
    set(cloud, &json!({"cortex": {"replicas": 2}}));
    it.eventually(&ready("cortex", "cortex"), "True");
    let server = servers::create(cloud, "back", 1).remove(0);
    servers::is_active(cloud, &server);
}
