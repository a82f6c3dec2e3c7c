//! The lock of a Python environment: requirements with hashes, as `uv pip compile` writes them.

use serde::Serialize;

use crate::release::Override;
use crate::version::normal;

/// A package of a lock.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Pinned {
    /// Its name, in its normal spelling.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The hashes of its files, one of which is installed: `sha256:...`.
    pub hashes: Vec<String>,
}

/// The packages of a lock, in its order. A line that pins nothing by hash is refused.
pub fn parse(text: &str) -> Result<Vec<Pinned>, String> {
    let mut packages: Vec<Pinned> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let line = line.trim_end_matches('\\').trim();
        if let Some(hash) = line.strip_prefix("--hash=") {
            let package = packages.last_mut().ok_or_else(|| format!("{line}: a hash of nothing"))?;
            package.hashes.push(hash.to_owned());
            continue;
        }
        let requirement = line.split(';').next().unwrap_or(line).trim();
        let Some((name, version)) = requirement.split_once("==") else {
            return Err(format!("{line}: no version is pinned"));
        };
        packages.push(Pinned { name: normal(name), version: version.trim().to_owned(), hashes: Vec::new() });
    }
    match packages.iter().find(|package| package.hashes.is_empty()) {
        Some(package) => Err(format!("{} {} has no hash", package.name, package.version)),
        None => Ok(packages),
    }
}

/// What a lock has against the overrides, if anything.
pub fn contradiction(packages: &[Pinned], overrides: &[Override]) -> Option<String> {
    overrides.iter().find_map(|change| {
        let locked = packages.iter().find(|package| package.name == change.package());
        match (change, locked) {
            (Override::Remove { package }, Some(locked)) => {
                Some(format!("an override removes {package}, and the lock has {}", locked.version))
            }
            (Override::Pin { package, version }, Some(locked)) if locked.version != *version => {
                Some(format!("an override asks for {package} {version}, and the lock has {}", locked.version))
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "# made by uv\nPyMySQL==1.1.2 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n    # via x\n\
        tzdata==2025.2 ; sys_platform == 'win32' \\\n    --hash=sha256:cc\n";

    #[test]
    fn a_lock_pins_every_package_by_its_hashes() {
        let parsed = parse(LOCK).unwrap();
        let names: Vec<_> = parsed.iter().map(|package| (package.name.as_str(), package.version.as_str())).collect();
        assert_eq!(names, [("pymysql", "1.1.2"), ("tzdata", "2025.2")]);
        assert_eq!(parsed[0].hashes, ["sha256:aa", "sha256:bb"]);
    }

    #[test]
    fn a_line_without_a_version_or_a_hash_is_refused() {
        assert!(parse("six>=1\n").unwrap_err().contains("six>=1"));
        assert_eq!(parse("six==1\n").unwrap_err(), "six 1 has no hash");
    }

    #[test]
    fn a_lock_that_is_older_than_an_override_is_found_out() {
        let locked = parse(LOCK).unwrap();
        let pin = |version: &str| Override::Pin { package: "pymysql".into(), version: version.into() };
        assert_eq!(contradiction(&locked, &[pin("1.1.2")]), None);
        assert!(contradiction(&locked, &[pin("1.1.3")]).unwrap().contains("pymysql 1.1.3"));
        assert!(contradiction(&locked, &[Override::Remove { package: "tzdata".into() }]).is_some());
        assert_eq!(contradiction(&locked, &[Override::Remove { package: "absent".into() }]), None);
    }
}
