//! `c5c3 support`: a bundle for those who help: objects, events, logs and what the other commands say, without a secret. Values of
//! Secrets are read for one purpose: to take them out of everything else.

mod bundle;
mod clean;
mod gather;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args as ClapArgs;
use jiff::Timestamp;

use crate::args::{ClusterArgs, seconds};
use crate::cluster::block_on;
use crate::status::Asked;
use crate::{Done, print, target};

use bundle::Bundle;
use gather::Gather;

pub(crate) const HELP: &str = "In the bundle: all objects of ours with their status, what they are made of (workloads, pods, volumes, \
    the objects of other operators), nodes, events, the last lines of the logs of operators and services, versions, `c5c3 status` and \
    `c5c3 why`. Of Secrets: names, types and keys. Known values of Secrets, and what looks like a password, a token or a private key, \
    is replaced by <redacted> everywhere. Look through it before you pass it on: names of hosts, users and projects are in it.\n\n\
    Examples:\n  c5c3 support\n  c5c3 support -n openstack --since 2h --output case-17.tar.gz";

pub(crate) const CODES: &str = "Exit code 0: the bundle is written, whole. 1: it is written, and something could not be read; notes.txt \
    says what. 2: there is no bundle.";

#[derive(Debug, ClapArgs)]
pub(crate) struct SupportArgs {
    /// The bundle; c5c3-support-TIME.tar.gz when absent
    #[arg(short, long, value_name = "FILE.tar.gz")]
    output: Option<PathBuf>,
    /// How many lines of each container's log
    #[arg(long, value_name = "N", default_value_t = 2000)]
    tail: i64,
    /// Only lines of logs that are younger than this, such as 30m or 2h
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    since: Option<i64>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(crate) fn run(args: &SupportArgs) -> Done {
    block_on(async {
        let asked = Asked::new(&args.cluster).await?;
        let world = asked.look().await?;
        let began = Timestamp::now();
        let gather = Gather { asked: &asked, world: &world, tail: args.tail, since: args.since };
        let mut bundle = Bundle::default();
        gather.secrets(&mut bundle).await;
        gather.versions(&mut bundle).await;
        gather.told(&mut bundle);
        gather.objects(&mut bundle).await;
        gather.logs(&mut bundle).await;
        if let Some(log) = target::log_of(&args.cluster.target, args.cluster.data.as_deref()) {
            gather.own_log(&log, &mut bundle);
        }
        let name = format!("c5c3-support-{}", began.strftime("%Y%m%d-%H%M%S"));
        let path = args.output.clone().unwrap_or_else(|| format!("{name}.tar.gz").into());
        let (files, bytes) = bundle.write(&name, &path)?;
        print(&format!("{}: {files} files, {} KiB\n", path.display(), bytes.div_ceil(1024)))?;
        if bundle.notes.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        print(&format!("not in it:\n  {}\n", bundle.notes.join("\n  ")))?;
        Ok(ExitCode::FAILURE)
    })?
}
