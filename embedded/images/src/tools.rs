//! Programs that builds need: those of the machine, and uv, which comes from PyPI into the cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;
use crate::cache::Cache;
use crate::plan::UV;

/// apt's downloader, which knows the machine's proxies and checks hashes.
pub(crate) const APT_HELPER: &str = "/usr/lib/apt/apt-helper";

/// Whether everything is there that images are built with.
pub(crate) fn check() -> Result<(), Error> {
    let of_debian = "install it with `make packages`, or `apt-get install mmdebstrap`";
    let needed = [("mmdebstrap", of_debian), ("unshare", "it is in util-linux"), ("setpriv", "it is in util-linux")];
    for (program, remedy) in needed {
        if find(program).is_none() {
            return Err(Error::Program { program, remedy: remedy.to_owned() });
        }
    }
    if !Path::new(APT_HELPER).exists() {
        return Err(Error::Program { program: "apt-helper", remedy: "images are built on Debian and its kin".into() });
    }
    Ok(())
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].into_iter().map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The one uv that environments and locks are made with, installed into the cache when it is not there.
pub(crate) fn uv(cache: &Cache) -> Result<PathBuf, Error> {
    let home = cache.folder("tools").join(format!("uv-{UV}"));
    let uv = home.join("bin/uv");
    if uv.exists() {
        return Ok(uv);
    }
    let lock = cache.folder("tools").join("uv.lock");
    let held = std::fs::File::create(&lock).map_err(Error::file(&lock))?;
    held.lock().map_err(Error::file(&lock))?;
    if uv.exists() {
        return Ok(uv);
    }
    let failed = |reason: String| Error::Program { program: "uv", remedy: reason };
    let new = tempfile::tempdir_in(cache.folder("tools")).map_err(Error::file(&home))?;
    let packages = "`make packages` installs python3-venv, which is needed to get it";
    run(Command::new("python3").args(["-m", "venv"]).arg(new.path()))
        .map_err(|said| failed(format!("{packages}: {said}")))?;
    let mut pip = Command::new(new.path().join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", "--no-deps", &format!("uv=={UV}")]);
    run(&mut pip).map_err(|said| failed(format!("pip cannot install it: {said}")))?;
    std::fs::rename(new.keep(), &home).map_err(Error::file(&home))?;
    Ok(uv)
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}
