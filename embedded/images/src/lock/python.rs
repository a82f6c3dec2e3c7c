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

/// A lock that was read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Lock {
    /// Its packages, in its order.
    pub packages: Vec<Pinned>,
    /// What packages ask for and overrides have removed, as comments say.
    pub without: Vec<String>,
}

/// What a comment begins with that names a package which was left out.
const WITHOUT: &str = "# without ";

/// Reads a lock. A line that pins nothing by hash is refused.
pub fn parse(text: &str) -> Result<Lock, String> {
    let mut lock = Lock::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with('#') {
            lock.without.extend(line.strip_prefix(WITHOUT).map(normal));
            continue;
        }
        let line = line.trim_end_matches('\\').trim();
        if let Some(hash) = line.strip_prefix("--hash=") {
            let package = lock.packages.last_mut().ok_or_else(|| format!("{line}: a hash of nothing"))?;
            package.hashes.push(hash.to_owned());
            continue;
        }
        let requirement = line.split(';').next().unwrap_or(line).trim();
        let Some((name, version)) = requirement.split_once("==") else {
            return Err(format!("{line}: no version is pinned"));
        };
        lock.packages.push(Pinned { name: normal(name), version: version.trim().to_owned(), hashes: Vec::new() });
    }
    match lock.packages.iter().find(|package| package.hashes.is_empty()) {
        Some(package) => Err(format!("{} {} has no hash", package.name, package.version)),
        None => Ok(lock),
    }
}

/// The text of a lock, given what uv has written and what was left out.
pub fn print(compiled: &str, without: &[String]) -> String {
    let mut text: String = without.iter().flat_map(|package| [WITHOUT, package, "\n"]).collect();
    text.push_str(compiled);
    text
}

impl Lock {
    /// The version of a package.
    pub fn version(&self, name: &str) -> Option<&str> {
        self.packages.iter().find(|package| package.name == name).map(|package| package.version.as_str())
    }

    /// The names of all packages.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.packages.iter().map(|package| package.name.as_str())
    }

    /// Whether an override has had an effect here.
    pub fn follows(&self, change: &Override) -> bool {
        match change {
            Override::Pin { package, version } => self.version(package) == Some(version),
            Override::Remove { package } => self.without.contains(package),
        }
    }

    /// What it has against the overrides, if anything.
    pub fn contradiction(&self, overrides: &[Override]) -> Option<String> {
        overrides.iter().find_map(|change| {
            let locked = self.version(change.package())?;
            match change {
                Override::Remove { package } => {
                    Some(format!("an override removes {package}, and the lock has {locked}"))
                }
                Override::Pin { package, version } if locked != version => {
                    Some(format!("an override asks for {package} {version}, and the lock has {locked}"))
                }
                Override::Pin { .. } => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "# made by uv\nPyMySQL==1.1.2 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n    # via x\n\
        tzdata==2025.2 ; sys_platform == 'win32' \\\n    --hash=sha256:cc\n";

    #[test]
    fn a_lock_pins_every_package_by_its_hashes() {
        let parsed = parse(LOCK).unwrap();
        assert_eq!(parsed.names().collect::<Vec<_>>(), ["pymysql", "tzdata"]);
        assert_eq!(parsed.version("tzdata"), Some("2025.2"));
        assert_eq!(parsed.packages[0].hashes, ["sha256:aa", "sha256:bb"]);
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
        assert_eq!(locked.contradiction(&[pin("1.1.2")]), None);
        assert!(locked.contradiction(&[pin("1.1.3")]).unwrap().contains("pymysql 1.1.3"));
        assert!(locked.contradiction(&[Override::Remove { package: "tzdata".into() }]).is_some());
    }

    #[test]
    fn an_override_of_what_nobody_asks_for_is_not_followed() {
        let locked = parse(&print(LOCK, &["heavy-sdk".into()])).unwrap();
        let remove = |package: &str| Override::Remove { package: package.into() };
        assert!(locked.follows(&remove("heavy-sdk")) && !locked.follows(&remove("heavy-sdc")));
        let pin = |package: &str| Override::Pin { package: package.into(), version: "1.1.2".into() };
        assert!(locked.follows(&pin("pymysql")) && !locked.follows(&pin("pymysq")));
    }
}
