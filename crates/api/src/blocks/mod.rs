//! The building blocks that kinds share, each written once: images, databases, queues, caches, references, conditions.
//!
//! Wire names are those of the seeds. A block never says which service uses it; conventions that depend on the service
//! (`<service>-db-credentials`) are applied by the operators.

mod condition;
mod config;
mod connection;
mod depends_on;
mod exposure;
mod image;
mod names;
mod numbers;
mod operations;
mod quantity;
mod reference;
mod retention;
mod schedule;
mod status;
mod text;
mod tls;
mod workload;

pub use condition::{Condition, ConditionStatus, WaitStatus};
pub use config::{ExtraConfig, Middleware, Plugin, PolicyOverrides, Position};
pub use connection::{Cache, CephRbd, Database, DatabaseTls, KeystoneAuth, Messaging, MessagingTls};
pub use depends_on::{DependencyKind, DependsOn};
pub use exposure::{
    Autoscaling, Exposure, GatewayRef, GatewayRoute, NetworkAccess, NetworkPeer, NetworkTarget, SecretStoreKind,
    SecretStoreRef,
};
pub use image::{Digest, Image, Repository, Tag};
pub use names::{Cidr, DataKey, DatabaseName, Host, HostPort, HttpUrl, ObjectName, OvsdbConnection, Region};
pub use numbers::{FernetKeys, Port, Quorum, Replicas, Size};
pub use operations::{CaBundleKey, CaBundleRef, ExtraFile, LogFormat, LogLevel, Logging, MountPath, Operations, Uwsgi};
pub use quantity::Quantity;
pub use reference::{AppCredentialRef, LocalRef, NamespacedRef, SecretKeyRef, SecretRef};
pub use retention::DeletionPolicy;
pub use schedule::{CronSchedule, Duration};
pub use status::{AccountState, ServiceAccount, ServiceIdentity, ServiceStatus};
pub use tls::{IssuerKind, IssuerRef, ServerTls, Tls};
pub use workload::{Resources, Scheduling, Workload};

/// The value of a switch that is on unless it is turned off.
pub(crate) fn yes() -> bool {
    true
}
