//! Descheduling: hosts that detectors find have servers moved off them, by Descheduling objects, which people may write as well.
//!
//! ```text
//! hosts ─► detectors ─► Descheduling ─► target, by the pipeline that answers Nova ─► dry run: told
//!                                                                                └─► os-migrateLive ─► Nova's records ─► told
//! ```
//!
//! Only the leader does this. What it is about to do is written before it is done, so that one that takes over finds in Nova
//! whether it was done, and does it once.

mod judge;
pub(crate) mod nova;
mod propose;
mod round;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use c5c3_api::blocks::ConditionStatus;
use c5c3_api::cortex::{Descheduling, Pipeline};
use c5c3_kit::Ref;
use c5c3_kit::events::Events;
use c5c3_openstack::Clients;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::recorder::MANAGER;
use crate::state::State;
use judge::{Stage, Told};
pub(crate) use propose::Detecting;

/// The field manager of what detectors say of a Pipeline.
pub(crate) const DETECTING: &str = "cortex-detectors";

/// How Deschedulings are carried out.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How often hosts and migrations are looked at.
    pub interval: Duration,
    /// How many Deschedulings are kept.
    pub most: usize,
    /// How long one is kept after its end. One whose cooldown lasts longer is kept until that is over.
    pub age: Duration,
    /// The Secret with the clouds.yaml of a user with the role admin in Nova.
    pub clouds_secret: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(30),
            most: 1000,
            age: Duration::from_hours(24),
            clouds_secret: "cortex-clouds-yaml".into(),
        }
    }
}

/// What carries them out.
#[derive(Clone)]
pub(crate) struct Descheduler {
    namespace: String,
    objects: Api<Descheduling>,
    pipelines: Api<Pipeline>,
    secrets: Api<Secret>,
    clients: Arc<Clients>,
    events: Events,
    state: State,
    settings: Settings,
}

impl Descheduler {
    pub(crate) fn new(client: &Client, namespace: &str, state: &State, settings: Settings) -> Self {
        Self {
            namespace: namespace.to_owned(),
            objects: Api::namespaced(client.clone(), namespace),
            pipelines: Api::namespaced(client.clone(), namespace),
            secrets: Api::namespaced(client.clone(), namespace),
            clients: Arc::new(Clients::new(c5c3_openstack::Options::default())),
            events: Events::new(client.clone(), MANAGER),
            state: state.clone(),
            settings,
        }
    }

