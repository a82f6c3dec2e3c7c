//! What was decided, with everything that led to it. Bounded, however many hosts were offered.

use std::fmt::Write as _;

use crate::filters::{Look, Verdict};
use crate::host::Host;
use crate::in_flight::InFlight;
use crate::pipeline::{FilterStep, OnFailure, Pipeline, WeigherStep};
use crate::request::{Candidate, Domain, Intent, Request};
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

/// A candidate with what is known of it.
struct Offer<'a> {
    candidate: &'a Candidate,
    host: Option<&'a Host>,
}

/// Runs a pipeline on the hosts that are offered. Changes nothing.
pub(crate) fn run(
    pipeline: &Pipeline,
    request: &Request,
    known: &Known,
    in_flight: &InFlight,
) -> Result<Decision, SchedulingError> {
    let mut offers: Vec<Offer<'_>> = request
        .candidates
        .iter()
        .map(|candidate| Offer { candidate, host: known.host(request.domain, &candidate.host) })
        .collect();
    let look = |params| Look { request, known, in_flight, params };
    let filters: Vec<FilterResult> =
        pipeline.filters.iter().map(|step| filter(step, &look(&step.params), &mut offers)).collect();

    let mut columns: Vec<(&'static str, f64, Vec<f64>, usize)> = Vec::new();
    let given: Vec<Option<f64>> = offers.iter().map(|offer| Some(offer.candidate.weight)).collect();
    columns.push((request.domain.as_str(), 1.0, min_max(&given).into_iter().flatten().collect(), 0));
    for step in &pipeline.weighers {
        let (adds, unjudged) = weigh(step, &look(&step.params), &offers)?;
        columns.push((step.name, step.multiplier, adds, unjudged));
    }
    let mut order: Vec<(usize, f64)> =
        (0..offers.len()).map(|at| (at, columns.iter().map(|(_, _, adds, _)| adds[at]).sum())).collect();
    order.sort_by(|(a, score_a), (b, score_b)| {
        let (a, b) = (offers[*a].candidate, offers[*b].candidate);
        score_b.total_cmp(score_a).then(b.weight.total_cmp(&a.weight)).then_with(|| a.host.cmp(&b.host))
    });
    if request.options.max_candidates > 0 {
        order.truncate(request.options.max_candidates);
    }
    let weighers = columns
        .into_iter()
        .map(|(step, multiplier, adds, unjudged)| WeigherResult {
            step,
            multiplier,
            adds: order.iter().take(SCORED).map(|(at, _)| adds[*at]).collect(),
            unjudged,
        })
        .collect();
    Ok(Decision {
        domain: request.domain,
        workload: request.workload.clone(),
        project: request.project.clone(),
        intent: request.intent,
        resources: request.resources,
        pipeline: pipeline.name.clone(),
        offered: request.candidates.len(),
        filters,
        weighers,
        hosts: order
            .into_iter()
            .map(|(at, score)| RankedHost { host: offers[at].candidate.host.clone(), score })
            .collect(),
        promised: false,
        recorded: pipeline.records && !request.options.skip_history && !request.options.read_only,
    })
}

fn filter(step: &FilterStep, look: &Look<'_>, offers: &mut Vec<Offer<'_>>) -> FilterResult {
    let mut result = FilterResult { step: step.name, removed: 0, named: Vec::new(), unjudged: 0 };
    offers.retain(|offer| {
        let verdict = step.filter.judge(look, offer.candidate, offer.host);
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
            result.named.push(Removal { host: offer.candidate.host.clone(), reason });
        }
        false
    });
    result
}

/// What a weigher adds to each host. One that it cannot judge gets what the worst gets.
fn weigh(step: &WeigherStep, look: &Look<'_>, offers: &[Offer<'_>]) -> Result<(Vec<f64>, usize), SchedulingError> {
    let raw: Vec<Option<f64>> = offers.iter().map(|offer| step.weigher.weigh(look, offer.host)).collect();
    let unjudged = raw.iter().filter(|weight| weight.is_none()).count();
    if unjudged > 0 && step.on_failure == OnFailure::Closed {
        let first = offers.iter().zip(&raw).find(|(_, weight)| weight.is_none());
        let host = first.map_or_else(String::new, |(offer, _)| offer.candidate.host.clone());
        return Err(SchedulingError::StepFailed { step: step.name, host, hosts: unjudged });
    }
    let worst = if step.multiplier < 0.0 { 1.0 } else { 0.0 };
    let adds = min_max(&raw).into_iter().map(|weight| step.multiplier * weight.unwrap_or(worst)).collect();
    Ok((adds, unjudged))
}
