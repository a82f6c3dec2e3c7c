//! `c5c3 image`: building container images, and looking after those that were built.

mod args;
mod build;
mod guest;
pub(crate) mod import;
mod inspect;
mod lock;
mod progress;
mod registry;
mod stored;
mod supply;
mod trust;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use c5c3_images::{Binary, Builder, Cache, Catalogue};

pub(crate) use args::ImageArgs;
use args::{ImageCommand, WhereArgs};

use crate::Done;

pub(crate) fn run(args: &ImageArgs) -> Done {
    match &args.command {
        ImageCommand::Build(args) => build::run(args),
        ImageCommand::List(args) => inspect::list(args),
        ImageCommand::Inspect(args) => inspect::run(args),
        ImageCommand::Lock(args) => lock::run(args),
        ImageCommand::Import(args) => import::run(args),
        ImageCommand::Sbom(args) => supply::sbom(args),
        ImageCommand::Export(args) => supply::export(args),
        ImageCommand::Guest(args) => guest::run(args),
        ImageCommand::Push(args) => registry::push(args),
        ImageCommand::Pull(args) => registry::pull(args),
        ImageCommand::Keygen(args) => trust::keygen(args),
        ImageCommand::Sign(args) => trust::sign(args),
        ImageCommand::Verify(args) => trust::verify(args),
        ImageCommand::Gc(args) => inspect::gc(args),
    }
}

/// A builder with the definitions, the release and the cache that were asked for.
fn builder(place: &WhereArgs) -> Result<Builder, String> {
    let said = |error: c5c3_images::Error| error.to_string();
    let catalogue = Catalogue::find(place.images.as_deref()).map_err(said)?;
    let binary = place.binary.as_deref().map(|path| Binary::at(path, env!("CARGO_PKG_VERSION"))).transpose();
    Ok(Builder {
        release: catalogue.release(&place.release).map_err(said)?,
        cache: Cache::open(&place.cache).map_err(said)?,
        catalogue,
        binary: binary.map_err(said)?,
        locked: false,
        origin: None,
        stop: stopped_by_signal(),
    })
}

/// Becomes true when this process is asked to end, so that a build can clean up behind itself.
fn stopped_by_signal() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&stop);
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(crate::operator::stop_asked());
        heard.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    stop
}

/// The images that were named, or all.
fn names<'a>(builder: &'a Builder, named: &'a [String], all: bool) -> Vec<&'a str> {
    if all {
        builder.catalogue.images().map(|image| image.name.as_str()).collect()
    } else {
        named.iter().map(String::as_str).collect()
    }
}

/// A size as people say it.
fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}