    /// Works until `stop`.
    pub(crate) async fn work(self, stop: CancellationToken) {
        self.state.forget_said();
        let mut ticks = tokio::time::interval(self.settings.interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let rounds = async {
            loop {
                ticks.tick().await;
                self.state.metrics.capacity(&self.state.read());
                if let Err(error) = self.round(Timestamp::now()).await {
                    tracing::warn!(%error, "cannot look after Deschedulings; trying again");
                }
            }
        };
        // One that is stopped within a round is like one that dies there: the next leader finds what it wrote.
        tokio::select! {
            () = rounds => {}
            () = stop.cancelled() => {}
        }
        // The next leader exports them; two processes that do would be counted twice.
        self.state.metrics.stand_down();
    }

    /// One look at everything.
    async fn round(&self, now: Timestamp) -> kube::Result<()> {
        let objects = match self.objects.list(&ListParams::default()).await {
            Ok(list) => list.items,
            // An installation that was not given the kind yet.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            Err(error) => return Err(error),
        };
        let detecting = self.state.detecting();
        let objects = self.remove_old(objects, &detecting, now).await?;
        let mut round = round::Round::new(self, objects, detecting, now);
        round.run().await
    }

    /// Removes those that ended long ago, and the oldest of those that are too many. One whose cooldown lasts is a brake, and stays.
    async fn remove_old(
        &self,
        mut objects: Vec<Descheduling>,
        detecting: &BTreeMap<String, Detecting>,
        now: Timestamp,
    ) -> kube::Result<Vec<Descheduling>> {
        let cooldown = longest_cooldown(detecting);
        objects.sort_by_key(|one| (judge::ended_at(one).is_none(), judge::ended_at(one)));
        let mut spare = objects.len().saturating_sub(self.settings.most);
        let mut kept = Vec::new();
        for object in objects {
            let age = judge::ended_at(&object).map(|at| now.duration_since(at));
            let is_over = age.is_some_and(|age| age > cooldown);
            let is_old = age.is_some_and(|age| age > signed(self.settings.age));
            if !(is_over && (is_old || spare > 0)) {
                kept.push(object);
                continue;
            }
            spare = spare.saturating_sub(1);
            // An object that was changed or replaced meanwhile stays.
            let (uid, resource_version) = (object.uid(), object.resource_version());
            let preconditions = Some(Preconditions { uid, resource_version });
            let which = DeleteParams { preconditions, ..DeleteParams::default() };
            match self.objects.delete(&object.name_any(), &which).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(kept)
    }

    /// Writes the status of a Descheduling if it is new; `None` on a conflict, when the object was changed or deleted.
    async fn tell(
        &self,
        object: &Descheduling,
        told: &Told,
        goes: Option<(&str, String)>,
        now: Timestamp,
    ) -> kube::Result<Option<Descheduling>> {
        let Some(status) = judge::status(object, told, goes, now) else { return Ok(Some(object.clone())) };
        let note = status.explanation.clone().filter(|_| told.stage != Stage::Left).unwrap_or(told.message.clone());
        let mut changed = object.clone();
        changed.status = Some(status);
        let name = object.name_any();
        // With the version that was read: of two processes that both decide, one is refused here, before it calls Nova.
        let written = match self.objects.replace_status(&name, &PostParams::default(), &changed).await {
            Ok(written) => written,
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => return Ok(None),
            Err(error) => return Err(error),
        };
        self.state.metrics.descheduling(told.reason);
        let warning = told.stage == Stage::Stays && told.reason != "DryRun";
        let about = Ref::namespaced::<Descheduling>(&self.namespace, &name);
        let note = if note.contains(&told.message) { note } else { format!("{note} {}", told.message) };
        self.events.publish(&about, &object.uid().unwrap_or_default(), warning, told.reason, &note).await;
        tracing::info!(descheduling = name, reason = told.reason, "{}", told.message);
        Ok(Some(written))
    }

    /// Says on a Pipeline what its detectors find, if that is new.
    async fn found(&self, pipeline: &str, detecting: &Detecting, holds: bool, reason: &str, message: &str) {
        if !self.state.is_new(pipeline, &format!("{reason} {message} {:?}", detecting.generation)) {
            return;
        }
        let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
        let since = self.detecting_since(pipeline, status).await;
        let condition = json!({
            "type": "Detecting", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": since, "observedGeneration": detecting.generation,
        });
        let status = json!({
            "apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Pipeline", "status": {"conditions": [condition]},
        });
        let apply = PatchParams::apply(DETECTING).force();
        if let Err(error) = self.pipelines.patch_status(pipeline, &apply, &Patch::Apply(&status)).await {
            tracing::warn!(%error, pipeline, "cannot say what detectors find");
            self.state.is_new(pipeline, "");
        }
    }

    /// Since when the condition Detecting of a Pipeline has this status: a new message alone is no transition.
    async fn detecting_since(&self, pipeline: &str, status: ConditionStatus) -> Time {
        let before = self.pipelines.get_opt(pipeline).await.ok().flatten().and_then(|object| object.status);
        let conditions = before.map(|status| status.conditions).unwrap_or_default();
        let same = conditions.into_iter().find(|one| one.r#type == "Detecting" && one.status == status);
        same.and_then(|one| one.last_transition_time).unwrap_or(Time(Timestamp::now()))
    }
}

/// For how long moves count.
fn longest_cooldown(detecting: &BTreeMap<String, Detecting>) -> SignedDuration {
    let usual = c5c3_api::cortex::PipelineDescheduling::default().cooldown.get();
    let all = detecting.values().map(|one| one.descheduling.cooldown.get());
    signed(all.fold(usual, Duration::max))
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}
