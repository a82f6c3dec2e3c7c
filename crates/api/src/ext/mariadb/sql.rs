//! Database, User and Grant: what a service needs inside a MariaDB.
//!
//! The operator's webhook lets neither `mariaDbRef`, `name` and `host` nor a database's character set change later.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::OPERATOR;
use crate::blocks::Condition;
use crate::ext::{Conditions, SecretKey};

/// Label of a Secret, with any value, that makes mariadb-operator follow its changes: without it, a password that is
/// rotated stays the old one in MariaDB until the operator looks again.
pub const WATCH_LABEL: &str = "k8s.mariadb.com/watch";

/// The MariaDB that something is in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MariaDbRef {
    /// Name of the MariaDB.
    #[serde(default)]
    pub name: String,
    /// Its namespace; that of the referring object when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Whether to wait until it is ready; so when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_for_it: Option<bool>,
}

impl MariaDbRef {
    /// The MariaDB `name` in the same namespace.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

words! {
    /// What happens in the MariaDB when the object is deleted.
    CleanupPolicy {
        /// Nothing.
        Skip = "Skip",
        /// What it stands for is dropped.
        Delete = "Delete",
    }
}

/// A database.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "k8s.mariadb.com",
    version = "v1alpha1",
    kind = "Database",
    plural = "databases",
    namespaced,
    status = "Conditions",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseSpec {
    /// Where it is.
    #[serde(default)]
    pub maria_db_ref: MariaDbRef,
    /// Its name; the object's when absent, which can have no underscore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Character set; `utf8` when absent, which a server's `old_mode` reads as three or as four bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub character_set: Option<String>,
    /// Collation; `utf8_general_ci` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collate: Option<String>,
    /// What happens to the data when the object is deleted; it is dropped when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup_policy: Option<CleanupPolicy>,
    /// How often the operator looks whether it is still there, such as `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue_interval: Option<String>,
    /// How long the operator waits after a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_interval: Option<String>,
}

impl DatabaseSpec {
    /// The character set that the OpenStack services are tried with, by the name that every server reads alike.
    pub const CHARACTER_SET: &'static str = "utf8mb3";
    /// The collation that goes with it.
    pub const COLLATE: &'static str = "utf8mb3_general_ci";

    /// The database `name`, for an OpenStack service.
    pub fn new(mariadb: MariaDbRef, name: impl Into<String>) -> Self {
        Self {
            maria_db_ref: mariadb,
            name: Some(name.into()),
            character_set: Some(Self::CHARACTER_SET.to_string()),
            collate: Some(Self::COLLATE.to_string()),
            ..Self::default()
        }
    }
}

/// A user.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "k8s.mariadb.com",
    version = "v1alpha1",
    kind = "User",
    plural = "users",
    namespaced,
    status = "Conditions",
    derive = "PartialEq",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct UserSpec {
    /// Where the user is.
    #[serde(default)]
    pub maria_db_ref: MariaDbRef,
    /// SQL name; the object's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where the user may come from; from anywhere, `%`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The password; the account is locked when absent. A new one reaches MariaDB at once if the Secret carries
    /// [`WATCH_LABEL`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_secret_key_ref: Option<SecretKey>,
    /// How many connections the user may have at once. Never optional: an absent one is 10, which the workers of a
    /// single API pod exceed, and the operator takes 0, which is no limit in SQL, for an absent one.
    #[serde(default = "UserSpec::connections_when_absent")]
    pub max_user_connections: i32,
    /// What the connection must be like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require: Option<Require>,
    /// What happens to the user when the object is deleted; it is dropped when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup_policy: Option<CleanupPolicy>,
    /// How often the operator looks whether the user is still there, such as `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue_interval: Option<String>,
    /// How long the operator waits after a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_interval: Option<String>,
}

impl UserSpec {
    /// Connections for a user whose number of workers is not known. The server's own `max_connections` stays the bound for all.
    pub const MANY_CONNECTIONS: i32 = 1000;

    /// The user `name` with `MANY_CONNECTIONS`; one who knows better sets `max_user_connections`.
    pub fn new(mariadb: MariaDbRef, name: impl Into<String>, password: SecretKey) -> Self {
        Self {
            maria_db_ref: mariadb,
            name: Some(name.into()),
            host: None,
            password_secret_key_ref: Some(password),
            max_user_connections: Self::MANY_CONNECTIONS,
            require: None,
            cleanup_policy: None,
            requeue_interval: None,
            retry_interval: None,
        }
    }

    fn connections_when_absent() -> i32 {
        10
    }
}

/// What a user's connection must be like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Require {
    /// Encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssl: Option<bool>,
    /// Encrypted, with a valid client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x509: Option<bool>,
}

/// What a user may do. It fails, and is tried again, until the user exists.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "k8s.mariadb.com",
    version = "v1alpha1",
    kind = "Grant",
    plural = "grants",
    namespaced,
    status = "GrantStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct GrantSpec {
    /// Where the user is.
    #[serde(default)]
    pub maria_db_ref: MariaDbRef,
    /// SQL name of the user, not the name of its object.
    #[serde(default)]
    pub username: String,
    /// Where the user comes from; from anywhere, `%`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What is granted, such as `ALL PRIVILEGES`.
    #[serde(default)]
    pub privileges: Vec<String>,
    /// On which database; on all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// On which table; on all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// Whether the user may pass it on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_option: Option<bool>,
    /// What happens to the grant when the object is deleted; it is revoked when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup_policy: Option<CleanupPolicy>,
    /// How often the operator looks whether the grant still holds, such as `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue_interval: Option<String>,
    /// How long the operator waits after a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_interval: Option<String>,
}

impl GrantSpec {
    /// All privileges on `database` for the SQL user `username`.
    pub fn all(mariadb: MariaDbRef, username: impl Into<String>, database: impl Into<String>) -> Self {
        Self {
            maria_db_ref: mariadb,
            username: username.into(),
            privileges: vec!["ALL PRIVILEGES".to_string()],
            database: Some(database.into()),
            table: Some("*".to_string()),
            ..Self::default()
        }
    }
}

/// What mariadb-operator reports of a Grant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantStatus {
    /// `Ready`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// What is granted now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub current_privileges: Vec<String>,
}

ready_by_condition!(OPERATOR; Database, User, Grant);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ext::{Readiness, Ready};

    #[test]
    fn a_user_gets_more_connections_than_the_operator_would_give() {
        let spec = UserSpec::new(MariaDbRef::new("ledger"), "clerk", SecretKey::new("clerk-db", "password"));
        let written = serde_json::to_value(&spec).unwrap();
        assert_eq!(written["maxUserConnections"], 1000);
        assert_eq!(written["mariaDbRef"], serde_json::json!({"name": "ledger"}));
    }

    #[test]
    fn a_new_grant_has_no_status() {
        let grant = Grant::new("clerk", GrantSpec::all(MariaDbRef::new("ledger"), "clerk", "accounts"));
        let message = "has no status yet: is mariadb-operator running?".to_string();
        assert_eq!(grant.readiness(), Ready::No { reason: "NoStatus".into(), message });
    }
}
