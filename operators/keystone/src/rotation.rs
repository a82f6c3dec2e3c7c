//! The Secrets that keys are in, and what makes new ones: a CronJob proposes, the operator decides.

use c5c3_api::blocks::CronSchedule;
use c5c3_kit::{Child, Inputs, KindRef, Ref, Wait};
use c5c3_service::Instance;
use c5c3_service::backup::{Backup, Store};
use c5c3_service::pod::{Mount, Pod, container};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, JobSpec, JobTemplateSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::Resource;

use crate::keys::{self, Keep, Key, KeySet, Outcome, State};

/// Since when each key is the primary, on the Secret that is used.
const SINCE: &str = "keystone.openstack.c5c3.io/primary-since";

/// Where the keys are in the pod that proposes.
const KEYS: &str = "/keys";
const SCRIPTS: &str = "/scripts";

/// The keys of one purpose.
#[derive(Clone, Debug)]
pub struct Repository<'a> {
    /// Whose.
    pub instance: &'a Instance,
    /// What for: `fernet` or `credential`.
    pub purpose: &'static str,
    /// When a new key is made.
    pub schedule: &'a CronSchedule,
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
    /// What there is to say about them.
    pub note: String,
    /// When to look again.
    pub again_after: Option<std::time::Duration>,
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
        self.instance.named(&format!("{}-keys", self.purpose))
    }

    fn proposal(&self) -> String {
        self.instance.named(&format!("{}-keys-rotation", self.purpose))
    }

    fn rotate(&self) -> String {
        self.instance.named(&format!("{}-rotate", self.purpose))
    }

    /// What has to be read: the keys, and what is proposed.
    pub fn needs(&self) -> [Ref; 2] {
        [self.secret(), self.proposal()].map(|name| Ref::namespaced::<Secret>(&self.instance.namespace, name))
    }

    /// What has to be read as well once those are known to be gone.
    pub fn more_needs<K: Resource>(&self, inputs: &Inputs<K>) -> Vec<Ref> {
        let [live, _] = self.needs();
        let gone = inputs.has_read(&live) && inputs.get(&live).is_none();
        if gone { self.store.answers(inputs, self.instance, &self.secret()) } else { Vec::new() }
    }

    /// The keys as they are; none if there are none that can be read.
    pub fn current<K: Resource>(&self, inputs: &Inputs<K>) -> Option<State> {
        self.live(inputs).ok().flatten()
    }

    fn live<K: Resource>(&self, inputs: &Inputs<K>) -> Result<Option<State>, String> {
        let [live, _] = self.needs();
        if inputs.get(&live).is_none() {
            return Ok(None);
        }
        let secret: Secret = inputs.typed(&live).map_err(|wait| wait.now.unwrap_or_default())?;
        let keys = KeySet::read(&secret.data.unwrap_or_default())?;
        let since = secret.metadata.annotations.unwrap_or_default().remove(SINCE).unwrap_or_default();
        Ok(Some(State::known(keys, keys::history(&since), inputs.now)))
    }

    /// The keys as they are to be. Without any, those of the backup are taken, and without that the first are made. Those
    /// that cannot be read are left for somebody to mend: new ones would end every token.
    pub fn decide<K: Resource>(&self, inputs: &Inputs<K>) -> Result<Decision, Undecided> {
        let [_, proposal] = self.needs();
        let now = inputs.now;
        let state = match self.live(inputs).map_err(Undecided::Unreadable)? {
            Some(state) => state,
            None => self.restored(inputs)?,
        };
        let proposed = inputs.typed::<Secret>(&proposal).ok().and_then(|secret| secret.data);
        let proposed = proposed.filter(|data| !data.is_empty()).map(|data| KeySet::read(&data));
        Ok(self.judge(state, proposed, now))
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

    fn judge(&self, state: State, proposed: Option<Result<KeySet, String>>, now: jiff::Timestamp) -> Decision {
        let (state, outcome) = match &self.hold {
            None => state.propose(proposed, now),
            Some(why) => {
                let is_new = matches!(&proposed, Some(Ok(keys)) if keys.get(0) != state.keys.get(0));
                (state, if is_new { Outcome::Held(why.clone()) } else { Outcome::Nothing })
            }
        };
        let (state, prune_after) = state.prune(self.keep, now);
        let (about, wait) = match outcome {
            Outcome::Refused(why) => (format!("; a proposed rotation was refused: {why}"), None),
            Outcome::Held(why) => (format!("; a proposed rotation waits: {why}"), None),
            Outcome::Later(wait) => (String::new(), Some(wait)),
            Outcome::Nothing | Outcome::Taken => (String::new(), None),
        };
        let note = format!("{} keys, the primary is {}{about}", state.keys.count(), state.keys.primary());
        let again_after = [prune_after, wait].into_iter().flatten().min();
        Decision { state, note, again_after }
    }

    /// The Secrets, and what proposes new keys with the right to write one of them and no other.
    pub fn objects(&self, state: &State, image: &str, scripts: &str) -> Vec<Child> {
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
            Child::new(&live).kept(self.kept),
            Child::new(&proposal),
            Child::new(&account),
            Child::new(&role),
            Child::new(&binding),
            Child::new(&self.cron_job(image, scripts)),
        ]
    }

    fn cron_job(&self, image: &str, scripts: &str) -> CronJob {
        let script = format!("{SCRIPTS}/rotate.py");
        let proposal = self.proposal();
        let args = ["/opt/keystone/bin/python", &script, &self.instance.namespace, &proposal];
        let pod = Pod {
            instance: self.instance,
            component: "rotate",
            containers: vec![container("rotate", image, &args, &[])],
            init_containers: Vec::new(),
            mounts: vec![Mount::secret("keys", &self.secret(), KEYS), Mount::secret("scripts", scripts, SCRIPTS)],
            scheduling: None,
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
