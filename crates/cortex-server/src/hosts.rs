//! A Hypervisor object as the engine sees a host.

use c5c3_api::blocks::{ConditionStatus, Quantity};
use c5c3_api::hypervisor::{Amounts, Hypervisor, HypervisorStatus, Maintenance};
use c5c3_cortex::{self as engine, Aggregate, Condition, Host, Resources};
use kube::ResourceExt;

const ZONE: &str = "topology.kubernetes.io/zone";
const MIB: f64 = 1_048_576.0;

/// What a Hypervisor tells of its host.
pub fn host(hypervisor: &Hypervisor) -> Host {
    let (spec, empty) = (&hypervisor.spec, HypervisorStatus::default());
    let status = hypervisor.status.as_ref().unwrap_or(&empty);
    let domain = status.domain_capabilities.clone().unwrap_or_default();
    let arch = status.capabilities.as_ref().and_then(|capabilities| capabilities.cpu_arch.clone());
    // Without its libvirt, what the agent last said of the host is out of date.
    let ready = match (condition(status, "Ready"), condition(status, "LibVirtConnection")) {
        (_, Condition::False) => Condition::False,
        (ready, _) => ready,
    };
    let disabled = match spec.maintenance {
        Maintenance::None => condition(status, "HypervisorDisabled"),
        _ => Condition::True,
    };
    Host {
        name: hypervisor.name_any(),
        zone: hypervisor.labels().get(ZONE).cloned(),
        ready,
        disabled,
        terminating: condition(status, "Terminating"),
        message: message(hypervisor, status),
        cpu_arch: arch.or(domain.arch),
        hypervisor_type: domain.hypervisor_type,
        capacity: capacity(hypervisor, status),
        allocated: allocated(status.allocation.as_ref()),
        traits: Host::names(status.traits.iter().chain(&spec.custom_traits).cloned()),
        aggregates: status
            .aggregates
            .iter()
            .map(|one| Aggregate { name: one.name.clone(), uuid: one.uuid.clone(), metadata: one.metadata.clone() })
            .collect(),
        allowed_projects: Host::names(spec.allowed_projects.iter().cloned()),
        instances: Host::names(status.instances.iter().map(|instance| instance.id.clone())),
        cpu_modes: Host::names(domain.supported_cpu_modes),
        devices: Host::names(domain.supported_devices),
        features: Host::names(domain.supported_features),
    }
}

fn condition(status: &HypervisorStatus, name: &str) -> Condition {
    match status.conditions.iter().find(|one| one.r#type == name).map(|one| one.status) {
        Some(ConditionStatus::True) => Condition::True,
        Some(ConditionStatus::False) => Condition::False,
        Some(ConditionStatus::Unknown) | None => Condition::Unknown,
    }
}

