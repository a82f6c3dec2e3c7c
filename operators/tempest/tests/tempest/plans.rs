//! Plans in full, and what becomes of runs.

use c5c3_stage::{file, waits};
use serde_json::{Value, json};

use crate::world::{World, job, pod, tempest};

const SMALL: &str = include_str!("../../../../examples/tempest/tempest-small.yaml");
const FULL: &str = include_str!("../../../../examples/tempest/tempest-full.yaml");
const TOLD: &str = r#"{"passed":7,"failed":2,"skipped":1,"total":10,"duration":60,"failures":["tempest.api.identity.a","tempest.api.image.b"]}"#;

fn example(text: &str) -> Value {
    let example: Value = serde_saphyr::from_str(text).unwrap();
    tempest(&example["spec"])
}

/// A Tempest that was asked for a run.
fn asked(request: &str) -> Value {
    let mut object = tempest(&json!({}));
    object["metadata"]["annotations"] = json!({"tempest.openstack.c5c3.io/run-now": request});
    object
}

fn jobs(plan: &c5c3_kit::Plan) -> Vec<String> {
    plan.children()
        .map(c5c3_kit::Child::reference)
        .filter(|one| one.resource.kind == "Job")
        .map(|one| one.name)
        .collect()
}

fn is_suspended(plan: &c5c3_kit::Plan) -> Value {
    plan.children().find(|child| child.resource.kind == "CronJob").unwrap().object.data["spec"]["suspend"].clone()
}

