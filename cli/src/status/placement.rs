//! `c5c3 why server/NAME` and `server/ID`: where a workload was put and why there, or why nowhere, by the Decision about it; and whether Cortex moved
//! it, by its Deschedulings.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::process::ExitCode;

use c5c3_api::cortex::{Decision, Descheduling, SchedulingDomain};
use c5c3_cortex_server::NAME_ANNOTATION;
use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::args::Output;
use crate::{Done, print, print_value};

/// The domain, and the name or id, if a path is about a workload.
pub(super) fn workload(path: &str) -> Option<(SchedulingDomain, &str)> {
    let (kind, which) = path.split_once('/')?;
    let domain = match kind {
        "server" => SchedulingDomain::Nova,
        "volume" => SchedulingDomain::Cinder,
        "share" => SchedulingDomain::Manila,
        _ => return None,
    };
    Some((domain, which))
}

/// The Decisions about the workload with this id, or else about all that have this name, the newest first.
fn about<'a>(all: &'a [Decision], domain: SchedulingDomain, which: &str) -> Vec<&'a Decision> {
    let of_domain = || all.iter().filter(move |one| one.spec.scheduling_domain == domain);
    let mut found: Vec<&Decision> = of_domain().filter(|one| one.spec.resource_id == which).collect();
    if found.is_empty() {
        found = of_domain().filter(|one| name(one) == Some(which)).collect();
    }
    found.sort_by_key(|one| (Reverse(decided_at(one)), one.spec.resource_id.clone()));
    found
}

/// The name that the workload had when it was decided on.
fn name(decision: &Decision) -> Option<&str> {
    decision.annotations().get(NAME_ANNOTATION).map(String::as_str)
}

fn decided_at(decision: &Decision) -> Option<Timestamp> {
    Some(decision.status.as_ref()?.decided_at.as_ref()?.0)
}

/// No Decision has this id or name: what was looked at, what may be the reason, and what to do.
fn unknown(all: &[Decision], domain: SchedulingDomain, which: &str, namespace: Option<&str>) -> String {
    let (service, kind) = match domain {
        SchedulingDomain::Nova => ("Nova", "server"),
        SchedulingDomain::Cinder => ("Cinder", "volume"),
        SchedulingDomain::Manila => ("Manila", "share"),
    };
    let there = all.iter().filter(|one| one.spec.scheduling_domain == domain);
    let (unnamed, count) = (there.clone().filter(|one| name(one).is_none()).count(), there.count());
    let place = namespace.map_or_else(|| "all namespaces".to_owned(), |name| format!("the namespace {name}"));
    let mut text = format!(
        "no Decision is about the {kind} {which}: {service} did not ask Cortex about it, or its Decision was removed as too old. \
         {count} Decisions about {kind}s in {place} were looked at"
    );
    if unnamed > 0 {
        let _ = write!(text, ", {unnamed} of them without a name: ");
        text += match domain {
            SchedulingDomain::Nova => {
                "the scheduler asks Nova for names within a minute, and its log says why it cannot. Give the id instead"
            }
            _ => "the request had none. Give the id instead",
        };
    } else {
        text += ". Compare the name and the id";
    }
    let _ = write!(text, ": `openstack {kind} show {which} -f value -c id`");
    text
}

