//! When things happen: cron expressions and durations.

use std::time::Duration as StdDuration;

use super::text::text;

/// One cron field as a regular expression: `*` or numbers and names, ranges, steps and lists of them.
macro_rules! cron_field {
    ($value:literal) => {
        concat!(
            "([*?]|",
            $value,
            "(-",
            $value,
            ")?)(/[0-9]{1,2})?(,([*?]|",
            $value,
            "(-",
            $value,
            ")?)(/[0-9]{1,2})?)*"
        )
    };
}

macro_rules! cron_rule {
    () => {
        concat!(
            "self.matches('^(?i)(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|",
            cron_field!("[0-5]?[0-9]"),
            " +",
            cron_field!("([01]?[0-9]|2[0-3])"),
            " +",
            cron_field!("([1-9]|0[1-9]|[12][0-9]|3[01])"),
            " +",
            cron_field!("([1-9]|0[1-9]|1[0-2]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"),
            " +",
            cron_field!("([0-6]|sun|mon|tue|wed|thu|fri|sat)"),
            ")$')"
        )
    };
}

text! {
    /// A cron expression of five fields (minute, hour, day of month, month, day of week), as a CronJob takes it.
    CronSchedule, max 100,
    [cron_rule!(), "is not a cron expression; write five fields: minute hour day month weekday, such as 0 2 * * *"],
    |text| {
        let wrong = |why: String| Err(format!("{text:?} {why}; write five fields: minute hour day month weekday, such as 0 2 * * *"));
        let expression = standard(text);
        if !expression.starts_with('@') && expression.split_whitespace().count() != 5 {
            return wrong("is not a cron expression".into());
        }
        match expression.parse::<croner::Cron>() {
            // 31 February parses and never comes.
            Ok(cron) if fires(&cron) => Ok(()),
            Ok(_) => wrong("never fires".into()),
            Err(error) => wrong(format!("is not a cron expression ({error})")),
        }
    }
}

impl CronSchedule {
    /// The shortest time between two firings, of a good number of them.
    pub fn shortest_interval(&self) -> StdDuration {
        const FIRINGS: usize = 500;
        let start: Result<jiff::Zoned, _> = "2024-01-01T00:00:00[UTC]".parse();
        let (Some(cron), Ok(start)) = (self.cron(), start) else { return StdDuration::ZERO };
        let times: Vec<i64> = cron
            .iter_from(start, croner::Direction::Forward)
            .take(FIRINGS)
            .map(|time| time.timestamp().as_second())
            .collect();
        let shortest = times.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or(i64::MAX);
        StdDuration::from_secs(shortest.unsigned_abs())
    }

    /// The first firing after a time, where clocks show UTC.
    pub fn next_after(&self, time: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let next = self.cron()?.find_next_occurrence(&time.to_zoned(jiff::tz::TimeZone::UTC), false);
        next.ok().map(|next| next.timestamp())
    }

    fn cron(&self) -> Option<croner::Cron> {
        standard(self.as_str()).parse().ok()
    }
}

/// Names of schedules that our parser does not know, as those that it does.
fn standard(expression: &str) -> &str {
    match expression {
        "@midnight" => "@daily",
        "@annually" => "@yearly",
        other => other,
    }
}

fn fires(cron: &croner::Cron) -> bool {
    // Any fixed start will do: a schedule that fires at all fires within the eight years between two leap days.
    let start: Result<jiff::Zoned, _> = "2024-01-01T00:00:00[UTC]".parse();
    start.is_ok_and(|start| cron.find_next_occurrence(&start, true).is_ok())
}

text! {
    /// A duration in Go's notation, such as `90s`, `5m` or `24h`.
    Duration, max 32,
    ["self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$')", "is not a duration; write numbers with units, such as 30s, 5m or 24h"],
    |text| match parse_duration(text) {
        Some(_) => Ok(()),
        None => Err(format!("{text:?} is not a duration; write numbers with units, such as 30s, 5m or 24h")),
    }
}

impl Duration {
    /// The duration as the standard library has it.
    pub fn get(&self) -> StdDuration {
        parse_duration(self.as_str()).unwrap_or_default()
    }
}

fn parse_duration(text: &str) -> Option<StdDuration> {
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let number: f64 = rest[..unit_at].parse().ok()?;
        let unit_end =
            rest[unit_at..].find(|c: char| c.is_ascii_digit() || c == '.').map_or(rest.len(), |i| unit_at + i);
        seconds += number
            * match &rest[unit_at..unit_end] {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        rest = &rest[unit_end..];
    }
    StdDuration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cron_expressions_are_those_of_a_cronjob() {
        for good in ["0 0 * * 0", "0 2 * * *", "*/15 0-6 1,15 JAN-JUN mon-fri", "@daily", "@midnight"] {
            assert!(CronSchedule::new(good).is_ok(), "{good}: {:?}", CronSchedule::new(good));
        }
        for bad in ["", "every night", "61 * * * *", "0 0 * *", "0 0 0 * *", "* * * * * *", "0 25 * * *"] {
            assert!(CronSchedule::new(bad).is_err(), "{bad}");
        }
        assert!(CronSchedule::new("0 0 31 2 *").unwrap_err().contains("never fires"));
    }

    #[test]
    fn the_shortest_interval_is_that_of_the_closest_firings() {
        let hours = |expression: &str| CronSchedule::new(expression).unwrap().shortest_interval().as_secs() / 3600;
        assert_eq!(hours("0 0 * * 0"), 7 * 24);
        assert_eq!(hours("0 0 1 * *"), 28 * 24);
        assert_eq!(hours("0 3,5 * * *"), 2);
    }

    #[test]
    fn the_next_firing_is_never_the_time_itself() {
        let next = |expression: &str, time: &str| {
            let next = CronSchedule::new(expression).unwrap().next_after(time.parse().unwrap());
            next.unwrap().to_string()
        };
        assert_eq!(next("0 2 * * mon-fri", "2026-01-02T02:00:00Z"), "2026-01-05T02:00:00Z");
        assert_eq!(next("@midnight", "2026-01-02T02:00:00Z"), "2026-01-03T00:00:00Z");
    }

    #[test]
    fn durations_are_those_of_go() {
        assert_eq!(Duration::new("1m30s").unwrap().get(), StdDuration::from_secs(90));
        assert_eq!(Duration::new("1.5h").unwrap().get(), StdDuration::from_mins(90));
        for bad in ["90", "1d", "soon", "-5s", "1.2.3s"] {
            assert!(Duration::new(bad).is_err(), "{bad}");
        }
    }
}
