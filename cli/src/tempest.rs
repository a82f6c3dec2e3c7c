//! `c5c3 test`: runs Tempest's tests against a cloud now, follows them, and says what came of them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use c5c3_api::openstack::{RUN_NOW, Tempest};
use clap::{Args as ClapArgs, ValueEnum};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::args::ClusterArgs;
use crate::cluster::block_on;
use crate::status::pods::{Halted, halt};
use crate::status::{Asked, Object, World};
use crate::{Done, print, target};

pub(crate) const HELP: &str = "Makes a Tempest object, test-SET, that never runs on a schedule, and asks for a run of it by \
    the annotation tempest.openstack.c5c3.io/run-now; the second time it asks again. The operator runs the tests in a pod, \
    within the cluster. They make users, images, volumes, networks and servers of their own, and remove them.\n\n\
    The set smoke has the tests of every service of the cloud that Tempest calls smoke tests; the others have all tests of one \
    service. Image, registry and credential are those of the object `tempest`, if there is one: a ControlPlane with \
    spec.tempest.enabled makes both the object and the credential.\n\n\
    Examples:\n  c5c3 test --wait\n  c5c3 test --set identity --wait -n openstack\n  \
    kubectl get tempests -A                    # every run's numbers\n  \
    kubectl logs -n openstack job/JOB          # what failed, with its traceback";

pub(crate) const CODES: &str = "Exit code 0: asked for, and with --wait all tests passed. 1: tests failed, or did not end in \
    time. 2: could not run them.";

const MANAGER: &str = "c5c3-test";

/// How often a run is looked at.
const INTERVAL: Duration = Duration::from_secs(2);

/// How often it is said how many tests have ended.
const COUNTED_EVERY: Duration = Duration::from_secs(10);

/// Smoke tests are tagged at the end of their names.
const SMOKE: &str = r"\[[^\]]*\bsmoke\b[^\]]*\]$";

/// The kinds of services, and what Tempest calls their tests.
const SERVICES: &[(&str, &str)] =
    &[("Keystone", "identity"), ("Glance", "image"), ("Cinder", "volume"), ("Neutron", "network"), ("Nova", "compute")];

/// What the object `tempest` of a cloud decides for runs of ours too.
const SHARED: &[&str] = &["image", "imagePullSecrets", "keystone", "resources", "scheduling", "extraConfig"];

/// Which tests
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Set {
    /// A few of each service that the cloud has
    #[default]
    Smoke,
    /// All of Keystone
    Identity,
    /// All of Glance
    Image,
    /// All of Cinder
    Volume,
    /// All of Neutron
    Network,
    /// All of Nova
    Compute,
}

impl Set {
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TestArgs {
    /// Which tests
    #[arg(long, value_enum, default_value_t)]
    pub(crate) set: Set,
    /// Stay until the run has ended, and show its numbers
    #[arg(short, long)]
    pub(crate) wait: bool,
    /// How many seconds to stay
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, requires = "wait")]
    pub(crate) timeout: u64,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

pub(crate) fn run(args: &TestArgs) -> Done {
    block_on(async {
        let asked = Asked::new(&args.cluster).await?;
        let world = asked.look().await?;
        let request = Timestamp::now().to_string();
        let object = object(&world, args.set, &request)?;
        let (name, namespace) = place(&object);
        let tempests: Api<Tempest> = Api::namespaced(asked.client.clone(), &namespace);
        let applied = tempests.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&object)).await;
        applied.map_err(|error| {
            format!(
                "cannot apply tempest/{name} in {namespace}: {}; ask for the ClusterRole edit",
                target::root(&error)
            )
        })?;
        print(&format!("tempest/{name}: asked for a run of the set {} in {namespace}\n", args.set.name()))?;
        if !args.wait {
            return print(&format!("Follow it: c5c3 why tempest/{name} -n {namespace}\n"));
        }
        let run = Followed { client: asked.client.clone(), tempests, name, namespace, request, set: args.set };
        run.follow(Duration::from_secs(args.timeout)).await
    })?
}

fn place(object: &Value) -> (String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("name"), text("namespace"))
}

