//! What Cinder has beside its pods: volume types, what nodes must have for drivers, and how backends are.

use std::collections::BTreeMap;

use c5c3_api::blocks::Condition;
use c5c3_api::openstack::{CinderBackend, CinderBackendStatus, RBD_DRIVER};
use c5c3_kit::config::ConfigFiles;
use c5c3_kit::{Child, Ref, Step, StepName, Wait, condition};
use c5c3_service::job::{Command, Run, fail_at_once};
use c5c3_service::migrations::once;
use c5c3_service::pod::Mount;
use c5c3_service::{OwnSteps, ServicePlan};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::config::FOLDER;
use crate::{BlockStorage, volume};

/// The step that looks at the nodes.
pub(crate) const KERNEL: &str = "kernel";

/// The description of our volume types, by which we know them. It must never change.
const DESCRIPTION: &str = "Volumes of the backend of this name, made by cinder-operator";

/// How `kernel.py` ends when a driver cannot run: another attempt would end in the same way.
const REFUSED: i32 = 77;

/// After how many seconds the report has what a Job did: it is asked for once a minute.
const REPORTED_SECONDS: i64 = 180;

/// What drivers need of a node: a part of their class, the kernel's module, and the program that uses it.
const NEEDS: &[(&str, &str, &str)] =
    &[("lvm", "dm_mod", "lvs"), ("nfs", "nfs", "mount.nfs"), ("iscsi", "iscsi_tcp", "iscsiadm")];

/// What `report.py` prints.
#[derive(Deserialize)]
struct Report {
    up: BTreeMap<String, bool>,
    free: BTreeMap<String, i64>,
    types: BTreeMap<String, Option<String>>,
}

/// The module and the program that a driver needs of a node, if it needs any.
pub(crate) fn kernel(backend: &CinderBackend) -> Option<(&'static str, &'static str)> {
    let class = backend.driver().to_lowercase();
    NEEDS.iter().find(|(part, ..)| class.contains(part)).map(|(_, module, program)| (*module, *program))
}

pub(crate) fn steps(plan: &ServicePlan<'_, BlockStorage>) -> OwnSteps {
    let report = plan.report().and_then(|said| serde_json::from_str::<Report>(said.as_ref().ok()?).ok());
    let unknown = plan.report().and_then(|said| said.as_ref().err());
    let status = statuses(plan, report.as_ref(), unknown);
    OwnSteps {
        before: nodes(plan).into_iter().collect(),
        after: vec![types(plan, report.as_ref()), reported(plan, report.as_ref())],
        removed: removed(plan),
        status: vec![("backends", json!(status))],
        ..OwnSteps::default()
    }
}

/// The steps of workers that are gone from the spec. Their pods go at once: their rows are removed when they have ended.
fn removed(plan: &ServicePlan<'_, BlockStorage>) -> Vec<StepName> {
    let is_wanted = |name: &str| plan.parts.description.components.iter().any(|component| component.name == name);
    let live = plan.inputs.own::<StatefulSet>().filter_map(|set| set.metadata.name.as_deref());
    let names = live.filter_map(|name| name.strip_prefix(&plan.parts.instance.named("")));
    names.filter(|name| !is_wanted(name)).map(|name| StepName::from(name.to_owned())).collect()
}

/// Asks a node whether drivers can run there, before their pods are made; no step without such drivers.
fn nodes(plan: &ServicePlan<'_, BlockStorage>) -> Option<Step> {
    let spec = &plan.parts.object.spec;
    let settings: Vec<Value> = spec
        .backends
        .iter()
        .filter_map(|backend| {
            let (module, program) = kernel(backend)?;
            Some(json!({"name": backend.name, "driver": backend.driver(), "module": module, "program": program}))
        })
        .collect();
    if settings.is_empty() {
        return None;
    }
    let instance = &plan.parts.instance;
    let files = ConfigFiles::new(&instance.namespace, instance.named(KERNEL))
        .file("kernel.py", include_str!("kernel.py").into())
        .file("kernel.json", json!(settings).to_string().into());
    let command = [Command::new(&["/opt/cinder/bin/python", "/etc/cinder/kernel.py", "/etc/cinder/kernel.json"])];
    let run = Run {
        identity: json!({ "drivers": settings }),
        scheduling: spec.volume.as_ref().and_then(|volume| volume.scheduling.as_ref()),
        ..plan.run(KERNEL, &command, vec![Mount::secret("config", &files.name(), FOLDER)])
    };
    let step = Step::new("VolumeReady").node(KERNEL, []).done("nodes have what drivers need");
    let step = step.reasons("DriversCanRun", "DriversNotChecked");
    Some(step.child(files.child()).child(fail_at_once(run.child(), KERNEL, REFUSED)))
}

