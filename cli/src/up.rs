//! `c5c3 up`: the cluster on this machine, the operators on it, and the ControlPlane that they bring up.

mod agents;
pub(crate) mod clouds;
mod control_plane;
mod fencing;
pub(crate) mod images;
mod live;
mod operators;
mod webhooks;

use std::io::{BufRead, BufReader, IsTerminal};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use c5c3_cluster::{Asked, Cluster, Folder, Options};
use c5c3_kit::Operator;
use c5c3_kit::logging::{self, Format};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::args::{DataArgs, UpArgs};
use crate::operator::stop_asked;
use crate::{Done, manifests};
use control_plane::{Manifest, Wanted};

/// What the detached process says when the cluster is ready, and when it runs but its ControlPlane is late.
const READY: &str = "ready";
const LATE: &str = "late";

pub(crate) fn run(args: &UpArgs) -> Done {
    if let Some(done) = runs_already(args) {
        return done;
    }
    if args.detach {
        return detach(args);
    }
    // In the foreground people read what is said; what is logged is for when something is wrong.
    logging::start(Format::Text, args.log.as_deref().unwrap_or("warn"))?;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(serve(args))
}

/// How the command ends if the cluster runs: a second start changes nothing.
fn runs_already(args: &UpArgs) -> Option<Done> {
    let folder = match folder(&args.data) {
        Ok(folder) => folder,
        Err(error) => return Some(Err(error)),
    };
    let process = folder.owner()?;
    let data = data_flag(&folder);
    if let Some(file) = &args.file {
        let file = file.display();
        return Some(Err(format!("the cluster runs already: change what runs on it with `kubectl apply -f {file}`")));
    }
    let flags = flags_of_a_start(args);
    if !flags.is_empty() {
        return Some(Err(format!(
            "the cluster runs already, and {} cannot change while it runs: `c5c3 down{data}`, then the same command again",
            flags.join(", ")
        )));
    }
    say(&format!("it runs: process {process}\n\n  eval \"$(c5c3 env{data})\"\n  c5c3 status{data}\n"));
    Some(Ok(ExitCode::SUCCESS))
}

/// The flags of this command that say what the cluster is, which is decided when it starts.
fn flags_of_a_start(args: &UpArgs) -> Vec<&'static str> {
    let given = [
        ("--nodes", args.nodes.is_some()),
        ("--label", !args.label.is_empty()),
        ("--taint", !args.taint.is_empty()),
        ("--hypervisors", args.hypervisors.is_some()),
        ("--nic", !args.nic.is_empty()),
        ("--expose", args.expose.is_some()),
        ("--allow-unsafe-sysctls", args.allow_unsafe_sysctls.is_some()),
        ("--without-provider", !args.without.without_provider.is_empty()),
    ];
    given.into_iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| flag).collect()
}

/// The flag that names a cluster, for commands in messages; empty for the default cluster.
fn data_flag(folder: &Folder) -> String {
    let is_default = folder.path() == Folder::default_path();
    if is_default { String::new() } else { format!(" --data {}", folder.path().display()) }
}

pub(crate) fn folder(args: &DataArgs) -> Result<Folder, String> {
    Folder::new(&args.data).map_err(|error| error.to_string())
}

/// Says one thing on a line of its own.
pub(crate) fn say(line: &str) {
    let _ = crate::print(&format!("{line}\n"));
}

/// Which ControlPlane the command names.
fn asked_for(args: &UpArgs) -> Manifest<'_> {
    match &args.file {
        Some(file) => Manifest::File(file),
        None if args.minimal => Manifest::Minimal,
        None => Manifest::Cloud,
    }
}

async fn serve(args: &UpArgs) -> Done {
    let folder = folder(&args.data)?;
    let bare = args.bare || args.no_operators;
    let wanted = if bare { None } else { Some(Wanted::read(asked_for(args))?) };
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let marks = args.label.iter().chain(&args.taint).chain(&args.nic).cloned().collect();
    // Servers of the whole cloud need a hypervisor.
    let usual_hypervisors = u8::from(!bare && matches!(asked_for(args), Manifest::Cloud));
    let asked = Asked { nodes: args.nodes, hypervisors: args.hypervisors, usual_hypervisors, marks };
    let unsafe_sysctls = args.allow_unsafe_sysctls.clone();
    let options = Options {
        folder: folder.clone(),
        asked,
        exposure: args.expose,
        unsafe_sysctls,
        without_providers: args.without.without_provider.clone(),
        program,
    };
    let cluster = Cluster::start(options, &say).await.map_err(|error| error.to_string())?;
    let stop = CancellationToken::new();
    let outcome = tokio::select! {
        outcome = live(args, &folder, &cluster, wanted.as_ref(), &stop) => outcome,
        () = stop_asked() => Ok(()),
    };
    say("ending");
    stop.cancel();
    cluster.end(&say).await.map_err(|error| error.to_string())?;
    outcome.map(|()| ExitCode::SUCCESS)
}

