//! Stages as they begin and end: a bar on a terminal, lines elsewhere.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use c5c3_images::Progress;
use indicatif::{ProgressBar, ProgressStyle};

use super::mebibytes;

/// Tells people about stages.
pub(crate) struct Told {
    bar: Option<ProgressBar>,
    running: Mutex<BTreeSet<String>>,
}

impl Told {
    pub(crate) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {pos}/{len} {wide_msg}");
            let bar = ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { bar, running: Mutex::default() }
    }

    fn line(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }

    fn running(&self, change: impl FnOnce(&mut BTreeSet<String>)) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut running);
        if let Some(bar) = &self.bar {
            bar.set_message(running.iter().cloned().collect::<Vec<_>>().join(", "));
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Told {
    fn planned(&self, stages: usize) {
        if let Some(bar) = &self.bar {
            bar.inc_length(stages as u64);
        }
    }

    fn begun(&self, image: &str, stage: &str) {
        self.running(|running| {
            running.insert(format!("{image}/{stage}"));
        });
        if self.bar.is_none() {
            self.line(&format!("{image}/{stage} ..."));
        }
    }

    fn ended(&self, image: &str, stage: &str, took: Duration, bytes: u64) {
        self.running(|running| {
            running.remove(&format!("{image}/{stage}"));
        });
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
        self.line(&format!("{image}/{stage} {:.1} s, {}", took.as_secs_f64(), mebibytes(bytes)));
    }

    fn note(&self, text: &str) {
        self.line(text);
    }
}
