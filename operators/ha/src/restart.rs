//! The part of a turn that is about guests: asks Nova, writes down what is to be done, does it, tells.

use std::collections::BTreeMap;
use std::sync::Arc;

use c5c3_api::blocks::ConditionStatus;
use c5c3_api::hypervisor::{Eviction as EvictionKind, GuestFailure, GuestFailureKind, Maintenance};
use c5c3_kit::condition::find;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, PostParams};
use kube::core::ApiResource;
use kube::{Api, Client};
use serde_json::json;

use crate::decide::{Action, Host, Power};
use crate::guests::{Answers, GuestPolicy, LEDGER, Ledger, Scene, decide};
use crate::read::{Eviction, Hypervisor, conditions};
use crate::report::{self, Fenced, GUESTS, Report};
use crate::turn::Turn;
use crate::{Compute, NAME};

/// Evictions by their names.
pub(crate) type Evictions = BTreeMap<String, Eviction>;

/// The label of the Evictions that we create.
const OWNER: &str = "app.kubernetes.io/managed-by";

/// The Eviction of a host with guests that crash. One with the name of the host belongs to its maintenance.
fn eviction_name(host: &str) -> String {
    format!("ha-{host}")
}

/// What is known of the guests of a host.
pub(crate) fn scene<'a>(hypervisor: &'a Hypervisor, host: &'a Host, evictions: &Evictions) -> Scene<'a> {
    let told = find(conditions(hypervisor.status.as_ref()), GUESTS);
    let is_ours = |eviction: &&Eviction| eviction.labels().get(OWNER).is_some_and(|owner| owner == NAME);
    let under_way = |eviction: &&Eviction| {
        eviction.spec.hypervisor != host.name && eviction.status.as_ref().is_none_or(|status| status.finished.is_none())
    };
    Scene {
        host: &host.name,
        failures: hypervisor.status.as_ref().map(|status| status.guest_failures.as_slice()).unwrap_or_default(),
        ledger: Ledger::read(hypervisor.annotations().get(LEDGER)),
        barrier: barrier(hypervisor, host, evictions),
        is_evicted: evictions.get(&eviction_name(&host.name)).is_some_and(|eviction| is_ours(&eviction)),
        evicted_elsewhere: evictions
            .values()
            .filter(is_ours)
            .find(under_way)
            .map(|eviction| eviction.spec.hypervisor.clone()),
        told: told
            .filter(|told| told.status == ConditionStatus::True)
            .map(|told| told.reason.clone().unwrap_or_default()),
    }
}

/// Why guests of this host are left alone, if they are.
fn barrier(hypervisor: &Hypervisor, host: &Host, evictions: &Evictions) -> Option<(&'static str, String)> {
    let told = conditions(hypervisor.status.as_ref());
    let holds = |kind: &str| find(told, kind).filter(|found| found.status == ConditionStatus::True);
    if host.power != Power::Ready || host.fenced_at.is_some() {
        return Some(("HostNotReady", "the node is not ready, so that the host is looked at first".into()));
    }
    if !host.high_availability {
        return Some(("NotWanted", "spec.highAvailability is false".into()));
    }
    if hypervisor.spec.maintenance != Maintenance::None {
        return Some((
            "InMaintenance",
            "the host is in maintenance; start them when it ends, or clear spec.maintenance".into(),
        ));
    }
    let own = eviction_name(&host.name);
    let of_host = |eviction: &&Eviction| eviction.spec.hypervisor == host.name;
    if let Some(name) = evictions.values().find(of_host).map(Eviction::name_any) {
        let then = if name == own {
            "after crashes of its guests: look at the host, then delete the Eviction, which enables it again"
        } else {
            "and guests leave as they are: start them on their new hosts"
        };
        return Some(("Evicting", format!("the host is being evicted (Eviction {name}), {then}")));
    }
    if holds("Evicting").is_some() {
        return Some((
            "Evicting",
            "the host is being evicted, and guests leave as they are: start them on their new hosts".into(),
        ));
    }
    let is_tested = |reason: &str| matches!(reason, "Initial" | "Testing");
    if holds("Onboarding").is_some_and(|found| found.reason.as_deref().is_some_and(is_tested)) {
        return Some(("Onboarding", "the host is being onboarded".into()));
    }
    None
}

/// A client, or why there is none.
pub(crate) type Made<T> = Result<Arc<T>, String>;

/// The guests of a host, about which there may be something to do.
pub(crate) struct Look<'a> {
    scene: Scene<'a>,
    questions: Vec<String>,
    now: Timestamp,
}

