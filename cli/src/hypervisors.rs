//! `c5c3 hypervisors` and `c5c3 drain`: how the compute hosts are, and one of them emptied. Both read and write objects of the
//! cluster alone; the operator of hypervisors does the work.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use c5c3_api::blocks::{Condition, ConditionStatus};
use c5c3_api::hypervisor::{Eviction, EvictionInstance, EvictionInstanceState, Hypervisor, Maintenance};
use c5c3_operator_hypervisor::left_alone;
use clap::Args as ClapArgs;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::args::{ClusterArgs, Listing};
use crate::cluster::block_on;
use crate::{Done, print, print_json, print_yaml, target};

/// How often a drain is looked at.
const INTERVAL: Duration = Duration::from_secs(1);

const MANAGER: &str = "c5c3-drain";

pub(crate) const LIST_HELP: &str = "STATE is the reason of the condition Ready: Ready, Onboarding, Aborted, Disabled, ServiceDown, \
    Evicting, EvictionFailed, Evicted, Maintenance, Terminating, Offboarded.\n\n\
    Examples:\n  c5c3 hypervisors\n  c5c3 hypervisors -o json\n  kubectl get hv -o wide        # the same objects";

pub(crate) const LIST_CODES: &str =
    "Exit code 0: all take servers. 1: some do not, and it is said why. 2: could not look.";

pub(crate) const DRAIN_HELP: &str = "Sets spec.maintenance of the Hypervisor to manual and follows its Eviction: the compute service is \
    disabled, running and paused servers are migrated live, servers that are shut off are migrated cold, a few at a time. A server \
    that cannot leave is named with Nova's reason, and the others go on.\n\n\
    Examples:\n  c5c3 drain hv-1 --dry-run                  # what is on it, and what would happen\n  \
    c5c3 drain hv-1 --reason \"new disk\"        # and stay until it is empty\n  \
    c5c3 drain hv-1 --undo                     # it takes servers again";

pub(crate) const DRAIN_CODES: &str = "Exit code 0: the host is empty. 1: it is not, and what is held back is said with its reason. 2: could \
    not look.";

#[derive(Debug, ClapArgs)]
pub(crate) struct HypervisorsArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// How it is printed
    #[arg(short, long, value_enum, default_value_t)]
    output: Listing,
}

#[derive(Debug, ClapArgs)]
#[allow(clippy::struct_excessive_bools, reason = "they are switches of a command, and go with each other in any way")]
pub(crate) struct DrainArgs {
    /// The hypervisor, which is called like its node
    #[arg(value_name = "NODE")]
    name: String,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// What is done to the host and by whom, for people who read it in Nova
    #[arg(long, default_value = "drained with c5c3 drain")]
    reason: String,
    /// Show what is on the host and what would happen, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// End the maintenance: the host takes servers again
    #[arg(long, conflicts_with_all = ["dry_run", "reason"])]
    undo: bool,
    /// Stay until the host is empty, which is so without it, too
    #[arg(short, long)]
    wait: bool,
    /// Do not stay until it is done
    #[arg(long, conflicts_with = "wait")]
    no_wait: bool,
    /// How many seconds to stay
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    timeout: u64,
}

/// Hypervisors are in no namespace: that of the arguments is taken, as kubectl takes it, and means nothing.
async fn client(args: &ClusterArgs) -> Result<Client, String> {
    let config = target::config(&args.target, args.data.as_deref()).await?;
    Client::try_from(config).map_err(|error| format!("no cluster: {}", target::root(&error)))
}

pub(crate) fn list(args: &HypervisorsArgs) -> Done {
    block_on(async {
        let hosts: Api<Hypervisor> = Api::all(client(&args.cluster).await?);
        let all = hosts.list(&ListParams::default()).await.map_err(|error| unread(&error))?.items;
        match args.output {
            Listing::Table | Listing::Wide => print(&table(&all, args.output == Listing::Wide))?,
            Listing::Json => print_json(&json!(all.iter().map(row).collect::<Vec<_>>()))?,
            Listing::Yaml => print_yaml(&json!(all.iter().map(row).collect::<Vec<_>>()))?,
        };
        let well = all.iter().all(|host| state(host).is_some_and(|state| state.status == ConditionStatus::True));
        Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })?
}

fn unread(error: &kube::Error) -> String {
    format!(
        "cannot list hypervisors: {}; install the kinds with `c5c3 crds | kubectl apply --server-side -f -`",
        target::root(error)
    )
}

fn state(host: &Hypervisor) -> Option<&Condition> {
    said(host, "Ready")
}

