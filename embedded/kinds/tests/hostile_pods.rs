//! Pods that name paths, devices, settings, profiles and hosts beyond their own: each is refused, in a pod and in a
//! template. And no field that could name such is forgotten: those of the schema are here, or it is said why not.

use std::collections::BTreeSet;

use c5c3_kinds::{builtin, default, find, schema, validate};
use serde_json::{Value, json};

/// A field of a pod, with values that reach beyond what is the pod's.
struct Case {
    /// As messages name it, with the index 0 in every list.
    field: &'static str,
    values: &'static [&'static str],
    /// What else the pod has, so that only this field is wrong.
    beside: fn() -> Value,
}

const ESCAPES: &[&str] = &["/etc/cron.d/x", "../x", "a/../../x", "..", "..data/x"];
const STEPS_BACK: &[&str] = &["../x", "a/../../x", ".."];
const NO_HOSTS: &[&str] = &["10.0.0.1 evil", "10.0.0.1\nnameserver 10.6.6.6", "evil.example", "10.0.0.256"];
const NO_NAMES: &[&str] = &["a/b", "../x", "A", "a\nb", "a b"];

fn nothing() -> Value {
    json!({})
}

/// A case of a field that needs nothing beside it.
const fn case(field: &'static str, values: &'static [&'static str]) -> Case {
    Case { field, values, beside: nothing }
}

const fn beside(field: &'static str, values: &'static [&'static str], beside: fn() -> Value) -> Case {
    Case { field, values, beside }
}

fn local_profile() -> Value {
    json!({"securityContext": {"seccompProfile": {"type": "Localhost"}, "appArmorProfile": {"type": "Localhost"}}})
}

fn local_profile_of_container() -> Value {
    json!({"containers": [local_profile()]})
}

fn a_mount() -> Value {
    json!({"volumes": [{"name": "v", "emptyDir": {}}], "containers": [{"volumeMounts": [{"name": "v", "mountPath": "/v"}]}]})
}

fn a_device() -> Value {
    json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}], "containers": [{"volumeDevices": [{"name": "v"}]}]})
}

fn a_port() -> Value {
    json!({"containers": [{"ports": [{"containerPort": 80, "hostPort": 80}]}]})
}

const CASES: &[Case] = &[
    case("volumes[0].configMap.items[0].path", ESCAPES),
    case("volumes[0].secret.items[0].path", ESCAPES),
    case("volumes[0].downwardAPI.items[0].path", ESCAPES),
    case("volumes[0].projected.sources[0].configMap.items[0].path", ESCAPES),
    case("volumes[0].projected.sources[0].secret.items[0].path", ESCAPES),
    case("volumes[0].projected.sources[0].downwardAPI.items[0].path", ESCAPES),
    case("volumes[0].projected.sources[0].serviceAccountToken.path", ESCAPES),
    case("volumes[0].projected.sources[0].clusterTrustBundle.path", ESCAPES),
    case("volumes[0].hostPath.path", STEPS_BACK),
    case("volumes[0].hostPath.type", &["Link", "directory"]),
    case("volumes[0].nfs.path", &["export", "../x"]),
    case("volumes[0].gitRepo.directory", &["/etc", "../x"]),
    beside("containers[0].volumeMounts[0].subPath", &["/etc", "../x", "a/../.."], a_mount),
    beside("containers[0].volumeMounts[0].subPathExpr", &["/etc", "../$(NAME)", "$(NAME)/.."], a_mount),
    beside("containers[0].volumeDevices[0].devicePath", STEPS_BACK, a_device),
    case("securityContext.sysctls[0].name", &["/etc/passwd", "kernel/../x", "foo-", "bar..", "A.b", "a b", "a\nb"]),
    beside("securityContext.seccompProfile.localhostProfile", &["/etc/shadow", "../../x", "a/.."], local_profile),
    beside(
        "containers[0].securityContext.seccompProfile.localhostProfile",
        &["/etc/shadow", "../../x", "a/.."],
        local_profile_of_container,
    ),
    beside("securityContext.appArmorProfile.localhostProfile", &[" x", "x\n"], local_profile),
    beside(
        "containers[0].securityContext.appArmorProfile.localhostProfile",
        &[" x", "x\n"],
        local_profile_of_container,
    ),
    case("containers[0].securityContext.procMount", &["None", "unmasked"]),
    beside("containers[0].ports[0].hostIP", NO_HOSTS, a_port),
    case("hostAliases[0].ip", NO_HOSTS),
    case("hostAliases[0].hostnames[0]", NO_NAMES),
    case("dnsConfig.nameservers[0]", NO_HOSTS),
    case("dnsConfig.searches[0]", NO_NAMES),
    case("hostname", NO_NAMES),
    case("subdomain", NO_NAMES),
    case("nodeName", NO_NAMES),
    case("serviceAccountName", NO_NAMES),
    case("volumes[0].name", NO_NAMES),
    case("containers[0].name", NO_NAMES),
];

