//! `c5c3 backup` and `c5c3 restore`: the cluster on this machine as one file, and back.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::Done;
use crate::args::DataArgs;
use crate::up::{folder, say};

/// How a backup is made.
pub(crate) const BACKUP_HELP: &str = "Examples:\n  c5c3 down\n  c5c3 backup --output cloud.tar.gz\n  c5c3 up --detach\n\n\
    The file has everything of the cluster, for its owner alone: objects, keys, secrets and volumes. Archives of images and what \
    nodes have of images are left out, and named. The cluster has to be stopped: a copy of volumes that are written to is \
    worth nothing. For backups of a cloud that runs see Backup in docs/operations.md.";

/// How a cluster is restored.
pub(crate) const RESTORE_HELP: &str = "Examples:\n  c5c3 restore cloud.tar.gz\n  c5c3 up --detach\n\n\
    The file is compared with its checksum first. A cluster comes back in the data folder that it was in, on this machine or \
    on another one. Without --replace that folder must not hold a cluster. The next `c5c3 up` brings the images again.";

/// What is backed up, and where to
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    data: DataArgs,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace the file if it exists, once the new one is complete
    #[arg(long)]
    force: bool,
}

/// What is restored
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The file that `c5c3 backup` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    data: DataArgs,
    /// Replace the cluster that the data folder holds, with all of its data
    #[arg(long)]
    replace: bool,
}

pub(crate) fn backup(args: &BackupArgs) -> Done {
    let done = c5c3_cluster::backup(&folder(&args.data)?, &args.output, args.force, &say);
    done.map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string())
}

pub(crate) fn restore(args: &RestoreArgs) -> Done {
    let done = c5c3_cluster::restore(&folder(&args.data)?, &args.file, args.replace, &say);
    done.map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string())
}
