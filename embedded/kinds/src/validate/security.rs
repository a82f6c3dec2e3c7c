//! Validation of what a pod asks of its node: security contexts, profiles, settings of the kernel, addresses of hosts.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::Value;

use super::names;
use super::report::Report;
use super::volume::descending_path;
use crate::read::{bool_at, entries_at, is_empty_at, list_at, str_at, strings_at};

const LONGEST_SYSCTL: usize = 253;
const MOST_NAMESERVERS: usize = 3;
const LARGEST_ID: i64 = i32::MAX as i64;

/// What a pod's spec says of its security and of hosts.
pub(super) fn pod(path: &str, spec: &Value, report: &mut Report) {
    let context = &spec["securityContext"];
    let at = format!("{path}.securityContext");
    profiles(&at, context, report);
    ids(&at, context, &["runAsUser", "runAsGroup", "fsGroup"], report);
    for (index, group) in list_at(context, "supplementalGroups").iter().enumerate() {
        report.between(format!("{at}.supplementalGroups[{index}]"), group, 0, LARGEST_ID);
    }
    sysctls(&at, spec, report);
    if bool_at(spec, "shareProcessNamespace") && bool_at(spec, "hostPID") {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        report.invalid(format!("{path}.shareProcessNamespace"), true, why);
    }
    hosts(path, spec, report);
}

/// What a container says of its security.
pub(super) fn container(path: &str, container: &Value, report: &mut Report) {
    let context = &container["securityContext"];
    let at = format!("{path}.securityContext");
    profiles(&at, context, report);
    ids(&at, context, &["runAsUser", "runAsGroup"], report);
    if context["allowPrivilegeEscalation"] == false {
        if bool_at(context, "privileged") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            report.invalid(&*at, context.clone(), why);
        }
        if strings_at(&context["capabilities"], "add").iter().any(|name| name == "CAP_SYS_ADMIN") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            report.invalid(&*at, context.clone(), why);
        }
    }
    if !matches!(str_at(context, "procMount"), "" | "Default" | "Unmasked") {
        report.unsupported(format!("{at}.procMount"), str_at(context, "procMount"), &["Default", "Unmasked"]);
    }
}

fn ids(path: &str, context: &Value, fields: &[&str], report: &mut Report) {
    for field in fields {
        report.between(format!("{path}.{field}"), &context[*field], 0, LARGEST_ID);
    }
}

/// Profiles of seccomp and AppArmor. A path to one is below the folder that the node keeps them in.
fn profiles(path: &str, context: &Value, report: &mut Report) {
    let seccomp = &context["seccompProfile"];
    let at = format!("{path}.seccompProfile.localhostProfile");
    match (str_at(seccomp, "type"), str_at(seccomp, "localhostProfile")) {
        ("Localhost", "") => report.required(at, "must be set when seccomp type is Localhost"),
        ("Localhost", profile) => descending_path(at, profile, report),
        (_, "") => {}
        _ => report.invalid(at, seccomp.clone(), "can only be set when seccomp type is Localhost"),
    }
    let Some(armor) = context.get("appArmorProfile").filter(|profile| profile.is_object()) else { return };
    let at = format!("{path}.appArmorProfile.localhostProfile");
    match (str_at(armor, "type"), str_at(armor, "localhostProfile")) {
        ("Localhost", "") => report.required(at, "must be set when AppArmor type is Localhost"),
        ("Localhost", profile) if profile.trim() != profile => {
            report.invalid(at, profile, "must not be padded with whitespace");
        }
        ("RuntimeDefault" | "Unconfined", "") | ("Localhost" | "", _) => {}
        ("RuntimeDefault" | "Unconfined", profile) => {
            report.invalid(at, profile, "can only be set when AppArmor type is Localhost");
        }
        (other, _) => {
            let kinds = &["Localhost", "RuntimeDefault", "Unconfined"];
            report.unsupported(format!("{path}.appArmorProfile.type"), other, kinds);
        }
    }
}