/// Volume types of the backends' names. A type that was deleted by hand is made again: the Job goes, and comes back.
fn types(plan: &ServicePlan<'_, BlockStorage>, report: Option<&Report>) -> Step {
    let step = Step::new("VolumeReady").node("backends", ["schema"]).reasons("TypesAvailable", "TypesInProgress");
    let Ok(resolved) = plan.resolved else { return step.undecided([]) };
    let (spec, instance) = (&plan.parts.object.spec, &plan.parts.instance);
    let names: Vec<&str> = spec.backends.iter().map(|backend| backend.name.as_str()).collect();
    let pods = |component: &str, replicas: i32, backend: &str| -> Vec<String> {
        (0..replicas).map(|index| format!("{}-{index}{backend}", instance.named(component))).collect()
    };
    let mut hosts = pods("scheduler", spec.scheduler_replicas(), "");
    hosts.extend(spec.backup.iter().flat_map(|backup| pods("backup", backup.replicas(), "")));
    for backend in &spec.backends {
        hosts.extend(pods(&volume(backend), spec.volume_replicas(), &format!("@{}", backend.name)));
    }
    let settings = json!({"backends": names, "hosts": hosts, "description": DESCRIPTION, "prefix": instance.named("")});
    let files = ConfigFiles::new(&instance.namespace, instance.named("backends"))
        .file("backends.py", include_str!("backends.py").into())
        .file("backends.json", settings.to_string().into())
        .file("cinder.conf", once(&resolved.conf, &["database"]));
    let command =
        ["/opt/cinder/bin/python", "/etc/cinder/backends.py", "/etc/cinder/backends.json", "/etc/cinder/cinder.conf"];
    let command = [Command::new(&command)];
    let databases = resolved.backing.databases.iter().flat_map(|opened| opened.server.mounts());
    let mut mounts = vec![Mount::secret("config", &files.name(), FOLDER)];
    mounts.extend(databases);
    let job = Run { identity: json!({ "backends": settings }), ..plan.run("backends", &command, mounts) }.child();
    let missing = names.iter().find(|name| report.is_some_and(|report| !report.types.contains_key(**name)));
    let step = step.child(files.child());
    match missing.filter(|_| is_done_for_long(plan, &job)) {
        Some(name) => {
            let wait = Wait::on(&job.reference()).condition("has made every volume type");
            step.wait(
                wait.now(format!("the volume type {name} is gone, and is made again")).with_reason("TypesInProgress"),
            )
        }
        None => step.child(job).done("every backend has a volume type"),
    }
}

/// Whether a Job ended so long ago that the report knows what it did.
fn is_done_for_long(plan: &ServicePlan<'_, BlockStorage>, job: &Child) -> bool {
    let live = plan.inputs.own_named::<Job>(&job.reference().name);
    let ended = live.and_then(|live| live.data["status"]["completionTime"].as_str()?.parse().ok());
    ended.is_some_and(|ended| plan.inputs.now.duration_since(ended).as_secs() > REPORTED_SECONDS)
}

/// Whether each backend is served, as Cinder sees it.
fn reported(plan: &ServicePlan<'_, BlockStorage>, report: Option<&Report>) -> Step {
    let step = Step::new("VolumeReady").node("reported", []).childless().done("");
    let Some(report) = report.filter(|_| plan.parts.object.spec.volume_replicas() > 0) else { return step };
    let (namespace, instance) = (&plan.parts.instance.namespace, &plan.parts.instance);
    let down = plan.parts.object.spec.backends.iter().filter(|backend| report.up.get(&backend.name) == Some(&false));
    let wait = |backend: &CinderBackend| {
        let set = Ref::namespaced::<StatefulSet>(namespace, instance.named(&volume(backend)));
        let look = format!("kubectl logs statefulset/{} -n {namespace}", set.name);
        let wait = Wait::on(&set).condition(format!("serves the backend {}", backend.name));
        wait.now("is down or disabled for Cinder's scheduler").because("volumes are made there").look_at(look)
    };
    down.fold(step, |step, backend| step.wait(wait(backend).with_reason("BackendDown")))
}

/// Whether the pool of a backend can be used; nothing for a backend without one.
fn connected(plan: &ServicePlan<'_, BlockStorage>, backend: &CinderBackend) -> Option<Condition> {
    if backend.driver() != RBD_DRIVER {
        return None;
    }
    let cinder = plan.parts.object;
    let state = plan.pool_state(&backend.name);
    let statuses = cinder.status.as_ref().map(|status| status.backends.as_slice()).unwrap_or_default();
    let own = statuses.iter().find(|status| status.name == backend.name);
    let before = own.and_then(|status| condition::find(&status.conditions, &state.condition));
    Some(state.to_condition(before, cinder.metadata.generation, plan.inputs.now))
}

/// `status.backends`: those of the spec, and those that are gone and whose volumes are not.
fn statuses(
    plan: &ServicePlan<'_, BlockStorage>,
    report: Option<&Report>,
    unknown: Option<&String>,
) -> Vec<CinderBackendStatus> {
    let spec = &plan.parts.object.spec;
    let is_wanted = |name: &str| spec.backends.iter().any(|backend| backend.name == name);
    let state = |name: &str| match (report, unknown) {
        (Some(report), _) => Some(match report.up.get(name) {
            Some(true) => "Ready".to_owned(),
            Some(false) => {
                "Down: Cinder has not heard of its volume service for a minute, or it is disabled".to_owned()
            }
            None => "Starting: Cinder does not know its volume service yet".to_owned(),
        }),
        (None, Some(why)) => Some(format!("Unknown: {why}").chars().take(300).collect()),
        (None, None) => None,
    };
    let of_spec = spec.backends.iter().map(|backend| CinderBackendStatus {
        name: backend.name.clone(),
        status: state(&backend.name),
        available_capacity_gb: report.and_then(|report| report.free.get(&backend.name).copied()),
        conditions: connected(plan, backend).into_iter().collect(),
    });
    let left = report
        .into_iter()
        .flat_map(|report| &report.types)
        .filter(|(name, description)| description.as_deref() == Some(DESCRIPTION) && !is_wanted(name));
    let left = left.map(|(name, _)| CinderBackendStatus {
        name: name.clone(),
        status: Some("Removed: its volume type stays, because volumes use it".into()),
        available_capacity_gb: None,
        conditions: Vec::new(),
    });
    of_spec.chain(left).take(32).collect()
}
