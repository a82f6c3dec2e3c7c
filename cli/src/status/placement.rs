//! `c5c3 why server/ID`: where a workload was put and why there, or why nowhere, by the Decision about it; and whether Cortex moved
//! it, by its Deschedulings.

use std::fmt::Write as _;
use std::process::ExitCode;

use c5c3_api::cortex::{Decision, Descheduling, SchedulingDomain};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::args::Output;
use crate::{Done, print, print_value};

/// The domain and the id, if a path is about a workload.
pub(super) fn workload(path: &str) -> Option<(SchedulingDomain, &str)> {
    let (kind, id) = path.split_once('/')?;
    let domain = match kind {
        "server" => SchedulingDomain::Nova,
        "volume" => SchedulingDomain::Cinder,
        "share" => SchedulingDomain::Manila,
        _ => return None,
    };
    Some((domain, id))
}

/// Prints the Decision about a workload; exit code 1 if no host was found for it.
pub(super) async fn why(
    client: Client,
    namespace: Option<&str>,
    domain: SchedulingDomain,
    id: &str,
    output: Output,
) -> Done {
    let moves = moves(client.clone(), namespace, domain, id).await?;
    let api: Api<Decision> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let list = api.list(&ListParams::default()).await.map_err(|error| match error {
        kube::Error::Api(status) if status.code == 404 => {
            "the kind Decision is not installed; c5c3 crds has it".to_owned()
        }
        error => format!("cannot list Decisions: {error}"),
    })?;
    let about = |one: &&Decision| one.spec.scheduling_domain == domain && one.spec.resource_id == id;
    let found: Vec<&Decision> = list.items.iter().filter(about).collect();
    if found.is_empty() && moves.is_empty() {
        return Err(format!(
            "no Decision is about {id}: Cortex was not asked about it, or it is too long ago. Give the id, which \
            `openstack server show NAME -f value -c id` prints"
        ));
    }
    match output {
        Output::Json | Output::Yaml => {
            let values = |error: serde_json::Error| error.to_string();
            let mut all = serde_json::to_value(&found).map_err(values)?;
            let moves = serde_json::to_value(&moves).map_err(values)?;
            all.as_array_mut().into_iter().for_each(|all| all.extend(moves.as_array().cloned().unwrap_or_default()));
            print_value(&all, output)?
        }
        Output::Text => {
            let decisions = found.iter().map(|decision| text(decision));
            print(&decisions.chain(moves.iter().map(move_text)).collect::<Vec<_>>().join("\n"))?
        }
    };
    let placed = |one: &&Decision| one.status.as_ref().is_some_and(|status| status.target_host.is_some());
    Ok(if found.iter().all(placed) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The Deschedulings of a server, the oldest first; none where the kind is not installed, and none for who may read Decisions only.
async fn moves(
    client: Client,
    namespace: Option<&str>,
    domain: SchedulingDomain,
    id: &str,
) -> Result<Vec<Descheduling>, String> {
    if domain != SchedulingDomain::Nova {
        return Ok(Vec::new());
    }
    let api: Api<Descheduling> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let mut found = match api.list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(kube::Error::Api(status)) if [403, 404].contains(&status.code) => Vec::new(),
        Err(error) => return Err(format!("cannot list Deschedulings: {error}")),
    };
    found.retain(|one| one.spec.resource_id == id);
    found.sort_by_key(|one| (one.metadata.creation_timestamp.as_ref().map(|at| at.0), one.name_any()));
    Ok(found)
}

fn move_text(object: &Descheduling) -> String {
    let (spec, status) = (&object.spec, object.status.clone().unwrap_or_default());
    let ready = status.conditions.iter().find(|one| one.r#type == "Ready");
    let reason = ready.and_then(|one| one.reason.as_deref()).unwrap_or("nothing is written yet");
    let to = status.new_host.as_deref().unwrap_or("nowhere");
    let mut text = format!("descheduling/{}: from {} to {to} ({reason})\n", object.name_any(), spec.prev_host);
    let message = ready.and_then(|one| one.message.clone()).filter(|one| status.explanation.as_ref() != Some(one));
    for line in [status.explanation.clone(), message].into_iter().flatten() {
        let _ = writeln!(text, "  {line}");
    }
    text
}

fn text(decision: &Decision) -> String {
    let (spec, mut text) = (&decision.spec, String::new());
    let Some(status) = &decision.status else { return format!("{}: nothing is written yet\n", decision.name_any()) };
    let host = status.target_host.as_deref().unwrap_or("nowhere");
    let when = status.decided_at.as_ref().map(|at| format!(" at {}", at.0)).unwrap_or_default();
    let _ = writeln!(text, "{}: {host} (pipeline {}{when})", spec.resource_id, spec.pipeline_ref.name.as_str());
    if let Some(explanation) = &status.explanation {
        let _ = writeln!(text, "  {explanation}");
    }
    for step in status.step_results.iter().filter(|step| !step.removals.is_empty()) {
        let _ = writeln!(text, "  {} left out {}", step.step_name, step.removed_hosts.unwrap_or_default());
        for removal in &step.removals {
            let _ = writeln!(text, "    {} {}", removal.host, removal.reason);
        }
    }
    for earlier in &status.history {
        let when = earlier.decided_at.as_ref().map(|at| at.0.to_string()).unwrap_or_default();
        let _ = writeln!(text, "  before: {} at {when}", earlier.target_host.as_deref().unwrap_or("nowhere"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_volumes_and_shares_are_workloads_and_objects_are_not() {
        assert_eq!(workload("server/6f2c"), Some((SchedulingDomain::Nova, "6f2c")));
        assert_eq!(workload("volume/1"), Some((SchedulingDomain::Cinder, "1")));
        assert_eq!(workload("keystone/keystone"), None);
        assert_eq!(workload("server"), None);
    }

    #[test]
    fn a_decision_is_told_with_every_host_that_was_left_out() {
        let example = include_str!("../../../examples/cortex/decision-full.yaml");
        let told = text(&serde_saphyr::from_str(example).unwrap());
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(
            lines[0],
            "6f2c0000-0000-4000-8000-000000000001: hv-03 (pipeline kvm-general at 2026-03-01T10:00:00Z)"
        );
        assert!(lines[1].starts_with("  hv-03 is the best of 2 hosts"));
        assert_eq!(lines[2], "  filter_has_enough_capacity left out 1");
        assert_eq!(lines[3], "    hv-01 has 4096 MiB of memory free, 8192 are needed");
        assert_eq!(lines[4], "  before: hv-01 at 2026-03-01T09:59:00Z");
    }

    #[test]
    fn a_move_is_told_with_its_effect_and_its_outcome() {
        let example = include_str!("../../../examples/cortex/descheduling-full.yaml");
        let told = move_text(&serde_saphyr::from_str(example).unwrap());
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(
            lines[0],
            "descheduling/relieve-6f2c0000-0000-4000-8000-000000000001: from hv-01 to hv-03 (Migrated)"
        );
        assert!(lines[1].starts_with("  The server web-1 (4 vCPU, 8192 MiB of memory) goes from hv-01 to hv-03"));
        assert_eq!(lines[2], "  it is on hv-03");
        let example = include_str!("../../../examples/cortex/descheduling-small.yaml");
        let told = move_text(&serde_saphyr::from_str(example).unwrap());
        assert_eq!(told, "descheduling/move-6f2c: from hv-01 to nowhere (nothing is written yet)\n");
    }
}
