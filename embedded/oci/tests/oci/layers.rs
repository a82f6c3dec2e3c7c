//! Layers of real folders: what is in them, and that nothing else shows.

use std::fs::{self, File, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use c5c3_oci::{Compression, Layer, Layout};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, lsetxattr, makedev, mknodat};
use tar::{Archive, EntryType};

const EPOCH: u64 = crate::fixture::EPOCH as u64;

struct Store {
    _folder: tempfile::TempDir,
    layout: Layout,
}

fn store() -> Store {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::open(folder.path().join("store")).unwrap();
    Store { _folder: folder, layout }
}

/// A folder with something of everything; made in the order that `backwards` says.
fn tree(root: &Path, backwards: bool) {
    let mut steps: Vec<fn(&Path)> = vec![
        |root| fs::write(root.join("etc/motd"), "hello").unwrap(),
        |root| symlink("../etc/motd", root.join("bin/greeting")).unwrap(),
        |root| fs::write(root.join("etc").join("n".repeat(180)), "long").unwrap(),
        |root| symlink("t".repeat(150), root.join("etc/far")).unwrap(),
    ];
    if backwards {
        steps.reverse();
    }
    for folder in ["bin", "etc"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    for step in steps {
        step(root);
    }
    fs::hard_link(root.join("etc/motd"), root.join("etc/news")).unwrap();
    fs::write(root.join("bin/tool"), "#!").unwrap();
    chown(root.join("bin/tool"), Some(42424), Some(42424)).unwrap();
    fs::set_permissions(root.join("bin/tool"), Permissions::from_mode(0o4755)).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(root.join("bin/tool")).unwrap().set_modified(old).unwrap();
}

/// A layer's entries: path, kind, link, mode, owner, time.
fn list(layout: &Layout, layer: &Layer) -> Vec<String> {
    let blob = layout.stream(layer.descriptor.digest()).unwrap();
    let mut archive = Archive::new(blob);
    let described = archive.entries().unwrap().map(|entry| {
        let entry = entry.unwrap();
        let header = entry.header();
        assert_eq!((header.username_bytes(), header.groupname_bytes()), (Some(&b""[..]), Some(&b""[..])));
        let link = entry.link_name().unwrap().map(|link| format!(" -> {}", shorten(&link.to_string_lossy())));
        format!(
            "{} {:?}{} {:o} {}:{} {}",
            shorten(&entry.path().unwrap().to_string_lossy()),
            header.entry_type(),
            link.unwrap_or_default(),
            header.mode().unwrap(),
            header.uid().unwrap(),
            header.gid().unwrap(),
            header.mtime().unwrap(),
        )
    });
    described.collect()
}

fn shorten(name: &str) -> String {
    if name.len() < 50 { name.to_owned() } else { format!("{}..({})", &name[..8], name.len()) }
}

#[test]
fn a_layer_holds_the_files_and_nothing_of_when_and_where_they_were_made() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    tree(one.path(), false);
    tree(other.path(), true);
    let store = store();
    let layer = |folder: &tempfile::TempDir, compression| {
        Layer::of_folder(&store.layout, folder.path(), EPOCH, compression).unwrap()
    };
    let (plain, zipped) = (layer(&one, Compression::None), layer(&one, Compression::Gzip));
    assert_eq!(plain, layer(&other, Compression::None));
    assert_eq!(zipped, layer(&other, Compression::Gzip));
    assert_eq!((&plain.diff_id, plain.unpacked), (&zipped.diff_id, zipped.unpacked));
    assert_eq!(plain.descriptor.digest(), &plain.diff_id);
    insta::assert_snapshot!(list(&store.layout, &plain).join("\n"), @r"
    bin/ Directory 755 0:0 1762000000
    bin/greeting Symlink -> ../etc/motd 777 0:0 1762000000
    bin/tool Regular 4755 42424:42424 1000000000
    etc/ Directory 755 0:0 1762000000
    etc/far Symlink -> tttttttt..(150) 777 0:0 1762000000
    etc/motd Regular 644 0:0 1762000000
    etc/news Link -> etc/motd 644 0:0 1762000000
    etc/nnnn..(184) Regular 644 0:0 1762000000
    ");
}

#[test]
fn a_tar_becomes_the_same_layer_as_the_folder_it_was_made_of() {
    let folder = tempfile::tempdir().unwrap();
    tree(folder.path(), false);
    let store = store();
    let layer = Layer::of_folder(&store.layout, folder.path(), EPOCH, Compression::Gzip).unwrap();
    let plain = Layer::of_folder(&store.layout, folder.path(), EPOCH, Compression::None).unwrap();
    let mut tar = store.layout.stream(plain.descriptor.digest()).unwrap();
    assert_eq!(Layer::of_tar(&store.layout, &mut tar, Compression::Gzip).unwrap(), layer);
}

#[test]
fn what_an_overlay_has_deleted_is_deleted_by_the_layer() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir_all(root.join("etc/new")).unwrap();
    mknodat(CWD, root.join("etc/gone"), FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    mknodat(CWD, root.join("etc/null"), FileType::CharacterDevice, Mode::from(0o666), makedev(1, 3)).unwrap();
    lsetxattr(root.join("etc/new"), "trusted.overlay.opaque", b"y", XattrFlags::empty()).unwrap();
    fs::write(root.join("etc/new/file"), "").unwrap();
    let store = store();
    let layer = Layer::of_folder(&store.layout, root, EPOCH, Compression::None).unwrap();
    let names: Vec<_> =
        list(&store.layout, &layer).iter().map(|line| line.split(" 0:").next().unwrap().to_owned()).collect();
    insta::assert_snapshot!(names.join("\n"), @r"
    etc/ Directory 755
    etc/.wh.gone Regular 644
    etc/new/ Directory 755
    etc/new/.wh..wh..opq Regular 644
    etc/new/file Regular 644
    etc/null Char 644
    ");
}

#[test]
fn a_folder_that_an_overlay_has_renamed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("moved")).unwrap();
    lsetxattr(folder.path().join("moved"), "trusted.overlay.redirect", b"old", XattrFlags::empty()).unwrap();
    let error = Layer::of_folder(&store().layout, folder.path(), EPOCH, Compression::None).unwrap_err();
    assert!(error.to_string().contains("moved cannot be in a layer"), "{error}");
}

