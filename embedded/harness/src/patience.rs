//! How long the harness waits for a cluster.

use std::time::{Duration, Instant};

/// How long anything may take: a busy cluster needs a while to remove a namespace.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// The longest break between two looks.
const LONGEST_BREAK: Duration = Duration::from_millis(500);

/// Looks at something again and again, at growing intervals, until patience ends.
pub(crate) struct Rounds {
    began: Instant,
    pause: Duration,
}

impl Rounds {
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now(), pause: Duration::from_millis(5) }
    }

    /// Waits for the next look. False: patience has ended.
    pub(crate) async fn next(&mut self) -> bool {
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_BREAK);
        self.began.elapsed() < PATIENCE
    }

    /// Whether it has taken longer than anybody in a test's process needs to act.
    pub(crate) fn is_stuck(&self) -> bool {
        self.pause == LONGEST_BREAK
    }

    /// Whether it has taken longer than the cluster needs: a pod may have half a minute to stop.
    pub(crate) fn is_late(&self) -> bool {
        self.began.elapsed() > PATIENCE / 2
    }
}
