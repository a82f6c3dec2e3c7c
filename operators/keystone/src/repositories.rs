//! Keystone's two sets of keys: those of tokens and those of stored credentials. What is to become of them, as steps.

use std::time::Duration;

use c5c3_api::blocks::{CronSchedule, DeletionPolicy};
use c5c3_api::openstack::{Keystone, KeystoneSpec};
use c5c3_kit::config::ConfigFiles;
use c5c3_kit::{Child, Inputs, Ref, Step, Wait};
use c5c3_service::backup::Store;
use c5c3_service::service_plan::is_complete;
use c5c3_service::{Instance, ServicePlan};

use crate::config;
use crate::credentials;
use crate::describe::Identity;
use crate::keys::{self, Keep, PROPAGATION};
use crate::rotation::{Decision, Repository, Undecided};

/// Keystone itself keeps no more keys for stored credentials.
const MOST_CREDENTIAL_KEYS: usize = 3;

/// Both sets.
pub(crate) struct Repositories<'a> {
    spec: &'a KeystoneSpec,
    instance: Instance,
    store: Store,
    credential_schedule: CronSchedule,
    prunes: bool,
}

/// What has been decided about both sets.
pub(crate) struct Keys {
    pub(crate) fernet: Result<Decision, Undecided>,
    pub(crate) credential: Result<Decision, Undecided>,
}

impl Keys {
    /// When something has to be done with a key.
    pub(crate) fn requeue_after(&self) -> Option<Duration> {
        let decided = [&self.fernet, &self.credential].into_iter().filter_map(|decision| decision.as_ref().ok());
        decided.filter_map(|decision| decision.requeue_after).min()
    }
}

impl<'a> Repositories<'a> {
    pub(crate) fn new(keystone: &'a Keystone) -> Self {
        let spec = &keystone.spec;
        let instance = Instance::new("keystone", &keystone.metadata);
        Self {
            store: Store::new(&instance, spec.secret_store_ref.as_ref()),
            credential_schedule: spec.credential_keys.clone().unwrap_or_default().rotation_schedule,
            prunes: true,
            instance,
            spec,
        }
    }

    /// Keeps every key.
    pub(crate) fn without_pruning(self) -> Self {
        Self { prunes: false, ..self }
    }

    /// How long keys stay.
    fn keep(&self, most: usize, life: Duration) -> Keep {
        Keep { most: if self.prunes { most } else { usize::MAX }, life }
    }

    /// Whether keys outlive the Keystone, as its database does.
    fn keeps_keys(&self) -> bool {
        self.spec.deletion_policy == DeletionPolicy::Retain
    }

