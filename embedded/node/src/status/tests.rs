//! Pods, and the statuses that users know.

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};
use serde_json::{Value, json};

use super::*;
use crate::memory::{Health, Hold};
use crate::observe::testing::{at, exited, observed, running, sandbox};
use crate::observe::{Container, Exit, State};
use crate::pod::hash;
use crate::pod::testing::{pod, pod_with};

struct Case {
    pod: Pod,
    observed: Observed,
    memory: Memory,
    crash_loops: BTreeMap<String, String>,
    is_ending: bool,
}

impl Case {
    fn new(spec: Value, containers: Vec<Container>) -> Self {
        Self {
            pod: pod(spec),
            observed: observed(containers),
            memory: Memory::default(),
            crash_loops: BTreeMap::new(),
            is_ending: false,
        }
    }

    fn status(&self) -> PodStatus {
        status(Facts {
            pod: &self.pod,
            observed: &self.observed,
            memory: &self.memory,
            last: None,
            crash_loops: &self.crash_loops,
            is_ending: self.is_ending,
            host_ip: "10.123.0.11",
            now: at(100),
        })
    }

    fn phase(&self) -> String {
        self.status().phase.unwrap()
    }

    fn ended(mut self) -> Self {
        self.is_ending = true;
        self.observed.sandboxes = vec![sandbox(0, false)];
        self
    }
}

/// `waiting ContainerCreating`, `running`, `terminated Error`.
fn state(status: &ContainerStatus) -> String {
    let state = status.state.clone().unwrap_or_default();
    match (state.waiting, state.running, state.terminated) {
        (Some(waiting), _, _) => format!("waiting {}", waiting.reason.unwrap_or_default()),
        (_, Some(_), _) => "running".to_owned(),
        (_, _, Some(ended)) => format!("terminated {} {}", ended.reason.unwrap_or_default(), ended.exit_code),
        _ => "none".to_owned(),
    }
}

fn app(status: &PodStatus) -> ContainerStatus {
    status.container_statuses.as_ref().unwrap()[0].clone()
}

fn condition(status: &PodStatus, name: &str) -> String {
    let all = status.conditions.as_ref().unwrap();
    let found = all.iter().find(|condition| condition.type_ == name).unwrap();
    let rest = [&found.reason, &found.message].map(|part| part.clone().unwrap_or_default());
    [found.status.clone(), rest.join(" ")].join(" ").trim().to_owned()
}

#[test]
fn a_pod_that_begins_is_pending_and_says_that_its_container_is_being_created() {
    let mut case = Case::new(json!({}), vec![]);
    let status = case.status();
    assert_eq!((case.phase().as_str(), state(&app(&status)).as_str()), ("Pending", "waiting ContainerCreating"));
    assert_eq!(status.start_time.as_ref().unwrap().0, at(100));
    assert_eq!((status.host_ip.as_deref(), status.pod_ip.as_deref()), (Some("10.123.0.11"), Some("10.124.1.7")));
    assert_eq!(condition(&status, "PodReadyToStartContainers"), "True");
    assert_eq!(condition(&status, "Ready"), "False ContainersNotReady containers with unready status: [app]");
    case.observed = Observed::default();
    assert_eq!(condition(&case.status(), "PodReadyToStartContainers"), "False");
}

#[test]
fn a_running_pod_is_ready_when_its_probe_says_so() {
    let probe = json!({"exec": {"command": ["true"]}});
    let spec = json!({"containers": [{"name": "app", "image": "a", "readinessProbe": probe, "startupProbe": probe}]});
    let mut case = Case::new(spec, vec![running("app")]);
    let flags = |case: &Case| {
        let app = app(&case.status());
        (app.started, app.ready, condition(&case.status(), "Ready").starts_with("True"))
    };
    assert_eq!((case.phase().as_str(), flags(&case)), ("Running", (Some(false), false, false)));
    case.memory.health.insert("app-0".to_owned(), Health { has_started: true, ..Health::default() });
    assert_eq!(flags(&case), (Some(true), false, false));
    case.memory.health.insert("app-0".to_owned(), Health { has_started: true, is_ready: true, failed: None });
    assert_eq!(flags(&case), (Some(true), true, true));
    assert_eq!(flags(&Case::new(json!({}), vec![running("app")])), (Some(true), true, true));
}

#[test]
fn the_reason_why_a_container_waits_is_shown_with_its_last_end() {
    let mut case = Case::new(json!({}), vec![exited("app", 3, 1, 50), exited("app", 2, 2, 40)]);
    case.crash_loops.insert("app".to_owned(), "back-off 40s".to_owned());
    let app = app(&case.status());
    assert_eq!((state(&app).as_str(), app.restart_count), ("waiting CrashLoopBackOff", 3));
    let last = app.last_state.unwrap().terminated.unwrap();
    assert_eq!((last.exit_code, last.container_id.as_deref()), (1, Some("containerd://app-3")));
    assert_eq!(case.phase(), "Running");
}

