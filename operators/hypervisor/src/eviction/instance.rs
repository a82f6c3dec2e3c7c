//! What becomes of each instance of a drain.

use std::collections::BTreeSet;
use std::time::Duration;

use c5c3_api::hypervisor::Eviction;
use c5c3_api::hypervisor::{EvictionInstance, EvictionInstanceState as State};
use c5c3_kit::{Call, Plan, Ref, Step, Wait};
use kube::ResourceExt;
use serde_json::json;

use super::{False, LATE, True, View, is_settled, state, with_times};
use crate::cloud::nova::{Migration, Server};
use crate::cloud::{Deed, Guests};

/// The longest error that is kept.
const LONGEST_ERROR: usize = 1024;

/// A drain with what is to be done next.
pub(super) struct Drained {
    instances: Vec<EvictionInstance>,
    calls: Vec<Call>,
    /// Ids of those that are on the host, or that have to be confirmed.
    outstanding: Vec<String>,
    ram: i64,
    incoming: usize,
    no_destination: bool,
    names: Vec<(String, String)>,
}

/// How an instance is moved, or why it is not.
enum Way {
    Live,
    Cold,
    Wait(&'static str),
    Never(String),
}

/// Nova moves what runs or is paused live, and what is shut off cold; nothing else.
fn way(server: &Server) -> Way {
    let fault = server.fault.as_ref().map(|fault| format!(": {}", fault.message)).unwrap_or_default();
    match server.status.as_str() {
        _ if server.task_state.as_deref() == Some("deleting") => Way::Wait("it is being deleted"),
        "ACTIVE" | "PAUSED" => Way::Live,
        "SHUTOFF" => Way::Cold,
        "MIGRATING" | "RESIZE" | "BUILD" | "REBOOT" | "HARD_REBOOT" | "REBUILD" | "PASSWORD" | "REVERT_RESIZE" => {
            Way::Wait("Nova works on it")
        }
        "SUSPENDED" => Way::Never("it is SUSPENDED, and Nova moves no suspended server; resume it".into()),
        "SHELVED" => {
            Way::Never("it is SHELVED on this host; offload it with `openstack server shelve --offload`".into())
        }
        "VERIFY_RESIZE" => Way::Never("its resize waits for its user; confirm or revert it".into()),
        "RESCUE" => Way::Never("it is in RESCUE; unrescue it".into()),
        "ERROR" => Way::Never(format!("it is in ERROR{fault}; reset its state or delete it")),
        other => Way::Never(format!("it is {other}, which Nova does not move")),
    }
}

/// The migrations of an instance away from the host since the drain began, oldest first.
fn tries<'a>(view: &View<'_>, guests: &'a Guests, id: &str) -> Vec<&'a Migration> {
    // Times of Kubernetes are whole seconds.
    let since = view.eviction.creation_timestamp().map(|time| time.0).unwrap_or_default();
    let is_one = |one: &&Migration| {
        one.instance_uuid == id && one.source_compute.as_deref() == Some(view.host_name()) && one.created() >= since
    };
    let mut all: Vec<&Migration> = guests.migrations.iter().filter(is_one).collect();
    all.sort_by_key(|one| one.id);
    all
}

fn deadline(view: &View<'_>, server: &Server) -> Duration {
    let gib = u32::try_from(server.flavor.ram.max(0) / 1024).unwrap_or(u32::MAX);
    view.settings.drain.deadline + view.settings.drain.deadline_per_gib * gib
}

/// What becomes of all instances.
pub(super) fn decide(view: &View<'_>) -> Drained {
    let empty = Guests::default();
    let guests = view.guests.unwrap_or(&empty);
    let host = Some(view.host_name());
    let incoming =
        guests.migrations.iter().filter(|one| one.dest_compute.as_deref() == host && one.is_active()).count();
    let mut drained = Drained {
        instances: Vec::new(),
        calls: Vec::new(),
        outstanding: Vec::new(),
        ram: 0,
        incoming,
        no_destination: guests.destinations == 0 && !guests.servers.is_empty(),
        names: guests.servers.iter().map(|one| (one.id.clone(), one.name.clone())).collect(),
    };
    let moving = guests.servers.iter().filter(|one| is_moving(view, guests, one)).count();
    let mut free = view.settings.drain.parallel.saturating_sub(moving);
    for server in &guests.servers {
        drained.outstanding.push(server.id.clone());
        drained.ram += server.flavor.ram;
        let next = one(view, guests, server, &mut free, drained.no_destination);
        drained.calls.extend(next.1);
        drained.instances.push(next.0);
    }
    drained.add_moved(view, guests);
    drained
}

fn is_moving(view: &View<'_>, guests: &Guests, server: &Server) -> bool {
    let is_active = tries(view, guests, &server.id).iter().any(|one| one.is_active());
    is_active || matches!(server.status.as_str(), "MIGRATING" | "RESIZE")
}

/// What becomes of an instance on the host.
fn one(
    view: &View<'_>,
    guests: &Guests,
    server: &Server,
    free: &mut usize,
    no_destination: bool,
) -> (EvictionInstance, Option<Call>) {
    let tries = tries(view, guests, &server.id);
    let before = view.before(&server.id);
    let accepted = i32::try_from(tries.len()).unwrap_or(i32::MAX);
    // What Nova did not accept is counted by the operator: in its memory, and in the status if it was started since.
    let remembered = guests.rejections.get(&server.id);
    let written = before.map_or(0, |before| before.attempts - accepted).max(0);
    let attempts = accepted + remembered.map_or(0, |one| one.times).max(written);
    let last = tries.last();
    let error = remembered
        .map(|one| one.message.clone())
        .or_else(|| last.filter(|one| one.has_failed()).map(|one| failure(guests, server, one)))
        .or_else(|| before.and_then(|before| before.last_error.clone()));
    let said = |state: State, error: Option<String>| EvictionInstance {
        id: server.id.clone(),
        state,
        attempts,
        last_error: error.map(|error| error.chars().take(LONGEST_ERROR).collect()),
        destination: None,
    };
    if let Some(active) = last.filter(|one| one.is_active()) {
        let age = Duration::try_from(view.now.duration_since(active.created())).unwrap_or_default();
        let deed = Deed::Abort { server: server.id.clone(), migration: active.id };
        let limit = deadline(view, server);
        let abort = (active.is_live() && age > limit)
            .then(|| view.call(deed, format!("it has not ended within {} s", limit.as_secs())));
        return (said(State::Migrating, error), abort);
    }
    let budget = view.settings.drain.attempts;
    match way(server) {
        Way::Never(why) => (said(State::NonMigratable, Some(why)), None),
        _ if attempts >= budget => (said(State::NonMigratable, error), None),
        Way::Wait(_) if matches!(server.status.as_str(), "MIGRATING" | "RESIZE") => {
            (said(State::Migrating, error), None)
        }
        Way::Wait(why) => (said(State::Pending, Some(why.to_owned())), None),
        Way::Live | Way::Cold if server.task_state.is_some() => (said(State::Pending, error), None),
        way => {
            let waiting = if attempts == 0 { State::Pending } else { State::Retrying };
            if *free == 0 || no_destination || rests(view, last.copied(), attempts) {
                return (said(waiting, error), None);
            }
            *free -= 1;
            let (id, drain) = (server.id.clone(), view.drain());
            let deed = match way {
                Way::Cold => Deed::ColdMigrate { server: id, drain },
                _ => Deed::LiveMigrate { server: id, drain },
            };
            let because = format!("attempt {} of {budget}: {} must leave the host", attempts + 1, server.name);
            (said(waiting, error), Some(view.call(deed, because)))
        }
    }
}

/// Whether the last try failed a moment ago.
fn rests(view: &View<'_>, last: Option<&Migration>, attempts: i32) -> bool {
    let Some(last) = last.filter(|one| one.has_failed()) else { return false };
    let age = Duration::try_from(view.now.duration_since(last.updated())).unwrap_or_default();
    age < view.settings.drain.poll * u32::try_from(attempts).unwrap_or(1)
}

fn failure(guests: &Guests, server: &Server, last: &Migration) -> String {
    let said = guests.errors.get(&server.id);
    let said = said.map(|said| format!(": {said}")).unwrap_or_default();
    format!("migration {} ended as {}{said}", last.id, last.status)
}

impl Drained {
    /// Adds the instances that are gone from the host: elsewhere, or deleted.
    fn add_moved(&mut self, view: &View<'_>, guests: &Guests) {
        let here: BTreeSet<String> = self.outstanding.iter().cloned().collect();
        let known = view.eviction.status.iter().flat_map(|status| status.instances.iter().map(|one| one.id.clone()));
        let moved = guests.migrations.iter().map(|one| one.instance_uuid.clone());
        let gone: BTreeSet<String> = known.chain(moved).filter(|id| !here.contains(id)).collect();
        for id in gone {
            let tries = tries(view, guests, &id);
            let last = tries.iter().rev().find(|one| one.is_done() || one.is_unconfirmed());
            let before = view.before(&id);
            // One that neither moved nor was known has nothing to do with this drain; one that was deleted is done with.
            let Some((destination, unconfirmed)) = last
                .map(|one| (one.dest_compute.clone(), one.is_unconfirmed()))
                .or_else(|| Some((before?.destination.clone()?, false)).map(|(to, is)| (Some(to), is)))
            else {
                continue;
            };
            let attempts = i32::try_from(tries.len()).unwrap_or(i32::MAX).max(before.map_or(0, |one| one.attempts));
            let state = if unconfirmed { State::Migrating } else { State::Migrated };
            if unconfirmed {
                self.outstanding.push(id.clone());
                let deed = Deed::Confirm { server: id.clone(), drain: view.drain() };
                self.calls
                    .push(view.call(deed, "it has moved, and holds resources of this host until it is confirmed"));
            }
            self.instances.push(EvictionInstance { id, state, attempts, last_error: None, destination });
        }
        self.instances.sort_by(|a, b| a.id.cmp(&b.id));
        self.outstanding.sort();
    }

