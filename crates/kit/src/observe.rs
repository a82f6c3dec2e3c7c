//! Reads how the children of a plan are, and changes nothing: for an object that is paused.

use crate::apply::{Applied, Executor, Outcome};
use crate::error::Error;
use crate::object::is_not_found;
use crate::plan::{Plan, Step};
use crate::wait::Wait;

impl Executor<'_> {
    /// The status of every step's children, as if the plan had been applied.
    pub(crate) async fn observe(&self, plan: &Plan) -> Result<Applied, Error> {
        let mut applied = Applied { requeue_after: plan.requeue_after, ..Applied::default() };
        for step in &plan.steps {
            let waits = match self.observe_step(step).await {
                Ok(waits) => waits,
                Err(error) => vec![applied.refused(error)?],
            };
            let name = step.node.as_ref().map(|node| node.name.clone());
            let (condition, done) = (step.condition, step.done.clone());
            applied.outcomes.push(Outcome { condition, name, waits, blocked: step.unplanned(), done });
        }
        Ok(applied)
    }

    async fn observe_step(&self, step: &Step) -> Result<Vec<Wait>, Error> {
        let mut waits = step.waits.clone();
        for child in step.children.iter().filter(|child| !child.readiness_optional) {
            let reference = child.reference();
            match reference.api(self.client.clone()).get(&reference.name).await {
                // Values that were made up once need only be there.
                Ok(_) if !child.random_keys.is_empty() => {}
                Ok(live) => waits.extend(child.wait(&live)),
                Err(error) if is_not_found(&error) => waits.push(Wait::on(&reference).absent()),
                Err(source) => return Err(Error::ReadFailed { object: Box::new(reference), source: Box::new(source) }),
            }
        }
        waits.extend(step.pending());
        Ok(waits)
    }
}
