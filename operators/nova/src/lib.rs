//! Nova: servers, the cells they live in, and the scheduler that finds them a host.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod cells;
mod compute;
mod config;
mod console;
mod external_scheduler;
mod hypervisors;
mod paste;
mod steps;

use c5c3_api::blocks::Workload;
use c5c3_api::openstack::Nova;
use c5c3_api::{Problem, problem};
use c5c3_kit::Operator;
use c5c3_kit::ini::{Ini, IniError};
use c5c3_service::cache::{self, Servers};
use c5c3_service::component::Kind;
use c5c3_service::database::Server;
use c5c3_service::identity::Identity;
use c5c3_service::job::Command;
use c5c3_service::messaging::Bus;
use c5c3_service::migrations::Migrations;
use c5c3_service::network::Egress;
use c5c3_service::pod::Mount;
use c5c3_service::rbd::Pool;
use c5c3_service::wsgi::Wsgi;
use c5c3_service::{
    BackingServices, CatalogEntry, Component, Description, Instance, OwnSteps, Service, ServiceController, ServicePlan,
};
use secrecy::SecretString;

use crate::cells::{MAIN_BUS, MAIN_SERVER, Places};
pub use crate::compute::libvirt;

/// The field manager, and the value of the ownership label. It must never change.
pub const NAME: &str = "nova-operator";

const CONF: &str = "--config-file=/etc/nova/nova.conf";

/// The longest name of a StatefulSet: its pods have a label with that name and 11 characters.
const LONGEST_SET: usize = 52;

/// Nova, as the layer operates it.
#[derive(Clone, Copy, Debug)]
pub struct Compute;

/// The controller of Nova objects.
pub type Novas = ServiceController<Compute>;

/// The operator. Everything that a Nova has is in its own namespace, so that there is nothing to allow.
pub fn operator(_cross_namespace: bool) -> Operator {
    Operator::new(NAME).controller(Novas::default)
}

impl Service for Compute {
    type Kind = Nova;
    const NAME: &'static str = "nova";
    const MANAGER: &'static str = NAME;
    const CONDITIONS: &'static [&'static str] = &[
        "DependenciesReady",
        "SecretsReady",
        "DatabaseReady",
        "MessagingReady",
        "ConfigReady",
        "CellsReady",
        "ConductorReady",
        "SchedulerReady",
        "DeploymentReady",
        "KeystoneAuthReady",
        "APIReady",
        "CephConnected",
        compute::CONDITION,
    ];
    const FINALIZER: &'static str = "c5c3.io/nova-cleanup";
    const CONF: &'static str = "nova.conf";
    const FOLDER: &'static str = config::FOLDER;
    const VERSION: &'static str = "/v2.1";
    const REPORT: Option<&'static str> = Some(include_str!("report.py"));

    fn describe(nova: &Nova, instance: &Instance) -> Description {
        let spec = &nova.spec;
        let rbd = spec.storage.as_ref().filter(|_| hypervisors::is_on_ceph(spec));
        let sync = Command::new(&["/opt/nova/bin/nova-manage", CONF, "api_db", "sync"]);
        let namespace = || Some(instance.namespace.clone());
        Description {
            databases: cells::servers(nova, instance),
            messaging: cells::buses(nova, instance),
            identity: Some(Identity::new(instance, spec.keystone.as_ref())),
            cache: Some(Servers::new(instance, spec.cache.as_ref())),
            pools: rbd
                .map(|storage| Pool::new(instance, hypervisors::POOL, storage.rbd.as_ref(), hypervisors::POOL))
                .into_iter()
                .chain(compute::pools(spec, instance))
                .collect(),
            // Placement, Neutron, Glance and Cinder.
            calls: [8778, 9696, 9292, 8776]
                .map(|port| Egress::new(namespace(), port))
                .into_iter()
                .chain(console::egress(spec))
                .chain(external_scheduler::egress(spec, instance))
                .collect(),
            secrets: config::secrets(spec, instance),
            components: components(nova, instance),
            migrations: Migrations { after: online_commands(nova), ..Migrations::sync(sync).sections(steps::CHECKED) },
            catalog: Some(CatalogEntry { name: "nova", service_type: "compute", path: "/v2.1" }),
            owned: config::OWNED,
            ..Description::default()
        }
    }

    fn configure(nova: &Nova, backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError> {
        config::configure(nova, backing, conf)
    }

    fn files(nova: &Nova, _: &BackingServices) -> Vec<(&'static str, SecretString)> {
        let console = nova.spec.console.as_ref().map(|_| ("console.py", include_str!("console.py").into()));
        [("api-paste.ini", paste::file(&nova.spec.middleware))].into_iter().chain(console).collect()
    }

    fn named_files(nova: &Nova, backing: &BackingServices) -> Vec<(String, SecretString)> {
        let instance = Instance::new("nova", &nova.metadata);
        Places { nova, instance: &instance, backing }.files()
    }

    fn problems(nova: &Nova) -> Vec<Problem> {
        let spec = &nova.spec;
        let mut problems: Vec<Problem> = Server::problems(Some(&spec.main_database())).into_iter().collect();
        problems.extend(Bus::problems(spec.messaging.as_ref()));
        problems.extend(cache::no_backend(spec.cache.as_ref()));
        problems.extend(paste::PIPELINE.problems(&spec.middleware));
        problems.extend(external_scheduler::problems(nova));
        problems.extend(compute::problems(spec));
        if let Some(api) = &spec.api_database {
            problems.extend(Server::problems(Some(api)).map(|wrong| moved(wrong, "spec.apiDatabase", "spec.database")));
        }
        for index in 0..spec.cells.len() {
            problems.extend(of_cell(nova, index));
        }
        problems
    }

    fn steps(service_plan: &ServicePlan<'_, Self>) -> OwnSteps {
        steps::steps(service_plan)
    }
}