fn said<'a>(host: &'a Hypervisor, condition_type: &str) -> Option<&'a Condition> {
    host.status.as_ref()?.conditions.iter().find(|condition| condition.r#type == condition_type)
}

fn word(mode: Maintenance) -> String {
    json!(mode).as_str().unwrap_or_default().to_owned()
}

/// One host, as it is printed.
fn row(host: &Hypervisor) -> serde_json::Value {
    let (state, status) = (state(host), host.status.clone().unwrap_or_default());
    json!({
        "name": host.name_any(),
        "zone": host.labels().get("topology.kubernetes.io/zone"),
        "state": state.and_then(|state| state.reason.clone()).unwrap_or_else(|| "Unknown".into()),
        "maintenance": word(host.spec.maintenance),
        "instances": status.num_instances,
        "hypervisor": status.hypervisor_version,
        "libvirt": status.lib_virt_version,
        "aggregates": status.aggregates.iter().map(|aggregate| aggregate.name.clone()).collect::<Vec<_>>(),
        "message": state.and_then(|state| state.message.clone()).unwrap_or_default(),
    })
}

fn table(hosts: &[Hypervisor], wide: bool) -> String {
    if hosts.is_empty() {
        return "there are no hypervisors; label a node with node-role.kubernetes.io/hypervisor\n".into();
    }
    let mut heads = vec!["NAME", "ZONE", "STATE", "MAINTENANCE", "INSTANCES"];
    if wide {
        heads.extend(["HYPERVISOR", "LIBVIRT", "AGGREGATES"]);
    }
    let last = heads.len();
    heads.push("WHY");
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::Null => "-".to_owned(),
        serde_json::Value::String(text) if text.is_empty() => "-".to_owned(),
        serde_json::Value::String(text) => text.replace('\n', "; "),
        other => other.to_string(),
    };
    let mut rows: Vec<Vec<String>> = vec![heads.into_iter().map(ToOwned::to_owned).collect()];
    for host in hosts {
        let row = row(host);
        let why = if row["state"] == "Ready" { "-".to_owned() } else { text(&row["message"]) };
        let mut cells: Vec<String> =
            ["name", "zone", "state", "maintenance", "instances"].iter().map(|field| text(&row[*field])).collect();
        if wide {
            let aggregates = row["aggregates"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str);
            let aggregates = aggregates.collect::<Vec<_>>().join(",");
            cells.extend([text(&row["hypervisor"]), text(&row["libvirt"]), text(&json!(aggregates))]);
        }
        cells.push(why);
        rows.push(cells);
    }
    let widths: Vec<usize> =
        (0..last).map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0)).collect();
    let mut table = String::new();
    for row in &rows {
        for (cell, width) in row.iter().zip(widths.iter().copied()) {
            let _ = write!(table, "{cell:width$}   ");
        }
        let _ = writeln!(table, "{}", row[last]);
    }
    table
}

pub(crate) fn drain(args: &DrainArgs) -> Done {
    block_on(async {
        let client = client(&args.cluster).await?;
        let hosts: Api<Hypervisor> = Api::all(client.clone());
        let host = hosts.get_opt(&args.name).await.map_err(|error| unread(&error))?;
        let host =
            host.ok_or_else(|| format!("there is no hypervisor {}; list them with `c5c3 hypervisors`", args.name))?;
        if args.undo {
            return undo(&hosts, &host).await;
        }
        if let Some(why) = refused(&host) {
            return Err(why);
        }
        print(&plan(&host))?;
        if args.dry_run {
            return Ok(ExitCode::SUCCESS);
        }
        let host = if host.spec.maintenance == Maintenance::None {
            let patch = json!({"spec": {"maintenance": "manual", "maintenanceReason": args.reason}});
            set(&hosts, &args.name, patch).await?
        } else {
            host
        };
        if args.no_wait && !args.wait {
            return Ok(ExitCode::SUCCESS);
        }
        follow(&client, &host, Duration::from_secs(args.timeout)).await
    })?
}

/// Why a host is not drained. In maintenance `ha`, and of a host that is left alone, there never is an Eviction.
fn refused(host: &Hypervisor) -> Option<String> {
    let name = host.name_any();
    if let Some(alone) = left_alone(host) {
        return Some(format!(
            "{name} is left alone, and none of its servers is moved: {}; {}",
            alone.now, alone.remedy
        ));
    }
    (host.spec.maintenance == Maintenance::Ha).then(|| {
        format!(
            "the maintenance of {name} is ha: high availability looks after its servers, and none is drained; end it first: \
             kubectl patch hv {name} --type=merge -p '{{\"spec\": {{\"maintenance\": \"\"}}}}'"
        )
    })
}

