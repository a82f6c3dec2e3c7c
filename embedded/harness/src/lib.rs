//! A Kubernetes API for a test: `TestCluster::start().await` gives a `kube::Client` in milliseconds, as many as a test
//! likes, with faults to inject.
//!
//! ```text
//!  client ─┐                                       ┌─ the embedded server, by function call
//!  client ─┼─► wire: faults, cut watches, ledger ─►┤
//!  port  ──┘                                       └─ another cluster (C5C3_TEST_KUBECONFIG)
//! ```
//!
//! By default each test cluster is an embedded API server of its own, in memory; the client talks to it without a socket,
//! and everything behind that is the real server. With `C5C3_TEST_KUBECONFIG=FILE` the same tests run on that cluster.
//! They share it, so a test uses names of its own:
//!
//! | a test needs | it uses |
//! |---|---|
//! | a namespace | [`TestCluster::namespace`], in which its clients are at home, or [`TestCluster::namespace_named`] |
//! | a name that is in no namespace | [`TestCluster::name`] |
//! | a definition of its own, to change it | [`TestCluster::group`] for its group |
//! | a definition that others use too | [`TestCluster::install`] |
//! | the embedded server, and no other | [`TestCluster::embedded`]; its neighbours: [`TestCluster::in_process`] |
//! | pods that no one schedules | [`TestCluster::without_controllers`] |
//!
//! On another cluster a client's lists and watches across namespaces tell of the test's own namespaces only, and what the
//! test made is removed when its [`TestCluster`] is dropped, also when it panics. A test that was killed leaves things
//! behind: [`leftovers`] finds them, by names that contain `c5c3-test-`.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod cluster;
mod definitions;
mod error;
mod faults;
mod in_process;
mod ledger;
mod leftovers;
mod limited;
mod patience;
mod port;
pub mod pretended;
mod raw;
mod release;
mod removal;
mod upstream;
mod view;
mod wire;

pub use cluster::TestCluster;
pub use error::Error;
pub use faults::Fault;
pub use ledger::Made;
pub use leftovers::{leftovers, remove_leftovers};
pub use limited::Limited;
pub use port::Port;

/// The variable that names the kubeconfig of another cluster to run tests on.
pub const KUBECONFIG: &str = "C5C3_TEST_KUBECONFIG";

/// What is in the name of everything that a test makes on another cluster.
pub(crate) const PREFIX: &str = "c5c3-test-";
