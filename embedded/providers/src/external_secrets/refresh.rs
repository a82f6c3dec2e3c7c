//! When an ExternalSecret or a PushSecret is synchronised again.

use std::time::Duration;

use c5c3_kit::hash;
use jiff::{SignedDuration, Timestamp};
use kube::core::ObjectMeta;
use serde_json::json;

/// How often where no one says.
const HOURLY: SignedDuration = SignedDuration::from_hours(1);

/// How often it is synchronised; never by itself if the interval is zero.
pub(super) fn interval(text: Option<&str>) -> Result<Option<Duration>, String> {
    let parsed = text.map_or(Ok(HOURLY), |text| {
        text.parse::<SignedDuration>().map_err(|_| format!("spec.refreshInterval: {text} is not a duration"))
    })?;
    Ok(Duration::try_from(parsed).ok().filter(|interval| !interval.is_zero()))
}

/// The generation and a hash of labels and annotations: a change of any of them asks for another synchronisation.
pub(super) fn version(meta: &ObjectMeta) -> String {
    let content = json!([meta.labels, meta.annotations]);
    format!("{}-{}", meta.generation.unwrap_or(0), hash::of_json(&content))
}

/// How long what was synchronised stays good; none if it must be synchronised now. An interval of none never ends.
pub(super) fn rest(
    synced: Option<&str>,
    version: &str,
    at: Option<Timestamp>,
    interval: Option<Duration>,
    now: Timestamp,
) -> Option<Duration> {
    let at = at.filter(|_| synced == Some(version))?;
    let Some(interval) = interval else { return Some(Duration::MAX) };
    let age = Duration::try_from(now.duration_since(at)).unwrap_or_default();
    interval.checked_sub(age).filter(|rest| !rest.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_synchronised_stays_good_for_the_interval_unless_the_object_changes() {
        let then: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let after = |minutes: i64| then + SignedDuration::from_mins(minutes);
        let hour = interval(None).unwrap();
        let rest = |synced: &str, now| rest(Some(synced), "2-abc", Some(then), hour, now).map(|rest| rest.as_secs());
        assert_eq!(rest("2-abc", after(45)), Some(900));
        assert_eq!(rest("2-abc", after(60)), None);
        assert_eq!(rest("1-abc", after(1)), None);
        assert_eq!(interval(Some("0s")), Ok(None));
        assert_eq!(interval(Some("90s")), Ok(Some(Duration::from_secs(90))));
        assert!(interval(Some("often")).is_err());
    }
}
