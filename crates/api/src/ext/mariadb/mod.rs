//! Kinds of mariadb-operator (`k8s.mariadb.com`): servers, the proxy in front of them, databases, users and grants,
//! and backups.

mod backup;
mod maxscale;
mod server;
mod sql;

pub use backup::{
    BackedUpRef, Backup, BackupClaim, BackupPods, BackupSchedule, BackupSpec, BackupStorage, Compression, JOB_FAILED,
    RestartPolicy, Restore, RestoreSpec,
};
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
