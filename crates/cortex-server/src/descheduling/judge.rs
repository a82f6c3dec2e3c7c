//! What is done about a Descheduling next, and what its status says. Pure.

use std::time::Duration;

use c5c3_api::blocks::{Condition, ConditionStatus};
use c5c3_api::cortex::{Descheduling, DeschedulingStatus};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::nova::{Migration, Server};

/// How far Nova's clock may be behind ours.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// For how long a record of a migration may be unchanged while Nova has no task for the server.
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(1);

/// What is written before Nova is called: if this process dies then, the next one looks whether the call was made.
const STARTING: &str = "Starting";
/// What is written after Nova took the call.
const MIGRATING: &str = "Migrating";

/// What the next step of a Descheduling depends on.
pub(crate) struct Facts<'a> {
    pub now: Timestamp,
    /// None if it was deleted.
    pub server: Option<&'a Server>,
    /// Nova's records of the server.
    pub migrations: &'a [&'a Migration],
    /// When the server was moved last.
    pub moved: Option<Timestamp>,
    /// How long it is left where it is then.
    pub cooldown: Duration,
    /// How many migrations run, and how many may.
    pub running: usize,
    pub most: usize,
}

/// What is done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It has ended.
    Nothing,
    /// The status tells this.
    Tell(Told),
    /// A target is looked for.
    Choose,
    /// Nova is called, since it has not been yet.
    Call(String),
}

/// What a status tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub stage: Stage,
    pub reason: &'static str,
    pub message: String,
}

/// How far a Descheduling is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing was done yet.
    Waits,
    /// Nova is told to move the server.
    Runs,
    /// The server has left the host.
    Left,
    /// It is not moved.
    Stays,
}

impl Told {
    pub(crate) fn new(stage: Stage, reason: &'static str, message: impl Into<String>) -> Self {
        Self { stage, reason, message: message.into() }
    }

    pub(crate) fn starting(target: &str) -> Self {
        Self::new(Stage::Runs, STARTING, format!("Nova is being told to move it to {target}"))
    }

    pub(crate) fn migrating(target: &str) -> Self {
        Self::new(Stage::Runs, MIGRATING, format!("Nova moves it to {target}"))
    }

    /// Nova was called, and may or may not have accepted the call.
    pub(crate) fn unanswered(target: &str, why: &str) -> Self {
        let what = format!("Nova has not accepted the call to move it to {target}: {why}");
        Self::new(Stage::Runs, STARTING, format!("{what}; the call is repeated unless Nova has a record of it"))
    }
}

/// Whether Nova was told, or is just being told, to move the server.
pub(crate) fn runs(object: &Descheduling) -> bool {
    condition(object, "InProgress").is_some_and(|one| one.status == ConditionStatus::True)
}

/// Whether nothing more is done about it as it is written now.
pub(crate) fn ended(object: &Descheduling) -> bool {
    let status = object.status.as_ref();
    !runs(object)
        && status.is_some_and(|status| {
            status.finished_at.is_some() && status.observed_generation == object.metadata.generation
        })
}

/// When it ended.
pub(crate) fn ended_at(object: &Descheduling) -> Option<Timestamp> {
    ended(object).then_some(object.status.as_ref()?.finished_at.as_ref()?.0)
}

/// The reason of its condition Ready; empty if there is none.
pub(crate) fn reason(object: &Descheduling) -> &str {
    condition(object, "Ready").and_then(|one| one.reason.as_deref()).unwrap_or_default()
}

fn condition<'a>(object: &'a Descheduling, kind: &str) -> Option<&'a Condition> {
    object.status.as_ref()?.conditions.iter().find(|one| one.r#type == kind)
}

pub(crate) fn next(object: &Descheduling, facts: &Facts<'_>) -> Next {
    if ended(object) {
        return Next::Nothing;
    }
    if runs(object) { follow(object, facts) } else { begin(object, facts) }
}

