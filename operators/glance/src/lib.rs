//! Glance: images, and the stores that hold them.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod pipeline;
mod stores;

use c5c3_api::Problem;
use c5c3_api::openstack::Glance;
use c5c3_kit::ini::{Ini, IniError};
use c5c3_kit::retention::Retained;
use c5c3_kit::{KindRef, Operator};
use c5c3_service::cache::{self, Servers};
use c5c3_service::config::Owned;
use c5c3_service::database::Server;
use c5c3_service::identity::Identity;
use c5c3_service::job::Command;
use c5c3_service::migrations::Migrations;
use c5c3_service::pod::Mount;
use c5c3_service::wsgi::Wsgi;
use c5c3_service::{
    BackingServices, CatalogEntry, Component, Description, Instance, OwnSteps, Service, ServiceController, ServicePlan,
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use secrecy::SecretString;
use serde_json::Value;

use stores::{CACHE, STAGING, Stores, TASKS};

/// The field manager, and the value of the ownership label. It must never change.
pub const NAME: &str = "glance-operator";

const FOLDER: &str = "/etc/glance";
const CONF: &str = "--config-file=/etc/glance/glance-api.conf";
const PORT: i32 = 9292;

/// How often what is too much is taken out of the cache, and what was left half-copied, in minutes.
const PRUNE_MINUTES: i32 = 10;

/// Options that follow from fields, or that nothing would work with.
const OWNED: &[Owned] = &[
    ("database", "connection", "use spec.database"),
    ("database", "connection_parameters", "use spec.database"),
    ("database", "slave_connection", "use spec.database"),
    ("DEFAULT", "enabled_backends", "use spec.storage.stores"),
    ("DEFAULT", "image_cache_dir", "use spec.storage.cache"),
    ("DEFAULT", "image_cache_max_size", "use spec.storage.cache.size"),
    ("DEFAULT", "worker_self_reference_url", "it is each pod's own address"),
    ("glance_store", "default_backend", "use spec.storage.backend"),
    ("paste_deploy", "config_file", "use spec.middleware"),
    ("paste_deploy", "flavor", "it is always keystone; use spec.storage.cache and spec.middleware"),
];

/// Glance, as the layer operates it.
#[derive(Clone, Copy, Debug)]
pub struct Images;

/// The controller of Glance objects.
pub type Glances = ServiceController<Images>;

/// The operator. Everything that a Glance has is in its own namespace, so that there is nothing to allow.
pub fn operator(_cross_namespace: bool) -> Operator {
    Operator::new(NAME).controller(Glances::default)
}

impl Service for Images {
    type Kind = Glance;
    const NAME: &'static str = "glance";
    const MANAGER: &'static str = NAME;
    const CONDITIONS: &'static [&'static str] = &[
        "DependenciesReady",
        "SecretsReady",
        "DatabaseReady",
        "ConfigReady",
        "DeploymentReady",
        "KeystoneAuthReady",
        "APIReady",
        "CephConnected",
    ];
    const FINALIZER: &'static str = "c5c3.io/glance-cleanup";
    const CONF: &'static str = "glance-api.conf";
    const FOLDER: &'static str = FOLDER;

    fn describe(glance: &Glance, instance: &Instance) -> Description {
        let spec = &glance.spec;
        let stores = Stores::of(glance, instance);
        let manage = |args: &[&str]| Command::new(&[&["/opt/glance/bin/glance-manage", CONF], args].concat());
        let definitions = manage(&["db_load_metadefs", "/opt/glance/etc/glance/metadefs"]);
        Description {
            databases: vec![Server::new(instance, spec.database.as_ref())],
            identity: Some(Identity::new(instance, spec.keystone.as_ref())),
            cache: Some(Servers::new(instance, spec.cache.as_ref())),
            pools: stores.pools(),
            calls: stores.calls(),
            secrets: stores.secrets(),
            components: vec![api(glance, &stores)],
            migrations: Migrations {
                install: vec![manage(&["db_sync"]), definitions.clone()],
                before: vec![manage(&["db_expand"]), manage(&["db_migrate"])],
                after: vec![manage(&["db_contract"]), definitions],
                sections: &["database"],
                ..Migrations::default()
            },
            catalog: Some(CatalogEntry { name: "glance", service_type: "image", path: "" }),
            owned: OWNED,
            ..Description::default()
        }
    }

    fn configure(glance: &Glance, backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError> {
        backing.database_section(conf, "database", backing.main_database().1)?;
        backing.authtoken(conf)?;
        let stores = Stores::of(glance, &Instance::new(Self::NAME, &glance.metadata));
        stores.configure(backing, conf)?;
        conf.set("paste_deploy", "config_file", format!("{FOLDER}/{}", pipeline::FILE))?;
        conf.set("oslo_concurrency", "lock_path", "/run/locks")?;
        conf.set("oslo_messaging_notifications", "driver", "noop")?;
        if has_tls(glance) {
            // What is uploaded to one pod can be imported by another only if that reaches it, and no certificate is valid for
            // the address of a pod.
            conf.set("DEFAULT", "enabled_import_methods", "[web-download,copy-image]")?;
        }
        Ok(())
    }

    fn files(glance: &Glance, _: &BackingServices) -> Vec<(&'static str, SecretString)> {
        let file = pipeline::of(glance).render(&glance.spec.middleware);
        // What users write was looked at before.
        file.map(|file| vec![(pipeline::FILE, file)]).unwrap_or_default()
    }

    fn problems(glance: &Glance) -> Vec<Problem> {
        let database = Server::problems(glance.spec.database.as_ref());
        let pipeline = pipeline::of(glance).pipeline.problems(&glance.spec.middleware);
        database.into_iter().chain(cache::no_backend(glance.spec.cache.as_ref())).chain(pipeline).collect()
    }

    fn children() -> Vec<KindRef> {
        vec![KindRef::of::<PersistentVolumeClaim>()]
    }

    fn steps(service_plan: &ServicePlan<'_, Self>) -> OwnSteps {
        let stores = Stores::of(service_plan.parts.object, &service_plan.parts.instance);
        OwnSteps { before: stores.volumes().into_iter().collect(), ..OwnSteps::default() }
    }

    fn retention(object: &Value, instance: &Instance) -> Vec<Retained> {
        let keeps = object["spec"]["deletionPolicy"] != "Delete";
        let glance = serde_json::from_value::<Glance>(object.clone()).ok();
        let claims = glance.map(|glance| Stores::of(&glance, instance).claims()).unwrap_or_default();
        claims.into_iter().map(|claim| Retained::new(claim).kept(keeps)).collect()
    }
}

fn has_tls(glance: &Glance) -> bool {
    glance.spec.tls.as_ref().is_some_and(|tls| tls.enabled)
}

fn api(glance: &Glance, stores: &Stores) -> Component {
    let spec = &glance.spec;
    let mut wsgi = Wsgi { path: "/healthcheck", ..Wsgi::new("glance", "glance.wsgi.api:application", PORT).uploads() };
    if stores.has_cache() {
        let commands = ["glance-cache-pruner", "glance-cache-cleaner"];
        wsgi.every = commands.map(|command| (PRUNE_MINUTES, format!("/opt/glance/bin/{command} {CONF}"))).into();
    }
    let mut api = Component::api(wsgi)
        .replicas(spec.replicas.get())
        .sized(spec.resources.as_ref(), spec.scheduling.as_ref())
        .env("OS_GLANCE_CONFIG_DIR", FOLDER)
        .mount(Mount::scratch("staging", STAGING, &stores.staging))
        .mount(Mount::scratch("tasks", TASKS, "1Gi"));
    // With TLS no other pod reaches it there; the cache needs a name of the pod in any case.
    if !has_tls(glance) || stores.has_cache() {
        api = api.knows_address().env("OS_DEFAULT__WORKER_SELF_REFERENCE_URL", format!("http://$(POD_IP):{PORT}"));
    }
    if let Some(limit) = stores.cache_limit() {
        api = api.mount(Mount::scratch("cache", CACHE, &limit));
    }
    for (name, claim, folder) in stores.mounts() {
        api = api.mount(Mount::claim(&name, &claim, &folder));
    }
    if stores.has_lonely_volume() { api.one_at_a_time() } else { api }
}
