//! Doing what a stage says, in a folder of its own.

mod bootstrap;
mod debian;
mod finish;
mod python;

pub(crate) use python::explained;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use c5c3_oci::{Compression, Layer, Layout};

use crate::apt::{self, Unfetched};
use crate::cache::{Bench, Built, Cache};
use crate::chroot::{Chroot, Network, tail};
use crate::lock::changes;
use crate::lock::debian::{Deb, versions};
use crate::patch::Patch;
use crate::plan::{EPOCH, Stage, Work};
use crate::{Error, Problem, tools};

/// Where a stage is built, and how.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    pub(crate) cache: &'a Cache,
    pub(crate) bench: &'a Bench,
    pub(crate) stage: &'a Stage,
    pub(crate) stop: &'a AtomicBool,
    /// Debian's name of its release, for lists of packages.
    pub(crate) suite: &'a str,
    /// Whether versions that are no longer to be had end the build.
    pub(crate) locked: bool,
}

/// What a stage has put into its layer.
#[derive(Debug, Default)]
struct Made {
    debian: Vec<Deb>,
    drift: Vec<String>,
    patches: Vec<Patch>,
}

/// The Debian packages of a stage.
#[derive(Debug)]
struct Chosen {
    debs: Vec<Deb>,
    /// Their files, in the same order.
    files: Vec<PathBuf>,
    /// How they differ from the lock.
    drift: Vec<String>,
}

/// Builds a stage into its folder, and its layer into the store.
pub(crate) fn build(site: &Site<'_>, layout: &Layout) -> Result<Built, Problem> {
    let made = match &site.stage.work {
        Work::Bootstrap { suite, packages, lock } => {
            let chosen = site.packages(lock.as_deref(), || bootstrap::resolve(site, suite, packages))?;
            bootstrap::build(site, suite, packages, &chosen)?;
            Made { debian: chosen.debs, drift: chosen.drift, ..Made::default() }
        }
        Work::Debian { packages, extract, remove, lock } => {
            let chosen = site.packages(lock.as_deref(), || debian::resolve(site, packages, extract))?;
            debian::build(site, extract, &chosen)?;
            for file in remove {
                crate::cache::remove(&site.root().join(file)).map_err(within)?;
            }
            Made { debian: chosen.debs, drift: chosen.drift, ..Made::default() }
        }
        Work::Python(environment) => {
            python::build(site, environment)?;
            Made { patches: environment.patches.clone(), ..Made::default() }
        }
        Work::Script { text } => {
            site.chroot().script(text, &[]).map_err(shortened)?;
            Made::default()
        }
        Work::Binary { path, from, .. } => copy(from, &site.root().join(path.trim_start_matches('/')))?,
    };
    let size = finish::tidy(&site.root())?;
    let layer = Layer::of_folder(layout, &site.root(), EPOCH, Compression::None)?;
    Ok(Built { layer, size, debian: made.debian, drift: made.drift, patches: made.patches })
}

/// Downloads what the stage will need into the cache, as far as that is known before it is built. What goes wrong goes
/// wrong again when the stage is built, and is told then.
pub(crate) fn fetch_ahead(site: &Site<'_>) {
    match &site.stage.work {
        Work::Bootstrap { lock: Some(debs), .. } | Work::Debian { lock: Some(debs), .. } => {
            let _ = apt::fetch(site.cache, debs, &site.scratch(), site.stop);
        }
        Work::Python(_) => {
            let _ = tools::uv(site.cache);
        }
        _ => {}
    }
}

fn copy(from: &Path, to: &Path) -> Result<Made, Problem> {
    fs::create_dir_all(to.parent().unwrap_or(to)).map_err(Problem::file(to))?;
    fs::copy(from, to).map_err(Problem::file(from))?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).map_err(Problem::file(to))?;
    Ok(Made::default())
}

