//! Migrations of instances from and to this host, as objects that both hosts' agents write.
//!
//! The object has the name of the instance's UUID. The agent at the origin creates it and publishes progress; the agent at the
//! destination adds where that is. Each has a field manager of its own.

use std::collections::HashMap;

use c5c3_api::hypervisor::{Migration, MigrationSpec, MigrationStatus, MigrationType};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use uuid::Uuid;

use crate::connection::{Connection, LibvirtError};
use crate::progress::{self, MIGRATION_OUT, Stage};
use crate::protocol::{Domain, Event, Statistics};

const ORIGIN: &str = "c5c3-node-agent-origin";
const DESTINATION: &str = "c5c3-node-agent-destination";

/// libvirt's numbers of lifecycle events, with their details, that a migration causes.
const STARTED_MIGRATED: (i32, i32) = (2, 1);
const RESUMED_MIGRATED: (i32, i32) = (4, 1);
const STOPPED_MIGRATED: (i32, i32) = (5, 3);

/// How many ticks an instance may be without a job, before its migration counts as ended: libvirt removes the job before it
/// sends the last event.
const GRACE: u32 = 3;
/// For how many ticks something is tried that the API refuses, and the destination waits for the origin's object.
const TRIES: u32 = 120;

/// An instance that leaves.
#[derive(Debug)]
struct Outgoing {
    domain: Domain,
    started: Timestamp,
    stage: Stage,
    statistics: Statistics,
    /// Ticks without a job.
    idle: u32,
    /// What was published last.
    published: Option<MigrationStatus>,
    failures: u32,
}

/// The migrations of this host.
#[derive(Debug)]
pub struct Migrations {
    api: Api<Migration>,
    node: String,
    outgoing: HashMap<Uuid, Outgoing>,
    /// Instances that arrive, and how often it was tried to say so.
    incoming: HashMap<Uuid, u32>,
}

impl Migrations {
    pub fn new(api: Api<Migration>, node: &str) -> Self {
        Self { api, node: node.to_owned(), outgoing: HashMap::new(), incoming: HashMap::new() }
    }

    /// Whether there is nothing to follow.
    pub fn is_idle(&self) -> bool {
        self.outgoing.is_empty() && self.incoming.is_empty()
    }

    /// Takes up migrations from and to this host that were under way when the agent or libvirt ended.
    pub async fn adopt(&mut self, libvirt: &Connection) -> Result<(), LibvirtError> {
        let listed = match self.api.list(&ListParams::default()).await {
            Ok(listed) => listed,
            Err(error) => {
                tracing::warn!(%error, "cannot look for migrations that were under way");
                return Ok(());
            }
        };
        let is_from_here = |migration: &Migration| {
            let status = migration.status.as_ref();
            status.is_some_and(|status| status.origin.as_ref() == Some(&self.node)) && !progress::is_over(status)
        };
        let (leaving, others): (Vec<Migration>, Vec<Migration>) = listed.items.into_iter().partition(is_from_here);
        let arriving: Vec<Migration> = others.into_iter().filter(|one| may_arrive(one, &self.node)).collect();
        if leaving.is_empty() && arriving.is_empty() {
            return Ok(());
        }
        let domains = libvirt.domains().await?;
        for migration in arriving {
            let Ok(uuid) = migration.name_any().parse::<Uuid>() else { continue };
            if domains.iter().any(|domain| domain.uuid == uuid && domain.is_active()) {
                self.incoming.entry(uuid).or_insert(0);
            }
        }
        for migration in leaving {
            let Ok(uuid) = migration.name_any().parse::<Uuid>() else { continue };
            let published = migration.status.map(own);
            let started = published.as_ref().and_then(|status| status.started.as_ref());
            let started = started.map_or_else(Timestamp::now, |time| time.0);
            let here = domains.iter().find(|domain| domain.uuid == uuid && domain.is_active());
            let stage = if here.is_some() { Stage::Running { is_bounded: false } } else { Stage::Succeeded };
            let domain = here.cloned().unwrap_or(Domain { name: String::new(), uuid, id: -1 });
            let adopted = || Outgoing { published, ..Outgoing::new(domain, started, stage) };
            self.outgoing.entry(uuid).or_insert_with(adopted);
        }
        Ok(())
    }

