//! What is told while images are built.

use std::time::Duration;

/// Hears of stages, from several threads at once.
pub trait Progress: Sync {
    /// So many stages more are to be done.
    fn planned(&self, stages: usize) {
        let _ = stages;
    }
    /// A stage has begun.
    fn begun(&self, image: &str, stage: &str);
    /// A stage has ended well.
    fn ended(&self, image: &str, stage: &str, took: Duration, bytes: u64);
    /// Something that people should know, and that stops nothing.
    fn note(&self, text: &str);
}

/// Tells no one.
#[derive(Clone, Copy, Debug)]
pub struct Quiet;

impl Progress for Quiet {
    fn begun(&self, _: &str, _: &str) {}
    fn ended(&self, _: &str, _: &str, _: Duration, _: u64) {}
    fn note(&self, _: &str) {}
}