#[test]
fn a_hold_names_its_reason() {
    let mut case = Case::new(json!({}), vec![]);
    let hold =
        Hold { reason: "ErrImagePull", message: "no such host".to_owned(), until: at(110), ends_with_change: false };
    case.memory.holds.insert("app".to_owned(), hold);
    let app = app(&case.status());
    assert_eq!(state(&app), "waiting ErrImagePull");
    assert_eq!(app.state.unwrap().waiting.unwrap().message.as_deref(), Some("no such host"));
    assert_eq!(case.phase(), "Pending");
}

#[test]
fn a_container_whose_start_failed_is_over_if_it_is_never_restarted() {
    let containers = json!([{"name": "app", "image": "a"}, {"name": "side", "image": "b"}]);
    let status = |policy: &str| {
        let spec = json!({"restartPolicy": policy, "containers": containers});
        let mut case = Case::new(spec, vec![exited("app", 0, 128, 5), running("side")]);
        for run in &mut case.observed.containers {
            run.hash = hash(case.pod.container(&run.name).unwrap());
        }
        let hold = Hold {
            reason: "RunContainerError",
            message: "no such file".to_owned(),
            until: at(110),
            ends_with_change: false,
        };
        case.memory.holds.insert("app".to_owned(), hold);
        state(&app(&case.status()))
    };
    assert_eq!(status("Always"), "waiting RunContainerError");
    assert_eq!(status("Never"), "terminated Error 128");
}

#[test]
fn an_end_is_shown_with_its_reason_and_the_end_before() {
    let exit = Exit {
        code: 137,
        reason: "OOMKilled".to_owned(),
        message: "last words".to_owned(),
        started: Some(at(1)),
        finished: at(2),
    };
    let mut container = exited("app", 1, 137, 2);
    container.state = State::Exited(exit);
    let case = Case::new(json!({"restartPolicy": "Never"}), vec![container, exited("app", 0, 0, 1)]).ended();
    let app = app(&case.status());
    assert_eq!(state(&app), "terminated OOMKilled 137");
    assert_eq!(app.state.unwrap().terminated.unwrap().message.as_deref(), Some("last words"));
    assert_eq!(app.last_state.unwrap().terminated.unwrap().exit_code, 0);
    assert_eq!(case.phase(), "Failed");
}

#[test]
fn phases_of_pods_that_end() {
    let never = json!({"restartPolicy": "Never"});
    let succeeded = Case::new(never.clone(), vec![exited("app", 0, 0, 5)]).ended();
    assert_eq!(succeeded.phase(), "Succeeded");
    let status = succeeded.status();
    assert_eq!(condition(&status, "Ready"), "False PodCompleted");
    assert_eq!(condition(&status, "Initialized"), "True PodCompleted");
    assert_eq!(Case::new(never, vec![exited("app", 0, 2, 5)]).ended().phase(), "Failed");
    // Between the end of a container and its restart, or the end of its sidecars, the pod runs.
    assert_eq!(Case::new(json!({}), vec![exited("app", 0, 0, 5)]).phase(), "Running");
    // Deleted: the containers of a pod that always restarts have ended, too.
    assert_eq!(Case::new(json!({}), vec![exited("app", 0, 0, 5)]).ended().phase(), "Succeeded");
}

#[test]
fn a_verdict_fails_the_pod_once_nothing_runs() {
    let verdict = Verdict { reason: "OutOfcpu".to_owned(), message: "too much".to_owned() };
    let mut case = Case::new(json!({}), vec![running("app")]);
    (case.memory.verdict, case.is_ending) = (Some(verdict), true);
    assert_eq!(case.phase(), "Running");
    case.observed = Observed::default();
    let status = case.status();
    assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("OutOfcpu")));
}

fn with_init() -> Value {
    let named = |name: &str| json!({"name": name, "image": "registry.test/app:1"});
    let mut sidecar = named("proxy");
    sidecar["restartPolicy"] = "Always".into();
    json!({"restartPolicy": "Never", "initContainers": [named("first"), sidecar], "containers": [named("app")]})
}

#[test]
fn a_pod_initializes() {
    let mut case = Case::new(with_init(), vec![running("first")]);
    let status = case.status();
    assert_eq!(state(&app(&status)), "waiting PodInitializing");
    assert_eq!(case.phase(), "Pending");
    let pending = "False ContainersNotInitialized containers with incomplete status: [first proxy]";
    assert_eq!(condition(&status, "Initialized"), pending);
    case.observed = observed(vec![exited("first", 0, 0, 3), running("proxy")]);
    let status = case.status();
    let inits = status.init_container_statuses.as_ref().unwrap();
    assert_eq!(
        inits.iter().map(|init| (init.ready, init.started)).collect::<Vec<_>>(),
        [(true, Some(false)), (true, Some(true))]
    );
    assert_eq!(condition(&status, "Initialized"), "True");
    case.observed = observed(vec![exited("first", 0, 1, 3)]);
    assert_eq!(case.ended().phase(), "Failed");
}

