//! A server whose disk is full: a file system of a few MiB that another file fills. Mounting it takes root, as the tests of
//! nodes do.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use c5c3_apiserver::{Config, Server, Storage};
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{get, send, until};

/// A small disk.
struct Disk(TempDir);

impl Disk {
    fn of_mebibytes(size: u32) -> Self {
        let place = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}m"), "tmpfs"])
            .arg(place.path())
            .status()
            .unwrap();
        assert!(mounted.success(), "mounting a tmpfs takes root");
        Self(place)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Fills it up. What is returned takes all the space.
    fn fill(&self) -> std::path::PathBuf {
        let path = self.path().join("filler");
        let mut file = File::create(&path).unwrap();
        while file.write_all(&[b'f'; 4096]).is_ok() {}
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(number: usize) -> Value {
    json!({"metadata": {"name": format!("m{number}")}, "data": {"text": "x".repeat(100_000)}})
}

#[tokio::test]
async fn a_server_whose_disk_is_full_says_so_and_heals_when_there_is_room() {
    let disk = Disk::of_mebibytes(8);
    let config = Config::new(Storage::Folder(disk.path().join("data")));
    let server = Server::start(config.clone()).await.unwrap();
    assert_eq!((get(&server, "/readyz").await.code, get(&server, "/healthz").await.code), (200, 200));
    let filler = disk.fill();
    let mut stored = 0;
    let refused = loop {
        let answer = send(&server, Method::POST, MAPS, &map(stored)).await;
        if answer.code != 201 {
            break answer;
        }
        stored += 1;
    };
    assert_eq!(refused.code, 500, "{}", refused.text);
    assert!(refused.text.contains("No space left on device"), "{}", refused.text);
    let ready = get(&server, "/readyz").await;
    assert_eq!(ready.code, 500);
    assert!(ready.text.starts_with("[-]store failed: the log cannot be written: No space left"), "{}", ready.text);
    assert_eq!(get(&server, "/livez").await.code, 200, "a restart would not help");
    assert_eq!(get(&server, &format!("{MAPS}/m{stored}")).await.code, 404);
    assert_eq!(get(&server, &format!("{MAPS}/kube-root-ca.crt")).await.code, 200, "reads go on");

    fs::remove_file(filler).unwrap();
    until(&server, "/readyz", |answer| answer.code == 200).await;
    assert_eq!(send(&server, Method::POST, MAPS, &map(stored)).await.code, 201);
    server.stop().await;
    drop(server);

    let server = Server::start(config).await.unwrap();
    for number in 0..=stored {
        assert_eq!(get(&server, &format!("{MAPS}/m{number}")).await.code, 200, "m{number}");
    }
    server.stop().await;
}
