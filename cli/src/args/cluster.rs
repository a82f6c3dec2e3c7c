//! What the commands take that look at a cluster, whichever it is: which one, what of it, and how it is printed.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

/// Which cluster is meant when no flag says so.
pub(crate) const WHICH: &str = "Which cluster: the one of --data, --kubeconfig or --context; else of KUBECONFIG, of C5C3_DATA, of \
    ~/.kube/config, of the pod that this runs in, or the one on this machine.";

/// What the exit codes mean.
pub(crate) const CODES: &str = "Exit code 0: all is ready. 1: something is not. 2: could not look.";

/// How a result is printed
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    #[default]
    #[value(alias = "table")]
    Text,
    Json,
    Yaml,
}

/// How a list is printed
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listing {
    #[default]
    #[value(alias = "text")]
    Table,
    /// With more columns
    Wide,
    Json,
    Yaml,
}

/// A cluster by its kubeconfig
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct TargetArgs {
    /// The kubeconfig of the cluster
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig; its current one when absent
    #[arg(long)]
    pub(crate) context: Option<String>,
}

/// Which cluster, and what of it
#[derive(Debug, ClapArgs)]
pub(crate) struct ClusterArgs {
    /// Look at one namespace only; all of them when absent
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,
    /// Look at all namespaces, as without it
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// The data folder of a cluster on this machine
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kubeconfig", "context"])]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// How it is printed
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
    /// Stay until all is ready
    #[arg(long)]
    pub(crate) wait: bool,
    /// Stay, and show it again whenever it changes, until Ctrl-C
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) watch: bool,
    /// How many seconds to stay
    #[arg(long, value_name = "SECONDS", default_value_t = 300, requires = "wait")]
    pub(crate) timeout: u64,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct WhyArgs {
    /// Which object; every ControlPlane when absent
    #[arg(value_name = "KIND/NAME")]
    pub(crate) object: Option<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// How it is printed
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct LogsArgs {
    /// Which service, such as keystone or mariadb
    pub(crate) service: String,
    /// Stay, and show what comes
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// How many lines of each container
    #[arg(long, alias = "lines", default_value_t = 100, value_name = "N")]
    pub(crate) tail: i64,
    /// Only lines that are younger than this, such as 30s, 5m or 2h
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    pub(crate) since: Option<i64>,
    /// Only this container
    #[arg(short, long)]
    pub(crate) container: Option<String>,
    /// What the containers wrote before they were restarted last
    #[arg(short, long, conflicts_with = "follow")]
    pub(crate) previous: bool,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// A duration as kubectl takes it, in seconds.
pub(crate) fn seconds(text: &str) -> Result<i64, String> {
    let parsed: jiff::SignedDuration = text.parse().map_err(|_| "write a number and a unit, such as 30s, 5m or 2h")?;
    match parsed.as_secs() {
        seconds @ 1.. => Ok(seconds),
        _ => Err("must be at least one second".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_for_kubectl() {
        assert_eq!((seconds("30s"), seconds("5m"), seconds("1h30m")), (Ok(30), Ok(300), Ok(5400)));
        assert!(seconds("yesterday").is_err() && seconds("0s").is_err());
    }
}
