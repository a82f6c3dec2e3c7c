//! The state of the scheduler, and the decision that changes it.

use std::collections::BTreeMap;

use crate::decision::{Chosen, Decision, Prepared, Run};
use crate::host::{Host, Inventory};
use crate::in_flight::{InFlight, Promise};
use crate::pipeline::{self, Pipeline, PipelineProblem, PipelineSpec};
use crate::request::{Domain, Request};
use crate::resources::Resources;

/// Why there is no decision. That no host fits is a decision.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchedulingError {
    /// The request names no pipeline, and none can be derived from it.
    #[error("{0}")]
    NoPipeline(String),
    /// There is no such pipeline, or it has mistakes.
    #[error("there is no pipeline {name} for {domain} that is ready")]
    PipelineMissing {
        /// Its name.
        name: String,
        /// Who asked.
        domain: Domain,
    },
    /// A step that fails closed could not judge a host.
    #[error("{step} fails closed and cannot judge {hosts} hosts, {host} among them")]
    StepFailed {
        /// The step.
        step: &'static str,
        /// The first host.
        host: String,
        /// How many there are.
        hosts: usize,
    },
}

/// What is known of hosts, for each domain.
#[derive(Debug, Default)]
pub(crate) struct Known(BTreeMap<Domain, Inventory>);

impl Known {
    pub(crate) fn host(&self, domain: Domain, name: &str) -> Option<&Host> {
        self.0.get(&domain)?.get(name)
    }

    pub(crate) fn of(&self, domain: Domain) -> Option<&Inventory> {
        self.0.get(&domain)
    }
}

/// Everything that a decision depends on beside the request.
#[derive(Debug)]
pub struct Scheduler {
    known: Known,
    pipelines: BTreeMap<String, Pipeline>,
    in_flight: InFlight,
    /// How long room is promised, in milliseconds.
    patience: u64,
    /// Counts the changes of hosts and pipelines; promises are none.
    revision: u64,
}

impl Scheduler {
    /// With the built-in pipelines, no hosts, and promises that end after `patience` milliseconds.
    pub fn new(patience: u64) -> Self {
        let compiled = pipeline::defaults().into_iter().map(|spec| {
            let made = Pipeline::compile(&spec).expect("the built-in pipelines are sound");
            (spec.name, made)
        });
        Self {
            known: Known::default(),
            pipelines: compiled.collect(),
            in_flight: InFlight::default(),
            patience,
            revision: 0,
        }
    }

    /// Adds a pipeline or replaces the one of that name. With mistakes, the one that was there stays.
    pub fn put_pipeline(&mut self, spec: &PipelineSpec) -> Result<(), Vec<PipelineProblem>> {
        let made = Pipeline::compile(spec)?;
        self.pipelines.insert(spec.name.clone(), made);
        self.revision += 1;
        Ok(())
    }

    /// Removes a pipeline; a built-in one of that name comes back.
    pub fn remove_pipeline(&mut self, name: &str) {
        self.pipelines.remove(name);
        self.revision += 1;
        if let Some(spec) = pipeline::defaults().into_iter().find(|spec| spec.name == name) {
            let made = Pipeline::compile(&spec).expect("the built-in pipelines are sound");
            self.pipelines.insert(spec.name, made);
        }
    }

    /// The pipelines that are ready, by name.
    pub fn pipelines(&self) -> impl Iterator<Item = &Pipeline> {
        self.pipelines.values()
    }

    /// Takes up what is known of a host now. Promises to workloads that it reports end.
    pub fn put_host(&mut self, domain: Domain, host: Host) {
        self.in_flight.arrived(&host);
        if self.known.0.entry(domain).or_default().put(host) {
            self.revision += 1;
        }
    }

    /// Forgets a host.
    pub fn remove_host(&mut self, domain: Domain, name: &str) {
        if let Some(inventory) = self.known.0.get_mut(&domain) {
            inventory.remove(name);
            self.revision += 1;
        }
    }

    /// The hosts of a domain.
    pub fn hosts(&self, domain: Domain) -> Option<&Inventory> {
        self.known.0.get(&domain)
    }

    /// What is promised.
    pub fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// Promises room that an earlier process promised already.
    pub fn restore(&mut self, workload: &str, promise: Promise) {
        let there = self.known.0.values().filter_map(|inventory| inventory.get(&promise.host));
        if there.into_iter().any(|host| Host::has(&host.instances, workload)) {
            return;
        }
        self.in_flight.promise(workload, promise);
    }

    /// Promises room to a workload that is about to move, unless its host reports it already.
    pub fn promise(&mut self, workload: &str, host: &str, resources: Resources, now: u64) {
        let there = self.known.0.values().filter_map(|inventory| inventory.get(host));
        if !there.into_iter().any(|host| Host::has(&host.instances, workload)) {
            let promise = Promise { host: host.to_owned(), resources, expires: now + self.patience };
            self.in_flight.promise(workload, promise);
        }
    }

    /// Ends the promise to a workload that does not move after all.
    pub fn end_promise(&mut self, workload: &str) {
        self.in_flight.end(workload);
    }

    /// Ends promises that have expired.
    pub fn expire(&mut self, now: u64) -> usize {
        self.in_flight.expire(now)
    }

    /// Decides, and promises the first host's room to the workload, unless the request says otherwise.
    pub fn decide(&mut self, request: &Request, now: u64) -> Result<Decision, SchedulingError> {
        let prepared = self.prepare(request)?;
        Ok(self.commit(prepared, now)?.decision())
    }

    /// What the decision would be. Changes nothing.
    pub fn look(&self, request: &Request) -> Result<Decision, SchedulingError> {
        let run = self.run(request)?;
        Ok(run.choose(run.prepare(self.revision))?.decision())
    }

    /// The part of a decision that no promise changes.
    pub(crate) fn prepare<'r>(&self, request: &'r Request) -> Result<Prepared<'r>, SchedulingError> {
        Ok(self.run(request)?.prepare(self.revision))
    }

    /// The rest of a decision. If hosts or pipelines have changed since the first part, that is worked out again.
    pub(crate) fn commit<'r>(&mut self, prepared: Prepared<'r>, now: u64) -> Result<Chosen<'r>, SchedulingError> {
        self.in_flight.expire(now);
        let request = prepared.request;
        let prepared = if prepared.revision == self.revision { prepared } else { self.prepare(request)? };
        let mut chosen = self.run(request)?.choose(prepared)?;
        let options = &request.options;
        let promises = !options.read_only && !options.skip_in_flight && !request.workload.is_empty();
        if let (true, Some(host)) = (promises, chosen.target()) {
            let (host, resources) = (host.to_owned(), request.resources);
            self.in_flight.promise(&request.workload, Promise { host, resources, expires: now + self.patience });
            chosen.promised = true;
        }
        Ok(chosen)
    }

    fn run<'a, 'r>(&'a self, request: &'r Request) -> Result<Run<'a, 'r>, SchedulingError> {
        let pipeline = self.pipeline(request)?;
        Ok(Run { pipeline, request, known: &self.known, in_flight: &self.in_flight })
    }

    fn pipeline(&self, request: &Request) -> Result<&Pipeline, SchedulingError> {
        let wanted = pipeline::wanted(request).map_err(SchedulingError::NoPipeline)?;
        let fitting = |name: &String| self.pipelines.get(name).filter(|one| one.domain == request.domain);
        wanted.iter().find_map(fitting).ok_or_else(|| SchedulingError::PipelineMissing {
            name: wanted.last().cloned().unwrap_or_default(),
            domain: request.domain,
        })
    }
}
