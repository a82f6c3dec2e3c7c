//! Tables: what happened to guests, and what is done about it.

use c5c3_openstack::compute::guest::Guest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use GuestFailureKind::{Crashed, IoError, NoSpace, Panicked, Watchdog};
use GuestState::{Paused, Running, Stopped};

/// Seconds after the first failure.
fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn failure(guest: &str, kind: GuestFailureKind, state: GuestState, second: i64) -> GuestFailure {
    GuestFailure { instance: guest.into(), kind, time: Time(at(second)), state, message: Some("m".into()) }
}

fn scene(failures: &[GuestFailure]) -> Scene<'_> {
    Scene {
        host: "pear",
        failures,
        ledger: Ledger::default(),
        barrier: None,
        is_evicted: false,
        evicted_elsewhere: None,
        told: None,
    }
}

fn server(status: &str, task: Option<&str>, power: i64, host: &str) -> NovaGuest {
    let (task_state, power_state) = (task.map(Into::into), Some(power));
    let guest = Guest { id: "a".into(), status: status.into(), task_state, power_state, host: Some(host.into()) };
    NovaGuest { guest, stopped_by_user: false }
}

/// What is decided if Nova says the same of each guest that it is asked about.
fn turn(scene: &Scene<'_>, nova: Option<&NovaGuest>, now: i64) -> Decided {
    let policy = GuestPolicy::default();
    let answers = scene.questions(&policy, at(now)).into_iter().map(|guest| (guest, Ok(nova.cloned()))).collect();
    decide(scene, &answers, &policy, at(now))
}

/// One line: the reason that is told, and what is done.
fn line(decided: &Decided) -> String {
    let reason = decided.report.as_ref().map_or("-", |(_, reason, _)| *reason);
    let restarts = decided.restarts.iter().map(|guest| format!(" restart {guest}"));
    let left = decided.left.iter().map(|(guest, why)| format!(" leave {guest}: {why}"));
    let evict = decided.evict.iter().map(|_| " evict".to_owned());
    [reason.to_owned()].into_iter().chain(restarts).chain(left).chain(evict).collect()
}

#[test]
fn a_guest_that_crashed_is_restarted_unless_nova_or_a_user_has_it() {
    let user = NovaGuest { stopped_by_user: true, ..server("SHUTOFF", None, 4, "pear") };
    let cases = [
        (Some(server("ACTIVE", None, 1, "pear")), "Restarting restart a"),
        (Some(server("SHUTOFF", None, 4, "pear")), "Restarting restart a"),
        (Some(server("ERROR", None, 0, "pear")), "Restarting restart a"),
        (Some(server("ACTIVE", Some("powering-off"), 1, "pear")), "Restarting"),
        (Some(server("ACTIVE", Some("migrating"), 1, "pear")), "Restarting"),
        (Some(user), "- leave a: a user stopped it"),
        (Some(server("ACTIVE", None, 1, "quince")), "- leave a: it is on quince now"),
        (Some(server("PAUSED", None, 3, "pear")), "- leave a: it is PAUSED"),
        (Some(server("SHELVED", None, 4, "pear")), "- leave a: it is SHELVED"),
        (None, "- leave a: Nova has no such server"),
    ];
    for kind in [Crashed, Panicked] {
        for (nova, expected) in &cases {
            let failures = [failure("a", kind, Stopped, 0)];
            assert_eq!(line(&turn(&scene(&failures), nova.as_ref(), 5)), *expected, "{nova:?}");
        }
    }
    let failures = [failure("a", Crashed, Running, 0)];
    assert_eq!(line(&turn(&scene(&failures), None, 5)), "-", "it runs again");
    let failures = [failure("a", Watchdog, Paused, 0)];
    assert_eq!(line(&turn(&scene(&failures), None, 5)), "- leave a: its image or flavor says what its watchdog does");
}

