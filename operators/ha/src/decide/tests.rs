//! Tables: what is known, and what is done about it.

use std::fmt::Write as _;

use super::*;

const LOST: &str = "2026-01-31T12:00:00Z";

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn lost(name: &str) -> Host {
    Host {
        name: name.into(),
        high_availability: true,
        power: Power::Lost(time(LOST)),
        fenced_at: None,
        running: None,
        reported: None,
    }
}

fn fenced(running: Option<&[&str]>) -> Host {
    let running = running.map(|ids| ids.iter().map(ToString::to_string).collect());
    Host { fenced_at: Some(time("2026-01-31T12:01:05Z")), running, reported: Some("Evacuating".into()), ..lost("pear") }
}

fn known(host: Host, nova: Option<NovaHost>) -> Known {
    Known { host, nova: nova.map(Ok), cliff: None, fencing: None }
}

fn service(status: &str, down: bool, reason: &str) -> ComputeService {
    let disabled_reason = (!reason.is_empty()).then(|| reason.to_owned());
    let (id, host) = ("svc".into(), "pear".into());
    ComputeService { id, host, status: status.into(), forced_down: down, disabled_reason }
}

fn server(id: &str, status: &str, task: Option<&str>, host: &str) -> Server {
    Server { id: id.into(), status: status.into(), task_state: task.map(Into::into), host: Some(host.into()) }
}

fn migration(server: &str, status: &str) -> Migration {
    let (source_compute, created_at) = (Some("pear".into()), None);
    Migration { instance_uuid: server.into(), status: status.into(), source_compute, created_at }
}

/// One line: the reason that is told, and the calls.
fn line(known: &Known, now: &str) -> String {
    let decided = decide(known, &Policy::default(), time(now));
    let mut text = match &decided.report {
        Some((failed, reason, _)) => format!("{}{reason}", if *failed { "" } else { "not failed: " }),
        None => "-".to_owned(),
    };
    for action in &decided.actions {
        write!(text, " {action:?}").unwrap();
    }
    text
}

const LATER: &str = "2026-01-31T12:01:00Z";

#[test]
fn a_lost_host_is_fenced_when_it_is_time_and_allowed_and_possible() {
    let fence = "Fencing Fence(2026-01-31T12:00:00Z)";
    assert_eq!(line(&known(lost("pear"), None), "2026-01-31T12:00:59Z"), "-");
    assert_eq!(line(&known(lost("pear"), None), "2026-01-31T11:00:00Z"), "-", "clocks differ");
    assert_eq!(line(&known(lost("pear"), None), LATER), fence);
    assert_eq!(line(&known(Host { high_availability: false, ..lost("pear") }, None), LATER), "NotWanted");
    assert_eq!(line(&Known { cliff: Some("many".into()), ..known(lost("pear"), None) }, LATER), "TooManyHosts");
    assert_eq!(line(&Known { fencing: Some("none".into()), ..known(lost("pear"), None) }, LATER), "FencingUnavailable");
    let ready = Host { power: Power::Ready, ..lost("pear") };
    assert_eq!(line(&known(ready.clone(), None), LATER), "-");
    let returned = Host { reported: Some("TooManyHosts".into()), ..ready };
    assert_eq!(line(&known(returned, None), LATER), "not failed: Returned");
    assert_eq!(line(&known(Host { power: Power::Unknown, ..lost("pear") }, None), LATER), "-");
}

#[test]
fn a_host_that_was_on_again_since_its_fence_is_fenced_again() {
    let again = Host { power: Power::Lost(time("2026-01-31T12:30:00Z")), ..fenced(Some(&["a"])) };
    assert!(!again.is_fenced());
    assert_eq!(line(&known(again, None), "2026-01-31T12:31:00Z"), "Fencing Fence(2026-01-31T12:30:00Z)");
}

#[test]
fn more_than_three_in_ten_hosts_are_a_cliff_but_one_host_never_is() {
    let host = |index: usize, is_lost: bool| {
        let power = if is_lost { Power::Lost(time(LOST)) } else { Power::Ready };
        Host { power, ..lost(&format!("host-{index}")) }
    };
    let told = |total: usize, gone: usize| {
        let hosts: Vec<Host> = (0..total).map(|index| host(index, index < gone)).collect();
        cliff(&hosts, &Policy::default())
    };
    let table = [(1, 1), (2, 1), (4, 1), (4, 2), (4, 3), (10, 3), (10, 4), (100, 30), (100, 31)];
    let stops: Vec<bool> = table.iter().map(|(total, gone)| told(*total, *gone).is_some()).collect();
    assert_eq!(stops, [false, false, false, true, true, false, true, false, true]);
    let text = told(4, 3).unwrap();
    assert!(text.starts_with("3 of 4 hosts are not ready (host-0, host-1, host-2), and at most 1 may fail"), "{text}");
    let evacuated = Host { reported: Some("Evacuated".into()), ..fenced(Some(&[])) };
    assert_eq!(cliff(&[evacuated, host(1, true), host(2, false), host(3, false)], &Policy::default()), None);
}

