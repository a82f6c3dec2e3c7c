//! The logs of the cluster's own processes, which append to them for as long as the cluster runs.

use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// How often the sizes of logs are looked at.
const INTERVAL: Duration = Duration::from_mins(1);

/// Keeps logs small.
#[derive(Clone, Debug)]
pub(crate) struct Rotation {
    pub(crate) logs: Vec<PathBuf>,
    /// How often their sizes are looked at.
    pub(crate) interval: Duration,
    /// The size from which on a log is moved away.
    pub(crate) limit: u64,
}

impl Rotation {
    pub(crate) fn new(logs: Vec<PathBuf>) -> Self {
        Self { logs, interval: INTERVAL, limit: c5c3_files::LOG_LIMIT }
    }

    /// Rotates logs until `stop`.
    pub(crate) async fn run(self, stop: CancellationToken) {
        loop {
            for log in &self.logs {
                if let Err(error) = c5c3_files::rotate_log(log, self.limit) {
                    tracing::warn!(log = %log.display(), %error, "cannot rotate a log");
                }
            }
            if stop.run_until_cancelled(tokio::time::sleep(self.interval)).await.is_none() {
                return;
            }
        }
    }
}
