//! `c5c3 image push` and `pull`: images with what is said of them, to registries and from there.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use c5c3_images::{Cache, REGISTRY};
use c5c3_oci::registry::{Access, Credentials};
use c5c3_oci::signature::{self, PublicKey};
use c5c3_oci::{Layout, Reference, Registry};
use clap::Args;
use tokio::runtime::Runtime;

use super::args::WhereArgs;
use super::stored::{find, said};
use super::{builder, mebibytes};
use crate::{Done, print};

/// How a registry is reached, and as whom
#[derive(Debug, Args)]
pub(crate) struct RegistryArgs {
    /// Without TLS: only for a registry at a loopback address
    #[arg(long)]
    plain_http: bool,
    /// A certificate authority beside those of the machine, in PEM
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// What `docker login`, `podman login` or `skopeo login` has written
    #[arg(long, value_name = "FILE", env = "REGISTRY_AUTH_FILE")]
    auth_file: Option<PathBuf>,
}

impl RegistryArgs {
    /// The registry of a name.
    fn reach(&self, name: &Reference) -> Result<Registry, String> {
        let read = |path: &PathBuf| fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
        let credentials = self.auth_file.as_ref().map(|file| Credentials::of_file(file, name.registry())).transpose();
        let access = Access {
            plain_http: self.plain_http,
            authority: self.ca.as_ref().map(read).transpose()?,
            credentials: credentials.map_err(said)?.unwrap_or_default(),
        };
        Registry::new(name, access).map_err(said)
    }
}

#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// Which images: keystone, which goes under all of its tags, or one name in full
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    names: Vec<String>,
    /// All images of the release, which have to be built
    #[arg(long)]
    all: bool,
    /// Where to, instead of what the names say: keystone goes to HOST/PATH/keystone
    #[arg(long, value_name = "HOST/PATH")]
    to: Option<String>,
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    place: WhereArgs,
}

pub(crate) fn push(args: &PushArgs) -> Done {
    let names = if args.all { all(&args.place)? } else { args.names.clone() };
    let (layout, images) = find(&args.place, &names)?;
    let runtime = runtime()?;
    let mut text = String::new();
    for image in &images {
        image.furnish(&layout)?;
        for name in &image.names {
            let target = args.to.as_deref().map_or_else(|| Ok(name.clone()), |to| moved(name, to))?;
            let sending = args.registry.reach(&target)?;
            let pushed = runtime.block_on(sending.push(&layout, &image.image, &target)).map_err(said)?;
            let (digest, sent) = (image.image.digest(), mebibytes(pushed.bytes));
            let _ =
                writeln!(text, "{target} {digest} ({} blobs, {sent}; {} referrers)", pushed.blobs, pushed.referrers);
        }
    }
    print(&text)
}

/// The names of all images of a release.
fn all(place: &WhereArgs) -> Result<Vec<String>, String> {
    Ok(builder(place)?.catalogue.images().map(|image| image.name.clone()).collect())
}

#[derive(Debug, Args)]
pub(crate) struct PullArgs {
    /// Which images: keystone in the version that is defined here, or a name in full
    #[arg(required = true)]
    names: Vec<String>,
    /// Where from, instead of what the names say: keystone comes from HOST/PATH/keystone, and keeps its name
    #[arg(long, value_name = "HOST/PATH")]
    from: Option<String>,
    /// The public key by which they must be signed; one that is not gets no name here
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    place: WhereArgs,
}

pub(crate) fn pull(args: &PullArgs) -> Done {
    let key = args.key.as_deref().map(PublicKey::read).transpose().map_err(said)?;
    let layout = Cache::open(&args.place.cache).and_then(|cache| cache.layout()).map_err(|error| error.to_string())?;
    let runtime = runtime()?;
    let mut text = String::new();
    for name in &args.names {
        let name = in_full(&args.place, name)?;
        let source = args.from.as_deref().map_or_else(|| Ok(name.clone()), |from| moved(&name, from))?;
        let fetching = args.registry.reach(&source)?;
        let image = runtime.block_on(fetching.pull(&layout, &source)).map_err(said)?;
        layout.verify(&image).map_err(|error| format!("{source}: {error}"))?;
        if let Some(key) = &key {
            signature::verify(&layout, &image, key).map_err(|error| format!("{source}: {error}"))?;
        }
        layout.tag(&name, &image).map_err(said)?;
        let referrers = layout.referrers(image.digest()).map_err(said)?.len();
        let _ = writeln!(text, "{name} {} ({}; {referrers} referrers)", image.digest(), size(&layout, &image)?);
    }
    print(&text)
}

/// How large an image is, with all its blobs.
fn size(layout: &Layout, image: &c5c3_oci::Descriptor) -> Result<String, String> {
    let blobs = layout.closure(image).map_err(said)?;
    Ok(mebibytes(blobs.iter().map(c5c3_oci::Descriptor::size).sum()))
}

/// The name of an image, of its definition if that is what was given.
fn in_full(place: &WhereArgs, name: &str) -> Result<Reference, String> {
    let text = if name.contains('/') {
        name.to_owned()
    } else {
        let plan = builder(place)?.plan(&[name]).map_err(|error| error.to_string())?;
        let version = plan.images.first().map(|image| image.version.clone()).unwrap_or_default();
        format!("{REGISTRY}/{name}:{version}")
    };
    text.parse().map_err(|error| format!("{text} is not the name of an image: {error}"))
}

/// A name in another registry: the last part of its repository and its tag stay.
fn moved(name: &Reference, place: &str) -> Result<Reference, String> {
    let last = name.repository().rsplit('/').next().unwrap_or_default();
    let target = format!("{}/{last}:{}", place.trim_end_matches('/'), name.tag().unwrap_or("latest"));
    target.parse().map_err(|error| format!("{target} is not the name of an image: {error}"))
}

fn runtime() -> Result<Runtime, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| format!("cannot start: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_keeps_its_last_name_and_its_tag_wherever_it_goes() {
        let name: Reference = "ghcr.io/c5c3/keystone:28.0.0".parse().unwrap();
        assert_eq!(moved(&name, "127.0.0.1:5000/lab/").unwrap().to_string(), "127.0.0.1:5000/lab/keystone:28.0.0");
        assert!(moved(&name, "not a place").unwrap_err().contains("is not the name of an image"));
    }
}
