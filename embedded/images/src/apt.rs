//! Debian packages: where this machine gets them, which ones it would take, and their files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::chroot::{self, Chroot, Network, tail};
use crate::lock::debian::{Archives, Deb};
use crate::tools::APT_HELPER;
use crate::{Problem, cache::Cache};

/// Lists of packages that are younger are good enough to choose versions from.
const LISTS_AGE: Duration = Duration::from_hours(1);

/// Name archives of Debian for machines whose own apt has none, or another than is wanted.
const MIRROR: &str = "C5C3_DEBIAN_MIRROR";
const SECURITY_MIRROR: &str = "C5C3_DEBIAN_SECURITY_MIRROR";

/// How apt works in a build: with what is lent to it, and leaving nothing but packages.
pub(crate) const APT_CONF: &str = r#"APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::ForceHash "SHA256";
Acquire::Languages "none";
Acquire::Retries "3";
Debug::NoLocking "true";
Dir::State::lists "/run/build/lists";
Dir::Cache "/run/build/apt";
Dir::Cache::archives "/run/build/apt";
Dir::Etc::SourceList "/run/build/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Log "/run/build/apt";
Dpkg::Use-Pty "false";
DPkg::Options { "--force-unsafe-io"; "--force-confdef"; "--log=/dev/null"; };
"#;

/// The archives that the environment names, or else those of this machine's apt. There are no others: where packages come
/// from is for the machine's owner to say.
pub(crate) fn archives() -> Result<Archives, Problem> {
    let mut sources = fs::read_to_string("/etc/apt/sources.list").unwrap_or_default();
    for entry in fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten() {
        sources += &fs::read_to_string(entry.path()).unwrap_or_default();
    }
    let set = |name: &str| std::env::var(name).ok().filter(|url| !url.is_empty());
    chosen(set(MIRROR), set(SECURITY_MIRROR), &sources)
}

fn chosen(debian: Option<String>, security: Option<String>, sources: &str) -> Result<Archives, Problem> {
    let words = sources.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(str::split_whitespace);
    let urls: Vec<_> = words.filter(|word| word.contains("://")).map(|url| url.trim_end_matches('/')).collect();
    let ending = |end: &str| urls.iter().find(|url| url.ends_with(end)).map(|&url| url.to_owned());
    let debian = debian.or_else(|| ending("/debian")).ok_or(Problem::NoMirror(MIRROR))?;
    let security = security.or_else(|| ending("/debian-security")).unwrap_or_else(|| format!("{debian}-security"));
    Ok(Archives { debian, security })
}

/// The sources of a release, as apt reads them in a build.
pub(crate) fn sources(archives: &Archives, suite: &str) -> String {
    let Archives { debian, security } = archives;
    let key = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]";
    format!(
        "deb {key} {debian} {suite} main\ndeb {key} {debian} {suite}-updates main\ndeb {key} {security} {suite}-security main\n"
    )
}

/// Why packages could not be had.
#[derive(Debug)]
pub(crate) enum Unfetched {
    /// These are not in the archive any more; newer ones may be.
    Gone(Vec<Deb>, String),
    /// Something else is wrong.
    Problem(Problem),
}

