//! `c5c3`: the one binary. It wires the other crates together and holds no logic of theirs.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod apiserver;
mod args;
mod cluster;
mod crds;
mod image;
mod manifests;
mod operator;
mod reference;
mod status;
mod tls;
mod up;
mod validate;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::args::{Args, Command};

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Up(args) => up::run(&args),
        Command::Down(args) => cluster::down(&args),
        Command::Env(args) => cluster::env(&args),
        Command::Status(args) => status::status(&args),
        Command::Why(args) => status::why(&args),
        Command::Logs(args) => status::logs(&args),
        Command::Doctor(args) => cluster::doctor(&args),
        Command::Node(args) => cluster::node(args),
        Command::NodeAgent(args) => cluster::node_agent(&args),
        Command::Crds(args) => crds::run(&args),
        Command::Manifests(args) => manifests::run(&args),
        Command::Reference(args) => reference::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Operator(args) => operator::run(args),
        Command::Apiserver(args) => apiserver::run(args),
        Command::Image(args) => image::run(&args),
        Command::Tls(args) => tls::run(&args),
        Command::Version => version(),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Args::command(), "c5c3", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("c5c3: {error}");
        ExitCode::FAILURE
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

fn version() -> Done {
    print(&format!(
        "c5c3 {}\n{} kinds in {} API groups\n",
        env!("CARGO_PKG_VERSION"),
        c5c3_api::all().len(),
        c5c3_api::all().iter().map(c5c3_api::Kind::group).collect::<std::collections::BTreeSet<_>>().len(),
    ))
}
