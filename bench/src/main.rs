//! `bench`: what we measure ourselves by. Each benchmark prints a table; ratios come from one run.

#![allow(clippy::print_stdout)]

mod api;
mod cortex;
mod idle;
mod memory;
mod rest;
mod up;

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
    /// Ask Cortex's engine for many decisions at once, and see how long they take and whether a host is overbooked
    #[command(
        after_help = "Needs nothing but memory. The engine is measured without HTTP: bodies are read, decided on and answered."
    )]
    Cortex(cortex::Args),
    /// Start a cluster with a few pods, and see what it costs when nothing happens
    #[command(after_help = "The image of memcached is built before, if it is not there. Needs root.")]
    Idle(idle::Args),
    /// Put an hour's worth of requests on a cluster, and see what it holds in memory before and after
    #[command(after_help = "Needs root. Another build is measured in the same way: bench memory --program FILE")]
    Memory(memory::Args),
    /// Count what operators ask of the API server when nothing happens, and see what they cost
    #[command(
        after_help = "A small cloud with as many Keystones as asked for is brought up by operators in processes of their own.\n\
        The images are built before, if they are not there. Needs root and kubectl.\n\n\
        Another build is measured in the same way: bench rest --program FILE"
    )]
    Rest(rest::Args),
    /// Bring up a small cloud, and the same servers by a script that no one orchestrates
    #[command(after_help = "Images are built before, if they are not there; neither side has to. Needs root.\n\
        The script is bench/up/by-hand.sh: read it, and say what it could do faster.")]
    Up(up::Args),
}

fn block_on(work: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    runtime.block_on(work)
}

fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let done = match Args::parse().command {
        Command::Api(args) => block_on(api::run(args)),
        Command::Cortex(args) => cortex::run(&args),
        Command::Idle(args) => block_on(idle::run(&args)),
        Command::Memory(args) => block_on(memory::run(&args)),
        Command::Rest(args) => block_on(rest::run(&args)),
        Command::Up(args) => up::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
