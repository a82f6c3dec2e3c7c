//! Situations of pods and what is decided in them.

use serde_json::{Value, json};

use super::*;
use crate::memory::{Health, Hold, PodHold, Verdict};
use crate::observe::State;
use crate::observe::testing::{at, container, exited, observed, running, sandbox};
use crate::pod::testing::{deleted, pod, pod_with};

/// The plan at second 100.
fn plan(pod: &Pod, observed: &Observed, memory: &Memory) -> Plan {
    decide(Situation { pod, observed, memory, now: at(100), is_gone: false })
}

fn actions(pod: &Pod, observed: &Observed) -> Vec<Action> {
    plan(pod, observed, &Memory::default()).actions
}

fn start(name: &str, attempt: u32) -> Action {
    Action::StartContainer { name: name.to_owned(), attempt }
}

fn stop_sandbox(attempt: u32) -> Action {
    Action::StopSandbox { id: format!("sandbox-{attempt}") }
}

fn named(name: &str) -> Value {
    json!({"name": name, "image": "registry.test/app:1"})
}

fn with_init(restart_policy: &str) -> Pod {
    let sidecar = json!({"name": "proxy", "image": "registry.test/app:1", "restartPolicy": "Always",
        "startupProbe": {"exec": {"command": ["true"]}}});
    pod(json!({
        "restartPolicy": restart_policy,
        "initContainers": [named("first"), sidecar, named("second")],
        "containers": [named("app"), named("helper")],
    }))
}

fn up() -> Health {
    Health { has_started: true, is_ready: true, failed: None }
}

#[test]
fn a_new_pod_gets_a_sandbox_then_its_containers_in_order() {
    let pod = pod(json!({"containers": [named("app"), named("helper")]}));
    assert_eq!(actions(&pod, &Observed::default()), [Action::CreateSandbox { attempt: 0 }]);
    assert_eq!(actions(&pod, &observed(vec![])), [start("app", 0), start("helper", 0)]);
    assert_eq!(actions(&pod, &observed(vec![running("app")])), [start("helper", 0)]);
    assert_eq!(actions(&pod, &observed(vec![running("app"), running("helper")])), []);
}

#[test]
fn init_containers_run_one_after_the_other_and_a_sidecar_has_to_be_up_before_the_next() {
    let pod = with_init("Always");
    assert_eq!(actions(&pod, &observed(vec![])), [start("first", 0)]);
    assert_eq!(actions(&pod, &observed(vec![running("first")])), []);
    let mut there = vec![exited("first", 0, 0, 5)];
    assert_eq!(actions(&pod, &observed(there.clone())), [start("proxy", 0)]);
    there.push(running("proxy"));
    assert_eq!(actions(&pod, &observed(there.clone())), []);
    let memory = Memory { health: [("proxy-0".to_owned(), up())].into(), ..Memory::default() };
    assert_eq!(plan(&pod, &observed(there.clone()), &memory).actions, [start("second", 0)]);
    there.push(exited("second", 0, 0, 6));
    assert_eq!(plan(&pod, &observed(there), &memory).actions, [start("app", 0), start("helper", 0)]);
}

#[test]
fn a_sidecar_that_dies_is_restarted_whatever_the_policy_and_holds_up_nobody() {
    let pod = with_init("Never");
    let there = vec![exited("proxy", 0, 1, 50), exited("second", 0, 0, 6), running("app")];
    assert_eq!(actions(&pod, &observed(there)), [start("proxy", 1), start("helper", 0)]);
}

#[test]
fn an_init_container_that_fails_is_repeated_or_ends_the_pod() {
    let failed = observed(vec![exited("first", 0, 3, 5)]);
    assert_eq!(actions(&with_init("Always"), &failed), [start("first", 1)]);
    assert_eq!(actions(&with_init("OnFailure"), &failed), [start("first", 1)]);
    assert_eq!(actions(&with_init("Never"), &failed), [stop_sandbox(0)]);
}

#[test]
fn when_the_main_containers_are_done_the_sidecars_end() {
    let pod = with_init("OnFailure");
    let there = vec![running("proxy"), exited("app", 0, 0, 9), exited("helper", 1, 0, 9)];
    assert_eq!(actions(&pod, &observed(there.clone())), [Action::StopAll, stop_sandbox(0)]);
    let mut over = observed(there);
    over.sandboxes = vec![sandbox(0, false)];
    over.containers[0] = exited("proxy", 0, 137, 12);
    assert_eq!(actions(&pod, &over), [Action::CleanUp]);
    let clean = Memory { is_clean: true, ..Memory::default() };
    let plan = plan(&pod, &over, &clean);
    assert_eq!((plan.actions.len(), plan.is_ending), (0, true));
}

