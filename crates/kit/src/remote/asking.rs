//! Asks the questions of an object, and makes every failure visible.

use std::time::Duration;

use futures::future::join_all;

use crate::controller::Controller;
use crate::error::Error;
use crate::inputs::Inputs;
use crate::preview;
use crate::reconcile::{Reconcile, broken};
use crate::remote::{Failure, Question};
use crate::wait::Wait;

/// How often an answer may lead to another question.
const DEEPEST_QUESTION: usize = 6;

/// How long all questions of a reconcile may take together: it leaves time to make calls and to report.
const LONGEST_ASKING: Duration = Duration::from_secs(50);

impl<C: Controller> Reconcile<'_, C> {
    /// Asks what the controller wants to know, and what it wants to know then.
    pub(crate) async fn ask(&self, inputs: &mut Inputs<C::Kind>) -> Result<(), Error> {
        let longest = self.context.assumed.as_ref().map_or(LONGEST_ASKING, |_| preview::LONGEST_ASKING);
        let deadline = tokio::time::Instant::now() + longest;
        for _ in 0..DEEPEST_QUESTION {
            let mut new: Vec<Question> = Vec::new();
            for question in self.context.controller.questions(inputs) {
                if !inputs.has_asked(&question) && !new.contains(&question) {
                    new.push(question);
                }
            }
            if new.is_empty() {
                return Ok(());
            }
            let asked = join_all(new.into_iter().map(|question| async move {
                let reply = tokio::time::timeout_at(deadline, self.context.outside.ask(&question)).await;
                let reply = reply.unwrap_or_else(|_| Some(Err(Failure::timed_out(&question, longest))));
                (question, reply)
            }));
            for (question, reply) in asked.await {
                let Some(reply) = reply else {
                    return Err(broken::<C>(format!("\"{question}\" is a question to another remote than remote()")));
                };
                let result = reply.as_ref().map_or_else(|failure| failure.reason, |_| "ok");
                self.context.metrics.asked(C::NAME, result);
                inputs.insert_any_reply(question, reply);
            }
        }
        Err(broken::<C>(format!("questions() goes deeper than {DEEPEST_QUESTION} answers")))
    }

    /// The waits for questions that were not answered, but for those that are told already.
    pub(crate) fn untold(&self, inputs: &Inputs<C::Kind>, told: &[Wait]) -> Vec<Wait> {
        let Some(handle) = &self.context.outside.handle else { return Vec::new() };
        let remote = handle.reference();
        let all = inputs.unanswered().map(|(question, failure)| failure.unanswered(&remote, question));
        let is_told =
            |wait: &Wait| told.iter().any(|other| other.object == wait.object && other.condition == wait.condition);
        let mut untold: Vec<Wait> = all.filter(|wait| !is_told(wait)).collect();
        untold.sort_by(|one, other| one.condition.cmp(&other.condition));
        untold
    }
}
