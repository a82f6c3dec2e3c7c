//! `c5c3 why server/ID`: where a workload was put and why there, or why nowhere, by the Decision about it.

use std::fmt::Write as _;
use std::process::ExitCode;

use c5c3_api::cortex::{Decision, SchedulingDomain};
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
    if found.is_empty() {
        return Err(format!(
            "no Decision is about {id}: Cortex was not asked about it, or it is too long ago. Give the id, which \
            `openstack server show NAME -f value -c id` prints"
        ));
    }
    match output {
        Output::Json | Output::Yaml => {
            print_value(&serde_json::to_value(&found).map_err(|error| error.to_string())?, output)?
        }
        Output::Text => print(&found.iter().map(|decision| text(decision)).collect::<Vec<_>>().join("\n"))?,
    };
    let placed = |one: &&Decision| one.status.as_ref().is_some_and(|status| status.target_host.is_some());
    Ok(if found.iter().all(placed) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
}
