//! The first administrator, and what a cloud begins with.

use c5c3_api::openstack::Keystone;
use c5c3_kit::Step;
use c5c3_kit::config::ConfigFiles;
use c5c3_service::ServicePlan;
use c5c3_service::job::{Command, Run};
use c5c3_service::migrations::once;
use c5c3_service::pod::Mount;
use c5c3_service::service_plan::Resolved;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use crate::config::{CREDENTIAL_KEYS, FERNET_KEYS, FOLDER, ONCE};
use crate::describe::{Identity, VERSION, admin_secret};
use crate::rotation::secret;

/// Creates the first administrator, the identity endpoints and the service project. It runs again when any of that changes.
pub(crate) fn step(service_plan: &ServicePlan<'_, Identity>) -> Step {
    let step = Step::new("BootstrapReady").reasons("Bootstrapped", "BootstrapInProgress");
    let admin = admin_secret(service_plan.parts.object, &service_plan.parts.instance);
    let password = service_plan.inputs.secret(&admin.reference, &admin.key);
    let (Ok(resolved), Ok(password)) = (service_plan.resolved, password) else {
        return step.node("bootstrap", ["secrets", "schema", "config", "keys"]).undecided([]);
    };
    let bootstrap = service_plan.parts.object.spec.bootstrap.clone().unwrap_or_default();
    let files = files(service_plan, resolved, &password);
    let script = format!("{FOLDER}/bootstrap.py");
    let command = [Command::new(&["/opt/keystone/bin/python", &script])];
    let mounts = with_keys(service_plan, resolved, &files);
    let run = Run { identity: json!({ "files": files.hash() }), ..service_plan.run("bootstrap", &command, mounts) };
    step.node("bootstrap", ["secrets", "schema", "keys"])
        .child(files.child())
        .child(run.child())
        .done(format!("{} is the administrator of {}", bootstrap.admin_user, bootstrap.region))
}

fn files(service_plan: &ServicePlan<'_, Identity>, resolved: &Resolved, password: &SecretString) -> ConfigFiles {
    let keystone: &Keystone = service_plan.parts.object;
    let bootstrap = keystone.spec.bootstrap.clone().unwrap_or_default();
    let endpoint = format!("{}{VERSION}", service_plan.parts.endpoint().unwrap_or_default());
    let public = format!("{}{VERSION}", service_plan.parts.public_endpoint().unwrap_or_default());
    let settings = json!({
        "username": bootstrap.admin_user,
        "password": password.expose_secret(),
        "region-id": bootstrap.region.to_string(),
        "public-url": public,
        "internal-url": endpoint,
        "admin-url": endpoint,
    });
    let instance = &service_plan.parts.instance;
    ConfigFiles::new(&instance.namespace, instance.named("bootstrap"))
        .file("keystone.conf", once(&resolved.conf, ONCE))
        .file("bootstrap.py", include_str!("bootstrap.py").into())
        .file("bootstrap.json", settings.to_string().into())
}

/// The folders of something that runs once and reads keys.
pub(crate) fn with_keys(
    service_plan: &ServicePlan<'_, Identity>,
    resolved: &Resolved,
    files: &ConfigFiles,
) -> Vec<Mount> {
    let instance = &service_plan.parts.instance;
    let mut mounts = vec![
        Mount::secret("config", &files.name(), FOLDER),
        Mount::secret("fernet-keys", &secret(instance, "fernet"), FERNET_KEYS),
        Mount::secret("credential-keys", &secret(instance, "credential"), CREDENTIAL_KEYS),
    ];
    mounts.extend(resolved.backing.mounts());
    mounts
}
