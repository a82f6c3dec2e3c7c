//! `c5c3 status`, `why`, `plan` and `support` on another cluster, with the rights of a kubeconfig.

use std::io::Write as _;
use std::process::{Command, Stdio};

use c5c3_contracts::Contract;
use c5c3_harness::TestCluster;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::json;
use tokio::io::AsyncBufReadExt as _;

/// What a command prints, and its exit code.
async fn c5c3(kubeconfig: std::path::PathBuf, arguments: &'static [&'static str]) -> (String, Option<i32>) {
    let run = move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_c5c3"));
        let output = command.args(arguments).env("KUBECONFIG", kubeconfig).output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (text, output.status.code())
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_that_waits_is_shown_with_its_reason() {
    let cluster = TestCluster::start().await.unwrap();
    cluster.install(&c5c3_api::find("c5c3.io/v1alpha1", "ControlPlane").unwrap().crd()).await.unwrap();
    let port = cluster.listen().unwrap();
    let kubeconfig = port.kubeconfig();
    let (text, code) = c5c3(kubeconfig.clone(), &["status"]).await;
    assert!(text.contains("there is no ControlPlane") && code == Some(1), "{code:?} {text}");

    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("c5c3.io", "v1alpha1", "ControlPlane"));
    let planes: Api<DynamicObject> = Api::namespaced_with(cluster.client(), cluster.namespace(), &resource);
    let plane = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane", "metadata": {"name": "lab"},
        "spec": {"services": {"keystone": {}}}});
    let params = PatchParams::apply("test").force();
    planes.patch("lab", &params, &Patch::Apply(plane)).await.unwrap();
    let status = json!({"status": {"phase": "Infrastructure", "waitingFor": [{"object": "storageclass/gold",
        "condition": "exists", "because": "spec.infrastructure.mariadb.storageClass names it (does not exist)", "failed": true}],
        "conditions": [{"type": "Ready", "status": "False", "reason": "StorageClassMissing", "message": "it is missing"}],
        "services": {"keystone": {"ready": false, "message": "does not exist yet"}}}});
    planes.patch_status("lab", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();

    let (text, code) = c5c3(kubeconfig.clone(), &["why"]).await;
    assert!(text.contains("storageclass/gold") && text.contains("mariadb.storageClass names it"), "{text}");
    assert_eq!(code, Some(1));
    let (text, code) = c5c3(kubeconfig.clone(), &["status"]).await;
    assert!(text.contains("✗ controlplane/lab") && text.contains("· keystone"), "{text}");
    assert_eq!(code, Some(1), "something is not ready");
    let (text, code) = c5c3(kubeconfig.clone(), &["why", "cp/lab"]).await;
    assert!(text.contains("storageclass/gold") && code == Some(1), "{text}");
    let (text, code) = c5c3(kubeconfig, &["why", "keystone/keystone"]).await;
    assert!(text.contains("there is no keystone/keystone") && code == Some(2), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_status_is_shown_again_when_it_changes() {
    let cluster = TestCluster::start().await.unwrap();
    cluster.install(&c5c3_api::find("c5c3.io/v1alpha1", "ControlPlane").unwrap().crd()).await.unwrap();
    let port = cluster.listen().unwrap();
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_c5c3"));
    command.args(["status", "-w"]).env("KUBECONFIG", port.kubeconfig());
    let mut watching = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = tokio::io::BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut until = async |part: &str| {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(part) {
                return;
            }
        }
        panic!("it ended without a line with {part}");
    };
    until("there is no ControlPlane").await;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("c5c3.io", "v1alpha1", "ControlPlane"));
    let planes: Api<DynamicObject> = Api::namespaced_with(cluster.client(), cluster.namespace(), &resource);
    let plane = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane", "metadata": {"name": "lab"},
        "spec": {"services": {"keystone": {}}}});
    planes.patch("lab", &PatchParams::apply("test").force(), &Patch::Apply(plane)).await.unwrap();
    until("controlplane/lab").await;
    let status = json!({"status": {"phase": "Ready",
        "conditions": [{"type": "Ready", "status": "False", "reason": "StorageClassMissing", "message": "it is missing"}]}});
    planes.patch_status("lab", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    until("controlplane/lab").await;
    assert!(watching.try_wait().unwrap().is_none(), "it stays");
}