/// Before Nova is told.
fn begin(object: &Descheduling, facts: &Facts<'_>) -> Next {
    let spec = &object.spec;
    let tell = |stage, reason, message: String| Next::Tell(Told::new(stage, reason, message));
    let Some(server) = facts.server else {
        return tell(Stage::Left, "AlreadyGone", "there is no such server".into());
    };
    if server.host.as_deref() != Some(spec.prev_host.as_str()) {
        let host = server.host.as_deref().unwrap_or("no host");
        return tell(Stage::Left, "AlreadyGone", format!("it is on {host} already"));
    }
    if !server.runs() {
        let message = format!("it is {}; only servers that run are moved live", server.status);
        return tell(Stage::Stays, "NotMovable", message);
    }
    if spec.dry_run {
        return Next::Choose;
    }
    if let Some(task) = &server.task {
        return tell(Stage::Waits, "Waiting", format!("Nova works on it ({task})"));
    }
    let until = facts.moved.and_then(|moved| Some((moved, moved.checked_add(signed(facts.cooldown)).ok()?)));
    if let Some((moved, until)) = until.filter(|(_, until)| *until > facts.now) {
        return tell(
            Stage::Waits,
            "Waiting",
            format!("it was moved at {moved}, and is left where it is until {until}"),
        );
    }
    if facts.running >= facts.most {
        let Facts { running, most, .. } = facts;
        return tell(Stage::Waits, "Waiting", format!("{running} migrations run, and at most {most} may at a time"));
    }
    Next::Choose
}

