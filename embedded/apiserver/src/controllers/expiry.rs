//! What ends with time: certificates are renewed before they do, and events expire.
//!
//! An event that has not been written for the server's `event_ttl` is removed, as a real server does, since every cluster
//! makes thousands of them a day. Leases need no such care: those of nodes go with their nodes, and those of
//! leaders have lasting names.

use std::sync::Arc;
use std::time::Duration;

use c5c3_store::Expect;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use crate::server::Server;

/// The shortest time between two looks at what ends, and the longest between two at events and at the certificate.
const SHORTEST: Duration = Duration::from_millis(100);
const EVENTS: Duration = Duration::from_mins(1);
const CERTIFICATE: Duration = Duration::from_hours(1);

/// The times in an event.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Times {
    metadata: Metadata,
    last_timestamp: Option<Timestamp>,
    event_time: Option<Timestamp>,
    series: Option<Series>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    creation_timestamp: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Series {
    last_observed_time: Option<Timestamp>,
}

/// The time between two looks at what lasts that long.
fn interval(life: Duration, longest: Duration) -> Duration {
    (life / 60).clamp(SHORTEST, longest)
}

/// Renews the server's certificate whenever it is due.
pub(super) async fn renew_certificates(server: Arc<Server>) {
    let interval = interval(server.certificate_life(), CERTIFICATE);
    loop {
        tokio::time::sleep(interval).await;
        match server.pki().renew(Timestamp::now()) {
            Ok(true) => tracing::info!("the server's certificate is renewed"),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "the server's certificate cannot be renewed; it is tried again"),
        }
    }
}

/// Removes events that have expired, time and again.
pub(super) async fn remove_events(server: Arc<Server>) {
    let interval = interval(server.event_ttl(), EVENTS);
    loop {
        tokio::time::sleep(interval).await;
        sweep(&server, Timestamp::now()).await;
    }
}

/// Removes the events that have expired at `now`. One that is written meanwhile stays.
async fn sweep(server: &Server, now: Timestamp) {
    let Some(served) = server.registry().find("", "v1", "events") else { return };
    let ttl = SignedDuration::try_from(server.event_ttl()).unwrap_or(SignedDuration::MAX);
    let events = server.store().list(&served.prefix(None));
    for entry in events.iter().filter(|entry| has_expired(&entry.value, now, ttl)) {
        // A conflict means that the event was seen again. A store that cannot be written is tried again at the next look.
        let _ = server.store().write(&entry.key, Expect::Revision(entry.revision), |_| None).await;
    }
}

/// Whether an event is older than `ttl`. One from the future was written before the clock was set back, and is not kept
/// until that time comes again.
fn has_expired(event: &[u8], now: Timestamp, ttl: SignedDuration) -> bool {
    let Ok(times) = serde_json::from_slice::<Times>(event) else { return false };
    let observed = times.series.and_then(|series| series.last_observed_time);
    let times = [times.metadata.creation_timestamp, times.last_timestamp, times.event_time, observed];
    let Some(last) = times.into_iter().flatten().max() else { return false };
    now.duration_since(last).abs() > ttl
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_ends_soon_is_looked_at_often() {
        assert_eq!(interval(Duration::from_hours(1), EVENTS), Duration::from_mins(1));
        assert_eq!(interval(c5c3_auth::SERVER_LIFE, CERTIFICATE), Duration::from_hours(1));
        assert_eq!(interval(Duration::from_secs(9), CERTIFICATE), Duration::from_millis(150));
        assert_eq!(interval(Duration::from_secs(1), EVENTS), SHORTEST);
    }

    #[test]
    fn an_event_expires_an_hour_after_it_was_seen_last() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let ttl = SignedDuration::from_hours(1);
        let long_ago = json!({"creationTimestamp": "2026-03-01T02:00:00Z"});
        for (event, expired) in [
            (json!({"metadata": long_ago}), true),
            (json!({"metadata": {"creationTimestamp": "2026-03-01T11:30:00Z"}}), false),
            (json!({"metadata": long_ago, "lastTimestamp": "2026-03-01T11:00:01Z"}), false),
            (json!({"metadata": long_ago, "lastTimestamp": "2026-03-01T10:59:59Z", "eventTime": null}), true),
            (json!({"metadata": long_ago, "eventTime": "2026-03-01T11:59:00.000000Z"}), false),
            (
                json!({"metadata": long_ago, "series": {"count": 2, "lastObservedTime": "2026-03-01T11:59:00.000000Z"}}),
                false,
            ),
            (json!({"metadata": {"creationTimestamp": "2027-01-01T00:00:00Z"}}), true),
        ] {
            assert_eq!(has_expired(event.to_string().as_bytes(), now, ttl), expired, "{event}");
        }
    }
}
