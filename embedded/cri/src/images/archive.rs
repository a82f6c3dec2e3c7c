//! An OCI archive with one image of one layer: the same bytes each time, for the same content.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Read as _, Seek};
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tar::{Archive, Builder, EntryType, Header};

/// The one moment at which everything was made.
const CREATED: &str = "1970-01-01T00:00:00Z";
/// The annotation by which containerd names what it imports.
const NAME: &str = "io.containerd.image.name";

/// An image to be written.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its name in full, with registry and tag.
    pub name: String,
    /// How it is run.
    pub config: Config,
    /// Its files.
    pub layer: Layer,
}

/// How an image is run unless a container says otherwise.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The program and its first arguments.
    pub entrypoint: Vec<String>,
    /// The arguments after those, or the program if there is no entry point.
    pub command: Vec<String>,
    /// `NAME=value`. Without any, there is a search path.
    pub environment: Vec<String>,
    /// `user`, `user:group` or numbers; empty for root.
    pub user: String,
}

/// Files of an image, all owned by root.
#[derive(Clone, Debug, Default)]
pub struct Layer(BTreeMap<String, Entry>);

#[derive(Clone, Debug)]
enum Entry {
    Folder(u32),
    File(u32, Vec<u8>),
    Link(String),
}

impl Layer {
    /// No files at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a folder. Those above it are made for all to read.
    pub fn folder(self, path: &str, mode: u32) -> Self {
        self.with(path, Entry::Folder(mode))
    }

    /// With a file.
    pub fn file(self, path: &str, mode: u32, content: impl Into<Vec<u8>>) -> Self {
        self.with(path, Entry::File(mode, content.into()))
    }

    /// With a symbolic link.
    pub fn link(self, path: &str, target: &str) -> Self {
        self.with(path, Entry::Link(target.to_owned()))
    }

    fn with(mut self, path: &str, entry: Entry) -> Self {
        for above in Path::new(path).ancestors().skip(1).filter_map(Path::to_str).filter(|above| !above.is_empty()) {
            self.0.entry(above.to_owned()).or_insert(Entry::Folder(0o755));
        }
        self.0.insert(path.to_owned(), entry);
        self
    }

    /// A folder sorts before what is in it, so each is there when it is needed.
    fn tar(&self) -> io::Result<Vec<u8>> {
        let mut tar = Builder::new(Vec::new());
        for (path, entry) in &self.0 {
            match entry {
                Entry::Folder(mode) => append(&mut tar, path, EntryType::Directory, *mode, &[])?,
                Entry::File(mode, content) => append(&mut tar, path, EntryType::Regular, *mode, content)?,
                Entry::Link(target) => {
                    tar.append_link(&mut header(EntryType::Symlink, 0o777, 0), path, target)?;
                }
            }
        }
        tar.into_inner()
    }
}

fn header(kind: EntryType, mode: u32, size: usize) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size as u64);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn append(tar: &mut Builder<Vec<u8>>, path: &str, kind: EntryType, mode: u32, content: &[u8]) -> io::Result<()> {
    tar.append_data(&mut header(kind, mode, content.len()), path, content)
}

/// Contents by their digests.
#[derive(Default)]
struct Blobs(BTreeMap<String, Vec<u8>>);

impl Blobs {
    /// Adds a content; the descriptor that others refer to it by.
    fn add(&mut self, media_type: &str, content: Vec<u8>) -> Value {
        let digest = Sha256::digest(&content).iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        let descriptor =
            json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": content.len() });
        self.0.insert(digest, content);
        descriptor
    }
}

