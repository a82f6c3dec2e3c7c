//! `c5c3 image sbom`, `export` and `push`: images and what is said of them, for others.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use c5c3_oci::archive::{Referrers, export as write};
use c5c3_oci::bill::{Bill, Format};
use c5c3_oci::registry::{Access, Credentials};
use c5c3_oci::{Reference, Registry};
use clap::{Args, ValueEnum};

use super::args::WhereArgs;
use super::mebibytes;
use super::stored::{Stored, find, said};
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

#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// Which images: keystone, or a name in full
    #[arg(required = true)]
    pub(crate) names: Vec<String>,
    /// Where to, instead of what the names say: keystone goes to HOST/PATH/keystone
    #[arg(long, value_name = "HOST/PATH")]
    pub(crate) to: Option<String>,
    /// Without TLS: only to a registry at a loopback address
    #[arg(long)]
    pub(crate) plain_http: bool,
    /// A certificate authority beside those of the machine, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// What `docker login`, `podman login` or `skopeo login` has written
    #[arg(long, value_name = "FILE", env = "REGISTRY_AUTH_FILE")]
    pub(crate) auth_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) place: WhereArgs,
}

pub(crate) fn push(args: &PushArgs) -> Done {
    let (layout, images) = find(&args.place, &args.names)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    let mut text = String::new();
    for image in &images {
        image.furnish(&layout)?;
        for target in targets(image, args.to.as_deref())? {
            let registry = Registry::new(&target, access(args, target.registry())?).map_err(said)?;
            let pushed = runtime.block_on(registry.push(&layout, &image.image, &target)).map_err(said)?;
            let (digest, sent) = (image.image.digest(), mebibytes(pushed.bytes));
            let _ =
                writeln!(text, "{target} {digest} ({} blobs, {sent}; {} referrers)", pushed.blobs, pushed.referrers);
        }
    }
    print(&text)
}

/// Where an image goes, under each of its tags.
fn targets(image: &Stored, to: Option<&str>) -> Result<Vec<Reference>, String> {
    let Some(to) = to else { return Ok(image.names.clone()) };
    let moved = image.names.iter().map(|name| {
        let last = name.repository().rsplit('/').next().unwrap_or_default();
        let target = format!("{}/{last}:{}", to.trim_end_matches('/'), name.tag().unwrap_or("latest"));
        target.parse().map_err(|error| format!("{target} is no name of an image: {error}"))
    });
    moved.collect()
}

fn access(args: &PushArgs, registry: &str) -> Result<Access, String> {
    let read = |path: &PathBuf| fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
    let credentials = args.auth_file.as_ref().map(|file| Credentials::of_file(file, registry)).transpose();
    Ok(Access {
        plain_http: args.plain_http,
        authority: args.ca.as_ref().map(read).transpose()?,
        credentials: credentials.map_err(said)?.unwrap_or_default(),
    })
}
