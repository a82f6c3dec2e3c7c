//! When a cron job is due.

use croner::Cron;
use croner::parser::{CronParser, Seconds};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::CronJobSpec;

/// From how many runs on it is told that so many were missed.
const MANY: usize = 100;

/// Times that repeat.
#[derive(Debug)]
pub(super) struct Schedule {
    when: When,
    zone: TimeZone,
}

#[derive(Debug)]
enum When {
    /// At times of the clock and days of the calendar.
    Calendar(Box<Cron>),
    /// At a distance from each other.
    Every(SignedDuration),
}

/// Why a cron job has no schedule: the reason and the message of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unusable(pub(super) &'static str, pub(super) String);

/// The last time that was due.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) at: Timestamp,
    /// Whether so many came before it that something must be wrong.
    pub(super) many: bool,
}

impl Schedule {
    /// The schedule of a cron job, in its time zone or that of this machine.
    pub(super) fn of(spec: &CronJobSpec) -> Result<Self, Unusable> {
        let zone = match spec.time_zone.as_deref() {
            None => TimeZone::system(),
            Some(name) => TimeZone::get(name)
                .map_err(|_| Unusable("UnknownTimeZone", format!("invalid timeZone: unknown time zone {name}")))?,
        };
        let unparseable = |why: String| Unusable("UnparseableSchedule", format!("unparseable schedule: {why}"));
        let when = if let Some(text) = spec.schedule.trim().strip_prefix("@every ") {
            let every: SignedDuration = text.trim().parse().map_err(|why: jiff::Error| unparseable(why.to_string()))?;
            // Finer than a second it is rounded up to one, as upstream's scheduler has it.
            When::Every(SignedDuration::from_secs(every.as_secs().max(1)))
        } else {
            let parser = CronParser::builder().seconds(Seconds::Disallowed).sloppy_ranges(true).build();
            let cron = parser.parse(&spec.schedule).map_err(|why| unparseable(why.to_string()))?;
            When::Calendar(Box::new(cron))
        };
        Ok(Self { when, zone })
    }

    /// The zone that its times are of.
    pub(super) fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The first time after `time`. None: never again.
    pub(super) fn next(&self, time: Timestamp) -> Option<Timestamp> {
        match &self.when {
            When::Calendar(cron) => {
                let next = cron.find_next_occurrence(&time.to_zoned(self.zone.clone()), false).ok()?;
                Some(next.timestamp())
            }
            When::Every(every) => Timestamp::from_second(time.as_second() + every.as_secs()).ok(),
        }
    }

    /// The last time that is after `since` and not after `now`.
    pub(super) fn due(&self, since: Timestamp, now: Timestamp) -> Option<Due> {
        let at = match &self.when {
            When::Calendar(cron) => {
                let last = cron.find_previous_occurrence(&now.to_zoned(self.zone.clone()), true).ok()?;
                last.timestamp()
            }
            When::Every(every) => {
                let passed = (now.as_second() - since.as_second()) / every.as_secs();
                Timestamp::from_second(since.as_second() + passed * every.as_secs()).ok()?
            }
        };
        let missed = std::iter::successors(self.next(since), |time| self.next(*time)).take_while(|time| *time < at);
        (at > since).then(|| Due { at, many: missed.take(MANY + 1).count() >= MANY })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schedule(text: &str, zone: &str) -> Result<Schedule, Unusable> {
        Schedule::of(&serde_json::from_value(json!({"schedule": text, "timeZone": zone, "jobTemplate": {}})).unwrap())
    }

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn times_are_of_the_zone_that_is_named() {
        let table = [
            ("*/15 * * * *", "Etc/UTC", "2024-05-01T10:15:00Z", "2024-05-01T10:30:00Z"),
            ("0 9 * * *", "Europe/Berlin", "2024-01-10T10:00:00Z", "2024-01-11T08:00:00Z"),
            ("0 9 * * *", "Europe/Berlin", "2024-07-10T10:00:00Z", "2024-07-11T07:00:00Z"),
            ("30 4 1,15 * MON", "Etc/UTC", "2024-05-02T00:00:00Z", "2024-05-06T04:30:00Z"),
            ("@hourly", "Asia/Kolkata", "2024-05-01T10:00:00Z", "2024-05-01T10:30:00Z"),
            ("@every 90m", "Etc/UTC", "2024-05-01T10:00:00Z", "2024-05-01T11:30:00Z"),
            ("5/20 * ? * *", "Etc/UTC", "2024-05-01T10:06:00Z", "2024-05-01T10:25:00Z"),
        ];
        for (text, zone, after, next) in table {
            assert_eq!(schedule(text, zone).unwrap().next(time(after)), Some(time(next)), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        assert_eq!(
            schedule("* * * * *", "Mars/Olympus").unwrap_err(),
            Unusable("UnknownTimeZone", "invalid timeZone: unknown time zone Mars/Olympus".into())
        );
        for text in ["61 * * * *", "@every soon", "* * * * * *"] {
            assert_eq!(schedule(text, "Etc/UTC").unwrap_err().0, "UnparseableSchedule", "{text}");
        }
    }

    #[test]
    fn only_the_last_of_the_times_that_were_missed_is_due() {
        let hourly = schedule("0 * * * *", "Etc/UTC").unwrap();
        let due = |since, now| hourly.due(time(since), time(now)).map(|due| (due.at.to_string(), due.many));
        assert_eq!(due("2024-05-01T10:00:00Z", "2024-05-01T10:59:59Z"), None);
        assert_eq!(due("2024-05-01T10:00:00Z", "2024-05-01T11:00:00Z"), Some(("2024-05-01T11:00:00Z".into(), false)));
        assert_eq!(due("2024-05-01T10:00:00Z", "2024-05-01T15:20:00Z"), Some(("2024-05-01T15:00:00Z".into(), false)));
        assert_eq!(due("2023-05-01T10:00:00Z", "2024-05-01T15:20:00Z"), Some(("2024-05-01T15:00:00Z".into(), true)));
        let every = schedule("@every 7m", "Etc/UTC").unwrap();
        let due = every.due(time("2024-05-01T10:00:00Z"), time("2024-05-01T10:20:00Z")).unwrap();
        assert_eq!(due.at, time("2024-05-01T10:14:00Z"));
    }
}
