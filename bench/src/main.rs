//! `bench`: what we measure ourselves by. Each benchmark prints a table; ratios come from one run.

#![allow(clippy::print_stdout)]

mod api;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measure the parts of CobaltCore
#[derive(Debug, Parser)]
#[command(arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Put the same load on any Kubernetes API server
    #[command(after_help = "Measure one server, or two one after the other with their ratio:\n  \
        bench api --kubeconfig FILE\n  bench api --kubeconfig FILE --against OTHER --pid 4711 --against-pid 4712\n\n\
        Without --kubeconfig, an embedded one is started on a folder of its own: durable, on loopback.\n\
        What is made on the server is removed at the end.")]
    Api(api::Args),
}

fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let Command::Api(args) = Args::parse().command;
    let runtime = tokio::runtime::Runtime::new();
    let done = runtime.map_err(|error| error.to_string()).and_then(|runtime| runtime.block_on(api::run(args)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
