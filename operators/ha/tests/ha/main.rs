//! Lives of hosts that fail: an API server in this process, a Nova that remembers, a fence that counts.

mod fakes;
mod lives;
mod site;