/// Prints the Decisions about a workload; exit code 1 if no host was found for it.
pub(super) async fn why(
    client: Client,
    namespace: Option<&str>,
    domain: SchedulingDomain,
    which: &str,
    output: Output,
) -> Done {
    let api: Api<Decision> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let list = api.list(&ListParams::default()).await.map_err(|error| match error {
        kube::Error::Api(status) if status.code == 404 => {
            "the kind Decision is not installed; c5c3 crds has it".to_owned()
        }
        error => format!("cannot list Decisions: {error}"),
    })?;
    let found = about(&list.items, domain, which);
    // A Descheduling may outlive its server's Decision, and has the id alone.
    let mut ids: Vec<&str> = found.iter().map(|one| one.spec.resource_id.as_str()).collect();
    if ids.is_empty() {
        ids.push(which);
    }
    let moves = moves(client, namespace, domain, &ids).await?;
    if found.is_empty() && moves.is_empty() {
        return Err(unknown(&list.items, domain, which, namespace));
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

/// The Deschedulings of servers, the oldest first; none where the kind is not installed, and none for who may read Decisions only.
async fn moves(
    client: Client,
    namespace: Option<&str>,
    domain: SchedulingDomain,
    ids: &[&str],
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
    found.retain(|one| ids.contains(&one.spec.resource_id.as_str()));
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
    let which = match name(decision) {
        Some(name) => format!("{name} ({})", spec.resource_id),
        None => spec.resource_id.clone(),
    };
    let host = status.target_host.as_deref().unwrap_or("nowhere");
    let when = status.decided_at.as_ref().map(|at| format!(" at {}", at.0)).unwrap_or_default();
    let _ = writeln!(text, "{which}: {host} (pipeline {}{when})", spec.pipeline_ref.name.as_str());
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

    /// A Decision about a server, with what else is known of it.
    fn decision(id: &str, name: Option<&str>, second: i64) -> Decision {
        let example = include_str!("../../../examples/cortex/decision-full.yaml");
        let mut decision: Decision = serde_saphyr::from_str(example).unwrap();
        decision.spec.resource_id = id.to_owned();
        decision.metadata.annotations = name.map(|name| [(NAME_ANNOTATION.to_owned(), name.to_owned())].into());
        let at = Timestamp::from_second(second).unwrap();
        decision.status.as_mut().unwrap().decided_at = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at));
        decision
    }

    #[test]
    fn a_name_finds_all_servers_that_have_it_the_newest_first_and_an_id_only_its_own() {
        let mut volume = decision("v-1", Some("web"), 50);
        volume.spec.scheduling_domain = SchedulingDomain::Cinder;
        let all = [
            decision("s-1", Some("web"), 10),
            decision("s-2", Some("db"), 20),
            decision("s-3", Some("web"), 30),
            decision("s-4", None, 40),
            // Someone has called a server like the id of another one.
            decision("s-5", Some("s-1"), 60),
            volume,
        ];
        let ids = |domain: SchedulingDomain, which: &str| -> Vec<&str> {
            about(&all, domain, which).iter().map(|one| one.spec.resource_id.as_str()).collect()
        };
        assert_eq!(ids(SchedulingDomain::Nova, "web"), ["s-3", "s-1"]);
        assert_eq!(ids(SchedulingDomain::Nova, "s-1"), ["s-1"]);
        assert_eq!(ids(SchedulingDomain::Nova, "s-4"), ["s-4"]);
        assert_eq!(ids(SchedulingDomain::Cinder, "web"), ["v-1"]);
        assert_eq!(ids(SchedulingDomain::Nova, "mail"), [""; 0]);
        let first = text(&all[0]);
        assert!(first.starts_with("web (s-1): hv-03 (pipeline kvm-general at 1970-01-01T00:00:10Z)\n"), "{first}");
    }

    #[test]
    fn a_server_that_no_decision_is_about_is_told_with_what_was_looked_at_and_what_to_do() {
        let all = [decision("s-1", Some("web"), 10), decision("s-2", None, 20)];
        let told = unknown(&all, SchedulingDomain::Nova, "mail", None);
        assert!(told.starts_with("no Decision is about the server mail: Nova did not ask Cortex about it"), "{told}");
        assert!(told.contains("2 Decisions about servers in all namespaces were looked at, 1 of them without a name"));
        assert!(told.ends_with("Give the id instead: `openstack server show mail -f value -c id`"), "{told}");
        let told = unknown(&all[..1], SchedulingDomain::Nova, "mail", Some("cloud"));
        assert!(told.contains("1 Decisions about servers in the namespace cloud were looked at. Compare"), "{told}");
        let told = unknown(&all, SchedulingDomain::Cinder, "mail", None);
        assert!(
            told.contains("0 Decisions about volumes") && told.ends_with("`openstack volume show mail -f value -c id`")
        );
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