impl From<Problem> for Unfetched {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

/// Gets the files of packages into the cache, all that are not there; each is what its hash says.
pub(crate) fn fetch(cache: &Cache, debs: &[Deb], scratch: &Path, stop: &AtomicBool) -> Result<Vec<PathBuf>, Unfetched> {
    let pool = cache.folder("debs");
    let place = |deb: &Deb| pool.join(format!("{}.{}", &deb.sha256.get(..16).unwrap_or(&deb.sha256), deb.file()));
    let absent: Vec<_> = debs.iter().filter(|deb| !place(deb).exists()).collect();
    if !absent.is_empty() {
        let archives = archives()?;
        let downloads = tempfile::tempdir_in(&pool).map_err(Problem::file(&pool))?;
        let mut command = chroot::contained(Network::Registries);
        command.args([APT_HELPER, "-o", "Acquire::Retries=3", "-o", "APT::Sandbox::User=root", "download-file"]);
        for deb in &absent {
            command.arg(archives.url(deb)).arg(downloads.path().join(deb.file())).arg(format!("SHA256:{}", deb.sha256));
        }
        match chroot::run(&mut command, &scratch.join("fetch.log"), stop) {
            Ok(_) => {}
            Err(Problem::Command(said)) => return Err(unfetched(&absent, &said)),
            Err(problem) => return Err(problem.into()),
        }
        for deb in &absent {
            fs::rename(downloads.path().join(deb.file()), place(deb)).map_err(Problem::file(&pool))?;
        }
    }
    for deb in debs {
        verify(deb, &place(deb))?;
    }
    Ok(debs.iter().map(place).collect())
}

/// A file that was tampered with is removed, so that the next build gets it again.
fn verify(deb: &Deb, file: &Path) -> Result<(), Problem> {
    let found = c5c3_oci::digest_of(&fs::read(file).map_err(Problem::file(file))?);
    if found.digest() == deb.sha256 {
        return Ok(());
    }
    let _ = fs::remove_file(file);
    Err(Problem::Hash {
        package: format!("{} {}", deb.name, deb.version),
        why: format!("its SHA-256 is {}, the lock has {}", found.digest(), deb.sha256),
    })
}

/// Which package was to blame, of what apt's downloader says.
fn unfetched(asked: &[&Deb], said: &str) -> Unfetched {
    let named = |deb: &Deb, line: &str| deb.path.rsplit('/').next().is_some_and(|file| line.contains(file));
    let blamed = |line: &str| asked.iter().find(|deb| named(deb, line)).map(|&deb| deb.clone());
    let lines = || said.lines().filter(|line| line.starts_with("E:") || line.starts_with("Err"));
    if let Some(deb) = lines().filter(|line| line.contains("Hash Sum mismatch")).find_map(blamed) {
        let found = said.lines().map(str::trim).find_map(|line| line.strip_prefix("- SHA256:"));
        let why = format!("the archive has another file; the lock has SHA-256 {}", found.unwrap_or(&deb.sha256));
        return Problem::Hash { package: format!("{} {}", deb.name, deb.version), why }.into();
    }
    let gone: Vec<_> = lines().filter(|line| line.contains("404")).filter_map(blamed).collect();
    if gone.is_empty() {
        return Problem::Command(format!("packages cannot be downloaded: {}", tail(said))).into();
    }
    Unfetched::Gone(gone, tail(said))
}

/// Brings the lists of packages up to date; `chroot` has them lent.
pub(crate) fn update(cache: &Cache, chroot: &Chroot<'_>) -> Result<(), Problem> {
    let stamp = cache.folder("lists").join("updated");
    let lock = cache.folder("tools").join("lists.lock");
    let held = fs::File::create(&lock).map_err(Problem::file(&lock))?;
    held.lock().map_err(Problem::file(&lock))?;
    let age = fs::metadata(&stamp).and_then(|data| data.modified()).ok().and_then(|then| then.elapsed().ok());
    if age.is_some_and(|age| age < LISTS_AGE) {
        return Ok(());
    }
    chroot.script("mkdir -p /run/build/lists/partial; apt-get -qq update", &[]).map_err(explained)?;
    fs::write(&stamp, "").map_err(Problem::file(&stamp))
}

/// The packages that apt would add for some, and those whose files alone are wanted.
pub(crate) fn resolve(chroot: &Chroot<'_>, packages: &[String], extract: &[&str]) -> Result<Vec<Deb>, Problem> {
    let archives = archives()?;
    let mut debs = Vec::new();
    let install = "mkdir -p /run/build/apt/partial; apt-get -qq -y --print-uris install \"$@\"";
    let download = "mkdir -p /run/build/apt/partial; cd /run/build/apt; apt-get -qq --print-uris download \"$@\"";
    for (script, names) in
        [(install, packages.iter().map(String::as_str).collect::<Vec<_>>()), (download, extract.to_vec())]
    {
        if !names.is_empty() {
            let said = chroot.script(script, &names).map_err(explained)?;
            debs.extend(said.lines().filter_map(|line| archives.parse_uri(line)));
        }
    }
    debs.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(debs)
}

/// What apt says when a package is not there, as the problem that it is.
pub(crate) fn explained(problem: Problem) -> Problem {
    let Problem::Command(said) = problem else { return problem };
    let missing = said.lines().find_map(|line| {
        let line = line.trim_start_matches("E: ");
        let package = line.strip_prefix("Unable to locate package ").or_else(|| {
            line.strip_prefix("Package '")
                .and_then(|rest| rest.split_once("' has no installation candidate"))
                .map(|(name, _)| name)
        })?;
        Some((package.trim().to_owned(), line.to_owned()))
    });
    match missing {
        Some((package, why)) => Problem::Missing { package, why },
        None => Problem::Command(tail(&said)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_the_machines_own_and_not_those_of_others() {
        let sources = "Types: deb\n# http://old.test/debian\nURIs: http://near.test/debian/\nSuites: x\n\
            deb https://vendor.test/apt tool main\ndeb http://near.test/debian-security x-security main\n";
        let found = chosen(None, None, sources).unwrap();
        assert_eq!(found.debian, "http://near.test/debian");
        assert_eq!(found.security, "http://near.test/debian-security");
        let other = chosen(Some("http://far.test/debian".into()), None, "").unwrap();
        assert_eq!(other.security, "http://far.test/debian-security");
    }

    #[test]
    fn a_machine_without_an_archive_of_debian_is_told_what_to_set() {
        let error = chosen(None, None, "deb http://other.test/ubuntu noble main\n").unwrap_err().to_string();
        assert!(error.contains("C5C3_DEBIAN_MIRROR"), "{error}");
    }

    #[test]
    fn a_package_that_apt_does_not_know_is_named() {
        let said = "Reading package lists...\nE: Unable to locate package nosuch\n".to_owned();
        let problem = explained(Problem::Command(said)).to_string();
        assert_eq!(problem, "package nosuch is not there: Unable to locate package nosuch");
    }

    #[test]
    fn what_is_gone_from_the_archive_differs_from_what_was_changed_there() {
        let deb = Deb { name: "a".into(), version: "1".into(), sha256: "ff".into(), path: "debian/a_1_all.deb".into() };
        let gone = unfetched(&[&deb], "E: Failed to fetch http://x/a_1_all.deb  404  Not Found\n");
        assert!(matches!(gone, Unfetched::Gone(debs, _) if debs[0].name == "a"));
        let other = unfetched(&[&deb], "E: Failed to fetch http://x/a_1_all.deb  Hash Sum mismatch\n");
        assert!(matches!(other, Unfetched::Problem(Problem::Hash { package, .. }) if package == "a 1"));
    }
}
