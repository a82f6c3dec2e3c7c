//! The controls of `baseline`.

use serde_json::Value;

use super::{Control, Subject, Violation, containers, counted, plural, quoted, setters, sorted};
use crate::read::{entries_at, list_at, str_at, strings_at};

/// In the order of their ids, by which upstream reports.
pub(super) const CONTROLS: &[Control] = &[
    Control { id: "appArmorProfile", since: 0, check: app_armor },
    Control { id: "capabilities_baseline", since: 0, check: capabilities },
    Control { id: "hostNamespaces", since: 0, check: host_namespaces },
    Control { id: "hostPathVolumes", since: 0, check: host_path_volumes },
    Control { id: "hostPorts", since: 0, check: host_ports },
    Control { id: "privileged", since: 0, check: privileged },
    Control { id: "procMount", since: 0, check: proc_mount },
    Control { id: "seLinuxOptions", since: 0, check: se_linux },
    Control { id: "seccompProfile_baseline", since: 0, check: seccomp },
    Control { id: "sysctls", since: 0, check: sysctls },
    Control { id: "windowsHostProcess", since: 0, check: windows_host_process },
];

/// The capabilities that containers have unless they drop them.
const CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Settings of the kernel that are a pod's own, and since which minor version they count as such.
const SYSCTLS: &[(&str, u32)] = &[
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_ANNOTATION: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER_ANNOTATION: &str = "container.seccomp.security.alpha.kubernetes.io/";

fn app_armor(subject: &Subject<'_>) -> Option<Violation> {
    let bad = |context: &Value| {
        let profile = context.get("appArmorProfile").filter(|profile| profile.is_object())?;
        let kind = str_at(profile, "type");
        (!matches!(kind, "RuntimeDefault" | "Localhost")).then(|| kind.to_owned())
    };
    let of_pod = bad(subject.context());
    let names = subject.names(|container| bad(&container["securityContext"]).is_some());
    let mut setters = setters(of_pod.is_some(), &names);
    let of_containers = subject.containers().filter_map(|container| bad(&container["securityContext"]));
    let mut values: Vec<String> = of_pod.into_iter().chain(of_containers).collect();
    for (key, value) in entries_at(subject.metadata, "annotations") {
        let profile = value.as_str().unwrap_or_default();
        let is_allowed = profile.is_empty() || profile == "runtime/default" || profile.starts_with("localhost/");
        if key.starts_with(APP_ARMOR_ANNOTATION) && !is_allowed {
            setters.push(format!("annotation {key:?}"));
            values.push(profile.to_owned());
        }
    }
    let values = sorted(values);
    (!setters.is_empty()).then(|| {
        let reason = format!("forbidden AppArmor profile{}", plural(values.len()));
        Violation::new(
            &reason,
            format!("{} must not set AppArmor profile type to {}", setters.join(" and "), quoted(&values)),
        )
    })
}

fn capabilities(subject: &Subject<'_>) -> Option<Violation> {
    added(subject, CAPABILITIES).map(|detail| Violation::new("non-default capabilities", detail))
}

/// Which containers add capabilities beyond those that are allowed.
pub(super) fn added(subject: &Subject<'_>, allowed: &[&str]) -> Option<String> {
    let beyond = |container: &Value| {
        let added = strings_at(&container["securityContext"]["capabilities"], "add");
        added.into_iter().filter(|name| !allowed.contains(&name.as_str())).collect::<Vec<_>>()
    };
    let names = subject.names(|container| !beyond(container).is_empty());
    let capabilities = sorted(subject.containers().flat_map(beyond));
    (!names.is_empty()).then(|| {
        format!("{} must not include {} in securityContext.capabilities.add", containers(&names), quoted(&capabilities))
    })
}

fn host_namespaces(subject: &Subject<'_>) -> Option<Violation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|field| subject.spec[*field] == true);
    let shared: Vec<String> = shared.map(|field| format!("{field}=true")).collect();
    (!shared.is_empty()).then(|| Violation::new("host namespaces", shared.join(", ")))
}

fn host_path_volumes(subject: &Subject<'_>) -> Option<Violation> {
    let volumes = list_at(subject.spec, "volumes").iter().filter(|volume| !volume["hostPath"].is_null());
    let names: Vec<&str> = volumes.map(|volume| str_at(volume, "name")).collect();
    (!names.is_empty()).then(|| Violation::new("hostPath volumes", counted("volume", &names)))
}

fn host_ports(subject: &Subject<'_>) -> Option<Violation> {
    let of = |container: &Value| -> Vec<String> {
        let ports = list_at(container, "ports").iter().filter_map(|port| port["hostPort"].as_i64());
        ports.filter(|port| *port != 0).map(|port| port.to_string()).collect()
    };
    let names = subject.names(|container| !of(container).is_empty());
    let ports = sorted(subject.containers().flat_map(of));
    (!names.is_empty()).then(|| {
        let uses = if names.len() == 1 { "uses" } else { "use" };
        let detail = format!("{} {uses} hostPort{} {}", containers(&names), plural(ports.len()), ports.join(", "));
        Violation::new("hostPort", detail)
    })
}

fn privileged(subject: &Subject<'_>) -> Option<Violation> {
    let names = subject.names(|container| container["securityContext"]["privileged"] == true);
    (!names.is_empty()).then(|| {
        Violation::new("privileged", format!("{} must not set securityContext.privileged=true", containers(&names)))
    })
}

fn proc_mount(subject: &Subject<'_>) -> Option<Violation> {
    let bad = |container: &Value| {
        let kind = container["securityContext"]["procMount"].as_str().unwrap_or("Default").to_owned();
        (kind != "Default").then_some(kind)
    };
    let names = subject.names(|container| bad(container).is_some());
    let kinds = sorted(subject.containers().filter_map(bad));
    (!names.is_empty()).then(|| {
        let detail = format!("{} must not set securityContext.procMount to {}", containers(&names), quoted(&kinds));
        Violation::new("procMount", detail)
    })
}

fn se_linux(subject: &Subject<'_>) -> Option<Violation> {
    let options = |context: &Value| context["seLinuxOptions"].clone();
    let is_allowed = |kind: &str| match kind {
        "" | "container_t" | "container_init_t" | "container_kvm_t" => true,
        "container_engine_t" => subject.minor >= 31,
        _ => false,
    };
    let is_bad = |options: &Value| {
        !is_allowed(str_at(options, "type")) || ["user", "role"].iter().any(|field| !str_at(options, field).is_empty())
    };
    let names = subject.names(|container| is_bad(&options(&container["securityContext"])));
    let setters = setters(is_bad(&options(subject.context())), &names);
    if setters.is_empty() {
        return None;
    }
    let contexts = subject.containers().map(|container| &container["securityContext"]);
    let all: Vec<Value> = std::iter::once(subject.context()).chain(contexts).map(options).collect();
    let types = all.iter().map(|options| str_at(options, "type")).filter(|kind| !is_allowed(kind));
    let types = sorted(types.map(str::to_owned));
    let mut data: Vec<String> = (!types.is_empty()).then(|| counted("type", &types)).into_iter().collect();
    for field in ["user", "role"] {
        if all.iter().any(|options| !str_at(options, field).is_empty()) {
            data.push(format!("{field} may not be set"));
        }
    }
    let detail = format!("{} set forbidden securityContext.seLinuxOptions: {}", setters.join(" and "), data.join("; "));
    Some(Violation::new("seLinuxOptions", detail))
}

fn seccomp(subject: &Subject<'_>) -> Option<Violation> {
    if subject.minor < 19 {
        return seccomp_annotations(subject);
    }
    let bad = |context: &Value| {
        let kind = context["seccompProfile"]["type"].as_str()?;
        (!matches!(kind, "RuntimeDefault" | "Localhost")).then(|| kind.to_owned())
    };
    forbidden_seccomp(subject, bad)
}

/// Who explicitly has a seccomp profile that `bad` names.
pub(super) fn forbidden_seccomp(subject: &Subject<'_>, bad: impl Fn(&Value) -> Option<String>) -> Option<Violation> {
    let names = subject.names(|container| bad(&container["securityContext"]).is_some());
    let setters = setters(bad(subject.context()).is_some(), &names);
    let of_containers = subject.containers().filter_map(|container| bad(&container["securityContext"]));
    let kinds = sorted(bad(subject.context()).into_iter().chain(of_containers));
    (!setters.is_empty()).then(|| {
        let who = setters.join(" and ");
        let detail = format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(&kinds));
        Violation::new("seccompProfile", detail)
    })
}

