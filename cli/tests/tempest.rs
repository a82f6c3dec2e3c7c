//! Tempest against a real Keystone: results equal the runner's log, errors are reported, and no test resource remains.

#[path = "cloud/mod.rs"]
mod cloud;
#[path = "machine/mod.rs"]
mod machine;

use cloud::Cloud;
use serde_json::Value;

const CONTROL_PLANE: &str = "
apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata: {name: lab, namespace: cloud}
spec:
  infrastructure:
    mariadb: {replicas: 1, storageSize: 2Gi}
    memcached: {replicas: 1, memory: 64Mi}
  services:
    keystone: {replicas: 1}
  tempest: {enabled: true}
";

/// A handful of tests that make nothing but tokens.
const HANDFUL: &str = r"tempest\.api\.identity\.v3\.test_(tokens|catalog|api_discovery)\.";

#[test]
fn a_cloud_is_tested_and_what_came_of_it_is_told() {
    let cloud = Cloud::up(CONTROL_PLANE);
    the_control_plane_has_a_nightly_run_of_what_it_has(&cloud);
    numbers_are_those_of_the_log(&cloud);
    a_wrong_expression_is_told(&cloud);
    a_run_that_takes_too_long_is_ended(&cloud);
    smoke_tests_are_run_by_a_command(&cloud);
    what_a_service_fails_at_is_named(&cloud);
    nothing_is_left(&cloud);
    cloud::leaks::search(&cloud.machine);
}

/// Runs tests of Keystone, and gives the status when that has ended.
fn run(cloud: &Cloud, request: &str, include: &str, timeout: &str) -> Value {
    let object = serde_json::json!({
        "apiVersion": "tempest.openstack.c5c3.io/v1alpha1", "kind": "Tempest",
        "metadata": {"name": "handful", "namespace": "cloud",
            "annotations": {"tempest.openstack.c5c3.io/run-now": request}},
        "spec": {
            "suspend": true,
            "tests": {"services": ["identity"], "concurrency": 1, "includeRegex": include, "timeout": timeout},
            "dependsOn": [{"kind": "Keystone", "name": "keystone", "condition": "Ready"}],
        },
    });
    cloud.machine.write("tempest.json", &object.to_string());
    cloud.machine.ok("kubectl apply -f tempest.json");
    let handled = format!("--for=jsonpath='{{.status.handledRequest}}'={request}");
    cloud.machine.ok(&format!("kubectl -n cloud wait {handled} --timeout=600s tempest/handful"));
    serde_json::from_str(&cloud.machine.ok("kubectl -n cloud get tempest handful -o jsonpath='{.status}'")).unwrap()
}

