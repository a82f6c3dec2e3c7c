//! The stages of images and their keys: decided from definitions, locks and patches alone, before anything is done.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::catalogue::Catalogue;
use crate::definition::Definition;
use crate::lock::{debian, python};
use crate::patch::Patch;
use crate::release::Release;
use crate::strays;
use crate::version::{normal, upstream};
use crate::{Error, Problem};

/// Goes up whenever the same inputs would give another layer.
const ENGINE: u32 = 3;

/// The version of uv that environments are made with; it names itself in them.
pub const UV: &str = "0.13.7";

/// No file of an image is newer: 2025-11-01.
pub const EPOCH: u64 = 1_762_000_000;

/// The name of a layer before it is made: the hash of everything that it is made of.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Key(String);

impl Key {
    /// Letters and digits, as a file's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One step to an image, which makes one layer.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The image or layer that it is part of.
    pub image: String,
    /// What it makes of it.
    pub key: Key,
    /// The layers that it is made on, the lowest first; those of a builder among them.
    pub below: Vec<Key>,
    /// Whether others are made on it.
    pub is_foundation: bool,
    /// What is done.
    pub work: Work,
}

/// What a stage does, with all that it takes.
#[derive(Clone, Debug, Serialize)]
pub enum Work {
    /// A Debian root file system.
    Bootstrap {
        /// Debian's name of its release.
        suite: String,
        /// What it has beside what every system has.
        packages: Vec<String>,
        /// All of its packages, if they are locked.
        lock: Option<Vec<debian::Deb>>,
    },
    /// Debian packages.
    Debian {
        /// What is asked for.
        packages: Vec<String>,
        /// Files of packages that are not installed.
        extract: BTreeMap<String, Vec<String>>,
        /// What is removed after that.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        remove: Vec<String>,
        /// All packages that are added, if they are locked.
        lock: Option<Vec<debian::Deb>>,
    },
    /// A Python environment.
    Python(Environment),
    /// What a script makes.
    Script {
        /// The script.
        text: String,
    },
    /// This program.
    Binary {
        /// Where it goes.
        path: String,
        /// Its hash.
        sha256: String,
        /// Where it is taken from.
        #[serde(skip)]
        from: std::path::PathBuf,
    },
}

/// A Python environment, with all that it takes.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// Where it is.
    pub venv: String,
    /// Its requirements with hashes.
    pub lock: String,
    /// What is published later is not seen.
    pub cutoff: String,
    /// Packages with another cut-off.
    pub cutoffs: Vec<(String, String)>,
    /// Patches, in order.
    pub patches: Vec<Patch>,
    /// Whether Debian's packages are seen.
    pub system_packages: bool,
    /// What is removed.
    pub remove: Vec<String>,
    /// The version of uv.
    pub uv: &'static str,
}

impl Work {
    /// The stage's name to people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Bootstrap { .. } => "bootstrap",
            Self::Debian { .. } => "debian",
            Self::Python(_) => "python",
            Self::Script { .. } => "script",
            Self::Binary { .. } => "binary",
        }
    }
}

/// What is to be built.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// All stages, each after those that it is made on.
    pub stages: Vec<Stage>,
    /// The images.
    pub images: Vec<PlannedImage>,
}

/// An image that is to be built.
#[derive(Clone, Debug)]
pub struct PlannedImage {
    /// Its definition.
    pub definition: Definition,
    /// The version of what is in it, by its locks.
    pub version: String,
    /// Its layers, the lowest first.
    pub layers: Vec<Key>,
    /// The patches that were applied.
    pub patches: Vec<Patch>,
}

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The definitions.
    pub catalogue: &'a Catalogue,
    /// The release of OpenStack.
    pub release: &'a Release,
    /// The program that goes into the image of this program.
    pub binary: Option<&'a Binary>,
}

/// This program as a file.
#[derive(Clone, Debug)]
pub struct Binary {
    /// Where it is.
    pub path: std::path::PathBuf,
    /// Its hash.
    pub sha256: String,
    /// Its version.
    pub version: String,
}

