//! What Prometheus sees: flows of each bridge, traffic of each interface, issues. Counters are Open vSwitch's own and begin
//! again at zero when it restarts, as Prometheus expects of a counter.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use crate::database::Counters;
use crate::status::Flows;

/// The metrics of the agent. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct OvsMetrics {
    connected: Gauge,
    issues: Gauge,
    writes: Counter,
    looks: Counter,
    seen: Arc<Mutex<Seen>>,
}

/// What was seen last.
#[derive(Debug, Default)]
struct Seen {
    flows: Flows,
    counters: Counters,
}

impl OvsMetrics {
    /// Adds them to a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("ovsdb_connected", "Whether the database of Open vSwitch answers", self.connected.clone());
        registry.register("ovs_issues", "What is wrong on this node", self.issues.clone());
        registry.register("agent_status_writes", "Writes of the OVSNode's status", self.writes.clone());
        registry.register("agent_looks", "How often the daemons of this node were asked", self.looks.clone());
        registry.register_collector(Box::new(Readings(self.seen.clone())));
    }

    /// How many writes there were.
    pub fn writes(&self) -> u64 {
        self.writes.get()
    }

    /// How often the daemons were asked.
    pub fn looks(&self) -> u64 {
        self.looks.get()
    }

    pub(crate) fn looked(&self) {
        self.looks.inc();
    }

    pub(crate) fn connected(&self, is_connected: bool) {
        self.connected.set(is_connected.into());
    }

    pub(crate) fn issues(&self, count: usize) {
        self.issues.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn written(&self) {
        self.writes.inc();
    }

    pub(crate) fn flows(&self, flows: &Flows) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).flows.clone_from(flows);
    }

    pub(crate) fn counters(&self, counters: Counters) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).counters = counters;
    }
}

#[derive(Debug)]
struct Readings(Arc<Mutex<Seen>>);

/// Counters of an interface that are worth a time series, as OVSDB and as Prometheus name them.
const COUNTERS: [(&str, &str); 8] = [
    ("rx_packets", "ovs_interface_receive_packets"),
    ("tx_packets", "ovs_interface_transmit_packets"),
    ("rx_bytes", "ovs_interface_receive_bytes"),
    ("tx_bytes", "ovs_interface_transmit_bytes"),
    ("rx_dropped", "ovs_interface_receive_drops"),
    ("tx_dropped", "ovs_interface_transmit_drops"),
    ("rx_errors", "ovs_interface_receive_errors"),
    ("tx_errors", "ovs_interface_transmit_errors"),
];

impl Collector for Readings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = ConstGauge::new(0i64).metric_type();
        let mut family = encoder.encode_descriptor("ovs_bridge_flows", "Flows of a bridge", None, kind)?;
        for (bridge, tables) in &seen.flows {
            let flows = ConstGauge::new(i64::try_from(tables.values().sum::<u64>()).unwrap_or(i64::MAX));
            flows.encode(family.encode_family(&[("bridge", bridge.as_str())])?)?;
        }
        for (name, series) in COUNTERS {
            let kind = ConstCounter::new(0u64).metric_type();
            let mut family = encoder.encode_descriptor(series, "Counter of an interface", None, kind)?;
            for (interface, counters) in &seen.counters.0 {
                let Some(count) = counters.get(name).and_then(|count| u64::try_from(*count).ok()) else { continue };
                ConstCounter::new(count).encode(family.encode_family(&[("interface", interface.as_str())])?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bridges_and_interfaces_have_series_of_their_own() {
        let (metrics, mut registry) = (OvsMetrics::default(), Registry::with_prefix("c5c3"));
        metrics.register(&mut registry);
        metrics.flows(&[("br-int".to_owned(), [(0, 2), (8, 3)].into())].into());
        metrics.counters(Counters([("tap0".to_owned(), [("rx_packets".to_owned(), 7)].into())].into()));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("c5c3_ovs_bridge_flows{bridge=\"br-int\"} 5"), "{text}");
        assert!(text.contains("c5c3_ovs_interface_receive_packets_total{interface=\"tap0\"} 7"), "{text}");
    }
}