impl Image {
    /// The archive.
    pub fn archive(&self) -> io::Result<Vec<u8>> {
        let mut blobs = Blobs::default();
        let layer = blobs.add("application/vnd.oci.image.layer.v1.tar", self.layer.tar()?);
        let config = json!({
            "created": CREATED,
            "architecture": architecture(),
            "os": "linux",
            "config": self.config.json(),
            // Of a layer that is not compressed, both digests are the same.
            "rootfs": { "type": "layers", "diff_ids": [layer["digest"]] },
            "history": [{ "created": CREATED, "created_by": "c5c3" }],
        });
        let config = blobs.add("application/vnd.oci.image.config.v1+json", config.to_string().into());
        let media_type = "application/vnd.oci.image.manifest.v1+json";
        let manifest = json!({ "schemaVersion": 2, "mediaType": media_type, "config": config, "layers": [layer] });
        let mut manifest = blobs.add(media_type, manifest.to_string().into());
        manifest["annotations"] = json!({ NAME: self.name });
        let index = json!({ "schemaVersion": 2, "manifests": [manifest] });

        let mut tar = Builder::new(Vec::new());
        let layout = json!({ "imageLayoutVersion": "1.0.0" });
        for (path, content) in [("oci-layout", &layout), ("index.json", &index)] {
            append(&mut tar, path, EntryType::Regular, 0o644, content.to_string().as_bytes())?;
        }
        for folder in ["blobs/", "blobs/sha256/"] {
            append(&mut tar, folder, EntryType::Directory, 0o755, &[])?;
        }
        for (digest, content) in &blobs.0 {
            append(&mut tar, &format!("blobs/sha256/{digest}"), EntryType::Regular, 0o644, content)?;
        }
        tar.into_inner()
    }
}

impl Config {
    fn json(&self) -> Value {
        let search_path = vec!["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned()];
        let environment = if self.environment.is_empty() { &search_path } else { &self.environment };
        json!({
            "User": self.user,
            "Env": environment,
            "Entrypoint": self.entrypoint,
            "Cmd": self.command,
            "WorkingDir": "/",
        })
    }
}

/// This machine's architecture, in Go's words.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// An image in an archive.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Its name, as containerd will have it.
    pub(super) name: String,
    /// The digest of its configuration, by which a runtime tells images apart; none where the archive does not say it.
    pub(super) id: Option<String>,
    /// The digests of its layers, as far as the archive says them.
    pub(super) layers: Vec<String>,
}

/// The images in an archive.
pub(super) fn images(mut archive: impl io::Read + Seek) -> io::Result<Vec<Held>> {
    let (mut named, mut tagged) = (Vec::new(), Vec::new());
    let mut documents = read(&mut archive, |name| matches!(name, "index.json" | "manifest.json"))?;
    for (file, document) in &mut documents {
        let images = document.get("manifests").unwrap_or(document).as_array().into_iter().flatten();
        for image in images {
            let manifest = image["digest"].as_str().unwrap_or_default().to_owned();
            let tags = image["RepoTags"].as_array().into_iter().flatten();
            let names = image["annotations"].get(NAME).into_iter().chain(tags).filter_map(Value::as_str);
            let into = if file == "index.json" { &mut named } else { &mut tagged };
            into.extend(names.map(|name| (name.to_owned(), manifest.clone())));
        }
    }
    // Newer versions of `docker save` write both; the index then comes first for containerd, too.
    let found = if named.is_empty() { tagged } else { named };
    let file = |digest: &str| format!("blobs/{}", digest.replace(':', "/"));
    let manifests = read(&mut archive, |name| found.iter().any(|(_, digest)| file(digest) == name))?;
    let text = |descriptor: &Value| descriptor["digest"].as_str().map(ToOwned::to_owned);
    let held = |(name, digest): (String, String)| {
        let manifest = manifests.get(&file(&digest));
        let layers = manifest.and_then(|manifest| manifest["layers"].as_array()).into_iter().flatten();
        Held {
            name,
            id: manifest.and_then(|manifest| text(&manifest["config"])),
            layers: layers.filter_map(text).collect(),
        }
    };
    Ok(found.into_iter().map(held).collect())
}