/// A problem of the same kind at another field.
fn moved(wrong: Problem, to: &str, from: &str) -> Problem {
    Problem { path: wrong.path.replacen(from, to, 1), ..wrong }
}

/// What is wrong with a cell.
fn of_cell(nova: &Nova, index: usize) -> Vec<Problem> {
    let (spec, cell) = (&nova.spec, &nova.spec.cells[index]);
    let path = |field: &str| format!("spec.cells[{index}].{field}");
    let mut problems = Vec::new();
    let set = Instance::new("nova", &nova.metadata).named(&conductor(&cell.name));
    if set.len() > LONGEST_SET {
        let what = format!("makes the StatefulSet {set}, whose name has {} characters", set.len());
        problems.push(problem(path("name"), what, format!("shorten it to {LONGEST_SET} characters in all")));
    }
    problems
        .extend(Server::problems(cell.database.as_ref()).map(|wrong| moved(wrong, &path("database"), "spec.database")));
    let account = |messaging: Option<&c5c3_api::blocks::Messaging>| {
        let secret = messaging.and_then(|messaging| messaging.secret_ref.as_ref());
        secret.map_or_else(|| "nova-rabbitmq-credentials".to_owned(), |secret| secret.name.to_string())
    };
    let main = account(spec.messaging.as_ref());
    let own = cell.messaging.as_ref().filter(|own| own.secret_ref.is_some());
    if let Some(other) = own.map(|own| account(Some(own))).filter(|other| *other != main) {
        let what = format!("is {other}, and Nova would store its password in its own database");
        let fix = format!("remove it: the account of {main} is used on the cell's broker, too");
        problems.push(problem(path("messaging.secretRef.name"), what, fix));
    }
    problems
}

/// The component of a cell's conductors.
fn conductor(cell: &str) -> String {
    format!("conductor-{cell}")
}

