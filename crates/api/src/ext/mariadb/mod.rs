//! Kinds of mariadb-operator (`k8s.mariadb.com`): servers, the proxy in front of them, and databases, users and grants.

mod maxscale;
mod server;
mod sql;

pub use maxscale::{
    Listener, MaxScale, MaxScaleAdmin, MaxScaleAuth, MaxScaleMonitor, MaxScaleService, MaxScaleSpec, MaxScaleStatus,
    MaxScaleTls, Monitoring, NamedState, Router,
};
pub use server::{
    Affinity, CertificateStatus, DisruptionBudget, Galera, GaleraPrimary, GaleraRecovery, GeneratedSecretKey, MariaDB,
    MariaDBSpec, MariaDBStatus, MariaDBTls, MariaDBTlsStatus, MaxScaleRef, PvcRetention, PvcRetentionPolicy, Service,
    ServiceType, Storage, ca_bundle_secret, client_cert_secret,
};
pub use sql::{
    CleanupPolicy, Database, DatabaseSpec, Grant, GrantSpec, GrantStatus, MariaDbRef, Require, User, UserSpec,
    WATCH_LABEL,
};

const OPERATOR: &str = "mariadb-operator";
