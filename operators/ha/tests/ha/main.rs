//! Lives of hosts that fail, and of guests that crash: an API server in this process, a Nova that remembers, a fence that counts.

mod fakes;
mod guests;
mod lives;
mod site;
