//! Credentials as a table that fits a screen.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::{Credential, Rotation};

/// How many users of a credential are named.
const MOST: usize = 2;

/// The table, below it what is wrong with single ones, and what could not be read.
pub(super) fn render(credentials: &[Credential], unread: &[String], now: Timestamp, wide: bool) -> String {
    let several = credentials.iter().any(|credential| credential.namespace != credentials[0].namespace);
    let mut rows = vec![
        ["NAMESPACE", "OF", "CREDENTIAL", "SECRET", "USED BY", "AGE", "ROTATES", "EXPIRES"].map(str::to_owned).to_vec(),
    ];
    rows.extend(credentials.iter().map(|credential| row(credential, now, if wide { usize::MAX } else { MOST })));
    if wide {
        let objects = credentials.iter().map(|credential| credential.object.clone());
        rows.iter_mut().zip(["OBJECT".to_owned()].into_iter().chain(objects)).for_each(|(row, cell)| row.push(cell));
    }
    if !several && !wide {
        for row in &mut rows {
            row.remove(0);
        }
    }
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default())
        .collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}", width = *width)).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    let wrong: Vec<String> = credentials.iter().filter_map(|credential| wrong(credential, now)).collect();
    if !wrong.is_empty() {
        let _ = writeln!(text, "\n{}", wrong.join("\n"));
    }
    if !unread.is_empty() {
        let _ = writeln!(text, "\nnot listed: {}", unread.join(", "));
    }
    text
}

fn row(credential: &Credential, now: Timestamp, most: usize) -> Vec<String> {
    let mut used_by = credential.used_by.iter().take(most).cloned().collect::<Vec<_>>().join(", ");
    if credential.used_by.len() > most {
        let _ = write!(used_by, " and {} more", credential.used_by.len() - most);
    }
    let rotates = match credential.rotation {
        Rotation::At(time) => distance(time, now),
        Rotation::Now => "now".to_owned(),
        Rotation::ByHand => "by hand".to_owned(),
        Rotation::WithIts => "-".to_owned(),
    };
    let or = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    vec![
        credential.namespace.clone(),
        credential.owner.clone(),
        credential.what.words().to_owned(),
        or(credential.secret.clone().unwrap_or_default()),
        or(used_by),
        credential.created.map_or_else(|| "-".to_owned(), |time| span(now.duration_since(time).as_secs())),
        rotates,
        credential.expires.map_or_else(|| "-".to_owned(), |time| distance(time, now)),
    ]
}

fn wrong(credential: &Credential, now: Timestamp) -> Option<String> {
    if credential.is_expired(now) {
        return Some(format!("{}: has expired: c5c3 why {}", credential.object, credential.object));
    }
    let says = credential.says.as_ref()?;
    Some(format!("{}: {}", credential.object, says.split_whitespace().collect::<Vec<_>>().join(" ")))
}

/// How far away a time is, in one unit.
fn distance(time: Timestamp, now: Timestamp) -> String {
    let seconds = time.duration_since(now).as_secs();
    if seconds < 0 { format!("{} ago", span(-seconds)) } else { format!("in {}", span(seconds)) }
}

fn span(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds @ 7200..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86400),
    }
}