#[test]
fn restart_policies() {
    let policies = |code| {
        ["Always", "OnFailure", "Never"].map(|policy| {
            let pod = pod(json!({"restartPolicy": policy}));
            actions(&pod, &observed(vec![exited("app", 0, code, 50)]))
        })
    };
    let (again, over) = (vec![start("app", 1)], vec![stop_sandbox(0)]);
    assert_eq!(policies(0), [again.clone(), over.clone(), over.clone()]);
    assert_eq!(policies(1), [again.clone(), again, over]);
}

#[test]
fn a_container_that_keeps_crashing_waits_longer_each_time() {
    let mut memory = Memory::default();
    memory.crashes.tried("app", at(95), at(95));
    let plan = plan(&pod(json!({})), &observed(vec![exited("app", 1, 1, 96)]), &memory);
    assert_eq!(plan.actions, []);
    assert_eq!(plan.crash_loops["app"], "back-off 10s restarting failed container=app pod=web_shop(u-1)");
    assert_eq!(plan.wake, Some(at(106)));
}

#[test]
fn a_container_that_could_not_be_started_is_held_until_its_time() {
    let hold =
        |until| Hold { reason: "ErrImagePull", message: String::new(), until: at(until), ends_with_change: false };
    let held = Memory { holds: [("app".to_owned(), hold(110))].into(), ..Memory::default() };
    let plan_held = plan(&pod(json!({})), &observed(vec![]), &held);
    assert_eq!((plan_held.actions, plan_held.wake), (vec![], Some(at(110))));
    let over = Memory { holds: [("app".to_owned(), hold(100))].into(), ..Memory::default() };
    assert_eq!(plan(&pod(json!({})), &observed(vec![]), &over).actions, [start("app", 0)]);
    let pod_hold = Some(PodHold { until: at(103), failures: 1, ends_with_change: false });
    let plan = plan(&pod(json!({})), &Observed::default(), &Memory { pod_hold, ..Memory::default() });
    assert_eq!((plan.actions, plan.wake), (vec![], Some(at(103))));
}

#[test]
fn what_was_held_before_the_clock_was_set_back_is_tried() {
    let until = at(100) + crate::back_off::LONGEST + std::time::Duration::from_secs(1);
    let hold = Hold { reason: "ErrImagePull", message: String::new(), until, ends_with_change: false };
    let held = Memory { holds: [("app".to_owned(), hold)].into(), ..Memory::default() };
    assert_eq!(plan(&pod(json!({})), &observed(vec![]), &held).actions, [start("app", 0)]);
    let pod_hold = Some(PodHold { until, failures: 1, ends_with_change: false });
    let plan = plan(&pod(json!({})), &Observed::default(), &Memory { pod_hold, ..Memory::default() });
    assert_ne!(plan.actions, []);
}

#[test]
fn an_unhealthy_or_changed_container_is_stopped() {
    for failed in [Failed::Liveness, Failed::Startup] {
        let health = Health { failed: Some(failed), ..up() };
        let memory = Memory { health: [("app-0".to_owned(), health)].into(), ..Memory::default() };
        let stop = Action::StopContainer { id: "app-0".to_owned(), why: Why::Unhealthy(failed) };
        assert_eq!(plan(&pod(json!({})), &observed(vec![running("app")]), &memory).actions, [stop]);
    }
    let changed =
        pod(json!({"restartPolicy": "Never", "containers": [{"name": "app", "image": "registry.test/app:2"}]}));
    let stop = Action::StopContainer { id: "app-0".to_owned(), why: Why::Changed };
    assert_eq!(actions(&changed, &observed(vec![running("app")])), [stop]);
    assert_eq!(actions(&changed, &observed(vec![exited("app", 0, 143, 50)])), [start("app", 1)]);
}

#[test]
fn a_lost_sandbox_is_replaced_and_everything_starts_anew_in_it() {
    let pod = with_init("Always");
    let mut lost = observed(vec![running("app")]);
    lost.sandboxes = vec![sandbox(0, false)];
    assert_eq!(actions(&pod, &lost), [Action::StopAll]);
    lost.containers = vec![exited("app", 0, 137, 50), exited("first", 0, 0, 3)];
    assert_eq!(actions(&pod, &lost), [stop_sandbox(0), Action::CreateSandbox { attempt: 1 }]);
    lost.sandboxes.insert(0, sandbox(1, true));
    assert_eq!(actions(&pod, &lost), [start("first", 1)]);
}

#[test]
fn a_pod_that_never_restarts_is_over_when_its_sandbox_is_lost() {
    let mut lost = observed(vec![exited("app", 0, 255, 50)]);
    lost.sandboxes = vec![sandbox(0, false)];
    assert_eq!(actions(&pod(json!({"restartPolicy": "Never"})), &lost), [Action::CleanUp]);
}