    fn title(&self, id: &str) -> String {
        let name = self.names.iter().find(|(known, _)| known == id).map(|(_, name)| name.as_str());
        name.map_or_else(|| id.to_owned(), |name| format!("{name} ({id})"))
    }

    fn describe(&self, state: State) -> Vec<String> {
        let of_state = self.instances.iter().filter(|one| one.state == state);
        let text = |one: &EvictionInstance| {
            let error = one.last_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
            format!("{}{error}", self.title(&one.id))
        };
        of_state.map(text).collect()
    }

    /// The plan: calls, conditions, and what is left.
    pub(super) fn into_plan(self, view: &View<'_>, plan: Plan, step: Step) -> Plan {
        let stuck = self.describe(State::NonMigratable);
        let left = self.outstanding.len();
        let open = self.instances.iter().filter(|one| !is_settled(one)).count();
        let (status, reason, message) = match () {
            () if left == 0 && self.incoming == 0 => (False, "Succeeded", "no instance is left on the host".to_owned()),
            () if left == 0 => (True, "Running", format!("{} migrations to the host have not ended", self.incoming)),
            () if open == 0 => {
                (False, "Failed", format!("{left} instances cannot leave the host: {}", stuck.join("; ")))
            }
            () if self.no_destination => {
                (True, "Running", format!("{left} instances are left, and no other compute service is enabled and up"))
            }
            () if stuck.is_empty() => (True, "Running", format!("{left} instances are left")),
            () => (True, "Running", format!("{left} instances are left; cannot leave: {}", stuck.join("; "))),
        };
        let is_over = status == False;
        let preflight = if self.no_destination {
            state("PreflightChecksSucceeded", False, "NoDestination", "no other compute service is enabled and up")
        } else {
            state("PreflightChecksSucceeded", True, "Succeeded", "")
        };
        let moving = self.describe(State::Migrating);
        let migrating = match () {
            () if !moving.is_empty() => state("MigratingInstance", True, "Running", moving.join("; ")),
            () if !stuck.is_empty() => state("MigratingInstance", False, "Failed", stuck.join("; ")),
            () => state("MigratingInstance", False, "Succeeded", ""),
        };
        let wait =
            Wait::on(&Ref::cluster::<Eviction>(view.eviction.name_any())).condition("is over").now(message.clone());
        let wait = match reason {
            "Failed" => wait
                .look_at(format!(
                    "move or delete them, then it ends by itself; to try all again: kubectl delete evi {}",
                    view.eviction.name_any()
                ))
                .failed("NonMigratable"),
            _ => wait.with_reason("Evicting"),
        };
        let step = match (self.calls.is_empty(), reason) {
            (true, "Succeeded") => step.childless(),
            (true, _) => step.childless().wait(wait),
            (false, _) => self.calls.iter().cloned().fold(step, Step::call),
        };
        let poll = if is_over { LATE.max(view.settings.drain.poll) } else { view.settings.drain.poll };
        let mut plan = with_times(view, plan, is_over)
            .step(step)
            .condition(preflight)
            .condition(migrating)
            .condition(state("Evicting", status, reason, message))
            .status("outstandingRamMb", self.ram)
            .resync(Some(LATE));
        if let Some(compute) = &view.host.compute {
            plan = plan.status("hypervisorServiceId", compute.id.clone());
        }
        if !self.instances.is_empty() {
            plan = plan.status("instances", json!(self.instances));
        }
        if !self.outstanding.is_empty() {
            plan = plan.status("outstandingInstances", json!(self.outstanding));
        }
        plan.requeue_after = Some(poll);
        plan
    }
}
