//! Building images: stages that are not in the cache, and images as soon as their layers are there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use c5c3_oci::{Descriptor, Layout, Reference};

use crate::assemble;
use crate::cache::{Built, Cache};
use crate::catalogue::Catalogue;
use crate::crew::{self, Job};
use crate::plan::{Binary, Inputs, Key, Plan, PlannedImage, Stage, Work};
use crate::progress::Progress;
use crate::release::Release;
use crate::stage::{self, Site};
use crate::version::Origin;
use crate::{Error, Problem, tools};

/// Builds images of one release into one cache.
#[derive(Clone, Debug)]
pub struct Builder {
    /// Where everything is kept.
    pub cache: Cache,
    /// The definitions.
    pub catalogue: Catalogue,
    /// The release of OpenStack.
    pub release: Release,
    /// The program for the image of this program; the one that runs, if none is given.
    pub binary: Option<Binary>,
    /// Whether Debian packages must have the versions of their locks. Otherwise newer ones are taken when the archive has
    /// given those up, and it is said so.
    pub locked: bool,
    /// For tags that tell where images come from.
    pub origin: Option<Origin>,
    /// Set to end what is being built.
    pub stop: Arc<AtomicBool>,
}

/// An image that is in the store.
#[derive(Clone, Debug)]
pub struct BuiltImage {
    /// What was planned.
    pub planned: PlannedImage,
    /// Its names, the plainest first.
    pub references: Vec<Reference>,
    /// Its manifest.
    pub manifest: Descriptor,
    /// Its layers, the lowest first: the stage that made each, and what is known of it.
    pub layers: Vec<(String, Built)>,
}

impl BuiltImage {
    /// How many bytes the files of all its layers have.
    pub fn size(&self) -> u64 {
        self.layers.iter().map(|(_, built)| built.size).sum()
    }

    /// How many bytes the files of its own layers have, without those that it shares.
    pub fn own_size(&self) -> u64 {
        let own = format!("{}/", self.planned.definition.name);
        self.layers.iter().filter(|(stage, _)| stage.starts_with(&own)).map(|(_, built)| built.size).sum()
    }
}

impl Builder {
    /// A builder with what is usual: the definitions of this checkout or binary, and the user's cache.
    pub fn new(release: &str) -> Result<Self, Error> {
        let catalogue = Catalogue::find(None)?;
        Ok(Self {
            release: catalogue.release(release)?,
            cache: Cache::open(Cache::default_path())?,
            catalogue,
            binary: None,
            locked: false,
            origin: None,
            stop: Arc::default(),
        })
    }

    /// The stages of some images.
    pub fn plan(&self, images: &[&str]) -> Result<Plan, Error> {
        let wants_program =
            images.iter().any(|name| self.catalogue.definition(name).is_ok_and(|image| image.binary.is_some()));
        let running = match &self.binary {
            None if wants_program => Some(Binary::running()?),
            _ => None,
        };
        let binary = self.binary.as_ref().or(running.as_ref());
        Plan::new(Inputs { catalogue: &self.catalogue, release: &self.release, binary }, images)
    }

    /// Builds some images, and all that they stand on; what is in the cache is not built again.
    pub fn build(&self, images: &[&str], progress: &dyn Progress) -> Result<Vec<BuiltImage>, Error> {
        self.build_each(images, progress, |_| Ok(()))
    }

    /// Builds some images, and does something with each as soon as it is there, while others are still being built.
    pub fn build_each(
        &self,
        images: &[&str],
        progress: &dyn Progress,
        finish: impl Fn(&BuiltImage) -> Result<(), Error> + Sync,
    ) -> Result<Vec<BuiltImage>, Error> {
        let plan = self.plan(images)?;
        let layout = self.cache.layout()?;
        self.cache.sweep()?;
        let needed = self.needed(&plan, &layout);
        if !needed.is_empty() {
            tools::check()?;
            progress.planned(needed.len());
        }
        let built = Mutex::new(BTreeMap::new());
        crew::work_off(&plan, &needed, |job| match job {
            Job::Fetch(key) => {
                self.fetch_ahead(plan.stage(key));
                Ok(())
            }
            Job::Stage(key) => self.stage(plan.stage(key).expect("what waits is in the plan"), &layout, progress),
            Job::Image(number) => {
                let image = self.assemble(&plan, &layout, plan.images[*number].clone(), progress)?;
                finish(&image)?;
                built.lock().unwrap_or_else(PoisonError::into_inner).insert(*number, image);
                Ok(())
            }
        })?;
        Ok(built.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect())
    }

    /// Images that are in the cache as they would be built now; none for those that are not.
    pub fn built(&self, images: &[&str]) -> Result<Vec<Option<BuiltImage>>, Error> {
        let plan = self.plan(images)?;
        let layout = self.cache.layout()?;
        let there =
            |image: &PlannedImage| image.layers.iter().all(|key| self.cache.built(&layout, key, false).is_some());
        let images = plan.images.iter().map(|image| {
            there(image).then(|| self.assemble(&plan, &layout, image.clone(), &crate::progress::Quiet)).transpose()
        });
        images.collect()
    }