#[test]
fn capabilities_of_programs_are_kept() {
    // Version 2, effective, cap_net_bind_service permitted.
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("server");
    fs::write(&program, "").unwrap();
    lsetxattr(&program, "security.capability", &capability, XattrFlags::empty()).unwrap();
    lsetxattr(&program, "user.note", b"not this", XattrFlags::empty()).unwrap();
    let store = store();
    let layer = Layer::of_folder(&store.layout, folder.path(), EPOCH, Compression::None).unwrap();
    let mut archive = Archive::new(store.layout.stream(layer.descriptor.digest()).unwrap());
    let mut entry = archive.entries().unwrap().next().unwrap().unwrap();
    assert_eq!(entry.header().entry_type(), EntryType::Regular);
    let extensions = entry.pax_extensions().unwrap().unwrap().map(Result::unwrap);
    let extensions: Vec<_> =
        extensions.map(|extension| (extension.key().unwrap().to_owned(), extension.value_bytes().to_vec())).collect();
    assert_eq!(extensions, [("SCHILY.xattr.security.capability".to_owned(), capability.to_vec())]);
}

#[test]
fn the_tar_of_the_distribution_reads_a_layer() {
    let (folder, unpacked) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    tree(folder.path(), false);
    let store = store();
    let layer = Layer::of_folder(&store.layout, folder.path(), EPOCH, Compression::Gzip).unwrap();
    let file = unpacked.path().join("layer.tar.gz");
    let mut bytes = Vec::new();
    store.layout.stream(layer.descriptor.digest()).unwrap().read_to_end(&mut bytes).unwrap();
    File::create(&file).unwrap().write_all(&bytes).unwrap();
    let done =
        std::process::Command::new("tar").arg("-xzf").arg(&file).arg("-C").arg(unpacked.path()).output().unwrap();
    assert!(done.status.success() && done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(fs::read_to_string(unpacked.path().join("bin/greeting")).unwrap(), "hello");
    assert_eq!(fs::read_to_string(unpacked.path().join("etc").join("n".repeat(180))).unwrap(), "long");
}
