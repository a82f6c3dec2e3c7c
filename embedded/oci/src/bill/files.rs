//! Some files of an image, as a container would see them: the layers laid over each other.

use std::collections::BTreeMap;
use std::io::{self, Read};

use oci_spec::image::{Descriptor, ImageManifest};
use tar::{Archive, Entry, EntryType};

use crate::{Error, Layout};

/// As many links are followed, as the kernel does.
const MOST_LINKS: usize = 40;

/// Files by their paths, which have no slash before them.
#[derive(Debug, Default)]
pub(super) struct Files(BTreeMap<String, Content>);

#[derive(Clone, Debug)]
enum Content {
    Bytes(Vec<u8>),
    Link(String),
}

impl Files {
    /// Reads those that are wanted, and every symbolic link whose own path is.
    pub(super) fn read(
        layout: &Layout,
        manifest: &ImageManifest,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Self, Error> {
        let mut files = Self::default();
        for layer in manifest.layers() {
            let read = files.lay_over(layout, layer, &wanted);
            read.map_err(Error::file("read the files of", layout.path(layer.digest())?))?;
        }
        Ok(files)
    }

    /// What a layer deletes is of those below it, so that goes first.
    fn lay_over(&mut self, layout: &Layout, layer: &Descriptor, wanted: &impl Fn(&str) -> bool) -> io::Result<()> {
        let mut added = BTreeMap::new();
        let mut archive = Archive::new(layout.unpacked(layer)?);
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = entry.path()?.to_string_lossy().trim_start_matches("./").trim_end_matches('/').to_owned();
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
            if name == ".wh..wh..opq" {
                self.remove(folder);
            } else if let Some(gone) = name.strip_prefix(".wh.") {
                self.remove(format!("{folder}/{gone}").trim_start_matches('/'));
            } else if wanted(&path)
                && let Some(content) = content(&mut entry)?
            {
                added.insert(path, content);
            }
        }
        self.0.extend(added);
        Ok(())
    }

    fn remove(&mut self, path: &str) {
        let below = format!("{path}/");
        self.0.retain(|known, _| known != path && !known.starts_with(&below));
    }

    /// The text of a file. A folder on the way to it may be a link to one beside it.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let mut path = path.to_owned();
        // Links of an image that is not ours may lead in a circle.
        for _ in 0..=MOST_LINKS {
            path = match self.0.get(&path) {
                Some(Content::Bytes(bytes)) => return Some(String::from_utf8_lossy(bytes).into_owned()),
                Some(Content::Link(target)) => beside(&path, target),
                None => {
                    let (folder, name) = path.rsplit_once('/')?;
                    let Some(Content::Link(target)) = self.0.get(folder) else { return None };
                    format!("{}/{name}", beside(folder, target))
                }
            };
        }
        None
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

fn content(entry: &mut Entry<'_, impl Read>) -> io::Result<Option<Content>> {
    Ok(match entry.header().entry_type() {
        EntryType::Regular => {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            Some(Content::Bytes(bytes))
        }
        EntryType::Symlink => entry.link_name()?.map(|target| Content::Link(target.to_string_lossy().into_owned())),
        EntryType::Link => entry.link_name()?.map(|target| Content::Link(format!("/{}", target.display()))),
        _ => None,
    })
}

/// Where a link leads.
fn beside(link: &str, target: &str) -> String {
    if let Some(absolute) = target.strip_prefix('/') {
        return absolute.to_owned();
    }
    let mut parts: Vec<&str> = link.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_from_where_they_are() {
        assert_eq!(beside("etc/os-release", "../usr/lib/os-release"), "usr/lib/os-release");
        assert_eq!(beside("usr/share/doc/a", "b"), "usr/share/doc/b");
        assert_eq!(beside("etc/x", "/etc/y"), "etc/y");
    }

    #[test]
    fn a_file_is_found_in_a_folder_that_is_a_link() {
        let files = Files(BTreeMap::from([
            ("usr/share/doc/a".to_owned(), Content::Link("b".to_owned())),
            ("usr/share/doc/b/copyright".to_owned(), Content::Bytes(b"free".to_vec())),
        ]));
        assert_eq!(files.text("usr/share/doc/a/copyright").as_deref(), Some("free"));
    }

    #[test]
    fn links_that_lead_in_a_circle_lead_nowhere() {
        let link = |path: &str, target: &str| (path.to_owned(), Content::Link(target.to_owned()));
        let files = Files(BTreeMap::from([
            link("doc/self", "self"),
            link("doc/to", "fro"),
            link("doc/fro", "to"),
            link("doc/deeper", "deeper/and"),
        ]));
        for path in ["doc/self", "doc/self/copyright", "doc/to", "doc/to/copyright", "doc/deeper/copyright"] {
            assert_eq!(files.text(path), None, "{path}");
        }
    }

    #[test]
    fn as_many_links_are_followed_as_the_kernel_does() {
        let chain = |links: usize| {
            let all = (0..links).map(|at| (format!("etc/{at}"), Content::Link((at + 1).to_string())));
            let end = (format!("etc/{links}"), Content::Bytes(b"free".to_vec()));
            Files(all.chain([end]).collect()).text("etc/0")
        };
        assert_eq!(chain(MOST_LINKS).as_deref(), Some("free"));
        assert_eq!(chain(MOST_LINKS + 1), None);
    }
}
