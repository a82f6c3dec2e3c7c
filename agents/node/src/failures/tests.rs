//! Lives of guests: events, and what is told after them.

use uuid::Uuid;

use super::*;

fn domain(number: u128) -> Domain {
    Domain { name: format!("instance-{number}"), uuid: Uuid::from_u128(number), id: 3 }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn life(event: i32, detail: i32) -> Event {
    Event::Lifecycle { domain: domain(1), event, detail }
}

fn disk(action: i32, reason: &str) -> Event {
    let (path, device) = ("/plum".into(), "virtio-disk0".into());
    Event::IoError { domain: domain(1), path, device, action, reason: reason.into() }
}

/// What is told after these events, one a second.
fn told(events: &[Event]) -> Vec<(GuestFailureKind, GuestState, i64)> {
    let mut failures = Failures::default();
    for (event, second) in events.iter().zip(0..) {
        failures.on(event, at(second));
    }
    failures.list().iter().map(|one| (one.kind, one.state, one.time.0.as_second() - at(0).as_second())).collect()
}

#[test]
fn a_guest_that_ends_by_a_crash_is_told_and_one_that_is_ended_is_not() {
    for detail in [2, 5] {
        assert_eq!(told(&[life(5, detail)]), [(Crashed, Stopped, 0)]);
    }
    // Shut down, destroyed, migrated, saved, a snapshot.
    for detail in [0, 1, 3, 4, 6] {
        assert_eq!(told(&[life(5, detail)]), []);
    }
    assert_eq!(told(&[life(5, 5), life(2, 0)]), [(Crashed, Running, 0)], "it was started again");
    assert_eq!(told(&[life(5, 5), life(2, 0), life(5, 5)]), [(Crashed, Stopped, 2)], "and crashed again");
    assert_eq!(told(&[life(5, 5), life(5, 5)]), [(Crashed, Stopped, 0)], "told twice, crashed once");
}

#[test]
fn a_panic_and_the_end_that_follows_are_one_failure() {
    assert_eq!(told(&[life(8, 0), life(5, 2)]), [(Panicked, Stopped, 0)]);
    assert_eq!(told(&[life(8, 0), life(5, 1)]), [(Panicked, Stopped, 0)], "Nova ends one that libvirt kept");
    assert_eq!(told(&[life(8, 1)]), [(Panicked, Running, 0)], "a crash kernel runs");
    assert_eq!(told(&[life(8, 0), life(2, 0), life(5, 5)]), [(Crashed, Stopped, 2), (Panicked, Running, 0)]);
}

#[test]
fn a_guest_that_is_paused_by_its_disk_is_told_until_it_goes_on_or_is_ended() {
    assert_eq!(told(&[disk(1, "eio"), life(3, 2)]), [(IoError, Paused, 0)]);
    assert_eq!(told(&[disk(1, "enospc"), life(3, 2)]), [(NoSpace, Paused, 0)]);
    assert_eq!(told(&[life(3, 2)]), [(IoError, Paused, 0)], "a libvirt that gives no reason");
    assert_eq!(told(&[disk(1, "eio"), life(4, 0)]), [(IoError, Running, 0)]);
    assert_eq!(told(&[disk(1, "eio"), life(5, 1)]), [], "a user ended it");
    assert_eq!(told(&[disk(1, "eio"), life(5, 5)]), [(Crashed, Stopped, 1), (IoError, Paused, 0)]);
    assert_eq!(told(&[disk(2, "eio"), disk(2, "eio"), disk(2, "eio")]), [(IoError, Running, 0)], "told once");
    assert_eq!(told(&[life(3, 0)]), [], "a user paused it");
    let mut failures = Failures::default();
    failures.on(&disk(1, ""), at(0));
    let message = failures.list()[0].message.clone().unwrap();
    assert_eq!(message, "virtio-disk0 (/plum): no reason is given; QEMU paused it");
}

#[test]
fn a_watchdog_and_a_loop_of_reboots_are_told() {
    let watchdog = |action| Event::Watchdog { domain: domain(1), action };
    assert_eq!(told(&[watchdog(2)]), [(Watchdog, Running, 0)]);
    assert_eq!(told(&[watchdog(1)]), [(Watchdog, Paused, 0)]);
    let reboot = || Event::Reboot { domain: domain(1) };
    assert_eq!(told(&[reboot(), reboot(), reboot(), reboot()]), []);
    assert_eq!(told(&[reboot(), reboot(), reboot(), reboot(), reboot(), reboot()]), [(RebootLoop, Running, 4)]);
    let mut failures = Failures::default();
    for round in 0..20 {
        failures.on(&reboot(), at(round * 150));
    }
    assert_eq!(failures.list(), [], "four in ten minutes, for hours");
}

#[test]
fn what_happened_while_the_agent_was_away_is_found_by_states() {
    let found = |before: &[Event], state, was_active| {
        let mut failures = Failures::default();
        for event in before {
            failures.on(event, at(0));
        }
        failures.found(&domain(1), state, was_active, at(60));
        failures.list().iter().map(|one| (one.kind, one.state)).collect::<Vec<_>>()
    };
    assert_eq!(found(&[], SHUT_OFF_CRASHED, true), [(Crashed, Stopped)]);
    assert_eq!(found(&[], SHUT_OFF_FAILED, true), [(Crashed, Stopped)]);
    assert_eq!(found(&[], SHUT_OFF_CRASHED, false), [], "an old crash is no new one");
    assert_eq!(found(&[], (5, 1), true), [], "it was shut down");
    assert_eq!(found(&[], PAUSED_IO_ERROR, true), [(IoError, Paused)]);
    assert_eq!(found(&[disk(1, "enospc")], PAUSED_IO_ERROR, true), [(NoSpace, Paused)]);
    assert_eq!(found(&[disk(1, "enospc")], (1, 5), true), [(NoSpace, Running)]);
    assert_eq!(found(&[life(5, 5)], (1, 1), false), [(Crashed, Running)], "it was started meanwhile");
    assert_eq!(found(&[], CRASHED_PANICKED, true), [(Panicked, Stopped)]);
}

#[test]
fn failures_are_bounded_by_number_and_by_age() {
    let mut failures = Failures::default();
    for number in 0..200 {
        let event = Event::Lifecycle { domain: domain(number), event: 5, detail: 5 };
        failures.on(&event, at(i64::try_from(number).unwrap()));
    }
    failures.expire(|_| true, at(200));
    assert_eq!(failures.list().len(), MOST);
    assert!(failures.list().iter().all(|one| one.time.0 >= at(72)), "the oldest are forgotten");
    // A guest that runs again is told for an hour; one that is down for a day, as long as libvirt has it.
    failures.on(&Event::Lifecycle { domain: domain(199), event: 2, detail: 0 }, at(201));
    let gone = domain(198).uuid.to_string();
    failures.expire(|instance| instance != gone, at(3900));
    assert_eq!(failures.list().len(), MOST - 2);
    failures.expire(|_| true, at(24 * 3600 + 200));
    assert_eq!(failures.list(), []);
}

#[test]
fn what_was_published_is_taken_over_once() {
    let mut before = Failures::default();
    before.on(&life(5, 5), at(0));
    let status = HypervisorStatus { guest_failures: before.list(), ..HypervisorStatus::default() };
    let mut failures = Failures::default();
    failures.adopt(Some(&status));
    assert_eq!(failures.list(), before.list());
    failures.expire(|_| false, at(4000));
    failures.adopt(Some(&status));
    assert_eq!(failures.list(), [], "what was forgotten does not come back");
}