#[test]
fn a_guest_that_nova_says_runs_is_not_restarted_on_an_old_report() {
    let failures = [failure("a", Crashed, Stopped, 0)];
    let running = server("ACTIVE", None, 1, "pear");
    assert_eq!(line(&turn(&scene(&failures), Some(&running), 59)), "Restarting restart a", "Nova lags behind");
    assert_eq!(line(&turn(&scene(&failures), Some(&running), 60)), "Restarting");
    assert_eq!(line(&turn(&scene(&failures), Some(&server("ACTIVE", None, 4, "pear")), 60)), "Restarting restart a");
    // After a restart the agent may be away.
    let mut again = scene(&failures);
    again.ledger = turn(&again, Some(&running), 5).ledger;
    assert_eq!(line(&turn(&again, Some(&running), 1000)), "Restarting");
}

#[test]
fn a_guest_that_crashes_again_and_again_is_given_up() {
    let nova = server("SHUTOFF", None, 4, "pear");
    let mut ledger = Ledger::default();
    let mut restarts = Vec::new();
    // It crashes half a minute after each restart.
    let mut crashed = 0;
    for now in (0..3600).step_by(5) {
        let failures = [failure("a", Crashed, Stopped, crashed)];
        let decided = turn(&Scene { ledger: ledger.clone(), ..scene(&failures) }, Some(&nova), now);
        ledger = decided.ledger;
        if !decided.restarts.is_empty() {
            restarts.push(now);
            crashed = now + 30;
        }
    }
    assert_eq!(restarts, [0, 60, 360], "at once, after a minute, after five");
    let failures = [failure("a", Crashed, Stopped, crashed)];
    let last = Scene { ledger: ledger.clone(), ..scene(&failures) };
    let policy = GuestPolicy::default();
    assert_eq!(last.questions(&policy, at(1000)), Vec::<String>::new(), "Nova is not asked for it");
    let decided = turn(&last, Some(&nova), 1000);
    assert_eq!(line(&decided), "GivenUp");
    let (_, _, message) = decided.report.unwrap();
    assert!(
        message.contains("it was restarted 3 times and failed again") && message.contains("reboot --hard a"),
        "{message}"
    );
    assert_eq!(line(&turn(&last, Some(&nova), 3600)), "Restarting restart a", "the first restart is an hour ago");
}

#[test]
fn a_guest_that_lost_its_disk_is_given_time_and_several_are_left_to_a_person() {
    let paused = server("ACTIVE", None, 3, "pear");
    let one = [failure("a", IoError, Paused, 0)];
    assert_eq!(line(&turn(&scene(&one), Some(&paused), 119)), "Restarting");
    assert_eq!(line(&turn(&scene(&one), Some(&paused), 120)), "Restarting restart a");
    let full = [failure("a", NoSpace, Paused, 0)];
    let told = turn(&scene(&full), Some(&paused), 500);
    assert_eq!(line(&told), "NoSpace");
    assert!(told.report.unwrap().2.contains("make space"), "it loses nothing if it goes on");
    let three: Vec<GuestFailure> = ["a", "b", "c"].iter().map(|guest| failure(guest, IoError, Paused, 0)).collect();
    assert_eq!(line(&turn(&scene(&three), Some(&paused), 500)), "StorageFailed");
}

#[test]
fn nothing_is_done_behind_a_barrier_and_it_is_told_why() {
    let failures = [failure("a", Crashed, Stopped, 0), failure("b", IoError, Paused, 0)];
    let barrier = Some(("InMaintenance", "the host is in maintenance".to_owned()));
    let behind = Scene { barrier, ..scene(&failures) };
    assert_eq!(behind.questions(&GuestPolicy::default(), at(500)), Vec::<String>::new());
    let decided = turn(&behind, None, 500);
    assert_eq!(line(&decided), "InMaintenance");
    let (_, _, message) = decided.report.unwrap();
    assert!(message.starts_with("2 guests are down: a (Crashed at 2027-01-15T08:00:00Z, m); b"), "{message}");
    assert!(message.ends_with("the host is in maintenance"), "{message}");
    // When it is over they are restarted.
    let after = Scene { ledger: decided.ledger, ..scene(&failures) };
    let nova = server("SHUTOFF", None, 4, "pear");
    assert_eq!(line(&turn(&after, Some(&nova), 505)), "Restarting restart a restart b");
}

