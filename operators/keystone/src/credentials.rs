//! Stored credentials, encrypted with the present key.

use c5c3_kit::Child;
use c5c3_kit::config::ConfigFiles;
use c5c3_service::ServicePlan;
use c5c3_service::job::{Command, Run};
use c5c3_service::migrations::once;
use c5c3_service::service_plan::Resolved;
use serde_json::json;

use crate::bootstrap::with_keys;
use crate::config::ONCE;
use crate::describe::{CONFIG, Identity, MANAGE};
use crate::keys::State;

/// The file of the Job that re-encrypts stored credentials.
pub(crate) fn files(service_plan: &ServicePlan<'_, Identity>, resolved: &Resolved) -> ConfigFiles {
    let instance = &service_plan.parts.instance;
    ConfigFiles::new(&instance.namespace, instance.named("credential"))
        .file("keystone.conf", once(&resolved.conf, ONCE))
}

/// The Job that encrypts stored credentials with the present primary key; none if there was no other before.
pub(crate) fn job(service_plan: &ServicePlan<'_, Identity>, resolved: &Resolved, state: &State) -> Option<Child> {
    if state.keys.primary() < 2 {
        return None;
    }
    let migrate = [Command::new(&[MANAGE, CONFIG, "credential_migrate"])];
    let mounts = with_keys(service_plan, resolved, &files(service_plan, resolved));
    let identity = json!({ "keys": state.keys.fingerprint() });
    let run = Run { identity, ..service_plan.run("credential-migrate", &migrate, mounts) };
    Some(run.child())
}
