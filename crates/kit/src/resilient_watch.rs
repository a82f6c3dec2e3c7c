//! A watch that survives errors: each is logged and counted, and the watch is started again, later each time.
//!
//! kube's own pause between attempts starts over with each of them, because an attempt begins with an event that is no
//! error. Here only a list that was read to its end counts as well again.

use std::ops::RangeInclusive;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use kube::Api;
use kube::core::Resource;
use kube::runtime::utils::Backoff as _;
use kube::runtime::watcher::{self, DefaultBackoff, Event, watcher};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::object::is_not_found;

/// For how many seconds the API is asked to keep a watch open: as long as API servers do by themselves. With kube's own five
/// minutes, the watches of an operator at rest are most of its requests. A connection that died is noticed by its silence, see
/// [`crate::client`].
const KEPT_OPEN: RangeInclusive<u32> = 1800..=3600;

/// After how many attempts a kind that is not installed is looked for less often, and how often then. The first take three
/// minutes, in which whoever installs everything at once has installed it.
const ABSENT_ATTEMPTS: u32 = 10;
const WHILE_ABSENT: Duration = Duration::from_mins(10);

/// Whose watch it is, and of what.
#[derive(Clone)]
pub struct Watched {
    /// The controller.
    pub controller: &'static str,
    /// The kind that is watched.
    pub kind: String,
    /// Where breaks are counted.
    pub metrics: Metrics,
    /// Cancelled once the first list was read to its end, or the kind is known not to be installed.
    pub listed: CancellationToken,
}

impl Watched {
    /// A watch of that controller on that kind.
    pub fn new(controller: &'static str, kind: &str, metrics: &Metrics) -> Self {
        Self { controller, kind: kind.to_owned(), metrics: metrics.clone(), listed: CancellationToken::new() }
    }
}

/// Watches until the stream is dropped.
pub fn watch<K>(api: Api<K>, config: watcher::Config, watched: Watched) -> impl Stream<Item = Event<K>> + Send
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let config = config.timeout(rand::random_range(KEPT_OPEN));
    let breaks = Breaks { watched, pause: DefaultBackoff::default(), absent: 0 };
    stream::unfold((watcher(api, config).boxed(), breaks), |(mut events, mut breaks)| async move {
        loop {
            match events.next().await? {
                Ok(event) => {
                    breaks.goes_on(&event);
                    return Some((event, (events, breaks)));
                }
                Err(error) => {
                    breaks.broke(&error);
                    tokio::time::sleep(breaks.pause()?).await;
                }
            }
        }
    })
}

/// What has become of the attempts so far.
struct Breaks {
    watched: Watched,
    pause: DefaultBackoff,
    /// How many attempts in a row have found that the kind is not installed, which is said once.
    absent: u32,
}

impl Breaks {
    fn goes_on<K>(&mut self, event: &Event<K>) {
        if matches!(event, Event::Init | Event::InitApply(_)) {
            return;
        }
        self.pause.reset();
        self.watched.listed.cancel();
        if std::mem::take(&mut self.absent) > 0 {
            let Watched { controller, kind, .. } = &self.watched;
            tracing::info!(controller, kind, "the kind is installed now, and watched");
        }
    }

    fn broke(&mut self, error: &watcher::Error) {
        let Watched { controller, kind, metrics, listed } = &self.watched;
        if is_absent(error) {
            listed.cancel();
            if self.absent == 0 {
                tracing::info!(controller, kind, "the kind is not installed; it is watched when it is");
            }
            self.absent = self.absent.saturating_add(1);
            return;
        }
        tracing::warn!(controller, kind, %error, "a watch failed and is started again");
        metrics.watch_failed(controller);
    }

    /// How long to wait before the next attempt.
    fn pause(&mut self) -> Option<Duration> {
        let pause = self.pause.next()?;
        Some(if self.absent > ABSENT_ATTEMPTS { WHILE_ABSENT } else { pause })
    }
}

/// Whether the API does not know the kind: a list of one that it knows is never not found.
fn is_absent(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(error) if is_not_found(error))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::Status;

    use super::*;

    fn breaks() -> Breaks {
        let watched = Watched::new("press", "Apple", &Metrics::default());
        Breaks { watched, pause: DefaultBackoff::default(), absent: 0 }
    }

    fn list_failed(code: u16) -> watcher::Error {
        let status = Status { code, ..Status::failure("no", "No") };
        watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn a_kind_that_is_not_installed_is_no_broken_watch_and_is_noticed_when_it_comes() {
        let mut breaks = breaks();
        for _ in 0..3 {
            breaks.goes_on(&Event::<ConfigMap>::Init);
            assert_eq!(breaks.watched.listed.is_cancelled(), breaks.absent > 0, "such a kind has no list to wait for");
            breaks.broke(&list_failed(404));
        }
        assert!(breaks.absent == 3 && !breaks.watched.metrics.text().contains("press"));
        breaks.goes_on(&Event::<ConfigMap>::InitDone);
        assert_eq!(breaks.absent, 0);
        breaks.broke(&list_failed(403));
        assert!(breaks.absent == 0 && breaks.watched.metrics.text().contains("press"));
    }

    #[test]
    fn a_kind_that_stays_absent_is_looked_for_every_ten_minutes() {
        let mut breaks = breaks();
        let mut attempt = || {
            breaks.broke(&list_failed(404));
            breaks.pause().unwrap()
        };
        let first: Vec<Duration> = (0..ABSENT_ATTEMPTS).map(|_| attempt()).collect();
        assert!(first.iter().all(|pause| *pause < Duration::from_mins(1)), "{first:?}");
        assert_eq!((attempt(), attempt()), (WHILE_ABSENT, WHILE_ABSENT));
    }

    #[test]
    fn each_attempt_that_fails_is_followed_by_a_longer_pause() {
        let mut breaks = breaks();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            breaks.goes_on(&Event::<ConfigMap>::Init);
            pauses.push(breaks.pause.next().unwrap());
        }
        assert!(pauses[7] > 10 * pauses[0], "{pauses:?}");
        breaks.goes_on(&Event::<ConfigMap>::InitDone);
        assert!(pauses[7] > 5 * breaks.pause.next().unwrap(), "it starts over once a list was read");
    }
}