#[test]
fn a_host_on_which_three_guests_crash_is_evicted_once_they_were_restarted() {
    let crashed = |state| ["a", "b", "c"].iter().map(|guest| failure(guest, Crashed, state, 0)).collect::<Vec<_>>();
    let nova = server("SHUTOFF", None, 4, "pear");
    let (down, up) = (crashed(Stopped), crashed(Running));
    let first = turn(&scene(&down), Some(&nova), 5);
    assert_eq!(line(&first), "Restarting restart a restart b restart c");
    let second = Scene { ledger: first.ledger, ..scene(&up) };
    let evicted = turn(&second, None, 60);
    assert_eq!(line(&evicted), "ManyGuests evict");
    assert!(evicted.evict.unwrap().starts_with("3 guests crashed within 10 minutes (a, b, c)"));
    let elsewhere = Scene { evicted_elsewhere: Some("quince".into()), ..second.clone() };
    assert_eq!(line(&turn(&elsewhere, None, 60)), "ManyGuests", "one host at a time");
    // While the Eviction is there, and after it: the same crashes do not count again.
    let barrier = Some(("Evicting", "look at the host".to_owned()));
    let during = Scene { is_evicted: true, barrier, told: Some("ManyGuests".into()), ..second };
    let seen = turn(&during, None, 65);
    assert_eq!((line(&seen).as_str(), seen.ledger.evicted), ("Evicting", Some(at(0))));
    let after = Scene { ledger: seen.ledger, told: Some("Evicting".into()), ..scene(&up) };
    assert_eq!(line(&turn(&after, None, 70)), "Recovered");
    // Two of them long ago, or twice the same guest, are no crowd.
    let spread =
        [failure("a", Crashed, Running, -700), failure("b", Crashed, Running, 0), failure("c", Crashed, Running, 1)];
    assert_eq!(line(&turn(&scene(&spread), None, 5)), "-");
    let same =
        [failure("a", Crashed, Running, 0), failure("a", Panicked, Running, 1), failure("b", Crashed, Running, 1)];
    assert_eq!(line(&turn(&scene(&same), None, 5)), "-");
}

#[test]
fn each_failure_is_told_once_and_forgotten_with_its_report() {
    let failures = [failure("a", Crashed, Running, 0), failure("b", Watchdog, Running, 0)];
    let first = scene(&failures);
    assert!(first.is_of_interest());
    let decided = turn(&first, None, 5);
    assert_eq!(decided.news, failures);
    let known = Scene { ledger: decided.ledger.clone(), ..scene(&failures) };
    assert!(!known.is_of_interest(), "nothing is left to do");
    assert_eq!(turn(&known, None, 6), Decided { ledger: decided.ledger.clone(), ..Decided::default() });
    let gone = Scene { ledger: decided.ledger, ..scene(&[]) };
    assert_eq!(turn(&gone, None, 7).ledger, Ledger::default());
    let again = [failure("a", Crashed, Stopped, 100)];
    assert_eq!(turn(&Scene { ledger: known.ledger, ..scene(&again) }, None, 101).news, again);
}

#[test]
fn what_was_left_is_not_asked_about_again() {
    let failures = [failure("a", Crashed, Stopped, 0)];
    let left = turn(&scene(&failures), None, 5);
    let after = Scene { ledger: left.ledger, ..scene(&failures) };
    assert!(!after.is_of_interest());
    assert_eq!(after.questions(&GuestPolicy::default(), at(10)), Vec::<String>::new());
}

#[test]
fn what_was_done_survives_as_an_annotation() {
    let failures = [failure("a", Crashed, Stopped, 0)];
    let ledger = turn(&scene(&failures), Some(&server("SHUTOFF", None, 4, "pear")), 5).ledger;
    let text = ledger.write().unwrap();
    assert_eq!(text, r#"{"guests":{"a":{"failed":"2027-01-15T08:00:00Z","restarted":["2027-01-15T08:00:05Z"]}}}"#);
    assert_eq!(Ledger::read(Some(&text)), ledger);
    assert_eq!((Ledger::read(None), Ledger::read(Some(&"{broken".into()))), (Ledger::default(), Ledger::default()));
    assert_eq!(Ledger::default().write(), None);
}
