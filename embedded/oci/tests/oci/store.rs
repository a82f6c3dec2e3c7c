//! Images in a store: assembled, named, taken to another store, removed.

use std::collections::BTreeMap;
use std::fs;

use c5c3_oci::archive::{Referrers, export, import};
use c5c3_oci::{Artifact, Compression, Error, Layer, Layout};

use crate::fixture::{image, layout, name};

fn note(about: &str) -> Artifact {
    Artifact {
        artifact_type: "application/x-note".into(),
        media_type: "text/plain".into(),
        content: about.into(),
        annotations: BTreeMap::from([("org.example.by".into(), "test".into())]),
    }
}

#[test]
fn the_same_parts_are_the_same_image_in_any_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (layout(folder.path(), "one"), layout(folder.path(), "other"));
    let made = image(&one, "hello");
    assert_eq!(made, image(&other, "hello"));
    assert_ne!(made, image(&other, "hallo"));
    let manifest = one.manifest(&made).unwrap();
    let configuration = one.configuration(&manifest).unwrap();
    assert_eq!(configuration.created().as_deref(), Some("2025-11-01T12:26:40Z"));
    let labels = configuration.config().as_ref().unwrap().labels().clone().unwrap();
    assert_eq!(Some(labels), manifest.annotations().clone());
    let history = configuration.history().clone().unwrap();
    assert_eq!(
        history.iter().filter_map(|step| step.created_by().as_deref()).collect::<Vec<_>>(),
        ["base", "greeting"]
    );
}

#[test]
fn a_name_belongs_to_the_image_that_got_it_last() {
    let folder = tempfile::tempdir().unwrap();
    let layout = layout(folder.path(), "store");
    let (first, second) = (image(&layout, "1"), image(&layout, "2"));
    layout.tag(&name("example.org/a:1"), &first).unwrap();
    layout.tag(&name("example.org/b:1"), &first).unwrap();
    layout.tag(&name("example.org/a:1"), &second).unwrap();
    assert_eq!(layout.resolve(&name("example.org/a:1")).unwrap(), second);
    assert_eq!(layout.resolve(&name("example.org/b:1")).unwrap(), first);
    assert_eq!(layout.images().unwrap().len(), 2);
    assert!(layout.untag(&name("example.org/a:1")).unwrap());
    assert!(!layout.untag(&name("example.org/a:1")).unwrap());
    let error = layout.resolve(&name("example.org/a:1")).unwrap_err();
    assert!(matches!(error, Error::Unknown(_)), "{error}");
}

#[test]
fn names_given_by_many_at_once_are_all_there() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    std::thread::scope(|scope| {
        for n in 0..8 {
            let root = &root;
            scope.spawn(move || {
                let layout = Layout::open(root).unwrap();
                layout.tag(&name(&format!("example.org/image:{n}")), &image(&layout, &n.to_string())).unwrap();
            });
        }
    });
    assert_eq!(Layout::open(&root).unwrap().images().unwrap().len(), 8);
}

#[test]
fn blobs_go_when_nothing_needs_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut layout = layout(folder.path(), "store");
    let (kept, gone) = (image(&layout, "kept"), image(&layout, "gone"));
    layout.tag(&name("example.org/kept:1"), &kept).unwrap();
    layout.tag(&name("example.org/gone:1"), &gone).unwrap();
    let note_of_kept = layout.attach(&kept, note("kept")).unwrap();
    let note_of_note = layout.attach(&note_of_kept, note("of the note")).unwrap();
    let note_of_gone = layout.attach(&gone, note("gone")).unwrap();
    let cached = Layer::of_tar(&layout, &mut [1; 512].as_slice(), Compression::None).unwrap();
    assert_eq!(layout.collect([cached.diff_id.clone()]).unwrap().blobs, 0);

    layout.untag(&name("example.org/gone:1")).unwrap();
    fs::write(layout.root().join("partial/left-by-a-killed-process"), "half").unwrap();
    let freed = layout.collect([cached.diff_id.clone()]).unwrap();
    // Its manifest, configuration and own layer; the note's manifest and text.
    assert_eq!(freed.blobs, 5);
    assert!(!layout.contains(gone.digest()) && !layout.contains(note_of_gone.digest()));
    assert!(layout.contains(note_of_note.digest()) && layout.contains(&cached.diff_id));
    assert!(layout.closure(&kept).unwrap().iter().all(|blob| layout.contains(blob.digest())));
    assert_eq!(fs::read_dir(layout.root().join("partial")).unwrap().count(), 0);
    assert_eq!(layout.index().unwrap().manifests().len(), 3);
}