impl<'a> Look<'a> {
    pub(crate) fn at(
        hypervisor: &'a Hypervisor,
        host: &'a Host,
        evictions: &Evictions,
        policy: &GuestPolicy,
    ) -> Option<Self> {
        let (scene, now) = (scene(hypervisor, host, evictions), Timestamp::now());
        let questions = scene.questions(policy, now);
        scene.is_of_interest().then_some(Self { scene, questions, now })
    }

    /// Whether Nova is asked.
    pub(crate) fn asks(&self) -> bool {
        !self.questions.is_empty()
    }
}

impl Turn<'_> {
    /// Does what is to be done about the guests of a host, and returns what is to be told.
    pub(crate) async fn guests(
        &self,
        hypervisor: &Hypervisor,
        look: &Look<'_>,
        compute: Option<&Made<dyn Compute>>,
    ) -> Option<Report> {
        let (policy, Look { scene, questions, now }) = (&self.means.policy.guests, look);
        let compute = compute.cloned().unwrap_or_else(|| Err("Nova was not asked".into()));
        let mut answers = Answers::new();
        for guest in questions {
            let answer = match &compute {
                Ok(compute) => compute.guest(guest).await,
                Err(why) => Err(why.clone()),
            };
            answers.insert(guest.clone(), answer);
        }
        let decided = decide(scene, &answers, policy, *now);
        if decided.ledger != scene.ledger {
            // With the version that was read: the object in memory may be older than our own last call.
            let written = report::annotate(self.client, hypervisor, LEDGER, decided.ledger.write(), true).await;
            if let Err(error) = written {
                tracing::debug!(host = scene.host, %error, "cannot write down what is done about guests; trying again");
                return None;
            }
        }
        for failure in &decided.news {
            let (reason, note) = news(failure);
            self.publish(hypervisor, true, reason, &note).await;
        }
        for (guest, why) in &decided.left {
            self.publish(hypervisor, false, "GuestLeft", &format!("server {guest} is left as it is: {why}")).await;
        }
        let mut problems = Vec::new();
        for guest in &decided.restarts {
            let action = Action::Restart(guest.clone());
            let made = match &compute {
                Ok(compute) => compute.call(&action).await,
                Err(why) => Err(why.clone()),
            };
            problems.extend(made.as_ref().err().map(|why| format!("the restart of {guest} failed: {why}")));
            self.say(hypervisor, &action, &made.map(|()| Fenced::Kept)).await;
        }
        if let Some(why) = &decided.evict {
            match evict(self.client, scene.host, why).await {
                Ok(()) => {
                    self.publish(hypervisor, true, "EvictHost", &format!("{why}; its guests are moved away")).await;
                }
                Err(error) => {
                    self.publish(hypervisor, true, "EvictHostFailed", &format!("not done: {why}: {error}")).await;
                    problems.push(format!("the host cannot be evicted: {error}"));
                }
            }
        }
        let (is_failed, reason, message) = decided.report?;
        Some((is_failed, reason, problems.iter().fold(message, |told, problem| told + "; " + problem)))
    }
}

/// The event of a failure.
fn news(failure: &GuestFailure) -> (&'static str, String) {
    let reason = match failure.kind {
        GuestFailureKind::Crashed => "GuestCrashed",
        GuestFailureKind::Panicked => "GuestPanicked",
        GuestFailureKind::IoError => "GuestIoError",
        GuestFailureKind::NoSpace => "GuestNoSpace",
        GuestFailureKind::Watchdog => "GuestWatchdog",
        GuestFailureKind::RebootLoop => "GuestRebootLoop",
    };
    let what = failure.message.as_deref().unwrap_or("no more is known");
    (reason, format!("server {} at {}: {what}", failure.instance, failure.time.0))
}

/// Has the guests of a host moved away. An Eviction that exists is that of an earlier turn whose answer was lost.
async fn evict(client: &Client, host: &str, why: &str) -> Result<(), kube::Error> {
    let kind = ApiResource::erase::<EvictionKind>(&());
    let labels = Some([(OWNER.to_owned(), NAME.to_owned())].into());
    let reason: String = why.chars().take(LONGEST_REASON).collect();
    let mut object =
        DynamicObject::new(&eviction_name(host), &kind).data(json!({"spec": {"hypervisor": host, "reason": reason}}));
    object.metadata.labels = labels;
    let evictions: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    match evictions.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        done => done.map(drop),
    }
}

/// The longest reason that an Eviction takes.
const LONGEST_REASON: usize = 255;