    fn assemble(
        &self,
        plan: &Plan,
        layout: &Layout,
        planned: PlannedImage,
        progress: &dyn Progress,
    ) -> Result<BuiltImage, Error> {
        let mut layers = Vec::new();
        for key in &planned.layers {
            let stage = plan.stage(key).expect("an image's layers are stages of its plan");
            let label = format!("{}/{}", stage.image, stage.work.name());
            let missing = || Error::Stage {
                image: stage.image.clone(),
                stage: stage.work.name(),
                problem: Problem::Command("its layer is not in the cache any more".into()),
            };
            layers.push((label, self.cache.built(layout, key, false).ok_or_else(missing)?));
        }
        for (label, built) in layers.iter().filter(|(_, built)| !built.drift.is_empty()) {
            progress.note(&format!("{label} is newer than its lock: {}", built.drift.join(", ")));
        }
        let (manifest, references) = assemble::image(layout, &planned, &layers, &self.release, self.origin.as_ref())?;
        Ok(BuiltImage { planned, references, manifest, layers })
    }

    /// Builds what a stage is made on.
    pub(crate) fn foundations(&self, plan: &Plan, stage: &Stage, progress: &dyn Progress) -> Result<(), Error> {
        let layout = self.cache.layout()?;
        for stage in plan.stages.iter().filter(|below| stage.below.contains(&below.key)) {
            self.stage(stage, &layout, progress)?;
        }
        Ok(())
    }

    /// The stages that are not in the cache. One that only others are made on is needed if one of those is.
    fn needed(&self, plan: &Plan, layout: &Layout) -> Vec<Key> {
        let shipped: BTreeSet<_> = plan.images.iter().flat_map(|image| &image.layers).collect();
        let mut needed: Vec<Key> = Vec::new();
        let mut below: BTreeSet<&Key> = BTreeSet::new();
        for stage in plan.stages.iter().rev() {
            let wanted = shipped.contains(&stage.key) || below.contains(&stage.key);
            let with_files = below.contains(&stage.key) || matches!(stage.work, Work::Bootstrap { .. });
            if wanted && self.cache.built(layout, &stage.key, with_files).is_none_or(|built| self.refuses(&built)) {
                below.extend(&stage.below);
                needed.push(stage.key.clone());
            }
        }
        needed.reverse();
        needed
    }

    /// Whether a layer that is there is not good enough.
    fn refuses(&self, built: &Built) -> bool {
        self.locked && !built.drift.is_empty()
    }

    fn stage(&self, stage: &Stage, layout: &Layout, progress: &dyn Progress) -> Result<(), Error> {
        let _claim = self.cache.claim(&stage.key)?;
        // Another process may have built it meanwhile.
        if self.cache.built(layout, &stage.key, stage.is_foundation).is_some_and(|built| !self.refuses(&built)) {
            return Ok(());
        }
        let began = Instant::now();
        progress.begun(&stage.image, stage.work.name());
        let bench = self.cache.bench(&stage.key)?;
        let built = stage::build(&self.site(stage, &bench), layout).map_err(|problem| match problem {
            Problem::Stopped => Error::Stopped,
            problem => Error::Stage { image: stage.image.clone(), stage: stage.work.name(), problem },
        })?;
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        self.cache.publish(&stage.key, &bench, &built, stage.is_foundation)?;
        progress.ended(&stage.image, stage.work.name(), began.elapsed(), built.size);
        Ok(())
    }

    /// Downloads what a stage will need. Whether that works is seen, and said, when the stage is built.
    fn fetch_ahead(&self, stage: Option<&Stage>) {
        let Some(stage) = stage else { return };
        let Ok(bench) = self.cache.bench(&stage.key) else { return };
        stage::fetch_ahead(&self.site(stage, &bench));
    }

    pub(crate) fn site<'a>(&'a self, stage: &'a Stage, bench: &'a crate::cache::Bench) -> Site<'a> {
        let suites = self.catalogue.definitions().filter_map(|definition| definition.bootstrap.as_ref());
        let suite = suites.map(|bootstrap| bootstrap.suite.as_str()).next().unwrap_or("stable");
        Site { cache: &self.cache, bench, stage, stop: &self.stop, suite, locked: self.locked }
    }
}

impl Binary {
    /// The program that is running.
    pub fn running() -> Result<Self, Error> {
        let path = std::env::current_exe().map_err(Error::file(Path::new("this program")))?;
        Self::at(&path, env!("CARGO_PKG_VERSION"))
    }

    /// A program in a file.
    pub fn at(path: &Path, version: &str) -> Result<Self, Error> {
        let content = std::fs::read(path).map_err(Error::file(path))?;
        let sha256 = c5c3_oci::digest_of(&content).digest().to_owned();
        Ok(Self { path: path.to_owned(), sha256, version: version.to_owned() })
    }
}

impl Stage {
    /// Whether it makes a layer of Debian packages.
    pub(crate) fn is_debian(&self) -> bool {
        matches!(self.work, Work::Bootstrap { .. } | Work::Debian { .. })
    }
}
