//! The scheduler: which pod goes to which node, as it would run against any Kubernetes API.
//!
//! ```text
//! watches ─► snapshot ─► queue ─► decide ─► bind
//!            what is     whose    pure:     claims first,
//!            known, and  turn     filter,   then the pod;
//!            decided     it is    score     or tell why not
//! ```
//!
//! Rules, scores and words are those of upstream's default scheduler. What differs:
//!
//! - No one is preempted. A message says of preemption what upstream's would where that holds here, too; where upstream
//!   might find a victim, it says nothing about it. Priorities do decide whose turn it is.
//! - Of nodes that are equally good, the first by name is taken; upstream throws dice.
//! - Scores know nothing of images. There are no scheduling profiles, extenders or dynamic resources, no limits on how
//!   many volumes a node can attach, and no tracking of storage capacity. A pod that is being resized counts with what it
//!   asks for, not with what its node still grants it.
//! - A pod that waits is tried again when something changes that could help it, and at no other time: upstream also tries
//!   every five minutes.
//! - The replicas of one controller are told by their owner, not by its selector.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]
// A test writes its objects down where it needs them; `&json!` on each says nothing.
#![cfg_attr(test, allow(clippy::needless_pass_by_value))]

mod bind;
mod decide;
mod filter;
mod follow;
mod hints;
mod model;
mod queue;
mod reason;
mod report;
mod scheduler;
mod score;
mod snapshot;
#[cfg(test)]
mod testing;
mod volumes;

use kube::Client;
use tokio_util::sync::CancellationToken;

/// Brings pods to nodes until `stop`.
pub async fn run(client: Client, stop: CancellationToken) {
    scheduler::Scheduler::new(client).run(stop).await;
}
