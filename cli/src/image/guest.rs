//! `c5c3 image guest`: the disk of the tiny guest, as a file for Glance.

use std::path::{Path, PathBuf};

use clap::Args;

use super::args::WhereArgs;
use super::progress::Told;
use super::stored::said;
use super::{builder, mebibytes};
use crate::{Done, print};

/// Where `images/guest.sh` puts the disk.
const DISK: &str = "/guest/disk.qcow2";

#[derive(Debug, Args)]
pub(crate) struct GuestArgs {
    /// The disk, in the format qcow2; a file that is there is replaced
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    place: WhereArgs,
}

pub(crate) fn run(args: &GuestArgs) -> Done {
    // Building takes a while: better to say this before.
    let folder = args.output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(format!("cannot write {}: there is no folder {}", args.output.display(), folder.display()));
    }
    let builder = builder(&args.place)?;
    let built = builder.build(&["guest"], &Told::new()).map_err(|error| error.to_string())?;
    let layout = builder.cache.layout().map_err(|error| error.to_string())?;
    let size = layout.extract(&built[0].manifest, DISK, &args.output).map_err(said)?;
    let (file, kernel) = (args.output.display(), &built[0].planned.version);
    print(&format!("{file}: qcow2, {}, Linux {kernel}\n", mebibytes(size)))
}
