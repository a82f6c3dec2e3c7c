//! The lock of a layer of Debian packages: every package that it adds, with its file's place in the archive and its hash.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// A package of a lock.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Deb {
    /// Its name.
    pub name: String,
    /// Its version, in full.
    pub version: String,
    /// The hash of its file.
    pub sha256: String,
    /// Its file: the archive (`debian` or `security`) and the path within that.
    pub path: String,
}

impl Deb {
    /// The file's own name.
    pub fn file(&self) -> String {
        decoded(self.path.rsplit('/').next().unwrap_or(&self.path))
    }
}

/// A name in an address, as it is on disk.
fn decoded(name: &str) -> String {
    name.replace("%2b", "+").replace("%7e", "~").replace("%3a", ":")
}

/// Reads a lock: a package on each line.
pub fn parse(text: &str) -> Result<Vec<Deb>, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let packages = lines.map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [name, version, sha256, path] => {
            Ok(Deb { name: name.into(), version: version.into(), sha256: sha256.into(), path: path.into() })
        }
        _ => Err(format!("{line:?} is not a name, a version, a hash and a path")),
    });
    packages.collect()
}

/// A lock's text.
pub fn print(debs: &[Deb]) -> String {
    let mut text = String::from("# Made by `c5c3 image lock`: package, version, SHA-256, file.\n");
    for Deb { name, version, sha256, path } in debs {
        writeln!(text, "{name} {version} {sha256} {path}").expect("a string has room");
    }
    text
}

/// The names and versions of packages.
pub fn versions(debs: &[Deb]) -> impl Iterator<Item = (&str, &str)> {
    debs.iter().map(|deb| (deb.name.as_str(), deb.version.as_str()))
}

/// The archives that packages come from: where this machine gets them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Archives {
    /// Releases and their updates.
    pub debian: String,
    /// Security updates.
    pub security: String,
}

impl Archives {
    /// The address of a package's file.
    pub fn url(&self, deb: &Deb) -> String {
        match deb.path.split_once('/') {
            Some(("security", path)) => format!("{}/{path}", self.security),
            Some((_, path)) => format!("{}/{path}", self.debian),
            None => deb.path.clone(),
        }
    }

    /// A line that apt prints of a file it would get: `'url' file size SHA256:hash`.
    pub fn parse_uri(&self, line: &str) -> Option<Deb> {
        let mut words = line.split_whitespace();
        let url = words.next()?.trim_matches('\'');
        let sha256 = words.find_map(|word| word.strip_prefix("SHA256:"))?.to_owned();
        let path = match (url.strip_prefix(&self.security), url.strip_prefix(&self.debian)) {
            (Some(path), _) => format!("security{path}"),
            (None, Some(path)) => format!("debian{path}"),
            (None, None) => return None,
        };
        let file = decoded(url.rsplit('/').next()?);
        let (name, rest) = file.split_once('_')?;
        // An epoch is not part of a file's name in the archive; apt names it only where it keeps the file.
        let kept = decoded(line.split_whitespace().nth(1)?);
        let version = kept.split('_').nth(1).or_else(|| rest.split('_').next())?.to_owned();
        Some(Deb { name: name.to_owned(), version, sha256, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archives() -> Archives {
        Archives { debian: "http://one.test/debian".into(), security: "http://one.test/debian-security".into() }
    }

    #[test]
    fn a_lock_is_read_as_it_was_written() {
        let deb =
            Deb { name: "a".into(), version: "1:2-3".into(), sha256: "ff".into(), path: "debian/a_2-3_all.deb".into() };
        assert_eq!(parse(&print(std::slice::from_ref(&deb))).unwrap(), [deb]);
        assert!(parse("a 1").unwrap_err().contains("a 1"));
    }

    #[test]
    fn what_apt_would_get_is_locked_without_the_mirrors_address() {
        let line = "'http://one.test/debian-security/pool/updates/main/m/m/maria_11.8.6-0_amd64.deb' \
            maria_1%3a11.8.6-0_amd64.deb 77 SHA256:abc";
        let deb = archives().parse_uri(line).unwrap();
        assert_eq!((deb.name.as_str(), deb.version.as_str(), deb.sha256.as_str()), ("maria", "1:11.8.6-0", "abc"));
        assert_eq!(deb.path, "security/pool/updates/main/m/m/maria_11.8.6-0_amd64.deb");
        let elsewhere = Archives { security: "http://two.test/s".into(), ..archives() };
        assert_eq!(elsewhere.url(&deb), "http://two.test/s/pool/updates/main/m/m/maria_11.8.6-0_amd64.deb");
        assert_eq!(archives().parse_uri("Reading package lists..."), None);
    }
}
