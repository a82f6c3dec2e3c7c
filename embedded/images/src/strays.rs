//! What lies in the folder of a release and would do nothing: a file that no one reads, an entry for an image that is not
//! there, a patch or an override of a package that no image has. Each is a slip, and is refused by its file.

use std::collections::{BTreeMap, BTreeSet};

use crate::Error;
use crate::catalogue::Catalogue;
use crate::lock::python::{self, Lock};
use crate::release::{FOR_ALL, Override, Release, is_patch};
use crate::version::normal;

/// Refuses what cannot be meant for anything, by names alone: this must let those pass who are about to renew locks.
pub(crate) fn refuse(catalogue: &Catalogue, release: &Release) -> Result<(), Error> {
    let images = Images::of(catalogue);
    let folder = format!("releases/{}", release.name);
    for image in release.sources() {
        images.python(image).map_err(|reason| Error::definition(format!("{folder}/sources.yaml"), reason))?;
    }
    for (image, extras) in release.all_extras() {
        let wants_python = !extras.pip_extras.is_empty() || !extras.pip_packages.is_empty();
        let known = if wants_python { images.python(image) } else { images.any(image) };
        known.map_err(|reason| Error::definition(format!("{folder}/extra-packages.yaml"), reason))?;
    }
    for path in catalogue.below(&folder) {
        let known = images.file(path);
        known.map_err(|reason| Error::definition(format!("{folder}/{path}"), reason))?;
    }
    Ok(())
}

/// The definitions that files of a release can be about.
struct Images<'a> {
    all: BTreeSet<&'a str>,
    python: BTreeSet<&'a str>,
}

impl<'a> Images<'a> {
    fn of(catalogue: &'a Catalogue) -> Self {
        let all = || catalogue.definitions();
        let python = all().filter(|definition| definition.python.is_some());
        Self {
            all: all().map(|definition| definition.name.as_str()).collect(),
            python: python.map(|definition| definition.name.as_str()).collect(),
        }
    }

    fn any(&self, name: &str) -> Result<(), String> {
        let known = self.all.contains(name);
        if known { Ok(()) } else { Err(format!("there is no image {name}{}", hint(name, self.all.iter().copied()))) }
    }

    fn python(&self, name: &str) -> Result<(), String> {
        self.any(name)?;
        let has_python = self.python.contains(name);
        if has_python { Ok(()) } else { Err(format!("the image {name} has no Python environment")) }
    }

    /// Whether a file is read, by its path within the release.
    fn file(&self, path: &str) -> Result<(), String> {
        match *path.split('/').collect::<Vec<_>>() {
            ["sources.yaml" | "extra-packages.yaml"] | [.., "README.md"] => Ok(()),
            ["overrides", file] if file.strip_suffix(".txt") == Some(FOR_ALL) => Ok(()),
            ["locks" | "overrides", file] => self.python(stem(file, ".txt")?),
            ["debian", file] => self.any(stem(file, ".lock")?),
            ["patches", "service", image, file] => self.python(image).and(stem(file, ".patch").map(drop)),
            ["patches", "library", _, file] => stem(file, ".patch").map(drop),
            _ => Err("nothing of a release is read from here; the README beside the images says what is".to_owned()),
        }
    }
}

fn stem<'a>(file: &'a str, ending: &str) -> Result<&'a str, String> {
    file.strip_suffix(ending).ok_or_else(|| format!("only files whose names end with {ending} are read here"))
}

/// Refuses library patches and overrides for all that are about packages which no image of the release has. As long as a
/// lock is missing that is not known.
pub(crate) fn refuse_idle(catalogue: &Catalogue, release: &Release) -> Result<(), Error> {
    let mut locks = BTreeMap::new();
    for image in release.sources() {
        let file = release.lock_file(image);
        let Some(lock) = catalogue.file(&file).and_then(|text| python::parse(text).ok()) else { return Ok(()) };
        locks.insert(image, lock);
    }
    let packages: BTreeSet<_> = locks.values().flat_map(Lock::names).collect();
    let folder = format!("releases/{}/patches/library", release.name);
    for path in catalogue.below(&folder).filter(|path| is_patch(path)) {
        let library = normal(path.split('/').next().unwrap_or(path));
        if !packages.contains(library.as_str()) {
            let reason = format!("no image has {library}{}", hint(&library, packages.iter().copied()));
            return Err(Error::definition(format!("{folder}/{path}"), reason));
        }
    }
    let idle = release.overrides_of(catalogue, FOR_ALL)?.into_iter().find(|change| {
        let own = |image: &str| release.overrides_of(catalogue, image).unwrap_or_default();
        // Where an image says something else of the package, it is this one that gives way.
        let elsewhere = |image: &str| own(image).iter().any(|other| other.package() == change.package());
        !locks.iter().any(|(image, lock)| lock.follows(change) || elsewhere(image))
    });
    match idle {
        Some(change) => {
            let near = hint(change.package(), packages.iter().copied());
            let reason = format!("no lock of an image says anything of {}{near}", change.package());
            Err(Error::definition(release.overrides_file(FOR_ALL), reason))
        }
        None => Ok(()),
    }
}

