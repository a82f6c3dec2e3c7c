//! The labels and annotations on sandboxes and containers by which a restarted node, or `crictl`, knows whose they are.

/// The pod's name.
pub(crate) const POD_NAME: &str = "io.kubernetes.pod.name";
/// The pod's namespace.
pub(crate) const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// The pod's uid.
pub(crate) const POD_UID: &str = "io.kubernetes.pod.uid";
/// The container's name.
pub(crate) const CONTAINER_NAME: &str = "io.kubernetes.container.name";
/// What of the container's definition may change while the pod lives, hashed.
pub(crate) const HASH: &str = "io.kubernetes.container.hash";
/// How often the container was restarted before this.
pub(crate) const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
/// Where in the container its last words are.
pub(crate) const TERMINATION_PATH: &str = "io.kubernetes.container.terminationMessagePath";
/// Where its last words come from.
pub(crate) const TERMINATION_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
/// How long the pod may take to end: known even when the pod object is gone.
pub(crate) const GRACE_PERIOD: &str = "io.kubernetes.pod.terminationGracePeriod";
