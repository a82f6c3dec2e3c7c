//! What built images hold and do not hold, read from their layers: those that a cloud starts with, and with `make images`
//! every image of every release.

mod support;

use std::collections::BTreeMap;

use c5c3_images::{Builder, BuiltImage, Quiet, USER};
use support::{USUAL, Workshop, all, builder, builders, differences};
use tar::{Archive, EntryType};

/// A file or folder of an image.
struct Entry {
    mode: u32,
    owner: u64,
    is_folder: bool,
}

/// Everything that is in an image but links, by path; what a layer deletes of those below it is gone.
fn entries(builder: &Builder, image: &BuiltImage) -> BTreeMap<String, Entry> {
    let layout = builder.cache.layout().unwrap();
    let mut all: BTreeMap<String, Entry> = BTreeMap::new();
    for (_, built) in &image.layers {
        let mut tar = Archive::new(layout.stream(built.layer.descriptor.digest()).unwrap());
        for entry in tar.entries().unwrap() {
            let entry = entry.unwrap();
            let path = entry.path().unwrap().to_string_lossy().trim_end_matches('/').to_owned();
            let header = entry.header();
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
            if let Some(gone) = name.strip_prefix(".wh.") {
                all.remove(&format!("{folder}/{gone}"));
            } else if header.entry_type() != EntryType::Symlink {
                let is_folder = header.entry_type() == EntryType::Directory;
                let (mode, owner) = (header.mode().unwrap(), header.uid().unwrap());
                all.insert(path, Entry { mode, owner, is_folder });
            }
        }
    }
    all
}

fn is_not_writable(builder: &Builder, image: &BuiltImage) {
    let name = &image.planned.definition.name;
    for (path, entry) in entries(builder, image) {
        let for_all = entry.mode & 0o002 != 0;
        let is_temporary = ["run", "tmp", "var/tmp"].contains(&path.as_str()) && entry.mode & 0o1000 != 0;
        assert!(!for_all || is_temporary, "{name}: /{path} can be written by everybody");
        let owned = entry.owner == u64::from(USER);
        assert!(!owned || path == "var/lib/openstack", "{name}: /{path} belongs to the user of the image");
        assert!(entry.is_folder || entry.mode & 0o6000 == 0, "{name}: /{path} changes who one is");
    }
}

const TOOLS: [&str; 12] = ["as", "c++", "cc", "cc1", "cpp", "g++", "gcc", "ld", "ld.bfd", "pip", "pip3", "uv"];
const CACHES: [&str; 4] = ["var/cache/apt/archives/", "var/lib/apt/lists/", "var/log/", "run/"];

fn has_no_compiler_and_no_cache(builder: &Builder, image: &BuiltImage) {
    let name = &image.planned.definition.name;
    for (path, entry) in entries(builder, image).iter().filter(|(_, entry)| !entry.is_folder) {
        let program = path.rsplit('/').next().unwrap_or(path);
        let program = program.strip_prefix("x86_64-linux-gnu-").unwrap_or(program);
        let plain = program.trim_end_matches(|letter: char| letter.is_ascii_digit()).trim_end_matches('-');
        let is_tool = entry.mode & 0o111 != 0 && (TOOLS.contains(&program) || TOOLS.contains(&plain));
        assert!(!is_tool, "{name}: /{path} is a tool to build with");
        let is_cached = CACHES.iter().any(|cache| path.starts_with(cache)) || path.contains("/.cache/");
        assert!(!is_cached, "{name}: /{path} is left over");
        assert!(!path.contains("site-packages/pip/"), "{name}: /{path} is of pip");
    }
}

/// A service's own layer, unpacked and with its bytecode.
const MOST: u64 = 330 << 20;

fn share_their_base_and_are_small(built: &[BuiltImage]) {
    for image in built {
        let name = &image.planned.definition.name;
        assert_eq!(image.layers[0].1.layer, built[0].layers[0].1.layer, "{name} has a base of its own");
        for (stage, layer) in &image.layers {
            assert!(layer.size <= MOST, "{stage} of {name} has {} MiB", layer.size >> 20);
        }
    }
}

#[test]
fn nothing_is_writable_that_need_not_be() {
    let builder = builder();
    builder.build(&USUAL, &Quiet).unwrap().iter().for_each(|image| is_not_writable(&builder, image));
}

#[test]
fn no_compiler_and_no_cache_of_packages_is_shipped() {
    let builder = builder();
    builder.build(&USUAL, &Quiet).unwrap().iter().for_each(|image| has_no_compiler_and_no_cache(&builder, image));
}

#[test]
fn images_share_their_base_and_are_no_larger_than_they_may_be() {
    share_their_base_and_are_small(&builder().build(&USUAL, &Quiet).unwrap());
}

#[test]
#[ignore = "minutes and gigabytes: run by `make images`"]
fn every_image_of_every_release_holds_what_it_may_and_no_more() {
    for builder in builders() {
        let built = builder.build(&all(&builder), &Quiet).unwrap();
        share_their_base_and_are_small(&built);
        for image in &built {
            is_not_writable(&builder, image);
            has_no_compiler_and_no_cache(&builder, image);
        }
    }
}

#[test]
#[ignore = "installs a kernel twice: run by `make images`"]
fn the_guest_and_its_disk_are_the_same_to_the_byte_wherever_they_are_built() {
    let shops = [Workshop::new(), Workshop::new()];
    let built = shops.each_ref().map(|shop| {
        for file in ["guest.yaml", "guest.sh", "layers/guest-parts.yaml", "debian/guest-parts.lock"] {
            shop.copy(file);
        }
        shop.files(&shop.build("guest").unwrap())
    });
    assert!(built[0]["guest/disk.qcow2"].len() < 40 << 20);
    assert_eq!(differences(&built[0], &built[1]), Vec::<String>::new());
}
