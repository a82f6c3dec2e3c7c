//! The Secrets that keys are in, and what makes new ones: a CronJob proposes, the operator decides.

use std::time::Duration;

use c5c3_api::blocks::{CronSchedule, Scheduling};
use c5c3_kit::{Child, Inputs, KindRef, Ref, Wait};
use c5c3_service::Instance;
use c5c3_service::backup::{Backup, Store};
use c5c3_service::pod::{Mount, Pod, Shared, container};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, JobSpec, JobTemplateSpec};
use k8s_openapi::api::core::v1::{Affinity, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::Resource;
use kube::core::ObjectMeta;
use serde_json::json;

use crate::keys::{self, Keep, Key, KeySet, Outcome, State};

/// Since when each key is the primary, on the Secret that is used.
const SINCE: &str = "keystone.openstack.c5c3.io/primary-since";

/// Where the keys are in the pod that proposes.
const KEYS: &str = "/keys";
const SCRIPTS: &str = "/scripts";

/// The component that proposes.
const COMPONENT: &str = "rotate";

/// What keys are for.
pub(crate) const PURPOSES: [&str; 2] = ["fernet", "credential"];

/// How late a new key may be: a pod is scheduled, pulls its image, and fails four times before its Job has failed.
const LATENESS: Duration = Duration::from_mins(15);

/// The keys of one purpose.
#[derive(Clone, Debug)]
pub struct Repository<'a> {
    /// Whose.
    pub instance: &'a Instance,
    /// What for: one of [`PURPOSES`].
    pub purpose: &'static str,
    /// When a new key is made.
    pub schedule: &'a CronSchedule,
    /// Which nodes that is done on.
    pub scheduling: Option<&'a Scheduling>,
    /// How long keys stay.
    pub keep: Keep,
    /// Why no new key may come now, if none may.
    pub hold: Option<String>,
    /// Where they are backed up to.
    pub store: &'a Store,
    /// Whether they stay when their Keystone goes.
    pub kept: bool,
}

/// Why nothing can be decided.
#[derive(Debug)]
pub enum Undecided {
    /// There are keys, and they cannot be read for this reason.
    Unreadable(String),
    /// There are none, and it is being asked by an object whether the store has some.
    Asking(Box<Child>, Box<Wait>),
}

/// What is to be done with a repository.
#[derive(Debug)]
pub struct Decision {
    /// The keys.
    pub state: State,
    /// The version of the Secret that they were read from: a later change is not overwritten.
    pub based_on: Option<String>,
    /// What there is to say about them.
    pub note: String,
    /// What keeps new keys from coming, if they are overdue.
    pub overdue: Option<Wait>,
    /// When to look again.
    pub requeue_after: Option<Duration>,
}

