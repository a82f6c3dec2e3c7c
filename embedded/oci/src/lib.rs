//! Container images as files, without a container engine.
//!
//! - A [`Layout`] is a folder of blobs, named by their digests, with an index of the images in it: the image layout of the
//!   Open Container Initiative, which skopeo, podman and containerd read. Several processes may share one.
//! - A [`Layer`] is the difference that a folder makes ([`Layer::of_folder`]), or what a tar holds ([`Layer::of_tar`]). The
//!   same files give the same bytes, on any machine and at any time.
//! - [`Image::assemble`] makes an image of layers; [`archive`] takes it to other machines as one file, and
//!   [`extract`](Layout::extract) takes one file out of it.
//! - [`referrers`](Layout::referrers) are what is said of an image by others: bills of materials ([`bill`]), signatures
//!   ([`signature`]).
//! - A [`Registry`] takes images with their referrers, and gives them back. [`verify`](Layout::verify) looks at every byte.
//!
//! Everything that is read is checked against its digest, and nothing is visible before it is whole.
//!
//! Not here: what goes into an image and how that is made (`c5c3-images`), running anything, images of several platforms
//! (they can be imported, exported and copied, but not made).

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod archive;
pub mod bill;
mod content;
mod error;
mod extract;
mod image;
mod layer;
mod layout;
pub mod registry;
pub mod signature;
mod verify;

pub use content::digest_of;
pub use error::Error;
pub use image::{Image, Step};
pub use layer::{Compression, Layer};
pub use layout::{Artifact, BlobWriter, Checked, Freed, Layout, Named};
pub use oci_spec::distribution::Reference;
pub use oci_spec::image as spec;
pub use oci_spec::image::{Descriptor, Digest, MediaType};
pub use registry::Registry;
