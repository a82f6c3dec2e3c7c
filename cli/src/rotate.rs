//! `c5c3 rotate`: asks for new credentials now, and follows how far they are.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use c5c3_api::c5c3::CredentialRotation;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::cluster::block_on;
use crate::credentials::RotateArgs;
use crate::status::delivery::{keystone_name, keystone_user};
use crate::status::{Asked, Object, World};
use crate::{Done, print, target};

/// The annotation of a CredentialRotation that asks for a rotation: any value that it has not had before.
const ROTATE: &str = "c5c3.io/rotate";

const MANAGER: &str = "c5c3-rotate";

/// How often a rotation is looked at.
const INTERVAL: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &RotateArgs) -> Done {
    block_on(async {
        let asked = Asked::new(&args.cluster).await?;
        let world = asked.look().await?;
        let chosen = chosen(&world, &args.names)?;
        let request = Timestamp::now().to_string();
        for rotation in &chosen {
            request_rotation(&asked.client, rotation, &request).await?;
            print(&format!("{}: asked for a new credential\n", rotation.reference.short()))?;
        }
        if !args.wait {
            return Ok(ExitCode::SUCCESS);
        }
        follow(&asked.client, &chosen, &request, Duration::from_secs(args.timeout)).await
    })?
}

/// The CredentialRotations that are meant; all if none is named.
fn chosen<'a>(world: &'a World, names: &[String]) -> Result<Vec<&'a Object>, String> {
    let all: Vec<&Object> = world.of_kind("CredentialRotation").collect();
    if world.unread.iter().any(|kind| kind.starts_with("credentialrotations")) {
        return Err(
            "you may not list credentialrotations; name a namespace with -n, or ask for the ClusterRole edit".into()
        );
    }
    if all.is_empty() {
        return Err(
            "there is no CredentialRotation; a ControlPlane with a second service makes them: c5c3 status".into()
        );
    }
    if names.is_empty() {
        return Ok(all);
    }
    let is_called = |rotation: &Object, name: &str| {
        let user = rotation.text("/spec/targetServiceUser").unwrap_or_default();
        let in_keystone = keystone_user(world, user, rotation.namespace()).map(keystone_name);
        rotation.reference.name == name || user == name || in_keystone.as_deref() == Some(name)
    };
    let mut chosen = Vec::new();
    for name in names {
        let name = name.strip_prefix("credentialrotation/").unwrap_or(name);
        let found: Vec<&Object> = all.iter().copied().filter(|rotation| is_called(rotation, name)).collect();
        let places: BTreeSet<&str> = found.iter().filter_map(|rotation| rotation.namespace()).collect();
        match found.as_slice() {
            [] => {
                let known: Vec<&str> = all.iter().map(|rotation| rotation.reference.name.as_str()).collect();
                return Err(format!("there is no CredentialRotation {name}; there are {}", known.join(", ")));
            }
            _ if places.len() > 1 => {
                let places: Vec<&str> = places.into_iter().collect();
                return Err(format!("{name} is in several namespaces; name one with -n: {}", places.join(", ")));
            }
            // The application credential and the accounts of one service.
            found => chosen.extend(found.iter().copied()),
        }
    }
    Ok(chosen)
}

fn api(client: &Client, rotation: &Object) -> Api<CredentialRotation> {
    Api::namespaced(client.clone(), rotation.namespace().unwrap_or_default())
}

async fn request_rotation(client: &Client, rotation: &Object, request: &str) -> Result<(), String> {
    let patch = json!({"metadata": {"annotations": {ROTATE: request}}});
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let patched = api(client, rotation).patch(&rotation.reference.name, &params, &Patch::Merge(&patch)).await;
    patched.map(drop).map_err(|error| {
        format!(
            "cannot annotate {}: {}; ask for the ClusterRole edit",
            rotation.reference.short(),
            target::root(&error)
        )
    })
}

