//! `nova.conf` of what runs above the cells, and what cells have in common with it.

use c5c3_api::blocks::LocalRef;
use c5c3_api::openstack::{Nova, NovaSpec};
use c5c3_kit::Ref;
use c5c3_kit::ini::{Ini, IniError};
use c5c3_service::config::Owned;
use c5c3_service::messaging::BusConnection;
use c5c3_service::service::NeededSecret;
use c5c3_service::{BackingServices, Instance};
use k8s_openapi::api::core::v1::Secret;

use crate::cells::{MAIN_BUS, Places};

/// Where the configuration is.
pub(crate) const FOLDER: &str = "/etc/nova";
/// Where pods write what they need while they run: locks.
pub(crate) const STATE: &str = "/var/lib/nova";

/// The key of the Secret that Neutron's metadata agents sign requests with.
pub(crate) const SHARED_SECRET: &str = "shared-secret";

/// How often schedulers look for hosts that no cell has yet, in seconds.
const DISCOVER_SECONDS: i32 = 30;

const ID: &str = "application_credential_id";
const SECRET: &str = "application_credential_secret";

/// Options that follow from fields, or that nothing would work with.
pub(crate) const OWNED: &[Owned] = &[
    ("database", "connection", "use spec.database"),
    ("database", "slave_connection", "use spec.database"),
    ("api_database", "connection", "use spec.apiDatabase"),
    ("api_database", "slave_connection", "use spec.apiDatabase"),
    ("api", "auth_strategy", "it is always keystone"),
    ("wsgi", "api_paste_config", "use spec.middleware"),
    ("neutron", "service_metadata_proxy", "it is always on"),
    ("neutron", "metadata_proxy_shared_secret", "it is made once, in the Secret NAME-metadata-proxy"),
    ("vnc", "enabled", "use spec.console"),
    ("vnc", "novncproxy_base_url", "use spec.console.publicEndpoint"),
    ("vnc", "novncproxy_port", "it is always 6080"),
    ("external_scheduler", "endpoint", "use spec.scheduler.externalScheduler.endpoint"),
    ("external_scheduler", "token_file", "use spec.scheduler.externalScheduler.tokenSecretRef"),
    ("external_scheduler", "ca_file", "use spec.scheduler.externalScheduler.caSecretRef"),
    ("external_scheduler", "timeout", "use spec.scheduler.externalScheduler.timeout"),
    ("external_scheduler", "on_failure", "use spec.scheduler.externalScheduler.onFailure"),
    ("DEFAULT", "host", "services are known by the host name of their pod"),
    ("DEFAULT", "state_path", "no other folder can be written to"),
];

/// The Secret that requests for metadata are signed with.
pub(crate) fn metadata_secret(instance: &Instance) -> String {
    instance.named("metadata-proxy")
}

/// The services that Nova calls, with the user that it calls each as if that is not its own.
fn clients(spec: &NovaSpec) -> [(&'static str, Option<&LocalRef>); 4] {
    let users = spec.service_auth.as_ref();
    [
        ("placement", users.and_then(|users| users.placement.as_ref())),
        ("neutron", users.and_then(|users| users.neutron.as_ref())),
        ("glance", users.and_then(|users| users.glance.as_ref())),
        ("cinder", users.and_then(|users| users.cinder.as_ref())),
    ]
}

/// The Secret with the application credential of a user.
fn credential(user: &LocalRef) -> String {
    format!("{}-keystone-credentials", user.name)
}

/// The Secrets that are needed beside those of databases, brokers and Nova's own user.
pub(crate) fn secrets(spec: &NovaSpec, instance: &Instance) -> Vec<NeededSecret> {
    let needed = |name: String, key: &str, because, reason| NeededSecret {
        reference: Ref::namespaced::<Secret>(&instance.namespace, name),
        key: key.into(),
        because,
        reason,
    };
    let signs = "agents on hypervisors sign requests for metadata with it";
    let mut all = vec![needed(metadata_secret(instance), SHARED_SECRET, signs, "WaitingForSharedSecret")];
    for user in clients(spec).into_iter().filter_map(|(_, user)| user) {
        let calls = "spec.serviceAuth has Nova call another service with it";
        all.extend([ID, SECRET].map(|key| needed(credential(user), key, calls, "WaitingForKeystoneCredentials")));
    }
    all
}

pub(crate) fn configure(nova: &Nova, backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError> {
    let instance = Instance::new("nova", &nova.metadata);
    let places = Places { nova, instance: &instance, backing };
    conf.set("api_database", "connection", places.api_url())?;
    BackingServices::pool(conf, "api_database")?;
    conf.set("database", "connection", places.cell0_url())?;
    BackingServices::pool(conf, "database")?;
    places.broker(MAIN_BUS, conf)?;
    backing.authtoken(conf)?;
    conf.set("keystone_authtoken", "service_type", "compute")?;
    calls(&nova.spec, backing, conf)?;
    conf.set("neutron", "service_metadata_proxy", true)?;
    let shared = backing.secret(&metadata_secret(&instance), SHARED_SECRET);
    conf.set("neutron", "metadata_proxy_shared_secret", shared)?;
    conf.set("api", "auth_strategy", "keystone")?;
    conf.set("wsgi", "api_paste_config", format!("{FOLDER}/api-paste.ini"))?;
    conf.set("DEFAULT", "state_path", STATE)?;
    conf.set("oslo_concurrency", "lock_path", format!("{STATE}/lock"))?;
    // There are as many processes as pods.
    conf.set("conductor", "workers", 1)?;
    conf.set("scheduler", "workers", 1)?;
    conf.set("scheduler", "discover_hosts_in_cells_interval", DISCOVER_SECONDS)?;
    // Hypervisors are upgraded after everything else, one by one.
    conf.set("upgrade_levels", "compute", "auto")?;
    crate::external_scheduler::configure(nova, &instance, conf)?;
    crate::console::configure(nova, &instance, conf)
}

/// How a broker is reached. Nova's workers are single threads with many tasks: a real thread for heartbeats would block them.
pub(crate) fn broker(bus: &BusConnection, conf: &mut Ini) -> Result<(), IniError> {
    bus.configure(conf)?;
    conf.set("oslo_messaging_rabbit", "heartbeat_in_pthread", false)?;
    Ok(())
}

/// The sections of services that Nova calls, as its own user or as that of `spec.serviceAuth`.
fn calls(spec: &NovaSpec, backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError> {
    let Some(identity) = &backing.identity else { return Ok(()) };
    identity.service_user(conf)?;
    for (section, user) in clients(spec) {
        identity.client(conf, section)?;
        if let Some(user) = user {
            conf.set(section, ID, backing.secret(&credential(user), ID))?;
            conf.set(section, SECRET, backing.secret(&credential(user), SECRET))?;
        }
    }
    conf.set("cinder", "catalog_info", "block-storage:cinder:internalURL")?;
    if let Some(region) = &identity.region {
        conf.set("cinder", "os_region_name", region.as_str())?;
    }
    Ok(())
}
