//! `c5c3 image keygen`, `sign` and `verify`: keys, signatures and their verification.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use c5c3_oci::signature::{self, PublicKey, SigningKey};
use c5c3_oci::{Descriptor, Layout, Reference, archive};
use clap::Args;

use super::args::WhereArgs;
use super::stored::{find, said};
use crate::{Done, print};

#[derive(Debug, Args)]
pub(crate) struct KeygenArgs {
    /// The file for the private key; the public one is beside it and ends in .pub
    pub(crate) file: PathBuf,
}

pub(crate) fn keygen(args: &KeygenArgs) -> Done {
    let public = args.file.with_added_extension("pub");
    if public.exists() {
        return Err(format!("{} already exists", public.display()));
    }
    let key = SigningKey::generate(&args.file).map_err(said)?;
    fs::write(&public, key.public().to_pem()).map_err(|error| format!("cannot write {}: {error}", public.display()))?;
    print(&format!("{}\n{}\n", args.file.display(), public.display()))
}

#[derive(Debug, Args)]
pub(crate) struct SignArgs {
    /// Which images: keystone, or a name in full
    #[arg(required = true)]
    pub(crate) names: Vec<String>,
    /// The private key
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    #[command(flatten)]
    pub(crate) place: WhereArgs,
}

pub(crate) fn sign(args: &SignArgs) -> Done {
    let key = SigningKey::read(&args.key).map_err(said)?;
    let (layout, images) = find(&args.place, &args.names)?;
    let mut text = String::new();
    for image in images {
        // What is signed is known to be whole.
        layout.verify(&image.image).map_err(said)?;
        signature::sign(&layout, image.name(), &key).map_err(said)?;
        let _ = writeln!(text, "{} {} signed", image.name(), image.image.digest());
    }
    print(&text)
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Which images: keystone, or a name in full
    #[arg(required_unless_present = "archive")]
    pub(crate) names: Vec<String>,
    /// The images of an archive instead of those of the store
    #[arg(long, value_name = "FILE", conflicts_with = "names")]
    pub(crate) archive: Option<PathBuf>,
    /// The public key by which they must be signed; without it, only their content is checked
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) place: WhereArgs,
}

pub(crate) fn verify(args: &VerifyArgs) -> Done {
    let key = args.key.as_deref().map(PublicKey::read).transpose().map_err(said)?;
    if let Some(file) = &args.archive {
        return verify_archive(file, key.as_ref());
    }
    let (layout, images) = find(&args.place, &args.names)?;
    let images: Vec<_> = images.iter().map(|image| (image.name(), &image.image)).collect();
    verify_all(&layout, &images, key.as_ref())
}

/// An archive is unpacked to be looked at, and nothing of it stays.
fn verify_archive(file: &Path, key: Option<&PublicKey>) -> Done {
    let folder = tempfile::tempdir().map_err(|error| format!("cannot make a temporary folder: {error}"))?;
    let layout = Layout::open(folder.path()).map_err(said)?;
    let images = archive::import(&layout, file, None).map_err(said)?;
    let images: Vec<_> = images.iter().map(|image| (&image.name, &image.descriptor)).collect();
    verify_all(&layout, &images, key)
}

fn verify_all(layout: &Layout, images: &[(&Reference, &Descriptor)], key: Option<&PublicKey>) -> Done {
    let mut text = String::new();
    for (name, image) in images {
        layout.verify(image).map_err(|error| format!("{name}: {error}"))?;
        let signed = match key {
            None => "its signature was not checked".to_owned(),
            Some(key) => {
                let repository = signature::verify(layout, image, key).map_err(|error| format!("{name}: {error}"))?;
                format!("signed as {repository}")
            }
        };
        let _ = writeln!(text, "{name} {} whole, {signed}", image.digest());
    }
    print(&text)
}
