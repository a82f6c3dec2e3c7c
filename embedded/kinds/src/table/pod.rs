//! The row of a pod: what its containers are doing, in a word.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::duration::human_duration;
use super::format::{NONE, age, condition, is_true, name, text_or};
use crate::read::{bool_at, int_at, is_empty_at, list_at, str_at};

pub(super) fn pod(pod: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let seen = Seen::of(pod);
    let total =
        list_at(spec, "containers").len() + list_at(spec, "initContainers").iter().filter(|c| is_sidecar(c)).count();
    vec![
        name(pod),
        json!(format!("{}/{total}", seen.ready)),
        json!(seen.reason),
        json!(seen.restarts(now)),
        age(pod, now),
        json!(text_or(status, "podIP", NONE)),
        json!(text_or(spec, "nodeName", NONE)),
        json!(text_or(status, "nominatedNodeName", NONE)),
        json!(gates(pod)),
    ]
}

/// An init container that keeps running beside the others.
fn is_sidecar(container: &Value) -> bool {
    str_at(container, "restartPolicy") == "Always"
}

fn gates(pod: &Value) -> String {
    let gates = list_at(&pod["spec"], "readinessGates");
    let open = gates.iter().filter(|gate| is_true(pod, str_at(gate, "conditionType"))).count();
    if gates.is_empty() { NONE.to_owned() } else { format!("{open}/{}", gates.len()) }
}

/// What can be read from the statuses of a pod's containers.
#[derive(Default)]
struct Seen {
    reason: String,
    ready: usize,
    restarts: i64,
    /// When a container last ended before it was restarted.
    last_end: Option<Timestamp>,
    sidecar_restarts: i64,
    sidecar_last_end: Option<Timestamp>,
}

impl Seen {
    fn of(pod: &Value) -> Self {
        let status = &pod["status"];
        let mut seen =
            Self { reason: text_or(status, "reason", str_at(status, "phase")).to_owned(), ..Self::default() };
        let gated = condition(pod, "PodScheduled").is_some_and(|c| str_at(c, "reason") == "SchedulingGated");
        if gated {
            "SchedulingGated".clone_into(&mut seen.reason);
        }
        let initializing = seen.init_containers(pod);
        if !initializing || is_true(pod, "Initialized") {
            seen.containers(pod);
        }
        let deleted = !is_empty_at(&pod["metadata"], "deletionTimestamp");
        if deleted && str_at(status, "reason") == "NodeLost" {
            "Unknown".clone_into(&mut seen.reason);
        } else if deleted && !matches!(str_at(status, "phase"), "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut seen.reason);
        }
        seen
    }

    /// Looks at init containers in order and stops at the first that is not through. Whether there is one.
    fn init_containers(&mut self, pod: &Value) -> bool {
        let declared = list_at(&pod["spec"], "initContainers");
        let statuses = list_at(&pod["status"], "initContainerStatuses");
        for (at, status) in statuses.iter().enumerate() {
            let sidecar = declared.iter().any(|c| str_at(c, "name") == str_at(status, "name") && is_sidecar(c));
            self.restarts += int_at(status, "restartCount");
            self.last_end = self.last_end.max(last_end(status));
            if sidecar {
                self.sidecar_restarts += int_at(status, "restartCount");
                self.sidecar_last_end = self.sidecar_last_end.max(last_end(status));
            }
            let state = &status["state"];
            if let Some(terminated) = state.get("terminated") {
                if int_at(terminated, "exitCode") == 0 {
                    continue;
                }
                self.reason = format!("Init:{}", ended(terminated));
            } else if sidecar && bool_at(status, "started") {
                self.ready += usize::from(bool_at(status, "ready"));
                continue;
            } else {
                self.reason = match str_at(&state["waiting"], "reason") {
                    "" | "PodInitializing" => format!("Init:{at}/{}", declared.len()),
                    reason => format!("Init:{reason}"),
                };
            }
            return true;
        }
        false
    }

