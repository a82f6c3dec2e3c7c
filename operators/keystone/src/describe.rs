//! Keystone: who is who, and who may do what.

use c5c3_api::openstack::Keystone;
use c5c3_api::{Problem, problem};
use c5c3_kit::ini::{Ini, IniError};
use c5c3_kit::retention::Retained;
use c5c3_kit::{Inputs, KindRef, Ref};
use c5c3_service::backup::Store;
use c5c3_service::cache::Servers;
use c5c3_service::component::Component;
use c5c3_service::database::Server;
use c5c3_service::job::Command;
use c5c3_service::migrations::Migrations;
use c5c3_service::pod::Mount;
use c5c3_service::service::NeededSecret;
use c5c3_service::wsgi::Wsgi;
use c5c3_service::{BackingServices, CatalogEntry, Description, Instance, OwnSteps, Service, ServicePlan};
use k8s_openapi::api::core::v1::Secret;
use secrecy::SecretString;
use serde_json::Value;

use crate::config::{self, CREDENTIAL_KEYS, FERNET_KEYS, FOLDER};
use crate::filters;
use crate::keys::PROPAGATION;
use crate::repositories::Repositories;
use crate::rotation::{PURPOSES, Repository, secret};

pub(crate) const MANAGE: &str = "/opt/keystone/bin/keystone-manage";
pub(crate) const CONFIG: &str = "--config-file=/etc/keystone/keystone.conf";

/// The path of the API's version.
pub(crate) const VERSION: &str = "/v3";

/// The most keys that a set may grow to: every one is tried on a token that cannot be read.
const MOST_KEYS: u64 = 100;

/// Keystone, as the layer operates it.
#[derive(Clone, Copy, Debug)]
pub struct Identity;

