//! The labels injector on a cluster: its webhook over TLS, its reconciler with the rights that it says it needs.

mod reconciler;
mod site;
mod webhook;
