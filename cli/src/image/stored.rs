//! Images of the store, by their full names or by those of their definitions.

use c5c3_images::Cache;
use c5c3_oci::bill::{Bill, Provenance};
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
        Bill::furnish(layout, self.name(), &self.image, &self.known).map_err(said)
    }
}

/// The store, and an image in it: `keystone` as it is defined now, or any by its name in full.
pub(super) fn find(place: &WhereArgs, names: &[String]) -> Result<(Layout, Vec<Stored>), String> {
    let layout = Cache::open(&place.cache).and_then(|cache| cache.layout()).map_err(|error| error.to_string())?;
    let images =
        names.iter().map(|name| if name.contains('/') { full(&layout, name) } else { defined(&layout, place, name) });
    let images = images.collect::<Result<Vec<_>, String>>()?;
    Ok((layout, images))
}

fn full(layout: &Layout, text: &str) -> Result<Stored, String> {
    let name: Reference = text.parse().map_err(|error| format!("{text} is not the name of an image: {error}"))?;
    let image = layout.resolve(&name).map_err(said)?;
    Ok(Stored { image, names: vec![name], known: Provenance::default() })
}

/// An image as it is defined now, with the tags that it was given since, such as those of a branch and a commit.
fn defined(layout: &Layout, place: &WhereArgs, name: &str) -> Result<Stored, String> {
    let builder = builder(place)?;
    let built = found(&builder, name)?;
    let known = c5c3_images::provenance(&builder, &built).map_err(|error| error.to_string())?;
    let mut names = built.references;
    let is_other_tag = |name: &Reference| name.repository() == names[0].repository() && !names.contains(name);
    let given = layout.images().map_err(said)?.into_iter().filter(|image| image.descriptor == built.manifest);
    let given: Vec<_> = given.map(|image| image.name).filter(is_other_tag).collect();
    names.extend(given);
    Ok(Stored { image: built.manifest, names, known })
}

/// An error as one line.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn said(error: c5c3_oci::Error) -> String {
    error.to_string()
}