    /// Looks at containers from the last to the first, so that the first has the last word.
    fn containers(&mut self, pod: &Value) {
        self.restarts = self.sidecar_restarts;
        self.last_end = self.sidecar_last_end;
        let mut running = false;
        for status in list_at(&pod["status"], "containerStatuses").iter().rev() {
            self.restarts += int_at(status, "restartCount");
            self.last_end = self.last_end.max(last_end(status));
            let state = &status["state"];
            let waiting = str_at(&state["waiting"], "reason");
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if let Some(terminated) = state.get("terminated") {
                self.reason = ended(terminated);
            } else if bool_at(status, "ready") && state.get("running").is_some() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && running {
            if is_true(pod, "Ready") { "Running" } else { "NotReady" }.clone_into(&mut self.reason);
        }
    }

    fn restarts(&self, now: Timestamp) -> String {
        match self.last_end {
            Some(end) if self.restarts > 0 => {
                format!("{} ({} ago)", self.restarts, human_duration(now.duration_since(end)))
            }
            _ => self.restarts.to_string(),
        }
    }
}

fn last_end(status: &Value) -> Option<Timestamp> {
    status["lastState"]["terminated"]["finishedAt"].as_str()?.parse().ok()
}

/// Why a container ended: its reason, or its signal, or its exit code.
fn ended(terminated: &Value) -> String {
    match (str_at(terminated, "reason"), int_at(terminated, "signal")) {
        ("", 0) => format!("ExitCode:{}", int_at(terminated, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    fn shown(spec: &Value, status: &Value) -> String {
        let metadata = json!({"name": "oak", "creationTimestamp": "2024-05-01T11:55:00Z"});
        row("", "pods", &json!({"metadata": metadata, "spec": spec, "status": status}))
    }

    #[test]
    fn a_running_pod_shows_its_ready_containers_and_its_last_restart() {
        let spec = json!({"nodeName": "n1", "containers": [{"name": "a"}, {"name": "b"}]});
        let status = json!({"phase": "Running", "podIP": "10.0.0.9", "containerStatuses": [
            {"name": "a", "ready": true, "restartCount": 2, "state": {"running": {}},
             "lastState": {"terminated": {"finishedAt": "2024-05-01T11:57:00Z"}}},
            {"name": "b", "ready": false, "restartCount": 0, "state": {"running": {}}},
        ]});
        assert_eq!(shown(&spec, &status), "oak | 1/2 | Running | 2 (3m ago) | 5m | 10.0.0.9 | n1 | <none> | <none>");
    }

    #[test]
    fn a_container_that_crashes_gives_the_pod_its_status() {
        let spec = json!({"containers": [{"name": "a"}]});
        let with = |state: Value| {
            let status = json!({"phase": "Running", "containerStatuses": [{"name": "a", "state": state}]});
            shown(&spec, &status).split(" | ").nth(2).unwrap().to_owned()
        };
        assert_eq!(with(json!({"waiting": {"reason": "CrashLoopBackOff"}})), "CrashLoopBackOff");
        assert_eq!(with(json!({"terminated": {"exitCode": 3}})), "ExitCode:3");
        assert_eq!(with(json!({"terminated": {"exitCode": 0, "reason": "Completed"}})), "Completed");
    }

    #[test]
    fn init_containers_are_counted_until_they_are_through() {
        let spec = json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "j"}]});
        let with = |second: Value| {
            let status = json!({"phase": "Pending", "initContainerStatuses": [
                {"name": "i", "state": {"terminated": {"exitCode": 0}}}, {"name": "j", "state": second},
            ]});
            shown(&spec, &status).split(" | ").nth(2).unwrap().to_owned()
        };
        assert_eq!(with(json!({"running": {}})), "Init:1/2");
        assert_eq!(with(json!({"waiting": {"reason": "ImagePullBackOff"}})), "Init:ImagePullBackOff");
        assert_eq!(with(json!({"terminated": {"exitCode": 1, "reason": "Error"}})), "Init:Error");
    }

    #[test]
    fn a_pod_on_its_way_out_is_terminating_unless_it_is_already_done() {
        let with = |phase: &str| {
            let pod = json!({"metadata": {"deletionTimestamp": "2024-05-01T11:59:00Z"}, "status": {"phase": phase}});
            row("", "pods", &pod).split(" | ").nth(2).unwrap().to_owned()
        };
        assert_eq!(with("Running"), "Terminating");
        assert_eq!(with("Succeeded"), "Succeeded");
    }
}
