//! A toy controller through its whole life, against an API in memory: what it writes, and what it leaves alone.

mod bench;
mod care;
mod deletion;
mod departure;
mod faults;
mod forget;
mod granary;
mod graph;
mod leadership;
mod life;
mod mill;
mod press;
mod rest;
mod retention;
mod vat;