/// The cluster's life: operators are started, nodes get ready, the ControlPlane comes up, commands are answered. Ends only
/// when something is wrong.
async fn live(
    args: &UpArgs,
    folder: &Folder,
    cluster: &Cluster,
    wanted: Option<&Wanted>,
    stop: &CancellationToken,
) -> Result<(), String> {
    let tasks = TaskTracker::new();
    let client = cluster.client("up");
    let found = match wanted {
        Some(_) if args.file.is_none() => Wanted::found(&client).await?,
        _ => None,
    };
    if let Some(found) = &found {
        say(&format!("goes on with {}", found.title()));
    }
    let wanted = found.as_ref().or(wanted);
    // What is in a file of the user's may have the genuine kinds already.
    if let Some(wanted) = wanted.filter(|_| args.file.is_none()) {
        wanted.refuse_without(&args.without.without_provider)?;
    }
    let operate = async {
        if !args.no_operators {
            operators::install(&client).await?;
            let account = |name: &str, operator: &Operator| {
                cluster.account(manifests::embedded_home(name), &manifests::account_name(name, operator))
            };
            let (power, served) = (fencing::PowerSwitch::new(folder), folder.path().join("webhooks"));
            let at = webhooks::start(&client, account, &served, power.routes(), &tasks, stop).await?;
            let credential = wanted.map_or_else(operators::usual_credential, Wanted::credential);
            power.publish(&client, &credential.namespace, &at).await?;
            operators::start(cluster, &credential, &tasks, stop);
        }
        Ok(())
    };
    let nodes = async { cluster.ready(&say).await.map_err(|error| error.to_string()) };
    let provide = async {
        match wanted {
            Some(wanted) => wanted.provide(folder).await,
            None => Ok(()),
        }
    };
    let ready = async {
        tokio::try_join!(operate, nodes, provide)?;
        cluster.protect();
        let tell = |is_ready: bool| {
            if std::io::stdout().is_terminal() {
                hint(folder, is_ready);
            } else {
                say(if is_ready { READY } else { LATE });
            }
        };
        match wanted {
            Some(wanted) => {
                if !args.no_operators {
                    let (namespace, parts) = (wanted.namespace(), wanted.parts());
                    agents::start(cluster, (&namespace, &parts), &tasks, stop).await?;
                }
                wanted.bring_up(&client, folder, Duration::from_secs(args.timeout), tell).await?;
                wanted.follow(&client, folder).await;
            }
            None => tell(true),
        }
        std::future::pending::<Result<(), String>>().await
    };
    tokio::select! {
        failed = ready => failed,
        served = cluster.serve(stop) => served.map_err(|error| format!("cannot answer commands: {error}")),
    }
}

/// Three things to try.
fn hint(folder: &Folder, is_ready: bool) {
    let data = data_flag(folder);
    let has_cloud = clouds::path(folder).exists();
    let (what, first) = match (is_ready, has_cloud) {
        (true, true) => ("the cloud is ready", "openstack token issue".to_owned()),
        (true, false) => ("the cluster is ready", "kubectl get nodes".to_owned()),
        (false, _) => ("the cluster is ready, and its ControlPlane is late", format!("c5c3 why{data}")),
    };
    let last = if has_cloud { format!("c5c3 status{data}") } else { format!("c5c3 down{data}") };
    say(&format!("\n{what}\n\n  eval \"$(c5c3 env{data})\"\n  {first}\n  {last}\n"));
}

/// Starts the same command in a session of its own, and stays until the cluster is ready.
fn detach(args: &UpArgs) -> Done {
    let folder = folder(&args.data)?;
    if args.file.is_some() {
        // What is wrong with the file is said here, not in a log.
        Wanted::read(asked_for(args))?;
    }
    let failed = |error: std::io::Error| format!("cannot start in the background: {error}");
    let log = folder.open_log().map_err(|error| error.to_string())?;
    let begun_at = log.metadata().map_err(failed)?.len();
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new("setsid");
    command.arg(program).args(std::env::args_os().skip(1).filter(|argument| argument != "--detach"));
    if args.log.is_none() {
        command.env("C5C3_LOG", "info");
    }
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().map_err(failed)?;
    let lines = child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok);
    for line in lines {
        if line == READY || line == LATE {
            hint(&folder, line == READY);
            return Ok(if line == READY { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        say(&line);
    }
    let _ = child.wait();
    let log = std::fs::read(folder.log()).unwrap_or_default();
    Err(format!("the cluster did not start; the end of {}:\n{}", folder.log().display(), end_of(&log, begun_at)))
}

/// The last lines of a log that were written after that many bytes: those of earlier attempts are about something else.
fn end_of(log: &[u8], begun_at: u64) -> String {
    let own = usize::try_from(begun_at).ok().and_then(|begun_at| log.get(begun_at..)).unwrap_or(log);
    let text = String::from_utf8_lossy(own);
    let lines: Vec<_> = text.lines().rev().take(20).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    #[test]
    fn a_cluster_that_runs_refuses_what_only_a_start_changes() {
        let up = |flags: &str| {
            let line = ["c5c3", "up"].into_iter().chain(flags.split_whitespace());
            let Command::Up(args) = Args::try_parse_from(line).unwrap().command else { panic!("it is no `up`") };
            flags_of_a_start(&args)
        };
        assert!(up("--detach --timeout 60 --minimal").is_empty(), "a second start changes nothing");
        for flag in [
            "--nodes 2",
            "--label node-1:a=b",
            "--taint node-1:a=b:NoSchedule",
            "--hypervisors 1",
            "--nic node-1:eth1",
            "--expose none",
            "--allow-unsafe-sysctls net.*",
            "--without-provider rook",
        ] {
            assert_eq!(up(flag), [flag.split(' ').next().unwrap()]);
        }
    }

    #[test]
    fn only_what_this_attempt_logged_is_shown() {
        let log = b"an old mistake\nthe new mistake\n";
        assert_eq!(end_of(log, 15), "the new mistake");
        assert_eq!(end_of(b"shorter than before\n", 500), "shorter than before", "the log was replaced");
    }
}