/// After Nova was told, or perhaps was not: a process that wrote so may have died before it called.
fn follow(object: &Descheduling, facts: &Facts<'_>) -> Next {
    let tell = |stage, reason, message: String| Next::Tell(Told::new(stage, reason, message));
    let (status, from) = (object.status.clone().unwrap_or_default(), object.spec.prev_host.as_str());
    let target = status.new_host.unwrap_or_default();
    let Some(server) = facts.server else {
        return tell(Stage::Left, "AlreadyGone", "the server was deleted".into());
    };
    let moving = Next::Tell(Told::migrating(&target));
    if server.task.is_some() {
        return moving;
    }
    match server.host.as_deref() {
        Some(host) if host == target => return tell(Stage::Left, "Migrated", format!("it is on {host}")),
        Some(host) if host != from => {
            return tell(Stage::Left, "Migrated", format!("it is on {host}, and not on {target}"));
        }
        _ => {}
    }
    let started = status.started_at.and_then(|at| at.0.checked_sub(SKEW).ok());
    let ours = |one: &&&Migration| match (one.created(), started) {
        (Some(created), Some(started)) => created >= started,
        _ => true,
    };
    let record = facts.migrations.iter().filter(ours).max_by_key(|one| one.id);
    let told = condition(object, "InProgress").and_then(|one| one.reason.as_deref());
    match record {
        Some(record) if record.failed() => {
            let message = format!(
                "Nova's migration {} ended with {}, and it is on {from} still; openstack server event list {} says why",
                record.id, record.status, server.id
            );
            tell(Stage::Stays, "Failed", message)
        }
        Some(record) if record.moved() => {
            tell(Stage::Stays, "Failed", format!("Nova moved it, and it is back on {from}"))
        }
        // Nova has no task for it, and forgot the record.
        Some(record) if record.updated().is_some_and(|at| facts.now.duration_since(at) > FORGOTTEN) => {
            let message = format!(
                "Nova's migration {} is {} since {}, and Nova does nothing with the server",
                record.id,
                record.status,
                record.updated().unwrap_or_default()
            );
            tell(Stage::Stays, "Failed", message)
        }
        // It runs.
        Some(_) => moving,
        None if !server.runs() => tell(Stage::Stays, "Failed", format!("it is {} on {from}", server.status)),
        None if told == Some(STARTING) => Next::Call(target),
        None => tell(
            Stage::Stays,
            "Failed",
            format!(
                "Nova took the call and keeps no record of a migration; openstack server event list {} says why",
                server.id
            ),
        ),
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// The status that tells this; `None` if it does so already.
pub(crate) fn status(
    object: &Descheduling,
    told: &Told,
    goes: Option<(&str, String)>,
    now: Timestamp,
) -> Option<DeschedulingStatus> {
    let before = object.status.clone().unwrap_or_default();
    let Told { stage, reason, message } = told;
    let is = |holds: bool| if holds { ConditionStatus::True } else { ConditionStatus::False };
    let make = |kind: &str, holds: bool, reason: &str| {
        let last = condition(object, kind).filter(|one| one.status == is(holds));
        Condition {
            r#type: kind.into(),
            status: is(holds),
            reason: Some(reason.into()),
            message: Some(message.clone()),
            last_transition_time: last.and_then(|one| one.last_transition_time.clone()).or(Some(Time(now))),
            observed_generation: object.metadata.generation,
        }
    };
    let ready = if *stage == Stage::Runs { "InProgress" } else { reason };
    let conditions =
        vec![make("Ready", *stage == Stage::Left, ready), make("InProgress", *stage == Stage::Runs, reason)];
    let begins = *stage == Stage::Runs && !runs(object);
    let mut status = DeschedulingStatus {
        conditions,
        observed_generation: object.metadata.generation,
        finished_at: matches!(stage, Stage::Left | Stage::Stays).then_some(Time(now)),
        started_at: if begins { Some(Time(now)) } else { before.started_at.clone() },
        ..before.clone()
    };
    match goes {
        Some((host, explanation)) => {
            status.new_host = Some(host.to_owned());
            status.explanation = Some(explanation);
        }
        // What was found for an earlier spec is no longer so.
        None if !runs(object) => {
            status.new_host = None;
            status.explanation = Some(message.clone());
        }
        None => {}
    }
    (status != before).then_some(status)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-03-01T12:00:00Z";

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }

    fn object(dry_run: bool, status: &Value) -> Descheduling {
        let spec = json!({"resourceID": "s-1", "prevHost": "plum", "reason": "full", "dryRun": dry_run});
        let object = json!({"apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Descheduling",
            "metadata": {"name": "pear", "generation": 1}, "spec": spec, "status": status});
        serde_json::from_value(object).unwrap()
    }

    /// One that Nova was told about, or is being told about.
    fn running(reason: &str) -> Descheduling {
        let conditions = json!([{"type": "Ready", "status": "False", "reason": "InProgress"},
            {"type": "InProgress", "status": "True", "reason": reason}]);
        object(false, &json!({"newHost": "fig", "startedAt": NOW, "conditions": conditions}))
    }

    fn server(host: &str, status: &str, task: Option<&str>) -> Server {
        let value = json!({"id": "s-1", "status": status, "OS-EXT-SRV-ATTR:host": host, "OS-EXT-STS:task_state": task});
        serde_json::from_value(value).unwrap()
    }

    fn migration(id: i64, status: &str, created: &str) -> Migration {
        let value = json!({"id": id, "instance_uuid": "s-1", "status": status, "created_at": created});
        serde_json::from_value(value).unwrap()
    }

    fn judged(object: &Descheduling, server: Option<&Server>, migrations: &[&Migration]) -> String {
        let cooldown = Duration::from_hours(1);
        let facts = Facts { now: now(), server, migrations, moved: None, cooldown, running: 0, most: 1 };
        said(next(object, &facts))
    }

    fn said(next: Next) -> String {
        match next {
            Next::Tell(told) => format!("{}: {}", told.reason, told.message),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_server_that_is_gone_stopped_or_busy_is_not_moved() {
        let new = object(false, &Value::Null);
        let begins = |server: Option<Server>| judged(&new, server.as_ref(), &[]);
        assert_eq!(begins(None), "AlreadyGone: there is no such server");
        assert_eq!(begins(Some(server("fig", "ACTIVE", None))), "AlreadyGone: it is on fig already");
        assert!(begins(Some(server("plum", "SHUTOFF", None))).starts_with("NotMovable: it is SHUTOFF"));
        assert_eq!(begins(Some(server("plum", "ACTIVE", Some("rebooting")))), "Waiting: Nova works on it (rebooting)");
        assert_eq!(begins(Some(server("plum", "ACTIVE", None))), "Choose");
    }

    #[test]
    fn brakes_hold_back_what_is_done_and_not_what_is_only_asked() {
        let there = server("plum", "ACTIVE", None);
        let moved = now().checked_sub(SignedDuration::from_mins(59)).ok();
        let cooldown = Duration::from_hours(1);
        let facts = Facts { now: now(), server: Some(&there), migrations: &[], moved, cooldown, running: 0, most: 1 };
        let held = said(next(&object(false, &Value::Null), &facts));
        assert!(held.ends_with("2026-03-01T11:01:00Z, and is left where it is until 2026-03-01T12:01:00Z"), "{held}");
        assert_eq!(next(&object(true, &Value::Null), &facts), Next::Choose);
        let facts = Facts { moved: None, running: 2, most: 2, ..facts };
        let held = said(next(&object(false, &Value::Null), &facts));
        assert_eq!(held, "Waiting: 2 migrations run, and at most 2 may at a time");
        assert_eq!(next(&object(true, &Value::Null), &facts), Next::Choose);
    }

    #[test]
    fn nova_is_called_again_only_if_it_knows_nothing_of_the_call() {
        let idle = server("plum", "ACTIVE", None);
        let starting = |server: &Server, records: &[&Migration]| judged(&running(STARTING), Some(server), records);
        assert_eq!(starting(&idle, &[]), r#"Call("fig")"#);
        let earlier = migration(1, "error", "2026-03-01T11:00:00");
        assert_eq!(starting(&idle, &[&earlier]), r#"Call("fig")"#, "that one is of another time");
        assert_eq!(starting(&server("plum", "ACTIVE", Some("migrating")), &[]), "Migrating: Nova moves it to fig");
        let ours = migration(2, "running", "2026-03-01T12:00:01.000000");
        assert_eq!(starting(&idle, &[&earlier, &ours]), "Migrating: Nova moves it to fig");
        assert!(
            starting(&idle, &[&migration(2, "error", NOW)]).starts_with("Failed: Nova's migration 2 ended with error")
        );
        assert!(starting(&server("plum", "ERROR", None), &[]).starts_with("Failed: it is ERROR on plum"));
        let mut unanswered = running(STARTING);
        unanswered.status = status(&unanswered, &Told::unanswered("fig", "no connection"), None, now());
        assert_eq!(judged(&unanswered, Some(&idle), &[]), r#"Call("fig")"#);
        assert_eq!(judged(&unanswered, Some(&idle), &[&ours]), "Migrating: Nova moves it to fig", "it arrived");
        let accepted = judged(&running(MIGRATING), Some(&idle), &[]);
        assert!(accepted.starts_with("Failed: Nova took the call and keeps no record"), "{accepted}");
    }

    #[test]
    fn a_server_that_has_left_is_told_with_its_host() {
        let follows = |server: Option<Server>| judged(&running(MIGRATING), server.as_ref(), &[]);
        assert_eq!(follows(Some(server("fig", "ACTIVE", None))), "Migrated: it is on fig");
        assert_eq!(follows(Some(server("kiwi", "ACTIVE", None))), "Migrated: it is on kiwi, and not on fig");
        assert_eq!(follows(None), "AlreadyGone: the server was deleted");
    }

    #[test]
    fn a_status_is_written_once_and_one_that_ended_is_left_alone_until_the_spec_changes() {
        let mut object = object(true, &Value::Null);
        let told = Told::new(Stage::Stays, "DryRun", "it would go to fig");
        let goes = || Some(("fig", "why".to_owned()));
        object.status = status(&object, &told, goes(), now());
        assert_eq!((ended_at(&object), reason(&object)), (Some(now()), "DryRun"));
        assert_eq!(status(&object, &told, goes(), now()), None);
        assert_eq!(judged(&object, None, &[]), "Nothing");
        object.metadata.generation = Some(2);
        object.spec.dry_run = false;
        assert_eq!(judged(&object, Some(&server("plum", "ACTIVE", None)), &[]), "Choose");
        object.status = status(&object, &Told::starting("fig"), goes(), now());
        assert!(runs(&object) && !ended(&object));
        let kind = c5c3_api::find("cortex.c5c3.io/v1alpha1", "Descheduling").unwrap();
        assert_eq!(kind.check(&serde_json::to_value(&object).unwrap(), None).to_string(), "");
    }
}
