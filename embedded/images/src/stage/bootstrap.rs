//! The root file system below everything: mmdebstrap, from the packages of the lock.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use super::{Chosen, Site, within};
use crate::Problem;
use crate::apt;
use crate::cache::{names, remove};
use crate::chroot::{self, Network, contained};
use crate::definition::USER;
use crate::lock::debian::Deb;

/// What a server does not read. Copyrights stay.
const UNREAD: [&str; 6] = ["man", "doc", "locale", "info", "lintian", "bug"];

/// Makes the file system from the packages' files alone, as an archive of their own.
pub(super) fn build(site: &Site<'_>, suite: &str, packages: &[String], chosen: &Chosen) -> Result<(), Problem> {
    let archive = site.scratch().join("archive");
    fs::create_dir_all(&archive).map_err(Problem::file(&archive))?;
    let mut index = String::new();
    for (deb, file) in chosen.debs.iter().zip(&chosen.files) {
        let link = archive.join(deb.file());
        fs::hard_link(file, &link).map_err(Problem::file(&link))?;
        let size = fs::metadata(file).map_err(Problem::file(file))?.len();
        write!(index, "{}Filename: ./{}\nSize: {size}\nSHA256: {}\n\n", control(file)?, deb.file(), deb.sha256)
            .expect("a string has room");
    }
    // mmdebstrap takes packages of the release alone, and knows it by this file.
    let (hash, size) = (c5c3_oci::digest_of(index.as_bytes()), index.len());
    let release = format!("Suite: {suite}\nCodename: {suite}\nSHA256:\n {} {size} Packages\n", hash.digest());
    for (name, text) in [("Packages", index), ("Release", release)] {
        fs::write(archive.join(name), text).map_err(Problem::file(&archive))?;
    }
    let source = format!("deb [trusted=yes] copy://{} ./", archive.display());
    mmdebstrap(site, suite, packages, &site.root(), &[source], Network::Nothing)
}

fn control(file: &Path) -> Result<String, Problem> {
    let output = Command::new("dpkg-deb").arg("--field").arg(file).output().map_err(Problem::file(file))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The packages that a file system from the mirror has now.
pub(super) fn resolve(site: &Site<'_>, suite: &str, packages: &[String]) -> Result<Vec<Deb>, Problem> {
    let first = site.scratch().join("first");
    let sources = apt::sources(&apt::archives()?, suite);
    let sources: Vec<_> = sources.lines().map(str::to_owned).collect();
    mmdebstrap(site, suite, packages, &first, &sources, Network::Registries)?;
    let chroot = site.asking(vec![first])?;
    let said = chroot.script("dpkg-query -W -f '${Package}:${Architecture}=${Version}\\n'", &[])?;
    let installed: Vec<_> = said.lines().collect();
    apt::resolve(&chroot, &[], &installed)
}

fn mmdebstrap(
    site: &Site<'_>,
    suite: &str,
    packages: &[String],
    root: &Path,
    sources: &[String],
    network: Network,
) -> Result<(), Problem> {
    let mut command = contained(network);
    command.args(["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--architectures=amd64"]);
    command.arg(format!("--include={}", packages.join(",")));
    command.args(["--aptopt=Apt::Install-Recommends \"false\"", "--aptopt=Acquire::Languages \"none\""]);
    for folder in UNREAD {
        command.arg(format!("--dpkgopt=path-exclude=/usr/share/{folder}/*"));
    }
    command.arg("--dpkgopt=path-include=/usr/share/doc/*/copyright");
    command.arg(format!("--customize-hook={}", customize()));
    command.arg(suite).arg(root).args(sources);
    let log = site.scratch().join("mmdebstrap.log");
    chroot::run(&mut command, &log, site.stop).map_err(apt::explained)?;
    settle(root)
}

/// A user, who owns nothing but a home.
fn customize() -> String {
    format!(
        r#"set -eu; cd "$1"
echo openstack:x:{USER}: >>etc/group
echo openstack:x:{USER}:{USER}:openstack:/var/lib/openstack:/usr/sbin/nologin >>etc/passwd
mkdir -p var/lib/openstack opt
chown {USER}:{USER} var/lib/openstack"#
    )
}

/// What a root that is read-only needs: empty files and folders that are mounted over at run time. And nothing that differs
/// from one build to the next, or names this machine's mirrors.
fn settle(root: &Path) -> Result<(), Problem> {
    for folder in
        ["dev", "run", "tmp", "var/tmp", "var/cache/apt", "var/lib/apt/lists", "var/log", "etc/apt/sources.list.d"]
    {
        let folder = root.join(folder);
        for name in names(&folder).map_err(within)? {
            remove(&folder.join(name)).map_err(within)?;
        }
    }
    remove(&root.join("etc/apt/sources.list")).map_err(within)?;
    // A runtime gives a memory file system the mode of the folder that it covers: /run is everybody's for that reason.
    for folder in ["run", "tmp", "var/tmp"] {
        let folder = root.join(folder);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777)).map_err(Problem::file(&folder))?;
    }
    for file in ["etc/machine-id", "etc/hostname", "etc/hosts", "etc/resolv.conf"] {
        let file = root.join(file);
        remove(&file).map_err(within)?;
        fs::write(&file, "").map_err(Problem::file(&file))?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).map_err(Problem::file(&file))?;
    }
    Ok(())
}