impl Repository<'_> {
    /// The kinds of its objects.
    pub fn children() -> Vec<KindRef> {
        vec![
            KindRef::of::<Secret>(),
            KindRef::of::<ServiceAccount>(),
            KindRef::of::<Role>(),
            KindRef::of::<RoleBinding>(),
            KindRef::of::<CronJob>(),
        ]
    }

    /// The name of the Secret that pods mount.
    pub fn secret(&self) -> String {
        secret(self.instance, self.purpose)
    }

    fn proposal(&self) -> String {
        self.instance.named(&format!("{}-keys-rotation", self.purpose))
    }

    fn rotate(&self) -> String {
        self.instance.named(&format!("{}-rotate", self.purpose))
    }

    /// What has to be read: the keys, and what is proposed.
    pub fn needs(&self) -> [Ref; 2] {
        let namespace = &self.instance.namespace;
        [Ref::namespaced::<Secret>(namespace, self.secret()), Ref::namespaced::<Secret>(namespace, self.proposal())]
    }

    /// What has to be read as well once those are read: what tells how their backup is, or what it has if they are gone.
    pub fn more_needs<K: Resource>(&self, inputs: &Inputs<K>) -> Vec<Ref> {
        let [live, ..] = self.needs();
        match inputs.has_read(&live).then(|| inputs.get(&live)) {
            None => Vec::new(),
            Some(None) => self.store.answers(inputs, self.instance, &self.secret()),
            Some(Some(_)) => self.store.writes(inputs, self.instance, &self.secret()).into_iter().collect(),
        }
    }

    /// The keys as they are; none if there are none that can be read.
    pub fn current<K: Resource>(&self, inputs: &Inputs<K>) -> Option<State> {
        self.live(inputs).ok().flatten()
    }

    fn live<K: Resource>(&self, inputs: &Inputs<K>) -> Result<Option<State>, String> {
        let [live, ..] = self.needs();
        if inputs.get(&live).is_none() {
            return Ok(None);
        }
        let secret: Secret = inputs.typed(&live).map_err(|wait| wait.now.unwrap_or_default())?;
        let keys = KeySet::read(&secret.data.unwrap_or_default())?;
        let since = secret.metadata.annotations.unwrap_or_default().remove(SINCE).unwrap_or_default();
        Ok(Some(State::known(keys, keys::history(&since), inputs.now)))
    }

    /// The keys as they are to be. Without any, those of the backup are taken, and without that the first are made. Those
    /// that cannot be read are left for a user to correct: new ones would invalidate every token.
    pub fn decide<K: Resource>(&self, inputs: &Inputs<K>) -> Result<Decision, Undecided> {
        let [live, proposal] = self.needs();
        let state = match self.live(inputs).map_err(Undecided::Unreadable)? {
            Some(state) => state,
            None => self.restored(inputs)?,
        };
        let proposed = inputs.typed::<Secret>(&proposal).ok().and_then(|secret| secret.data);
        let proposed = proposed.filter(|data| !data.is_empty()).map(|data| KeySet::read(&data));
        let cron_job = inputs.own_named::<CronJob>(&self.rotate());
        let cron_job = cron_job.and_then(|live| serde_json::from_value(json!(live)).ok());
        let based_on = inputs.get(&live).and_then(|live| live.metadata.resource_version.clone());
        Ok(Decision { based_on, ..self.judge(state, proposed, cron_job.as_ref(), inputs.now) })
    }

    fn restored<K: Resource>(&self, inputs: &Inputs<K>) -> Result<State, Undecided> {
        let random = |what: &str| Key::new(inputs.random(&format!("{} {what}", self.purpose)));
        match self.store.backup(inputs, self.instance, &self.secret()) {
            Backup::Nothing => Ok(State::new(KeySet::new(random("staged"), random("primary")), inputs.now)),
            Backup::Asking(ask, wait) => Err(Undecided::Asking(ask, wait)),
            Backup::Found(data) => {
                let keys =
                    KeySet::read(&data).map_err(|wrong| Undecided::Unreadable(format!("in its backup {wrong}")))?;
                Ok(State::known(keys, keys::History::new(), inputs.now))
            }
        }
    }

    fn judge(
        &self,
        state: State,
        proposed: Option<Result<KeySet, String>>,
        cron_job: Option<&CronJob>,
        now: Timestamp,
    ) -> Decision {
        let (state, outcome) = match &self.hold {
            None => state.propose(proposed, now),
            Some(why) => {
                let is_new = matches!(&proposed, Some(Ok(keys)) if keys.get(0) != state.keys.get(0));
                (state, if is_new { Outcome::Held(why.clone()) } else { Outcome::Nothing })
            }
        };
        let (state, prune_after) = state.prune(self.keep, now);
        let comes = matches!(outcome, Outcome::Held(_) | Outcome::Later(_));
        let (mut about, wait) = match outcome {
            Outcome::Refused(why) => (format!("; a proposed rotation was refused: {why}"), None),
            Outcome::Held(why) => (format!("; a proposed rotation waits: {why}"), None),
            Outcome::Later(wait) => (String::new(), Some(wait)),
            Outcome::Nothing | Outcome::Taken => (String::new(), None),
        };
        if cron_job.is_some_and(is_suspended) {
            about += "; their rotation is suspended";
        }
        let deadline = cron_job.filter(|_| !comes).and_then(|cron_job| deadline(cron_job, &state));
        let left = deadline.map(|deadline| Duration::try_from(deadline.duration_since(now)).unwrap_or_default());
        let overdue = cron_job.filter(|_| left == Some(Duration::ZERO));
        let overdue = overdue.map(|cron_job| self.overdue(cron_job, &state, &about));
        let note = format!("{} keys, the primary is {}{about}", state.keys.count(), state.keys.primary());
        let requeue_after = [prune_after, wait, left.filter(|left| !left.is_zero())].into_iter().flatten().min();
        Decision { state, based_on: None, note, overdue, requeue_after }
    }

    fn overdue(&self, cron_job: &CronJob, state: &State, about: &str) -> Wait {
        let rotate = Ref::namespaced::<CronJob>(&self.instance.namespace, self.rotate());
        let primary = state.keys.primary();
        let since = state.since.get(&primary).map(ToString::to_string).unwrap_or_default();
        let last = cron_job.status.as_ref().and_then(|status| status.last_schedule_time.as_ref());
        let last = last.map_or_else(|| "has not run yet".to_owned(), |last| format!("ran last at {}", last.0));
        let (name, namespace) = (&rotate.name, &self.instance.namespace);
        let labels =
            format!("app.kubernetes.io/instance={},app.kubernetes.io/component={COMPONENT}", self.instance.name);
        Wait::on(&rotate)
            .condition("makes a new key")
            .now(format!("{last}, and key {primary} is the primary since {since}{about}"))
            .because("two scheduled runs produced no new key")
            .look_at(format!(
                "kubectl describe pods -l {labels} -n {namespace}; after the cause is fixed: \
                 kubectl create job --from=cronjob/{name} {name}-by-hand -n {namespace}"
            ))
            .failed("RotationOverdue")
    }

    /// The Secrets, and what proposes new keys with the right to write one of them and no other.
    pub fn objects(
        &self,
        state: &State,
        based_on: Option<String>,
        image: &str,
        shared: &Shared,
        scripts: &str,
    ) -> Vec<Child> {
        let meta = |name: String| self.instance.meta(name, "keys");
        let mut live = Secret { metadata: meta(self.secret()), data: Some(state.keys.data()), ..Secret::default() };
        live.metadata.annotations = Some([(SINCE.to_owned(), keys::written(&state.since))].into());
        let proposal = Secret { metadata: meta(self.proposal()), ..Secret::default() };
        let account = ServiceAccount {
            metadata: meta(self.rotate()),
            automount_service_account_token: Some(false),
            ..ServiceAccount::default()
        };
        let role = Role {
            metadata: meta(self.rotate()),
            rules: Some(vec![PolicyRule {
                api_groups: Some(vec![String::new()]),
                resources: Some(vec!["secrets".into()]),
                resource_names: Some(vec![self.proposal()]),
                verbs: vec!["patch".into()],
                ..PolicyRule::default()
            }]),
        };
        let binding = RoleBinding {
            metadata: meta(self.rotate()),
            role_ref: RoleRef {
                api_group: "rbac.authorization.k8s.io".into(),
                kind: "Role".into(),
                name: self.rotate(),
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".into(),
                name: self.rotate(),
                namespace: Some(self.instance.namespace.clone()),
                ..Subject::default()
            }]),
        };
        vec![
            // Keys that a user restores or provides are used as they are found.
            Child::new(&live).kept(self.kept).based_on(based_on).adoptable(),
            Child::new(&proposal),
            Child::new(&account),
            Child::new(&role),
            Child::new(&binding),
            Child::new(&self.cron_job(image, shared, scripts)),
        ]
    }

    fn cron_job(&self, image: &str, shared: &Shared, scripts: &str) -> CronJob {
        let script = format!("{SCRIPTS}/rotate.py");
        let proposal = self.proposal();
        let args = ["/opt/keystone/bin/python", &script, &self.instance.namespace, &proposal];
        let scheduling = self.scheduling.map(nodes_alone);
        let pod = Pod {
            instance: self.instance,
            component: COMPONENT,
            shared,
            containers: vec![container("rotate", image, &args, &[])],
            init_containers: Vec::new(),
            mounts: vec![Mount::secret("keys", &self.secret(), KEYS), Mount::secret("scripts", scripts, SCRIPTS)],
            scheduling: scheduling.as_ref(),
            service_account: Some(self.rotate()),
            annotations: std::collections::BTreeMap::new(),
        };
        let mut template = pod.template();
        if let Some(spec) = &mut template.spec {
            spec.restart_policy = Some("Never".into());
        }
        CronJob {
            metadata: self.instance.meta(self.rotate(), "keys"),
            spec: Some(CronJobSpec {
                schedule: self.schedule.to_string(),
                concurrency_policy: Some("Forbid".into()),
                successful_jobs_history_limit: Some(1),
                failed_jobs_history_limit: Some(1),
                job_template: JobTemplateSpec {
                    spec: Some(JobSpec { template, backoff_limit: Some(4), ..JobSpec::default() }),
                    ..JobTemplateSpec::default()
                },
                ..CronJobSpec::default()
            }),
            ..CronJob::default()
        }
    }
}

