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
}

impl NodeMetrics {
    /// Adds them to a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("libvirt_connected", "Whether libvirt answers", self.connected.clone());
        registry.register("libvirt_instances", "Domains, running or not", self.instances.clone());
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

    pub(crate) fn written(&self) {
        self.writes.inc();
    }
}