    fn fernet(&self) -> Repository<'_> {
        let most = usize::try_from(self.spec.fernet.max_active_keys.get()).unwrap_or(3);
        Repository {
            instance: &self.instance,
            purpose: "fernet",
            schedule: &self.spec.fernet.rotation_schedule,
            scheduling: self.spec.scheduling.as_ref(),
            keep: self.keep(most, config::token_life(self.spec)),
            hold: None,
            store: &self.store,
            kept: self.keeps_keys(),
        }
    }

    /// Old credential keys are unused after a migration, and rotation is held until the migration has run.
    fn credential(&self, hold: Option<String>) -> Repository<'_> {
        Repository {
            instance: &self.instance,
            purpose: "credential",
            schedule: &self.credential_schedule,
            scheduling: self.spec.scheduling.as_ref(),
            keep: self.keep(MOST_CREDENTIAL_KEYS, Duration::ZERO),
            hold,
            store: &self.store,
            kept: self.keeps_keys(),
        }
    }

    /// What has to be read.
    pub(crate) fn needs(&self, inputs: &Inputs<Keystone>) -> Vec<Ref> {
        let both = [self.fernet(), self.credential(None)];
        let mut needs: Vec<Ref> = both.iter().flat_map(Repository::needs).collect();
        needs.push(self.store.needs());
        needs.extend(both.iter().flat_map(|keys| keys.more_needs(inputs)));
        needs
    }

    /// Decides about both sets. Stored credentials get no new key before all of them are encrypted with the present one.
    pub(crate) fn decide(&self, service_plan: &ServicePlan<'_, Identity>) -> Keys {
        let inputs = service_plan.inputs;
        let current = self.credential(None).current(inputs);
        let rotated = current.as_ref().is_some_and(|state| state.keys.primary() > 1);
        let migrated = || {
            let job = credentials::job(service_plan, service_plan.resolved.ok()?, current.as_ref()?)?;
            is_complete(inputs, &job).then_some(())
        };
        let hold = (rotated && migrated().is_none()).then(|| "credentials are being re-encrypted".to_owned());
        Keys { fernet: self.fernet().decide(inputs), credential: self.credential(hold).decide(inputs) }
    }

    /// Asks the store for keys that are gone.
    pub(crate) fn restore(keys: &Keys) -> Step {
        let asking = [&keys.fernet, &keys.credential].into_iter().filter_map(|decision| match decision {
            // What is waited for is said by the keys.
            Err(Undecided::Asking(ask, _)) => Some((**ask).clone().readiness_optional()),
            _ => None,
        });
        let asking: Vec<Child> = asking.collect();
        let step = Step::new("FernetKeysReady").node("restore", []).reasons("KeysAvailable", "WaitingForKeys");
        if asking.is_empty() { step.childless().done("") } else { step.children(asking).done("the store has answered") }
    }

    /// The Secrets with keys, what rotates them and what backs them up.
    pub(crate) fn keys(&self, service_plan: &ServicePlan<'_, Identity>, keys: &Keys) -> Step {
        let scripts = ConfigFiles::new(&self.instance.namespace, self.instance.named("scripts"))
            .file("rotate.py", include_str!("rotate.py").into());
        // What asks the store is not taken away before both answers are, which come one after the other.
        let mut step = Step::new("FernetKeysReady").node("keys", ["restore"]).child(scripts.child());
        let mut notes = Vec::new();
        for (repository, decision) in [(self.fernet(), &keys.fernet), (self.credential(None), &keys.credential)] {
            match decision {
                Ok(Decision { state, note, based_on, .. }) => {
                    let unsaved = self.store.unwritten(service_plan.inputs, &self.instance, &repository.secret());
                    let unsaved = unsaved.map(|why| format!("; they are not backed up: {why}")).unwrap_or_default();
                    notes.push(format!("{}: {note}{unsaved}", repository.purpose));
                    let shared = &service_plan.parts.shared;
                    step = step.children(repository.objects(
                        state,
                        based_on.clone(),
                        &service_plan.parts.image,
                        shared,
                        &scripts.name(),
                    ));
                    // Since when each is the primary tells sets of keys apart, and nothing about the keys.
                    let (secret, version) = (repository.secret(), keys::written(&state.since));
                    let backup =
                        self.store.push(service_plan.inputs, &self.instance, &secret, &version, repository.kept);
                    step = step.children(backup.map(Child::readiness_optional));
                }
                Err(Undecided::Asking(_, wait)) => step = step.wait((**wait).clone()),
                Err(Undecided::Unreadable(wrong)) => {
                    let [live, ..] = repository.needs();
                    let wait =
                        Wait::on(&live).condition("holds a set of keys").now(format!("holds no set of keys: {wrong}"));
                    let remedy = "restore it from a backup; to make new keys, and end every token, delete it";
                    step = step.wait(wait.look_at(remedy).failed("KeysUnreadable"));
                }
            }
        }
        step.done(notes.join("; ")).reasons("KeysAvailable", "WaitingForKeys")
    }

    /// What keeps keys from being rotated. Nothing waits for it: what mends it may be a change of the objects that it is about.
    pub(crate) fn rotation(keys: &Keys) -> Step {
        let decided = [&keys.fernet, &keys.credential].into_iter().flatten();
        let waits = decided.filter_map(|decision| decision.overdue.clone());
        let step = Step::new("FernetKeysReady").node("rotation", ["keys"]).childless().done("");
        waits.fold(step, Step::wait)
    }

    /// Stored credentials encrypted with the present key, once every pod has it; and when to look again for that.
    pub(crate) fn credentials(service_plan: &ServicePlan<'_, Identity>, keys: &Keys) -> (Step, Option<Duration>) {
        let step = Step::new("FernetKeysReady").node("credentials", ["schema", "keys"]);
        let (Ok(resolved), Ok(Decision { state, .. })) = (service_plan.resolved, &keys.credential) else {
            return (step.undecided([]), None);
        };
        let since = state.since.get(&state.keys.primary());
        let (Some(job), Some(since)) = (credentials::job(service_plan, resolved, state), since) else {
            return (step.childless().done(""), None);
        };
        let passed = Duration::try_from(service_plan.inputs.now.duration_since(*since)).unwrap_or_default();
        if passed < PROPAGATION {
            let done = "stored credentials are re-encrypted when every pod has the key";
            return (step.childless().done(done), Some(PROPAGATION));
        }
        let files = credentials::files(service_plan, resolved);
        (step.child(files.child()).child(job).done("stored credentials are encrypted with the primary"), None)
    }
}
