//! What Nova has beside its pods: the secret that metadata is asked for with, its cells, rows of pods that are gone, and how the
//! cells are.

use std::collections::BTreeMap;

use c5c3_api::openstack::{Nova, NovaCellStatus};
use c5c3_kit::config::ConfigFiles;
use c5c3_kit::{Child, Ref, Step, StepName, Wait, random_secret};
use c5c3_service::component::Kind;
use c5c3_service::job::{Command, Run, fail_at_once};
use c5c3_service::migrations::{GROUP, once};
use c5c3_service::pod::Mount;
use c5c3_service::service_plan::Resolved;
use c5c3_service::{Component, OwnSteps, ServicePlan};
use k8s_openapi::api::apps::v1::StatefulSet;
use serde::Deserialize;
use serde_json::json;

use crate::cells::{self, Cell, Places};
use crate::config::{self, FOLDER};
use crate::{Compute, compute, conductor, console, hypervisors};

/// The step that makes the cells; all pods start after it.
pub(crate) const CELLS: &str = "cells";

/// How `cells.py` ends when a cell is not empty: another attempt would end in the same way.
const NOT_EMPTY: i32 = 77;

/// The sections that programs need which work on databases.
const DATABASES: &[&str] = &["DEFAULT", "api_database", "database", "oslo_messaging_rabbit"];

/// The sections that `nova-status` and online migrations need.
pub(crate) const CHECKED: &[&str] = &[
    "DEFAULT",
    "api_database",
    "cinder",
    "database",
    "keystone_authtoken",
    "oslo_messaging_rabbit",
    "placement",
    "service_user",
];

/// What `report.py` prints.
#[derive(Debug, Deserialize)]
struct Report {
    cells: BTreeMap<String, Held>,
    /// Whether each service is up, by its binary and host.
    services: BTreeMap<String, bool>,
}

/// What a cell holds.
#[derive(Debug, Deserialize)]
struct Held {
    hosts: Vec<String>,
    servers: u64,
}

impl Held {
    fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.servers == 0
    }

    fn words(&self) -> String {
        let hosts = match self.hosts.as_slice() {
            [] => "no hosts".to_owned(),
            [one] => format!("the host {one}"),
            many => format!("the hosts {}", many.join(", ")),
        };
        let servers = if self.servers == 1 { "1 server".to_owned() } else { format!("{} servers", self.servers) };
        format!("{hosts} and {servers}")
    }
}

impl Report {
    /// Whether any pod of a component is up; none if Nova knows none of them.
    fn is_up(&self, binary: &str, set: &str) -> Option<bool> {
        let of_set = |key: &str| {
            let number = key.strip_prefix(binary)?.trim_start().strip_prefix(set)?.strip_prefix('-')?;
            number.parse::<u32>().ok()
        };
        let mut found = self.services.iter().filter(|(key, _)| of_set(key).is_some()).peekable();
        found.peek()?;
        Some(found.any(|(_, up)| *up))
    }
}

pub(crate) fn steps(plan: &ServicePlan<'_, Compute>) -> OwnSteps {
    let said = plan.report();
    let report = said.and_then(|said| serde_json::from_str::<Report>(said.as_ref().ok()?).ok());
    let unknown = said.and_then(|said| said.as_ref().err());
    let mut after = vec![hypervisors::step(plan), compute::step(plan), rows(plan)];
    after.extend(online(plan));
    after.extend([removal(plan, report.as_ref()), leaving(plan, report.as_ref()), reported(plan, report.as_ref())]);
    after.extend(console::route(plan));
    OwnSteps {
        before: vec![shared_secret(plan)],
        between: vec![make_cells(plan)],
        after,
        removed: removed(plan),
        status: vec![("cells", json!(statuses(plan, report.as_ref(), unknown)))],
        ..OwnSteps::default()
    }
}

