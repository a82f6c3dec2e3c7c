//! One round over all Deschedulings and all pipelines of detectors.

use std::collections::BTreeMap;

use c5c3_api::cortex::{Descheduling, PipelineDescheduling};
use c5c3_cortex::{Domain, Load, Overload, Relocation, Request};
use c5c3_openstack::Error;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::PostParams;

use super::judge::{self, Facts, Next, Stage, Told};
use super::nova::{Migration, Nova, Server, said};
use super::propose::{self, Detecting, History, Scene};
use super::{Descheduler, longest_cooldown};
use crate::state::millis;

/// On how many hosts of a pipeline one round looks for a server: each costs a list call to Nova.
const LOOKED_AT: usize = 3;

/// How many hosts the condition of a pipeline names.
const NAMED: usize = 5;

pub(super) struct Round<'a> {
    own: &'a Descheduler,
    objects: Vec<Descheduling>,
    detecting: BTreeMap<String, Detecting>,
    now: Timestamp,
    migrations: Vec<Migration>,
    history: History,
    running: usize,
}

impl<'a> Round<'a> {
    pub(super) fn new(
        own: &'a Descheduler,
        objects: Vec<Descheduling>,
        detecting: BTreeMap<String, Detecting>,
        now: Timestamp,
    ) -> Self {
        let running = objects.iter().filter(|one| judge::runs(one)).count();
        Self { own, objects, detecting, now, migrations: Vec::new(), history: History::default(), running }
    }

    pub(super) async fn run(&mut self) -> kube::Result<()> {
        let overloads: BTreeMap<String, Vec<Overload>> = {
            let scheduler = self.own.state.read();
            let find = |one: &Detecting| scheduler.overloads(Domain::Nova, &one.detectors);
            self.detecting.iter().map(|(name, one)| (name.clone(), find(one))).collect()
        };
        self.own.state.metrics.detected(&overloads);
        let is_open = self.objects.iter().any(|one| !judge::ended(one));
        let nova =
            if is_open || overloads.values().any(|found| !found.is_empty()) { Some(self.nova().await) } else { None };
        match &nova {
            Some(Ok(nova)) => {
                for object in self.objects.clone().iter().filter(|one| !judge::ended(one)) {
                    self.follow(nova, object).await?;
                }
            }
            Some(Err(why)) => {
                let told = Told::new(Stage::Waits, "Waiting", format!("Nova cannot be asked: {why}"));
                for object in self.objects.iter().filter(|one| !judge::ended(one) && !judge::runs(one)) {
                    self.own.tell(object, &told, None, self.now).await?;
                }
            }
            None => {}
        }
        for (pipeline, found) in &overloads {
            match &nova {
                Some(Err(why)) if !found.is_empty() => {
                    let message = format!("Nova cannot be asked: {why}; {}", hosts(found));
                    let detecting = &self.detecting[pipeline];
                    self.own.found(pipeline, detecting, false, "NovaUnreachable", &message).await;
                }
                Some(Ok(nova)) => self.propose(nova, pipeline, found).await?,
                _ => self.report(pipeline, found, &[]).await,
            }
        }
        Ok(())
    }

    /// Nova, with its records of all that moved lately.
    async fn nova(&mut self) -> Result<Nova, String> {
        let own = self.own;
        let nova = Nova::read(&own.clients, &own.secrets, &own.settings.clouds_secret).await?;
        let started = self.objects.iter().filter(|one| judge::runs(one));
        let started = started.filter_map(|one| Some(one.status.as_ref()?.started_at.as_ref()?.0)).min();
        let since = self.now.checked_sub(longest_cooldown(&self.detecting)).unwrap_or(Timestamp::UNIX_EPOCH);
        let since = started.map_or(since, |started| since.min(started));
        // Nova's clock may be behind.
        let since = since.checked_sub(SignedDuration::from_mins(5)).unwrap_or(since);
        self.migrations = nova.migrations(since).await.map_err(|error| said(&error))?;
        self.history = History::new(&self.migrations, &self.objects);
        Ok(nova)
    }

    fn rules(&self, object: &Descheduling) -> (PipelineDescheduling, Option<&Detecting>) {
        let pipeline = object.spec.pipeline_ref.as_ref();
        let detecting = pipeline.and_then(|pipeline| self.detecting.get(pipeline.name.as_str()));
        (detecting.map(|one| one.descheduling.clone()).unwrap_or_default(), detecting)
    }

    /// Brings one Descheduling forward. An error of Nova is told, and holds up no other.
    async fn follow(&mut self, nova: &Nova, object: &Descheduling) -> kube::Result<()> {
        match self.step(nova, object).await {
            Ok(done) => done,
            Err(error) if judge::runs(object) => {
                tracing::warn!(%error, descheduling = object.name_any(), "cannot ask Nova about a migration");
                Ok(())
            }
            Err(error) => {
                let told = Told::new(Stage::Waits, "Waiting", format!("Nova cannot be asked: {error}"));
                self.own.tell(object, &told, None, self.now).await.map(drop)
            }
        }
    }

