//! Everything that libvirt tells of a host, as one value.

use std::path::Path;

use c5c3_api::hypervisor::{
    Capabilities, DomainCapabilities, HypervisorInstance, HypervisorStatus, OperatingSystem, Overcommit,
};

use crate::allocation::{self, Footprint};
use crate::connection::{Connection, LibvirtError};
use crate::topology::{self, Host};

/// The most instances that the schema of a Hypervisor takes.
const MOST_INSTANCES: usize = 4096;

/// What stays the same while libvirt runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fixed {
    pub libvirt_version: Option<String>,
    pub hypervisor_version: Option<String>,
    pub host: Host,
    pub domain_capabilities: Option<DomainCapabilities>,
    pub operating_system: OperatingSystem,
}

/// The domains, and what the running ones have of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instances {
    pub all: Vec<HypervisorInstance>,
    pub footprints: Vec<Footprint>,
}

/// An answer, or nothing if this driver does not have it. One missing fact must not hide the others.
fn known<T>(answer: Result<T, LibvirtError>, what: &str) -> Result<Option<T>, LibvirtError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_unsupported() => Ok(None),
        Err(error) if error.is_about_one_call() => {
            tracing::warn!(%error, what, "libvirt does not tell; the rest is published");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Asks for what stays the same. `virt_type` is what instances of this host run with, if that is known.
pub async fn fixed(libvirt: &Connection, virt_type: Option<&str>, os_release: &Path) -> Result<Fixed, LibvirtError> {
    let info = known(libvirt.node_info().await, "the host's size")?;
    let capabilities = known(libvirt.capabilities().await, "capabilities")?;
    let host = Host::read(capabilities.as_deref().unwrap_or("<capabilities/>"), info).unwrap_or_else(|error| {
        tracing::warn!(%error, "the host's topology is not published");
        Host::default()
    });
    let domains = known(libvirt.domain_capabilities(virt_type).await, "domain capabilities")?;
    let domain_capabilities = domains.and_then(|xml| {
        let found = topology::domain_capabilities(&xml);
        found.inspect_err(|error| tracing::warn!(%error, "domain capabilities are not published")).ok()
    });
    Ok(Fixed {
        libvirt_version: known(libvirt.libvirt_version().await, "its version")?,
        hypervisor_version: known(libvirt.hypervisor_version().await, "the hypervisor's version")?,
        host,
        domain_capabilities,
        operating_system: crate::os::read(os_release),
    })
}

/// Asks for all domains. One that went meanwhile is left out; one whose definition does not parse counts as an instance and
/// has no footprint.
pub async fn instances(libvirt: &Connection, host: &Host) -> Result<Instances, LibvirtError> {
    let mut found = Instances::default();
    for domain in libvirt.domains().await? {
        if domain.is_active() {
            match libvirt.domain_xml(&domain).await {
                Ok(xml) => match Footprint::read(&xml, host) {
                    Ok(footprint) => found.footprints.push(footprint),
                    Err(error) => tracing::warn!(%error, domain = domain.name, "it is not in the allocation"),
                },
                Err(error) if error.is_gone() => continue,
                Err(error) if error.is_about_one_call() => {
                    tracing::warn!(%error, domain = domain.name, "it is not in the allocation");
                }
                Err(error) => return Err(error),
            }
        }
        let name = domain.name.chars().take(255).collect();
        found.all.push(HypervisorInstance { id: domain.uuid.to_string(), name, active: domain.is_active() });
    }
    found.all.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(found)
}

/// The part of a Hypervisor's status that facts become. Conditions and failures of guests are not in it.
pub fn status(fixed: &Fixed, instances: &Instances, overcommit: Option<&Overcommit>) -> HypervisorStatus {
    let account = allocation::account(&fixed.host, &instances.footprints, overcommit);
    let has_host = !fixed.host.cells.is_empty();
    HypervisorStatus {
        lib_virt_version: fixed.libvirt_version.clone(),
        hypervisor_version: fixed.hypervisor_version.clone(),
        operating_system: Some(fixed.operating_system.clone()),
        capabilities: has_host.then(|| Capabilities {
            cpu_arch: fixed.host.arch.clone(),
            memory: account.capacity.memory.clone(),
            cpus: account.capacity.cpu.clone(),
        }),
        domain_capabilities: fixed.domain_capabilities.clone(),
        capacity: has_host.then_some(account.capacity),
        allocation: Some(account.allocation),
        effective_capacity: has_host.then_some(account.effective_capacity),
        cells: account.cells,
        instances: instances.all.iter().take(MOST_INSTANCES).cloned().collect(),
        num_instances: i32::try_from(instances.all.len()).ok(),
        ..HypervisorStatus::default()
    }
}

/// The same fields of a status that was published before, for as long as libvirt says nothing.
pub fn remembered(status: Option<&HypervisorStatus>) -> HypervisorStatus {
    let Some(status) = status.cloned() else { return HypervisorStatus::default() };
    HypervisorStatus {
        lib_virt_version: status.lib_virt_version,
        hypervisor_version: status.hypervisor_version,
        operating_system: status.operating_system,
        capabilities: status.capabilities,
        domain_capabilities: status.domain_capabilities,
        capacity: status.capacity,
        allocation: status.allocation,
        effective_capacity: status.effective_capacity,
        cells: status.cells,
        instances: status.instances,
        num_instances: status.num_instances,
        ..HypervisorStatus::default()
    }
}
