//! What was decided, with everything that led to it. Bounded, however many hosts were offered.

use std::cmp::Ordering;
use std::fmt::Write as _;

use crate::filters::{Look, Verdict, promised};
use crate::host::Host;
use crate::in_flight::InFlight;
use crate::params::Params;
use crate::pipeline::{FilterStep, OnFailure, Pipeline, WeigherStep};
use crate::request::{Domain, Intent, Request};
use crate::resources::Resources;
use crate::scheduler::{Known, SchedulingError};
use crate::weighers::min_max;

/// How many hosts a step names; the rest are counted.
const NAMED: usize = 20;
/// For how many hosts the parts of their score are kept.
const SCORED: usize = 10;

/// A host that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The host.
    pub host: String,
    /// Why, in words that continue the host's name.
    pub reason: String,
}

/// What a filter did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterResult {
    /// The filter.
    pub step: &'static str,
    /// How many hosts it left out.
    pub removed: usize,
    /// The first of them, with reasons.
    pub named: Vec<Removal>,
    /// How many hosts it could not judge and kept, since it fails open.
    pub unjudged: usize,
}

/// What a weigher did.
#[derive(Clone, Debug, PartialEq)]
pub struct WeigherResult {
    /// The weigher; the asking service's own name for the weights that came with the request.
    pub step: &'static str,
    /// How much it counts.
    pub multiplier: f64,
    /// What it adds to the best hosts, in their order.
    pub adds: Vec<f64>,
    /// How many hosts it could not judge.
    pub unjudged: usize,
}

/// A host in the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedHost {
    /// The host.
    pub host: String,
    /// What all weighers together gave it.
    pub score: f64,
}

/// A decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Who asked.
    pub domain: Domain,
    /// Id of the workload.
    pub workload: String,
    /// Name of the workload, where the request has it.
    pub name: Option<String>,
    /// Id of its project.
    pub project: String,
    /// Why it was asked.
    pub intent: Intent,
    /// What the workload needs.
    pub resources: Resources,
    /// The pipeline that ran.
    pub pipeline: String,
    /// How many hosts were offered.
    pub offered: usize,
    /// What each filter did.
    pub filters: Vec<FilterResult>,
    /// What each weigher did.
    pub weighers: Vec<WeigherResult>,
    /// The answer, best first.
    pub hosts: Vec<RankedHost>,
    /// Whether the first host's room was promised to the workload.
    pub promised: bool,
    /// Whether it is to be recorded.
    pub recorded: bool,
}

impl Decision {
    /// The best host.
    pub fn target(&self) -> Option<&str> {
        self.hosts.first().map(|best| best.host.as_str())
    }

    /// The names of the hosts, best first.
    pub fn names(&self) -> Vec<&str> {
        self.hosts.iter().map(|host| host.host.as_str()).collect()
    }
}

/// A host that is offered and was not left out.
#[derive(Clone, Copy, Debug)]
struct Offer {
    /// Which of the request's candidates it is.
    candidate: usize,
    /// Where it is in the inventory; nowhere if nothing is known of it.
    slot: Option<usize>,
    /// What is promised there to others.
    promised: Resources,
}

/// The part of a decision that no promise changes: the filters before the first one that counts promises. It holds for as long
/// as hosts and pipelines stay as they are.
#[derive(Debug)]
pub(crate) struct Prepared<'r> {
    pub(crate) request: &'r Request,
    pub(crate) revision: u64,
    offers: Vec<Offer>,
    filters: Vec<FilterResult>,
}

/// What a weigher adds to each host that is left.
#[derive(Debug)]
struct Column {
    step: &'static str,
    multiplier: f64,
    adds: Vec<f64>,
    unjudged: usize,
}

/// A decision that was made, and is still to be put in order.
#[derive(Debug)]
pub(crate) struct Chosen<'r> {
    request: &'r Request,
    pipeline: String,
    records: bool,
    offers: Vec<Offer>,
    filters: Vec<FilterResult>,
    columns: Vec<Column>,
    scores: Vec<f64>,
    pub(crate) promised: bool,
}

/// A pipeline that runs for a request. Changes nothing.
pub(crate) struct Run<'a, 'r> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) request: &'r Request,
    pub(crate) known: &'a Known,
    pub(crate) in_flight: &'a InFlight,
}