    /// Notes what happened. [`Migrations::tick`] publishes it.
    pub fn on(&mut self, event: &Event) {
        match event {
            Event::Iteration { domain } => {
                let new = || Outgoing::new(domain.clone(), Timestamp::now(), Stage::Running { is_bounded: false });
                self.outgoing.entry(domain.uuid).or_insert_with(new);
            }
            Event::JobCompleted { domain, statistics } if statistics.number("operation") == Some(MIGRATION_OUT) => {
                let new = || Outgoing::new(domain.clone(), Timestamp::now(), Stage::Succeeded);
                let outgoing = self.outgoing.entry(domain.uuid).or_insert_with(new);
                outgoing.statistics = statistics.clone();
                outgoing.stage = Stage::Succeeded;
                outgoing.idle = GRACE;
            }
            Event::JobCompleted { .. } | Event::Reboot { .. } | Event::Watchdog { .. } | Event::IoError { .. } => {}
            Event::Lifecycle { domain, event, detail } => self.on_lifecycle(domain, (*event, *detail)),
        }
    }

    fn on_lifecycle(&mut self, domain: &Domain, what: (i32, i32)) {
        match (what, self.outgoing.get_mut(&domain.uuid)) {
            (STARTED_MIGRATED, _) => {
                self.incoming.insert(domain.uuid, 0);
            }
            // The numbers come with another event after this one.
            (STOPPED_MIGRATED, Some(outgoing)) => outgoing.stage = Stage::Succeeded,
            (RESUMED_MIGRATED, Some(outgoing)) if outgoing.stage != Stage::Succeeded => {
                outgoing.stage = Stage::Failed("the migration failed; the instance goes on at the origin".into());
                outgoing.idle = GRACE;
            }
            _ => {}
        }
    }

    /// Asks for progress and publishes it. To be called each second, unless [`Migrations::is_idle`].
    pub async fn tick(&mut self, libvirt: &Connection) -> Result<(), LibvirtError> {
        for outgoing in self.outgoing.values_mut() {
            outgoing.look(libvirt).await?;
            if let Err(error) = outgoing.publish(&self.api, &self.node).await {
                tracing::warn!(%error, instance = %outgoing.domain.uuid, "cannot publish a migration; trying again");
                outgoing.failures += 1;
            }
        }
        self.outgoing.retain(|_, outgoing| !outgoing.is_done());
        let arriving: Vec<(Uuid, u32)> = self.incoming.iter().map(|(uuid, tries)| (*uuid, *tries)).collect();
        for (uuid, tries) in arriving {
            let arrived = self.arrive(uuid).await.unwrap_or_else(|error| {
                tracing::warn!(%error, instance = %uuid, "cannot publish the destination of a migration; trying again");
                false
            });
            if arrived || tries >= TRIES {
                self.incoming.remove(&uuid);
            } else {
                self.incoming.insert(uuid, tries + 1);
            }
        }
        Ok(())
    }

    /// Says that this host is the destination, once the agent at the origin has created the object.
    async fn arrive(&self, uuid: Uuid) -> Result<bool, kube::Error> {
        let name = uuid.to_string();
        let found = self.api.get_opt(&name).await?;
        let Some(found) = found.filter(|found| has_begun(found, &self.node)) else { return Ok(false) };
        let patch = json!({"apiVersion": "hypervisor.c5c3.io/v1alpha1", "kind": "Migration",
            "metadata": {"name": name, "uid": found.uid()}, "status": {"destination": self.node}});
        let parameters = PatchParams::apply(DESTINATION).force();
        self.api.patch_status(&name, &parameters, &Patch::Apply(&patch)).await?;
        Ok(true)
    }
}

/// What the agent at the origin writes of a status.
fn own(status: MigrationStatus) -> MigrationStatus {
    MigrationStatus { destination: None, observed_generation: None, waiting_for: Vec::new(), ..status }
}

/// Whether the object is about the migration that arrives now, and not about one before it. Short ones may be over when
/// their destination is published.
fn has_begun(migration: &Migration, node: &str) -> bool {
    migration.status.as_ref().is_some_and(|status| {
        status.origin.as_deref().is_some_and(|origin| origin != node) && status.destination.is_none()
    })
}

