//! Pods run as service accounts: the one that they name, which must exist, and whose token they find in a volume.

use std::time::Duration;

use serde_json::{Value, json};

use crate::call::Call;
use crate::object::{generate_name, meta, of_entry};
use crate::status::ApiError;

/// Where containers find the token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// What the volume's name begins with.
const VOLUME: &str = "kube-api-access-";
/// Pods that a node made by itself are only mirrored here, and must stay as the node made them.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// How long a pod waits for the account that its namespace is about to get.
const PATIENCE: Duration = Duration::from_secs(10);

/// Gives a new pod its service account, and the account's token and pull secrets.
pub(super) async fn admit(call: &Call<'_>, pod: &mut Value) -> Result<(), ApiError> {
    if pod["metadata"]["annotations"].get(MIRROR).is_some() {
        return mirrored(call, pod);
    }
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
    let name = spec.get("serviceAccountName").and_then(Value::as_str).filter(|name| !name.is_empty());
    let name = name.unwrap_or("default").to_owned();
    for field in ["serviceAccountName", "serviceAccount"] {
        spec.insert(field.to_owned(), name.as_str().into());
    }
    let Some(account) = find(call, &name).await else {
        let namespace = call.namespace().unwrap_or_default();
        let why = format!("error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found");
        return Err(ApiError::forbidden_object(&call.served.resource, meta(pod, "name"), &why));
    };
    complete(&mut pod["spec"], &account);
    Ok(())
}

fn mirrored(call: &Call<'_>, pod: &Value) -> Result<(), ApiError> {
    let named = pod["spec"]["serviceAccountName"].as_str().is_some_and(|name| !name.is_empty());
    if !named {
        return Ok(());
    }
    let why = "a mirror pod may not reference service accounts";
    Err(ApiError::forbidden_object(&call.served.resource, meta(pod, "name"), why))
}

/// The account of that name. A namespace gets its default one soon after it is made, and that is waited for.
async fn find(call: &Call<'_>, name: &str) -> Option<Value> {
    let served = call.server.registry().find("", "v1", "serviceaccounts")?;
    let key = served.key(call.namespace(), name);
    let store = call.server.store();
    let revision = store.revision();
    if let Some(entry) = store.get(&key) {
        return of_entry(&served.resource, &entry).ok();
    }
    if name != "default" {
        return None;
    }
    let mut changes = store.watch(&key, revision).ok()?;
    let comes = async {
        while let Some(Ok(event)) = changes.next().await {
            if *event.key == *key && event.value.is_some() {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(PATIENCE, comes).await;
    of_entry(&served.resource, &store.get(&key)?).ok()
}

/// Adds the token's volume and mounts, unless the pod or else the account wants none, and the pull secrets.
fn complete(spec: &mut Value, account: &Value) {
    let wanted = [&spec["automountServiceAccountToken"], &account["automountServiceAccountToken"]];
    if wanted.into_iter().find_map(Value::as_bool).unwrap_or(true) {
        mount(spec);
    }
    let has_own = spec["imagePullSecrets"].as_array().is_some_and(|own| !own.is_empty());
    if let Some(secrets) = account["imagePullSecrets"].as_array().filter(|secrets| !secrets.is_empty() && !has_own) {
        spec["imagePullSecrets"] = secrets.clone().into();
    }
}

/// Mounts the token where containers look for it, if nothing is mounted there.
fn mount(spec: &mut Value) {
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let known = volumes.filter_map(|volume| volume["name"].as_str()).find(|name| name.starts_with(VOLUME));
    let (name, is_there) = known.map_or_else(|| (generate_name(VOLUME), false), |name| (name.to_owned(), true));
    let mut is_mounted = false;
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for container in containers.filter(|container| container.is_object()) {
            let mut mounts = container["volumeMounts"].as_array().cloned().unwrap_or_default();
            if mounts.iter().any(|mount| mount["mountPath"] == MOUNT_PATH) {
                continue;
            }
            mounts.push(json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH}));
            container["volumeMounts"] = mounts.into();
            is_mounted = true;
        }
    }
    if is_mounted && !is_there {
        let mut volumes = spec["volumes"].as_array().cloned().unwrap_or_default();
        volumes.push(volume(&name));
        spec["volumes"] = volumes.into();
    }
}

/// A token that is renewed, the authority by which the server is known, and the namespace.
fn volume(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        // Seven seconds more than an hour: how tokens are told apart that are in pods by themselves.
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [
            {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(mut spec: Value, account: &Value) -> Value {
        complete(&mut spec, account);
        spec
    }

    #[test]
    fn the_token_is_mounted_where_nothing_else_is() {
        let spec = completed(
            json!({
                "initContainers": [{"name": "i"}],
                "containers": [{"name": "a", "volumeMounts": [{"name": "own", "mountPath": MOUNT_PATH}]}, {"name": "b"}],
            }),
            &json!({}),
        );
        let name = spec["volumes"][0]["name"].as_str().unwrap();
        assert!(name.starts_with(VOLUME) && name.len() == VOLUME.len() + 5, "{name}");
        assert_eq!(spec["containers"][0]["volumeMounts"].as_array().unwrap().len(), 1);
        let mount = json!([{"name": name, "readOnly": true, "mountPath": MOUNT_PATH}]);
        assert_eq!(
            (&spec["containers"][1]["volumeMounts"], &spec["initContainers"][0]["volumeMounts"]),
            (&mount, &mount)
        );
        assert_eq!(completed(spec.clone(), &json!({})), spec, "a second look adds nothing");
    }

    #[test]
    fn a_pod_or_else_its_account_may_do_without_the_token() {
        let (on, off) = (json!({"automountServiceAccountToken": true}), json!({"automountServiceAccountToken": false}));
        let pod = |mut spec: Value| {
            spec["containers"] = json!([{"name": "a"}]);
            spec
        };
        assert_eq!(completed(pod(json!({})), &off), pod(json!({})));
        assert_eq!(completed(pod(off.clone()), &on), pod(off.clone()));
        assert!(completed(pod(on), &off)["volumes"].is_array());
    }

    #[test]
    fn pull_secrets_are_the_pods_own_or_else_the_accounts() {
        let account = json!({"automountServiceAccountToken": false, "imagePullSecrets": [{"name": "s"}]});
        assert_eq!(completed(json!({}), &account)["imagePullSecrets"], json!([{"name": "s"}]));
        let own = json!({"imagePullSecrets": [{"name": "own"}]});
        assert_eq!(completed(own.clone(), &account), own);
    }
}
