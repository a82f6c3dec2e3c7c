//! How much of a log is wanted, and in which form.

use jiff::{SignedDuration, Timestamp};

use crate::server::query::Query;

/// What of a log is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// What comes later, too.
    pub(super) follow: bool,
    /// That of the run before.
    pub(super) previous: bool,
    /// A time before each line.
    pub(super) timestamps: bool,
    /// Nothing older.
    pub(super) since: Option<Timestamp>,
    /// Of what is there, so many lines from the end.
    pub(super) tail: Option<u64>,
    /// No more bytes than that.
    pub(super) limit: Option<u64>,
}

impl Options {
    pub(super) fn of(query: &Query, now: Timestamp) -> Result<Self, String> {
        let number = |name: &str| {
            let wrong = |value| format!("{name} is not a number: {value:?}");
            query.get(name).map(|value| value.parse::<u64>().map_err(|_| wrong(value))).transpose()
        };
        let since = match (number("sinceSeconds")?, query.get("sinceTime")) {
            (Some(seconds), _) => {
                let seconds = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
                Some(now.checked_sub(seconds).unwrap_or(Timestamp::MIN))
            }
            (None, Some(time)) => Some(time.parse().map_err(|_| format!("sinceTime is not a time: {time:?}"))?),
            (None, None) => None,
        };
        Ok(Self {
            follow: query.is_on("follow"),
            previous: query.is_on("previous"),
            timestamps: query.is_on("timestamps"),
            since,
            tail: number("tailLines")?,
            limit: number("limitBytes")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_from_the_question() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let options = |text| Options::of(&Query::parse(text), now);
        assert_eq!(options("").unwrap(), Options::default());
        let all =
            options("follow=true&previous=true&timestamps=true&sinceSeconds=60&tailLines=3&limitBytes=9").unwrap();
        let since = Some("2026-03-01T11:59:00Z".parse().unwrap());
        assert_eq!(
            all,
            Options { follow: true, previous: true, timestamps: true, since, tail: Some(3), limit: Some(9) }
        );
        assert_eq!(options("sinceTime=2026-03-01T11:59:00Z").unwrap().since, since);
        assert!(options("tailLines=-1").is_err() && options("sinceTime=noon").is_err());
        assert!(options("sinceSeconds=99999999999999999").unwrap().since.unwrap() < now);
    }
}