#[test]
fn a_fenced_host_is_forced_down_before_it_is_disabled_and_evacuated_after_both() {
    let here = || vec![server("a", "ACTIVE", None, "pear"), server("b", "SHUTOFF", None, "pear")];
    let nova = |service| NovaHost { service, here: here(), ..NovaHost::default() };
    let turn = |running, nova| line(&known(fenced(running), Some(nova)), LATER);
    assert_eq!(turn(None, nova(Some(service("enabled", false, "")))), "Evacuating Record({\"a\"})");
    assert_eq!(turn(Some(&["a"]), nova(Some(service("enabled", false, "")))), "Evacuating ForceDown(\"svc\")");
    let disabled = turn(Some(&["a"]), nova(Some(service("enabled", true, ""))));
    assert!(disabled.starts_with("Evacuating Disable(\"svc\", \"c5c3 ha: the host failed"), "{disabled}");
    let evacuating = turn(Some(&["a"]), nova(Some(service("disabled", true, "c5c3 ha: x"))));
    assert_eq!(evacuating, "Evacuating Evacuate(\"a\") Evacuate(\"b\")");
    let silent = Known { nova: Some(Err("no route".into())), ..known(fenced(None), None) };
    assert_eq!(line(&silent, LATER), "NovaUnavailable");
    assert_eq!(turn(None, NovaHost::default()), "Evacuated");
}

#[test]
fn evacuations_are_not_repeated_while_they_run_nor_for_ever() {
    let nova = |here: Vec<Server>, evacuations: Vec<Migration>, moved: Vec<Server>| NovaHost {
        service: Some(service("disabled", true, "c5c3 ha: x")),
        here,
        moved,
        evacuations,
    };
    let turn = |nova| line(&known(fenced(Some(&["a", "c"])), Some(nova)), LATER);
    let a = |status: &str, task| vec![server("a", status, task, "pear")];
    assert_eq!(turn(nova(a("REBUILD", Some("rebuilding")), vec![migration("a", "accepted")], vec![])), "Evacuating");
    assert_eq!(turn(nova(a("ACTIVE", None), vec![migration("a", "accepted")], vec![])), "Evacuating");
    let ended_meanwhile = nova(a("REBUILD", Some("rebuild_spawning")), vec![migration("a", "done")], vec![]);
    assert_eq!(turn(ended_meanwhile), "Evacuating", "servers are read before evacuations");
    let twice = vec![migration("a", "failed"), migration("a", "error")];
    assert_eq!(turn(nova(a("ERROR", None), twice.clone(), vec![])), "Evacuating Evacuate(\"a\")");
    let thrice = [twice, vec![migration("a", "failed")]].concat();
    let given_up = turn(nova(a("ERROR", None), thrice, vec![]));
    assert!(
        given_up.starts_with("EvacuationIncomplete Disable") && given_up.contains("a: its evacuation failed 3 times")
    );
    let paused = turn(nova(a("PAUSED", None), vec![], vec![]));
    assert!(paused.contains("a: it is PAUSED, which Nova does not evacuate"), "{paused}");
    let many = (0..9).map(|index| server(&index.to_string(), "ACTIVE", None, "pear")).collect();
    assert_eq!(turn(nova(many, vec![], vec![])).matches("Evacuate(").count(), 4);
}

/// What is done about the servers of a host that is off.
fn about(here: Vec<Server>, evacuations: Vec<Migration>) -> String {
    let service = Some(service("disabled", true, "c5c3 ha: x"));
    let nova = NovaHost { service, here, evacuations, ..NovaHost::default() };
    line(&known(fenced(Some(&["a"])), Some(nova)), LATER)
}

#[test]
fn a_server_that_was_busy_when_its_host_died_is_evacuated_or_named() {
    let busy = |status: &str, task: &str| about(vec![server("a", status, Some(task), "pear")], vec![]);
    let evacuated = [
        ("REBOOT", "reboot_started"),
        ("HARD_REBOOT", "rebooting_hard"),
        ("ACTIVE", "powering-off"),
        ("SHUTOFF", "powering-on"),
        ("PASSWORD", "updating_password"),
        ("ACTIVE", "image_snapshot"),
    ];
    for (status, task) in evacuated {
        assert_eq!(busy(status, task), "Evacuating Evacuate(\"a\")", "{task}");
    }
    let named = [
        ("MIGRATING", "migrating", "a: it was being moved (MIGRATING) and may run on the other host"),
        ("RESIZE", "resize_finish", "a: it was being moved (RESIZE) and may run on the other host"),
        ("REBUILD", "rebuilding", "a: a user was rebuilding it"),
        ("BUILD", "spawning", "a: it is BUILD, which Nova does not evacuate"),
    ];
    for (status, task, why) in named {
        let told = busy(status, task);
        assert!(told.starts_with("EvacuationIncomplete Disable") && told.contains(why), "{told}");
    }
    assert!(busy("ACTIVE", "deleting").contains("0 servers that ran were moved\")"), "it is deleted with its host");
    let failed = about(vec![server("a", "REBUILD", Some("rebuilding"), "pear")], vec![migration("a", "failed")]);
    assert_eq!(failed, "Evacuating Evacuate(\"a\")", "a failed evacuation may leave its task behind");
}

