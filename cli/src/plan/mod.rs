//! `c5c3 plan`: what changed objects would do to a cluster, by the operators' own functions, before anything is changed.

mod follow;
mod given;
mod shown;
mod summary;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args as ClapArgs;

use crate::args::{ClusterArgs, Output};
use crate::cluster::block_on;
use crate::{Done, print, print_value};

use follow::Follow;
use given::Given;
use summary::Summary;

pub(crate) const HELP: &str = "Reads, validates and plans as the operators do, with the objects of FILE in the place of those that \
    are there, and follows them down: a ControlPlane makes objects of services, whose plans are made of these in turn. Nothing is \
    written; what would be applied is tried as a dry run, so that defaults and admission count.\n\n\
    + is created, ~ changes, - is deleted, ! is refused. What follows from a status that another controller has yet to write is \
    not foreseen. An account needs what the operators need: to read Secrets, and to patch (c5c3 manifests lists it).\n\n\
    Examples:\n  c5c3 plan -f controlplane.yaml\n  c5c3 plan -f keystone.yaml -n openstack -o json\n  \
    kustomize build . | c5c3 plan -f -";

pub(crate) const CODES: &str = "Exit code 0: nothing would change. 1: something would. 2: there is no plan: the objects are wrong, or could not look.";

#[derive(Debug, ClapArgs)]
pub(crate) struct PlanArgs {
    /// The changed objects: a file, a folder, or - for standard input; may be repeated
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// How it is printed
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

pub(crate) fn run(args: &PlanArgs) -> Done {
    block_on(async {
        let given = Given::read(args).await?;
        if !given.problems.is_empty() {
            print(&(given.problems.join("\n") + "\n"))?;
            return Ok(ExitCode::from(2));
        }
        let plans = Follow::new(&given).all(&given).await?;
        let summary = Summary::of(&plans);
        match args.output {
            Output::Text => print(&shown::text(&plans, &summary))?,
            Output::Json | Output::Yaml => print_value(&shown::json(&plans, &summary), args.output)?,
        };
        Ok(if summary.is_refused { ExitCode::from(2) } else { ExitCode::from(u8::from(summary.is_change())) })
    })?
}
