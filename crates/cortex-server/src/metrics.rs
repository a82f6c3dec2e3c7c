//! What the scheduler counts, by the names that Cortex's dashboards know.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use c5c3_cortex::{Condition, Decision, Domain, Overload, Scheduler};
use c5c3_kit::metrics::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    path: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DomainLabels {
    domain: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PipelineLabels {
    pipeline: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    pipeline: String,
    step: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct CapacityLabels {
    availability_zone: String,
    resource: &'static str,
}

fn seconds() -> Histogram {
    Histogram::new([0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0])
}

type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

/// The scheduler's metrics. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SchedulerMetrics {
    requests: Durations<RequestLabels>,
    runs: Durations<PipelineLabels>,
    removed: Family<StepLabels, Counter>,
    unjudged: Family<StepLabels, Counter>,
    no_host: Family<DomainLabels, Counter>,
    hosts: Family<DomainLabels, Gauge>,
    in_flight: Gauge<i64, AtomicI64>,
    dropped: Counter,
    written: Counter,
    detections: Family<StepLabels, Gauge>,
    deschedulings: Family<ReasonLabels, Counter>,
    total: Family<CapacityLabels, Gauge>,
    usage: Family<CapacityLabels, Gauge>,
    free: Family<CapacityLabels, Gauge>,
}

impl SchedulerMetrics {
    /// Adds the metrics to those of the process.
    pub(crate) fn new(process: &Metrics) -> Self {
        let all = Self {
            requests: Family::new_with_constructor(seconds),
            runs: Family::new_with_constructor(seconds),
            removed: Family::default(),
            unjudged: Family::default(),
            no_host: Family::default(),
            hosts: Family::default(),
            in_flight: Gauge::default(),
            dropped: Counter::default(),
            written: Counter::default(),
            detections: Family::default(),
            deschedulings: Family::default(),
            total: Family::default(),
            usage: Family::default(),
            free: Family::default(),
        };
        let each = all.clone();
        process.register(move |registry| {
            let cortex = registry.sub_registry_with_prefix("cortex");
            cortex.register("scheduler_api_request_duration_seconds", "Time to answer a request", each.requests);
            cortex.register("filter_weigher_pipeline_run_duration_seconds", "Time that a pipeline ran", each.runs);
            cortex.register("filter_weigher_pipeline_step_removed_hosts", "Hosts that a filter left out", each.removed);
            cortex.register(
                "filter_weigher_pipeline_step_unjudged_hosts",
                "Hosts that a step could not judge",
                each.unjudged,
            );
            cortex.register("no_host_found", "Decisions that no host fits", each.no_host);
            cortex.register("known_hosts", "Hosts that the scheduler knows", each.hosts);
            cortex.register("inflight_reservations", "Workloads that room was promised to", each.in_flight);
            cortex.register("decisions_dropped", "Decisions that could not be written down", each.dropped);
            cortex.register("decisions_written", "Decisions that were written down", each.written);
            cortex.register("detector_pipeline_step_detections", "Hosts that a detector finds now", each.detections);
            cortex.register("deschedulings", "What was told of Deschedulings, by reason", each.deschedulings);
            let help = "Virtual CPUs, or bytes of memory, of all hosts, overcommitment included";
            cortex.register("kvm_host_capacity_total", help, each.total);
            let help = "Virtual CPUs, or bytes of memory, that servers have or were promised";
            cortex.register("kvm_host_capacity_usage", help, each.usage);
            let help = "Virtual CPUs, or bytes of memory, that are free on hosts that take servers";
            cortex.register("kvm_host_capacity_free", help, each.free);
        });
        all
    }

    pub(crate) fn answered(&self, path: &'static str, status: u16, time: Duration) {
        self.requests.get_or_create(&RequestLabels { path, status }).observe(time.as_secs_f64());
    }

    pub(crate) fn decided(&self, decision: &Decision, in_flight: usize, time: Duration) {
        let pipeline = || decision.pipeline.clone();
        self.runs.get_or_create(&PipelineLabels { pipeline: pipeline() }).observe(time.as_secs_f64());
        for filter in &decision.filters {
            let labels = || StepLabels { pipeline: pipeline(), step: filter.step };
            self.removed.get_or_create(&labels()).inc_by(filter.removed as u64);
            if filter.unjudged > 0 {
                self.unjudged.get_or_create(&labels()).inc_by(filter.unjudged as u64);
            }
        }
        if decision.hosts.is_empty() {
            self.no_host.get_or_create(&DomainLabels { domain: decision.domain.as_str() }).inc();
        }
        self.in_flight.set(i64::try_from(in_flight).unwrap_or(i64::MAX));
    }

    pub(crate) fn knows(&self, scheduler: &Scheduler) {
        for domain in Domain::ALL {
            let count = scheduler.hosts(domain).map_or(0, c5c3_cortex::Inventory::len);
            let gauge = self.hosts.get_or_create(&DomainLabels { domain: domain.as_str() });
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.in_flight.set(i64::try_from(scheduler.in_flight().len()).unwrap_or(i64::MAX));
    }

    /// Removes what only the leader exports.
    pub(crate) fn stand_down(&self) {
        self.detections.clear();
        for family in [&self.total, &self.usage, &self.free] {
            family.clear();
        }
    }

    /// What there is on hosts, by availability zone.
    pub(crate) fn capacity(&self, scheduler: &Scheduler) {
        let mut sums: BTreeMap<CapacityLabels, [u64; 3]> = BTreeMap::new();
        for host in scheduler.hosts(Domain::Nova).into_iter().flat_map(c5c3_cortex::Inventory::iter) {
            let taken = host.allocated + scheduler.in_flight().on(&host.name, "");
            let takes_servers = host.ready != Condition::False
                && host.disabled != Condition::True
                && host.terminating != Condition::True;
            let each = [
                ("cpu", host.capacity.vcpus, taken.vcpus, 1),
                ("memory", host.capacity.memory_mib, taken.memory_mib, 1024 * 1024),
            ];
            for (resource, has, taken, unit) in each {
                let Some(has) = has else { continue };
                let availability_zone = host.zone.clone().unwrap_or_default();
                let sum = sums.entry(CapacityLabels { availability_zone, resource }).or_default();
                let free = if takes_servers { has.saturating_sub(taken) } else { 0 };
                for (sum, more) in sum.iter_mut().zip([has, taken, free]) {
                    *sum = sum.saturating_add(more.saturating_mul(unit));
                }
            }
        }
        let families = [&self.total, &self.usage, &self.free];
        for family in families {
            family.clear();
        }
        for (labels, sum) in &sums {
            for (family, sum) in families.iter().zip(sum) {
                family.get_or_create(labels).set(i64::try_from(*sum).unwrap_or(i64::MAX));
            }
        }
    }

    /// What detectors find, by pipeline.
    pub(crate) fn detected(&self, found: &BTreeMap<String, Vec<Overload>>) {
        self.detections.clear();
        for (pipeline, overloads) in found {
            for overload in overloads {
                let labels = StepLabels { pipeline: pipeline.clone(), step: overload.detector.name };
                self.detections.get_or_create(&labels).inc();
            }
        }
    }

    /// What was told of a Descheduling.
    pub(crate) fn descheduling(&self, reason: &'static str) {
        self.deschedulings.get_or_create(&ReasonLabels { reason }).inc();
    }

    pub(crate) fn dropped(&self) {
        self.dropped.inc();
    }

    pub(crate) fn written(&self) {
        self.written.inc();
    }
}
