//! `c5c3 image import`: into the cluster on this machine.

use std::fs;
use std::process::ExitCode;

use c5c3_images::{Ready, archive};

use super::args::ImportArgs;
use super::progress::Told;
use super::{builder, names};
use crate::Done;
use crate::up::{folder, say};

pub(crate) fn run(args: &ImportArgs) -> Done {
    let builder = builder(&args.place)?;
    let built =
        builder.build(&names(&builder, &args.names, args.all), &Told::new()).map_err(|error| error.to_string())?;
    let folder = folder(&args.data)?.images();
    for image in &built {
        let ready = archive(&builder, image).map_err(|error| error.to_string())?;
        hand_over(&folder, &ready).map_err(|error| format!("{}: {error}", folder.display()))?;
        say(&ready.reference);
    }
    Ok(ExitCode::SUCCESS)
}

/// Puts an archive where every node of a cluster looks for images. One that is there already is left alone, and an older
/// one of the same image is replaced.
pub(crate) fn hand_over(folder: &std::path::Path, ready: &Ready) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let digest = ready.digest.rsplit(':').next().unwrap_or_default();
    let name = format!("{}-{}.tar", ready.name, digest.get(..16).unwrap_or(digest));
    let (new, place) = (folder.join(format!("{name}.part")), folder.join(&name));
    if place.exists() {
        return Ok(());
    }
    let _ = fs::remove_file(&new);
    if fs::hard_link(&ready.archive, &new).is_err() {
        fs::copy(&ready.archive, &new)?;
    }
    fs::rename(new, place)?;
    let old = |file: &str| file != name && file.strip_prefix(&ready.name).is_some_and(|rest| rest.len() == 21);
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.file_name().to_str().is_some_and(old) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