#[test]
fn readiness_gates_hold_the_pod_back() {
    let conditions = json!({"conditions": [{"type": "shop.test/open", "status": "False"}]});
    let gates =
        json!({"readinessGates": [{"conditionType": "shop.test/open"}, {"conditionType": "shop.test/staffed"}]});
    let mut case = Case::new(json!({}), vec![running("app")]);
    case.pod = pod_with(gates, conditions);
    let status = case.status();
    assert_eq!(condition(&status, "ContainersReady"), "True");
    let wanted = "False ReadinessGatesNotReady the status of pod readiness gate \"shop.test/open\" is not \"True\", but \
                  False, corresponding condition of pod readiness gate \"shop.test/staffed\" does not exist.";
    assert_eq!(condition(&status, "Ready"), wanted);
    assert_eq!(status.conditions.unwrap().len(), 6);
}

#[test]
fn a_condition_keeps_its_time_while_it_stays_the_same() {
    let old = json!({"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(5).to_string()}]});
    let mut case = Case::new(json!({}), vec![running("app")]);
    case.pod = pod_with(json!({}), old);
    let since = |case: &Case| {
        let all = case.status().conditions.unwrap();
        all.into_iter().find(|condition| condition.type_ == "Ready").unwrap().last_transition_time.unwrap().0
    };
    assert_eq!(since(&case), at(5));
    case.observed = observed(vec![exited("app", 0, 1, 50)]);
    assert_eq!(since(&case), at(100));
}

#[test]
fn a_status_and_each_of_its_conditions_say_which_generation_they_are_about() {
    let old = json!({"observedGeneration": 1, "conditions": [
        {"type": "Ready", "status": "True", "observedGeneration": 1},
        {"type": "PodScheduled", "status": "True", "observedGeneration": 1},
        {"type": "shop.test/open", "status": "True", "observedGeneration": 1},
    ]});
    let mut case = Case::new(json!({}), vec![running("app")]);
    let mut object = pod_with(json!({}), old).object().clone();
    object.metadata.generation = Some(4);
    case.pod = Pod::new(object.into()).unwrap();
    let status = case.status();
    assert_eq!(status.observed_generation, Some(4));
    for condition in status.conditions.unwrap() {
        let is_foreign = condition.type_ == "shop.test/open";
        assert_eq!(condition.observed_generation, Some(if is_foreign { 1 } else { 4 }), "{}", condition.type_);
    }
}

#[test]
fn a_container_that_was_lost_says_so() {
    let old = json!({"containerStatuses": [{"name": "app", "image": "a", "imageID": "", "ready": true,
        "restartCount": 1, "containerID": "containerd://x", "state": {"running": {}}}]});
    let mut case = Case::new(json!({}), vec![]);
    case.pod = pod_with(json!({}), old);
    let app = app(&case.status());
    assert_eq!((state(&app).as_str(), app.restart_count), ("waiting ContainerCreating", 2));
    assert_eq!(app.last_state.unwrap().terminated.unwrap().reason.as_deref(), Some("ContainerStatusUnknown"));
}

#[test]
fn an_ephemeral_container_has_a_status_and_the_pod_is_as_ready_as_without_it() {
    let spec = json!({"ephemeralContainers": [{"name": "debugger", "image": "registry.test/app:1"}]});
    let of = |containers| Case::new(spec.clone(), containers).status();
    let debugger = |status: &PodStatus| status.ephemeral_container_statuses.clone().unwrap().remove(0);
    let waiting = of(vec![running("app")]);
    assert_eq!(
        (state(&debugger(&waiting)), waiting.phase.as_deref()),
        ("waiting ContainerCreating".to_owned(), Some("Running"))
    );
    let both = of(vec![running("app"), running("debugger")]);
    let shown = debugger(&both);
    assert_eq!((state(&shown), shown.ready, shown.started), ("running".to_owned(), false, None));
    let failed = of(vec![running("app"), exited("debugger", 0, 3, 50)]);
    assert_eq!(state(&debugger(&failed)), "terminated Error 3");
    let ready = failed.conditions.unwrap().into_iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert_eq!((ready.status.as_str(), failed.phase.as_deref()), ("True", Some("Running")));
    assert_eq!(Case::new(json!({}), vec![]).status().ephemeral_container_statuses, None);
}
