//! Cinder: volumes, and the backends that hold them.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod backends;
mod config;
mod paste;

use c5c3_api::openstack::{Cinder, CinderBackend, RBD_DRIVER};
use c5c3_api::{Problem, problem};
use c5c3_kit::Operator;
use c5c3_kit::ini::{Ini, IniError};
use c5c3_service::cache::{self, Servers};
use c5c3_service::component::Kind;
use c5c3_service::coordination::Coordinator;
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

/// The field manager, and the value of the ownership label. It must never change.
pub const NAME: &str = "cinder-operator";

const CONF: &str = "--config-file=/etc/cinder/cinder.conf";

/// The pool of backups, as files of Ceph clients are named. No backend has a dot in its name.
const BACKUP_POOL: &str = "cinder.backup";

/// The longest name of a StatefulSet: its pods have a label with that name and 11 characters.
const LONGEST_SET: usize = 52;

/// Drivers by which several volume pods can serve one backend, as Cinder marks them (`SUPPORTS_ACTIVE_ACTIVE`).
const ACTIVE_ACTIVE: &[&str] =
    &[RBD_DRIVER, "lightos.", "powermax.", "powerstore.", "powerflex.", "pure.", "solidfire."];

/// Cinder, as the layer operates it.
#[derive(Clone, Copy, Debug)]
pub struct BlockStorage;

/// The controller of Cinder objects.
pub type Cinders = ServiceController<BlockStorage>;

/// The operator. Everything that a Cinder has is in its own namespace, so that there is nothing to allow.
pub fn operator(_cross_namespace: bool) -> Operator {
    Operator::new(NAME).controller(Cinders::default)
}

impl Service for BlockStorage {
    type Kind = Cinder;
    const NAME: &'static str = "cinder";
    const MANAGER: &'static str = NAME;
    const CONDITIONS: &'static [&'static str] = &[
        "DependenciesReady",
        "SecretsReady",
        "DatabaseReady",
        "MessagingReady",
        "ConfigReady",
        "SchedulerReady",
        "VolumeReady",
        "DeploymentReady",
        "KeystoneAuthReady",
        "APIReady",
        "CephConnected",
    ];
    const FINALIZER: &'static str = "c5c3.io/cinder-cleanup";
    const CONF: &'static str = "cinder.conf";
    const FOLDER: &'static str = config::FOLDER;
    const VERSION: &'static str = "/v3";
    const REPORT: Option<&'static str> = Some(include_str!("report.py"));

    fn describe(cinder: &Cinder, instance: &Instance) -> Description {
        let spec = &cinder.spec;
        let manage = |what: &str| Command::new(&["/opt/cinder/bin/cinder-manage", CONF, "db", what]);
        let check = Command::new(&["/opt/cinder/bin/cinder-status", CONF, "upgrade", "check"]);
        let pool = |backend: &CinderBackend| {
            let pool = Pool::new(instance, &backend.name, backend.rbd.as_ref(), "volumes");
            pool.purpose(format!("the backend {}", backend.name))
        };
        let backups = spec
            .backup
            .as_ref()
            .map(|backup| Pool::new(instance, BACKUP_POOL, Some(&backup.rbd()), "backups").purpose("backups"));
        let rbd = spec.backends.iter().filter(|backend| backend.driver() == RBD_DRIVER);
        let pools = rbd.map(pool).chain(backups).collect();
        Description {
            databases: vec![Server::new(instance, spec.database.as_ref())],
            messaging: vec![Bus::new(instance, spec.messaging.as_ref())],
            identity: Some(Identity::new(instance, spec.keystone.as_ref())),
            cache: Some(Servers::new(instance, spec.cache.as_ref())),
            pools,
            coordination: spec
                .coordination
                .as_ref()
                .map(|given| Coordinator::new(instance, given.secret_ref.name.as_str())),
            // Images that volumes are made of, and the instances that volumes are attached to.
            calls: [9292, 8774].map(|port| Egress::new(Some(instance.namespace.clone()), port)).into(),
            components: components(cinder, instance),
            migrations: Migrations::sync(manage("sync"))
                .online(manage("online_data_migrations"))
                // Exit status 1 is a warning.
                .check(check.tolerating(1))
                .sections(&["database"]),
            catalog: Some(CatalogEntry { name: "cinder", service_type: "block-storage", path: "/v3" }),
            owned: config::OWNED,
            ..Description::default()
        }
    }

    fn configure(cinder: &Cinder, backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError> {
        config::configure(&cinder.spec, backing, conf)
    }

    fn files(cinder: &Cinder, _: &BackingServices) -> Vec<(&'static str, SecretString)> {
        vec![("api-paste.ini", paste::file(&cinder.spec.middleware)), ("launch.py", include_str!("launch.py").into())]
    }

    fn problems(cinder: &Cinder) -> Vec<Problem> {
        let spec = &cinder.spec;
        let mut problems: Vec<Problem> = Server::problems(spec.database.as_ref()).into_iter().collect();
        problems.extend(Bus::problems(spec.messaging.as_ref()));
        problems.extend(cache::no_backend(spec.cache.as_ref()));
        problems.extend(paste::PIPELINE.problems(&spec.middleware));
        let instance = Instance::new("cinder", &cinder.metadata);
        for (index, backend) in spec.backends.iter().enumerate() {
            let path = |field: &str| format!("spec.backends[{index}].{field}");
            let set = instance.named(&volume(backend));
            if set.len() > LONGEST_SET {
                let what = format!("makes the StatefulSet {set}, whose name has {} characters", set.len());
                problems.push(problem(path("name"), what, format!("shorten it to {LONGEST_SET} characters in all")));
            }
            if spec.volume_replicas() > 1 && !is_active_active(backend) {
                let what = format!("does not let {} pods serve one backend", spec.volume_replicas());
                problems.push(problem(path("driver"), what, "set spec.volume.replicas to 1, or use another driver"));
            }
        }
        problems
    }

    fn steps(service_plan: &ServicePlan<'_, Self>) -> OwnSteps {
        backends::steps(service_plan)
    }
}

