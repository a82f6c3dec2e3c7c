//! Looks for the values of all Secrets where no one should find one: logs, events, objects that are not Secrets, arguments
//! and environments of processes.

use std::collections::BTreeMap;
use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::passwords::services;
use crate::machine::Machine;

/// Keys whose values are public: certificates, where a server is and what its accounts are called, what a Ceph is called, and
/// the ids of application credentials, which K-ORC's objects have in their status.
const PUBLIC: &[&str] = &[
    "RABBITMQ_USERNAME",
    "application_credential_id",
    "auth_url",
    "ca.crt",
    "cacert",
    "ceph-username",
    "database",
    "fsid",
    "host",
    "mon_host",
    "mon_initial_members",
    "monitors",
    "namespace",
    "port",
    "project_domain_name",
    "project_name",
    "provider",
    "region_name",
    "tls.crt",
    "type",
    "user",
    "userID",
    "user_domain_name",
    "username",
    "uuid",
];

/// What is secret of a `clouds.yaml`.
const WITHIN_CLOUDS: &[&str] = &["application_credential_secret", "password"];

/// Shorter than this nothing is random enough to be a secret: they are names, numbers and switches.
const SHORTEST: usize = 12;

/// What is looked for, with the Secrets and keys that it is the value of.
struct Needles(BTreeMap<String, String>);

impl Needles {
    fn of(secrets: &Value) -> Self {
        let mut needles: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for secret in secrets["items"].as_array().unwrap() {
            let name = format!("{}/{}", text(&secret["metadata"]["namespace"]), text(&secret["metadata"]["name"]));
            for (key, value) in secret["data"].as_object().into_iter().flatten() {
                if PUBLIC.contains(&key.as_str()) {
                    continue;
                }
                let encoded = text(value);
                let bytes = STANDARD.decode(encoded).unwrap();
                let whole = String::from_utf8_lossy(&bytes).trim().to_owned();
                // Of a key or a file it would be enough to tell a part: of a key any line will do.
                let lines = whole.lines().filter(|_| whole.contains("PRIVATE KEY")).map(str::to_owned);
                let lines: Vec<String> = lines.filter(|line| !line.starts_with("-----")).collect();
                for needle in lines.into_iter().chain(within(&whole)).chain([whole.clone(), encoded.to_owned()]) {
                    if needle.len() >= SHORTEST {
                        // A credential is in the Secret that it was made from, too.
                        needles.entry(needle).or_default().push(format!("{name}: {key}"));
                    }
                }
            }
        }
        Self(needles.into_iter().map(|(needle, names)| (needle, names.join(" "))).collect())
    }

    /// Whose values are in a text. Never the values.
    fn within(&self, hay: &str) -> Vec<&String> {
        self.0.iter().filter(|(needle, _)| hay.contains(needle.as_str())).map(|(_, name)| name).collect()
    }
}

