//! Deletes what is ours and no longer wanted, once nothing can stand on it any more.

use std::collections::HashSet;
use std::time::Duration;

use kube::api::{DeleteParams, Preconditions, PropagationPolicy};
use kube::core::ObjectMeta;

use crate::apply::{Applied, Executor, FOREIGN_INTERVAL, Outcome, Pass};
use crate::error::Error;
use crate::job_order::is_job;
use crate::object::{Ref, is_not_found};
use crate::ownership::{BASE, STEP, label};
use crate::plan::Plan;
use crate::retention::Retained;
use crate::wait::Wait;

/// How often it is looked whether an unwanted Job has ended, beside being told by watches.
const JOB_INTERVAL: Duration = Duration::from_secs(10);

impl Executor<'_> {
    pub(crate) async fn prune(&self, pass: &mut Pass<'_>, retained: &[Retained]) -> Result<(), Error> {
        if let Some(write_limit) = self.write_limit {
            write_limit.keep_only(self.owner, &pass.wanted);
        }
        if let Some(cache) = self.apply_cache {
            cache.keep_only(&self.owner.reference, &pass.wanted);
        }
        let kept = kept(pass.plan, self.existing, &pass.wanted);
        for (reference, meta) in self.existing {
            let is_terminating = meta.deletion_timestamp.is_some();
            let stays = pass.wants(reference)
                || kept.contains(&reference)
                || !may_go(pass.plan, &pass.applied, reference, meta);
            if is_terminating || stays {
                continue;
            }
            match self.prune_one(reference, meta, retained).await {
                Ok(held) => {
                    if let Some((_, interval)) = held.first() {
                        pass.applied.requeue_within(*interval);
                    }
                    pass.applied.left.extend(held.into_iter().map(|(wait, _)| wait));
                }
                Err(error) => {
                    let wait = pass.applied.refused(error)?;
                    pass.applied.left.push(wait);
                }
            }
        }
        Ok(())
    }

    /// Deletes a child that nothing holds. Gives what holds it otherwise, and when to look again.
    async fn prune_one(
        &self,
        reference: &Ref,
        meta: &ObjectMeta,
        retained: &[Retained],
    ) -> Result<Vec<(Wait, Duration)>, Error> {
        if is_job(reference) && self.is_running(reference, meta).await? {
            let because = "it is no longer wanted, and is deleted when it has ended, because its work may not bear to be interrupted";
            return Ok(vec![(
                Wait::on(reference).condition("has ended").now("is still running").because(because),
                JOB_INTERVAL,
            )]);
        }
        let mut held = Vec::new();
        for one in retained.iter().filter(|one| one.object == *reference) {
            // What is held up is not ours, so no watch of ours tells when it has followed.
            held.extend(self.unconfirmed(one).await?.into_iter().map(|wait| (wait, FOREIGN_INTERVAL)));
        }
        if held.is_empty() {
            self.delete(reference, meta).await?;
        }
        Ok(held)
    }

    /// Deletes one object, and not a namesake that came since. A workload stays until its pods have ended, so that a workload
    /// which no longer exists has none.
    pub(crate) async fn delete(&self, reference: &Ref, meta: &ObjectMeta) -> Result<(), Error> {
        let has_pods = ["Deployment", "StatefulSet", "DaemonSet"].contains(&reference.resource.kind.as_str());
        let is_workload = has_pods && reference.resource.group == "apps";
        let policy = if is_workload { PropagationPolicy::Foreground } else { PropagationPolicy::Background };
        self.delete_by(reference, meta, policy).await
    }

    /// The same, and the object stays until all that hangs on it is gone.
    pub(crate) async fn delete_whole(&self, reference: &Ref, meta: &ObjectMeta) -> Result<(), Error> {
        self.delete_by(reference, meta, PropagationPolicy::Foreground).await
    }

    async fn delete_by(&self, reference: &Ref, meta: &ObjectMeta, policy: PropagationPolicy) -> Result<(), Error> {
        let params = DeleteParams {
            propagation_policy: Some(policy),
            preconditions: Some(Preconditions { uid: meta.uid.clone(), resource_version: None }),
            ..DeleteParams::default()
        };
        tracing::info!(child = %reference, "deleting");
        if let Some(write_limit) = self.write_limit {
            write_limit.release(self.owner, reference);
        }
        match reference.api(self.client.clone()).delete(&reference.name, &params).await {
            Ok(_) => Ok(()),
            // 404: it is gone. 409: what is there now has another uid, so it is not the one we meant.
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
            Err(source) => Err(Error::DeleteFailed { object: Box::new(reference.clone()), source: Box::new(source) }),
        }
    }

    /// Whether an object is still there.
    pub(crate) async fn exists(&self, reference: &Ref) -> Result<bool, Error> {
        match reference.api(self.client.clone()).get_metadata(&reference.name).await {
            Ok(_) => Ok(true),
            Err(error) if is_not_found(&error) => Ok(false),
            Err(source) => Err(Error::ReadFailed { object: Box::new(reference.clone()), source: Box::new(source) }),
        }
    }
}

