//! An API in memory for the tests of operators: it keeps objects, serves watches, records every write, and fails when
//! told to. It is no Kubernetes: server-side apply here is a merge, and there is no schema, no RBAC, no garbage collector.

mod fake;
mod faults;
pub mod schemas;
mod store;

pub use fake::{FakeApi, Write};
pub use faults::Fault;
