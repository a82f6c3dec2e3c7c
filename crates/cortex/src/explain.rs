//! A decision in words.

use std::fmt::Write as _;

use crate::decision::{Decision, FilterResult};

/// How many of the hosts that a filter left out are told with their reasons.
const TOLD: usize = 3;

impl Decision {
    /// Where the workload goes and why there, or why nowhere: a few sentences.
    pub fn explanation(&self) -> String {
        let mut text = self.outcome();
        for filter in self.filters.iter().filter(|filter| filter.removed > 0) {
            let _ = write!(text, " {}", left_out(filter));
        }
        let unjudged: Vec<String> = self
            .filters
            .iter()
            .filter(|filter| filter.unjudged > 0)
            .map(|filter| format!("{} could not judge {} and let them pass", filter.step, hosts(filter.unjudged)))
            .chain(self.weighers.iter().filter(|weigher| weigher.unjudged > 0).map(|weigher| {
                format!("{} could not judge {} and counted them last", weigher.step, hosts(weigher.unjudged))
            }))
            .collect();
        if !unjudged.is_empty() {
            let _ = write!(text, " {}.", unjudged.join("; "));
        }
        if let Some(reason) = self.why_first() {
            let _ = write!(text, " {reason}");
        }
        text
    }

    fn outcome(&self) -> String {
        let left = self.hosts.len();
        match self.target() {
            Some(host) => format!(
                "{host} is the best of {} that can take {} ({} offered).",
                hosts(left),
                self.resources,
                self.offered
            ),
            None if self.offered == 0 => format!("No host was offered for {}.", self.resources),
            None => format!("None of the {} offered can take {}.", hosts(self.offered), self.resources),
        }
    }

    /// What the best host has over the second.
    fn why_first(&self) -> Option<String> {
        let [first, second, ..] = self.hosts.as_slice() else { return None };
        let mut differences: Vec<(&str, f64)> = self
            .weighers
            .iter()
            .filter_map(|weigher| Some((weigher.step, weigher.adds.first()? - weigher.adds.get(1)?)))
            .filter(|(_, difference)| difference.abs() > f64::EPSILON)
            .collect();
        if differences.is_empty() {
            let same = self.hosts.iter().take_while(|host| host.score.total_cmp(&first.score).is_eq()).count();
            return Some(format!("{} weigh the same; the first by name is taken.", hosts(same)));
        }
        differences.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
        let parts: Vec<String> = differences.iter().map(|(step, by)| format!("{} {by:+.3}", said(step))).collect();
        Some(format!(
            "It scores {:.3}, before {} with {:.3}: {}.",
            first.score,
            second.host,
            second.score,
            parts.join(", ")
        ))
    }
}

/// The weights that came with the request are the asking service's own.
fn said(step: &str) -> String {
    match step {
        "nova" => "Nova's own weights".into(),
        "cinder" => "Cinder's own weights".into(),
        "manila" => "Manila's own weights".into(),
        step => step.into(),
    }
}

fn hosts(count: usize) -> String {
    if count == 1 { "1 host".into() } else { format!("{count} hosts") }
}

fn left_out(filter: &FilterResult) -> String {
    let told: Vec<String> =
        filter.named.iter().take(TOLD).map(|removal| format!("{} {}", removal.host, removal.reason)).collect();
    let more = filter.removed - told.len();
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{} left out {}: {}{rest}.", filter.step, hosts(filter.removed), told.join("; "))
}
