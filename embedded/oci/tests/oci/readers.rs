//! Archives, as the programs of a distribution read them.

use std::path::{Path, PathBuf};
use std::process::Command;

use c5c3_oci::archive::{Referrers, export};
use c5c3_oci::bill::{Bill, Format, Provenance};
use c5c3_oci::{Descriptor, Layout};
use serde_json::Value;

use crate::fixture::{image, layout, name, output};

const NAME: &str = "example.org/c5c3/hello:1.0";

fn exported(folder: &Path, referrers: Referrers) -> (Layout, Descriptor, PathBuf) {
    let layout = layout(folder, "store");
    let hello = image(&layout, "hello");
    layout.tag(&name(NAME), &hello).unwrap();
    let bill = Bill::of(&layout, &name(NAME), &hello, &Provenance::default()).unwrap();
    bill.attach(&layout, &hello, Format::CycloneDx).unwrap();
    let file = folder.join("hello.tar");
    export(&layout, &[name(NAME)], referrers, &file).unwrap();
    (layout, hello, file)
}

fn skopeo(source: &str, folder: &Path) -> Value {
    let mut command = Command::new("skopeo");
    command.args(["--tmpdir"]).arg(folder).args(["inspect", source]);
    serde_json::from_str(&output(&mut command)).unwrap()
}

#[test]
fn skopeo_reads_an_archive() {
    let folder = tempfile::tempdir().unwrap();
    let (layout, hello, file) = exported(folder.path(), Referrers::Leave);
    let seen = skopeo(&format!("oci-archive:{}", file.display()), folder.path());
    assert_eq!(seen["Digest"], hello.digest().to_string());
    assert_eq!(seen["Created"], "2025-11-01T12:26:40Z");
    assert_eq!(seen["Labels"]["org.example.note-7"], "7");
    let layers: Vec<String> =
        layout.manifest(&hello).unwrap().layers().iter().map(|layer| layer.digest().to_string()).collect();
    assert_eq!(seen["Layers"], serde_json::json!(layers));
}

#[test]
fn skopeo_finds_an_image_by_its_tag_beside_its_referrers() {
    let folder = tempfile::tempdir().unwrap();
    let (_, hello, file) = exported(folder.path(), Referrers::Take);
    let seen = skopeo(&format!("oci-archive:{}:1.0", file.display()), folder.path());
    assert_eq!(seen["Digest"], hello.digest().to_string());
}

#[test]
fn podman_pulls_an_archive_and_knows_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let (layout, hello, file) = exported(folder.path(), Referrers::Leave);
    let podman = |arguments: &[&str]| {
        let mut command = Command::new("podman");
        // A store of its own, that needs neither systemd nor a file system that can be stacked.
        command.arg("--root").arg(folder.path().join("root")).arg("--runroot").arg(folder.path().join("run"));
        command.args(["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--events-backend", "none"]);
        output(command.args(arguments).env("TMPDIR", folder.path()))
    };
    podman(&["pull", "--quiet", &format!("oci-archive:{}", file.display())]);
    let seen: Value = serde_json::from_str(&podman(&["image", "inspect", NAME])).unwrap();
    assert_eq!(seen[0]["Digest"], hello.digest().to_string());
    assert_eq!(seen[0]["User"], "42424:42424");
    assert_eq!(seen[0]["Config"]["Entrypoint"], serde_json::json!(["/usr/bin/tini"]));
    let manifest = layout.manifest(&hello).unwrap();
    let layers = layout.configuration(&manifest).unwrap().rootfs().diff_ids().clone();
    assert_eq!(seen[0]["RootFS"]["Layers"], serde_json::json!(layers));
}
