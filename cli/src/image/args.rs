//! What `c5c3 image` takes.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::guest::GuestArgs;
use super::import::ImportArgs;
use super::registry::{PullArgs, PushArgs};
use super::supply::{ExportArgs, SbomArgs};
use super::trust::{KeygenArgs, SignArgs, VerifyArgs};
use crate::args::Listing;

#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    #[command(subcommand)]
    pub(crate) command: ImageCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Build images that are not in the cache, from locked Debian and Python packages; needs root
    #[command(after_help = "Examples:\n  c5c3 image build keystone mariadb\n  c5c3 image build --all\n  \
        c5c3 image build --all --release 2026.1\n\n\
        Each image has its bills of materials attached. The same inputs give the same digests, wherever and whenever;\n\
        what is interrupted goes on where it was. Debian packages come from where this machine's apt gets them, or from\n\
        C5C3_DEBIAN_MIRROR; Python packages from where UV_DEFAULT_INDEX says, or else from PyPI.")]
    Build(BuildArgs),
    /// List all images of a release with their digests, and how large those are that were built
    #[command(after_help = "Examples:\n  c5c3 image list --release 2026.1\n  \
        c5c3 image list -o wide      # with the names that pods use, and digests\n  \
        c5c3 image list --release 2026.1 -o json\n\n\
        OWN is the size of an image's own layers, SIZE that with the layers that it shares. An image that was not built has \n\
        no digest: c5c3 image build NAME.")]
    List(ListArgs),
    /// Show how an image is run, its names, layers, packages and patches
    #[command(after_help = "Example:\n  c5c3 image inspect nova --release 2026.1")]
    Inspect(OneArgs),
    /// Resolve versions of packages again, write the locks, and print what has changed
    #[command(
        after_help = "Examples:\n  c5c3 image lock keystone      # after a change of sources, extras or overrides\n  \
        c5c3 image lock --all --upgrade\n  c5c3 image lock --all --debian  # what Debian's archive has now\n\n\
        Needs a checkout of the definitions, which the locks are part of."
    )]
    Lock(LockArgs),
    /// Put images into the containerd of the cluster on this machine
    #[command(after_help = "Examples:\n  c5c3 image import keystone              # builds it first if need be\n  \
        c5c3 image import --archive keystone.tar\n  c5c3 image import --archive web.tar --as example.org/web:1.0\n\n\
        Pods use an image under the name that is printed, whatever registry it names: nothing is pulled then.")]
    Import(ImportArgs),
    /// Print an image's bill of materials: its packages, licences, hashes and patches
    #[command(
        after_help = "Examples:\n  c5c3 image sbom keystone\n  c5c3 image sbom keystone --format spdx --output bom.json"
    )]
    Sbom(SbomArgs),
    /// Write images into an archive that skopeo, podman and containerd read
    #[command(after_help = "Example:\n  c5c3 image export keystone --output keystone.tar\n  \
        skopeo inspect oci-archive:keystone.tar")]
    Export(ExportArgs),
    /// Write the disk of the tiny guest, to upload it to Glance and to start servers from it that tell how they are
    #[command(after_help = "Example:\n  c5c3 image guest --output tiny.qcow2    # builds it first if need be\n  \
        openstack image create tiny --disk-format qcow2 --container-format bare --file tiny.qcow2\n  \
        openstack flavor create tiny --ram 256 --disk 1 --vcpus 1\n  \
        openstack server create one --image tiny --flavor tiny --network NETWORK\n  \
        openstack console log show one\n\n\
        The console has a line for each thing that happens to the server:\n  \
        GUEST-UP KERNEL UPTIME           the kernel has started\n  \
        GUEST-LEASE LINK ADDRESS MTU     DHCP has answered\n  \
        GUEST-NO-LEASE LINK              it has not, and is asked on\n  \
        GUEST-METADATA ID UUID HOSTNAME  the metadata service has answered\n  \
        GUEST-NO-METADATA                it has not within 20 s, and is asked on\n  \
        GUEST-DISK NAME BYTES            a disk was found, attached or resized\n  \
        GUEST-DISK-GONE NAME             a disk was detached\n  \
        GUEST-ALIVE UPTIME               every 10 s\n  \
        GUEST-POWER-OFF UPTIME           it was asked to shut down, and does\n\n\
        It answers pings, and HTTP on port 80: `/` with its instance id, `/uuid` and `/hostname`. It boots by\n\
        BIOS. Nobody can log in over the network; Enter on the console opens a shell.")]
    Guest(GuestArgs),
    /// Send images to a registry, with their bills of materials and signatures
    #[command(after_help = "Examples:\n  c5c3 image push keystone glance\n  \
        c5c3 image push --all --release 2026.1 --to registry.example.org/cloud\n  \
        c5c3 image push keystone --to 127.0.0.1:5000/lab --plain-http\n  \
        c5c3 image push ghcr.io/c5c3/keystone:28.0.0-p0-main-a1b2c3d    # this tag alone")]
    Push(PushArgs),
    /// Fetch images from a registry, with their bills of materials and signatures
    #[command(after_help = "Examples:\n  c5c3 image pull keystone --from 127.0.0.1:5000/lab --plain-http\n  \
        c5c3 image pull ghcr.io/c5c3/keystone:28.0.0 --key release.key.pub\n\n\
        Every byte is checked. `c5c3 image import` puts what was fetched into a cluster.")]
    Pull(PullArgs),
    /// Make a key to sign images with
    #[command(after_help = "Example:\n  c5c3 image keygen release.key    # and release.key.pub")]
    Keygen(KeygenArgs),
    /// Sign images, as cosign does
    #[command(
        after_help = "Example:\n  c5c3 image sign keystone --key release.key\n  c5c3 image push keystone    # with the signature"
    )]
    Sign(SignArgs),
    /// Check every byte of images, and their signatures
    #[command(after_help = "Examples:\n  c5c3 image verify keystone --key release.key.pub\n  \
        c5c3 image verify --archive keystone.tar")]
    Verify(VerifyArgs),
    /// Remove from the cache what no definition asks for any more; also what was pulled or imported from archives
    Gc(WhereArgs),
}

