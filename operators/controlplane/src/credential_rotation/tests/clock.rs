//! The machine alone, day by day.

use c5c3_api::c5c3::{CredentialRotationSpec, RotationPhase, RotationReason};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::super::machine::{Schedule, Seen, advance};
use super::super::state::State;

fn spec(interval: i32, before: i32, grace: i32) -> CredentialRotationSpec {
    serde_json::from_value(json!({
        "targetServiceUser": "heron-service-user", "rotationType": "applicationCredential",
        "schedule": {"intervalDays": interval, "preRotationDays": before}, "gracePeriodDays": grace,
    }))
    .unwrap()
}

/// A rotation whose Keystone, delivery and consumers do at once what they should.
struct World {
    schedule: Schedule,
    state: State,
    day: i64,
    seen: Seen,
    /// Versions in Keystone, with the days on which they came.
    log: Vec<String>,
}

fn day(day: i64) -> Timestamp {
    let start: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
    start + SignedDuration::from_hours(day * 24)
}

impl World {
    fn new(interval: i32, before: i32, grace: i32) -> Self {
        let schedule = Schedule::new(&spec(interval, before, grace));
        let state = State::first(schedule.credential(1, day(0)), None, day(0));
        Self { schedule, state, day: 0, seen: Seen::default(), log: Vec::new() }
    }

    /// Everything that happens on a day.
    fn settle(&mut self) {
        loop {
            self.follow();
            let next = advance(&self.state, self.schedule, &self.seen, day(self.day));
            if next == self.state {
                return;
            }
            if next.phase != self.state.phase {
                self.log.push(format!("{}:{:?}", self.day, next.phase));
            }
            self.state = next;
        }
    }

    /// The objects are those that a plan would make of the state.
    fn follow(&mut self) {
        let state = &self.state;
        let wanted: Vec<i64> =
            state.current.iter().chain(&state.next).chain(state.kept_previous()).map(|one| one.version).collect();
        assert!(wanted.len() <= 2, "{state:?}");
        self.seen.ids = wanted.iter().map(|version| (*version, format!("id-{version}"))).collect();
        self.seen.objects = wanted;
    }

    fn until(&mut self, last: i64) -> String {
        while self.day < last {
            self.day += 1;
            self.settle();
        }
        std::mem::take(&mut self.log).join(" ")
    }

    fn in_use(&self) -> i64 {
        self.state.current.as_ref().unwrap().version
    }
}

fn well() -> Seen {
    Seen { delivered: true, verified: true, refused: true, ..Seen::default() }
}

#[test]
fn the_timeline_of_the_documented_schedule() {
    let mut world = World::new(90, 7, 1);
    world.seen = well();
    world.settle();
    assert_eq!(std::mem::take(&mut world.log).join(" "), "0:Delivering 0:Idle");
    assert_eq!(world.until(82), "");
    assert_eq!(world.until(90), "83:Creating 83:Delivering 83:Verifying 83:Grace");
    assert_eq!((world.in_use(), world.state.previous.as_ref().unwrap().version), (2, 1));
    assert_eq!(world.until(92), "91:Revoking 91:VerifyingRevoked 91:Idle");
    assert_eq!(world.until(400).matches("Creating").count(), 3, "every 83 days from then on");
}

#[test]
fn a_request_rotates_at_once_and_revokes_after_the_grace_period() {
    let mut world = World::new(90, 7, 3);
    world.seen = well();
    world.until(10);
    world.seen.request = Some("leaked".into());
    assert_eq!(world.until(11), "11:Creating 11:Delivering 11:Verifying 11:Grace");
    assert_eq!((world.state.reason, world.state.handled.as_deref()), (RotationReason::Requested, Some("leaked")));
    assert_eq!(world.until(30), "14:Revoking 14:VerifyingRevoked 14:Idle", "and no second time");
}