/// Before 1.19, profiles were annotations.
fn seccomp_annotations(subject: &Subject<'_>) -> Option<Violation> {
    let is_allowed =
        |profile: &str| matches!(profile, "runtime/default" | "docker/default") || profile.starts_with("localhost/");
    let bad: Vec<String> = entries_at(subject.metadata, "annotations")
        .filter(|(key, _)| *key == SECCOMP_ANNOTATION || key.starts_with(SECCOMP_CONTAINER_ANNOTATION))
        .filter(|(_, value)| !is_allowed(value.as_str().unwrap_or_default()))
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    (!bad.is_empty()).then(|| {
        Violation::new("seccompProfile", format!("forbidden annotation{} {}", plural(bad.len()), bad.join(", ")))
    })
}

fn sysctls(subject: &Subject<'_>) -> Option<Violation> {
    let is_allowed = |name: &str| SYSCTLS.iter().any(|(safe, since)| *safe == name && *since <= subject.minor);
    let names = list_at(subject.context(), "sysctls").iter().map(|sysctl| str_at(sysctl, "name"));
    let bad: Vec<&str> = names.filter(|name| !is_allowed(name)).collect();
    (!bad.is_empty()).then(|| Violation::new("forbidden sysctls", bad.join(", ")))
}

fn windows_host_process(subject: &Subject<'_>) -> Option<Violation> {
    let is_host = |context: &Value| context["windowsOptions"]["hostProcess"] == true;
    let names = subject.names(|container| is_host(&container["securityContext"]));
    let setters = setters(is_host(subject.context()), &names);
    (!setters.is_empty()).then(|| {
        let who = setters.join(" and ");
        Violation::new("hostProcess", format!("{who} must not set securityContext.windowsOptions.hostProcess=true"))
    })
}
