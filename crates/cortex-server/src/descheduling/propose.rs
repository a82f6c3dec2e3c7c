//! Which servers a pipeline of detectors proposes to move, and why it proposes none. Pure.

use std::collections::{BTreeMap, BTreeSet};

use c5c3_api::blocks::ObjectName;
use c5c3_api::cortex::{Descheduling, DeschedulingSpec, PipelineDescheduling, PipelineRef};
use c5c3_cortex::{Condition, Detector, Domain, Host, Overload, Relocation, Scheduler};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::judge;
use super::nova::{Migration, Server};

/// A pipeline of detectors that runs.
#[derive(Clone, Debug)]
pub(crate) struct Detecting {
    pub detectors: Vec<Detector>,
    pub descheduling: PipelineDescheduling,
    pub generation: Option<i64>,
}

/// Where servers were, and when they left.
#[derive(Default)]
pub(crate) struct History {
    /// By server: when it moved, from where, and for which detector if that is known.
    moves: BTreeMap<String, Vec<(Timestamp, String, Option<String>)>>,
}

impl History {
    /// What Nova's records and the Deschedulings tell.
    pub(crate) fn new(migrations: &[Migration], objects: &[Descheduling]) -> Self {
        let mut all = Self::default();
        for one in migrations.iter().filter(|one| one.moved()) {
            if let (Some(at), Some(source)) = (one.updated(), &one.source) {
                all.moves.entry(one.server.clone()).or_default().push((at, source.clone(), None));
            }
        }
        for one in objects.iter().filter(|one| judge::reason(one) == "Migrated") {
            if let Some(at) = judge::ended_at(one) {
                let spec = &one.spec;
                let left = (at, spec.prev_host.clone(), spec.detector.clone());
                all.moves.entry(spec.resource_id.clone()).or_default().push(left);
            }
        }
        all
    }

    /// When a server was moved last.
    pub(crate) fn last(&self, server: &str) -> Option<Timestamp> {
        self.moves.get(server)?.iter().map(|(at, ..)| *at).max()
    }

    /// The hosts that a server does not go back to: those that it left since then, and those that it left for the same detector.
    pub(crate) fn left(&self, server: &str, since: Timestamp, detector: Option<&str>) -> Vec<String> {
        let all = self.moves.get(server).into_iter().flatten();
        let counts = |(at, _, of): &&(Timestamp, String, Option<String>)| {
            *at > since || (of.is_some() && of.as_deref() == detector)
        };
        all.filter(counts).map(|(_, host, _)| host.clone()).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// What the proposals of a pipeline depend on beside its hosts.
pub(crate) struct Scene<'a> {
    pub pipeline: &'a str,
    pub detecting: &'a Detecting,
    pub objects: &'a [Descheduling],
    pub history: &'a History,
    pub now: Timestamp,
}

impl Scene<'_> {
    /// The time before which nothing counts any more.
    pub(crate) fn since(&self) -> Timestamp {
        since(self.now, &self.detecting.descheduling)
    }

    /// How many more servers it may have moved now.
    pub(crate) fn free(&self) -> usize {
        let ours = self.objects.iter().filter(|one| {
            one.spec.pipeline_ref.as_ref().is_some_and(|pipeline| pipeline.name.as_str() == self.pipeline)
        });
        let most = self.detecting.descheduling.max_migrations as usize;
        most.saturating_sub(ours.filter(|one| self.is_open(one)).count())
    }

    /// Whether something comes of it still, or would: a dry run of a pipeline that only proposes stands until its cooldown is over.
    fn is_open(&self, one: &Descheduling) -> bool {
        if !judge::ended(one) {
            return true;
        }
        let is_young = judge::ended_at(one).is_some_and(|at| at > self.since());
        self.detecting.descheduling.dry_run && judge::reason(one) == "DryRun" && is_young
    }

