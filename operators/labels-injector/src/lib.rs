//! The labels injector: copies labels of a node, such as its building block and its zone, to the pods on it, so that workloads
//! read them through the downward API and metrics of pods carry them.
//!
//! ```text
//! pods/binding, bindings ─► webhook ─► labels in the Binding (1.35 and later) or on the Pod, before a kubelet sees it
//! Pods, Nodes ─► reconciler ─► what the webhook missed, and nodes that were relabelled
//! ```
//!
//! Labels are added and changed, never removed, and never empty. Pods without a node, finished pods and pods that are being deleted
//! are not touched.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod authority;
mod labels;
mod reconciler;
mod track;
mod webhook;

use std::path::PathBuf;
use std::sync::OnceLock;

use c5c3_kit::{Access, KindRef, Operator};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::{Node, Pod};

pub use labels::{DEFAULT, Labels, NODE_NAME};
pub use webhook::{Injector, hooks};

/// The field manager. It must never change.
pub const NAME: &str = "labels-injector";

/// What the webhook configurations are called.
pub const CONFIGURATION: &str = NAME;

/// How the injector of this process works.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Which labels are copied.
    pub labels: Labels,
    /// The folder with the certificate of the webhook server. The authority in it (`ca.crt`) is written to the webhook
    /// configurations; without one they are left alone.
    pub certificates: Option<PathBuf>,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Sets how the injector of this process works, once and before [`operator`] is called.
pub fn set(settings: Settings) -> Result<(), String> {
    SETTINGS.set(settings).map_err(|_| "the settings of the labels injector are set twice".to_owned())
}

/// The operator. It works in all namespaces, so `cross_namespace` changes nothing.
pub fn operator(_cross_namespace: bool) -> Operator {
    with(SETTINGS.get().cloned().unwrap_or_default())
}

/// The operator with these settings.
pub fn with(settings: Settings) -> Operator {
    const READ: &[&str] = &["get", "list", "watch"];
    let access = Access::default()
        .grant(&KindRef::of::<Node>(), "", READ)
        .grant_everywhere(&KindRef::of::<Pod>(), "", READ)
        .grant_everywhere(&KindRef::of::<Pod>(), "", &["patch"]);
    let own = Access::default()
        .grant_named(&KindRef::of::<MutatingWebhookConfiguration>(), CONFIGURATION, &["get", "patch"])
        .grant_named(&KindRef::of::<ValidatingWebhookConfiguration>(), CONFIGURATION, &["get", "patch"]);
    let Settings { labels, certificates } = settings;
    let asked = labels.clone();
    Operator::new(NAME)
        .task(access, move |task| reconciler::run(task, labels.clone()))
        .task(own, move |task| authority::follow(task, certificates.clone()))
        .webhooks(hooks(), move |client| Injector::new(client, asked.clone()).routes())
}