#[test]
fn a_deleted_pod_is_stopped_cleaned_up_and_released() {
    let pod = deleted(&pod(json!({})), 30);
    assert_eq!(actions(&pod, &observed(vec![running("app")])), [Action::StopAll, stop_sandbox(0)]);
    let mut stopped = observed(vec![exited("app", 0, 0, 50)]);
    stopped.sandboxes = vec![sandbox(0, false)];
    assert_eq!(actions(&pod, &stopped), [Action::CleanUp]);
    let clean = Memory { is_clean: true, ..Memory::default() };
    assert_eq!(plan(&pod, &stopped, &clean).actions, [Action::Release]);
    let gone = Situation { pod: &pod, observed: &stopped, memory: &clean, now: at(100), is_gone: true };
    assert_eq!(decide(gone).actions, [Action::Release]);
}

#[test]
fn a_pod_past_its_deadline_or_condemned_or_over_ends() {
    let status = json!({"startTime": at(0).to_string()});
    let in_time = pod_with(json!({"activeDeadlineSeconds": 101}), status.clone());
    assert_eq!(plan(&in_time, &observed(vec![running("app")]), &Memory::default()).wake, Some(at(101)));
    let late = pod_with(json!({"activeDeadlineSeconds": 100}), status);
    assert_eq!(actions(&late, &observed(vec![running("app")])), [Action::StopAll, stop_sandbox(0)]);
    let over = pod_with(json!({}), json!({"phase": "Failed"}));
    assert_eq!(actions(&over, &observed(vec![])), [stop_sandbox(0)]);
    let verdict = Some(Verdict { reason: "OutOfcpu".to_owned(), message: String::new() });
    let plan = plan(&pod(json!({})), &Observed::default(), &Memory { verdict, ..Memory::default() });
    assert!(plan.is_ending);
}

#[test]
fn restarts_are_counted_on_from_what_the_api_knows() {
    let known = json!({"containerStatuses": [{"name": "app", "image": "", "imageID": "", "ready": true,
        "restartCount": 4, "containerID": "containerd://x"}]});
    assert_eq!(actions(&pod_with(json!({}), known), &observed(vec![])), [start("app", 5)]);
}

#[test]
fn only_the_last_two_runs_are_kept() {
    let runs = vec![running("app"), exited("app", 2, 1, 9), exited("app", 1, 1, 8), exited("app", 0, 1, 7)];
    let removed = ["app-1", "app-0"].map(|id| Action::RemoveContainer { id: id.to_owned() });
    assert_eq!(actions(&pod(json!({})), &observed(runs)), removed);
    let mut two = observed(vec![running("app")]);
    two.sandboxes = vec![sandbox(1, true), sandbox(0, false)];
    two.containers[0].sandbox = "sandbox-1".to_owned();
    assert_eq!(actions(&pod(json!({})), &two), [Action::RemoveSandbox { id: "sandbox-0".to_owned() }]);
}

#[test]
fn a_start_that_was_cut_short_is_begun_again() {
    let there = observed(vec![container("app", 0, State::Created)]);
    let removed = Action::RemoveContainer { id: "app-0".to_owned() };
    assert_eq!(actions(&pod(json!({})), &there), [removed, start("app", 0)]);
}

fn with_debugger(status: Value) -> Pod {
    let spec = json!({
        "restartPolicy": "Always", "initContainers": [named("first")], "containers": [named("app")],
        "ephemeralContainers": [{"name": "debugger", "image": "registry.test/app:1", "targetContainerName": "app"}],
    });
    pod_with(spec, status)
}

#[test]
fn an_ephemeral_container_starts_once_and_also_beside_init_containers() {
    let pod = with_debugger(Value::Null);
    assert_eq!(actions(&pod, &observed(vec![])), [start("debugger", 0), start("first", 0)]);
    assert_eq!(actions(&pod, &observed(vec![running("first"), running("debugger")])), []);
    let there = vec![exited("first", 0, 0, 5), running("app"), exited("debugger", 0, 1, 90)];
    assert_eq!(actions(&pod, &observed(there)), []);
    let cut_short = container("debugger", 0, State::Created);
    let again = [Action::RemoveContainer { id: "debugger-0".to_owned() }, start("debugger", 0)];
    assert_eq!(actions(&pod, &observed(vec![running("app"), cut_short])), again);
    let ran = json!({"ephemeralContainerStatuses": [{"name": "debugger", "image": "", "imageID": "", "ready": false,
        "restartCount": 0, "containerID": "containerd://gone"}]});
    assert_eq!(actions(&with_debugger(ran), &observed(vec![running("app")])), []);
}

#[test]
fn an_ephemeral_container_does_not_keep_its_pod_running() {
    let spec =
        json!({"restartPolicy": "Never", "containers": [named("app")], "ephemeralContainers": [named("debugger")]});
    let there = observed(vec![exited("app", 0, 0, 5), running("debugger")]);
    let ending = plan(&pod(spec), &there, &Memory::default());
    assert!(ending.is_ending);
    assert_eq!(ending.actions, [Action::StopAll, stop_sandbox(0)]);
}
