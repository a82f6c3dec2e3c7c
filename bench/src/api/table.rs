//! The table, for people and for a page of documentation.

use std::time::Duration;

use super::measure::{Amount, Row};

/// Renders what was measured; with a second server, its numbers and how many times better the first is.
pub(super) fn render(first: &[Row], second: Option<&[Row]>) -> String {
    let mut lines = vec![vec![String::new(), "amount".into(), "median".into(), "99 %".into(), "longest".into()]];
    if second.is_some() {
        lines[0].extend(["the other".into(), "median".into(), "better by".into()]);
    }
    for row in first {
        let mut line = vec![row.what.clone(), amount(&row.amount)];
        let latency = row.latency.map_or_else(|| [(); 3].map(|()| String::new()), |times| times.map(time));
        line.extend(latency);
        if let Some(second) = second {
            let other = second.iter().find(|other| other.what == row.what);
            line.push(other.map_or(String::new(), |other| amount(&other.amount)));
            line.push(other.and_then(|other| other.latency).map_or(String::new(), |[median, ..]| time(median)));
            line.push(other.map_or(String::new(), |other| format!("{:.1} x", better(&row.amount, &other.amount))));
        }
        lines.push(line);
    }
    align(&lines)
}

fn align(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().enumerate().map(|(column, cell)| match column {
            0 => format!("{cell:<width$}", width = widths[0]),
            _ => format!("{cell:>width$}", width = widths[column]),
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn amount(amount: &Amount) -> String {
    match amount {
        Amount::Rate(rate) if *rate < 100.0 => format!("{rate:.1}/s"),
        Amount::Rate(rate) => format!("{rate:.0}/s"),
        Amount::Time(duration) => time(*duration),
        Amount::Bytes(bytes) => format!("{} MiB", bytes >> 20),
    }
}

fn time(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1000.0;
    if milliseconds < 10.0 { format!("{milliseconds:.2} ms") } else { format!("{milliseconds:.0} ms") }
}

/// How many times better the first is: more of a rate, less of a time or of memory.
#[allow(clippy::cast_precision_loss)]
fn better(first: &Amount, other: &Amount) -> f64 {
    match (first, other) {
        (Amount::Rate(first), Amount::Rate(other)) => first / other,
        (Amount::Time(first), Amount::Time(other)) => other.as_secs_f64() / first.as_secs_f64(),
        (Amount::Bytes(first), Amount::Bytes(other)) => *other as f64 / *first as f64,
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rate: f64, milliseconds: u64, bytes: u64) -> Vec<Row> {
        let latency = Some([1, 20, 30].map(Duration::from_millis));
        vec![
            Row { what: "creates".into(), amount: Amount::Rate(rate), latency },
            Row::time("ready to serve", Duration::from_millis(milliseconds)),
            Row::memory("memory", bytes),
        ]
    }

    #[test]
    fn one_server_has_amounts_and_latencies() {
        let expected = "\
                \x20 amount   median   99 %  longest\n";
        let table = render(&rows(1234.0, 45, 50 << 20), None);
        assert!(table.lines().next().unwrap().ends_with(expected.trim()), "{table}");
        assert_eq!(table.lines().nth(1).unwrap(), "creates         1234/s  1.00 ms  20 ms    30 ms");
        assert_eq!(table.lines().nth(3).unwrap(), "memory          50 MiB");
    }

    #[test]
    fn two_servers_have_a_ratio_that_is_above_one_where_the_first_is_better() {
        let table = render(&rows(1000.0, 50, 50 << 20), Some(&rows(250.0, 2500, 400 << 20)));
        let ratios: Vec<_> = table.lines().skip(1).map(|line| line.rsplit("  ").next().unwrap().trim()).collect();
        assert_eq!(ratios, ["4.0 x", "50.0 x", "8.0 x"]);
    }
}
