//! The scheduler on a whole API server, with nodes that are only written down.

mod fixtures;
mod placing;
mod storage;
mod waiting;