/// Fields that sound alike and need no rule, each with the reason.
const HARMLESS: &[(&str, &str)] = &[
    ("affinity", "a place to run, matched with labels of nodes"),
    ("topologySpreadConstraints", "a place to run, matched with labels of nodes"),
    ("workingDir", "of the container's own file system, resolved by the runtime within it"),
    ("terminationMessagePath", "of the container's own file system, resolved by the runtime within it"),
    ("mountPath", "of the container's own file system, resolved by the runtime within it"),
    ("fieldPath", "a field of the pod, from a list of those that are known"),
    ("httpGet.host", "asked by the node from its own network, as upstream; whoever may create pods may ask from there"),
    ("httpGet.path", "part of a request"),
    ("tcpSocket.host", "as httpGet.host"),
    ("setHostnameAsFQDN", "a boolean"),
    ("nfs.server", "no node here mounts NFS"),
    ("windowsOptions", "no node runs Windows"),
];

/// Volumes that no node here mounts: a pod with one waits with `no volume plugin matched`.
const UNMOUNTED: &[&str] = &[
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "iscsi",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
    "image",
    "ephemeral",
];

/// Puts a value where a field is, making what leads to it.
fn put(spec: &mut Value, field: &str, value: Value) {
    let mut at = spec;
    for step in field.replace("[0]", ".0").split('.') {
        if step == "0" {
            if !at.is_array() {
                *at = json!([{}]);
            }
            at = &mut at[0];
        } else {
            at = &mut at[step];
        }
    }
    *at = value;
}

fn merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            more.iter().for_each(|(key, value)| merge(into.entry(key.clone()).or_insert(Value::Null), value));
        }
        (Value::Array(into), Value::Array(more)) => {
            into.iter_mut().zip(more).for_each(|(into, more)| merge(into, more));
        }
        (into, more) => *into = more.clone(),
    }
}

/// What is wrong with a pod spec, in a pod and in the template of a Deployment.
fn problems(spec: &Value) -> [Vec<String>; 2] {
    let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": spec});
    let deployment = json!({"selector": {"matchLabels": {"app": "x"}}, "template": template});
    [("", "pods", json!(spec)), ("apps", "deployments", deployment)].map(|(group, plural, spec)| {
        let resource = find(group, "v1", plural).unwrap();
        let mut object = json!({"metadata": {"name": "x", "namespace": "y"}, "spec": spec});
        default(resource, &mut object);
        validate(resource, &object, None).iter().map(ToString::to_string).collect()
    })
}

#[test]
fn what_a_pod_names_beyond_its_own_is_refused() {
    for case in CASES {
        for value in case.values {
            let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
            merge(&mut spec, &(case.beside)());
            put(&mut spec, case.field, json!(value));
            for (found, start) in problems(&spec).iter().zip(["spec.", "spec.template.spec."]) {
                let at = format!("{start}{}: ", case.field);
                assert!(
                    found.iter().any(|problem| problem.starts_with(&at)),
                    "{at}{value:?} is let through: {found:#?}"
                );
            }
        }
    }
}

/// The names of all fields that hold strings, with the index 0 in every list.
fn leaves(schema: &Value, at: &str, found: &mut BTreeSet<String>) {
    let deeper = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        leaves(schema, &deeper(name), found);
    }
    if !schema["items"].is_null() {
        leaves(&schema["items"], &format!("{at}[0]"), found);
    }
    if schema["type"] == "string" {
        found.insert(at.to_owned());
    }
}

#[test]
fn no_field_that_could_name_such_is_forgotten() {
    let pods = builtin().iter().find(|resource| resource.group.is_empty() && resource.plural == "pods").unwrap();
    let mut fields = BTreeSet::new();
    leaves(&schema(pods)["properties"]["spec"], "", &mut fields);
    assert!(fields.len() > 200, "the schema is not read: {}", fields.len());
    let words =
        ["path", "device", "host", "sysctl", "profile", "directory", "server", "hostip", "nodename", "procmount"];
    let names_something = |field: &&String| {
        let last = field.rsplit('.').next().unwrap_or_default().to_lowercase();
        words.iter().any(|word| last.contains(word)) || last == "ip" || field.contains("sysctls[0].name")
    };
    let is_told = |field: &str| {
        let of_container =
            field.replacen("initContainers", "containers", 1).replacen("ephemeralContainers", "containers", 1);
        let is_unmounted = |kind: &&&str| field.starts_with(&format!("volumes[0].{kind}."));
        CASES.iter().any(|case| case.field == of_container)
            || UNMOUNTED.iter().find(is_unmounted).is_some()
            || HARMLESS.iter().any(|(part, _)| field.contains(part))
    };
    let forgotten: Vec<&String> = fields.iter().filter(names_something).filter(|field| !is_told(field)).collect();
    assert_eq!(forgotten, Vec::<&String>::new(), "fields without a case and without a reason");
}
