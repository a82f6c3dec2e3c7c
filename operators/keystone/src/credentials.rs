//! Stored credentials, encrypted with the present key.

use c5c3_kit::Child;
use c5c3_kit::config::ConfigFiles;
use c5c3_service::Scene;
use c5c3_service::job::{Command, Run};
use c5c3_service::migrations::once;
use c5c3_service::scene::Resolved;
use serde_json::json;

use crate::bootstrap::with_keys;
use crate::config::ONCE;
use crate::describe::{CONFIG, Identity, MANAGE};
use crate::keys::State;

/// The file of the Job that encrypts stored credentials anew.
pub(crate) fn files(scene: &Scene<'_, Identity>, resolved: &Resolved) -> ConfigFiles {
    let instance = &scene.parts.instance;
    ConfigFiles::new(&instance.namespace, instance.named("credential"))
        .file("keystone.conf", once(&resolved.conf, ONCE))
}

/// The Job that encrypts stored credentials with the present primary key; none if there was no other before.
pub(crate) fn job(scene: &Scene<'_, Identity>, resolved: &Resolved, state: &State) -> Option<Child> {
    if state.keys.primary() < 2 {
        return None;
    }
    let migrate = [Command::new(&[MANAGE, CONFIG, "credential_migrate"])];
    let mounts = with_keys(scene, resolved, &files(scene, resolved));
    let identity = json!({ "keys": state.keys.fingerprint() });
    let run = Run { identity, ..scene.run("credential-migrate", &migrate, mounts) };
    Some(run.child())
}
