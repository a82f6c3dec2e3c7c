//! One line of a log file: `TIME STREAM TAGS CONTENT`, as all container runtimes write them.

use jiff::Timestamp;

/// A line, or a part of one that is too long for the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    time: &'a str,
    /// Whether the next line of the file goes on with it.
    pub(super) is_partial: bool,
    /// Without the line's end.
    pub(super) content: &'a [u8],
}

impl<'a> Line<'a> {
    /// Reads a line of a file; none if it is not whole.
    pub(super) fn parse(raw: &'a [u8]) -> Option<Self> {
        let raw = raw.strip_suffix(b"\n")?;
        let mut parts = raw.splitn(4, |byte| *byte == b' ');
        let (time, _stream, tags) = (parts.next()?, parts.next()?, parts.next()?);
        let first = tags.split(|byte| *byte == b':').next()?;
        Some(Self {
            time: std::str::from_utf8(time).ok()?,
            is_partial: first == b"P",
            // A line without content may end with its tags.
            content: parts.next().unwrap_or_default(),
        })
    }

    /// When it was written; none if that cannot be read.
    pub(super) fn time(&self) -> Option<Timestamp> {
        self.time.parse().ok()
    }

    /// When it was written, always to the nanosecond, so that columns line up.
    pub(super) fn stamp(&self) -> String {
        match self.time() {
            Some(time) => time.strftime("%Y-%m-%dT%H:%M:%S.%9fZ").to_string(),
            None => self.time.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Line<'_>> {
        Line::parse(text.as_bytes())
    }

    #[test]
    fn lines_and_parts_of_lines_are_told_apart() {
        let line = parse("2026-03-01T12:00:00.5Z stdout F a  line \n").unwrap();
        assert_eq!((line.is_partial, line.content), (false, b"a  line ".as_slice()));
        assert_eq!(line.stamp(), "2026-03-01T12:00:00.500000000Z");
        let part = parse("2026-03-01T13:00:00.25+01:00 stderr P:x half\n").unwrap();
        assert_eq!((part.is_partial, part.content), (true, b"half".as_slice()));
        assert_eq!(part.stamp(), "2026-03-01T12:00:00.250000000Z");
        assert_eq!(parse("2026-03-01T12:00:00Z stdout F\n").unwrap().content, b"");
        assert_eq!(parse("2026-03-01T12:00:00Z stdout F \n").unwrap().content, b"");
    }

    #[test]
    fn what_is_not_whole_is_no_line() {
        for text in ["", "\n", "2026-03-01T12:00:00Z stdout\n", "2026-03-01T12:00:00Z stdout F being writ"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
