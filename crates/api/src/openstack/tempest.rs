//! Tempest: tests of the running services, night after night.

use std::time::Duration as StdDuration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LONGEST_NAME, keystone_aliases, mistakes, unfit_name};
use crate::alias::Alias;
use crate::blocks::{
    Condition, CronSchedule, DependencyKind, DependsOn, Duration, ExtraConfig, Image, KeystoneAuth, LocalRef,
    Resources, Scheduling, WaitStatus,
};
use crate::catalog::Rules;
use crate::{Problem, problem};

/// The annotation of a Tempest that asks for a run now: one for each value that it has not had before.
pub const RUN_NOW: &str = "tempest.openstack.c5c3.io/run-now";

/// The most names of failed tests that a status holds.
pub const MOST_FAILURES: usize = 50;

/// The shortest time that a run may be given: listing the tests alone takes a part of it.
const SHORTEST_TIMEOUT: StdDuration = StdDuration::from_mins(1);

/// A Tempest: test runs on a schedule, and the result of the last one.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "tempest.openstack.c5c3.io",
    version = "v1alpha1",
    kind = "Tempest",
    plural = "tempests",
    namespaced,
    status = "TempestStatus",
    derive = "PartialEq",
    category = "c5c3",
    category = "openstack",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Passed", type_ = "integer", json_path = ".status.results.passedTests"),
    printcolumn(name = "Failed", type_ = "integer", json_path = ".status.results.failedTests"),
    printcolumn(name = "Last Run", type_ = "date", json_path = ".status.lastRun"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct TempestSpec {
    /// When tests run.
    #[serde(default = "nightly")]
    pub schedule: CronSchedule,
    /// Whether scheduled runs are left out for now.
    #[serde(default)]
    pub suspend: bool,
    /// The image; the one of the operator's release when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Secrets with credentials for the registries that images are pulled from, of type `kubernetes.io/dockerconfigjson`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub image_pull_secrets: Vec<LocalRef>,
    /// How Tempest authenticates; with the Secret `tempest-app-credential-secret` at the object `keystone` when absent. The
    /// application credential needs the role admin: each run makes an administrator of its own with it, for as long as it
    /// takes, because Tempest signs in with users and passwords alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keystone: Option<KeystoneAuth>,
    /// What is tested.
    #[serde(default)]
    pub tests: TempestTests,
    /// CPU and memory of the pod that runs the tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// The node that it is scheduled to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// Raw options of `tempest.conf` by section.
    #[serde(default, skip_serializing_if = "ExtraConfig::is_empty")]
    #[schemars(extend("maxProperties" = 128))]
    pub extra_config: ExtraConfig,
    /// What must be ready before tests run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub depends_on: Vec<DependsOn>,
}

fn nightly() -> CronSchedule {
    CronSchedule::new("0 2 * * *").expect("a nightly schedule parses")
}

/// What is tested, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TempestTests {
    /// The services that are tested.
    #[serde(default = "every_service")]
    #[schemars(length(min = 1, max = 8), extend("x-kubernetes-list-type" = "set"))]
    pub services: Vec<TestedService>,
    /// How many tests run at a time.
    #[serde(default = "four")]
    #[schemars(range(min = 1, max = 64))]
    pub concurrency: i32,
    /// Python regular expression of the tests that run; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub include_regex: Option<String>,
    /// Python regular expression of the tests that do not run; none when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub exclude_regex: Option<String>,
    /// How long a run may take before it counts as failed.
    #[serde(default = "four_hours")]
    pub timeout: Duration,
}

impl Default for TempestTests {
    fn default() -> Self {
        Self {
            services: every_service(),
            concurrency: four(),
            include_regex: None,
            exclude_regex: None,
            timeout: four_hours(),
        }
    }
}

fn every_service() -> Vec<TestedService> {
    use TestedService::{Compute, Identity, Image, Network, Volume};
    vec![Compute, Network, Volume, Image, Identity]
}

fn four() -> i32 {
    4
}

fn four_hours() -> Duration {
    Duration::new("4h").expect("4h is a duration")
}

/// The services that Tempest has tests for, by the names of Tempest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TestedService {
    /// Nova.
    Compute,
    /// Neutron.
    Network,
    /// Cinder.
    Volume,
    /// Glance.
    Image,
    /// Keystone.
    Identity,
}

/// What the operator observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TempestStatus {
    /// Ready, Progressing, Degraded, DependenciesReady, SecretsReady, ConfigReady, ScheduleReady, TestsPassed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation that the status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub waiting_for: Vec<WaitStatus>,
    /// When the last run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<Time>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_duration: Option<Duration>,
    /// What came out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<TempestResults>,
    /// How the last run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_outcome: Option<TempestOutcome>,
    /// The Job of the last run; its log has the traceback of each test that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub last_job: Option<String>,
    /// Why the last run timed out or could not be carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub message: Option<String>,
    /// The tests that failed in the last run, 50 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub failures: Vec<String>,
    /// The Job of the run in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub active_job: Option<String>,
    /// The last value of the annotation `tempest.openstack.c5c3.io/run-now` whose run has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub handled_request: Option<String>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TempestOutcome {
    /// No test failed.
    Passed,
    /// Tests failed.
    Failed,
    /// The tests did not end in time.
    TimedOut,
    /// The run could not be carried out: a wrong regular expression, a cloud that does not answer.
    Error,
}

/// The count of tests by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct TempestResults {
    /// Tests that passed.
    #[serde(default, rename = "passedTests")]
    pub passed: i32,
    /// Tests that failed.
    #[serde(default, rename = "failedTests")]
    pub failed: i32,
    /// Tests that were left out, by the tests themselves.
    #[serde(default, rename = "skippedTests")]
    pub skipped: i32,
    /// All of them.
    #[serde(default, rename = "totalTests")]
    pub total: i32,
}

impl Rules for Tempest {
    const ALIASES: &'static [Alias] = keystone_aliases![];

    fn problems(&self) -> Vec<Problem> {
        let spec = &self.spec;
        let mut found = mistakes(DependencyKind::Tempest, &self.metadata, &spec.depends_on, &spec.extra_config);
        found.extend(unfit_name(&self.metadata, LONGEST_NAME));
        if spec.tests.timeout.get() < SHORTEST_TIMEOUT {
            let fix = "give a run a minute at least, such as 30m or 4h";
            found.push(problem("spec.tests.timeout", "is too short for a run to begin", fix));
        }
        for (field, regex) in [("includeRegex", &spec.tests.include_regex), ("excludeRegex", &spec.tests.exclude_regex)]
        {
            if let Some(what) = regex.as_deref().and_then(unbalanced) {
                let path = format!("spec.tests.{field}");
                found.push(problem(path, what, "balance the brackets, or write a literal one with a backslash"));
            }
        }
        found
    }
}

/// What is unbalanced in a regular expression. Python's syntax has more to get wrong, which only Python can tell.
fn unbalanced(regex: &str) -> Option<&'static str> {
    let mut groups = 0_usize;
    let mut chars = regex.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '(' => groups += 1,
            ')' if groups == 0 => return Some("closes a group that is not open"),
            ')' => groups -= 1,
            '[' => {
                chars.next_if_eq(&'^');
                // A bracket that comes first is a member of the set.
                chars.next_if_eq(&']');
                loop {
                    match chars.next() {
                        Some('\\') => drop(chars.next()),
                        Some(']') => break,
                        Some(_) => {}
                        None => return Some("does not close a set, [...]"),
                    }
                }
            }
            _ => {}
        }
    }
    (groups > 0).then_some("does not close a group, (...)")
}