/// The object that asks for the run.
fn object(world: &World, set: Set, request: &str) -> Result<Value, String> {
    let keystones: Vec<&Object> = world.of_kind("Keystone").collect();
    let places: BTreeSet<&str> = keystones.iter().filter_map(|keystone| keystone.namespace()).collect();
    let namespace = match places.iter().collect::<Vec<_>>().as_slice() {
        [] => return Err("there is no Keystone to test; c5c3 status shows what there is".into()),
        [one] => **one,
        several => {
            let names: Vec<&str> = several.iter().map(|place| **place).collect();
            return Err(format!("there are clouds in several namespaces; name one with -n: {}", names.join(", ")));
        }
    };
    let here: Vec<(&str, &str, &Object)> = SERVICES
        .iter()
        .flat_map(|(kind, service)| world.of_kind(kind).map(move |object| (*kind, *service, object)))
        .filter(|(.., object)| object.namespace() == Some(namespace))
        .collect();
    let wanted = |service: &str| set == Set::Smoke || service == set.name();
    let services: BTreeSet<&str> = here.iter().map(|(_, service, _)| *service).filter(|one| wanted(one)).collect();
    if services.is_empty() {
        let kind = SERVICES.iter().find(|(_, service)| *service == set.name()).map_or("service", |(kind, _)| *kind);
        return Err(format!(
            "there is no {kind} in the namespace {namespace} to test; enable spec.services.{} of the ControlPlane",
            kind.to_lowercase()
        ));
    }
    // What is tested has to be ready, and Keystone, which everything signs in at.
    let depends_on: Vec<Value> = here
        .iter()
        .filter(|(_, service, _)| wanted(service) || *service == "identity")
        .map(|(kind, _, object)| json!({"kind": kind, "name": object.reference.name, "condition": "Ready"}))
        .collect();
    let mut tests = json!({"services": services});
    if set == Set::Smoke {
        tests["includeRegex"] = SMOKE.into();
    }
    let mut spec = json!({"suspend": true, "tests": tests, "dependsOn": depends_on});
    let model =
        world.of_kind("Tempest").find(|one| one.reference.name == "tempest" && one.namespace() == Some(namespace));
    for field in SHARED {
        if let Some(value) = model.map(|model| &model.value["spec"][*field]).filter(|value| !value.is_null()) {
            spec[*field] = value.clone();
        }
    }
    Ok(json!({
        "apiVersion": "tempest.openstack.c5c3.io/v1alpha1",
        "kind": "Tempest",
        "metadata": {"name": format!("test-{}", set.name()), "namespace": namespace, "annotations": {RUN_NOW: request}},
        "spec": spec,
    }))
}

/// A run that is waited for.
struct Followed {
    client: Client,
    tempests: Api<Tempest>,
    name: String,
    namespace: String,
    request: String,
    set: Set,
}

