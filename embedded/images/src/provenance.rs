//! Bills of materials, with what is known of an image's Python packages beside what its files say.

use std::time::Instant;

use c5c3_oci::bill::{Bill, Origin, Patch, Provenance};
use c5c3_oci::digest_of;

use crate::Error;
use crate::builder::{Builder, BuiltImage};
use crate::lock::python;
use crate::patch::Patch as Applied;
use crate::progress::Progress;
use crate::release::Override;
use crate::version::normal;

impl Builder {
    /// Attaches the bills of materials to an image that it does not have yet.
    pub fn attach_bills(&self, image: &BuiltImage, progress: &dyn Progress) -> Result<(), Error> {
        let layout = self.cache.layout()?;
        let (name, manifest) = (&image.planned.definition.name, &image.manifest);
        if Bill::missing(&layout, manifest.digest())?.is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        progress.planned(1);
        progress.begun(name, "bills");
        Bill::furnish(&layout, &image.references[0], manifest, &provenance(self, image)?)?;
        progress.ended(name, "bills", began.elapsed(), image.size());
        Ok(())
    }
}

/// The hashes of an image's lock, the patches that were applied, and the constraints that were overridden.
pub fn provenance(builder: &Builder, image: &BuiltImage) -> Result<Provenance, Error> {
    let name = &image.planned.definition.name;
    let mut known = Provenance::default();
    if image.planned.definition.python.is_none() {
        return Ok(known);
    }
    let file = builder.release.lock_file(name);
    let lock = python::parse(builder.catalogue.file(&file).unwrap_or_default());
    let lock = lock.map_err(|reason| Error::definition(&file, reason))?;
    let overrides = builder.release.overrides(&builder.catalogue, name)?;
    let main = normal(&builder.release.source(name)?.package);
    for package in lock.packages {
        let of = |patch: &&Applied| match patch.kind.as_str() {
            "service" => package.name == main,
            _ => normal(&patch.of) == package.name,
        };
        let patches = image.planned.patches.iter().filter(of).map(|patch| patched(&builder.release.name, patch));
        let hashes = package.hashes.iter().filter_map(|hash| hash.strip_prefix("sha256:")).map(str::to_owned);
        let origin = Origin {
            hashes: hashes.collect(),
            patches: patches.collect(),
            constraint_override: overrides.iter().find_map(|change| pinned(change, &package.name)),
        };
        known.insert(&package.name, origin);
    }
    Ok(known)
}

fn patched(release: &str, patch: &Applied) -> Patch {
    let file = format!("releases/{release}/patches/{}/{}/{}", patch.kind, patch.of, patch.name);
    let digest = digest_of(patch.text.as_bytes());
    // Patches say themselves that a later version has them, as `git cherry-pick -x` does, and which defects they mend.
    let backport = patch.text.lines().any(|line| line.starts_with("(cherry picked from commit "));
    let resolves = patch.text.lines().filter_map(|line| {
        let defect = line.strip_prefix("Closes-Bug: ").or_else(|| line.strip_prefix("Resolves: "))?;
        Some(defect.trim().to_owned())
    });
    Patch { file, digest, backport, resolves: resolves.collect() }
}

fn pinned(change: &Override, package: &str) -> Option<String> {
    match change {
        Override::Pin { package: of, version } if of == package => Some(format!("{of}==={version}")),
        _ => None,
    }
}