/// Why a host takes nothing: its maintenance, else what its conditions say.
fn message(hypervisor: &Hypervisor, status: &HypervisorStatus) -> Option<String> {
    if hypervisor.spec.maintenance != Maintenance::None {
        let reason = hypervisor.spec.maintenance_reason.clone();
        return Some(reason.unwrap_or_else(|| "it is in maintenance".into()));
    }
    let bad = |name: &str, wrong: ConditionStatus| {
        let found = status.conditions.iter().find(|one| one.r#type == name && one.status == wrong)?;
        let text = found.message.clone().or_else(|| found.reason.clone()).filter(|text| !text.is_empty());
        Some(text.unwrap_or_else(|| format!("{name} is {wrong:?}")))
    };
    bad("Terminating", ConditionStatus::True)
        .or_else(|| bad("HypervisorDisabled", ConditionStatus::True))
        .or_else(|| bad("LibVirtConnection", ConditionStatus::False))
        .or_else(|| bad("Ready", ConditionStatus::False))
}

/// `effectiveCapacity`; the capacity multiplied by the overcommitment where the agent has not written it yet. Rounded down.
fn capacity(hypervisor: &Hypervisor, status: &HypervisorStatus) -> engine::Amounts {
    let overcommit = hypervisor.spec.overcommit.clone().unwrap_or_default();
    let of = |amounts: &Option<Amounts>, cpu: f64, memory: f64| {
        let amounts = amounts.as_ref()?;
        Some(engine::Amounts {
            vcpus: Some(down(amounts.cpu.as_ref()?.value() * cpu)),
            memory_mib: Some(down(amounts.memory.as_ref()?.value() * memory / MIB)),
            disk_gib: None,
        })
    };
    of(&status.effective_capacity, 1.0, 1.0)
        .or_else(|| of(&status.capacity, overcommit.cpu.unwrap_or(1.0), overcommit.memory.unwrap_or(1.0)))
        .unwrap_or_default()
}

/// Rounded up: half a vCPU that is taken is not free.
fn allocated(amounts: Option<&Amounts>) -> Resources {
    let value = |quantity: Option<&Quantity>| quantity.map_or(0.0, Quantity::value);
    Resources {
        vcpus: down(value(amounts.and_then(|amounts| amounts.cpu.as_ref())).ceil()),
        memory_mib: down((value(amounts.and_then(|amounts| amounts.memory.as_ref())) / MIB).ceil()),
        disk_gib: 0,
    }
}

/// Quantities are not negative, and bytes of a host are far below 2^53.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn down(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(spec: &Value, status: &Value) -> Host {
        let object = json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Hypervisor",
            "metadata": {"name": "hv-1", "labels": {ZONE: "orchard"}}, "spec": spec, "status": status});
        host(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn bytes_become_mib_without_promising_more_than_there_is() {
        let status = json!({"capacity": {"cpu": "8", "memory": "10485760"}, "allocation": {"cpu": "1500m", "memory": "1048577"}});
        let plain = read(&json!({}), &status);
        assert_eq!(plain.capacity, engine::Amounts { vcpus: Some(8), memory_mib: Some(10), disk_gib: None });
        assert_eq!(plain.allocated, Resources { vcpus: 2, memory_mib: 2, disk_gib: 0 });
        let over = read(&json!({"overcommit": {"cpu": 4.0, "memory": 1.25}}), &status);
        assert_eq!(over.capacity, engine::Amounts { vcpus: Some(32), memory_mib: Some(12), disk_gib: None });
        let mut written = status.clone();
        written["effectiveCapacity"] = json!({"cpu": 16, "memory": "20Mi"});
        let effective = read(&json!({"overcommit": {"cpu": 4.0}}), &written);
        assert_eq!(effective.capacity, engine::Amounts { vcpus: Some(16), memory_mib: Some(20), disk_gib: None });
        assert_eq!(read(&json!({}), &json!({})).capacity, engine::Amounts::default(), "nobody has measured it yet");
    }

    #[test]
    fn a_host_is_ready_only_with_its_libvirt_and_out_of_maintenance() {
        let said = |kind: &str, status: &str| json!({"type": kind, "status": status, "message": format!("{kind} says {status}")});
        let up = json!({"conditions": [said("Ready", "True"), said("LibVirtConnection", "True")]});
        assert_eq!(read(&json!({}), &up).ready, Condition::True);
        let cut = read(&json!({}), &json!({"conditions": [said("Ready", "True"), said("LibVirtConnection", "False")]}));
        assert_eq!((cut.ready, cut.message.as_deref()), (Condition::False, Some("LibVirtConnection says False")));
        let manual = read(&json!({"maintenance": "manual", "maintenanceReason": "new disks, Ada"}), &up);
        assert_eq!((manual.disabled, manual.message.as_deref()), (Condition::True, Some("new disks, Ada")));
        let leaving = read(&json!({}), &json!({"conditions": [said("Terminating", "True")]}));
        assert_eq!(leaving.terminating, Condition::True);
    }

    #[test]
    fn traits_zone_and_servers_are_read() {
        let host = read(
            &json!({"customTraits": ["CUSTOM_NVME"], "allowedProjects": ["red"]}),
            &json!({"traits": ["HW_CPU_X86_AVX2"], "instances": [{"id": "s-1", "name": "i-1"}],
                "aggregates": [{"name": "fast", "uuid": "6f2c0000-0000-4000-8000-000000000001", "metadata": {"ssd": "true"}}],
                "domainCapabilities": {"arch": "x86_64", "hypervisorType": "kvm", "supportedFeatures": ["sev"]}}),
        );
        assert_eq!(host.zone.as_deref(), Some("orchard"));
        assert_eq!(host.traits.len(), 2);
        assert_eq!(host.instances, Host::names(["s-1"]));
        assert_eq!(host.cpu_arch.as_deref(), Some("x86_64"));
        assert_eq!(host.aggregates[0].metadata["ssd"], "true");
    }
}
