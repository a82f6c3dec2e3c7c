//! Pod security by the labels of namespaces: pods that break the enforced standard are refused, and clients are warned
//! of pods and templates that break the others. No user, namespace or runtime class is exempt.
//!
//! There is no audit log: what upstream writes there is in the server's own.

use std::collections::BTreeMap;

use c5c3_kinds::pod_security::{Mode, Standard, joined, template_of, wrong_labels};
use c5c3_schema::{Problem, ProblemKind, Problems};
use serde_json::Value;

use crate::call::Call;
use crate::object::{meta, of_entry};
use crate::status::ApiError;

/// Refuses a pod that its namespace does not allow, or warns of it.
pub(super) fn judge(call: &Call<'_>, operation: &str, object: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    let resource = &call.served.resource;
    // Ephemeral containers are the one thing that a running pod can be given and that a standard looks at.
    let adds_containers = resource.is("", "Pod") && call.target.subresource.as_deref() == Some("ephemeralcontainers");
    if (call.target.subresource.is_some() && !adds_containers) || !matches!(operation, "CREATE" | "UPDATE") {
        return Ok(());
    }
    if resource.is("", "Namespace") {
        return namespace(call, object, old);
    }
    let is_pod = resource.is("", "Pod") && (operation == "CREATE" || adds_containers);
    let pod = if is_pod { Some(object) } else { template_of(&resource.group, &resource.kind, object) };
    let (Some(pod), Some(namespace)) = (pod, read_namespace(call)) else { return Ok(()) };
    let found = |mode: Mode| {
        let standard = Standard::of_namespace(&namespace, mode);
        let violations = standard.violations(pod);
        (!violations.is_empty())
            .then(|| format!("violate PodSecurity {:?}: {}", standard.to_string(), joined(&violations)))
    };
    let name = meta(object, "name");
    if let Some(why) = found(Mode::Audit) {
        let (kind, namespace) = (&resource.kind, meta(&namespace, "name"));
        tracing::warn!(kind, namespace, name, "pod security: would {why}");
    }
    if is_pod && let Some(why) = found(Mode::Enforce) {
        let why = why.replacen("violate", "violates", 1);
        return Err(ApiError::forbidden_object(resource, name, &why));
    }
    if let Some(why) = found(Mode::Warn) {
        call.warnings.add(&format!("would {why}"));
    }
    Ok(())
}

/// The namespace that a request is about.
fn read_namespace(call: &Call<'_>) -> Option<Value> {
    let served = call.server.registry().find("", "v1", "namespaces")?;
    let entry = call.server.store().get(&served.key(None, call.namespace()?))?;
    of_entry(&served.resource, &entry).ok()
}

/// Refuses labels that say nothing, and warns of pods that a new standard would refuse.
fn namespace(call: &Call<'_>, object: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    let known = old.map(|old| wrong_labels(&old["metadata"])).unwrap_or_default();
    let mut problems = Problems::new();
    for wrong in wrong_labels(&object["metadata"]).into_iter().filter(|wrong| !known.contains(wrong)) {
        let (label, value, why) = wrong;
        let path = format!("metadata.labels[{label}]");
        problems.push(Problem::new(path, ProblemKind::Invalid, format!("Invalid value: {value:?}: {why}"), ""));
    }
    if !problems.is_empty() {
        return Err(ApiError::invalid(&call.served.resource, meta(object, "name"), &problems));
    }
    let Some(old) = old else { return Ok(()) };
    let (before, now) = (Standard::of_namespace(old, Mode::Enforce), Standard::of_namespace(object, Mode::Enforce));
    if !now.allows_everything() && now.is_stricter_than(before) {
        warn_of_pods(call, meta(object, "name"), now);
    }
    Ok(())
}

fn warn_of_pods(call: &Call<'_>, namespace: &str, standard: Standard) {
    let Some(served) = call.server.registry().find("", "v1", "pods") else { return };
    let mut offenders: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in call.server.store().list(&served.prefix(Some(namespace))).iter() {
        let Ok(pod) = of_entry(&served.resource, entry) else { continue };
        let reasons: Vec<String> = standard.violations(&pod).into_iter().map(|found| found.reason).collect();
        if !reasons.is_empty() {
            offenders.entry(reasons.join(", ")).or_default().push(meta(&pod, "name").to_owned());
        }
    }
    if offenders.is_empty() {
        return;
    }
    call.warnings.add(&format!(
        "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level {:?}",
        standard.to_string()
    ));
    let mut lines: Vec<String> = offenders
        .into_iter()
        .map(|(reasons, pods)| match pods.len() - 1 {
            0 => format!("{}: {reasons}", pods[0]),
            1 => format!("{} (and 1 other pod): {reasons}", pods[0]),
            others => format!("{} (and {others} other pods): {reasons}", pods[0]),
        })
        .collect();
    lines.sort();
    for line in &lines {
        call.warnings.add(line);
    }
}
