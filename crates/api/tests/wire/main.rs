//! The wire format: the documents that define it, the examples that teach it, and what it refuses.

mod crds;
mod documents;
mod examples;
mod refusals;
mod seeds;
mod typed;