/// The secret that Neutron's agents sign requests for metadata with, generated once.
fn shared_secret(plan: &ServicePlan<'_, Compute>) -> Step {
    let instance = &plan.parts.instance;
    let secret = config::metadata_secret(instance);
    Step::new("SecretsReady")
        .node("metadata-secret", [])
        .child(random_secret::child(&instance.namespace, &secret, &[], &[config::SHARED_SECRET]))
        .done("")
        .reasons("SecretsAvailable", "WaitingForSecret")
}

/// The steps of conductors whose cell is removed. Their pods go at once.
fn removed(plan: &ServicePlan<'_, Compute>) -> Vec<StepName> {
    let is_wanted = |name: &str| plan.parts.description.components.iter().any(|component| component.name == name);
    let live = plan.inputs.own::<StatefulSet>().filter_map(|set| set.metadata.name.as_deref());
    let names = live.filter_map(|name| name.strip_prefix(&plan.parts.instance.named("")));
    let conductors = names.filter(|name| name.starts_with("conductor"));
    conductors.filter(|name| !is_wanted(name)).map(|name| StepName::from(name.to_owned())).collect()
}

/// A Job with a program of ours, which gets settings and a configuration with these sections.
struct Program<'a> {
    what: &'static str,
    file: &'static str,
    text: &'static str,
    settings: serde_json::Value,
    /// What it must not run together with.
    group: Option<&'static str>,
    resolved: &'a Resolved,
}

impl Program<'_> {
    /// The files, and the Job. It runs again for other settings.
    fn children(self, plan: &ServicePlan<'_, Compute>) -> (Child, Child) {
        let Self { what, file, text, settings, group, resolved } = self;
        let instance = &plan.parts.instance;
        let mut files = ConfigFiles::new(&instance.namespace, instance.named(what))
            .file(file, text.into())
            .file("settings.json", settings.to_string().into())
            .file("nova.conf", once(&resolved.conf, DATABASES));
        let places = Places { nova: plan.parts.object, instance, backing: &resolved.backing };
        for (name, account) in places.accounts() {
            files = files.file(name, account);
        }
        let (script, given, conf) =
            (format!("{FOLDER}/{file}"), format!("{FOLDER}/settings.json"), format!("{FOLDER}/nova.conf"));
        let command = [Command::new(&["/opt/nova/bin/python", &script, &given, &conf])];
        let mut mounts = vec![Mount::secret("config", &files.name(), FOLDER)];
        mounts.extend(resolved.backing.mounts());
        let run = plan.run(what, &command, mounts);
        let job = Run { identity: json!({ "settings": settings }), group, ..run }.child();
        (files.child(), job)
    }
}

/// Maps the cells, and brings their schemas to the version of the image.
fn make_cells(plan: &ServicePlan<'_, Compute>) -> Step {
    let step = Step::new("CellsReady").node(CELLS, ["schema"]).done("every cell is mapped and has its schema");
    let step = step.reasons("CellsMapped", "MappingCells");
    let Ok(resolved) = plan.resolved else { return step.undecided([]) };
    let (files, job) = cells_program(plan, resolved, CELLS, &[]).children(plan);
    step.child(files).child(job)
}

fn cells_program<'a>(
    plan: &ServicePlan<'_, Compute>,
    resolved: &'a Resolved,
    what: &'static str,
    remove: &[&str],
) -> Program<'a> {
    let places = Places { nova: plan.parts.object, instance: &plan.parts.instance, backing: &resolved.backing };
    let settings = json!({"cells": places.mappings(), "remove": remove});
    Program { what, file: "cells.py", text: include_str!("cells.py"), settings, group: Some(GROUP), resolved }
}