    /// Why nothing is looked for on a host, if so.
    pub(crate) fn held(&self, host: &Host) -> Option<String> {
        let here = || self.objects.iter().filter(|one| one.spec.prev_host == host.name);
        if host.disabled == Condition::True || host.terminating == Condition::True {
            return Some("it is disabled or terminating, and the hypervisor operator drains it".into());
        }
        if let Some(open) = here().find(|one| self.is_open(one)) {
            return Some(format!("{} is to leave it, by descheduling/{}", open.spec.resource_id, open.name_any()));
        }
        // What the host reports is older than that; unless the server came back since.
        let is_there = |id: &str| host.instances.iter().any(|one| **one == *id);
        let left_lately = |one: &&Descheduling| {
            judge::reason(one) == "Migrated" && judge::ended_at(one).is_some_and(|at| at > self.since())
        };
        let left = here().filter(left_lately).find(|one| is_there(&one.spec.resource_id))?;
        Some(format!("{} has left it, which it does not report yet", left.spec.resource_id))
    }

    /// Whether a server may be chosen: nothing is done with it, and nothing was for a while.
    pub(crate) fn may_move(&self, server: &Server) -> bool {
        let about = |one: &&Descheduling| one.spec.resource_id == server.id;
        let since = self.since();
        let tried = |one: &Descheduling| {
            let counts = judge::reason(one) != "DryRun" || self.detecting.descheduling.dry_run;
            counts && judge::ended_at(one).is_some_and(|at| at > since)
        };
        server.status == "ACTIVE"
            && server.task.is_none()
            && self.history.last(&server.id).is_none_or(|at| at <= since)
            && !self.objects.iter().filter(about).any(|one| !judge::ended(one) || tried(one))
    }

    /// The question where a server of a host goes.
    pub(crate) fn relocation(&self, overload: &Overload, request: c5c3_cortex::Request) -> Relocation {
        let detector = overload.detector;
        let left = self.history.left(&request.workload, self.since(), Some(detector.name));
        let limits = self.detecting.detectors.clone();
        Relocation { request, from: overload.host.clone(), load: detector.load, limits, left }
    }

    /// The object that has a server moved.
    pub(crate) fn object(&self, overload: &Overload, server: &str) -> Descheduling {
        let spec = DeschedulingSpec {
            resource_id: server.to_owned(),
            prev_host: overload.host.clone(),
            reason: overload.reason(),
            detector: Some(overload.detector.name.to_owned()),
            pipeline_ref: ObjectName::new(self.pipeline).ok().map(|name| PipelineRef { name }),
            dry_run: self.detecting.descheduling.dry_run,
        };
        Descheduling::new(&self.name(server), spec)
    }

    /// The first name that is free: of two processes that propose the same, one finds it taken.
    fn name(&self, server: &str) -> String {
        let pipeline: String = self.pipeline.chars().take(150).collect();
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let server: String = server.chars().take(64).map(plain).collect();
        let first = format!("{pipeline}-{}", server.trim_matches('-'));
        let is_free = |name: &String| !self.objects.iter().any(|one| one.name_any() == *name);
        let numbered = (2..).map(|number: u64| format!("{first}-{number}"));
        std::iter::once(first.clone()).chain(numbered).find(is_free).unwrap_or(first)
    }
}

/// Since when moves and attempts count for a pipeline.
pub(crate) fn since(now: Timestamp, descheduling: &PipelineDescheduling) -> Timestamp {
    let cooldown = SignedDuration::try_from(descheduling.cooldown.get()).unwrap_or(SignedDuration::MAX);
    now.checked_sub(cooldown).unwrap_or(Timestamp::MIN)
}

/// The servers of a host in the order in which they are tried: the smallest of those that are enough, then the largest.
pub(crate) fn order(
    scheduler: &Scheduler,
    overload: &Overload,
    servers: Vec<c5c3_cortex::Request>,
) -> Vec<c5c3_cortex::Request> {
    let mut keyed: Vec<_> = servers
        .into_iter()
        .map(|request| {
            let resources = request.resources;
            let size = match overload.detector.load {
                c5c3_cortex::Load::Cpu => resources.vcpus,
                c5c3_cortex::Load::Memory | c5c3_cortex::Load::Instances => resources.memory_mib,
            };
            let is_enough = scheduler.is_enough(Domain::Nova, overload, resources);
            ((!is_enough, if is_enough { size } else { u64::MAX - size }, request.workload.clone()), request)
        })
        .collect();
    keyed.sort_by(|(a, _), (b, _)| a.cmp(b));
    keyed.into_iter().map(|(_, request)| request).collect()
}