/// The name of the Secret with the keys of a purpose.
pub(crate) fn secret(instance: &Instance, purpose: &str) -> String {
    instance.named(&format!("{purpose}-keys"))
}

/// When a new key has to be there at the latest: the schedule has come twice since the primary is in use, and since the
/// CronJob is as it is. Never while it is suspended.
fn deadline(cron_job: &CronJob, state: &State) -> Option<Timestamp> {
    let schedule = CronSchedule::new(&cron_job.spec.as_ref()?.schedule).ok().filter(|_| !is_suspended(cron_job))?;
    let since = *state.since.get(&state.keys.primary())?;
    let first = schedule.next_after(since.max(settled(&cron_job.metadata)?))?;
    schedule.next_after(first)?.checked_add(LATENESS).ok()
}

fn is_suspended(cron_job: &CronJob) -> bool {
    cron_job.spec.as_ref().is_some_and(|spec| spec.suspend == Some(true))
}

/// Since when an object's spec is as it is. Keys may be older than what rotates them: those of a Keystone before, those of a
/// backup; and so may they be when the schedule changes or goes on.
fn settled(meta: &ObjectMeta) -> Option<Timestamp> {
    let specs = meta.managed_fields.iter().flatten().filter(|entry| entry.subresource.is_none());
    let times = specs.filter_map(|entry| entry.time.as_ref()).chain(&meta.creation_timestamp);
    times.map(|time| time.0).max()
}

/// Keeps node placement and drops pod (anti-)affinity: rotation pods share the app label and would be repelled.
fn nodes_alone(scheduling: &Scheduling) -> Scheduling {
    let affinity = scheduling.affinity.as_ref().and_then(|affinity| affinity.node_affinity.clone());
    let affinity = affinity.map(|nodes| Affinity { node_affinity: Some(nodes), ..Affinity::default() });
    Scheduling { affinity, ..scheduling.clone() }
}
