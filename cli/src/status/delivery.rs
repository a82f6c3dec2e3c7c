//! The way of a credential to the pods that use it: made in Keystone, pushed to a store, read from it into a Secret. Finds the
//! link before one that fails.

use serde_json::Value;

use super::world::{Object, World};

/// What brings an object about that is not there, or that does not work: the link before it in the chain, nearest first.
pub(crate) fn before<'a>(world: &'a World, object: &Object) -> Vec<&'a Object> {
    let namespace = object.namespace();
    match object.kind() {
        "ExternalSecret" => {
            let keys = keys_read(object);
            let pushes = world.of_kind("PushSecret").filter(|push| keys_written(push).any(|key| keys.contains(&key)));
            // Without the store neither of the two works.
            first(stores(world, object), pushes.filter(|push| is_down(push)).collect())
        }
        "PushSecret" => {
            let source = object.text("/spec/selector/secret/name");
            let makers = source.map(|source| makers(world, source, namespace)).unwrap_or_default();
            first(stores(world, object), makers)
        }
        "CredentialRotation" => {
            let user = object.text("/spec/targetServiceUser").and_then(|user| keystone_user(world, user, namespace));
            user.into_iter().filter(|user| is_down(user)).collect()
        }
        // A credential that waits for its user says that alone, and the user says why.
        "ApplicationCredential" => {
            let user = object.text("/spec/resource/userRef").and_then(|user| keystone_user(world, user, namespace));
            user.into_iter().filter(|user| is_down(user)).collect()
        }
        _ => Vec::new(),
    }
}

fn first<'a>(links: Vec<&'a Object>, otherwise: Vec<&'a Object>) -> Vec<&'a Object> {
    if links.is_empty() { otherwise } else { links }
}

/// What delivers a Secret that is not there, if it is one that something delivers.
pub(crate) fn makers<'a>(world: &'a World, secret: &str, namespace: Option<&str>) -> Vec<&'a Object> {
    let here = |object: &&Object| object.namespace() == namespace;
    let external = world.of_kind("ExternalSecret").filter(here).find(|external| target(external) == secret);
    if let Some(external) = external.filter(|external| is_down(external)) {
        return vec![external];
    }
    let delivers = |rotation: &&Object| secrets_of(world, rotation).iter().any(|name| name == secret);
    world.of_kind("CredentialRotation").filter(here).filter(delivers).filter(|rotation| is_down(rotation)).collect()
}

/// What delivers a Secret that a pod waits for, by what the pod says: the kubelet names it.
pub(crate) fn makers_for_pod<'a>(world: &'a World, says: &str, namespace: Option<&str>) -> Vec<&'a Object> {
    let named = says.split_once("secret \"").and_then(|(_, rest)| rest.split_once("\" not found"));
    named.map(|(secret, _)| makers(world, secret, namespace)).unwrap_or_default()
}

/// The Secrets that a CredentialRotation writes or has written: what services read first.
pub(crate) fn secrets_of(world: &World, rotation: &Object) -> Vec<String> {
    let user = rotation.text("/spec/targetServiceUser").unwrap_or_default();
    let found = keystone_user(world, user, rotation.namespace());
    let name = found.map_or_else(|| user.trim_end_matches("-service-user").to_owned(), keystone_name);
    let read = rotation.text("/spec/targetSecretRef/name").map(ToOwned::to_owned);
    let server = match rotation.text("/spec/rotationType") {
        Some("databaseAccount") => Some("db"),
        Some("brokerAccount") => Some("rabbitmq"),
        Some("cephUser") => Some("ceph"),
        _ => None,
    };
    if let Some(server) = server {
        return vec![read.unwrap_or_else(|| format!("{user}-{server}-credentials"))];
    }
    vec![read.unwrap_or_else(|| format!("{name}-keystone-credentials")), format!("{name}-app-credential")]
}

/// What a K-ORC User is called in Keystone.
pub(crate) fn keystone_name(user: &Object) -> String {
    let named = user.text("/status/resource/name").or_else(|| user.text("/spec/resource/name"));
    named.unwrap_or(&user.reference.name).to_owned()
}

/// A User of K-ORC. MariaDB and RabbitMQ have Users, too.
pub(crate) fn keystone_user<'a>(world: &'a World, name: &str, namespace: Option<&str>) -> Option<&'a Object> {
    let is_it = |user: &&Object| {
        user.reference.resource.group == "openstack.k-orc.cloud"
            && user.reference.name == name
            && user.namespace() == namespace
    };
    world.of_kind("User").find(is_it)
}