/// Online migrations of each cell, and Nova's own check.
fn online_commands(nova: &Nova) -> Vec<Command> {
    let confs = cells::all(nova).into_iter().map(|cell| format!("--config-file={}/{}", config::FOLDER, cell.conf()));
    // Without the file of a cell it is cell0.
    let confs = [None].into_iter().chain(confs.map(Some));
    let online = |conf: Option<String>| {
        let mut args = vec!["/opt/nova/bin/nova-manage", CONF];
        args.extend(conf.as_deref());
        args.extend(["db", "online_data_migrations"]);
        Command::new(&args)
    };
    let check = Command::new(&["/opt/nova/bin/nova-status", CONF, "upgrade", "check"]);
    // Exit status 1 is a warning.
    confs.map(online).chain([check.tolerating(1)]).collect()
}

/// What runs, in the order of an upgrade. Workers are StatefulSets, so that a pod has the host name of the one before it: Nova has
/// a row for each host name, and rows of pods that are gone would pile up.
fn components(nova: &Nova, instance: &Instance) -> Vec<Component> {
    let spec = &nova.spec;
    let api_server = cells::server(spec, &spec.api_database(), instance);
    let state = || Mount::scratch("state", config::STATE, "1Gi");
    let sized = |component: Component, size: Option<&Workload>| {
        component.sized(size.and_then(|size| size.resources.as_ref()), size.and_then(|size| size.scheduling.as_ref()))
    };
    let common = |component: Component, server: &str, bus: &str| {
        let component = component.after(steps::CELLS).mount(state()).relies_on(server).relies_on(bus);
        if api_server == server { component } else { component.relies_on(api_server.clone()) }
    };
    let worker = |name: String, program: &str, conf: Option<String>| {
        let program = format!("/opt/nova/bin/{program}");
        let mut command = vec![program.as_str(), CONF];
        command.extend(conf.as_deref());
        Component::worker(name, &command).kind(Kind::StatefulSet { claims: Vec::new() })
    };
    let conductors = |component: Component| {
        let component = component.condition("ConductorReady").replicas(spec.conductor_replicas());
        sized(component, spec.conductor.as_ref())
    };
    let above = worker("conductor".into(), "nova-conductor", None);
    let mut components = vec![common(conductors(above), MAIN_SERVER, MAIN_BUS)];
    for cell in cells::all(nova) {
        let conf = format!("--config-file={}/{}", config::FOLDER, cell.conf());
        let server = cells::server(spec, &spec.cell_database(&cell.spec), instance);
        let component = conductors(worker(conductor(cell.name()), "nova-conductor", Some(conf)));
        components.push(common(component, &server, cell.name()));
    }
    let scheduler = worker("scheduler".into(), "nova-scheduler", None)
        .condition("SchedulerReady")
        .replicas(spec.scheduler_replicas());
    let size = spec.scheduler.as_ref().map(|scheduler| &scheduler.workload);
    let scheduler = external_scheduler::mounts(spec, instance).into_iter().fold(scheduler, Component::mount);
    components.push(common(sized(scheduler, size), MAIN_SERVER, MAIN_BUS));
    components.extend(console::component(spec).map(|proxy| common(proxy, MAIN_SERVER, MAIN_BUS)));
    components.extend(applications().map(|component| {
        let host = instance.named(&component.name);
        let component = sized(component.replicas(spec.api_replicas()), spec.api.as_ref());
        // Its pods have one row, whatever they are called.
        common(component.env("OS_DEFAULT__HOST", host), MAIN_SERVER, MAIN_BUS)
    }));
    components
}

/// The metadata that servers ask for, and the API. uWSGI has threads of its own, which eventlet does not know.
fn applications() -> [Component; 2] {
    let wsgi = |application, port| Wsgi::new("nova", application, port);
    let metadata = Component::application("metadata", wsgi("nova.wsgi.metadata:application", 8775));
    let api = Component::api(wsgi("nova.wsgi.osapi_compute:application", 8774));
    [metadata, api].map(|component| component.env("OS_NOVA_DISABLE_EVENTLET_PATCHING", "true"))
}
