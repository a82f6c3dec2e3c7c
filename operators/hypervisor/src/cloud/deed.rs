//! What Nova, Placement and the cluster can be told to do.

use std::fmt;

use c5c3_kit::remote::{Action, Verb};

use crate::settings::Smoke;
use c5c3_openstack::Access;

/// Something to be done, and the credential it is done with.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) access: Access,
    pub(crate) deed: Deed,
}

/// What is done.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    /// Lets the scheduler use a host. With `disabled_by`, a service whose reason does not begin with it stays disabled.
    Enable { host: String, service: String, disabled_by: Option<String> },
    /// Keeps the scheduler from using a host. One that is disabled already keeps its reason.
    Disable { host: String, service: String, reason: String },
    /// Puts a host into an aggregate.
    AddHost { host: String, aggregate: i64, name: String },
    /// Takes a host out of an aggregate.
    RemoveHost { host: String, aggregate: i64, name: String },
    /// Sets the traits of a resource provider; those of `create` may not exist yet.
    SetTraits { provider: String, generation: i64, traits: Vec<String>, create: Vec<String> },
    /// Creates the smoke server on a host.
    Boot { host: String, zone: String, name: String, smoke: Smoke },
    /// Deletes the smoke server.
    DeleteServer { id: String, name: String },
    /// Moves a server that runs, for the drain with that uid.
    LiveMigrate { server: String, drain: String },
    /// Moves a server that is shut off.
    ColdMigrate { server: String, drain: String },
    /// Confirms that a server has moved.
    Confirm { server: String, drain: String },
    /// Aborts a live migration.
    Abort { server: String, migration: i64 },
    /// Deletes a compute service.
    DeleteService { host: String, service: String },
    /// Deletes the allocations of a consumer that is no server any more.
    DeleteAllocations { consumer: String },
    /// Deletes a resource provider.
    DeleteProvider { provider: String },
    /// Keeps pods away from a node that leaves.
    Taint { node: String },
    /// Lets pods run on a node again.
    Untaint { node: String },
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.deed {
            Deed::Enable { host, .. } => write!(f, "enable the compute service of {host}"),
            Deed::Disable { host, reason, .. } => {
                write!(f, "disable the compute service of {host} with reason {reason:?}")
            }
            Deed::AddHost { host, name, .. } => write!(f, "add {host} to aggregate {name}"),
            Deed::RemoveHost { host, name, .. } => write!(f, "remove {host} from aggregate {name}"),
            Deed::SetTraits { provider, traits, .. } => {
                let custom: Vec<&str> =
                    traits.iter().map(String::as_str).filter(|name| name.starts_with("CUSTOM_")).collect();
                write!(f, "set the custom traits of resource provider {provider} to [{}]", custom.join(", "))
            }
            Deed::Boot { host, name, zone, .. } => write!(f, "create server {name} in {zone}:{host}"),
            Deed::DeleteServer { id, name } => write!(f, "delete server {name} ({id})"),
            Deed::LiveMigrate { server, .. } => write!(f, "live-migrate server {server}"),
            Deed::ColdMigrate { server, .. } => write!(f, "migrate server {server}"),
            Deed::Confirm { server, .. } => write!(f, "confirm the migration of server {server}"),
            Deed::Abort { server, migration } => write!(f, "abort migration {migration} of server {server}"),
            Deed::DeleteService { host, service } => write!(f, "delete the compute service of {host} ({service})"),
            Deed::DeleteAllocations { consumer } => write!(f, "delete the allocations of {consumer}"),
            Deed::DeleteProvider { provider } => write!(f, "delete resource provider {provider}"),
            Deed::Taint { node } => write!(f, "taint node {node} with {}", super::nodes::TAINT),
            Deed::Untaint { node } => write!(f, "remove the taint {} from node {node}", super::nodes::TAINT),
        }
    }
}

impl Action for Order {
    fn verb(&self) -> Verb {
        match self.deed {
            Deed::Boot { .. } => Verb::Create,
            Deed::DeleteServer { .. }
            | Deed::Abort { .. }
            | Deed::DeleteService { .. }
            | Deed::DeleteAllocations { .. }
            | Deed::DeleteProvider { .. } => Verb::Delete,
            _ => Verb::Update,
        }
    }
}