/// The Secret that an ExternalSecret writes.
pub(crate) fn target(external: &Object) -> &str {
    external.text("/spec/target/name").unwrap_or(&external.reference.name)
}

/// The stores that an object names and that do not work.
fn stores<'a>(world: &'a World, object: &Object) -> Vec<&'a Object> {
    named_stores(object)
        .filter_map(|(kind, name)| store(world, object, kind, name))
        .filter(|store| is_down(store))
        .collect()
}

/// The name of a store that an object names and that does not exist. Kinds that may not be listed are taken to be there.
pub(crate) fn missing_store<'o>(world: &World, object: &'o Object) -> Option<&'o str> {
    let is_unread = |kind: &str| world.unread.iter().any(|unread| unread.starts_with(&kind.to_lowercase()));
    let mut named = named_stores(object).filter(|(kind, _)| !is_unread(kind));
    named.find(|(kind, name)| store(world, object, kind, name).is_none()).map(|(_, name)| name)
}

/// Kind and name of the stores that an object names.
fn named_stores(object: &Object) -> impl Iterator<Item = (&str, &str)> {
    let one = object.value.pointer("/spec/secretStoreRef").into_iter();
    let named = one.chain(object.list("/spec/secretStoreRefs"));
    named.filter_map(|named| Some((named["kind"].as_str().unwrap_or("SecretStore"), named["name"].as_str()?)))
}

fn store<'a>(world: &'a World, object: &Object, kind: &str, name: &str) -> Option<&'a Object> {
    let here = |store: &&Object| {
        store.reference.name == name && (kind == "ClusterSecretStore" || store.namespace() == object.namespace())
    };
    world.objects.iter().filter(|store| store.kind() == kind).find(here)
}

fn is_down(object: &Object) -> bool {
    object.wait.is_some()
}

/// The keys in the store that an ExternalSecret reads.
fn keys_read(external: &Object) -> Vec<&str> {
    let data = external.list("/spec/data").iter().map(|data| &data["remoteRef"]["key"]);
    let whole = external.list("/spec/dataFrom").iter().map(|from| &from["extract"]["key"]);
    data.chain(whole).filter_map(Value::as_str).map(relative).collect()
}

/// The keys in the store that a PushSecret writes.
fn keys_written(push: &Object) -> impl Iterator<Item = &str> {
    let keys = push.list("/spec/data").iter().map(|data| &data["match"]["remoteRef"]["remoteKey"]);
    keys.filter_map(Value::as_str).map(relative)
}