/// The component that serves a backend.
fn volume(backend: &CinderBackend) -> String {
    format!("volume-{}", backend.name)
}

fn is_active_active(backend: &CinderBackend) -> bool {
    ACTIVE_ACTIVE.iter().any(|driver| backend.driver().contains(driver))
}

/// What runs, in the order of an upgrade. Workers are StatefulSets, so that a pod has the host name of the one before it: Cinder
/// knows volumes, and work that was interrupted, by it.
fn components(cinder: &Cinder, instance: &Instance) -> Vec<Component> {
    let spec = &cinder.spec;
    let named = || Kind::StatefulSet { claims: Vec::new() };
    let state = || Mount::scratch("state", config::STATE, "1Gi");
    let heavy = |name: String, program: &str| {
        let command = ["/opt/cinder/bin/python", "/etc/cinder/launch.py", program, CONF];
        Component::worker(name, &command)
            .kind(named())
            .condition("VolumeReady")
            .mount(state())
            .mount(Mount::scratch("conversion", config::CONVERSION, spec.scratch_size()))
            .mount(Mount::scratch("ceph", "/etc/ceph", "1Mi"))
    };
    let sized = |component: Component, size: Option<&c5c3_api::blocks::Workload>| {
        component.sized(size.and_then(|size| size.resources.as_ref()), size.and_then(|size| size.scheduling.as_ref()))
    };
    let scheduler = Component::worker("scheduler", &["/opt/cinder/bin/cinder-scheduler", CONF])
        .kind(named())
        .condition("SchedulerReady")
        .replicas(spec.scheduler_replicas())
        .mount(state());
    let mut components = vec![sized(scheduler, spec.scheduler.as_ref())];
    for backend in &spec.backends {
        let mut component = heavy(volume(backend), "volume")
            .replicas(spec.volume_replicas())
            // The others are served by other pods.
            .env("OS_DEFAULT__ENABLED_BACKENDS", &backend.name);
        if spec.coordination.is_some() && is_active_active(backend) {
            component = component.env("OS_DEFAULT__CLUSTER", &instance.name);
        }
        if backends::kernel(backend).is_some() {
            component = component.after(backends::KERNEL);
        }
        components.push(sized(component, spec.volume.as_ref()));
    }
    if let Some(backup) = &spec.backup {
        let component = heavy("backup".into(), "backup").replicas(backup.replicas());
        components.push(component.sized(backup.resources.as_ref(), backup.scheduling.as_ref()));
    }
    let api =
        Wsgi { path: "/healthcheck", arguments: &[CONF], ..Wsgi::new("cinder", "cinder.wsgi.api:application", 8776) };
    components.push(sized(Component::api(api).replicas(spec.api_replicas()).mount(state()), spec.api.as_ref()));
    // A service speaks to the others as the oldest release does that it finds when it starts. With the end of an upgrade the
    // variable goes, pods are replaced once more, and all speak as the new one.
    let target = cinder.status.as_ref().and_then(|status| status.service.target_release.clone());
    let told = |component: Component| target.iter().fold(component, |it, target| it.env("UPGRADING_TO", target));
    components.into_iter().map(told).collect()
}