/// Runs a command on a cluster with other variables, and gives what it prints on both channels, and its exit code.
async fn c5c3_with(
    variables: Vec<(&'static str, std::path::PathBuf)>,
    arguments: Vec<String>,
) -> (String, Option<i32>) {
    let run = move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_c5c3"));
        command.args(arguments).env_remove("KUBECONFIG").env_remove("C5C3_DATA").envs(variables);
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (text, output.status.code())
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_was_named_is_the_one_that_is_asked_or_it_is_an_error() {
    let cluster = TestCluster::start().await.unwrap();
    cluster.install(&c5c3_api::find("c5c3.io/v1alpha1", "ControlPlane").unwrap().crd()).await.unwrap();
    let port = cluster.listen().unwrap();
    // The data folder of a cluster that runs.
    let state = tempfile::tempdir().unwrap();
    let data = state.path().join("c5c3");
    std::fs::create_dir(&data).unwrap();
    std::fs::copy(port.kubeconfig(), data.join("kubeconfig")).unwrap();
    let broken = state.path().join("broken");
    std::fs::write(&broken, "clusters: [").unwrap();
    let home = || vec![("XDG_STATE_HOME", state.path().to_owned()), ("HOME", state.path().to_owned())];
    let namespace = cluster.namespace().to_owned();
    let status = |more: &[&str]| -> Vec<String> {
        let mut words = vec!["status", "-n", namespace.as_str()];
        words.extend(more);
        words.into_iter().map(ToOwned::to_owned).collect()
    };

    let (text, code) = c5c3_with(home(), status(&[])).await;
    assert!(text.contains("there is no ControlPlane") && code == Some(1), "{code:?} {text}");
    for wrong in ["/nonexistent", broken.to_str().unwrap()] {
        let mut variables = home();
        variables.push(("KUBECONFIG", wrong.into()));
        let (text, code) = c5c3_with(variables.clone(), status(&[])).await;
        assert!(text.contains("cannot read the kubeconfig") && text.contains(wrong), "{text}");
        assert_eq!(code, Some(2));
        let named = data.to_str().unwrap();
        let (text, code) = c5c3_with(variables, status(&["--data", named])).await;
        assert!(text.contains("there is no ControlPlane") && code == Some(1), "a flag beats it: {text}");
    }
    let (text, code) = c5c3_with(home(), status(&["--data", "/nonexistent"])).await;
    assert!(text.contains("there is no cluster in /nonexistent") && code == Some(2), "{text}");
    let (text, code) = c5c3_with(home(), vec!["why".into(), "-n".into(), "typo".into()]).await;
    assert!(text.contains("there is no namespace typo") && code == Some(2), "{text}");
    let (text, code) = c5c3_with(home(), status(&["-o", "json"])).await;
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&value["ready"], code), (&json!(false), Some(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_without_rights_is_told_so_and_the_role_view_is_enough() {
    let Some(cluster) = TestCluster::embedded("it impersonates a person").await.unwrap() else { return };
    cluster.install(&c5c3_api::find("c5c3.io/v1alpha1", "ControlPlane").unwrap().crd()).await.unwrap();
    let port = cluster.listen().unwrap();
    let mut kubeconfig: serde_json::Value =
        serde_saphyr::from_str(&std::fs::read_to_string(port.kubeconfig()).unwrap()).unwrap();
    kubeconfig["users"][0]["user"]["as"] = json!("ada");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    let (text, code) = c5c3(file.clone(), &["status"]).await;
    assert!(text.contains("you may not list controlplanes") && code == Some(2), "{code:?} {text}");
    let (text, code) = c5c3(file.clone(), &["why"]).await;
    assert!(text.contains("you may not list controlplanes") && code == Some(2), "{code:?} {text}");

    let roles = Command::new(env!("CARGO_BIN_EXE_c5c3")).arg("manifests").output().unwrap().stdout;
    let roles: Vec<serde_json::Value> = serde_saphyr::from_multiple(&String::from_utf8(roles).unwrap()).unwrap();
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "ada"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ada"}]});
    for object in roles
        .iter()
        .filter(|role| role["metadata"]["name"] == "c5c3-view" && role["kind"] == "ClusterRole")
        .chain([&binding])
    {
        let kind = object["kind"].as_str().unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", kind));
        let api: Api<DynamicObject> = Api::all_with(cluster.client(), &resource);
        let name = object["metadata"]["name"].as_str().unwrap();
        api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(object)).await.unwrap();
    }
    // The cluster adds the rules to `view` by itself, a moment later.
    let begun = std::time::Instant::now();
    loop {
        let (text, code) = c5c3(file.clone(), &["status"]).await;
        if text.contains("there is no ControlPlane") && code == Some(1) {
            return;
        }
        assert!(begun.elapsed() < std::time::Duration::from_mins(1), "{code:?} {text}");
    }
}

/// A CredentialRotation of the user nova, and the Secret that it delivers.
async fn with_rotation(cluster: &TestCluster) -> Api<DynamicObject> {
    cluster.install(&c5c3_api::find("c5c3.io/v1alpha1", "CredentialRotation").unwrap().crd()).await.unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("c5c3.io", "v1alpha1", "CredentialRotation"));
    let rotations: Api<DynamicObject> = Api::namespaced_with(cluster.client(), cluster.namespace(), &resource);
    let rotation = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "CredentialRotation", "metadata": {"name": "nova-rotation"},
        "spec": {"targetServiceUser": "nova-service-user", "rotationType": "applicationCredential",
                 "schedule": {"intervalDays": 90, "preRotationDays": 7}}});
    let params = PatchParams::apply("test").force();
    rotations.patch("nova-rotation", &params, &Patch::Apply(rotation)).await.unwrap();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "nova-keystone-credentials"},
        "stringData": {"application_credential_secret": "a riddle for owls"}});
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), cluster.namespace());
    secrets.patch("nova-keystone-credentials", &params, &Patch::Apply(secret)).await.unwrap();
    rotations
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_listed_without_their_values() {
    let cluster = TestCluster::start().await.unwrap();
    let rotations = with_rotation(&cluster).await;
    let port = cluster.listen().unwrap();
    let (text, code) = c5c3(port.kubeconfig(), &["credentials"]).await;
    assert!(text.contains("nova-service-user") && text.contains("nova-keystone-credentials"), "{text}");
    assert!(code == Some(1) && text.contains("is the operator of c5c3.io running?"), "{code:?} {text}");
    let status = json!({"status": {"nextRotation": "2099-01-01T00:00:00Z", "conditions": [{"type": "Ready", "status": "True"}],
        "currentCredential": {"id": "x", "createdAt": "2026-01-01T00:00:00Z"}}});
    rotations.patch_status("nova-rotation", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let encoded = "YSByaWRkbGUgZm9yIG93bHM";
    for form in [&["credentials"] as &[&str], &["credentials", "-o", "json"], &["credentials", "-o", "yaml"]] {
        let (text, code) = c5c3(port.kubeconfig(), form).await;
        assert!(code == Some(0) && text.contains("nova-keystone-credentials"), "{code:?} {text}");
        assert!(!text.contains("riddle") && !text.contains(encoded), "{form:?} tells a value");
    }
    let (text, _) = c5c3(port.kubeconfig(), &["credentials", "-o", "json"]).await;
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["items"][0]["rotatesAt"], "2099-01-01T00:00:00Z");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_is_asked_for_by_its_name_or_that_of_its_user() {
    let cluster = TestCluster::start().await.unwrap();
    let rotations = with_rotation(&cluster).await;
    let port = cluster.listen().unwrap();
    let mut before = None;
    for name in [&["rotate", "nova-rotation"] as &[&str], &["rotate", "nova-service-user"], &["rotate", "--all"]] {
        let (text, code) = c5c3(port.kubeconfig(), name).await;
        assert!(code == Some(0) && text.contains("asked for a new credential"), "{code:?} {text}");
        let rotation = rotations.get("nova-rotation").await.unwrap();
        let asked = rotation.metadata.annotations.unwrap_or_default().remove("c5c3.io/rotate");
        assert!(asked.is_some() && asked != before, "{asked:?} follows {before:?}");
        before = asked;
    }
    let (text, code) = c5c3(port.kubeconfig(), &["rotate", "cinder-rotation"]).await;
    assert!(code == Some(2) && text.contains("there are nova-rotation"), "{code:?} {text}");
    let (text, code) = c5c3(port.kubeconfig(), &["rotate", "nova-rotation", "--wait", "--timeout", "1"]).await;
    assert!(code == Some(1) && text.contains("c5c3 why credentialrotation/nova-rotation"), "{code:?} {text}");
}

/// A cluster with all our kinds, and the kinds of other projects that a small ControlPlane creates.
async fn with_kinds() -> TestCluster {
    let cluster = TestCluster::start().await.unwrap();
    for kind in c5c3_api::all() {
        cluster.install(&kind.crd()).await.unwrap();
    }
    for (group, plural) in [("k8s.mariadb.com", "mariadbs"), ("rabbitmq.com", "rabbitmqclusters")] {
        let definition = Contract::find(group, plural).unwrap().definition();
        cluster.install(&serde_json::from_value(definition).unwrap()).await.unwrap();
    }
    cluster
}

/// Runs a command with a text as its standard input.
async fn c5c3_reading(kubeconfig: std::path::PathBuf, arguments: Vec<String>, text: String) -> (String, Option<i32>) {
    let run = move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_c5c3"));
        command.args(arguments).env("KUBECONFIG", kubeconfig).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (text, output.status.code())
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_tells_what_a_control_plane_becomes_and_writes_nothing() {
    let cluster = with_kinds().await;
    let (port, namespace) = (cluster.listen().unwrap(), cluster.namespace().to_owned());
    let plan = async |spec: &str, more: &[&str]| {
        let text = format!("apiVersion: c5c3.io/v1alpha1\nkind: ControlPlane\nmetadata: {{name: lab}}\nspec: {spec}\n");
        let words = ["plan", "-f", "-", "-n", &namespace].iter().chain(more).map(|word| (*word).to_owned()).collect();
        c5c3_reading(port.kubeconfig(), words, text).await
    };
    let small = "{services: {keystone: {}}}";
    let (text, code) = plan(small, &[]).await;
    assert_eq!(code, Some(1), "{text}");
    for expected in [
        "+ controlplane/lab",
        "+ mariadb/mariadb",
        "+ statefulset/memcached",
        "+ keystone/keystone",
        "after mariadb, memcached",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    let (text, _) = plan(small, &["-o", "json"]).await;
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&value["changes"], &value["items"][0]["fate"]), (&json!(true), &json!("created")), "{text}");
    assert!(value["summary"]["created"].as_u64().unwrap() > 4, "{text}");
    let resource = |group: &str, kind: &str| ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1alpha1", kind));
    let planes: Api<DynamicObject> =
        Api::namespaced_with(cluster.client(), &namespace, &resource("c5c3.io", "ControlPlane"));
    assert!(planes.get_opt("lab").await.unwrap().is_none(), "nothing was written");
    let databases: Api<DynamicObject> =
        Api::namespaced_with(cluster.client(), &namespace, &resource("k8s.mariadb.com", "MariaDB"));
    assert!(databases.get_opt("mariadb").await.unwrap().is_none(), "nothing was written");

    let (text, code) = plan("{infrastructure: {mariadb: {replicas: 2}}}", &[]).await;
    assert!(
        code == Some(2) && text.starts_with("-:4: controlplane/lab: spec.infrastructure.mariadb.replicas: is even"),
        "{text}"
    );

    // What may not be changed is refused as `validate --old` refuses it, and a change is printed with its values.
    let plane = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane", "metadata": {"name": "lab"},
        "spec": {"global": {"region": "RegionOne"}, "services": {"keystone": {"replicas": 1}}}});
    planes.patch("lab", &PatchParams::apply("test").force(), &Patch::Apply(plane)).await.unwrap();
    let (text, code) = plan("{global: {region: RegionTwo}, services: {keystone: {replicas: 1}}}", &[]).await;
    assert!(code == Some(2) && text.contains("spec.global.region: cannot be changed"), "{text}");
    let (text, code) = plan("{global: {region: RegionOne}, services: {keystone: {replicas: 2}}}", &[]).await;
    assert!(code == Some(1) && text.contains("spec.services.keystone.replicas") && text.contains("1 → 2"), "{text}");
}