impl Site<'_> {
    /// Takes what the layer will have.
    fn root(&self) -> PathBuf {
        self.bench.path("root")
    }

    /// For what the build needs beside that.
    fn scratch(&self) -> PathBuf {
        self.bench.path("scratch")
    }

    /// The layers below, to run commands on that reach nothing.
    fn chroot(&self) -> Chroot<'_> {
        Chroot {
            lower: self.stage.below.iter().map(|key| self.cache.files(key)).collect(),
            upper: self.root(),
            overlay: self.bench.path("overlay"),
            mount: self.bench.path("mount"),
            lent: Vec::new(),
            environment: Vec::new(),
            network: Network::Nothing,
            log: self.scratch().join("output.log"),
            stop: self.stop,
        }
    }

    /// Some layers with lists of packages, to ask apt. What is written there is thrown away.
    fn asking(&self, lower: Vec<PathBuf>) -> Result<Chroot<'_>, Problem> {
        let scratch = self.scratch();
        let (upper, overlay) = (scratch.join("ask"), scratch.join("ask-overlay"));
        for folder in [&upper, &overlay] {
            fs::create_dir_all(folder).map_err(Problem::file(folder))?;
        }
        let configuration = self.lend("apt.conf", apt::APT_CONF)?;
        let sources = self.lend("sources.list", &apt::sources(&apt::archives()?, self.suite))?;
        let lists = self.cache.folder("lists");
        let chroot = Chroot {
            lower,
            upper,
            overlay,
            lent: vec![(configuration, "apt.conf"), (sources, "sources.list"), (lists, "lists")],
            environment: vec![("APT_CONFIG".into(), "/run/build/apt.conf".into())],
            network: Network::Registries,
            ..self.chroot()
        };
        apt::update(self.cache, &chroot)?;
        Ok(chroot)
    }

    /// A file that a command is given.
    fn lend(&self, name: &str, text: &str) -> Result<PathBuf, Problem> {
        let file = self.scratch().join(name);
        fs::write(&file, text).map_err(Problem::file(&file))?;
        Ok(file)
    }

    /// The packages of a stage and their files: those of the lock, or if the archive has given some of them up and it may
    /// be so, those that it has now; and how they differ.
    fn packages(
        &self,
        lock: Option<&[Deb]>,
        resolve: impl Fn() -> Result<Vec<Deb>, Problem>,
    ) -> Result<Chosen, Problem> {
        let fetch = |debs: &[Deb]| apt::fetch(self.cache, debs, &self.scratch(), self.stop);
        let gone = match lock.map(|debs| (debs, fetch(debs))) {
            Some((debs, Ok(files))) => return Ok(Chosen { debs: debs.to_vec(), files, drift: Vec::new() }),
            Some((_, Err(Unfetched::Problem(problem)))) => return Err(problem),
            Some((_, Err(Unfetched::Gone(gone, said)))) => Some((gone, said)),
            None => None,
        };
        if let Some((gone, said)) = gone.filter(|_| self.locked) {
            let package = gone.first().map(|deb| format!("{} {}", deb.name, deb.version)).unwrap_or_default();
            return Err(Problem::Missing { package, why: said });
        }
        let debs = resolve()?;
        let files = fetch(&debs).map_err(|unfetched| match unfetched {
            Unfetched::Problem(problem) => problem,
            Unfetched::Gone(gone, said) => {
                Problem::Missing { package: gone.first().map(|deb| deb.name.clone()).unwrap_or_default(), why: said }
            }
        })?;
        let drift = lock.map(|lock| changes(versions(lock), versions(&debs))).unwrap_or_default();
        Ok(Chosen { debs, files, drift })
    }
}

/// A failed command with the end of what it said.
fn shortened(problem: Problem) -> Problem {
    match problem {
        Problem::Command(said) => Problem::Command(tail(&said)),
        other => other,
    }
}

/// A problem of the cache within a stage.
pub(crate) fn within(error: Error) -> Problem {
    match error {
        Error::File { path, source } => Problem::File { path, source },
        other => Problem::Command(other.to_string()),
    }
}

/// What a lock of Debian packages would have now.
pub(crate) fn resolve(site: &Site<'_>) -> Result<Vec<Deb>, Problem> {
    match &site.stage.work {
        Work::Bootstrap { suite, packages, .. } => bootstrap::resolve(site, suite, packages),
        Work::Debian { packages, extract, .. } => debian::resolve(site, packages, extract),
        _ => Ok(Vec::new()),
    }
}