/// Whether a child that is no longer wanted may be deleted. If its step is in the plan or was dropped from it, the step and
/// all that need it have to be done; otherwise all steps have to be. One that a step released goes at once.
fn may_go(plan: &Plan, applied: &Applied, reference: &Ref, meta: &ObjectMeta) -> bool {
    if plan.steps.iter().any(|step| step.released.contains(reference)) {
        return true;
    }
    let Some(step) = label(meta, STEP).map(String::as_str) else { return applied.is_done() };
    let nodes = || plan.steps.iter().filter_map(|step| step.node.as_ref());
    if !plan.removed_steps.iter().any(|removed| *removed == *step) && !nodes().any(|node| node.name == *step) {
        return applied.is_done();
    }
    let mut concerned = vec![step];
    for node in nodes() {
        if node.needs.iter().any(|need| concerned.contains(&need.as_str())) {
            concerned.push(node.name.as_str());
        }
    }
    let is_concerned =
        |outcome: &&Outcome| outcome.name.as_ref().is_some_and(|name| concerned.contains(&name.as_str()));
    applied.outcomes.iter().filter(is_concerned).all(Outcome::is_done)
}

/// The older generations that stay: of each base in the plan, the newest few.
pub(crate) fn kept<'a>(plan: &Plan, existing: &'a [(Ref, ObjectMeta)], wanted: &HashSet<Ref>) -> Vec<&'a Ref> {
    let mut kept = Vec::new();
    for child in plan.children().filter(|child| child.keep_previous > 0) {
        let base = label(&child.object.metadata, BASE);
        let mut older: Vec<&(Ref, ObjectMeta)> = existing
            .iter()
            .filter(|(reference, meta)| {
                reference.resource == child.resource && label(meta, BASE) == base && !wanted.contains(reference)
            })
            .collect();
        older.sort_by_key(|(_, meta)| std::cmp::Reverse(meta.creation_timestamp.as_ref().map(|time| time.0)));
        kept.extend(older.into_iter().take(child.keep_previous).map(|(reference, _)| reference));
    }
    kept
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::plan::Step;

    fn of_step(step: Option<&str>) -> ObjectMeta {
        let labels = step.map_or(json!({}), |step| json!({STEP: step}));
        serde_json::from_value(json!({"labels": labels})).unwrap()
    }

    /// A plan of a well, a stone that needs it, and a road; the stone needs a mule that was dropped.
    fn plan() -> Plan {
        let step = |name, needs: &[&'static str]| Step::new("Ready").node(name, needs).childless();
        Plan::new()
            .step(step("well", &[]))
            .step(step("stone", &["well", "mule"]))
            .step(step("road", &[]))
            .without_step("mule")
    }

    fn may_go_while(unready: &str, step: Option<&str>) -> bool {
        let wait = Wait::on(&weather());
        let plan = plan();
        let outcomes = plan.steps.iter().map(|step| {
            let name = step.node.as_ref().map(|node| node.name.clone());
            let waits =
                if name.as_ref().is_some_and(|name| *name == *unready) { vec![wait.clone()] } else { Vec::new() };
            Outcome { condition: "Ready", name, waits, blocked: None, done: String::new() }
        });
        let applied = Applied { outcomes: outcomes.collect(), ..Applied::default() };
        may_go(&plan, &applied, &weather(), &of_step(step))
    }

    fn weather() -> Ref {
        Ref::namespaced::<ConfigMap>("valley", "weather")
    }

    #[test]
    fn a_child_goes_when_its_step_and_all_that_need_it_are_done() {
        assert!(!may_go_while("well", Some("well")), "its own step is not done");
        assert!(!may_go_while("stone", Some("well")), "the stone may still stand on it");
        assert!(may_go_while("road", Some("well")), "the road has nothing to do with it");
    }

    #[test]
    fn a_child_that_is_released_goes_whatever_is_not_done() {
        let blocked = |name: &str| Outcome {
            condition: "Ready",
            name: Some(name.to_owned().into()),
            waits: vec![Wait::on(&weather())],
            blocked: None,
            done: String::new(),
        };
        let applied = Applied { outcomes: vec![blocked("well"), blocked("stone")], ..Applied::default() };
        assert!(!may_go(&plan(), &applied, &weather(), &of_step(Some("well"))));
        let plan = plan().step(Step::new("Ready").node("bridge", []).childless().released([weather()]));
        assert!(may_go(&plan, &applied, &weather(), &of_step(Some("well"))));
        let other = Ref::namespaced::<ConfigMap>("valley", "soil");
        assert!(!may_go(&plan, &applied, &other, &of_step(Some("well"))));
    }

    #[test]
    fn a_child_of_a_dropped_step_goes_when_the_steps_are_done_that_needed_it() {
        assert!(!may_go_while("stone", Some("mule")));
        assert!(may_go_while("well", Some("mule")) && may_go_while("road", Some("mule")));
    }

    #[test]
    fn a_child_of_no_known_step_goes_when_everything_is_done() {
        for unready in ["well", "stone", "road"] {
            assert!(!may_go_while(unready, Some("bridge")) && !may_go_while(unready, None), "{unready}");
        }
        assert!(may_go_while("nothing", Some("bridge")) && may_go_while("nothing", None));
    }
}
