//! An embedded API server on a folder of its own, as `c5c3 apiserver --data` runs it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that ends with this value.
pub(super) struct Embedded {
    child: Child,
    folder: tempfile::TempDir,
    pub(super) ready_after: Duration,
}

impl Embedded {
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the `c5c3` beside this program, and waits until it answers that it is ready.
pub(super) async fn start() -> Result<Embedded, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("c5c3");
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let kubeconfig = folder.path().join("kubeconfig");
    let begun = Instant::now();
    let child = Command::new(&program)
        .args(["apiserver", "--listen", "127.0.0.1:0", "--log", "warn", "--data"])
        .arg(folder.path().join("data"))
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| {
            format!("cannot start {}: {error}; build it, or name a server by --kubeconfig", program.display())
        })?;
    let mut server = Embedded { child, folder, ready_after: Duration::ZERO };
    while begun.elapsed() < Duration::from_secs(30) {
        // The kubeconfig is written when the server listens; whether it is ready, it says itself.
        if kubeconfig.exists()
            && let Ok(client) = super::connect(&kubeconfig).await
            && client.request_text(http_get("/readyz")).await.is_ok()
        {
            server.ready_after = begun.elapsed();
            return Ok(server);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Err("the embedded server was not ready within 30 seconds".into())
}

fn http_get(path: &str) -> http::Request<Vec<u8>> {
    http::Request::get(path).body(Vec::new()).expect("a path makes a request")
}
