//! Neutron: networks, and the OVN that makes them.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod config;
mod metadata;
mod ovn;
mod paste;

use c5c3_api::Problem;
use c5c3_api::openstack::{Neutron, NeutronSpec};
use c5c3_kit::ini::{Ini, IniError};
use c5c3_kit::{Inputs, Operator, Ref, Wait};
use c5c3_service::cache::{self, Servers};
use c5c3_service::database::Server;
use c5c3_service::identity::Identity;
use c5c3_service::job::Command;
use c5c3_service::messaging::Bus;
use c5c3_service::migrations::Migrations;
use c5c3_service::network::Egress;
use c5c3_service::pod::Mount;
use c5c3_service::service::{LookedUp, SecondFile};
use c5c3_service::wsgi::Wsgi;
use c5c3_service::{
    BackingServices, CatalogEntry, Component, Description, Instance, OwnSteps, Service, ServiceController, ServicePlan,
};
use secrecy::SecretString;
use serde_json::json;

/// The field manager, and the value of the ownership label. It must never change.
pub const NAME: &str = "neutron-operator";

const PYTHON: &str = "/opt/neutron/bin/python";
const LAUNCH: &str = "/etc/neutron/launch.py";
const CONF: &str = "--config-file=/etc/neutron/neutron.conf";
const ML2_CONF: &str = "--config-file=/etc/neutron/ml2_conf.ini";

/// Neutron, as the layer operates it.
#[derive(Clone, Copy, Debug)]
pub struct Networking;

/// The controller of Neutron objects.
pub type Neutrons = ServiceController<Networking>;

/// The operator. Of other namespaces it reads OVNClusters that objects name, and no Secret.
pub fn operator(_cross_namespace: bool) -> Operator {
    Operator::new(NAME).controller(Neutrons::default)
}

impl Service for Networking {
    type Kind = Neutron;
    const NAME: &'static str = "neutron";
    const MANAGER: &'static str = NAME;
    const CONDITIONS: &'static [&'static str] = &[
        "DependenciesReady",
        "SecretsReady",
        "DatabaseReady",
        "MessagingReady",
        "ConfigReady",
        "DeploymentReady",
        "KeystoneAuthReady",
        "APIReady",
        ovn::CONDITION,
        metadata::CONDITION,
    ];
    const FINALIZER: &'static str = "c5c3.io/neutron-cleanup";
    const CONF: &'static str = "neutron.conf";
    const FOLDER: &'static str = config::FOLDER;
    const REPORT: Option<&'static str> = Some(include_str!("report.py"));
    const SECOND_CONF: Option<SecondFile> = Some(("ml2_conf.ini", config::is_of_ml2));

    fn describe(neutron: &Neutron, instance: &Instance) -> Description {
        let spec = &neutron.spec;
        let upgrade = |what: &str| Command::new(&["/opt/neutron/bin/neutron-db-manage", CONF, "upgrade", what]);
        Description {
            databases: vec![Server::new(instance, spec.database.as_ref())],
            messaging: vec![Bus::new(instance, spec.messaging.as_ref())],
            identity: Some(Identity::new(instance, spec.keystone.as_ref())),
            cache: Some(Servers::new(instance, spec.cache.as_ref())),
            // Instances, which are told of their ports, and Placement, which has the addresses of routed networks.
            calls: [8774, 8778].map(|port| Egress::new(Some(instance.namespace.clone()), port)).into(),
            components: components(spec),
            // Revisions of the contract branch drop what older servers use.
            migrations: Migrations {
                install: vec![upgrade("heads")],
                before: vec![upgrade("--expand")],
                offline: vec![upgrade("--contract")],
                ..Migrations::default()
            }
            .sections(&["database"]),
            catalog: Some(CatalogEntry { name: "neutron", service_type: "network", path: "" }),
            owned: config::OWNED,
            ..Description::default()
        }
    }

    fn configure(neutron: &Neutron, backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError> {
        config::configure(&neutron.spec, backing, conf)
    }

    fn files(neutron: &Neutron, backing: &BackingServices) -> Vec<(&'static str, SecretString)> {
        let mut files = vec![
            ("api-paste.ini", paste::file(&neutron.spec.middleware)),
            ("launch.py", include_str!("launch.py").into()),
        ];
        files.extend(ovn::certificates(backing));
        files
    }

    fn problems(neutron: &Neutron) -> Vec<Problem> {
        let spec = &neutron.spec;
        let mut problems: Vec<Problem> = Server::problems(spec.database.as_ref()).into_iter().collect();
        problems.extend(Bus::problems(spec.messaging.as_ref()));
        problems.extend(cache::no_backend(spec.cache.as_ref()));
        problems.extend(paste::PIPELINE.problems(&spec.middleware));
        problems.extend(ovn::problems(spec));
        problems
    }

    fn needs(inputs: &Inputs<Neutron>) -> Vec<Ref> {
        let mut needs = ovn::needs(inputs);
        needs.extend(metadata::needs(&inputs.object));
        needs
    }

    fn look_up(inputs: &Inputs<Neutron>) -> Result<LookedUp, Vec<Wait>> {
        ovn::look_up(inputs)
    }

    fn steps(service_plan: &ServicePlan<'_, Self>) -> OwnSteps {
        OwnSteps { after: vec![ovn::connected(service_plan), metadata::agent(service_plan)], ..OwnSteps::default() }
    }
}

/// What runs, in the order of an upgrade.
fn components(spec: &NeutronSpec) -> Vec<Component> {
    let state = || Mount::scratch("state", config::STATE, "1Gi");
    let api = Wsgi {
        path: "/healthcheck",
        // Workers of one start are one generation of the hash ring that spreads OVN's events over them.
        settings: &["start-time = %t"],
        hooks: vec![json!({"call": "launch:resolve_names", "args": []})],
        ..Wsgi::new("neutron", "neutron.wsgi.api:application", 9696)
    };
    let size = spec.api.as_ref();
    let api = Component::api(api)
        .replicas(spec.api_replicas())
        .sized(size.and_then(|size| size.resources.as_ref()), size.and_then(|size| size.scheduling.as_ref()))
        .env("OS_NEUTRON_CONFIG_DIR", config::FOLDER)
        .env("OS_NEUTRON_CONFIG_FILES", "neutron.conf;ml2_conf.ini")
        .mount(state());
    let workers = spec.workers.as_ref();
    let scheduling = workers.and_then(|workers| workers.scheduling.as_ref());
    let scheduling = scheduling.or_else(|| size.and_then(|size| size.scheduling.as_ref()));
    let worker = |name: &str| {
        let command = [PYTHON, LAUNCH, &format!("neutron-{name}"), CONF, ML2_CONF];
        Component::worker(name, &command)
            .sized(workers.and_then(|workers| workers.resources.as_ref()), scheduling)
            .mount(state())
    };
    let mut components = vec![api, worker("rpc-server"), worker("periodic-workers")];
    if spec.has_ovn() {
        components.push(worker("ovn-maintenance-worker"));
    }
    components
}