fn tests_passed(status: &Value) -> (&str, &str) {
    let conditions = status["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == "TestsPassed").unwrap();
    (found["reason"].as_str().unwrap(), found["message"].as_str().unwrap())
}

fn log(cloud: &Cloud, status: &Value) -> String {
    cloud.machine.ok(&format!("kubectl -n cloud logs job/{}", status["lastJob"].as_str().unwrap()))
}

fn the_control_plane_has_a_nightly_run_of_what_it_has(cloud: &Cloud) {
    let machine = &cloud.machine;
    machine.says("kubectl -n cloud get tempest tempest -o jsonpath='{.spec.tests.services}'", r#"["identity"]"#);
    machine
        .says("kubectl -n cloud get cronjob tempest -o jsonpath='{.spec.schedule} {.spec.suspend}'", "0 2 * * * false");
}

fn numbers_are_those_of_the_log(cloud: &Cloud) {
    let status = run(cloud, "handful", HANDFUL, "15m");
    let log = log(cloud, &status);
    assert_eq!(tests_passed(&status).0, "Passed", "{status:#}\n{log}");
    let count = |field: &str| status["results"][field].as_i64().unwrap();
    let said = format!(
        "passed: {}, failed: {}, skipped: {}, total: {}",
        count("passedTests"),
        count("failedTests"),
        count("skippedTests"),
        count("totalTests")
    );
    assert!(log.contains(&said), "{said}\n{log}");
    assert_eq!(
        log.lines().filter(|line| line.ends_with(" ... ok")).count(),
        usize::try_from(count("passedTests")).unwrap()
    );
    assert!(count("passedTests") >= 5, "{status:#}\n{log}");
}

fn a_wrong_expression_is_told(cloud: &Cloud) {
    let status = run(cloud, "wrong", "a{2,1}", "15m");
    let (reason, message) = tests_passed(&status);
    assert_eq!(reason, "Error", "{status:#}");
    assert!(message.contains("spec.tests.includeRegex is not a regular expression of Python"), "{message}");
    let status = run(cloud, "none", "no_such_test", "15m");
    assert!(tests_passed(&status).1.contains("spec.tests.includeRegex fits none"), "{status:#}");
}

/// All tests of Keystone take minutes.
fn a_run_that_takes_too_long_is_ended(cloud: &Cloud) {
    let status = run(cloud, "late", "tempest", "1m");
    assert_eq!(tests_passed(&status).0, "TimedOut", "{status:#}\n{}", log(cloud, &status));
    let running = "kubectl -n cloud get pods -l app.kubernetes.io/name=tempest --no-headers \
        --field-selector=status.phase=Running -o name";
    cloud.machine.eventually(running, "");
}

fn smoke_tests_are_run_by_a_command(cloud: &Cloud) {
    let said = cloud.machine.ok("$C5C3 test --wait -n cloud --data $PWD/data --timeout 600");
    assert!(said.contains("SET    PASSED  FAILED") && said.contains("\nsmoke  "), "{said}");
    cloud.machine.says("kubectl -n cloud get tempest test-smoke -o jsonpath='{.status.lastOutcome}'", "Passed");
}

/// A Keystone that shows nobody its catalog, which its clients have from their tokens, fails the test of it and no other.
fn what_a_service_fails_at_is_named(cloud: &Cloud) {
    shows_its_catalog(cloud, "\"!\"", "403");
    let status = run(cloud, "closed", HANDFUL, "15m");
    let (reason, message) = tests_passed(&status);
    assert_eq!(reason, "Failed", "{status:#}\n{}", log(cloud, &status));
    let failures = status["failures"].as_array().unwrap();
    assert!(!failures.is_empty(), "{status:#}");
    for name in failures.iter().filter_map(Value::as_str) {
        assert!(name.starts_with("tempest.api.identity.v3.test_catalog."), "{name}\n{}", log(cloud, &status));
        assert!(message.contains(name), "{message}");
    }
    assert!(status["results"]["passedTests"].as_i64().unwrap() > 0, "{status:#}");
    shows_its_catalog(cloud, "null", "200");
}

/// Sets Keystone's policy about its catalog, and waits for what it then answers.
fn shows_its_catalog(cloud: &Cloud, policy: &str, answer: &str) {
    let it = &cloud.machine;
    let rules = format!(r#"{{"identity:get_auth_catalog": {policy}}}"#);
    let patch = format!(r#"{{"spec": {{"services": {{"keystone": {{"policyOverrides": {{"rules": {rules}}}}}}}}}}}"#);
    it.ok(&format!("kubectl -n cloud patch controlplane lab --type=merge -p '{patch}'"));
    it.write("headers", &format!("X-Auth-Token: {}\n", cloud.identity.sign_in().unwrap()));
    let address = it.ok("kubectl -n cloud get service keystone -o jsonpath='{.spec.clusterIP}'");
    let ask = format!("curl -s -o answer -w '%{{http_code}}' -H @headers http://{address}:5000/v3/auth/catalog");
    it.eventually(&ask, answer);
    // The pods of before are gone, too.
    it.ok("kubectl -n cloud rollout status deployment/keystone-api --timeout=170s");
    cloud.settle();
    it.says(&ask, answer);
}

/// Users and projects of runs are gone, also those of the run that was ended in the middle.
fn nothing_is_left(cloud: &Cloud) {
    let status = run(cloud, "last", HANDFUL, "15m");
    assert_eq!(tests_passed(&status).0, "Passed", "{status:#}\n{}", log(cloud, &status));
    for kind in ["project", "user"] {
        let names = cloud.openstack(&format!("{kind} list -f value -c Name"));
        assert!(!names.lines().any(|name| name.starts_with("tempest-")), "{names}");
    }
}
