//! A Python environment: installed from its lock, patched, trimmed, compiled.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Site, shortened, within};
use crate::Problem;
use crate::chroot::{Chroot, Network, tail};
use crate::patch::{self, Patch};
use crate::plan::Environment;
use crate::tools;

/// Certificates of this machine, which may know more authorities than the image does.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// How this machine reaches an index of packages.
const INDEXES: [&str; 5] = ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_INSECURE_HOST"];

/// Hashes instead of times, and never checked at run time: the files are read-only, and bytecode that depends on a time
/// would differ from build to build. By one process, in the order of names: how a module is written down depends on the
/// strings that those before it have left in memory.
const COMPILE: &str = "PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0 \"$1/bin/python\" -m compileall -f -q -j 1 \
    --invalidation-mode unchecked-hash \"$1/lib\" >/dev/null 2>&1 || true";

pub(super) fn build(site: &Site<'_>, environment: &Environment) -> Result<(), Problem> {
    let chroot = uv(site, &environment.lock)?;
    let mut options = vec!["--exclude-newer".to_owned(), environment.cutoff.clone()];
    for (package, cutoff) in &environment.cutoffs {
        options.extend(["--exclude-newer-package".to_owned(), format!("{package}={cutoff}")]);
    }
    let script = "uv=/run/build/uv; venv=$1; shift\n\
        $uv venv --quiet --no-config --python /usr/bin/python3 \"$venv\"\n\
        $uv pip install --quiet --no-config --python \"$venv/bin/python\" --no-deps --require-hashes \"$@\" \
        --requirement /run/build/lock.txt";
    let mut arguments = vec![environment.venv.as_str()];
    arguments.extend(options.iter().map(String::as_str));
    chroot.script(script, &arguments).map_err(explained)?;

    let venv = site.root().join(environment.venv.trim_start_matches('/'));
    let packages = site_packages(&venv)?;
    for patch in &environment.patches {
        apply(patch, &packages, &venv)?;
    }
    for folder in &environment.remove {
        crate::cache::remove(&packages.join(folder)).map_err(within)?;
    }
    if environment.system_packages {
        let file = packages.join("zz-debian.pth");
        fs::write(&file, "/usr/lib/python3/dist-packages\n").map_err(Problem::file(&file))?;
    }
    // What uv leaves for itself.
    for file in [".lock", ".gitignore", "CACHEDIR.TAG"] {
        crate::cache::remove(&venv.join(file)).map_err(within)?;
    }
    site.chroot().script(COMPILE, &[&environment.venv]).map(drop).map_err(shortened)
}

/// The layers below, with uv, its cache, the lock, and a way to the index of packages.
fn uv<'a>(site: &'a Site<'_>, lock: &str) -> Result<Chroot<'a>, Problem> {
    let mut chroot = Chroot { network: Network::Registries, ..site.chroot() };
    chroot.lent = vec![
        (tools::uv(site.cache).map_err(within)?, "uv"),
        (site.cache.folder("uv"), "uv-cache"),
        (site.lend("lock.txt", lock)?, "lock.txt"),
    ];
    let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    chroot.environment = vec![
        set("UV_CACHE_DIR", "/run/build/uv-cache"),
        set("UV_LINK_MODE", "copy"),
        set("UV_PYTHON_DOWNLOADS", "never"),
        set("UV_NO_PROGRESS", "1"),
    ];
    if Path::new(CERTIFICATES).exists() {
        chroot.lent.push((PathBuf::from(CERTIFICATES), "certificates"));
        chroot.environment.push(set("SSL_CERT_FILE", "/run/build/certificates"));
    }
    chroot.environment.extend(INDEXES.iter().filter_map(|&name| Some(set(name, &std::env::var(name).ok()?))));
    Ok(chroot)
}

fn site_packages(venv: &Path) -> Result<PathBuf, Problem> {
    let lib = venv.join("lib");
    let entries = fs::read_dir(&lib).map_err(Problem::file(&lib))?.filter_map(Result::ok);
    let found = entries.map(|entry| entry.path().join("site-packages")).find(|path| path.is_dir());
    found.ok_or_else(|| Problem::Command(format!("{} has no site-packages", venv.display())))
}

/// Applies a patch to what is installed: modules as they are named in the source, and data files, which an environment has
/// at its top. What of a patch makes files that are not installed at all, such as release notes, is left out.
fn apply(patch: &Patch, packages: &Path, venv: &Path) -> Result<(), Problem> {
    let place = |file: &str| {
        let inside = Path::new(file).components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let top = file.split('/').next().unwrap_or(file);
        let found = [packages, venv].into_iter().find(|root| root.join(file).exists());
        let home = found.or_else(|| [packages, venv].into_iter().find(|root| root.join(top).is_dir()));
        home.filter(|_| inside).map(|root| root.join(file))
    };
    let read = |file: &str| place(file).and_then(|path| fs::read_to_string(path).ok());
    for (file, text) in patch::apply(patch, read)? {
        let Some(path) = place(&file) else { continue };
        match text {
            Some(text) => {
                fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(Problem::file(&path))?;
                fs::write(&path, text).map_err(Problem::file(&path))?;
            }
            None => fs::remove_file(&path).map_err(Problem::file(&path))?,
        }
    }
    Ok(())
}

/// What uv says when a package is not there or not what it should be, as the problem that it is.
pub(crate) fn explained(problem: Problem) -> Problem {
    let Problem::Command(said) = problem else { return problem };
    // uv breaks lines where the terminal would.
    let line = said.split_whitespace().filter(|word| !matches!(*word, "╰─▶" | "│" | "×")).collect::<Vec<_>>().join(" ");
    let after = |mark: &str| line.split_once(mark).map(|(_, rest)| rest.trim_start());
    let word = |text: &str| text.split([' ', ',']).next().unwrap_or(text).trim_matches(['`', '.']).to_owned();
    if let Some(rest) = after("Hash mismatch for") {
        return Problem::Hash { package: word(rest), why: tail(&said) };
    }
    if let Some(rest) = after("there is no version of").or_else(|| after("there are no versions of")) {
        return Problem::Missing { package: word(rest), why: tail(&said) };
    }
    if let Some((before, _)) = line.split_once(" was not found in the package registry") {
        let package = before.rsplit(' ').next().unwrap_or(before).to_owned();
        return Problem::Missing { package, why: tail(&said) };
    }
    Problem::Command(tail(&said))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(said: &str) -> String {
        let problem = explained(Problem::Command(said.to_owned()));
        problem.to_string().lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn a_package_that_is_to_blame_is_named() {
        assert!(of("  × No solution found when resolving dependencies:\n  ╰─▶ Because nosuch was not found in the package\n      registry and you require nosuch")
            .starts_with("package nosuch is not there"));
        assert!(
            of("  ╰─▶ Because there is no version of six==99 and you require six==99")
                .starts_with("package six==99 is not there")
        );
        assert!(of("error: Failed to download `six==1.17.0`\n  Caused by: Hash mismatch for `six==1.17.0`\n\nExpected:\n  sha256:aa")
            .starts_with("package six==1.17.0 is not what the lock says"));
    }
}