/// Removes cells that have left the spec and are empty.
fn removal(plan: &ServicePlan<'_, Compute>, report: Option<&Report>) -> Step {
    let step = Step::new("CellsReady").node("cell-removal", [CELLS]).done("");
    let step = step.reasons("CellsMapped", "RemovingCells");
    let cells = cells::all(plan.parts.object);
    let is_empty = |cell: &&Cell| report.and_then(|report| report.cells.get(cell.name())).is_some_and(Held::is_empty);
    let empty: Vec<&str> = cells.iter().filter(|cell| cell.leaving).filter(is_empty).map(Cell::name).collect();
    let Ok(resolved) = plan.resolved else { return step.undecided([]) };
    if empty.is_empty() {
        return step.childless();
    }
    let (files, job) = cells_program(plan, resolved, "cell-removal", &empty).children(plan);
    step.child(files).child(fail_at_once(job, "cell-removal", NOT_EMPTY))
}

/// Says which cells have left the spec and are not empty.
fn leaving(plan: &ServicePlan<'_, Compute>, report: Option<&Report>) -> Step {
    let step = Step::new("CellsReady").node("cells-leaving", []).childless().done("");
    let own = Ref::namespaced::<Nova>(&plan.parts.instance.namespace, &plan.parts.instance.name);
    let wait = |cell: &Cell| {
        let held = report.and_then(|report| report.cells.get(cell.name())).filter(|held| !held.is_empty())?;
        let wait = Wait::on(&own).condition(format!("the cell {} is empty", cell.name()));
        let wait = wait.now(format!("{} has left spec.cells and still has {}", cell.name(), held.words()));
        let wait = wait.because("a cell is removed only without hosts and servers");
        Some(wait.look_at(format!("delete or move them, or put {} back", cell.name())).with_reason("CellNotEmpty"))
    };
    let cells = cells::all(plan.parts.object);
    cells.iter().filter(|cell| cell.leaving).filter_map(wait).fold(step, Step::wait)
}

/// Removes rows of schedulers and conductors that do not come back.
fn rows(plan: &ServicePlan<'_, Compute>) -> Step {
    // Others have no rows.
    let is_worker = |component: &&Component| matches!(component.kind, Kind::StatefulSet { .. });
    let workers: Vec<_> = plan.parts.description.components.iter().filter(is_worker).collect();
    let mut needs: Vec<StepName> = workers.iter().map(|component| component.step.clone()).collect();
    needs.push(CELLS.into());
    let step = Step::new("ConductorReady").node("rows", needs).done("").reasons("RowsRemoved", "RemovingRows");
    let Ok(resolved) = plan.resolved else { return step.undecided([]) };
    let instance = &plan.parts.instance;
    let hosts = |component: &&Component| -> Vec<String> {
        let set = instance.named(&component.name);
        (0..component.replicas).map(|index| format!("{set}-{index}")).collect()
    };
    let hosts: Vec<String> = workers.iter().flat_map(hosts).collect();
    let settings = json!({"hosts": hosts, "prefix": instance.named("")});
    let program = Program {
        what: "rows",
        file: "services.py",
        text: include_str!("services.py"),
        settings,
        group: None,
        resolved,
    };
    let (files, job) = program.children(plan);
    step.child(files).child(job)
}

/// What follows the pods of an installation: online migrations of every cell, and Nova's own check. During an upgrade the layer
/// runs the same commands when all pods are replaced.
fn online(plan: &ServicePlan<'_, Compute>) -> Option<Step> {
    if plan.progress.phase.is_some() {
        return None;
    }
    let needs: Vec<StepName> =
        plan.parts.description.components.iter().map(|component| component.step.clone()).collect();
    let step = Step::new("DatabaseReady").node("online", needs).done("the data matches the version");
    let step = step.reasons("DatabaseSynced", "DBSyncInProgress");
    let Ok(resolved) = plan.resolved else { return Some(step.undecided([])) };
    let instance = &plan.parts.instance;
    let places = Places { nova: plan.parts.object, instance, backing: &resolved.backing };
    let mut files = ConfigFiles::new(&instance.namespace, instance.named("online"))
        .file("nova.conf", once(&resolved.conf, CHECKED));
    for (name, text) in places.files() {
        files = files.file(name, text);
    }
    let commands = crate::online_commands(plan.parts.object);
    let mut mounts = vec![Mount::secret("config", &files.name(), FOLDER)];
    mounts.extend(resolved.backing.mounts());
    let run = Run {
        identity: json!({ "cells": places.mappings() }),
        group: Some(GROUP),
        ..plan.run("online", &commands, mounts)
    };
    Some(step.child(files.child()).child(run.child()))
}