impl Plan {
    /// The stages of some images, and of all that they stand on.
    pub fn new(inputs: Inputs<'_>, images: &[&str]) -> Result<Self, Error> {
        strays::refuse_idle(inputs.catalogue, inputs.release)?;
        let mut planner = Planner { inputs, plan: Self::default(), shipped: BTreeMap::new() };
        for name in images {
            let layers = planner.layers(name)?;
            let definition = inputs.catalogue.definition(name)?.clone();
            let patches = planner.patches(&layers);
            let version = planner.version(&definition)?;
            planner.plan.images.push(PlannedImage { definition, version, layers, patches });
        }
        Ok(planner.plan)
    }

    /// A stage by its key.
    pub fn stage(&self, key: &Key) -> Option<&Stage> {
        self.stages.iter().find(|stage| stage.key == *key)
    }
}

struct Planner<'a> {
    inputs: Inputs<'a>,
    plan: Plan,
    /// The layers of each definition that was planned.
    shipped: BTreeMap<String, Vec<Key>>,
}

impl Planner<'_> {
    fn layers(&mut self, name: &str) -> Result<Vec<Key>, Error> {
        if let Some(layers) = self.shipped.get(name) {
            return Ok(layers.clone());
        }
        let definition = self.inputs.catalogue.definition(name)?.clone();
        let mut layers = match definition.foundation() {
            Some(foundation) => self.layers(foundation)?,
            None => Vec::new(),
        };
        let works = self.works(&definition)?;
        for work in works {
            let compiles = matches!(work, Work::Python(_) | Work::Script { .. });
            let mut below = layers.clone();
            if let Some(builder) = definition.builder().filter(|_| compiles) {
                // Directly on the base, so that what the image itself has goes before.
                let builder = self.layers(builder)?;
                let own = builder.into_iter().filter(|key| !layers.contains(key)).collect::<Vec<_>>();
                below.splice(1.min(below.len()).., own.into_iter().chain(layers.iter().skip(1).cloned()));
            }
            layers.push(self.stage(name, below, work));
        }
        self.shipped.insert(name.to_owned(), layers.clone());
        Ok(layers)
    }

    fn stage(&mut self, image: &str, below: Vec<Key>, work: Work) -> Key {
        let key = key(&below, &work);
        for stage in &mut self.plan.stages {
            stage.is_foundation |= below.contains(&stage.key);
        }
        // The base is one whatever this plan is for: others will stand on it.
        let is_foundation = matches!(work, Work::Bootstrap { .. });
        if self.plan.stage(&key).is_none() {
            self.plan.stages.push(Stage { image: image.to_owned(), key: key.clone(), below, is_foundation, work });
        }
        key
    }

    fn works(&self, definition: &Definition) -> Result<Vec<Work>, Error> {
        let mut works = Vec::new();
        let packages = self.debian_packages(definition);
        if let Some(bootstrap) = &definition.bootstrap {
            works.push(Work::Bootstrap {
                suite: bootstrap.suite.clone(),
                packages,
                lock: self.debian_lock(definition)?,
            });
        } else if !packages.is_empty() || !definition.extract.is_empty() {
            let (extract, remove) = (definition.extract.clone(), definition.remove.clone());
            works.push(Work::Debian { packages, extract, remove, lock: self.debian_lock(definition)? });
        }
        if definition.python.is_some() {
            works.push(Work::Python(self.environment(definition)?));
        }
        if let Some(script) = &definition.script {
            let missing =
                || Error::definition(format!("{}.yaml", definition.name), format!("{} is not there", script.run));
            works.push(Work::Script { text: self.inputs.catalogue.file(&script.run).ok_or_else(missing)?.to_owned() });
        }
        if let Some(path) = &definition.binary {
            let binary = self.binary(definition)?;
            works.push(Work::Binary { path: path.clone(), sha256: binary.sha256.clone(), from: binary.path.clone() });
        }
        Ok(works)
    }

    fn binary(&self, definition: &Definition) -> Result<&Binary, Error> {
        let missing = || Error::definition(format!("{}.yaml", definition.name), "no program was given to put into it");
        self.inputs.binary.ok_or_else(missing)
    }

    fn debian_packages(&self, definition: &Definition) -> Vec<String> {
        let extra = self.inputs.release.extras(&definition.name).apt_packages;
        definition.debian.iter().cloned().chain(extra).collect()
    }

    fn debian_lock(&self, definition: &Definition) -> Result<Option<Vec<debian::Deb>>, Error> {
        let file = debian_lock_file(self.inputs.release, &definition.name);
        let Some(text) = self.inputs.catalogue.file(&file) else { return Ok(None) };
        debian::parse(text).map(Some).map_err(|reason| Error::definition(file, reason))
    }

    fn environment(&self, definition: &Definition) -> Result<Environment, Error> {
        let Inputs { catalogue, release, .. } = self.inputs;
        let python = definition.python.as_ref().expect("only environments are asked for");
        let file = release.lock_file(&definition.name);
        let wrong = |reason: String| Error::Stage {
            image: definition.name.clone(),
            stage: "python",
            problem: Problem::Lock(format!("{file}: {reason}")),
        };
        let lock = catalogue.file(&file).ok_or_else(|| wrong("it is not there".into()))?;
        let locked = python::parse(lock).map_err(wrong)?;
        let source = release.source(&definition.name)?;
        if locked.version(&normal(&source.package)) != Some(&source.version) {
            return Err(wrong(format!("it does not have {} {}", source.package, source.version)));
        }
        if let Some(reason) = locked.contradiction(&release.overrides(catalogue, &definition.name)?) {
            return Err(wrong(reason));
        }
        strays::refuse_idle_of(catalogue, release, &definition.name, &locked)?;
        let has = |library: &str| locked.version(library).is_some();
        Ok(Environment {
            venv: python.venv.clone(),
            lock: lock.to_owned(),
            cutoff: release.cutoff.clone(),
            cutoffs: release.cutoffs(&definition.name)?,
            patches: release.patches(catalogue, &definition.name, has),
            system_packages: python.system_packages,
            remove: python.remove.clone(),
            uv: UV,
        })
    }

    fn patches(&self, layers: &[Key]) -> Vec<Patch> {
        let stages = layers.iter().filter_map(|key| self.plan.stage(key));
        let patches = stages.filter_map(|stage| match &stage.work {
            Work::Python(environment) => Some(environment.patches.clone()),
            _ => None,
        });
        patches.flatten().collect()
    }

    /// The version of an image: that of its source, of this program, or of a Debian package by the lock.
    fn version(&self, definition: &Definition) -> Result<String, Error> {
        if definition.python.is_some() {
            return Ok(self.inputs.release.source(&definition.name)?.version.clone());
        }
        if definition.binary.is_some() {
            return Ok(self.binary(definition)?.version.clone());
        }
        let Some(package) = &definition.version_of else { return Ok("0".to_owned()) };
        for name in [definition.name.as_str()].into_iter().chain(definition.builder()) {
            let locked = self.debian_lock(self.inputs.catalogue.definition(name)?)?.unwrap_or_default();
            if let Some(deb) = locked.iter().find(|deb| deb.name == *package) {
                return Ok(upstream(&deb.version).to_owned());
            }
        }
        // Not locked yet: what is in it is not known before it is built.
        Ok("unlocked".to_owned())
    }
}