async fn set(hosts: &Api<Hypervisor>, name: &str, patch: serde_json::Value) -> Result<Hypervisor, String> {
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    let done = hosts.patch(name, &params, &Patch::Merge(patch)).await;
    done.map_err(|error| format!("cannot change hypervisor {name}: {}", target::root(&error)))
}

async fn undo(hosts: &Api<Hypervisor>, host: &Hypervisor) -> Done {
    match host.spec.maintenance {
        Maintenance::None => print("it is not in maintenance\n"),
        Maintenance::Manual => {
            set(hosts, &host.name_any(), json!({"spec": {"maintenance": "", "maintenanceReason": null}})).await?;
            print("its maintenance ends: the compute service is enabled again\n")
        }
        other => Err(format!("its maintenance is {}, which this command did not begin and does not end", word(other))),
    }
}

/// What would happen.
fn plan(host: &Hypervisor) -> String {
    let status = host.status.clone().unwrap_or_default();
    let mut text = format!("plan for {}:\n", host.name_any());
    match host.spec.maintenance {
        Maintenance::None => text += "  1. the compute service is disabled; no new servers come\n",
        mode => drop(writeln!(text, "  1. it is in maintenance already: {}", word(mode))),
    }
    match status.num_instances {
        Some(count) => drop(writeln!(text, "  2. its {count} instances leave: running ones live, others cold")),
        None => {
            text += "  2. its instances leave: running ones live, others cold (no agent reports how many there are)\n";
        }
    }
    for one in &status.instances {
        let _ = writeln!(text, "     {} {}{}", one.id, one.name, if one.active { "" } else { " (shut off)" });
    }
    text += "  3. it stays disabled until `c5c3 drain NODE --undo`\n";
    text
}

/// The Eviction of this drain. That of an earlier one has the same name: it is being deleted, or will be once the operator has seen
/// the Hypervisor as it was at this generation.
fn current<'a>(host: &Hypervisor, since: Option<i64>, eviction: Option<&'a Eviction>) -> Option<&'a Eviction> {
    let is_seen = said(host, "Evicting").is_some_and(|told| told.observed_generation >= since);
    eviction.filter(|eviction| is_seen && eviction.metadata.deletion_timestamp.is_none())
}