/// The secrets within a `clouds.yaml`, each for itself.
fn within(file: &str) -> Vec<String> {
    let fields = file.lines().filter_map(|line| line.trim().split_once(':'));
    let secret = fields.filter(|(field, _)| WITHIN_CLOUDS.contains(&field.trim_matches('"')));
    secret.map(|(_, value)| value.trim().trim_matches(['"', '\'', ',']).to_owned()).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Asserts that no value of a Secret is anywhere else.
pub fn search(machine: &Machine) {
    let secrets: Value = serde_json::from_str(&machine.ok("kubectl get secrets -A -o json")).unwrap();
    let needles = Needles::of(&secrets);
    let known = |part: &str| needles.0.values().any(|name| name.contains(part));
    for part in ["keystone-fernet-keys", "keystone-admin-credentials: password", "keystone-config-", "mariadb-root"] {
        assert!(known(part), "{part} is not looked for: {:?}", needles.0.values());
    }
    for part in credentials(machine) {
        assert!(known(&part), "{part} is not looked for: {:?}", needles.0.values());
    }
    let mut found = Vec::new();
    for (place, hay) in places(machine) {
        found.extend(needles.within(&hay).into_iter().map(|name| format!("{name} appears in {place}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What must be looked for because something of the cloud signs in with it: the credentials of every rotation, the passwords
/// of every user.
fn credentials(machine: &Machine) -> Vec<String> {
    let listed = |kind: &str| -> Vec<Value> {
        let list: Value = serde_json::from_str(&machine.ok(&format!("kubectl get {kind} -A -o json"))).unwrap();
        list["items"].as_array().cloned().unwrap_or_default()
    };
    let made = listed("applicationcredentials.openstack.k-orc.cloud").into_iter();
    let made = made.map(|credential| format!("{}: value", text(&credential["spec"]["resource"]["secretRef"])));
    let users = listed("users.openstack.k-orc.cloud").into_iter();
    let users = users.filter(|user| user["spec"]["resource"]["passwordRef"].is_string());
    let users = users.map(|user| format!("{}: password", text(&user["spec"]["resource"]["passwordRef"])));
    made.chain(users).collect()
}

/// Everywhere that is looked, each with something that must be there, so that a place that is empty is noticed.
fn places(machine: &Machine) -> Vec<(String, String)> {
    let mut places = objects(machine);
    let pods: Value = serde_json::from_str(&machine.ok("kubectl get pods -A -o json")).unwrap();
    let pods = pods["items"].as_array().unwrap();
    let serving = serving(machine, pods);
    places.extend(logs(machine, pods, &serving));
    places.extend(processes(&serving));
    places
}

/// Everything that can be listed but Secrets: events, pods, Jobs, ConfigMaps, objects of ours and of others.
fn objects(machine: &Machine) -> Vec<(String, String)> {
    let kinds = "kubectl api-resources --verbs=list -o name | grep -v -x secrets | paste -s -d,";
    let listed: Value = serde_json::from_str(&machine.ok(&format!("kubectl get $({kinds}) -A -o json"))).unwrap();
    let name = |object: &Value| format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]));
    let objects = listed["items"].as_array().unwrap().iter().map(|object| (name(object), object.to_string()));
    let objects: Vec<(String, String)> = objects.collect();
    for kind in ["Event ", "Pod ", "Job ", "ConfigMap ", "ControlPlane ", "Keystone ", "MariaDB "] {
        assert!(objects.iter().any(|(name, _)| name.starts_with(kind)), "no {kind}was looked at");
    }
    // Kinds that carry credentials along, wherever there are some.
    let resources = machine.ok("kubectl api-resources --verbs=list -o name");
    for kind in [
        "applicationcredentials.openstack.k-orc.cloud",
        "credentialrotations.c5c3.io",
        "externalsecrets.external-secrets.io",
        "pushsecrets.external-secrets.io",
        "users.openstack.k-orc.cloud",
    ] {
        assert!(resources.lines().any(|listed| listed == kind), "{kind} are not looked at");
    }
    objects
}

/// Keystone, and the services that sign in to it and have a pod that is ready.
fn serving(machine: &Machine, pods: &[Value]) -> Vec<String> {
    let is_ready = |pod: &Value| {
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    let name = |pod: &Value| text(&pod["metadata"]["labels"]["app.kubernetes.io/name"]).to_owned();
    let ready: Vec<String> = pods.iter().filter(|pod| is_ready(pod)).map(name).collect();
    let others = services(machine).into_iter().filter(|service| ready.contains(service));
    others.chain(["keystone".to_owned()]).collect()
}

/// What all pods of all namespaces and the cluster's own processes have written.
fn logs(machine: &Machine, pods: &[Value], serving: &[String]) -> Vec<(String, String)> {
    let mut logs: Vec<_> = pods.iter().map(|pod| of_pod(machine, pod)).collect();
    for service in serving {
        let its = logs.iter().filter(|(name, _)| name.starts_with(&format!("the log of cloud/{service}-")));
        assert!(its.map(|(_, log)| log.len()).sum::<usize>() > 0, "{service} says nothing");
    }
    let nodes = fs::read_dir(machine.data().join("nodes")).unwrap().map(|node| node.unwrap().path().join("agent.log"));
    let nodes: Vec<_> = nodes.collect();
    assert!(!nodes.is_empty(), "no node was looked at");
    for path in nodes.into_iter().chain([machine.data().join("c5c3.log")]) {
        let log = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        logs.push((path.display().to_string(), log));
    }
    logs
}

/// What a pod has written, also before it was started again.
fn of_pod(machine: &Machine, pod: &Value) -> (String, String) {
    let (namespace, name) = (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
    // One that was being ended when they were listed may be gone, and one that waits to start has none.
    let log = format!("kubectl -n {namespace} logs {name} --all-containers");
    let phase = format!("kubectl -n {namespace} get pod {name} --ignore-not-found -o jsonpath='{{.status.phase}}'");
    let mut said = machine.ok(&format!("{log} || case \"$({phase})\" in ''|Pending) ;; *) exit 1;; esac"));
    let containers = ["initContainerStatuses", "containerStatuses"];
    let mut containers = containers.iter().flat_map(|kind| pod["status"][*kind].as_array().into_iter().flatten());
    if containers.any(|container| container["restartCount"].as_u64() > Some(0)) {
        said += &machine.ok(&format!("{log} --previous 2>/dev/null || true"));
    }
    (format!("the log of {namespace}/{name}"), said)
}

/// The arguments and the environment of every process on the machine, those of containers among them.
fn processes(serving: &[String]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let process = entry.file_name().to_string_lossy().into_owned();
        if process.parse::<u32>().is_err() {
            continue;
        }
        // One that has ended meanwhile has nothing to tell.
        let read = |what: &str| fs::read(entry.path().join(what)).unwrap_or_default();
        let [arguments, environment] =
            ["cmdline", "environ"].map(|what| String::from_utf8_lossy(&read(what)).into_owned());
        let name = arguments.split('\0').next().unwrap_or_default().to_owned();
        all.push((format!("the arguments of {name} ({process})"), arguments));
        all.push((format!("the environment of {name} ({process})"), environment));
    }
    let signs = ["OS_KEYSTONE_CONFIG_DIR=", "mariadbd", "node-agent"].map(str::to_owned);
    for sign in signs.into_iter().chain(serving.iter().map(|service| format!("/opt/{service}/bin/"))) {
        assert!(all.iter().any(|(_, hay)| hay.contains(&sign)), "no process has {sign}");
    }
    all
}

#[test]
fn the_secrets_of_a_clouds_yaml_are_looked_for_and_its_names_are_not() {
    let clouds = "clouds:\n  openstack:\n    auth:\n      auth_url: http://keystone.cloud.svc:5000\n      \
        application_credential_id: 0123456789abcdef\n      application_credential_secret: \"a riddle for owls\"\n";
    let secret = serde_json::json!({"items": [{"metadata": {"namespace": "cloud", "name": "nova-app-credential"}, "data": {
        "clouds.yaml": STANDARD.encode(clouds), "application_credential_id": STANDARD.encode("0123456789abcdef")}}]});
    let needles = Needles::of(&secret);
    assert_eq!(needles.within("it says: a riddle for owls"), ["cloud/nova-app-credential: clouds.yaml"]);
    assert!(needles.within("application_credential_id: 0123456789abcdef").is_empty());
}
