//! What Prometheus sees of the agent.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The metrics of the agent. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct NodeMetrics {
    connected: Gauge,
    instances: Gauge,
    writes: Counter,
    failures: Counter,
}

impl NodeMetrics {
    /// Adds them to a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("libvirt_connected", "Whether libvirt answers", self.connected.clone());
        registry.register("libvirt_instances", "Domains, running or not", self.instances.clone());
        registry.register(
            "libvirt_guest_failures",
            "Crashes, I/O errors and the like of guests",
            self.failures.clone(),
        );
        registry.register("agent_status_writes", "Writes of the Hypervisor's status", self.writes.clone());
    }

    /// How many writes there were.
    pub fn writes(&self) -> u64 {
        self.writes.get()
    }

    pub(crate) fn connected(&self, is_connected: bool) {
        self.connected.set(is_connected.into());
    }

    pub(crate) fn instances(&self, count: i32) {
        self.instances.set(count.into());
    }

    /// How many failures of guests there were so far.
    pub(crate) fn failures(&self, count: u64) {
        self.failures.inc_by(count.saturating_sub(self.failures.get()));
    }

    pub(crate) fn written(&self) {
        self.writes.inc();
    }
}
