//! `c5c3 image sbom` and `export`: images and what is said of them, as files.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use c5c3_oci::Reference;
use c5c3_oci::archive::{Referrers, export as write};
use c5c3_oci::bill::{Bill, Format};
use clap::{Args, ValueEnum};

use super::args::WhereArgs;
use super::stored::{find, said};
use crate::{Done, print};

/// How a bill of materials is written
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum BillFormat {
    Cyclonedx,
    Spdx,
}

impl From<BillFormat> for Format {
    fn from(format: BillFormat) -> Self {
        match format {
            BillFormat::Cyclonedx => Self::CycloneDx,
            BillFormat::Spdx => Self::Spdx,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct SbomArgs {
    /// Which image: keystone, or a name in full
    pub(crate) name: String,
    /// How it is written
    #[arg(long, value_enum, default_value_t = BillFormat::Cyclonedx)]
    pub(crate) format: BillFormat,
    /// Write it into a file instead of printing it
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) place: WhereArgs,
}

pub(crate) fn sbom(args: &SbomArgs) -> Done {
    let (layout, images) = find(&args.place, std::slice::from_ref(&args.name))?;
    let [image] = images.as_slice() else { return Err(format!("{} is not one image", args.name)) };
    image.furnish(&layout)?;
    let attached = Bill::attached(&layout, image.image.digest(), args.format.into()).map_err(said)?;
    let document = attached.ok_or_else(|| format!("{} has no bill of materials", args.name))?;
    match &args.output {
        None => print(&format!("{}\n", String::from_utf8_lossy(&document))),
        Some(file) => {
            fs::write(file, document).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Which images: keystone, or a name in full
    #[arg(required = true)]
    pub(crate) names: Vec<String>,
    /// The archive
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Bills of materials and signatures, too; readers must then name an image by its tag
    #[arg(long)]
    pub(crate) referrers: bool,
    #[command(flatten)]
    pub(crate) place: WhereArgs,
}

pub(crate) fn export(args: &ExportArgs) -> Done {
    let (layout, images) = find(&args.place, &args.names)?;
    let referrers = if args.referrers { Referrers::Take } else { Referrers::Leave };
    if args.referrers {
        images.iter().try_for_each(|image| image.furnish(&layout))?;
    }
    // Each by one name, so that an archive of one image holds one.
    let names: Vec<Reference> = images.iter().map(|image| image.name().clone()).collect();
    write(&layout, &names, referrers, &args.output).map_err(said)?;
    Ok(ExitCode::SUCCESS)
}
