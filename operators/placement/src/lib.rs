//! Placement: what resources exist, and who holds them.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

use c5c3_api::Problem;
use c5c3_api::openstack::Placement;
use c5c3_kit::Operator;
use c5c3_kit::ini::{Ini, IniError};
use c5c3_service::cache::{self, Servers};
use c5c3_service::config::Owned;
use c5c3_service::database::Server;
use c5c3_service::identity::Identity;
use c5c3_service::job::Command;
use c5c3_service::migrations::Migrations;
use c5c3_service::wsgi::Wsgi;
use c5c3_service::{BackingServices, CatalogEntry, Component, Description, Instance, Service, ServiceController};

/// The field manager, and the value of the ownership label. It must never change.
pub const NAME: &str = "placement-operator";

const FOLDER: &str = "/etc/placement";
const CONF: &str = "--config-file=/etc/placement/placement.conf";

/// Options that follow from fields, or that nothing would work with.
const OWNED: &[Owned] = &[
    ("placement_database", "connection", "use spec.database"),
    ("placement_database", "connection_parameters", "use spec.database"),
    ("placement_database", "slave_connection", "use spec.database"),
    ("api", "auth_strategy", "it is always keystone"),
];

/// Placement, as the layer operates it.
#[derive(Clone, Copy, Debug)]
pub struct Inventory;

/// The controller of Placement objects.
pub type Placements = ServiceController<Inventory>;

/// The operator. Everything that a Placement has is in its own namespace, so that there is nothing to allow.
pub fn operator(_cross_namespace: bool) -> Operator {
    Operator::new(NAME).controller(Placements::default)
}

impl Service for Inventory {
    type Kind = Placement;
    const NAME: &'static str = "placement";
    const MANAGER: &'static str = NAME;
    const CONDITIONS: &'static [&'static str] = &[
        "DependenciesReady",
        "SecretsReady",
        "DatabaseReady",
        "ConfigReady",
        "DeploymentReady",
        "KeystoneAuthReady",
        "APIReady",
    ];
    const FINALIZER: &'static str = "c5c3.io/placement-cleanup";
    const CONF: &'static str = "placement.conf";
    const FOLDER: &'static str = FOLDER;

    fn describe(placement: &Placement, instance: &Instance) -> Description {
        let spec = &placement.spec;
        let manage = |what: &str| Command::new(&["/opt/placement/bin/placement-manage", CONF, "db", what]);
        let check = Command::new(&["/opt/placement/bin/placement-status", CONF, "upgrade", "check"]);
        Description {
            databases: vec![Server::new(instance, spec.database.as_ref())],
            identity: Some(Identity::new(instance, spec.keystone.as_ref())),
            cache: Some(Servers::new(instance, spec.cache.as_ref())),
            components: vec![
                Component::api(Wsgi::new("placement", "placement.wsgi.api:application", 8778))
                    .replicas(spec.replicas.get())
                    .sized(spec.resources.as_ref(), spec.scheduling.as_ref())
                    .env("OS_PLACEMENT_CONFIG_DIR", FOLDER),
            ],
            migrations: Migrations::sync(manage("sync"))
                .online(manage("online_data_migrations"))
                // Exit status 1 is a warning.
                .check(check.tolerating(1))
                .sections(&["placement_database"]),
            catalog: Some(CatalogEntry { name: "placement", service_type: "placement", path: "" }),
            owned: OWNED,
            ..Description::default()
        }
    }

    fn configure(_: &Placement, backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError> {
        backing.database_section(conf, "placement_database", backing.main_database().1)?;
        conf.set("api", "auth_strategy", "keystone")?;
        backing.authtoken(conf)
    }

    fn problems(placement: &Placement) -> Vec<Problem> {
        let database = Server::problems(placement.spec.database.as_ref());
        database.into_iter().chain(cache::no_backend(placement.spec.cache.as_ref())).collect()
    }
}