#[test]
fn nothing_is_removed_while_somebody_else_has_the_store_open() {
    let folder = tempfile::tempdir().unwrap();
    let mut layout = layout(folder.path(), "store");
    let other = Layout::open(layout.root()).unwrap();
    let blob = image(&other, "not named yet");
    let error = layout.collect([]).unwrap_err();
    assert!(matches!(error, Error::InUse(_)), "{error}");
    assert!(other.contains(blob.digest()));
    drop(other);
    assert_ne!(layout.collect([]).unwrap().blobs, 0);
}

#[test]
fn an_archive_is_the_same_each_time_and_brings_everything_along() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (layout(folder.path(), "from"), layout(folder.path(), "to"));
    let hello = image(&from, "hello");
    from.tag(&name("example.org/hello:1.0"), &hello).unwrap();
    let referrer = from.attach(&hello, note("hello")).unwrap();
    let (one, other) = (folder.path().join("one.tar"), folder.path().join("other.tar"));
    for file in [&one, &other] {
        export(&from, &[name("example.org/hello:1.0")], Referrers::Take, file).unwrap();
    }
    assert_eq!(fs::read(&one).unwrap(), fs::read(&other).unwrap());

    let imported = import(&to, &one, None).unwrap();
    assert_eq!(imported.len(), 1);
    assert_eq!(to.resolve(&name("example.org/hello:1.0")).unwrap(), hello);
    assert_eq!(to.referrers(hello.digest()).unwrap(), [referrer]);
    let renamed = import(&to, &one, Some(&name("example.org/renamed:2"))).unwrap();
    assert_eq!(renamed[0].name, name("example.org/renamed:2"));
}

#[test]
fn an_archive_with_a_changed_blob_is_refused_by_the_blobs_name() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (layout(folder.path(), "from"), layout(folder.path(), "to"));
    let hello = image(&from, "hello");
    from.tag(&name("example.org/hello:1.0"), &hello).unwrap();
    let file = folder.path().join("image.tar");
    export(&from, &[name("example.org/hello:1.0")], Referrers::Leave, &file).unwrap();
    let mut bytes = fs::read(&file).unwrap();
    let text = b"\"rootfs\"";
    let place = bytes.windows(text.len()).position(|window| window == text).unwrap();
    bytes[place + 1] = b'R';
    fs::write(&file, bytes).unwrap();
    let error = import(&to, &file, None).unwrap_err();
    let config = from.manifest(&hello).unwrap().config().digest().to_string();
    assert!(error.to_string().starts_with(&format!("blob {config} was tampered with")), "{error}");
    assert!(to.images().unwrap().is_empty());
}

#[test]
fn a_damaged_layer_does_not_leave_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let from = layout(folder.path(), "from");
    let hello = image(&from, "hello");
    from.tag(&name("example.org/hello:1.0"), &hello).unwrap();
    let layer = from.manifest(&hello).unwrap().layers()[1].digest().clone();
    fs::write(from.path(&layer).unwrap(), "evil").unwrap();
    let file = folder.path().join("image.tar");
    let error = export(&from, &[name("example.org/hello:1.0")], Referrers::Leave, &file).unwrap_err();
    assert!(error.to_string().contains(layer.as_ref()), "{error}");
    assert!(!file.exists());
}

#[test]
fn what_is_no_archive_of_images_is_said_to_be_none() {
    let folder = tempfile::tempdir().unwrap();
    let layout = layout(folder.path(), "store");
    let file = folder.path().join("docker.tar");
    fs::write(&file, [0; 1024]).unwrap();
    let error = import(&layout, &file, None).unwrap_err();
    assert!(error.to_string().ends_with("is no archive of the OCI layout: it has no index.json"), "{error}");
}