/// Whether a migration leads here, if its instance is here: it has not failed, and no host has said that it is the destination.
fn may_arrive(migration: &Migration, node: &str) -> bool {
    let status = migration.status.as_ref();
    let has_succeeded = status.is_some_and(|status| status.r#type == Some(MigrationType::Success));
    has_begun(migration, node) && (has_succeeded || !progress::is_over(status))
}

impl Outgoing {
    fn new(domain: Domain, started: Timestamp, stage: Stage) -> Self {
        let statistics = Statistics::default();
        Self { domain, started, stage, statistics, idle: 0, published: None, failures: 0 }
    }

    /// Ended and published, or not publishable.
    fn is_done(&self) -> bool {
        let is_over = !matches!(self.stage, Stage::Running { .. }) && self.idle >= GRACE;
        (is_over && progress::is_over(self.published.as_ref())) || self.failures > TRIES
    }

    async fn look(&mut self, libvirt: &Connection) -> Result<(), LibvirtError> {
        if !matches!(self.stage, Stage::Running { .. }) {
            self.idle += 1;
            return Ok(());
        }
        match libvirt.job(&self.domain).await {
            Ok((0, _)) => self.idle += 1,
            Ok((kind, statistics)) => {
                self.idle = 0;
                self.stage = Stage::Running { is_bounded: kind == 1 };
                self.statistics = statistics;
            }
            Err(error) if error.is_gone() => {
                self.stage = Stage::Succeeded;
                self.idle += 1;
            }
            Err(error) if error.is_about_one_call() => self.idle += 1,
            Err(error) => return Err(error),
        }
        if self.idle >= GRACE && matches!(self.stage, Stage::Running { .. }) {
            self.stage =
                Stage::Failed("the migration was aborted or failed; the instance is still at the origin".into());
        }
        Ok(())
    }

    async fn publish(&mut self, api: &Api<Migration>, node: &str) -> Result<(), kube::Error> {
        // The end is published with its numbers, which come a moment later.
        if self.stage == Stage::Succeeded && self.idle < GRACE {
            return Ok(());
        }
        if self.published.is_none() {
            self.started = begin(api, &self.domain.uuid.to_string(), node, self.started).await?;
        }
        let before = self.published.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
        let mut status = progress::status(node, self.started, &self.stage, &self.statistics, &before, Timestamp::now());
        // The numbers of a migration that ended while the agent was away are those of before.
        if let Some(published) = self.published.as_ref().filter(|_| self.statistics == Statistics::default()) {
            let (conditions, r#type, err_msg) = (status.conditions, status.r#type, status.err_msg);
            status = MigrationStatus { conditions, r#type, err_msg, ..published.clone() };
        }
        if self.published.as_ref() == Some(&status) {
            return Ok(());
        }
        let name = self.domain.uuid.to_string();
        let patch = json!({"apiVersion": "hypervisor.c5c3.io/v1alpha1", "kind": "Migration",
            "metadata": {"name": name}, "status": status});
        api.patch_status(&name, &PatchParams::apply(ORIGIN).force(), &Patch::Apply(&patch)).await?;
        self.published = Some(status);
        Ok(())
    }
}

/// Creates the object, or takes over that of an earlier migration of the same instance, whose destination is wrong now.
/// Returns when the migration started.
async fn begin(api: &Api<Migration>, name: &str, node: &str, started: Timestamp) -> Result<Timestamp, kube::Error> {
    let found = if let Some(found) = api.get_opt(name).await? {
        found
    } else {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let new = Migration { metadata, spec: MigrationSpec {}, status: None };
        api.create(&PostParams::default(), &new).await?
    };
    let status = found.status.as_ref();
    let is_same = status.is_some_and(|status| status.origin.as_deref() == Some(node)) && !progress::is_over(status);
    if is_same {
        return Ok(status.and_then(|status| status.started.clone()).map_or(started, |time| time.0));
    }
    let stage = Stage::Running { is_bounded: false };
    let fresh = progress::status(node, started, &stage, &Statistics::default(), &[], started);
    let parameters = PostParams { field_manager: Some(ORIGIN.to_owned()), ..PostParams::default() };
    api.replace_status(name, &parameters, &Migration { status: Some(fresh), ..found }).await?;
    Ok(started)
}