/// Settings of the kernel: each by a name that is one, once, and in a namespace of the pod's own.
fn sysctls(path: &str, spec: &Value, report: &mut Report) {
    let mut seen = HashSet::new();
    for (at, sysctl) in list_at(&spec["securityContext"], "sysctls").iter().enumerate() {
        let (path, name) = (format!("{path}.sysctls[{at}].name"), str_at(sysctl, "name"));
        let dotted = name.replace('/', ".");
        if name.is_empty() {
            // Told by the schema.
        } else if !is_sysctl(name) {
            let why = format!(
                "must have at most {LONGEST_SYSCTL} characters and match regex \
                 ([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
            );
            report.invalid(&*path, name, why);
        } else if !seen.insert(dotted.clone()) {
            report.duplicate(&*path, name);
        }
        let of_ipc = ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|prefix| dotted.starts_with(prefix))
            || dotted == "kernel.sem";
        if bool_at(spec, "hostNetwork") && dotted.starts_with("net.") {
            report.invalid(&*path, name, "may not be specified when 'hostNetwork' is true");
        }
        if bool_at(spec, "hostIPC") && of_ipc {
            report.invalid(&*path, name, "may not be specified when 'hostIPC' is true");
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    let is_segment = |segment: &str| {
        let ends = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let bytes = segment.as_bytes();
        let fits = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
        ends(bytes.first()) && ends(bytes.last()) && bytes.iter().all(fits)
    };
    name.len() <= LONGEST_SYSCTL && name.split(['.', '/']).all(is_segment)
}

/// Addresses and names of hosts.
fn hosts(path: &str, spec: &Value, report: &mut Report) {
    if !is_empty_at(spec, "nodeName") {
        report.name(format!("{path}.nodeName"), str_at(spec, "nodeName"), names::subdomain);
    }
    if !is_empty_at(spec, "subdomain") {
        report.name(format!("{path}.subdomain"), str_at(spec, "subdomain"), names::label);
    }
    for (at, alias) in list_at(spec, "hostAliases").iter().enumerate() {
        let path = format!("{path}.hostAliases[{at}]");
        address(format!("{path}.ip"), str_at(alias, "ip"), report);
        for (index, name) in strings_at(alias, "hostnames").iter().enumerate() {
            report.name(format!("{path}.hostnames[{index}]"), name, names::subdomain);
        }
    }
    let servers = strings_at(&spec["dnsConfig"], "nameservers");
    if servers.len() > MOST_NAMESERVERS {
        let path = format!("{path}.dnsConfig.nameservers");
        report.invalid(path, servers.clone(), format!("must not have more than {MOST_NAMESERVERS} nameservers"));
    }
    for (at, server) in servers.iter().enumerate() {
        address(format!("{path}.dnsConfig.nameservers[{at}]"), server, report);
    }
    for (at, domain) in strings_at(&spec["dnsConfig"], "searches").iter().enumerate() {
        let name = domain.strip_suffix('.').unwrap_or(domain);
        // Upstream allows names with underscores, and the root.
        if !name.is_empty() {
            report.name(format!("{path}.dnsConfig.searches[{at}]"), &name.replace('_', "-"), names::subdomain);
        }
    }
    for (key, _) in entries_at(spec, "nodeSelector") {
        report.name(format!("{path}.nodeSelector"), key, names::qualified);
    }
}

/// An IP address.
pub(super) fn address(path: String, text: &str, report: &mut Report) {
    if text.parse::<IpAddr>().is_err() {
        report.invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{assert_has, problems};
    use super::*;

    fn check(spec: &Value) -> Vec<String> {
        let mut spec = spec.clone();
        if spec.get("containers").is_none() {
            spec["containers"] = json!([{"name": "c", "image": "i"}]);
        }
        problems("", "pods", &json!({"spec": spec}), None)
    }

    #[test]
    fn names_of_sysctls_are_names_of_sysctls() {
        let named = |name: &str| check(&json!({"securityContext": {"sysctls": [{"name": name, "value": "1"}]}}));
        for name in ["kernel.shmmax", "net.ipv4.conf.eth0/1.x", "net/ipv4/tcp_syncookies", "a", "a-b.c_d"] {
            assert_eq!(named(name), [""; 0], "{name}");
        }
        for name in ["foo-", "bar..", "..", "/etc", "kernel/../x", "A.b", "a b", "a\nb", &"a".repeat(254)] {
            let found = named(name);
            let start = format!("spec.securityContext.sysctls[0].name: Invalid value: {name:?}: must have at most 253");
            assert!(found[0].starts_with(&start), "{found:?}");
        }
        let twice = json!({"sysctls": [{"name": "net.ipv4.a", "value": "1"}, {"name": "net/ipv4/a", "value": "1"}]});
        assert_has(
            &check(&json!({"securityContext": twice})),
            r#"spec.securityContext.sysctls[1].name: Duplicate value: "net/ipv4/a""#,
        );
    }

    #[test]
    fn a_sysctl_of_a_namespace_that_is_the_nodes_is_refused() {
        let with = |field: &str, name: &str| {
            check(&json!({field: true, "securityContext": {"sysctls": [{"name": name, "value": "1"}]}}))
        };
        let at = "spec.securityContext.sysctls[0].name: Invalid value";
        assert_has(
            &with("hostNetwork", "net/ipv4/tcp_syncookies"),
            &format!(r#"{at}: "net/ipv4/tcp_syncookies": may not be specified when 'hostNetwork' is true"#),
        );
        assert_has(
            &with("hostIPC", "kernel.shm_rmid_forced"),
            &format!(r#"{at}: "kernel.shm_rmid_forced": may not be specified when 'hostIPC' is true"#),
        );
        assert_eq!(with("hostIPC", "net.ipv4.tcp_syncookies"), [""; 0]);
    }

    #[test]
    fn a_profile_of_the_node_is_below_the_folder_of_profiles() {
        for (pod, own) in [(true, false), (false, true)] {
            let with = |context: Value| {
                let (pod, own) = (if pod { context.clone() } else { json!({}) }, if own { context } else { json!({}) });
                let app = json!({"name": "c", "image": "i", "securityContext": own});
                check(&json!({"securityContext": pod, "containers": [app]}))
            };
            let at = if pod { "spec.securityContext" } else { "spec.containers[0].securityContext" };
            let seccomp = |kind: &str, profile: Value| {
                with(json!({"seccompProfile": {"type": kind, "localhostProfile": profile}}))
            };
            let at = format!("{at}.seccompProfile.localhostProfile");
            for (path, why) in [("/etc/shadow", "must be a relative path"), ("../../x", "must not contain '..'")] {
                assert_has(&seccomp("Localhost", json!(path)), &format!("{at}: Invalid value: {path:?}: {why}"));
            }
            assert_has(
                &seccomp("Localhost", Value::Null),
                &format!("{at}: Required value: must be set when seccomp type is Localhost"),
            );
            assert!(
                seccomp("RuntimeDefault", json!("a"))[0].ends_with("can only be set when seccomp type is Localhost")
            );
            assert_eq!(seccomp("Localhost", json!("a/b.json")), [""; 0]);
            let armor = with(json!({"appArmorProfile": {"type": "Localhost"}}));
            assert!(armor[0].ends_with("must be set when AppArmor type is Localhost"), "{armor:?}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let with =
            |context: Value| check(&json!({"containers": [{"name": "c", "image": "i", "securityContext": context}]}));
        let both = with(json!({"privileged": true, "allowPrivilegeEscalation": false}));
        assert!(both[0].ends_with("cannot set `allowPrivilegeEscalation` to false and `privileged` to true"));
        let both = with(json!({"capabilities": {"add": ["CAP_SYS_ADMIN"]}, "allowPrivilegeEscalation": false}));
        assert!(both[0].ends_with("`capabilities.Add` CAP_SYS_ADMIN"));
        assert!(with(json!({"runAsUser": -1}))[0].ends_with("must be between 0 and 2147483647, inclusive"));
        let mount = json!({"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"});
        let app = |privileged: bool| {
            let context = json!({"privileged": privileged});
            let app = json!({"name": "c", "image": "i", "securityContext": context, "volumeMounts": [mount]});
            check(&json!({"containers": [app], "volumes": [{"name": "v", "emptyDir": {}}]}))
        };
        assert_eq!(app(true), [""; 0]);
        assert_eq!(
            app(false),
            [
                "spec.containers[0].volumeMounts[0].mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers"
            ]
        );
    }
}