    async fn step(&mut self, nova: &Nova, object: &Descheduling) -> Result<kube::Result<()>, String> {
        let id = object.spec.resource_id.as_str();
        let server = nova.server(id).await.map_err(|error| said(&error))?;
        let (rules, _) = self.rules(object);
        let records: Vec<&Migration> = self.migrations.iter().filter(|one| one.server == id).collect();
        let facts = Facts {
            now: self.now,
            server: server.as_ref(),
            migrations: &records,
            moved: self.history.last(id),
            cooldown: rules.cooldown.get(),
            running: self.running,
            most: rules.max_migrations as usize,
        };
        let next = judge::next(object, &facts);
        let question = match (&next, &server) {
            (Next::Choose | Next::Call(_), Some(server)) => Some(nova.question(server).await?),
            // The room that it takes is kept for as long as it takes.
            (Next::Tell(told), Some(server)) if told.stage == Stage::Runs => Some(server.question(None)?),
            _ => None,
        };
        if let (true, Some(question)) = (judge::runs(object), &question) {
            self.promise(object, question);
        }
        Ok(match (next, server.as_ref().zip(question)) {
            (Next::Nothing, _) | (Next::Choose, None) => Ok(()),
            (Next::Tell(told), _) => self.tell(object, &told).await,
            (Next::Call(target), _) => self.call(nova, object, &target).await,
            (Next::Choose, Some((server, question))) => self.choose(nova, object, server, question).await,
        })
    }

    async fn tell(&self, object: &Descheduling, told: &Told) -> kube::Result<()> {
        // Its room was promised for this move. A promise from before the move is that of another decision, and stays.
        if judge::runs(object) && (told.stage == Stage::Stays || told.reason == "AlreadyGone") {
            self.own.state.write().end_promise(&object.spec.resource_id);
        }
        self.own.tell(object, told, None, self.now).await.map(drop)
    }

    fn promise(&self, object: &Descheduling, question: &Request) {
        let target = object.status.as_ref().and_then(|status| status.new_host.as_deref());
        if let Some(target) = target {
            let now = millis(self.now);
            self.own.state.write().promise(&question.workload, target, question.resources, now);
        }
    }

    /// Looks for a target, and tells Nova unless it is a dry run.
    async fn choose(
        &mut self,
        nova: &Nova,
        object: &Descheduling,
        server: &Server,
        question: Request,
    ) -> kube::Result<()> {
        let spec = &object.spec;
        let (rules, detecting) = self.rules(object);
        let limits = detecting.map(|one| one.detectors.clone()).unwrap_or_default();
        let detector = limits.iter().find(|one| Some(one.name) == spec.detector.as_deref());
        let load = detector.map_or(Load::Memory, |detector| detector.load);
        let left = self.history.left(&spec.resource_id, propose::since(self.now, &rules), spec.detector.as_deref());
        let left = left.into_iter().filter(|host| *host != spec.prev_host).collect();
        let resources = question.resources;
        let relocation = Relocation { request: question, from: spec.prev_host.clone(), load, limits, left };
        let found = self.own.state.read().relocate(&relocation);
        let moved = match found {
            Ok(moved) => moved,
            Err(why) => return self.tell(object, &Told::new(Stage::Stays, "NoHostFound", why)).await,
        };
        let (from, to) = (spec.prev_host.as_str(), moved.to.as_str());
        let (verb, effect) = (if spec.dry_run { "would go" } else { "goes" }, moved.effect(from, load));
        let explanation = format!(
            "The server {} ({resources}) {verb} from {from} to {to}, since {}. {effect}.",
            server.name,
            spec.reason.trim_end_matches('.')
        );
        let goes = Some((to, explanation));
        if spec.dry_run {
            let told =
                Told::new(Stage::Stays, "DryRun", format!("it would go to {to}; with spec.dryRun false it does"));
            return self.own.tell(object, &told, goes, self.now).await.map(drop);
        }
        let Some(written) = self.own.tell(object, &Told::starting(to), goes, self.now).await? else { return Ok(()) };
        self.running += 1;
        self.own.state.write().promise(&spec.resource_id, to, resources, millis(self.now));
        self.call(nova, &written, to).await
    }

    /// Tells Nova. That this is about to be done is written already.
    async fn call(&self, nova: &Nova, object: &Descheduling, target: &str) -> kube::Result<()> {
        let id = object.spec.resource_id.as_str();
        let told = match nova.migrate(id, target).await {
            Ok(()) => Told::migrating(target),
            Err(Error::NotFound(_)) => Told::new(Stage::Left, "AlreadyGone", "the server was deleted"),
            // Nova works on it already: the call of a leader before may have arrived late, which the next round sees.
            Err(Error::Conflict(_)) if self.is_busy(nova, id).await => return Ok(()),
            Err(error @ (Error::Conflict(_) | Error::Invalid(_) | Error::Forbidden(_))) => {
                Told::new(Stage::Stays, "Failed", format!("Nova refuses to move it to {target}: {}", said(&error)))
            }
            // Whether the call arrived is seen in Nova in the next round.
            Err(error) => Told::unanswered(target, &said(&error)),
        };
        self.tell(object, &told).await
    }

