//! `c5c3`: the one binary. It wires the other crates together and holds no logic of theirs.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod agent;
mod apiserver;
mod args;
mod backup;
mod charts;
mod cluster;
mod crds;
mod credentials;
mod flux;
mod hypervisors;
mod image;
mod manifests;
mod monitoring;
mod operator;
mod plan;
mod providers;
mod redact;
mod reference;
mod rotate;
mod rules;
mod scheduler;
mod status;
mod support;
mod target;
mod tempest;
mod tls;
mod up;
mod validate;

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use serde_json::json;

use crate::args::{Args, Command, Output};

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Up(args) => up::run(&args),
        Command::Down(args) => cluster::down(&args),
        Command::Backup(args) => backup::backup(&args),
        Command::Restore(args) => backup::restore(&args),
        Command::Env(args) => cluster::env(&args),
        Command::Status(args) => status::status(&args),
        Command::Why(args) => status::why(&args),
        Command::Logs(args) => status::logs(&args),
        Command::Credentials(args) => credentials::run(&args),
        Command::Rotate(args) => rotate::run(&args),
        Command::Hypervisors(args) => hypervisors::list(&args),
        Command::Drain(args) => hypervisors::drain(&args),
        Command::Test(args) => tempest::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Support(args) => support::run(&args),
        Command::Doctor(args) => cluster::doctor(&args),
        Command::Node(args) => cluster::node(args),
        Command::NodeAgent(args) => cluster::node_agent(&args),
        Command::Crds(args) => crds::run(&args),
        Command::Manifests(args) => manifests::run(&args),
        Command::Charts(args) => charts::run(&args),
        Command::Flux(args) => flux::run(&args),
        Command::Monitoring(args) => monitoring::run(&args),
        Command::Reference(args) => reference::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Operator(args) => operator::run(args),
        Command::Agent(args) => agent::run(args),
        Command::Scheduler(args) => scheduler::run(&args),
        Command::Providers(args) => providers::run(&args),
        Command::Apiserver(args) => apiserver::run(args),
        Command::Image(args) => image::run(&args),
        Command::Tls(args) => tls::run(&args),
        Command::Version(args) => version(args.output),
        Command::Completions { shell } => completions(shell),
    };
    done.unwrap_or_else(|error| {
        eprintln!("c5c3: {error}");
        // 1 says that something is not as it should be, of every command; that it could not be done is another thing.
        ExitCode::from(2)
    })
}

/// How a command ends: with an exit code, or with one line that says what is wrong and how to fix it.
type Done = Result<ExitCode, String>;

/// Writes to standard output; a reader that has gone away, as `head` does, is no failure.
fn print(text: &str) -> Done {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(format!("cannot write to standard output: {error}")),
    }
}

/// Prints a value as YAML, or as JSON if that is asked for.
fn print_value(value: &serde_json::Value, output: Output) -> Done {
    match output {
        Output::Yaml => print_yaml(value),
        Output::Text | Output::Json => print_json(value),
    }
}

/// Prints a value as YAML.
fn print_yaml(value: &serde_json::Value) -> Done {
    print(&serde_saphyr::to_string(value).map_err(|error| format!("cannot write YAML: {error}"))?)
}

/// Prints a value as JSON.
fn print_json(value: &serde_json::Value) -> Done {
    print(&format!("{value:#}\n"))
}

fn version(output: Output) -> Done {
    let version = env!("CARGO_PKG_VERSION");
    let kinds = c5c3_api::all();
    let groups: BTreeSet<&str> = kinds.iter().map(c5c3_api::Kind::group).collect();
    match output {
        Output::Text => print(&format!("c5c3 {version}\n{} kinds in {} API groups\n", kinds.len(), groups.len())),
        Output::Json | Output::Yaml => {
            print_value(&json!({"version": version, "kinds": kinds.len(), "groups": groups}), output)
        }
    }
}

/// Written to memory first: the generator panics when its reader goes away.
fn completions(shell: clap_complete::Shell) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "c5c3", &mut script);
    print(&String::from_utf8_lossy(&script))
}
