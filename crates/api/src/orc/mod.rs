//! The identity kinds of K-ORC (`openstack.k-orc.cloud`), as wire-compatible types: what upstream's CRDs accept and
//! refuse, these do. One file per kind, with what a user asks for, what an import searches for, and what was observed;
//! everything else is the same for all of them and lives in `envelope`.

mod application_credential;
mod domain;
mod endpoint;
mod envelope;
mod group;
mod names;
mod project;
mod role;
mod role_assignment;
mod service;
mod user;

pub use application_credential::{
    AccessRule, ApplicationCredential, ApplicationCredentialFilter, ApplicationCredentialObserved,
    ApplicationCredentialResource, ApplicationCredentialSpec, ApplicationCredentialStatus, HttpMethod,
    ObservedAccessRule, ObservedRole,
};
pub use domain::{Domain, DomainFilter, DomainObserved, DomainResource, DomainSpec, DomainStatus};
pub use endpoint::{
    Endpoint, EndpointFilter, EndpointObserved, EndpointResource, EndpointSpec, EndpointStatus, Interface,
};
pub use envelope::{
    AVAILABLE, CloudCredentialsRef, Condition, Import, ImportByFilter, ManagedOptions, ManagementPolicy, OnDelete,
    OrcKind, PROGRESSING, Spec, Status, TERMINAL_REASONS, is_available, terminal_error,
};
pub use group::{Group, GroupFilter, GroupObserved, GroupResource, GroupSpec, GroupStatus};
pub use names::{KeystoneName, KeystoneTag, Name, ObjectRef, OpenStackName};
pub use project::{Project, ProjectFilter, ProjectObserved, ProjectResource, ProjectSpec, ProjectStatus};
pub use role::{Role, RoleFilter, RoleObserved, RoleResource, RoleSpec, RoleStatus};
pub use role_assignment::{
    RoleAssignment, RoleAssignmentFilter, RoleAssignmentObserved, RoleAssignmentResource, RoleAssignmentSpec,
    RoleAssignmentStatus,
};
pub use service::{Service, ServiceFilter, ServiceObserved, ServiceResource, ServiceSpec, ServiceStatus};
pub use user::{User, UserFilter, UserObserved, UserResource, UserSpec, UserStatus};
