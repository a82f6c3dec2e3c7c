//! The labels injector on a cluster: its webhook over TLS, its reconciler with the rights that it says it needs.

// A test writes its objects down where it needs them; `&json!` on each says nothing.
#![allow(clippy::needless_pass_by_value)]

mod reconciler;
mod site;
mod webhook;
