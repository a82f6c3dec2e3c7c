//! Images of the store, by their full names or by those of their definitions.

use c5c3_images::Cache;
use c5c3_oci::bill::{Bill, Format, Provenance};
use c5c3_oci::{Descriptor, Layout, Reference};

use super::args::WhereArgs;
use super::builder;
use super::inspect::found;

/// An image of the store.
pub(super) struct Stored {
    /// The image.
    pub(super) image: Descriptor,
    /// Its names, the plainest first.
    pub(super) names: Vec<Reference>,
    /// What is known of its packages beside what its files say.
    known: Provenance,
}

impl Stored {
    /// The name that it is called by.
    pub(super) fn name(&self) -> &Reference {
        &self.names[0]
    }

    /// Attaches the bills of materials that it does not have yet.
    pub(super) fn furnish(&self, layout: &Layout) -> Result<(), String> {
        let mut bill = None;
        for format in Format::ALL {
            if Bill::attached(layout, self.image.digest(), format).map_err(said)?.is_some() {
                continue;
            }
            let read = match bill.take() {
                Some(read) => read,
                None => Bill::of(layout, self.name(), &self.image, &self.known).map_err(said)?,
            };
            read.attach(layout, &self.image, format).map_err(said)?;
            bill = Some(read);
        }
        Ok(())
    }
}

/// The store, and an image in it: `keystone` as it is defined now, or any by its name in full.
pub(super) fn find(place: &WhereArgs, names: &[String]) -> Result<(Layout, Vec<Stored>), String> {
    let layout = Cache::open(&place.cache).and_then(|cache| cache.layout()).map_err(|error| error.to_string())?;
    let images = names.iter().map(|name| if name.contains('/') { full(&layout, name) } else { defined(place, name) });
    let images = images.collect::<Result<Vec<_>, String>>()?;
    Ok((layout, images))
}

fn full(layout: &Layout, text: &str) -> Result<Stored, String> {
    let name: Reference = text.parse().map_err(|error| format!("{text} is no name of an image: {error}"))?;
    let image = layout.resolve(&name).map_err(said)?;
    Ok(Stored { image, names: vec![name], known: Provenance::default() })
}

fn defined(place: &WhereArgs, name: &str) -> Result<Stored, String> {
    let builder = builder(place)?;
    let built = found(&builder, name)?;
    let known = c5c3_images::provenance(&builder, &built).map_err(|error| error.to_string())?;
    Ok(Stored { image: built.manifest, names: built.references, known })
}

/// An error as one line.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn said(error: c5c3_oci::Error) -> String {
    error.to_string()
}
