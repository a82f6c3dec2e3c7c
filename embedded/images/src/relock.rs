//! Renewing locks: Python's by uv with a cut-off date, Debian's by what the archive has now.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::builder::Builder;
use crate::definition::Definition;
use crate::lock::{changes, debian, python};
use crate::plan::{Key, Stage, debian_lock_file};
use crate::progress::Progress;
use crate::release::Override;
use crate::stage;
use crate::strays;
use crate::tools;
use crate::{Error, Problem};

/// A lock that was renewed.
#[derive(Clone, Debug)]
pub struct Renewed {
    /// Its file, within the definitions.
    pub file: String,
    /// Its new text.
    pub text: String,
    /// What is different from before, a package on each line.
    pub changes: Vec<String>,
}

/// Renews the lock of an image's Python packages. What still fits stays as it is, unless everything is to be chosen again.
/// An override of the image's own that removes what nothing asks for is refused.
pub fn python(builder: &Builder, image: &Definition, anew: bool) -> Result<Option<Renewed>, Error> {
    let Some(environment) = &image.python else { return Ok(None) };
    let (release, catalogue) = (&builder.release, &builder.catalogue);
    let (source, extras, file) =
        (release.source(&image.name)?, release.extras(&image.name), release.lock_file(&image.name));
    let main = match extras.pip_extras.join(",") {
        none if none.is_empty() => source.package.clone(),
        some => format!("{}[{some}]", source.package),
    };
    let mut wanted = vec![format!("{main}=={}", source.version)];
    wanted.extend(environment.packages.iter().chain(&extras.pip_packages).cloned());
    let overrides = release.overrides(catalogue, &image.name)?;
    let (pins, excludes) = split(&overrides);
    let old = catalogue.file(&file).unwrap_or_default();
    let before = if anew { "" } else { old };
    let question = Question { builder, image: &image.name, requirements: wanted.join("\n"), pins };
    let compiled = question.ask(&excludes, before)?;
    let without = left_out(&question, &overrides, before)?;
    let text = python::print(&compiled, &without);
    let wrong = |reason| Error::definition(&file, reason);
    let (old, new) = (python::parse(old).unwrap_or_default(), python::parse(&text).map_err(wrong)?);
    let changes = changes(pairs(&old.packages), pairs(&new.packages));
    Ok(Some(Renewed { file, text, changes }))
}

/// What a lock is asked for.
struct Question<'a> {
    builder: &'a Builder,
    image: &'a str,
    requirements: String,
    pins: String,
}

impl Question<'_> {
    /// The lock that uv makes of it, without some packages, and with what still fits of the one before.
    fn ask(&self, excludes: &str, before: &str) -> Result<String, Error> {
        let release = &self.builder.release;
        let scratch = tempfile::tempdir().map_err(Error::file(Path::new("a folder for temporary files")))?;
        let write = |name: &str, text: &str| {
            let path = scratch.path().join(name);
            fs::write(&path, text).map(|()| path.clone()).map_err(Error::file(&path))
        };
        let (requirements, pins) = (write("requirements.in", &self.requirements)?, write("overrides.txt", &self.pins)?);
        let (excludes, lock) = (write("excludes.txt", excludes)?, write("lock.txt", before)?);
        let mut command = Command::new(tools::uv(&self.builder.cache)?);
        command.args(["pip", "compile", "--quiet", "--no-config", "--no-header", "--no-annotate", "--generate-hashes"]);
        command.args(["--python-version", "3.13", "--python-platform", "x86_64-manylinux_2_40"]);
        command.args(["--exclude-newer", &release.cutoff]);
        for (package, cutoff) in release.cutoffs(self.image)? {
            command.args(["--exclude-newer-package".to_owned(), format!("{package}={cutoff}")]);
        }
        command.arg("--overrides").arg(pins).arg("--excludes").arg(excludes);
        command.arg("--output-file").arg(&lock).arg(requirements);
        command.env("UV_CACHE_DIR", self.builder.cache.folder("uv")).env("UV_NO_PROGRESS", "1");
        let output = command.output().map_err(Error::file(Path::new("uv")))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let problem = stage::explained(Problem::Command(said));
            return Err(Error::Stage { image: self.image.to_owned(), stage: "lock", problem });
        }
        fs::read_to_string(&lock).map_err(Error::file(&lock))
    }
}