impl Followed {
    /// Prints what changes until the run has ended, or the time is up.
    async fn follow(&self, patience: Duration) -> Done {
        let begun = Instant::now();
        let (mut said, mut counted, mut counted_at) = (String::new(), String::new(), Instant::now());
        loop {
            let read = self.tempests.get(&self.name).await;
            let object =
                read.map_err(|error| format!("cannot read tempest/{}: {}", self.name, target::root(&error)))?;
            let object = serde_json::to_value(object).unwrap_or(Value::Null);
            if object["status"]["handledRequest"] == self.request.as_str() {
                print(&summary(&object["status"], self.set, &self.namespace))?;
                return Ok(ExitCode::from(code(&object["status"])));
            }
            let now = progress(&object);
            if now != said {
                print(&format!("tempest/{}: {now}\n", self.name))?;
                said = now;
            }
            if counted_at.elapsed() >= COUNTED_EVERY {
                counted_at = Instant::now();
                let count = self.count(object["status"]["activeJob"].as_str()).await.unwrap_or_default();
                if !count.is_empty() && count != counted {
                    print(&format!("tempest/{}: {count}\n", self.name))?;
                    counted = count;
                }
            }
            if begun.elapsed() >= patience {
                let (name, namespace) = (&self.name, &self.namespace);
                print(&format!(
                    "tempest/{name}: not ended after {} s, and it goes on: c5c3 why tempest/{name} -n {namespace}\n",
                    patience.as_secs()
                ))?;
                return Ok(ExitCode::FAILURE);
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// How many tests have ended, by the last lines of the run's log, or why its pod does not run. That nothing is known is no failure.
    async fn count(&self, job: Option<&str>) -> Option<String> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let params = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={}", job?));
        let pod = pods.list(&params).await.ok()?.items.into_iter().next()?;
        if let Some(why) = held_up(&serde_json::to_value(&pod).ok()?) {
            return Some(why);
        }
        let params = LogParams { tail_lines: Some(40), ..LogParams::default() };
        counted(&pods.logs(&pod.name_any(), &params).await.ok()?)
    }
}

/// Why the pod of a run does not run; none if it does, or is about to.
fn held_up(pod: &Value) -> Option<String> {
    let mut statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    let Halted { reason, message, .. } = statuses.find_map(halt)?;
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    Some(format!("pod/{name} does not run: {reason}: {message}; c5c3 why pod/{name} -n {namespace}"))
}

/// The last count in a log, in words.
fn counted(log: &str) -> Option<String> {
    log.lines().rev().find_map(|line| {
        let (count, _) = line.strip_prefix('[')?.split_once(']')?;
        let (ended, total) = count.split_once('/')?;
        (ended.parse::<u32>().is_ok() && total.parse::<u32>().is_ok()).then(|| format!("{ended} of {total} tests"))
    })
}

/// The line that shows progress until the run has ended.
fn progress(object: &Value) -> String {
    let status = &object["status"];
    if let Some(job) = status["activeJob"].as_str() {
        return format!("job/{job} runs the tests");
    }
    let conditions = status["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    let is_current = ready.is_some_and(|ready| ready["observedGeneration"] == object["metadata"]["generation"]);
    match ready.filter(|_| is_current) {
        Some(ready) if ready["status"] != "True" => {
            format!("waiting: {}", ready["message"].as_str().unwrap_or_default())
        }
        Some(_) => "the run is about to start".to_owned(),
        None => "waiting for the operator".to_owned(),
    }
}

/// The numbers of a run as a table, and the tests that failed.
fn summary(status: &Value, set: Set, namespace: &str) -> String {
    let text = |field: &str| status[field].as_str().unwrap_or("-").to_owned();
    let count = |field: &str| status["results"][field].as_i64().unwrap_or_default().to_string();
    let rows = [
        ["SET", "PASSED", "FAILED", "SKIPPED", "TOTAL", "TOOK"].map(ToOwned::to_owned),
        [
            set.name(),
            count("passedTests"),
            count("failedTests"),
            count("skippedTests"),
            count("totalTests"),
            text("lastDuration"),
        ],
    ];
    let mut out = String::new();
    for row in &rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
            format!("{cell:<width$}")
        });
        let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    if let Some(message) = status["message"].as_str() {
        let _ = writeln!(out, "\n{}: {message}", text("lastOutcome"));
    }
    let failures: Vec<&str> = status["failures"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !failures.is_empty() {
        let _ = writeln!(out, "\nFailed:");
    }
    for name in &failures {
        let _ = writeln!(out, "  {name}");
    }
    let failed = status["results"]["failedTests"].as_u64().unwrap_or_default();
    let untold = failed.saturating_sub(failures.len() as u64);
    if untold > 0 {
        let _ = writeln!(out, "  and {untold} more");
    }
    if text("lastOutcome") != "Passed" {
        let _ = writeln!(out, "\nWhy: kubectl logs -n {namespace} job/{}", text("lastJob"));
    }
    out
}

fn code(status: &Value) -> u8 {
    match status["lastOutcome"].as_str() {
        Some("Passed") => 0,
        Some("Failed" | "TimedOut") => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(outcome: &str, failed: i32, failures: &[&str], message: Option<&str>) -> Value {
        json!({"lastOutcome": outcome, "lastJob": "test-smoke-run-1", "lastDuration": "5m12s", "failures": failures,
            "message": message, "results": {"passedTests": 120, "failedTests": failed, "skippedTests": 10, "totalTests": 132}})
    }

    #[test]
    fn a_run_is_a_table_and_the_names_of_what_failed() {
        insta::assert_snapshot!(summary(&status("Failed", 3, &["tempest.a", "tempest.b"], None), Set::Smoke, "cloud"), @r"
        SET    PASSED  FAILED  SKIPPED  TOTAL  TOOK
        smoke  120     3       10       132    5m12s

        Failed:
          tempest.a
          tempest.b
          and 1 more

        Why: kubectl logs -n cloud job/test-smoke-run-1
        ");
        let broken = summary(&status("Error", 0, &[], Some("spec.tests.includeRegex fits none")), Set::Image, "cloud");
        assert!(broken.contains("Error: spec.tests.includeRegex fits none"), "{broken}");
    }

    #[test]
    fn the_exit_code_tells_failed_tests_from_a_run_that_could_not_be() {
        let code = |outcome: &str| super::code(&status(outcome, 0, &[], None));
        assert_eq!(["Passed", "Failed", "TimedOut", "Error", ""].map(code), [0, 1, 1, 2, 2]);
    }

    #[test]
    fn a_pod_that_does_not_run_is_told_with_its_reason() {
        let pod = |state: Value| {
            json!({"metadata": {"name": "run-1", "namespace": "cloud"},
            "status": {"containerStatuses": [{"name": "tempest", "state": state}]}})
        };
        assert_eq!(held_up(&pod(json!({"running": {}}))), None);
        assert_eq!(held_up(&pod(json!({"waiting": {"reason": "ContainerCreating"}}))), None);
        let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}});
        let said = "pod/run-1 does not run: ImagePullBackOff: no such image; c5c3 why pod/run-1 -n cloud";
        assert_eq!(held_up(&pod(waiting)).as_deref(), Some(said));
    }

    #[test]
    fn what_is_going_on_is_told_from_the_status() {
        let with = |status: Value| json!({"metadata": {"generation": 2}, "status": status});
        let ready = |is: &str, generation: i64| {
            json!({"conditions": [{"type": "Ready", "status": is, "message": "nova/nova is not Ready",
                "observedGeneration": generation}]})
        };
        assert_eq!(progress(&with(Value::Null)), "waiting for the operator");
        assert_eq!(progress(&with(ready("False", 1))), "waiting for the operator", "that was about another spec");
        assert_eq!(progress(&with(ready("False", 2))), "waiting: nova/nova is not Ready");
        assert_eq!(progress(&with(ready("True", 2))), "the run is about to start");
        assert_eq!(progress(&with(json!({"activeJob": "j"}))), "job/j runs the tests");
        assert_eq!(counted("x\n[12/134] tempest.a ... ok\n[x] no\n").as_deref(), Some("12 of 134 tests"));
        assert_eq!(counted("preparing\n"), None);
    }

    fn world(objects: &[(&str, &str, &str, Value)]) -> World {
        let objects = objects.iter().map(|(kind, name, namespace, spec)| {
            json!({"apiVersion": format!("{}.openstack.c5c3.io/v1alpha1", kind.to_lowercase()), "kind": kind,
                "metadata": {"name": name, "namespace": namespace}, "spec": spec})
        });
        crate::status::tests::world(objects.collect())
    }

    #[test]
    fn an_object_tests_what_the_cloud_has_as_its_own_tempest_would() {
        let own = json!({"image": {"tag": "46.2.0"}, "schedule": "0 3 * * *", "keystone": {"region": "North"}});
        let world = world(&[
            ("Keystone", "keystone", "cloud", json!({})),
            ("Glance", "images", "cloud", json!({})),
            ("Nova", "nova", "elsewhere", json!({})),
            ("Tempest", "tempest", "cloud", own),
        ]);
        let made = object(&world, Set::Smoke, "now").unwrap();
        assert_eq!(
            made["metadata"],
            json!({"name": "test-smoke", "namespace": "cloud", "annotations": {RUN_NOW: "now"}})
        );
        assert_eq!(made["spec"]["tests"], json!({"services": ["identity", "image"], "includeRegex": SMOKE}));
        assert_eq!(made["spec"]["dependsOn"][1], json!({"kind": "Glance", "name": "images", "condition": "Ready"}));
        assert_eq!((&made["spec"]["image"]["tag"], &made["spec"]["suspend"]), (&json!("46.2.0"), &json!(true)));
        assert!(made["spec"].get("schedule").is_none());
        let kind = c5c3_api::find("tempest.openstack.c5c3.io/v1alpha1", "Tempest").unwrap();
        let image = object(&world, Set::Image, "now").unwrap();
        assert_eq!(
            (&image["spec"]["tests"], image["spec"]["dependsOn"].as_array().unwrap().len()),
            (&json!({"services": ["image"]}), 2)
        );
        let mut complete = image;
        complete["spec"]["image"]["repository"] = "ghcr.io/c5c3/tempest".into();
        assert_eq!(kind.check(&complete, None).to_string(), "");
        assert!(object(&world, Set::Compute, "now").unwrap_err().contains("enable spec.services.nova"));
    }

    #[test]
    fn a_cloud_that_is_not_there_or_not_alone_is_told() {
        assert!(object(&world(&[]), Set::Smoke, "now").unwrap_err().contains("no Keystone"));
        let two = world(&[("Keystone", "keystone", "a", json!({})), ("Keystone", "keystone", "b", json!({}))]);
        assert!(object(&two, Set::Smoke, "now").unwrap_err().contains("name one with -n: a, b"));
    }
}