#[test]
fn a_server_that_was_moved_back_is_evacuated_once_more() {
    let again = about(vec![server("a", "ACTIVE", None, "pear")], vec![migration("a", "completed")]);
    assert_eq!(again, "Evacuating Evacuate(\"a\")");
}

#[test]
fn what_is_recorded_as_running_is_what_was_meant_to_run() {
    let table = [
        ("ACTIVE", None, true),
        ("REBOOT", Some("rebooting"), true),
        ("MIGRATING", Some("migrating"), true),
        ("ACTIVE", Some("powering-off"), false),
        ("SHUTOFF", Some("powering-on"), false),
        ("ERROR", None, false),
    ];
    for (status, task, runs) in table {
        let nova = NovaHost {
            service: Some(service("enabled", false, "")),
            here: vec![server("a", status, task, "pear")],
            ..NovaHost::default()
        };
        let recorded = if runs { "Evacuating Record({\"a\"})" } else { "Evacuating Record({})" };
        assert_eq!(line(&known(fenced(None), Some(nova)), LATER), recorded, "{status} {task:?}");
    }
}

#[test]
fn what_ran_is_started_on_its_new_host_and_what_did_not_is_not() {
    let nova = |reason: &str, moved: Vec<Server>| NovaHost {
        service: Some(service("disabled", true, reason)),
        moved,
        ..NovaHost::default()
    };
    let turn = |nova| line(&known(fenced(Some(&["a"])), Some(nova)), LATER);
    let moved = |status: &str, task| vec![server("a", status, task, "quince"), server("b", "SHUTOFF", None, "quince")];
    assert_eq!(turn(nova("c5c3 ha: x", moved("SHUTOFF", None))), "Evacuating Start(\"a\")");
    assert_eq!(turn(nova("c5c3 ha: x", moved("SHUTOFF", Some("powering-on")))), "Evacuating");
    let result = "c5c3 ha: the host failed and was fenced; 1 servers that ran were moved";
    assert_eq!(turn(nova("c5c3 ha: x", moved("ACTIVE", None))), format!("Evacuating Disable(\"svc\", {result:?})"));
    assert_eq!(turn(nova(result, moved("ACTIVE", None))), "Evacuated");
    assert_eq!(turn(nova("broken fan", moved("ACTIVE", None))), "Evacuated", "a person's reason stays");
    let done = Host { reported: Some("Evacuated".into()), ..fenced(Some(&["a"])) };
    assert_eq!(line(&known(done, None), LATER), "-");
}

#[test]
fn a_host_that_is_back_is_enabled_after_its_evacuations_and_starts_no_new_ones() {
    let back = |running| Host { power: Power::Ready, ..fenced(running) };
    let nova = |down: bool, status: &str, reason: &str, here: Vec<Server>| NovaHost {
        service: Some(service(status, down, reason)),
        here,
        ..NovaHost::default()
    };
    let turn = |running, nova| line(&known(back(running), Some(nova)), LATER);
    let under_way = vec![server("a", "ACTIVE", Some("rebuilding"), "pear"), server("b", "ACTIVE", None, "pear")];
    assert_eq!(turn(Some(&["a"]), nova(true, "disabled", "c5c3 ha: x", under_way)), "Evacuating");
    let left = || vec![server("b", "ACTIVE", None, "pear")];
    assert_eq!(turn(Some(&["a"]), nova(true, "disabled", "c5c3 ha: x", left())), "Returning LiftForceDown(\"svc\")");
    assert_eq!(turn(Some(&["a"]), nova(false, "disabled", "c5c3 ha: x", left())), "Returning Enable(\"svc\")");
    assert_eq!(turn(Some(&["a"]), nova(false, "enabled", "", left())), "not failed: Returned Forget");
    assert_eq!(turn(Some(&["a"]), nova(false, "disabled", "broken fan", left())), "not failed: Returned Forget");
    assert_eq!(turn(None, nova(false, "enabled", "", left())), "not failed: Returned Forget");
}
