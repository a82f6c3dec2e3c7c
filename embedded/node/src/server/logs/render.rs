//! Lines of a log file as a user sees them.

use super::line::Line;
use super::options::Options;

/// What has been shown so far decides on what is shown next.
#[derive(Debug)]
pub(super) struct Render {
    options: Options,
    /// How many bytes may still be shown.
    left: Option<usize>,
    /// Whether the next line goes on with the one before.
    is_continued: bool,
}

impl Render {
    pub(super) fn new(options: Options) -> Self {
        let left = options.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        Self { options, left, is_continued: false }
    }

    /// Whether nothing more is to be shown.
    pub(super) fn is_done(&self) -> bool {
        self.left == Some(0)
    }

    /// Shows a line of the file, unless it is too old, or not whole.
    pub(super) fn line(&mut self, raw: &[u8], shown: &mut Vec<u8>) {
        let Some(line) = Line::parse(raw) else { return };
        if self.options.since.is_some_and(|since| line.time().is_some_and(|time| time < since)) {
            return;
        }
        if self.options.timestamps && !self.is_continued {
            self.show(format!("{} ", line.stamp()).as_bytes(), shown);
        }
        self.show(line.content, shown);
        if !line.is_partial {
            self.show(b"\n", shown);
        }
        self.is_continued = line.is_partial;
    }

    fn show(&mut self, bytes: &[u8], shown: &mut Vec<u8>) {
        let count = self.left.map_or(bytes.len(), |left| left.min(bytes.len()));
        shown.extend_from_slice(&bytes[..count]);
        self.left = self.left.map(|left| left - count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: [&str; 4] = [
        "2026-03-01T12:00:01Z stdout F one\n",
        "2026-03-01T12:00:02Z stdout P tw\n",
        "2026-03-01T12:00:03Z stdout F o\n",
        "2026-03-01T12:00:04Z stderr F three\n",
    ];

    fn shown(options: Options) -> String {
        let (mut render, mut shown) = (Render::new(options), Vec::new());
        for line in FILE {
            render.line(line.as_bytes(), &mut shown);
        }
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn parts_become_one_line_with_one_time() {
        assert_eq!(shown(Options::default()), "one\ntwo\nthree\n");
        let stamped = shown(Options { timestamps: true, ..Options::default() });
        let wanted = [(1, "one"), (2, "two"), (4, "three")];
        let wanted = wanted.map(|(second, text)| format!("2026-03-01T12:00:0{second}.000000000Z {text}\n"));
        assert_eq!(stamped, wanted.concat());
    }

    #[test]
    fn what_is_too_old_or_too_much_is_left_out() {
        let since = Some("2026-03-01T12:00:04Z".parse().unwrap());
        assert_eq!(shown(Options { since, ..Options::default() }), "three\n");
        assert_eq!(shown(Options { limit: Some(6), ..Options::default() }), "one\ntw");
        let mut render = Render::new(Options { limit: Some(4), ..Options::default() });
        render.line(FILE[0].as_bytes(), &mut Vec::new());
        assert!(render.is_done());
    }
}