/// Shows what changes until the drain of a host, as it was when that began, is over.
async fn follow(client: &Client, begun: &Hypervisor, patience: Duration) -> Done {
    let (hosts, evictions): (Api<Hypervisor>, Api<Eviction>) = (Api::all(client.clone()), Api::all(client.clone()));
    let (name, since) = (&begun.name_any(), begun.metadata.generation);
    let (started, mut shown) = (Instant::now(), String::new());
    loop {
        let host = hosts.get_opt(name).await.map_err(|error| unread(&error))?;
        let host = host.ok_or_else(|| format!("hypervisor {name} was deleted meanwhile"))?;
        if host.spec.maintenance == Maintenance::None || refused(&host).is_some() {
            print(&format!("result: the maintenance of {name} was ended before it was empty\n"))?;
            return Ok(ExitCode::FAILURE);
        }
        let eviction = evictions.get_opt(name).await;
        let eviction = eviction.map_err(|error| format!("cannot read the eviction: {}", target::root(&error)))?;
        let eviction = current(&host, since, eviction.as_ref());
        let status = eviction.and_then(|eviction| eviction.status.clone()).unwrap_or_default();
        let now = progress(&status.instances);
        if now != shown {
            print(&now)?;
            shown = now;
        }
        let told = status.conditions.iter().find(|condition| condition.r#type == "Evicting");
        match told.and_then(|told| told.reason.as_deref()) {
            Some("Succeeded") => {
                return print(&format!("result: {name} is empty after {} s\n", started.elapsed().as_secs()));
            }
            Some("Failed") => {
                print(&held(name, &status.instances))?;
                return Ok(ExitCode::FAILURE);
            }
            _ if started.elapsed() > patience => {
                let why = told.and_then(|told| told.message.clone()).unwrap_or_else(|| absent(name));
                print(&format!("not done within {} s: {why}\n", patience.as_secs()))?;
                return Ok(ExitCode::FAILURE);
            }
            _ => tokio::time::sleep(INTERVAL).await,
        }
    }
}

fn absent(name: &str) -> String {
    format!("there is no Eviction yet; is the hypervisor operator running? c5c3 why hv/{name}")
}

/// One line for each instance.
fn progress(instances: &[EvictionInstance]) -> String {
    let mut text = String::new();
    for one in instances {
        let to = one.destination.as_ref().map(|host| format!(" to {host}")).unwrap_or_default();
        let tries = if one.attempts > 1 { format!(", attempt {}", one.attempts) } else { String::new() };
        let error = one.last_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        let _ = writeln!(text, "  {} {:?}{to}{tries}{error}", one.id, one.state);
    }
    text
}

/// What cannot leave, and why.
fn held(name: &str, instances: &[EvictionInstance]) -> String {
    let stuck: Vec<&EvictionInstance> =
        instances.iter().filter(|one| one.state == EvictionInstanceState::NonMigratable).collect();
    let mut text = format!("result: {} instances are held back on {name}:\n", stuck.len());
    for one in stuck {
        let error = one.last_error.as_deref().unwrap_or("Nova gave no reason");
        let _ = writeln!(text, "  {} after {} attempts: {error}", one.id, one.attempts);
    }
    text += "Move or delete them and it ends by itself. To try all once more: kubectl delete evi ";
    text + name + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "of the macro json")]
    fn host(status: serde_json::Value) -> Hypervisor {
        let object = json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Hypervisor",
            "metadata": {"name": "hv-1", "labels": {"topology.kubernetes.io/zone": "az-1"}}, "spec": {}, "status": status});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_table_says_why_a_host_takes_no_servers() {
        let ready = json!([{"type": "Ready", "status": "False", "reason": "Disabled", "message": "by a person"}]);
        let hosts = [host(json!({"conditions": ready, "numInstances": 2, "hypervisorVersion": "10.0.0"}))];
        assert!(table(&hosts, true).contains("HYPERVISOR   LIBVIRT   AGGREGATES   WHY"));
        let table = table(&hosts, false);
        let row: Vec<&str> =
            table.lines().nth(1).unwrap().split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(row, ["hv-1", "az-1", "Disabled", "-", "2", "by a person"]);
    }

    #[test]
    fn what_is_held_back_is_told_with_its_reason() {
        let stuck = json!({"id": "vm-1", "state": "NonMigratable", "attempts": 3, "lastError": "No valid host"});
        let text = held("hv-1", &[serde_json::from_value(stuck).unwrap()]);
        assert!(text.contains("vm-1 after 3 attempts: No valid host"), "{text}");
    }

    #[test]
    fn an_eviction_of_an_earlier_drain_says_nothing_of_this_one() {
        let eviction = |metadata: serde_json::Value| -> Eviction {
            let told = json!([{"type": "Evicting", "status": "False", "reason": "Succeeded"}]);
            let object = json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Eviction", "metadata": metadata,
                "spec": {"hypervisor": "hv-1", "reason": "fan"}, "status": {"conditions": told}});
            serde_json::from_value(object).unwrap()
        };
        let seen = |generation: i64| {
            let told =
                json!([{"type": "Evicting", "status": "True", "reason": "Running", "observedGeneration": generation}]);
            host(json!({"conditions": told}))
        };
        let (stays, goes) = (
            eviction(json!({"name": "hv-1"})),
            eviction(json!({"name": "hv-1", "deletionTimestamp": "2026-01-31T12:00:00Z"})),
        );
        assert!(current(&seen(3), Some(3), Some(&stays)).is_some());
        assert!(current(&seen(4), Some(3), Some(&stays)).is_some());
        assert!(current(&seen(3), Some(3), Some(&goes)).is_none(), "it is being deleted");
        assert!(current(&seen(2), Some(3), Some(&stays)).is_none(), "the operator has not seen this maintenance");
        assert!(current(&host(json!({})), Some(3), Some(&stays)).is_none());
    }

    #[test]
    fn a_host_that_high_availability_looks_after_is_not_drained() {
        let mut host = host(json!({}));
        assert_eq!(refused(&host), None);
        host.spec.maintenance = Maintenance::Ha;
        assert!(refused(&host).unwrap().starts_with("the maintenance of hv-1 is ha"));
    }

    #[test]
    fn a_host_that_is_left_alone_is_not_drained() {
        let mut host = host(json!({}));
        host.spec.lifecycle_enabled = false;
        let why = refused(&host).unwrap();
        assert!(why.contains("spec.lifecycleEnabled is false; set spec.lifecycleEnabled to true"), "{why}");
    }

    #[test]
    fn a_plan_names_the_instances() {
        let instances = json!([{"id": "vm-1", "name": "web", "active": false}]);
        let text = plan(&host(json!({"numInstances": 1, "instances": instances})));
        assert!(text.contains("its 1 instances leave") && text.contains("vm-1 web (shut off)"), "{text}");
    }
}
