//! Tempest: tests of a running cloud, on a schedule and on request.
//!
//! ```text
//! dependencies ─┐
//! secrets ──────┼─► schedule: a CronJob, and a Job for each value of the annotation run-now
//! config ───────┘      └─► pod: run.py ─► termination message ─► status.results, TestsPassed
//! ```
//!
//! The runs themselves are `run.py` and `cloud.py`, which a Secret brings into the image's Python.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod config;
mod results;
mod runs;
mod workload;

use c5c3_api::blocks::{AppCredentialRef, ConditionStatus, KeystoneAuth, ObjectName};
use c5c3_api::openstack::Tempest;
use c5c3_kit::condition::ConditionState;
use c5c3_kit::ini::Ini;
use c5c3_kit::report::Outcome;
use c5c3_kit::{Controller, Inputs, KindRef, Operator, Plan, Ref, Step, Summary, Verdict, Wait};
use c5c3_service::Instance;
use c5c3_service::dependencies;
use c5c3_service::identity::{Access, Identity};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Pod, Secret};
use serde_json::Value;

use config::Files;
use runs::Runs;
use workload::Workload;

/// The field manager, and the value of the ownership label. It must never change.
pub const NAME: &str = "tempest-operator";

/// The Secret with the application credential of an object that names none.
pub const CREDENTIAL: &str = "tempest-app-credential-secret";

const DEPENDENCIES: &str = "DependenciesReady";
const SECRETS: &str = "SecretsReady";
const CONFIG: &str = "ConfigReady";
const SCHEDULE: &str = "ScheduleReady";
const TESTS_PASSED: &str = "TestsPassed";

/// The operator. It reaches into no other namespace.
pub fn operator(_: bool) -> Operator {
    Operator::new(NAME).controller(|| Tempests)
}

/// The controller.
#[derive(Clone, Copy, Debug)]
pub struct Tempests;

/// A Tempest whose options can be written.
pub struct Valid {
    instance: Instance,
    /// The files of a run, or the waits for what they are made of.
    files: Result<(Files, Access), Vec<Wait>>,
}

impl Controller for Tempests {
    type Kind = Tempest;
    type Valid = Valid;
    const NAME: &'static str = "tempest";
    const CONDITIONS: &'static [&'static str] = &[DEPENDENCIES, SECRETS, CONFIG, SCHEDULE];
    const SUMMARY: &'static [&'static str] = &["Ready", "Progressing", "Degraded", TESTS_PASSED];

    fn children(&self) -> Vec<KindRef> {
        vec![KindRef::of::<Secret>(), KindRef::of::<CronJob>(), KindRef::of::<Job>()]
    }

    fn reads(&self) -> Vec<KindRef> {
        Identity::reads().into_iter().chain(dependencies::reads()).collect()
    }

    fn descendants(&self) -> Vec<KindRef> {
        vec![KindRef::of::<Job>(), KindRef::of::<Pod>()]
    }

    fn needs(&self, inputs: &Inputs<Tempest>) -> Vec<Ref> {
        let instance = instance(&inputs.object);
        let dependencies = inputs.object.spec.depends_on.iter();
        let named = dependencies.flat_map(|one| dependencies::needs(one, &instance.namespace));
        identity(&instance, &inputs.object).needs(inputs).into_iter().chain(named).collect()
    }

    fn validate(&self, inputs: &Inputs<Tempest>) -> Verdict<Valid> {
        let problems = config::problems(&inputs.object);
        if !problems.is_empty() {
            return Verdict::Invalid(problems.into());
        }
        let instance = instance(&inputs.object);
        let files = match identity(&instance, &inputs.object).access(inputs) {
            Ok(access) => match config::files(&instance, &inputs.object, &access, &mut Ini::new()) {
                Ok(files) => Ok((files, access)),
                Err(error) => return Verdict::Invalid(vec![config::unwritable(&error)].into()),
            },
            Err(waits) => Err(waits.into_iter().map(explained).collect()),
        };
        Verdict::Valid(Valid { instance, files })
    }

    fn plan(&self, valid: &Valid, inputs: &Inputs<Tempest>) -> Plan {
        let tempest = &inputs.object;
        let unmet = dependencies::waits(&tempest.spec.depends_on, inputs, &valid.instance.namespace);
        let dependencies = Step::new(DEPENDENCIES).node("dependencies", []).childless();
        let dependencies = unmet.into_iter().fold(dependencies, Step::wait).done("all dependencies are ready");
        let secrets = Step::new(SECRETS).node("secrets", []).childless().done("the credential exists");
        let config = Step::new(CONFIG).node("config", ["secrets"]).done("tempest.conf is written");
        let schedule = Step::new(SCHEDULE).node("schedule", ["dependencies", "secrets", "config"]);
        let schedule = schedule.done(if tempest.spec.suspend {
            "scheduled runs are suspended".to_owned()
        } else {
            format!("tests run at {}", tempest.spec.schedule)
        });
        let runs = Runs::of(inputs, &valid.instance);
        let (secrets, config, schedule) = match &valid.files {
            Err(waits) => {
                let secrets = waits.iter().cloned().fold(secrets, Step::wait);
                (secrets, config.undecided([]), schedule.undecided([]))
            }
            Ok((files, access)) => {
                let workload = Workload { instance: &valid.instance, tempest, files, access };
                let schedule = schedule.child(workload.cron_job(runs.is_exclusive()));
                let schedule = schedule.children(runs.requested().map(|request| workload.requested(request)));
                (secrets, config.child(files.child()), schedule)
            }
        };
        let plan = Plan::new().step(dependencies).step(secrets).step(config).step(schedule);
        runs.report(plan, inputs)
    }

    fn summary(&self, state: Summary<'_>) -> Vec<ConditionState> {
        let mut said = state.standard();
        if let Outcome::Applied(_, plan) = state.outcome {
            said.push(tests_passed(&plan.status.clone().into(), state.namespace));
        }
        said
    }
}