/// Refuses an image's own override that its lock has nothing of.
pub(crate) fn refuse_idle_of(catalogue: &Catalogue, release: &Release, image: &str, lock: &Lock) -> Result<(), Error> {
    let Some(idle) = release.overrides_of(catalogue, image)?.into_iter().find(|change| !lock.follows(change)) else {
        return Ok(());
    };
    let near = hint(idle.package(), lock.names());
    let reason = match &idle {
        Override::Pin { package, .. } => format!("the lock of {image} has no {package}{near}"),
        Override::Remove { package } => format!(
            "the lock of {image} does not say that it was made without {package}{near}; `c5c3 image lock` renews it, \
             if anything asks for that package"
        ),
    };
    Err(Error::definition(release.overrides_file(image), reason))
}

/// The known name that is most like one that was mistyped, for the end of a message; empty if none is.
pub(crate) fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let scored = known.into_iter().map(|one| (strsim::jaro_winkler(name, one), one));
    match scored.max_by(|one, other| one.0.total_cmp(&other.0)) {
        Some((likeness, one)) if likeness > 0.8 => format!("; did you mean {one}?"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Inputs, Plan};

    const PATCH: &str = "--- a/x\n+++ b/x\n";

    /// What is said of the definitions with one more file, or with another text in one.
    fn said(path: &str, text: &str) -> String {
        let mut catalogue = Catalogue::embedded().unwrap();
        catalogue.files.insert(format!("releases/2025.2/{path}"), text.to_owned());
        let planned = catalogue.release("2025.2").and_then(|release| {
            Plan::new(Inputs { catalogue: &catalogue, release: &release, binary: None }, &["keystone"])
        });
        let error = planned.map(drop).unwrap_err().to_string();
        error.strip_prefix("releases/2025.2/").expect("the file is named first").to_owned()
    }

    #[test]
    fn a_file_that_nobody_would_read_is_refused_by_its_name() {
        for (path, reason) in [
            ("patches/service/keystnoe/0001-x.patch", "there is no image keystnoe; did you mean keystone?"),
            ("patches/service/valkey/0001-x.patch", "the image valkey has no Python environment"),
            ("patches/service/keystone/0001-x.diff", "only files whose names end with .patch are read here"),
            ("patches/library/six/0001-x.diff", "only files whose names end with .patch are read here"),
            ("patches/library/sixx/0001-x.patch", "no image has sixx; did you mean six?"),
            ("overrides/novaa.txt", "there is no image novaa; did you mean nova?"),
            ("overrides/nova.text", "only files whose names end with .txt are read here"),
            ("locks/typo.txt", "there is no image typo"),
            ("debian/keystnoe.lock", "there is no image keystnoe; did you mean keystone?"),
        ] {
            assert_eq!(said(path, PATCH), format!("{path}: {reason}"));
        }
        for path in ["patches/0001-x.patch", "patches/service/keystone/more/0001-x.patch", "sources.yml"] {
            assert!(said(path, PATCH).starts_with(&format!("{path}: nothing of a release is read from here")));
        }
    }

    #[test]
    fn what_explains_a_folder_is_let_be() {
        let mut catalogue = Catalogue::embedded().unwrap();
        catalogue.files.insert("releases/2025.2/patches/README.md".into(), "why".into());
        assert!(catalogue.release("2025.2").is_ok());
    }

    #[test]
    fn an_entry_for_an_image_that_is_not_there_is_refused() {
        let sources = "cutoff: 2025-11-01\nimages: { keystnoe: { package: keystone, version: 28.0.0 } }";
        assert_eq!(said("sources.yaml", sources), "sources.yaml: there is no image keystnoe; did you mean keystone?");
        let extras = [
            ("novaa: { aptPackages: [x] }", "there is no image novaa; did you mean nova?"),
            ("valkey: { pipPackages: [x] }", "the image valkey has no Python environment"),
        ];
        for (text, reason) in extras {
            assert_eq!(said("extra-packages.yaml", text), format!("extra-packages.yaml: {reason}"));
        }
    }

    #[test]
    fn an_override_that_changes_nothing_is_refused() {
        let pin = said("overrides/keystone.txt", "pymysq===1.0\n");
        assert_eq!(pin, "overrides/keystone.txt: the lock of keystone has no pymysq; did you mean pymysql?");
        let remove = said("overrides/keystone.txt", "-heavy-sdk\n");
        assert!(
            remove.starts_with("overrides/keystone.txt: the lock of keystone does not say that it was made without")
        );
        let all = said("overrides/constraints.txt", "pymysq===1.0\n");
        assert_eq!(
            all,
            "overrides/constraints.txt: no lock of an image says anything of pymysq; did you mean pymysql?"
        );
        let all = said("overrides/constraints.txt", "-heavy-sdk\n");
        assert_eq!(all, "overrides/constraints.txt: no lock of an image says anything of heavy-sdk");
    }
}