/// Which definitions and which cache
#[derive(Clone, Debug, Args)]
pub(crate) struct WhereArgs {
    /// The release of OpenStack
    #[arg(long, default_value = c5c3_images::DEFAULT_RELEASE)]
    pub(crate) release: String,
    /// The definitions of images; those of this checkout or else of this binary when absent
    #[arg(long, value_name = "DIR", env = "C5C3_IMAGES")]
    pub(crate) images: Option<PathBuf>,
    /// Where packages, layers and images are kept
    #[arg(long, value_name = "DIR", env = "C5C3_IMAGE_CACHE", default_value_os_t = c5c3_images::Cache::default_path())]
    pub(crate) cache: PathBuf,
    /// The program for the image c5c3; this one when absent
    #[arg(long, value_name = "FILE")]
    pub(crate) binary: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// Which images
    #[arg(required_unless_present = "all")]
    pub(crate) names: Vec<String>,
    /// All of them
    #[arg(long)]
    pub(crate) all: bool,
    /// Fail when Debian's archive no longer has a locked version, instead of taking the newer one
    #[arg(long)]
    pub(crate) locked: bool,
    /// Add the tags VERSION-pN-BRANCH-COMMIT, which is never given again, BRANCH and COMMIT
    #[arg(long, value_name = "BRANCH@COMMIT", value_parser = origin)]
    pub(crate) origin: Option<c5c3_images::version::Origin>,
    #[command(flatten)]
    pub(crate) place: WhereArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// How it is printed
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Listing,
    #[command(flatten)]
    pub(crate) place: WhereArgs,
}

#[derive(Debug, Args)]
pub(crate) struct OneArgs {
    /// Which image
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) place: WhereArgs,
}

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "they are switches of a command, and go with each other in any way")]
pub(crate) struct LockArgs {
    /// Which images
    #[arg(required_unless_present = "all")]
    pub(crate) names: Vec<String>,
    /// All of them
    #[arg(long)]
    pub(crate) all: bool,
    /// Take the newest versions before the cut-off, instead of keeping those that fit
    #[arg(long)]
    pub(crate) upgrade: bool,
    /// Lock the Debian packages instead of the Python packages; needs root
    #[arg(long)]
    pub(crate) debian: bool,
    /// Say what would change, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) place: WhereArgs,
}

fn origin(text: &str) -> Result<c5c3_images::version::Origin, String> {
    let (branch, commit) = text.rsplit_once('@').ok_or("BRANCH@COMMIT is expected, such as main@a1b2c3d")?;
    Ok(c5c3_images::version::Origin { branch: branch.into(), commit: commit.into() })
}
