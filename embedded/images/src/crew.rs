//! Who does what next: a stage when those below it are there, an image when its layers are, and downloads ahead of both
//! when there is nothing else to do.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::Error;
use crate::plan::{Key, Plan, Stage, Work};

/// At most so many things at a time: beyond that they wait for one disk and one network.
const MOST_AT_ONCE: usize = 4;

/// One thing to do.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Job {
    /// Download what a stage will need.
    Fetch(Key),
    /// Build a stage.
    Stage(Key),
    /// Finish the image of this number in the plan.
    Image(usize),
}

/// What is open, and what is being done.
#[derive(Debug, Default)]
struct State {
    /// In the order in which they are looked at.
    waiting: Vec<Job>,
    running: BTreeSet<Job>,
    failed: Option<Error>,
}

/// Does all that a plan asks for, given the stages of it that have to be built; several things at a time. After a failure
/// nothing new is begun.
pub(crate) fn work_off(
    plan: &Plan,
    needed: &[Key],
    work: impl Fn(&Job) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let state = Mutex::new(State { waiting: jobs(plan, needed), ..State::default() });
    let changed = Condvar::new();
    let hands = thread::available_parallelism().map_or(1, usize::from).min(MOST_AT_ONCE);
    thread::scope(|scope| {
        for _ in 0..hands {
            scope.spawn(|| {
                while let Some(job) = next(plan, &state, &changed) {
                    let ended = work(&job);
                    let mut state = locked(&state);
                    state.running.remove(&job);
                    if let Err(error) = ended {
                        state.failed.get_or_insert(error);
                    }
                    changed.notify_all();
                }
            });
        }
    });
    state.into_inner().unwrap_or_else(PoisonError::into_inner).failed.map_or(Ok(()), Err)
}

/// Everything that is open: images first, so that those who wait for one get it early; downloads last. Of the stages those
/// that others stand on, then Python environments, which take longest: the one that is begun last should be short.
fn jobs(plan: &Plan, needed: &[Key]) -> Vec<Job> {
    let mut stages: Vec<&Stage> = needed.iter().filter_map(|key| plan.stage(key)).collect();
    stages.sort_by_key(|stage| (!stage.is_foundation, !matches!(stage.work, Work::Python(_))));
    let images = (0..plan.images.len()).map(Job::Image);
    // What the first stage needs is needed at once, so there is nothing to gain by getting it ahead.
    let ahead =
        stages.iter().skip(1).filter(|stage| has_downloads(&stage.work)).map(|stage| Job::Fetch(stage.key.clone()));
    let stages = stages.iter().map(|stage| Job::Stage(stage.key.clone()));
    images.chain(stages).chain(ahead).collect()
}

/// Whether it is known before a stage is built what has to be downloaded for it.
fn has_downloads(work: &Work) -> bool {
    matches!(work, Work::Bootstrap { lock: Some(_), .. } | Work::Debian { lock: Some(_), .. } | Work::Python(_))
}

fn next(plan: &Plan, state: &Mutex<State>, changed: &Condvar) -> Option<Job> {
    let mut state = locked(state);
    loop {
        // A download that is still waiting when its stage is not comes too late.
        let stages: BTreeSet<_> = state.waiting.iter().filter_map(Job::stage).cloned().collect();
        state.waiting.retain(|job| !matches!(job, Job::Fetch(key) if !stages.contains(key)));
        if state.failed.is_some() || state.waiting.is_empty() {
            return None;
        }
        if let Some(index) = state.waiting.iter().position(|job| state.is_ready(plan, job)) {
            let job = state.waiting.remove(index);
            state.running.insert(job.clone());
            return Some(job);
        }
        state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

impl Job {
    fn stage(&self) -> Option<&Key> {
        match self {
            Self::Stage(key) => Some(key),
            _ => None,
        }
    }
}

impl State {
    fn is_ready(&self, plan: &Plan, job: &Job) -> bool {
        match job {
            Job::Fetch(_) => true,
            Job::Stage(key) => {
                let fetched = !self.running.contains(&Job::Fetch(key.clone()));
                fetched && plan.stage(key).is_some_and(|stage| !stage.below.iter().any(|below| self.is_open(below)))
            }
            Job::Image(number) => !plan.images[*number].layers.iter().any(|layer| self.is_open(layer)),
        }
    }

    fn is_open(&self, key: &Key) -> bool {
        self.waiting.iter().chain(&self.running).any(|job| job.stage() == Some(key))
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::catalogue::Catalogue;
    use crate::plan::Inputs;
    use crate::{DEFAULT_RELEASE, Problem};

    fn plan(images: &[&str]) -> Plan {
        let catalogue = Catalogue::embedded().unwrap();
        let release = catalogue.release(DEFAULT_RELEASE).unwrap();
        Plan::new(Inputs { catalogue: &catalogue, release: &release, binary: None }, images).unwrap()
    }

    fn keys(plan: &Plan) -> Vec<Key> {
        plan.stages.iter().map(|stage| stage.key.clone()).collect()
    }

    #[test]
    fn whatever_is_done_stands_on_what_was_done_before() {
        let plan = plan(&["ovn", "nova", "guest"]);
        let done = Mutex::new(Vec::<Job>::new());
        let work = |job: &Job| {
            let mut done = done.lock().unwrap();
            let below = match job {
                Job::Fetch(_) => Vec::new(),
                Job::Stage(key) => plan.stage(key).unwrap().below.clone(),
                Job::Image(number) => plan.images[*number].layers.clone(),
            };
            assert!(below.iter().all(|key| done.contains(&Job::Stage(key.clone()))), "{job:?}");
            done.push(job.clone());
            Ok(())
        };
        work_off(&plan, &keys(&plan), work).unwrap();
        let done = done.into_inner().unwrap();
        assert_eq!(done.iter().filter(|job| matches!(job, Job::Stage(_))).count(), plan.stages.len());
        assert_eq!(done.iter().filter(|job| matches!(job, Job::Image(_))).count(), 3);
    }

    #[test]
    fn what_takes_longest_is_not_left_for_the_end() {
        let plan = plan(&["memcached", "ovn", "keystone"]);
        let stages = jobs(&plan, &keys(&plan)).into_iter().filter_map(|job| job.stage().cloned());
        let names: Vec<_> = stages.map(|key| plan.stage(&key).unwrap().image.clone()).collect();
        assert_eq!(names, ["base", "ovs-tools", "openvswitch", "keystone", "memcached", "ovn"]);
    }

    #[test]
    fn what_is_in_the_cache_is_neither_built_nor_fetched() {
        let plan = plan(&["valkey", "memcached"]);
        let done = Mutex::new(Vec::new());
        let note = |job: &Job| {
            done.lock().unwrap().push(job.clone());
            Ok(())
        };
        work_off(&plan, &[], note).unwrap();
        let mut done = done.into_inner().unwrap();
        done.sort();
        assert_eq!(done, [Job::Image(0), Job::Image(1)]);
    }

    #[test]
    fn after_a_failure_nothing_is_begun_on_it() {
        let plan = plan(&["valkey"]);
        let done = Mutex::new(Vec::new());
        let fail = |job: &Job| {
            done.lock().unwrap().push(job.clone());
            match job {
                Job::Fetch(_) => Ok(()),
                _ => Err(Error::Stage { image: "x".into(), stage: "y", problem: Problem::Command("no".into()) }),
            }
        };
        assert_eq!(work_off(&plan, &keys(&plan), fail).unwrap_err().to_string(), "image x, stage y: no");
        assert!(!done.into_inner().unwrap().contains(&Job::Image(0)));
    }
}
