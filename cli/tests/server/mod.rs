//! A `c5c3 apiserver` of its own for a test: started as a user starts it, and killed when the test is done.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take until it has written its kubeconfig; a debug build on a busy machine needs about a second.
const START: Duration = Duration::from_secs(30);

/// A server that runs. Dropping it kills it with SIGKILL.
pub struct Apiserver {
    /// The process.
    pub child: Child,
    /// The administrator's kubeconfig, in the folder that the server was given.
    pub kubeconfig: PathBuf,
}

impl Apiserver {
    /// Starts a server that keeps its files in `folder`, and waits until it serves.
    pub fn start(folder: &Path, args: &[&str]) -> Self {
        let kubeconfig = folder.join("kubeconfig");
        // It is the sign that the server serves, so the one of an earlier server must not stay.
        let _ = std::fs::remove_file(&kubeconfig);
        let log = folder.join("log");
        let child = Command::new(env!("CARGO_BIN_EXE_c5c3"))
            .arg("apiserver")
            .args(args)
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::options().create(true).append(true).open(&log).unwrap())
            .spawn()
            .unwrap();
        let mut server = Self { child, kubeconfig };
        let began = Instant::now();
        while !server.kubeconfig.exists() {
            let ended = server.child.try_wait().unwrap();
            let log = || std::fs::read_to_string(&log).unwrap_or_default();
            assert!(ended.is_none() && began.elapsed() < START, "the server does not start ({ended:?}): {}", log());
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }
}

impl Drop for Apiserver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