/// Prints what changes until all are done, or the time is up.
async fn follow(client: &Client, chosen: &[&Object], request: &str, patience: Duration) -> Done {
    let begun = Instant::now();
    let mut last: BTreeMap<String, Progress> = BTreeMap::new();
    loop {
        for rotation in chosen {
            let name = rotation.reference.short();
            let read = api(client, rotation).get(&rotation.reference.name).await;
            let object = read.map_err(|error| format!("cannot read {name}: {}", target::root(&error)))?;
            let now = progress(&serde_json::to_value(object).unwrap_or(Value::Null), request);
            if last.get(&name) != Some(&now) {
                print(&format!("{name}: {}\n", now.says))?;
                last.insert(name, now);
            }
        }
        if last.values().all(|progress| progress.done) {
            return Ok(ExitCode::SUCCESS);
        }
        if begun.elapsed() >= patience {
            for (name, _) in last.iter().filter(|(_, progress)| !progress.done) {
                print(&format!("{name}: not in use after {} s: c5c3 why {name}\n", patience.as_secs()))?;
            }
            return Ok(ExitCode::FAILURE);
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// How far a rotation is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Progress {
    says: String,
    /// Whether the new credential is in use.
    done: bool,
}

/// How far the rotation is that was asked for.
fn progress(object: &Value, request: &str) -> Progress {
    let status = &object["status"];
    let going = |says: String| Progress { says, done: false };
    if status["handledRequest"] != request {
        return going("waiting for the operator to begin".to_owned());
    }
    let phase = status["phase"].as_str().unwrap_or_default();
    let steps = status["steps"].as_array().into_iter().flatten();
    let message =
        steps.filter(|step| step["name"] == phase && step["done"] != true).find_map(|step| step["message"].as_str());
    let with = |says: &str| going(message.map_or_else(|| says.to_owned(), |message| format!("{says}: {message}")));
    match phase {
        "Creating" => with("creating the new credential"),
        "Delivering" => with("delivering it to the services"),
        "Verifying" => with("waiting until every pod signs in with it"),
        "Grace" => {
            let until = status["previousCredential"]["revokeAt"].as_str();
            let until = until.map(|until| format!("; the old one is revoked at {until}")).unwrap_or_default();
            Progress { says: format!("the new credential is in use{until}"), done: true }
        }
        "Revoking" | "VerifyingRevoked" => {
            Progress { says: "the new credential is in use; the old one is being revoked".to_owned(), done: true }
        }
        "Idle" => Progress { says: "the new credential is in use, and the old one is revoked".to_owned(), done: true },
        _ => going("waiting for the operator to begin".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(status: &Value) -> (String, bool) {
        let progress = progress(&json!({"status": status}), "2026-01-01T00:00:00Z");
        (progress.says, progress.done)
    }

    #[test]
    fn a_rotation_is_followed_from_the_request_to_its_use() {
        let with = |phase: &str| json!({"handledRequest": "2026-01-01T00:00:00Z", "phase": phase});
        assert!(!told(&json!({"handledRequest": "before", "phase": "Idle"})).1, "that was an earlier one");
        let mut delivering = with("Delivering");
        delivering["steps"] = json!([
            {"name": "Creating", "done": true, "message": "made"},
            {"name": "Delivering", "message": "waiting for pushsecret/nova-app-credential: Errored"}]);
        let (says, done) = told(&delivering);
        assert_eq!(says, "delivering it to the services: waiting for pushsecret/nova-app-credential: Errored");
        assert!(!done && !told(&with("Creating")).1 && !told(&with("Verifying")).1);
        let mut grace = with("Grace");
        grace["previousCredential"] = json!({"revokeAt": "2026-01-02T00:00:00Z"});
        let in_use = "the new credential is in use; the old one is revoked at 2026-01-02T00:00:00Z".to_owned();
        assert_eq!(told(&grace), (in_use, true));
        assert!(told(&with("Idle")).1);
    }
}
