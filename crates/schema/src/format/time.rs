//! Formats of dates, times and durations.

/// `2026-01-31`.
pub(crate) fn is_date(text: &str) -> bool {
    let Some([year, month, day]) = split_digits(text, '-', [4, 2, 2]) else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// RFC 3339: `2026-01-31T13:30:00.5+01:00`, in either case of `T` and `Z`.
pub(super) fn is_date_time(text: &str) -> bool {
    let Some((date, rest)) = text.split_once(['T', 't']) else {
        return false;
    };
    let Some(zone_at) = rest.find(['Z', 'z', '+', '-']) else {
        return false;
    };
    let (clock, zone) = rest.split_at(zone_at);
    let (clock, fraction) = match clock.split_once('.') {
        Some((clock, fraction)) => (clock, Some(fraction)),
        None => (clock, None),
    };
    let clock_is_sound = matches!(split_digits(clock, ':', [2, 2, 2]), Some([h, m, s]) if h < 24 && m < 60 && s < 60);
    let fraction_is_sound = fraction.is_none_or(|f| !f.is_empty() && f.bytes().all(|b| b.is_ascii_digit()));
    let zone_is_sound = zone.eq_ignore_ascii_case("z")
        || matches!(split_digits(zone.get(1..).unwrap_or_default(), ':', [2, 2]), Some([h, m]) if h < 24 && m < 60);
    is_date(date) && clock_is_sound && fraction_is_sound && zone_is_sound
}

fn split_digits<const N: usize>(text: &str, separator: char, widths: [usize; N]) -> Option<[u32; N]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; N];
    for (number, width) in numbers.iter_mut().zip(widths) {
        let part = parts.next()?;
        if part.len() != width || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

/// Go's durations (`1h30m`) and, as in Kubernetes, text that holds a number and a unit (`3 days`).
pub(super) fn is_duration(text: &str) -> bool {
    is_go_duration(text) || holds_number_and_unit(text)
}

fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let sound = number.matches('.').count() <= 1 && number.bytes().any(|b| b.is_ascii_digit());
        let unit = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"].iter().find_map(|unit| after.strip_prefix(unit));
        match unit {
            // `1m5` would leave digits without a unit; the next round finds none and fails.
            Some(left) if sound => rest = left,
            _ => return false,
        }
    }
    true
}

/// The last of each row also counts with letters after it: `day`, `days`.
const UNITS: [&[&str]; 8] = [
    &["ns", "nano"],
    &["us", "µs", "micro"],
    &["ms", "milli"],
    &["s", "sec"],
    &["m", "min"],
    &["h", "hr", "hour"],
    &["d", "day"],
    &["w", "wk", "week"],
];

fn holds_number_and_unit(text: &str) -> bool {
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let after = rest[start..].trim_start_matches(|c: char| c.is_ascii_digit());
        let word = after.trim_start();
        let end = word.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(word.len());
        let unit = word[..end].to_lowercase();
        let known =
            |names: &&[&str]| names.contains(&unit.as_str()) || names.last().is_some_and(|n| unit.starts_with(n));
        if !unit.is_empty() && UNITS.iter().any(known) {
            return true;
        }
        rest = after;
    }
    false
}
