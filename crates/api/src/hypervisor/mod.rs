//! Hypervisors: the compute hosts, and moving instances off and between them.

mod eviction;
mod host;
#[allow(clippy::module_inception)] // The module of the kind Hypervisor, in the module of its API group.
mod hypervisor;
mod migration;

pub use eviction::{Eviction, EvictionInstance, EvictionInstanceState, EvictionSpec, EvictionStatus};
pub use host::{
    Amounts, Capabilities, Cell, DomainCapabilities, GuestFailure, GuestFailureKind, GuestState, HypervisorInstance,
    OperatingSystem, UpdateStatus,
};
pub use hypervisor::{
    Aggregate, Group, GroupTrait, Hypervisor, HypervisorSpec, HypervisorStatus, Maintenance, Overcommit,
};
pub use migration::{Migration, MigrationOperation, MigrationSpec, MigrationStatus, MigrationType};
