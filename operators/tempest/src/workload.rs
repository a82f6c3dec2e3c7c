//! The CronJob, and the Jobs of runs that are asked for. A run is never repeated by Kubernetes, whatever becomes of it.

use std::collections::BTreeMap;

use c5c3_api::openstack::Tempest;
use c5c3_kit::ownership::Owner;
use c5c3_kit::{Child, Ref, job};
use c5c3_service::Instance;
use c5c3_service::identity::Access;
use c5c3_service::image;
use c5c3_service::job::JOB_POD;
use c5c3_service::pod::{Mount, Pod, Shared, container, resources};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, JobSpec, JobTemplateSpec};
use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use kube::core::ObjectMeta;
use serde_json::json;

use crate::NAME;
use crate::config::{FOLDER, Files, WORK};

/// The component of pods and Jobs.
const TESTS: &str = "tests";

/// What the names of Jobs that are asked for end in, before their hash.
const RUN: &str = "run";

/// How many Jobs of each kind stay, with the logs of their pods.
const KEPT_RUNS: i32 = 5;

/// How late a scheduled run may start. One that was missed for longer, such as while runs were suspended, is left out.
const LATEST_START_SECONDS: i64 = 600;

/// How long a run that is ended may take to clean up.
const GRACE_SECONDS: i64 = 120;

/// What runs are made of.
pub(crate) struct Workload<'a> {
    pub(crate) instance: &'a Instance,
    pub(crate) tempest: &'a Tempest,
    pub(crate) files: &'a Files,
    pub(crate) access: &'a Access,
}

/// The name of the Job that a request makes.
pub(crate) fn requested_name(instance: &Instance, request: &str) -> String {
    let identity = json!({"request": request});
    job::run_once(&instance.namespace, &instance.named(RUN), &identity, PodTemplateSpec::default(), 0).reference().name
}

impl Workload<'_> {
    /// Scheduled runs. While `exclusive`, none starts: a run that was asked for is going on, and each run removes what others
    /// of the same object left.
    pub(crate) fn cron_job(&self, exclusive: bool) -> Child {
        let spec = &self.tempest.spec;
        let mut metadata = ObjectMeta { labels: Some(self.instance.labels(TESTS)), ..ObjectMeta::default() };
        self.owner().mark_template(&mut metadata);
        Child::new(&CronJob {
            metadata: self.instance.meta(&self.instance.name, TESTS),
            spec: Some(CronJobSpec {
                schedule: spec.schedule.to_string(),
                suspend: Some(spec.suspend || exclusive),
                concurrency_policy: Some("Forbid".into()),
                starting_deadline_seconds: Some(LATEST_START_SECONDS),
                successful_jobs_history_limit: Some(KEPT_RUNS),
                failed_jobs_history_limit: Some(KEPT_RUNS),
                job_template: JobTemplateSpec {
                    metadata: Some(metadata),
                    spec: Some(JobSpec {
                        template: self.pod(),
                        backoff_limit: Some(0),
                        active_deadline_seconds: Some(self.deadline()),
                        ..JobSpec::default()
                    }),
                },
                ..CronJobSpec::default()
            }),
            ..CronJob::default()
        })
    }

    /// The run of a request.
    pub(crate) fn requested(&self, request: &str) -> Child {
        let (namespace, base) = (&self.instance.namespace, self.instance.named(RUN));
        let mut child = job::run_once(namespace, &base, &json!({"request": request}), self.pod(), 0);
        child.object.metadata.labels.get_or_insert_default().extend(self.instance.labels(TESTS));
        child.object.data["spec"]["activeDeadlineSeconds"] = self.deadline().into();
        // Tests that failed would fail again.
        child.retry_after = None;
        child.keep_previous(usize::try_from(KEPT_RUNS - 1).unwrap_or_default()).readiness_optional()
    }

    fn deadline(&self) -> i64 {
        i64::try_from(self.tempest.spec.tests.timeout.get().as_secs()).unwrap_or(i64::MAX)
    }

    fn owner(&self) -> Owner {
        let reference = Ref::namespaced::<Tempest>(&self.instance.namespace, &self.instance.name);
        Owner { reference, uid: self.tempest.metadata.uid.clone().unwrap_or_default(), manager: NAME }
    }

    fn pod(&self) -> PodTemplateSpec {
        let spec = &self.tempest.spec;
        let python = "/opt/tempest/bin/python";
        let env = [("HOME", "/tmp"), ("PYTHONUNBUFFERED", "1"), ("TEMPEST_WORK", WORK)];
        let image = image::of("tempest", spec.image.as_ref(), None);
        let runner = Container {
            resources: resources(spec.resources.as_ref()),
            // The results are written by the runner. If it dies before that, its last lines say why.
            termination_message_policy: Some("FallbackToLogsOnError".into()),
            ..container("tempest", &image, &[python, &format!("{FOLDER}/run.py")], &env)
        };
        let pull_secrets = spec.image_pull_secrets.iter().map(|secret| secret.name.to_string()).collect();
        let mut mounts = vec![Mount::secret("config", &self.files.name(), FOLDER)];
        mounts.extend(self.access.mounts());
        let pod = Pod {
            instance: self.instance,
            component: TESTS,
            shared: &Shared { pull_secrets, ..Shared::default() },
            containers: vec![runner],
            init_containers: Vec::new(),
            mounts,
            scheduling: spec.scheduling.as_ref(),
            service_account: None,
            annotations: BTreeMap::new(),
        };
        let mut template = pod.template();
        let metadata = template.metadata.get_or_insert_default();
        metadata.labels.get_or_insert_default().insert(JOB_POD.0.into(), JOB_POD.1.into());
        self.owner().mark_template(metadata);
        if let Some(pod) = &mut template.spec {
            pod.restart_policy = Some("Never".into());
            pod.termination_grace_period_seconds = Some(GRACE_SECONDS);
            let spread = spec.scheduling.as_ref().map(|scheduling| scheduling.topology_spread_constraints.clone());
            pod.topology_spread_constraints = spread.filter(|spread| !spread.is_empty());
        }
        template
    }
}