/// Where the lock of a definition's Debian packages is: with the release if that adds some.
pub fn debian_lock_file(release: &Release, name: &str) -> String {
    if release.extras(name).apt_packages.is_empty() {
        format!("debian/{name}.lock")
    } else {
        format!("releases/{}/debian/{name}.lock", release.name)
    }
}

fn key(below: &[Key], work: &Work) -> Key {
    let inputs = serde_json::to_vec(&(ENGINE, EPOCH, below, work)).expect("inputs are plain data");
    Key(c5c3_oci::digest_of(&inputs).digest().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(catalogue: &Catalogue, images: &[&str]) -> Plan {
        let release = catalogue.release("2025.2").unwrap();
        let binary = Binary { path: "c5c3".into(), sha256: "00".into(), version: "0.1.0".into() };
        Plan::new(Inputs { catalogue, release: &release, binary: Some(&binary) }, images).unwrap()
    }

    fn edited(path: &str, edit: impl Fn(&str) -> String) -> Catalogue {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in &Catalogue::embedded().unwrap().files {
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let file = folder.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let before = std::fs::read_to_string(&file).unwrap_or_default();
        std::fs::write(file, edit(&before)).unwrap();
        Catalogue::read(folder.path()).unwrap()
    }

    #[test]
    fn the_stages_of_all_images() {
        let catalogue = Catalogue::embedded().unwrap();
        let names: Vec<_> = catalogue.images().map(|image| image.name.as_str()).collect();
        let plan = plan(&catalogue, &names);
        let label = |key: &Key| plan.stage(key).map(|stage| format!("{}/{}", stage.image, stage.work.name())).unwrap();
        let lines = plan.images.iter().map(|image| {
            let layers: Vec<_> = image.layers.iter().map(&label).collect();
            let own = plan.stage(image.layers.last().unwrap()).unwrap();
            let hidden: Vec<_> = own.below.iter().filter(|key| !image.layers.contains(key)).map(&label).collect();
            let with = if hidden.is_empty() { String::new() } else { format!(" (made with {})", hidden.join(", ")) };
            format!("{}: {}{with}", image.definition.name, layers.join(" + "))
        });
        insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn the_same_inputs_have_the_same_keys_wherever_they_are() {
        let catalogue = Catalogue::embedded().unwrap();
        let copy = edited("README.md", str::to_owned);
        assert_eq!(plan(&catalogue, &["nova"]).images[0].layers, plan(&copy, &["nova"]).images[0].layers);
    }

    #[test]
    fn the_base_keeps_its_files_even_if_it_is_built_for_itself() {
        let plan = plan(&Catalogue::embedded().unwrap(), &["base"]);
        assert!(plan.stages[0].is_foundation);
    }

    #[test]
    fn a_patch_changes_the_layer_of_its_image_and_nothing_else() {
        let catalogue = Catalogue::embedded().unwrap();
        let patched = edited("releases/2025.2/patches/service/nova/0001-x.patch", |_| "--- a/x\n+++ b/x\n".into());
        let (before, after) = (plan(&catalogue, &["nova", "glance"]), plan(&patched, &["nova", "glance"]));
        assert_ne!(before.images[0].layers.last(), after.images[0].layers.last());
        assert_eq!(before.images[0].layers[..2], after.images[0].layers[..2]);
        assert_eq!(before.images[1].layers, after.images[1].layers);
        assert_eq!(after.images[0].patches.len(), before.images[0].patches.len() + 1);
    }

    #[test]
    fn a_patch_of_a_library_goes_to_every_image_that_has_it() {
        let path = "releases/2025.2/patches/library/os.brick/0001-x.patch";
        let patched = edited(path, |_| "--- a/x\n+++ b/x\n".into());
        let counts = |catalogue: &Catalogue| -> Vec<usize> {
            plan(catalogue, &["nova", "cinder", "keystone"]).images.iter().map(|image| image.patches.len()).collect()
        };
        let before = counts(&Catalogue::embedded().unwrap());
        assert_eq!(counts(&patched), [before[0] + 1, before[1] + 1, before[2]]);
    }

    #[test]
    fn an_override_that_the_lock_does_not_have_is_refused_by_image_and_package() {
        let stale = edited("releases/2025.2/overrides/glance.txt", |_| "pymysql===9.9\n".into());
        let release = stale.release("2025.2").unwrap();
        let inputs = Inputs { catalogue: &stale, release: &release, binary: None };
        let error = Plan::new(inputs, &["glance"]).unwrap_err().to_string();
        assert!(error.starts_with("image glance, stage python: ") && error.contains("pymysql 9.9"), "{error}");
    }
}
