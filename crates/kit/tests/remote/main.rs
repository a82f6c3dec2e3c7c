//! A controller whose objects live in a system outside Kubernetes, on a whole API server: what is asked, what is called, and
//! what is told when that system fails.

mod farewell;
mod house;
mod inn;
mod outages;
mod stay;