impl<'r> Run<'_, 'r> {
    /// Runs the filters that come before the first one that counts promises.
    pub(crate) fn prepare(&self, revision: u64) -> Prepared<'r> {
        let inventory = self.known.of(self.request.domain);
        let candidates = self.request.candidates.iter().enumerate();
        let offer = |(candidate, one): (usize, &crate::request::Candidate)| Offer {
            candidate,
            slot: inventory.and_then(|inventory| inventory.slot(&one.host)),
            promised: Resources::default(),
        };
        let offers = candidates.map(offer).collect();
        let mut prepared = Prepared { request: self.request, revision, offers, filters: Vec::new() };
        for step in &self.pipeline.filters {
            if step.filter.counts_promises() && step.filter.applies(self.request) {
                break;
            }
            self.filter(step, &mut prepared);
        }
        prepared
    }

    /// Runs the other filters, and weighs what is left.
    pub(crate) fn choose(&self, mut prepared: Prepared<'r>) -> Result<Chosen<'r>, SchedulingError> {
        if !self.in_flight.is_empty() {
            for offer in &mut prepared.offers {
                let host = self.host(offer);
                offer.promised = host.map(|host| promised(self.request, self.in_flight, host)).unwrap_or_default();
            }
        }
        for step in &self.pipeline.filters[prepared.filters.len()..] {
            self.filter(step, &mut prepared);
        }
        let Prepared { request, offers, filters, .. } = prepared;
        let mut columns = Vec::with_capacity(1 + self.pipeline.weighers.len());
        let given: Vec<Option<f64>> =
            offers.iter().map(|offer| Some(request.candidates[offer.candidate].weight)).collect();
        let adds = min_max(&given).into_iter().flatten().collect();
        columns.push(Column { step: request.domain.as_str(), multiplier: 1.0, adds, unjudged: 0 });
        for step in &self.pipeline.weighers {
            columns.push(self.weigh(step, &offers)?);
        }
        let scores = (0..offers.len()).map(|at| columns.iter().map(|column| column.adds[at]).sum()).collect();
        let (pipeline, records) = (self.pipeline.name.clone(), self.pipeline.records);
        Ok(Chosen { request, pipeline, records, offers, filters, columns, scores, promised: false })
    }

    fn host(&self, offer: &Offer) -> Option<&Host> {
        self.known.of(self.request.domain)?.at(offer.slot?)
    }

    fn look<'l>(&'l self, params: &'l Params) -> Look<'l> {
        Look { request: self.request, known: self.known, in_flight: self.in_flight, params }
    }

    fn filter(&self, step: &FilterStep, prepared: &mut Prepared<'r>) {
        let mut result = FilterResult { step: step.name, removed: 0, named: Vec::new(), unjudged: 0 };
        if step.filter.applies(self.request) {
            let look = self.look(&step.params);
            prepared.offers.retain(|offer| self.keeps(step, &look, offer, &mut result));
        }
        prepared.filters.push(result);
    }

    /// Whether a host stays; if not, the first ones are named with the reason.
    fn keeps(&self, step: &FilterStep, look: &Look<'_>, offer: &Offer, result: &mut FilterResult) -> bool {
        let candidate = &self.request.candidates[offer.candidate];
        let verdict = step.filter.judge(look, candidate, self.host(offer), offer.promised);
        if let (Verdict::Unknown(_), OnFailure::Open) = (&verdict, step.on_failure) {
            result.unjudged += 1;
            return true;
        }
        if matches!(verdict, Verdict::Keep) {
            return true;
        }
        result.removed += 1;
        if result.named.len() < NAMED {
            let mut reason = String::new();
            let _ = match verdict {
                Verdict::Drop(why) => write!(reason, "{why}"),
                Verdict::Unknown(why) => write!(reason, "cannot be judged: {why}"),
                Verdict::Keep => Ok(()),
            };
            result.named.push(Removal { host: candidate.host.clone(), reason });
        }
        false
    }

    /// What a weigher adds to each host. One that it cannot judge gets what the worst gets.
    fn weigh(&self, step: &WeigherStep, offers: &[Offer]) -> Result<Column, SchedulingError> {
        let look = self.look(&step.params);
        let raw: Vec<Option<f64>> =
            offers.iter().map(|offer| step.weigher.weigh(&look, self.host(offer), offer.promised)).collect();
        let unjudged = raw.iter().filter(|weight| weight.is_none()).count();
        if unjudged > 0 && step.on_failure == OnFailure::Closed {
            let first = offers.iter().zip(&raw).find(|(_, weight)| weight.is_none());
            let host =
                first.map_or_else(String::new, |(offer, _)| self.request.candidates[offer.candidate].host.clone());
            return Err(SchedulingError::StepFailed { step: step.name, host, hosts: unjudged });
        }
        let worst = if step.multiplier < 0.0 { 1.0 } else { 0.0 };
        let adds = min_max(&raw).into_iter().map(|weight| step.multiplier * weight.unwrap_or(worst)).collect();
        Ok(Column { step: step.name, multiplier: step.multiplier, adds, unjudged })
    }
}

impl Chosen<'_> {
    /// The best host. Found without putting the others in order, since everybody else waits for it.
    pub(crate) fn target(&self) -> Option<&str> {
        let best = (0..self.offers.len()).min_by(|a, b| self.compare(*a, *b))?;
        Some(&self.request.candidates[self.offers[best].candidate].host)
    }

    /// By score, then by the asking service's weight, then by name.
    fn compare(&self, a: usize, b: usize) -> Ordering {
        let candidate = |at: usize| &self.request.candidates[self.offers[at].candidate];
        self.scores[b]
            .total_cmp(&self.scores[a])
            .then_with(|| candidate(b).weight.total_cmp(&candidate(a).weight))
            .then_with(|| candidate(a).host.cmp(&candidate(b).host))
    }

    /// Puts the hosts in order.
    pub(crate) fn decision(self) -> Decision {
        let request = self.request;
        let mut order: Vec<usize> = (0..self.offers.len()).collect();
        order.sort_by(|a, b| self.compare(*a, *b));
        if request.options.max_candidates > 0 {
            order.truncate(request.options.max_candidates);
        }
        let weighers = self
            .columns
            .iter()
            .map(|column| WeigherResult {
                step: column.step,
                multiplier: column.multiplier,
                adds: order.iter().take(SCORED).map(|at| column.adds[*at]).collect(),
                unjudged: column.unjudged,
            })
            .collect();
        let ranked = |at: usize| RankedHost {
            host: request.candidates[self.offers[at].candidate].host.clone(),
            score: self.scores[at],
        };
        Decision {
            domain: request.domain,
            workload: request.workload.clone(),
            name: request.name.clone(),
            project: request.project.clone(),
            intent: request.intent,
            resources: request.resources,
            hosts: order.into_iter().map(ranked).collect(),
            pipeline: self.pipeline,
            offered: request.candidates.len(),
            filters: self.filters,
            weighers,
            promised: self.promised,
            recorded: self.records && !request.options.skip_history && !request.options.read_only,
        }
    }
}
