//! What the tests share: a store, an image of two layers, and programs of the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use c5c3_oci::spec::ConfigBuilder;
use c5c3_oci::{Compression, Descriptor, Image, Layer, Layout, Reference, Step};

/// The moment of which every image here is.
pub(crate) const EPOCH: u32 = 1_762_000_000;

pub(crate) fn layout(folder: &Path, name: &str) -> Layout {
    Layout::open(folder.join(name)).unwrap()
}

pub(crate) fn name(text: &str) -> Reference {
    text.parse().unwrap()
}

/// An image of one file and of an empty layer below it.
pub(crate) fn image(layout: &Layout, content: &str) -> Descriptor {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("motd"), content).unwrap();
    image_of(layout, folder.path())
}

/// An image of a folder and of an empty layer below it.
pub(crate) fn image_of(layout: &Layout, folder: &Path) -> Descriptor {
    let base = Layer::of_tar(layout, &mut [0; 1024].as_slice(), Compression::Gzip).unwrap();
    let own = Layer::of_folder(layout, folder, EPOCH.into(), Compression::Gzip).unwrap();
    let config = ConfigBuilder::default().user("42424:42424").entrypoint(vec!["/usr/bin/tini".to_owned()]);
    let annotations = (0..20).map(|n| (format!("org.example.note-{n}"), n.to_string()));
    Image {
        created: EPOCH.into(),
        config: config.build().unwrap(),
        steps: vec![Step { made_by: "base".into(), layer: base }, Step { made_by: "greeting".into(), layer: own }],
        annotations: annotations.collect(),
    }
    .assemble(layout)
    .unwrap()
}

/// What a program prints; it must end well.
pub(crate) fn output(command: &mut Command) -> String {
    let done =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; `make test` gets what is missing"));
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{command:?} ended with {}:\n{out}{err}", done.status);
    out.into_owned()
}

/// Where `make test` puts what it gets from elsewhere.
pub(crate) fn cache() -> PathBuf {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    cache.expect("HOME is not set").join("c5c3")
}