/// Copies an archive without some layers, which are not read.
pub(super) fn copy(archive: impl io::Read + Seek, without: &HashSet<&str>, into: impl io::Write) -> io::Result<()> {
    let mut copy = Builder::new(into);
    for entry in Archive::new(archive).entries_with_seek()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let digest =
            path.to_string_lossy().trim_start_matches("./").strip_prefix("blobs/").map(|d| d.replace('/', ":"));
        if !digest.is_some_and(|digest| without.contains(digest.as_str())) {
            let mut header = entry.header().clone();
            copy.append_data(&mut header, path, &mut entry)?;
        }
    }
    copy.into_inner()?.flush()
}

/// The JSON documents of an archive that are asked for. What lies between them is not read.
fn read(archive: &mut (impl io::Read + Seek), wanted: impl Fn(&str) -> bool) -> io::Result<BTreeMap<String, Value>> {
    archive.rewind()?;
    let mut found = BTreeMap::new();
    for entry in Archive::new(archive).entries_with_seek()? {
        let mut entry = entry?;
        let name = entry.path()?.to_string_lossy().trim_start_matches("./").to_owned();
        if wanted(&name) {
            let mut text = String::new();
            entry.read_to_string(&mut text)?;
            found.insert(name, serde_json::from_str(&text)?);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn image() -> Image {
        let layer = Layer::new().file("etc/motd", 0o644, "hello").link("bin/sh", "/bin/busybox").folder("tmp", 0o1777);
        let config = Config { command: vec!["sh".into()], ..Config::default() };
        Image { name: "local.test/tool:3".into(), config, layer }
    }

    #[test]
    fn the_same_content_is_the_same_archive_and_knows_its_name() {
        let archive = image().archive().unwrap();
        assert_eq!(archive, image().archive().unwrap());
        let held = images(Cursor::new(archive)).unwrap();
        assert_eq!(held.iter().map(|image| image.name.as_str()).collect::<Vec<_>>(), ["local.test/tool:3"]);
        assert!(held[0].id.as_ref().is_some_and(|id| id.starts_with("sha256:")), "{held:?}");
        assert!(matches!(&held[0].layers[..], [layer] if layer.starts_with("sha256:")), "{held:?}");
    }

    #[test]
    fn an_archive_is_copied_without_the_layers_that_are_there() {
        let archive = image().archive().unwrap();
        let layer = images(Cursor::new(&archive)).unwrap().remove(0).layers.remove(0);
        let mut copied = Vec::new();
        copy(Cursor::new(&archive), &HashSet::from([layer.as_str()]), &mut copied).unwrap();
        let names = |archive: &[u8]| -> Vec<String> {
            let mut archive = Archive::new(archive);
            let entries = archive.entries().unwrap();
            entries.map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect()
        };
        let left_out: Vec<_> = names(&archive).into_iter().filter(|name| !names(&copied).contains(name)).collect();
        assert_eq!(left_out, [format!("blobs/{}", layer.replace(':', "/"))]);
        assert_eq!(images(Cursor::new(copied)).unwrap(), images(Cursor::new(archive)).unwrap());
    }

    #[test]
    fn folders_come_before_what_is_in_them() {
        let tar = image().layer.tar().unwrap();
        let mut archive = Archive::new(Cursor::new(tar));
        let paths: Vec<_> =
            archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect();
        assert_eq!(paths, ["bin", "bin/sh", "etc", "etc/motd", "tmp"]);
    }

    #[test]
    fn an_archive_of_docker_save_names_its_images_by_tags() {
        let mut tar = Builder::new(Vec::new());
        let manifest = br#"[{"Config":"x.json","RepoTags":["example.org/a:1","example.org/a:2"],"Layers":[]}]"#;
        append(&mut tar, "manifest.json", EntryType::Regular, 0o644, manifest).unwrap();
        let held = images(Cursor::new(tar.into_inner().unwrap())).unwrap();
        let unknown = |name: &str| Held { name: name.into(), id: None, layers: Vec::new() };
        assert_eq!(held, [unknown("example.org/a:1"), unknown("example.org/a:2")]);
    }
}
