//! The controls that `restricted` has beside those of `baseline`.

use serde_json::Value;

use super::baseline::{added, forbidden_seccomp};
use super::{Control, Subject, Violation, containers, counted, plural, quoted, setters, sorted};
use crate::read::{list_at, str_at, strings_at};

/// In the order of their ids, by which upstream reports.
pub(super) const CONTROLS: &[Control] = &[
    Control { id: "allowPrivilegeEscalation", since: 8, check: privilege_escalation },
    Control { id: "capabilities_restricted", since: 22, check: capabilities },
    Control { id: "restrictedVolumes", since: 0, check: volumes },
    Control { id: "runAsNonRoot", since: 0, check: non_root },
    Control { id: "runAsUser", since: 23, check: user },
    Control { id: "seccompProfile_restricted", since: 19, check: seccomp },
];

/// Whether a control of `baseline` is part of one here.
pub(super) fn replaces(id: &str, minor: u32) -> bool {
    let by = match id {
        "capabilities_baseline" => "capabilities_restricted",
        "hostPathVolumes" => "restrictedVolumes",
        "seccompProfile_baseline" => "seccompProfile_restricted",
        _ => return false,
    };
    CONTROLS.iter().any(|control| control.id == by && control.since <= minor)
}

const VOLUMES: &[&str] = &[
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

fn privilege_escalation(subject: &Subject<'_>) -> Option<Violation> {
    if subject.is_windows() {
        return None;
    }
    let names = subject.names(|container| container["securityContext"]["allowPrivilegeEscalation"] != false);
    (!names.is_empty()).then(|| {
        let detail = format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&names));
        Violation::new("allowPrivilegeEscalation != false", detail)
    })
}

fn capabilities(subject: &Subject<'_>) -> Option<Violation> {
    if subject.is_windows() {
        return None;
    }
    let drops = |container: &Value| strings_at(&container["securityContext"]["capabilities"], "drop");
    let keeping = subject.names(|container| !drops(container).iter().any(|name| name == "ALL"));
    let keeping = (!keeping.is_empty())
        .then(|| format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keeping)));
    let details: Vec<String> = keeping.into_iter().chain(added(subject, &["NET_BIND_SERVICE"])).collect();
    (!details.is_empty()).then(|| Violation::new("unrestricted capabilities", details.join("; ")))
}

fn volumes(subject: &Subject<'_>) -> Option<Violation> {
    let kind = |volume: &Value| {
        let fields = volume.as_object().into_iter().flatten();
        let source = fields.map(|(field, _)| field.as_str()).find(|field| *field != "name").unwrap_or("unknown");
        (!VOLUMES.contains(&source)).then(|| source.to_owned())
    };
    let all = list_at(subject.spec, "volumes");
    let names: Vec<&str> =
        all.iter().filter(|volume| kind(volume).is_some()).map(|volume| str_at(volume, "name")).collect();
    let kinds = sorted(all.iter().filter_map(kind));
    (!names.is_empty()).then(|| {
        let uses = if names.len() == 1 { "uses" } else { "use" };
        let volumes = counted("volume", &names);
        let detail = format!("{volumes} {uses} restricted volume type{} {}", plural(kinds.len()), quoted(&kinds));
        Violation::new("restricted volume types", detail)
    })
}

fn non_root(subject: &Subject<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    let said = |context: &Value| context["runAsNonRoot"].as_bool();
    let of_pod = said(subject.context());
    let names = subject.names(|container| said(&container["securityContext"]) == Some(false));
    let setters = setters(of_pod == Some(false), &names);
    if !setters.is_empty() {
        let detail = format!("{} must not set securityContext.runAsNonRoot=false", setters.join(" and "));
        return Some(Violation::new(REASON, detail));
    }
    let names = subject.names(|container| said(&container["securityContext"]).or(of_pod).is_none());
    (!names.is_empty()).then(|| {
        Violation::new(REASON, format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&names)))
    })
}

fn user(subject: &Subject<'_>) -> Option<Violation> {
    let is_root = |context: &Value| context["runAsUser"] == 0;
    let names = subject.names(|container| is_root(&container["securityContext"]));
    let setters = setters(is_root(subject.context()), &names);
    (!setters.is_empty())
        .then(|| Violation::new("runAsUser=0", format!("{} must not set runAsUser=0", setters.join(" and "))))
}

fn seccomp(subject: &Subject<'_>) -> Option<Violation> {
    if subject.is_windows() {
        return None;
    }
    let kind = |context: &Value| context["seccompProfile"]["type"].as_str().map(str::to_owned);
    let is_allowed = |kind: &String| matches!(kind.as_str(), "RuntimeDefault" | "Localhost");
    if let Some(found) = forbidden_seccomp(subject, |context| kind(context).filter(|kind| !is_allowed(kind))) {
        return Some(found);
    }
    let of_pod = kind(subject.context()).is_some();
    let names = subject.names(|container| !of_pod && kind(&container["securityContext"]).is_none());
    (!names.is_empty()).then(|| {
        let who = containers(&names);
        let detail =
            format!("pod or {who} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"");
        Violation::new("seccompProfile", detail)
    })
}