/// A key as it is below its mount: it may be written with the mount and `data` in front.
fn relative(key: &str) -> &str {
    key.split_once("/data/").map_or(key, |(_, below)| below)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{lab, not_ready, object, waits_for, why};
    use super::*;

    /// What is failing, and the condition that says so.
    type Failing<'a> = &'a [(&'a str, Value)];

    /// A service that waits for its credential, and the chain that delivers it; each link is ready unless it says otherwise.
    fn held_back(failing: Failing<'_>) -> String {
        let wait = json!([{"object": "secret/nova-keystone-credentials", "condition": "exists",
            "because": "it signs in to Keystone with it", "lookAt": "create it by hand"}]);
        let mut objects = chain(failing);
        objects.push(nova(&wait));
        why(objects)
    }

    fn nova(waits: &Value) -> Value {
        let status = json!({"waitingFor": waits, "conditions": [not_ready("WaitingForCredentials", "waiting")]});
        object("nova.openstack.c5c3.io/v1alpha1", "Nova", "nova", "controlplane-lab", &json!({ "status": status }))
    }

    /// A ControlPlane that waits for Nova, and the chain that delivers Nova's credential.
    fn chain(failing: Failing<'_>) -> Vec<Value> {
        let is = |link: &str, condition: &str| {
            let found = failing.iter().find(|(name, _)| *name == link).map(|(_, condition)| condition.clone());
            json!({"conditions": [found.unwrap_or_else(|| json!({"type": condition, "status": "True"}))]})
        };
        let store = json!([{"name": "openbao-cluster-store", "kind": "ClusterSecretStore"}]);
        let external = json!({"spec": {"secretStoreRef": store[0], "target": {"name": "nova-keystone-credentials"},
            "dataFrom": [{"extract": {"key": "openstack/nova/app-credential"}}]}, "status": is("external", "Ready")});
        let push = json!({"spec": {"secretStoreRefs": store, "selector": {"secret": {"name": "nova-app-credential"}},
            "data": [{"match": {"remoteRef": {"remoteKey": "kv-v2/data/openstack/nova/app-credential"}}}]},
            "status": is("push", "Ready")});
        let waits =
            failing.iter().find(|(name, _)| *name == "rotation waits").map_or(json!([]), |(_, waits)| waits.clone());
        let mut rotation =
            json!({"spec": {"targetServiceUser": "nova-service-user"}, "status": is("rotation", "Ready")});
        rotation["status"]["waitingFor"] = waits;
        let credential =
            json!({"spec": {"resource": {"userRef": "nova-service-user"}}, "status": is("credential", "Available")});
        let user = json!({"spec": {"resource": {"name": "nova"}}, "status": is("user", "Available")});
        let mut css = object(
            "external-secrets.io/v1",
            "ClusterSecretStore",
            "openbao-cluster-store",
            "",
            &json!({"status": is("store", "Ready")}),
        );
        css["metadata"]["namespace"] = Value::Null;
        vec![
            lab(&waits_for("nova/nova")),
            object("external-secrets.io/v1", "ExternalSecret", "nova-keystone-credentials", "", &external),
            object("external-secrets.io/v1alpha1", "PushSecret", "nova-app-credential", "", &push),
            css,
            object("c5c3.io/v1alpha1", "CredentialRotation", "nova-rotation", "", &rotation),
            object(
                "openstack.k-orc.cloud/v1alpha1",
                "ApplicationCredential",
                "nova-app-credential-v1",
                "",
                &credential,
            ),
            object("openstack.k-orc.cloud/v1alpha1", "User", "nova-service-user", "", &user),
        ]
    }

    #[test]
    fn a_credential_that_does_not_arrive_is_followed_to_the_store() {
        let failing = [
            ("external", not_ready("SecretSyncedError", "could not get secret data from provider")),
            ("push", not_ready("Errored", "set secret failed")),
            (
                "store",
                not_ready("InvalidProviderConfig", "https://openbao.openbao-system.svc:8200: connection refused"),
            ),
        ];
        insta::assert_snapshot!(held_back(&failing));
    }

    #[test]
    fn a_credential_that_does_not_arrive_is_followed_to_the_push() {
        let failing = [
            ("external", not_ready("SecretSyncedError", "openstack/nova/app-credential is not in the store")),
            ("push", not_ready("Errored", "403 permission denied")),
        ];
        insta::assert_snapshot!(held_back(&failing));
    }

    #[test]
    fn a_credential_that_does_not_arrive_is_followed_to_keystone() {
        let failing = [
            ("external", not_ready("SecretSyncedError", "openstack/nova/app-credential is not in the store")),
            ("push", not_ready("Errored", "the Secret nova-app-credential is not there")),
            ("rotation", not_ready("Creating", "waiting")),
            ("rotation waits", waits_for("applicationcredential/nova-app-credential-v1")),
            (
                "credential",
                json!({"type": "Available", "status": "False", "reason": "InvalidConfiguration",
                "message": "Keystone refused the request: 403", "observedGeneration": 1}),
            ),
        ];
        insta::assert_snapshot!(held_back(&failing));
    }

    #[test]
    fn a_credential_that_arrived_in_the_store_ends_at_the_external_secret() {
        let failing = [("external", not_ready("SecretSyncedError", "the Secret belongs to the Deployment web"))];
        let text = held_back(&failing);
        assert!(
            text.contains("externalsecret/nova-keystone-credentials") && text.contains("belongs to the Deployment web"),
            "{text}"
        );
        assert!(!text.contains("pushsecret") && !text.contains("create it by hand"), "{text}");
    }

    /// The object that is named last.
    fn last(text: &str) -> &str {
        let label = text.lines().rev().find_map(|line| line.split_once("─ "));
        label.and_then(|(_, label)| label.split("  ").next()).unwrap_or_default()
    }

    #[test]
    fn each_link_of_a_broken_chain_is_the_last_that_is_named() {
        let external = || ("external", not_ready("SecretSyncedError", "the key is not in the store"));
        let push = || ("push", not_ready("Errored", "the Secret nova-app-credential is not there"));
        let store = ("store", not_ready("InvalidProviderConfig", "connection refused"));
        let down = |message: &str| {
            json!({"type": "Available", "status": "False", "reason": "TransientError", "message": message,
                   "observedGeneration": 1})
        };
        let rotation = |waits_for_it: &str| {
            [("rotation", not_ready("WaitingForKeystone", "waiting")), ("rotation waits", waits_for(waits_for_it))]
        };
        let [held, by_credential] = rotation("applicationcredential/nova-app-credential-v1");
        let [_, by_user] = rotation("user/nova-service-user");
        let silent = ("credential", down("Keystone is silent"));
        let rows = [
            ("externalsecret/nova-keystone-credentials", "the key is not in the store", vec![external()]),
            ("pushsecret/nova-app-credential", "nova-app-credential is not there", vec![external(), push()]),
            ("clustersecretstore/openbao-cluster-store", "connection refused", vec![external(), push(), store]),
            (
                "applicationcredential/nova-app-credential-v1",
                "Keystone is silent",
                vec![external(), push(), held.clone(), by_credential.clone(), silent.clone()],
            ),
            (
                "user/nova-service-user",
                "no such domain",
                vec![external(), push(), held.clone(), by_user, ("user", down("no such domain"))],
            ),
            (
                "user/nova-service-user",
                "the credential is not accepted",
                vec![
                    held.clone(),
                    by_credential.clone(),
                    ("credential", down("Waiting for User/nova-service-user to be ready")),
                    ("user", down("the credential is not accepted")),
                ],
            ),
            // Without a store, the rotation writes the Secret itself.
            ("applicationcredential/nova-app-credential-v1", "Keystone is silent", vec![held, by_credential, silent]),
        ];
        for (link, says, failing) in rows {
            let text = held_back(&failing);
            assert!(last(&text) == link && text.contains(says), "{link}:\n{text}");
        }
    }

    /// A service whose Job signs in, or whose pods run, with a credential; the pod of it has this status.
    fn with_pod(kind: &str, failing: Failing<'_>, status: &Value) -> String {
        let (version, name) = if kind == "Job" { ("batch/v1", "nova-auth") } else { ("apps/v1", "nova-api") };
        let says = if kind == "Job" {
            json!({"failed": 3, "conditions": [{"type": "Failed", "status": "True", "message": "backoff limit"}]})
        } else {
            json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1})
        };
        let mut objects = chain(failing);
        objects.push(nova(&json!([{"object": format!("{}/{name}", kind.to_lowercase()), "condition": "is done"}])));
        objects.push(object(version, kind, name, "nova-nova", &json!({"spec": {"replicas": 1}, "status": says})));
        let owner = format!("{}-{name}", kind.to_lowercase());
        objects.push(object("v1", "Pod", &format!("{name}-x"), &owner, &json!({ "status": status })));
        why(objects)
    }

    #[test]
    fn a_credential_that_is_refused_ends_at_the_pod_that_signs_in_with_it() {
        let ended = json!({"exitCode": 1, "reason": "Error", "message": "starting\nKeystone refused it: 401\n"});
        let status = json!({"phase": "Failed", "containerStatuses": [{
            "name": "auth", "image": "nova", "restartCount": 0, "state": {"terminated": ended}}]});
        let text = with_pod("Job", &[], &status);
        assert_eq!(last(&text), "pod/nova-auth-x", "{text}");
        assert!(text.contains("its last line: Keystone refused it: 401"), "{text}");
    }

    #[test]
    fn a_pod_that_waits_for_a_delivered_secret_is_followed_to_what_holds_that_up() {
        let absent = "secret \"nova-keystone-credentials\" not found";
        let waiting = json!({"reason": "CreateContainerConfigError", "message": absent});
        let status = json!({"phase": "Pending", "containerStatuses": [{
            "name": "api", "image": "nova", "restartCount": 0, "state": {"waiting": waiting}}]});
        let external = || ("external", not_ready("SecretSyncedError", "the key is not in the store"));
        let push = ("push", not_ready("Errored", "403 permission denied"));
        let text = with_pod("Deployment", &[external(), push], &status);
        assert_eq!(last(&text), "pushsecret/nova-app-credential", "{text}");
        assert!(text.contains("pod/nova-api-x"), "{text}");
        // Of a Secret that nothing delivers there is nothing more to say.
        let text = with_pod("Deployment", &[], &status);
        assert_eq!(last(&text), "pod/nova-api-x", "{text}");
        assert!(text.contains(absent), "{text}");
    }
}