#[test]
fn a_request_within_the_grace_period_revokes_the_old_one_first() {
    let mut world = World::new(90, 7, 3);
    world.seen = well();
    world.seen.request = Some("one".into());
    world.state.handled = None;
    world.until(1);
    assert_eq!(world.state.phase, RotationPhase::Grace);
    world.seen.request = Some("two".into());
    assert!(world.until(2).starts_with("2:Revoking 2:VerifyingRevoked 2:Idle 2:Creating"));
    assert_eq!(world.in_use(), 3);
}

#[test]
fn each_phase_holds_until_it_is_done_and_the_old_credential_stays() {
    let mut world = World::new(90, 7, 1);
    world.seen = well();
    world.until(82);
    world.seen = Seen::default();
    for (held, phase) in [("delivered", RotationPhase::Delivering), ("verified", RotationPhase::Verifying)] {
        world.until(world.day + 30);
        assert_eq!((world.state.phase, world.in_use()), (phase, 1), "{held}");
        match held {
            "delivered" => world.seen.delivered = true,
            _ => world.seen.verified = true,
        }
    }
    world.until(world.day + 1);
    assert_eq!((world.state.phase, world.in_use()), (RotationPhase::VerifyingRevoked, 2), "Keystone is not asked yet");
    world.seen.refused = true;
    world.until(world.day + 1);
    assert_eq!(world.state.phase, RotationPhase::Idle);
}

#[test]
fn a_longer_interval_does_not_outlive_a_credential_that_was_made_for_a_shorter_one() {
    let mut world = World::new(30, 5, 2);
    world.seen = well();
    world.until(1);
    world.schedule = Schedule::new(&spec(90, 5, 2));
    assert!(world.until(26).starts_with("25:Creating"));
    world.until(30);
    assert!(world.until(119).contains("110:Creating"), "and the next one lives 90 days");
}

#[test]
fn an_outdated_credential_is_replaced() {
    let mut world = World::new(90, 7, 1);
    world.seen = well();
    world.until(5);
    world.seen.outdated = true;
    world.day += 1;
    world.follow();
    let next = advance(&world.state, world.schedule, &world.seen, day(6));
    assert_eq!((next.phase, next.reason), (RotationPhase::Creating, RotationReason::Outdated));
    assert_eq!(next.next.unwrap().version, 2);
}

#[test]
fn the_steps_of_a_rotation_are_told_in_order() {
    let mut world = World::new(90, 7, 1);
    world.seen = well();
    world.until(91);
    let told: Vec<(RotationPhase, bool)> = world.state.steps.iter().map(|step| (step.name, step.done)).collect();
    let phases = [
        RotationPhase::Creating,
        RotationPhase::Delivering,
        RotationPhase::Verifying,
        RotationPhase::Grace,
        RotationPhase::Revoking,
        RotationPhase::VerifyingRevoked,
    ];
    assert_eq!(told, phases.map(|phase| (phase, true)));
}

#[test]
fn a_lost_status_is_read_off_the_credentials_that_exist() {
    let schedule = Schedule::new(&spec(90, 7, 1));
    let one = |version: i64, id: Option<&str>| c5c3_api::c5c3::RotatedCredential {
        id: id.map(Into::into),
        ..schedule.credential(version, day(0))
    };
    assert_eq!(State::recovered(Vec::new(), None, day(1)), None);
    let both = State::recovered(vec![one(7, Some("g")), one(6, Some("f"))], None, day(1)).unwrap();
    assert_eq!((both.phase, both.active().unwrap().version), (RotationPhase::Delivering, 7));
    assert_eq!(both.current.as_ref().unwrap().version, 6, "it stays until services use the newer one");
    let unmade = State::recovered(vec![one(7, None), one(6, Some("f"))], None, day(1)).unwrap();
    assert_eq!((unmade.phase, unmade.active().unwrap().version), (RotationPhase::Creating, 6));
    let alone = State::recovered(vec![one(3, Some("c"))], None, day(1)).unwrap();
    assert_eq!((alone.phase, alone.current), (RotationPhase::Delivering, None));
}
