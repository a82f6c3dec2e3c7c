//! Container images, built from Debian packages and PyPI without a container engine.
//!
//! ```text
//!  definitions + release ─► plan ─► stages ─► layers ─► images
//!   images/*.yaml            keys    chroots   cache     OCI store
//! ```
//!
//! - A [`Catalogue`] holds what is under `images/`: a definition for each image, and a folder for each OpenStack release
//!   with sources, locks, overrides and patches.
//! - A [`Plan`] says which stages images take, and the key of each: the hash of all that goes into it. It is made without
//!   looking at anything else.
//! - A [`Builder`] builds the stages that the [`Cache`] does not have, in namespaces of their own, and assembles images.
//! - [`relock`] renews locks; [`ensure`] is for those who want images to be there and nothing else.
//!
//! Python packages are installed from locks with hashes. Debian packages are locked as well, by version and hash. Debian's
//! archive has only the newest version of each package, however; what it has given up is replaced by what it has now, with
//! a note, unless [`Builder::locked`] says that this ends the build.
//!
//! What downloads packages reaches what this machine does; everything else of a build, from the installation of Debian
//! packages to scripts, runs in a network of its own that leads nowhere.
//!
//! Not here: how images are stored, moved and signed (`c5c3-oci`), other architectures than amd64. A patch changes installed
//! files, and leaves the package's own list of hashes (`RECORD`) as it was.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod apt;
mod assemble;
mod builder;
mod cache;
mod catalogue;
mod chroot;
mod collect;
mod crew;
mod definition;
mod ensure;
mod error;
pub mod lock;
pub mod patch;
mod plan;
mod progress;
mod provenance;
mod release;
pub mod relock;
mod stage;
mod strays;
mod tools;
pub mod version;

mod embedded {
    //! The files under `images/`, as they were when this was compiled.
    include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
}

pub use assemble::PATCHES;
pub use builder::{Builder, BuiltImage};
pub use cache::{Built, Cache};
pub use catalogue::{Catalogue, DEFAULT_RELEASE, REGISTRY};
pub use collect::Collected;
pub use definition::{Bootstrap, Definition, Python, Run, Script, USER};
pub use ensure::{Ready, archive, ensure};
pub use error::{Error, Problem};
pub use plan::{Binary, EPOCH, Environment, Inputs, Key, Plan, PlannedImage, Stage, Work};
pub use progress::{Progress, Quiet};
pub use provenance::provenance;
pub use release::{Extras, Override, Release, Source};