impl Service for Identity {
    type Kind = Keystone;
    const NAME: &'static str = "keystone";
    const MANAGER: &'static str = crate::NAME;
    const CONDITIONS: &'static [&'static str] = &[
        "SecretsReady",
        "DependenciesReady",
        "FernetKeysReady",
        "DatabaseReady",
        "ConfigReady",
        "DeploymentReady",
        "BootstrapReady",
        "KeystoneAPIReady",
    ];
    const HEALTH: &'static str = "KeystoneAPIReady";
    const FINALIZER: &'static str = "c5c3.io/keystone-cleanup";
    const CONF: &'static str = "keystone.conf";
    const FOLDER: &'static str = FOLDER;
    const VERSION: &'static str = VERSION;
    /// Without its keys the credentials in it cannot be decrypted, so both are kept or neither.
    const DATABASE_STAYS: bool = true;

    fn describe(keystone: &Keystone, instance: &Instance) -> Description {
        let spec = &keystone.spec;
        let manage = |arguments: &[&str]| Command::new(&[&[MANAGE, CONFIG, "db_sync"], arguments].concat());
        let application = Wsgi {
            path: VERSION,
            hooks: filters::hooks(&spec.middleware),
            warm: &["warm:policies"],
            ..Wsgi::new("keystone", "keystone.wsgi.api:application", 5000)
        };
        Description {
            databases: vec![Server::new(instance, spec.database.as_ref())],
            cache: Some(Servers::new(instance, spec.cache.as_ref())),
            secrets: vec![admin_secret(keystone, instance)],
            components: vec![
                Component::api(application)
                    .replicas(spec.replicas.get())
                    .sized(spec.resources.as_ref(), spec.scheduling.as_ref())
                    .env("OS_KEYSTONE_CONFIG_DIR", FOLDER)
                    .mount(Mount::secret("fernet-keys", &secret(instance, "fernet"), FERNET_KEYS))
                    .mount(Mount::secret("credential-keys", &secret(instance, "credential"), CREDENTIAL_KEYS))
                    .after("keys"),
            ],
            migrations: Migrations {
                install: vec![manage(&[])],
                before: vec![manage(&["--expand"]), manage(&["--migrate"])],
                after: vec![manage(&["--contract"]), manage(&["--check"])],
                sections: &["database"],
                ..Migrations::default()
            },
            catalog: Some(CatalogEntry { name: "keystone", service_type: "identity", path: VERSION }),
            owned: config::OWNED,
            only_in_spec: config::ONLY_IN_SPEC,
            quiet: config::QUIET,
            ..Description::default()
        }
    }

    fn configure(keystone: &Keystone, backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError> {
        config::configure(&keystone.spec, backing, conf)
    }

    fn files(keystone: &Keystone, _: &BackingServices) -> Vec<(&'static str, SecretString)> {
        let filters = (!keystone.spec.middleware.is_empty()).then(|| ("filters.py", include_str!("filters.py").into()));
        [("warm.py", include_str!("warm.py").into())].into_iter().chain(filters).collect()
    }

    fn problems(keystone: &Keystone) -> Vec<Problem> {
        let mut problems = filters::problems(&keystone.spec.middleware);
        problems.extend(too_many_keys(keystone));
        problems.extend(Server::problems(keystone.spec.database.as_ref()));
        problems
    }

    fn children() -> Vec<KindRef> {
        let mut kinds = Repository::children();
        kinds.extend(Store::children());
        kinds
    }

    fn reads() -> Vec<KindRef> {
        Store::reads().into()
    }

    fn needs(inputs: &Inputs<Keystone>) -> Vec<Ref> {
        Repositories::new(&inputs.object).needs(inputs)
    }

    fn steps(service_plan: &ServicePlan<'_, Self>) -> OwnSteps {
        let repositories = Repositories::new(service_plan.parts.object);
        let keys = repositories.decide(service_plan);
        let mut before = vec![Repositories::restore(&keys), repositories.keys(service_plan, &keys)];
        before.push(Repositories::rotation(&keys));
        let (credentials, later) = Repositories::credentials(service_plan, &keys);
        let again = [later, keys.requeue_after()].into_iter().flatten().min();
        let after = vec![crate::bootstrap::step(service_plan), credentials];
        OwnSteps { before, after, requeue_after: again, ..OwnSteps::default() }
    }

    /// Keys are rotated and backed up whatever is wrong with the rest. None is pruned: for how long one is needed may be what is
    /// wrong.
    fn maintenance(service_plan: &ServicePlan<'_, Self>) -> OwnSteps {
        // After a restart the last good schedule is not known, and a wrong one is not carried out.
        if too_many_keys(service_plan.parts.object).is_some() {
            return OwnSteps::default();
        }
        let repositories = Repositories::new(service_plan.parts.object).without_pruning();
        let keys = repositories.decide(service_plan);
        let before =
            vec![Repositories::restore(&keys), repositories.keys(service_plan, &keys), Repositories::rotation(&keys)];
        OwnSteps { before, requeue_after: keys.requeue_after(), ..OwnSteps::default() }
    }

    /// What `spec.deletionPolicy` means for keys and their backups.
    fn retention(object: &Value, instance: &Instance) -> Vec<Retained> {
        let keeps = object["spec"]["deletionPolicy"] != "Delete";
        let of_purpose = |purpose: &&str| {
            let secret = secret(instance, purpose);
            let backup = Store::retention(instance, &secret, keeps);
            [Retained::new(Ref::namespaced::<Secret>(&instance.namespace, secret)).kept(keeps), backup]
        };
        PURPOSES.iter().flat_map(of_purpose).collect()
    }
}

/// The administrator's password.
pub(crate) fn admin_secret(keystone: &Keystone, instance: &Instance) -> NeededSecret {
    let bootstrap = keystone.spec.bootstrap.clone().unwrap_or_default();
    let given = bootstrap.admin_password_secret_ref;
    let name = given.as_ref().map_or_else(|| "keystone-admin-credentials".to_owned(), |given| given.name.to_string());
    NeededSecret {
        reference: Ref::namespaced::<Secret>(&instance.namespace, name),
        key: given.map_or_else(|| "password".to_owned(), |given| given.key.to_string()),
        because: "the first administrator signs in with it",
        reason: "WaitingForAdminCredentials",
    }
}

/// Keys stay until no token needs them, so that a schedule that is too quick makes more of them than can be tried.
fn too_many_keys(keystone: &Keystone) -> Option<Problem> {
    let schedule = &keystone.spec.fernet.rotation_schedule;
    let (life, interval) = (config::token_life(&keystone.spec), schedule.shortest_interval());
    let needed = (life + PROPAGATION).as_secs().div_ceil(interval.as_secs().max(1)) + 2;
    let least = life.as_secs().div_ceil((MOST_KEYS - 2) * 60);
    (needed > MOST_KEYS).then(|| {
        problem(
            "spec.fernet.rotationSchedule",
            format!("makes a key every {} s while tokens have to be read for {} s, which takes {needed} keys", interval.as_secs(), life.as_secs()),
            format!("rotate every {least} minutes at most, or shorten token.expiration and token.allow_expired_window in spec.extraConfig"),
        )
    })
}