    async fn is_busy(&self, nova: &Nova, id: &str) -> bool {
        matches!(nova.server(id).await, Ok(Some(server)) if server.task.is_some())
    }

    /// Has servers moved off the hosts that a pipeline finds.
    async fn propose(&mut self, nova: &Nova, pipeline: &str, found: &[Overload]) -> kube::Result<()> {
        let mut notes = Vec::new();
        let mut looked_at = 0;
        for overload in found {
            let scene = self.scene(pipeline);
            let host = self.own.state.read().hosts(Domain::Nova).and_then(|hosts| hosts.get(&overload.host).cloned());
            let free = scene.free();
            let held = host.map_or_else(|| Some("it is gone".into()), |host| scene.held(&host));
            let note = match held {
                Some(held) => held,
                None if free == 0 => {
                    let most = scene.detecting.descheduling.max_migrations;
                    format!("at most {most} of this pipeline are proposed at a time")
                }
                None if self.objects.len() >= self.own.settings.most => {
                    let most = self.own.settings.most;
                    format!("there are {most} Deschedulings already, as many as are kept; delete some that have ended")
                }
                None if looked_at == LOOKED_AT => "hosts that carry more come first".into(),
                None => {
                    looked_at += 1;
                    let candidate = self.candidate(nova, &scene, overload).await;
                    match candidate {
                        Ok(object) => self.create(object).await?,
                        Err(why) => why,
                    }
                }
            };
            notes.push(note);
        }
        self.report(pipeline, found, &notes).await;
        Ok(())
    }

    fn scene<'s>(&'s self, pipeline: &'s str) -> Scene<'s> {
        let (detecting, objects, history) = (&self.detecting[pipeline], self.objects.as_slice(), &self.history);
        Scene { pipeline, detecting, objects, history, now: self.now }
    }

    /// The Descheduling of a server that has where to go; or why there is none.
    async fn candidate(&self, nova: &Nova, scene: &Scene<'_>, overload: &Overload) -> Result<Descheduling, String> {
        let unanswered = |error: Error| format!("Nova cannot be asked: {}", said(&error));
        let servers = nova.servers_on(&overload.host).await.map_err(unanswered)?;
        let movable: Vec<&Server> = servers.iter().filter(|server| scene.may_move(server)).collect();
        let mut last = match servers.len() {
            0 => "Nova knows no server on it".to_owned(),
            all => format!("none of its {all} servers may be moved now: they do not run, or were tried lately"),
        };
        let questions = movable.iter().filter_map(|server| server.question(None).ok()).collect();
        let ordered = propose::order(&self.own.state.read(), overload, questions);
        for request in ordered {
            let id = request.workload.clone();
            // Lists do not tell of groups: only a server that has where to go without them is asked about.
            if let Err(why) = self.look(scene, overload, request) {
                last = format!("{id} can go nowhere: {why}");
                continue;
            }
            let Some(server) = nova.server(&id).await.map_err(unanswered)? else { continue };
            match self.look(scene, overload, nova.question(&server).await?) {
                Ok(()) => return Ok(scene.object(overload, &id)),
                Err(why) => last = format!("{id} can go nowhere: {why}"),
            }
        }
        Err(last)
    }

    fn look(&self, scene: &Scene<'_>, overload: &Overload, request: Request) -> Result<(), String> {
        let relocation = scene.relocation(overload, request);
        self.own.state.read().relocate(&relocation).map(drop)
    }

    async fn create(&mut self, object: Descheduling) -> kube::Result<String> {
        let name = object.name_any();
        match self.own.objects.create(&PostParams::default(), &object).await {
            Ok(created) => {
                let note = format!("{} is to leave it, by descheduling/{name}", object.spec.resource_id);
                self.objects.push(created);
                Ok(note)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(format!("descheduling/{name} exists already")),
            Err(error) => Err(error),
        }
    }

    /// Says on the Pipeline what was found, and what comes of it.
    async fn report(&self, pipeline: &str, found: &[Overload], notes: &[String]) {
        let detecting = &self.detecting[pipeline];
        let told: Vec<String> = found
            .iter()
            .zip(notes)
            .take(NAMED)
            .map(|(overload, note)| format!("{}: {note}", overload.reason()))
            .collect();
        let dry = if detecting.descheduling.dry_run { "; migrations are only proposed (dryRun)" } else { "" };
        let rest = if told.is_empty() { String::new() } else { format!(": {}", told.join("; ")) };
        let message = format!("{}{dry}{rest}", hosts(found));
        self.own.found(pipeline, detecting, true, "HostsJudged", &message).await;
    }
}

fn hosts(found: &[Overload]) -> String {
    match found.len() {
        0 => "no host carries too much".into(),
        1 => "1 host carries too much".into(),
        many => format!("{many} hosts carry too much"),
    }
}
