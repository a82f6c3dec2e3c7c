//! No pod of a service holds a password of Keystone: services sign in with application credentials.

use serde_json::Value;

use super::Cloud;
use super::accounts::value;
use crate::machine::Machine;

/// Prints the files of a container's folders, `files.sh POD CONTAINER FOLDER...`: what is larger than a configuration is data. A
/// pod that was ended since it was listed has none.
const FILES: &str = r#"
pod=$1; container=$2; shift 2
kubectl -n cloud exec "$pod" -c "$container" -- find -L "$@" -maxdepth 4 -type f -size -256k -exec cat {} + 2>errors.txt && exit
# Files come and go, and one that cannot be read is none that the service reads.
grep -q '^find:\|^cat:' errors.txt && exit
case "$(kubectl -n cloud get pod "$pod" --ignore-not-found -o jsonpath='{.status.phase}')" in
    ''|Succeeded|Failed) ;;
    *) cat errors.txt; exit 1 ;;
esac
"#;

/// Volumes that are no state: what Kubernetes writes, and what init containers make of it.
const WRITTEN: [&str; 4] = ["secret", "configMap", "projected", "emptyDir"];

fn listed(machine: &Machine, what: &str) -> Vec<Value> {
    let list: Value = serde_json::from_str(&machine.ok(&format!("kubectl -n cloud get {what} -o json"))).unwrap();
    list["items"].as_array().cloned().unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The services of a cloud that have an application credential made for them, in order.
pub fn services(machine: &Machine) -> Vec<String> {
    let rotations = listed(machine, "credentialrotations.c5c3.io");
    let made = rotations.iter().filter(|rotation| rotation["spec"]["rotationType"] == "applicationCredential");
    let mut names: Vec<String> =
        made.filter_map(|rotation| rotation["spec"]["consumers"][0]["name"].as_str().map(str::to_owned)).collect();
    names.sort();
    names
}

/// The passwords of Keystone's users, with the Secrets that they are in.
fn passwords(cloud: &Cloud) -> Vec<(String, String)> {
    let users = listed(&cloud.machine, "users.openstack.k-orc.cloud");
    let secrets = users.iter().filter_map(|user| user["spec"]["resource"]["passwordRef"].as_str().map(str::to_owned));
    let secrets: Vec<String> = secrets.chain(["keystone-admin-credentials".to_owned()]).collect();
    secrets.into_iter().map(|secret| (value(cloud, &secret, "password"), secret)).collect()
}

/// The folders of a container that have files from volumes that are no state.
fn folders(pod: &Value, container: &Value) -> Vec<String> {
    let volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    let is_written = |mount: &&Value| {
        let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]);
        volume.is_some_and(|volume| WRITTEN.iter().any(|kind| volume[*kind].is_object()))
    };
    let mounts = container["volumeMounts"].as_array().into_iter().flatten();
    mounts.filter(is_written).map(|mount| text(&mount["mountPath"]).to_owned()).collect()
}

/// What the containers of a service's pods read, a text for each.
fn files(cloud: &Cloud, service: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for pod in listed(&cloud.machine, &format!("pods -l app.kubernetes.io/name={service}")) {
        if pod["status"]["phase"] != "Running" || pod["metadata"]["deletionTimestamp"].is_string() {
            continue;
        }
        for container in pod["spec"]["containers"].as_array().unwrap() {
            let (pod_name, name) = (text(&pod["metadata"]["name"]), text(&container["name"]));
            let folders = folders(&pod, container);
            if !folders.is_empty() {
                let read = format!("sh files.sh {pod_name} {name} {}", folders.join(" "));
                found.push((format!("{pod_name}/{name}"), cloud.machine.ok(&read)));
            }
        }
    }
    found
}

/// Whether a configuration sets an option `password`, whatever its value. A line of a program is indented.
fn has_password(files: &str) -> bool {
    files.lines().filter_map(|line| line.split_once('=')).any(|(option, _)| option.trim_end() == "password")
}

/// Asserts that the pods of these services, which are all that sign in to Keystone, have the application credential of theirs and
/// no password of any user.
pub fn are_in_no_pod_of(cloud: &Cloud, wanted: &[&str]) {
    assert_eq!(services(&cloud.machine), wanted, "other services sign in");
    let passwords = passwords(cloud);
    for service in wanted {
        let user = format!("{service}-service-password");
        assert!(passwords.iter().any(|(_, secret)| *secret == user), "{user} is not looked for");
    }
    assert!(passwords.iter().all(|(password, _)| password.len() > 8), "an empty password would be found nowhere");
    cloud.machine.write("files.sh", FILES);
    for service in wanted {
        let secret = value(cloud, &format!("{service}-keystone-credentials"), "application_credential_secret");
        let files = files(cloud, service);
        let signs_in = |text: &str| text.contains("v3applicationcredential") && text.contains(&secret);
        assert!(files.iter().any(|(_, text)| signs_in(text)), "no pod of {service} has its application credential");
        for (container, text) in &files {
            assert!(!has_password(text), "{container} has an option password");
            for (password, of) in &passwords {
                assert!(!text.contains(password.as_str()), "{container} has the password of {of}");
            }
        }
    }
}

#[test]
fn an_option_password_is_found_and_other_lines_are_not_taken_for_one() {
    assert!(has_password("[keystone_authtoken]\npassword=riddle\n") && has_password("password = "));
    assert!(!has_password("# password\nldap_password = owl\n    password=unquote(url.password),\n"));
}