/// Whether schedulers and the conductors of each cell are up, as Nova sees them.
fn reported(plan: &ServicePlan<'_, Compute>, report: Option<&Report>) -> Step {
    let step = Step::new("ConductorReady").node("reported", []).childless().done("");
    let (Some(report), spec) = (report, &plan.parts.object.spec) else { return step };
    let instance = &plan.parts.instance;
    let down = |binary: &str, component: &str, replicas: i32| {
        let set = Ref::namespaced::<StatefulSet>(&instance.namespace, instance.named(component));
        (replicas > 0 && report.is_up(binary, &set.name) == Some(false)).then_some(set)
    };
    let wait = |set: Ref, because: String| {
        let look = format!("kubectl logs statefulset/{} -n {}", set.name, instance.namespace);
        let wait = Wait::on(&set).condition("reports to Nova").now("is down: Nova has not heard of it for a minute");
        wait.because(because).look_at(look).with_reason("ServiceDown")
    };
    let cells = cells::all(plan.parts.object);
    let of_cell = |cell: &Cell| {
        let set = down("nova-conductor", &conductor(cell.name()), spec.conductor_replicas())?;
        Some(wait(set, format!("it writes to the database of {}", cell.name())))
    };
    let step = cells.iter().filter_map(of_cell).fold(step, Step::wait);
    let above = down("nova-conductor", "conductor", spec.conductor_replicas());
    above.into_iter().map(|set| wait(set, "it builds servers in all cells".into())).fold(step, Step::wait)
}

/// `status.cells`: those of the spec, and those that have left it as long as Nova has them.
fn statuses(plan: &ServicePlan<'_, Compute>, report: Option<&Report>, unknown: Option<&String>) -> Vec<NovaCellStatus> {
    let nova = plan.parts.object;
    let instance = &plan.parts.instance;
    let before = |name: &str| nova.status.as_ref()?.cells.iter().find(|cell| cell.name == name);
    let status = |cell: Cell| {
        let held = report.map(|report| report.cells.get(cell.name()));
        let is_down = || {
            let set = instance.named(&conductor(cell.name()));
            report.and_then(|report| report.is_up("nova-conductor", &set)) != Some(true)
        };
        let said = match held {
            // It is removed.
            Some(None) if cell.leaving => return None,
            Some(None) => Some("Creating: Nova does not know it yet".to_owned()),
            Some(Some(held)) if cell.leaving => Some(format!("Removing: it has {}", held.words())),
            Some(Some(_)) if is_down() => Some("Down: none of its conductors is up".to_owned()),
            Some(Some(_)) => Some("Ready".to_owned()),
            None => match unknown {
                Some(why) => Some(format!("Unknown: {why}")),
                None => before(cell.name()).and_then(|before| before.status.clone()),
            },
        };
        let known = before(cell.name()).and_then(|before| before.compute_nodes);
        let counted = |held: Option<&Held>| held.map(|held| i32::try_from(held.hosts.len()).unwrap_or(i32::MAX));
        Some(NovaCellStatus {
            name: cell.spec.name,
            status: said.map(|said| said.chars().take(300).collect()),
            compute_nodes: held.map_or(known, counted),
            database: cell.spec.database,
            messaging: cell.spec.messaging,
        })
    };
    cells::all(nova).into_iter().filter_map(status).take(33).collect()
}
