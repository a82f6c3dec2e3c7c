//! A layer of Debian packages.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use super::{Chosen, Site};
use crate::Problem;
use crate::apt;
use crate::lock::debian::Deb;

/// Installs packages from their files, and takes single files from others.
pub(super) fn build(site: &Site<'_>, extract: &BTreeMap<String, Vec<String>>, chosen: &Chosen) -> Result<(), Problem> {
    let (install, only) = (site.scratch().join("install"), site.scratch().join("extract"));
    let (empty, cache) = (site.scratch().join("empty"), site.scratch().join("apt"));
    for folder in [&install, &only, &empty.join("partial"), &cache.join("partial")] {
        fs::create_dir_all(folder).map_err(Problem::file(folder))?;
    }
    for (deb, file) in chosen.debs.iter().zip(&chosen.files) {
        let folder = if extract.contains_key(&deb.name) { &only } else { &install };
        let link = folder.join(deb.file());
        fs::hard_link(file, &link).map_err(Problem::file(&link))?;
    }
    let mut script = String::new();
    if chosen.debs.iter().any(|deb| !extract.contains_key(&deb.name)) {
        script += "apt-get -qq -y install /run/build/install/*.deb\n";
    }
    for (package, patterns) in extract {
        let patterns: Vec<_> = patterns.iter().map(|pattern| format!("'./{pattern}'")).collect();
        writeln!(
            script,
            "dpkg-deb --fsys-tarfile /run/build/extract/{package}_*.deb | tar -x -C / --wildcards {}",
            patterns.join(" ")
        )
        .expect("a string has room");
    }
    let mut chroot = site.chroot();
    // apt with no lists knows of these files alone, and works on nothing else.
    chroot.lent = vec![
        (site.lend("apt.conf", apt::APT_CONF)?, "apt.conf"),
        (site.lend("sources.list", "")?, "sources.list"),
        (install, "install"),
        (only, "extract"),
        (empty, "lists"),
        (cache, "apt"),
    ];
    chroot.environment.push(("APT_CONFIG".into(), "/run/build/apt.conf".into()));
    chroot.script(&script, &[]).map(drop).map_err(apt::explained)
}

/// The packages that the archive would give now.
pub(super) fn resolve(
    site: &Site<'_>,
    packages: &[String],
    extract: &BTreeMap<String, Vec<String>>,
) -> Result<Vec<Deb>, Problem> {
    let lower = site.stage.below.iter().map(|key| site.cache.files(key)).collect();
    let only: Vec<_> = extract.keys().map(String::as_str).collect();
    apt::resolve(&site.asking(lower)?, packages, &only)
}