/// The packages that overrides remove and that would be there otherwise, which is found out by asking again.
fn left_out(question: &Question<'_>, overrides: &[Override], before: &str) -> Result<Vec<String>, Error> {
    let removed = overrides.iter().filter(|change| matches!(change, Override::Remove { .. }));
    let removed: Vec<_> = removed.map(|change| change.package().to_owned()).collect();
    if removed.is_empty() {
        return Ok(removed);
    }
    // With what overrides remove there may be no answer at all, and then they have their reason.
    let Ok(complete) = question.ask("", before) else { return Ok(removed) };
    let wrong = |reason| Error::definition(question.builder.release.lock_file(question.image), reason);
    let complete = python::parse(&complete).map_err(wrong)?;
    let is_asked_for = |package: &String| complete.version(package).is_some();
    let release = &question.builder.release;
    let own = release.overrides_of(&question.builder.catalogue, question.image)?;
    if let Some(idle) = removed.iter().find(|one| !is_asked_for(one) && own.iter().any(|own| own.package() == *one)) {
        let near = strays::hint(idle, complete.names());
        let reason = format!("it removes {idle}, which {} would not have anyway{near}", question.image);
        return Err(Error::definition(release.overrides_file(question.image), reason));
    }
    Ok(removed.into_iter().filter(is_asked_for).collect())
}

fn pairs(packages: &[python::Pinned]) -> impl Iterator<Item = (&str, &str)> {
    packages.iter().map(|package| (package.name.as_str(), package.version.as_str()))
}

/// Overrides as uv reads them: pins and names.
fn split(overrides: &[Override]) -> (String, String) {
    let (mut pins, mut excludes) = (String::new(), String::new());
    for change in overrides {
        match change {
            Override::Pin { package, version } => pins.extend([package.as_str(), "==", version, "\n"]),
            Override::Remove { package } => excludes.extend([package.as_str(), "\n"]),
        }
    }
    (pins, excludes)
}

/// Renews the locks of the Debian packages of some images and of all that those stand on. What is below a layer is built as
/// it is locked now, lowest first.
pub fn debian(builder: &Builder, images: &[&str], progress: &dyn Progress) -> Result<Vec<Renewed>, Error> {
    let mut builder = builder.clone();
    let mut renewed: Vec<Renewed> = Vec::new();
    let mut done: Vec<Key> = Vec::new();
    // Each new lock changes the keys above it, so the plan is made again until nothing of it is open.
    loop {
        let plan = builder.plan(images)?;
        let open = |stage: &&Stage| stage.is_debian() && !done.contains(&stage.key);
        let Some(stage) = plan.stages.iter().find(open) else { return Ok(renewed) };
        builder.foundations(&plan, stage, progress)?;
        progress.begun(&stage.image, "lock");
        let bench = builder.cache.bench(&stage.key)?;
        let debs = stage::resolve(&builder.site(stage, &bench)).map_err(|problem| Error::Stage {
            image: stage.image.clone(),
            stage: "lock",
            problem,
        })?;
        let file = debian_lock_file(&builder.release, &stage.image);
        let before = debian::parse(builder.catalogue.file(&file).unwrap_or_default()).unwrap_or_default();
        let lines = changes(debian::versions(&before), debian::versions(&debs));
        let text = debian::print(&debs);
        let image = stage.image.clone();
        builder.catalogue.files.insert(file.clone(), text.clone());
        renewed.push(Renewed { file, text, changes: lines });
        let again = builder.plan(images)?;
        done.extend(
            again
                .stages
                .iter()
                .filter(|stage| stage.image == image && stage.is_debian())
                .map(|stage| stage.key.clone()),
        );
    }
}

/// Writes renewed locks to the folder of the definitions.
pub fn write(folder: &Path, renewed: &[Renewed]) -> Result<Vec<PathBuf>, Error> {
    let mut written = Vec::new();
    for lock in renewed {
        let file = folder.join(&lock.file);
        let above = file.parent().unwrap_or(folder);
        fs::create_dir_all(above).map_err(Error::file(above))?;
        fs::write(&file, &lock.text).map_err(Error::file(&file))?;
        written.push(file);
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_become_pins_and_names() {
        let pin = Override::Pin { package: "a".into(), version: "1".into() };
        let (pins, excludes) = split(&[pin, Override::Remove { package: "b".into() }]);
        assert_eq!((pins.as_str(), excludes.as_str()), ("a==1\n", "b\n"));
    }
}
