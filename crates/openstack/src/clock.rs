//! Time, so that tests need not wait for the life of a token or a back-off.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// What a client reads the time from, and waits with between tries.
pub trait Clock: Send + Sync {
    /// The present.
    fn now(&self) -> Instant;

    /// Waits.
    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(time))
    }
}