/// Everything in a bundle, as one text.
fn unpacked(bundle: &std::path::Path) -> String {
    let output = Command::new("tar").args(["-xzOf", bundle.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_for_support_has_everything_but_secrets() {
    let cluster = with_kinds().await;
    let (port, namespace) = (cluster.listen().unwrap(), cluster.namespace().to_owned());
    let secrets = ["Tr0ub4dor-and-3", "riddleofowls", "p%40ss-in-a-url", "only-in-a-field"];
    let apply = async |version: &str, kind: &str, name: &str, rest: serde_json::Value| {
        let (group, plain) = version.split_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, plain, kind));
        let api: Api<DynamicObject> = Api::namespaced_with(cluster.client(), &namespace, &resource);
        let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(object)).await.unwrap();
        api
    };
    let data = json!({"stringData": {"username": "keystone", "password": secrets[0], "admin_password": secrets[1]}});
    apply("v1", "Secret", "keystone-db-credentials", data).await;
    let spec =
        json!({"spec": {"services": {"keystone": {"template": {"extraConfig": {"ldap": {"password": secrets[3]}}}}}}});
    let planes = apply("c5c3.io/v1alpha1", "ControlPlane", "lab", spec).await;
    let message = format!("mysql://keystone:{}@db refused {} and {}", secrets[2], secrets[0], secrets[1]);
    let status = json!({"status": {"phase": "Infrastructure", "conditions": [
        {"type": "Ready", "status": "False", "reason": "Refused", "message": message}]}});
    planes.patch_status("lab", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let about = json!({"involvedObject": {"kind": "ControlPlane", "name": "lab", "namespace": namespace},
        "type": "Warning", "reason": "Refused", "message": message, "lastTimestamp": "2026-01-01T00:00:00Z"});
    apply("v1", "Event", "lab.1", about).await;

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bundle.tar.gz");
    let words = ["support", "-n", &namespace, "--output", file.to_str().unwrap()].map(ToOwned::to_owned).to_vec();
    let (text, code) = c5c3_reading(port.kubeconfig(), words, String::new()).await;
    assert!(text.contains("bundle.tar.gz: ") && matches!(code, Some(0 | 1)), "{code:?} {text}");
    let all = unpacked(&file);
    for expected in
        ["name: lab", "reason: Refused", "keystone-db-credentials", "admin_password", "ControlPlane", "kubernetes:"]
    {
        assert!(all.contains(expected), "{expected} is not in\n{all}");
    }
    assert!(all.contains("mysql://keystone:<redacted>@db refused <redacted>"), "{all}");
    for secret in secrets {
        let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, secret);
        assert!(!all.contains(secret) && !all.contains(&encoded), "{secret} is in\n{all}");
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let command = format!("{} completions bash | head -1", env!("CARGO_BIN_EXE_c5c3"));
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let version = Command::new(env!("CARGO_BIN_EXE_c5c3")).args(["version", "-o", "json"]).output().unwrap();
    assert!(serde_json::from_slice::<serde_json::Value>(&version.stdout).unwrap()["version"].is_string());
}
