//! Makes the calls of a plan, tells what came of each, and says when the remote is asked again.

use std::time::{Duration, Instant};

use kube::runtime::controller::Action;

use crate::apply::Applied;
use crate::controller::Controller;
use crate::error::Error;
use crate::inputs::Inputs;
use crate::plan::Plan;
use crate::reconcile::{Reconcile, broken};
use crate::remote::{Call, Class, Failure};
use crate::wait::Wait;

/// How long all calls of a reconcile may take together; the next one makes the others.
const LONGEST_CALLING: Duration = Duration::from_secs(45);

/// How often a remote is asked though nothing changed, unless the plan says otherwise.
const RESYNC: Duration = Duration::from_mins(10);

/// What came of the calls of one reconcile.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// How often the same calls were made in a row, if any was made.
    times: u32,
    failures: Vec<Failure>,
    /// Whether calls are left for want of time.
    unfinished: bool,
    digests: Vec<String>,
}

impl<C: Controller> Reconcile<'_, C> {
    /// Makes the calls of all steps that wait for nothing else. A step that needs another one's calls is blocked until a plan has
    /// none of them.
    pub(crate) async fn make_calls(
        &self,
        plan: &Plan,
        inputs: &Inputs<C::Kind>,
        applied: &mut Applied,
    ) -> Result<Made, Error> {
        let mut due = Vec::new();
        for (step, outcome) in plan.steps.iter().zip(&mut applied.outcomes) {
            if !step.calls.is_empty() && outcome.blocked.is_none() && outcome.waits == step.pending() {
                due.push((step, outcome));
            }
        }
        let calls: Vec<&[Call]> = due.iter().map(|(step, _)| step.calls.as_slice()).collect();
        let (made, waits) = self.perform(&calls, inputs).await?;
        for ((_, outcome), waits) in due.into_iter().zip(waits) {
            outcome.waits = waits;
        }
        Ok(made)
    }

    /// Makes calls in order, and says for each group what is waited for then. The first failure ends a group, because later calls
    /// may depend on it.
    pub(crate) async fn perform(
        &self,
        groups: &[&[Call]],
        inputs: &Inputs<C::Kind>,
    ) -> Result<(Made, Vec<Vec<Wait>>), Error> {
        let (started, mut made) = (Instant::now(), Made::default());
        let fingerprint = inputs.fingerprint();
        let mut results: Vec<Vec<Option<Result<(), Failure>>>> = Vec::new();
        for calls in groups {
            let mut group: Vec<Option<Result<(), Failure>>> = Vec::new();
            for call in *calls {
                let has_failed = group.iter().any(|result| matches!(result, Some(Err(_))));
                if has_failed || started.elapsed() > LONGEST_CALLING {
                    made.unfinished |= !has_failed;
                    group.push(None);
                    continue;
                }
                if let Some(failure) = self.context.outside.refused(self.about, fingerprint, call) {
                    made.failures.push(failure.clone());
                    group.push(Some(Err(failure)));
                    continue;
                }
                let Some(result) = self.context.outside.perform(call).await else {
                    let what = call.title();
                    return Err(broken::<C>(format!("\"{what}\" is a call to another remote than remote()")));
                };
                self.tell(call, &result).await;
                if let Err(failure) = &result
                    && failure.class == Class::Terminal
                {
                    self.context.outside.refuse(self.about, fingerprint, call, failure);
                }
                match &result {
                    Ok(()) => made.digests.push(call.digest()),
                    Err(failure) => made.failures.push(failure.clone()),
                }
                group.push(Some(result));
            }
            results.push(group);
        }
        made.times = self.context.outside.made(self.about, made.digests.clone());
        let wait = |call: &Call, result: &Option<Result<(), Failure>>| match result {
            None => call.pending(),
            Some(Ok(())) => call.confirmed(made.times),
            Some(Err(failure)) => call.failed(failure),
        };
        let waits = groups.iter().zip(&results);
        let waits =
            waits.map(|(calls, results)| calls.iter().zip(results).map(|(call, result)| wait(call, result)).collect());
        let waits = waits.collect();
        Ok((made, waits))
    }

    async fn tell(&self, call: &Call, result: &Result<(), Failure>) {
        let verb = call.verb();
        let (warning, reason, note) = match result {
            Ok(()) => (false, verb.made(), call.to_string()),
            Err(failure) => (true, verb.failed(), format!("{}: {failure}", call.title())),
        };
        self.context.metrics.called(C::NAME, verb, result.as_ref().map_or_else(|failure| failure.reason, |()| "ok"));
        tracing::info!(reason, note, "call to the remote");
        self.context.events.publish(self.about, &self.owner.uid, warning, reason, &note).await;
    }

    /// When the object is looked at again because of its remote; none leaves it to the rest of the reconcile.
    ///
    /// What time may help is tried with back-off. The effect of a call is looked at once, unless the same call was made before.
    /// Nothing but a change helps against a terminal failure.
    pub(crate) fn paced(
        &self,
        made: &Made,
        inputs: &Inputs<C::Kind>,
        carried_out: Option<(&Applied, &Plan)>,
    ) -> Option<Action> {
        let outside = &self.context.outside;
        outside.handle.as_ref()?;
        let failures: Vec<&Failure> = inputs.unanswered().map(|(_, failure)| failure).chain(&made.failures).collect();
        let requeue_after = carried_out.and_then(|(applied, _)| applied.requeue_after);
        let soonest = |delay: Duration| Some(Action::requeue(requeue_after.map_or(delay, |after| after.min(delay))));
        let is_repeated = !made.digests.is_empty() && made.times > 1;
        if is_repeated || failures.iter().any(|failure| failure.class.is_retried()) {
            let asked_for = failures.iter().filter_map(|failure| failure.retry_after).max().unwrap_or_default();
            return soonest(outside.backoff.failed(self.about).0.max(asked_for));
        }
        outside.backoff.reset(self.about);
        if !made.digests.is_empty() || made.unfinished {
            return soonest(Duration::ZERO);
        }
        if failures.iter().any(|failure| failure.class == Class::Terminal) {
            return Some(requeue_after.map_or_else(Action::await_change, Action::requeue));
        }
        let (_, plan) = carried_out?;
        let jitter = rand::random_range(1.0..=1.2);
        match plan.resync {
            Some(Duration::ZERO) => Some(requeue_after.map_or_else(Action::await_change, Action::requeue)),
            Some(period) => soonest(period.mul_f64(jitter)),
            None => soonest(RESYNC.mul_f64(jitter).min(self.resync())),
        }
    }
}
