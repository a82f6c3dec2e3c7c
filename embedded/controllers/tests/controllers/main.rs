//! The controllers on a whole API server, with a pretended node: after upstream's conformance specs.

// What the tests share is here before they are.
#![allow(dead_code)]

mod fixtures;
mod jobs;
mod start;
