//! Nova's `RequestSpec`, as its versioned objects are serialised.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{WireError, amount, names, text, whole};
use crate::request::{Destination, Domain, Flavor, Group, Intent, Policy, Request};
use crate::resources::Resources;

/// The data of a versioned object; objects that are plain already stay as they are.
fn data<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let inner = value.get(name).filter(|inner| !inner.is_null())?;
    Some(inner.get("nova_object.data").unwrap_or(inner))
}

pub(super) fn read(spec: &Value) -> Result<Request, WireError> {
    let spec = spec.get("nova_object.data").unwrap_or(spec);
    let flavor = data(spec, "flavor").ok_or_else(|| WireError::Spec("the request has no flavor".into()))?;
    let extra_specs = strings(flavor.get("extra_specs"));
    let hints = hints(spec.get("scheduler_hints"));
    let properties = data(spec, "image").and_then(|image| data(image, "properties"));
    Ok(Request {
        project: text(spec, "project_id").unwrap_or_default(),
        intent: Intent::parse(hints.get("_nova_check_type").map(String::as_str)),
        resources: resources(spec, flavor, &extra_specs)?,
        zone: text(spec, "availability_zone"),
        flavor: Flavor { name: text(flavor, "name").unwrap_or_default(), extra_specs },
        image: strings(properties),
        hints,
        ignore_hosts: names(spec.get("ignore_hosts")),
        force_hosts: names(spec.get("force_hosts")),
        force_nodes: names(spec.get("force_nodes")),
        destination: data(spec, "requested_destination").map(destination).unwrap_or_default(),
        group: data(spec, "instance_group").and_then(group),
        ..Request::new(Domain::Nova, text(spec, "instance_uuid").unwrap_or_default())
    })
}

/// One server: Nova asks once for each of `num_instances`. As Placement counts: the flavor's own `resources:` come first,
/// a server that boots from a volume has no root disk, swap is in MiB and rounded up.
fn resources(spec: &Value, flavor: &Value, extra: &BTreeMap<String, String>) -> Result<Resources, WireError> {
    let from_volume = spec.get("is_bfv").and_then(Value::as_bool).unwrap_or(false);
    let root = if from_volume { 0 } else { amount(flavor, "root_gb")? };
    let disk =
        root.saturating_add(amount(flavor, "ephemeral_gb")?).saturating_add(amount(flavor, "swap")?.div_ceil(1024));
    let overridden = |class: &str, otherwise: u64| match extra.get(&format!("resources:{class}")) {
        None => Ok(otherwise),
        Some(value) => value
            .trim()
            .parse::<u64>()
            .map_err(|_| WireError::Spec(format!("resources:{class} of the flavor is {value}, which is no amount"))),
    };
    Ok(Resources {
        vcpus: overridden("VCPU", amount(flavor, "vcpus")?)?,
        memory_mib: overridden("MEMORY_MB", amount(flavor, "memory_mb")?)?,
        disk_gib: overridden("DISK_GB", disk)?,
    })
}

/// What has a string as value; Nova's objects hold much else.
fn strings(value: Option<&Value>) -> BTreeMap<String, String> {
    let fields = value.and_then(Value::as_object).into_iter().flatten();
    fields.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

/// A hint is a string, or a list of which the first counts.
fn hints(value: Option<&Value>) -> BTreeMap<String, String> {
    let fields = value.and_then(Value::as_object).into_iter().flatten();
    let first = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(list) => list.first()?.as_str().map(str::to_owned),
        _ => None,
    };
    fields.filter_map(|(name, value)| Some((name.clone(), first(value)?))).collect()
}

fn destination(value: &Value) -> Destination {
    let aggregates = value.get("aggregates").and_then(Value::as_array).into_iter().flatten();
    let any = |list: &str| list.trim_start_matches("in:").split(',').map(|one| one.trim().to_owned()).collect();
    Destination {
        host: text(value, "host"),
        node: text(value, "node"),
        aggregates: aggregates.filter_map(|one| one.as_str().map(any)).collect::<Vec<BTreeSet<String>>>(),
        forbidden_aggregates: names(value.get("forbidden_aggregates")),
    }
}

fn group(value: &Value) -> Option<Group> {
    let listed = || value.get("policies")?.as_array()?.first()?.as_str().map(str::to_owned);
    let policy = match text(value, "policy").or_else(listed)?.as_str() {
        "affinity" => Policy::Affinity,
        "anti-affinity" => Policy::AntiAffinity,
        "soft-affinity" => Policy::SoftAffinity,
        "soft-anti-affinity" => Policy::SoftAntiAffinity,
        _ => return None,
    };
    let rules = ["_rules", "rules"].iter().find_map(|name| value.get(*name)).filter(|rules| !rules.is_null());
    let most = rules.and_then(|rules| rules.get("max_server_per_host")).and_then(whole);
    Some(Group {
        policy,
        members: names(value.get("members")),
        hosts: names(value.get("hosts")),
        max_server_per_host: most.unwrap_or(1),
    })
}