fn instance(tempest: &Tempest) -> Instance {
    Instance::new("tempest", &tempest.metadata)
}

/// The Keystone of the spec, and the credential.
fn identity(instance: &Instance, tempest: &Tempest) -> Identity {
    let mut auth: KeystoneAuth = tempest.spec.keystone.clone().unwrap_or_default();
    if auth.app_credential_ref.as_ref().is_none_or(|credential| credential.secret().is_none()) {
        let secret_name = ObjectName::new(CREDENTIAL).ok();
        auth.app_credential_ref = Some(AppCredentialRef { secret_name, name: None });
    }
    Identity::new(instance, Some(&auth))
}

/// Says where the conventional credential comes from.
fn explained(wait: Wait) -> Wait {
    if wait.object.name != CREDENTIAL {
        return wait;
    }
    wait.because("each run makes an administrator of its own with it").look_at(
        "set spec.tempest.enabled of the ControlPlane to true, which makes it; or create it with the keys \
         application_credential_id and application_credential_secret of a user that has the role admin",
    )
}

/// Whether the tests of the last run passed, and which did not.
fn tests_passed(status: &Value, namespace: Option<&str>) -> ConditionState {
    let text = |field: &str| status[field].as_str().unwrap_or_default();
    let count = |field: &str| status["results"][field].as_i64().unwrap_or_default();
    let logs = || {
        let namespace = namespace.map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
        format!("kubectl logs job/{}{namespace}", text("lastJob"))
    };
    match text("lastOutcome") {
        "Passed" => {
            let message = format!("{} tests passed, {} were skipped", count("passedTests"), count("skippedTests"));
            ConditionState::met(TESTS_PASSED, "Passed", message)
        }
        "Failed" => {
            let names = results::named(status["failures"].as_array(), count("failedTests"));
            let (failed, total) = (count("failedTests"), count("totalTests"));
            let message = format!("{failed} of {total} tests failed: {names}; {}", logs());
            ConditionState::unmet(TESTS_PASSED, "Failed", message)
        }
        outcome @ ("TimedOut" | "Error") => {
            ConditionState::unmet(TESTS_PASSED, outcome, format!("{}; {}", text("message"), logs()))
        }
        _ => ConditionState {
            status: ConditionStatus::Unknown,
            ..ConditionState::unmet(TESTS_PASSED, "NoRun", "no run has ended yet")
        },
    }
}