#[test]
fn the_plan_of_a_small_tempest() {
    let plan = World::new().plan(&example(SMALL)).unwrap();
    let secret = plan.children().map(c5c3_kit::Child::reference).find(|one| one.resource.kind == "Secret").unwrap();
    // The hashes of the runner's files change with each line of them.
    let golden = plan.golden().replace(&secret.name, "gate-config-HASH");
    let lines: Vec<&str> = golden.lines().filter(|line| !line.contains(".py\": \"<secret")).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn the_files_of_a_full_tempest() {
    let mut full = example(FULL);
    full["spec"]["dependsOn"] = json!([]);
    let plan = World::new().plan(&full).unwrap();
    let text: Vec<String> =
        ["tempest.conf", "settings.json"].map(|name| format!("== {name}\n{}", file(&plan, "gate-config", name))).into();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn no_secret_is_in_anything_but_a_secret() {
    let text = World::new().plan(&example(SMALL)).unwrap().golden();
    assert!(!text.contains("app$ecret") && !text.contains("YXBwJGVjcmV0"));
}

#[test]
fn what_is_missing_is_waited_for_by_name() {
    let dependencies = json!([{"kind": "Nova", "name": "nova"}, {"kind": "Keystone", "name": "keystone"}]);
    let world = World::new().without("keystone").without("tempest-app-credential-secret");
    let plan = world.plan(&tempest(&json!({"dependsOn": dependencies}))).unwrap();
    insta::assert_snapshot!(waits(&plan));
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let wrong = tempest(&json!({
        "extraConfig": {"auth": {"admin_password": "x"}, "identity": {"uri_v3": "http://elsewhere"}},
    }));
    insta::assert_snapshot!(World::new().plan(&wrong).unwrap_err());
    let short = tempest(&json!({"tests": {"timeout": "10s", "includeRegex": "("}}));
    let said = World::new().plan(&short).unwrap_err();
    assert!(said.contains("spec.tests.timeout") && said.contains("spec.tests.includeRegex"), "{said}");
}

#[test]
fn the_results_of_the_last_run_are_those_that_its_pod_left() {
    let world = World::new()
        .run(
            job("gate-1", Some(("Complete", "2026-01-02T02:10:00Z", ""))),
            Some(pod("gate-1", r#"{"passed":1,"total":1}"#)),
        )
        .run(
            job("gate-2", Some(("Failed", "2026-01-02T02:45:12Z", "BackoffLimitExceeded"))),
            Some(pod("gate-2", TOLD)),
        );
    let object = tempest(&json!({}));
    let status = world.plan(&object).unwrap().status;
    assert_eq!(status["lastJob"], "gate-2");
    assert_eq!(status["lastRun"], "2026-01-02T02:00:00Z");
    assert_eq!(status["lastDuration"], "45m12s");
    assert_eq!(status["results"], json!({"passedTests": 7, "failedTests": 2, "skippedTests": 1, "totalTests": 10}));
    let (is, reason, message) = world.tests_passed(&object);
    assert_eq!((is.as_str(), reason.as_str()), ("False", "Failed"));
    assert_eq!(
        message,
        "2 of 10 tests failed: tempest.api.identity.a, tempest.api.image.b; kubectl logs job/gate-2 -n cloud"
    );
}

#[test]
fn what_is_known_of_a_run_stays_when_its_pod_and_its_job_are_gone() {
    let mut object = tempest(&json!({}));
    let status = json!({"lastRun": "2026-01-02T02:00:00Z", "lastJob": "gate-2", "lastOutcome": "Passed",
        "results": {"passedTests": 3, "failedTests": 0, "skippedTests": 1, "totalTests": 4}});
    object["status"] = status.clone();
    let without_pod = World::new().run(job("gate-2", Some(("Failed", "2026-01-02T02:45:12Z", ""))), None);
    for world in [World::new(), without_pod] {
        let said = world.plan(&object).unwrap().status;
        assert_eq!((&said["results"], &said["lastJob"]), (&status["results"], &status["lastJob"]));
        let (is, _, message) = world.tests_passed(&object);
        assert_eq!((is.as_str(), message.as_str()), ("True", "3 tests passed, 1 were skipped"));
    }
}

#[test]
fn a_run_that_takes_too_long_has_failed() {
    let world = World::new().run(job("gate-1", Some(("Failed", "2026-01-02T06:00:00Z", "DeadlineExceeded"))), None);
    let (is, reason, message) = world.tests_passed(&tempest(&json!({})));
    assert_eq!((is.as_str(), reason.as_str()), ("False", "TimedOut"));
    assert!(message.contains("14400 s"), "{message}");
    let (is, reason, _) = World::new().tests_passed(&tempest(&json!({})));
    assert_eq!((is.as_str(), reason.as_str()), ("Unknown", "NoRun"));
}

#[test]
fn a_request_is_one_job_that_no_scheduled_run_joins() {
    let (world, object) = (World::new(), asked("once"));
    let plan = world.plan(&object).unwrap();
    let names = jobs(&plan);
    assert_eq!((names.len(), is_suspended(&plan)), (1, json!(true)));
    assert_ne!(names, jobs(&world.plan(&asked("twice")).unwrap()));
    // It runs.
    let running = World::new().run(job(&names[0], None), None);
    let plan = running.plan(&object).unwrap();
    assert_eq!((jobs(&plan), is_suspended(&plan)), (names.clone(), json!(true)));
    assert_eq!((&plan.status["activeJob"], plan.status.get("handledRequest")), (&json!(names[0]), None));
    // It has ended: its Job stays for its log, and scheduled runs go on.
    let done = job(&names[0], Some(("Complete", "2026-01-02T02:10:00Z", "")));
    let plan = World::new().run(done, Some(pod(&names[0], TOLD))).plan(&object).unwrap();
    assert_eq!((jobs(&plan), is_suspended(&plan)), (names, json!(false)));
    assert_eq!(plan.status["handledRequest"], "once");
    // Its Job was removed: it is not run again.
    let mut handled = object;
    handled["status"] = json!({"handledRequest": "once"});
    assert!(jobs(&World::new().plan(&handled).unwrap()).is_empty());
}

#[test]
fn a_request_waits_for_a_run_that_is_going_on() {
    let world = World::new().run(job("gate-29", None), None);
    let plan = world.plan(&asked("once")).unwrap();
    assert!(jobs(&plan).is_empty() && is_suspended(&plan) == false);
    assert_eq!(plan.status["activeJob"], "gate-29");
}
