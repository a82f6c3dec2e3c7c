//! How a service reaches what it stands on: a database, a message queue, a cache, Keystone, Ceph.
//!
//! Each has a managed form (`clusterRef`, an object of an infrastructure operator) and an external one (addresses of
//! servers that exist already). With neither, the object that the ControlPlane creates by convention is used.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{AppCredentialRef, DatabaseName, Host, HostPort, HttpUrl, NamespacedRef, Port, Region, SecretRef};

/// A database schema on a MariaDB server, and the Secret with the account for it (keys `username`, `password`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.clusterRef) || !has(self.host)")
        .message("has both clusterRef and host; set clusterRef for a MariaDB object, or host for a server of yours"),
    validation = Rule::new("!has(self.port) || has(self.host)").message("sets port without host; set host, or remove port")
)]
pub struct Database {
    /// The MariaDB object that holds the schema; `mariadb` when neither this nor `host` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<NamespacedRef>,
    /// A server that exists already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// Port of that server; 3306 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<Port>,
    /// Name of the schema; the service's name when absent. It cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<DatabaseName>,
    /// Secret with `username` and `password`; `<service>-db-credentials` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// Encryption of the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<DatabaseTls>,
}

/// Encryption of a database connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseTls {
    /// Secret with the CA certificate, key `ca.crt`.
    pub ca_secret_ref: SecretRef,
    /// Secret with a client certificate, keys `tls.crt` and `tls.key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret_ref: Option<SecretRef>,
}

/// A RabbitMQ broker, and the Secret with the account for it (keys `username`, `password`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.clusterRef) || !has(self.hosts)")
    .message("has both clusterRef and hosts; set clusterRef for a RabbitmqCluster object, or hosts for brokers of yours"))]
pub struct Messaging {
    /// The RabbitmqCluster object; `rabbitmq` when neither this nor `hosts` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<NamespacedRef>,
    /// Brokers that exist already, each as `host:port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub hosts: Option<Vec<HostPort>>,
    /// Secret with `username` and `password`; `<service>-rabbitmq-credentials` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// Encryption of the connection; that of the RabbitmqCluster object when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<MessagingTls>,
}

/// Encryption of the connection to a broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessagingTls {
    /// Secret with the CA certificate that signed those of the brokers, key `ca.crt`.
    pub ca_secret_ref: SecretRef,
}

/// A Memcached cluster that tokens and lookups are cached in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.clusterRef) || !has(self.servers)")
    .message("has both clusterRef and servers; set clusterRef for the ControlPlane's cache, or servers for a cache of yours"))]
pub struct Cache {
    /// The Memcached object; `memcached` when neither this nor `servers` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<NamespacedRef>,
    /// Servers that exist already, each as `host:port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub servers: Option<Vec<HostPort>>,
    /// The dogpile backend; `dogpile.cache.pymemcache` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_.]+$"))]
    pub backend: Option<String>,
}

/// How a service authenticates to Keystone: with an application credential of its own user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeystoneAuth {
    /// The identity endpoint with its version; the `keystone` object's endpoint when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_url: Option<HttpUrl>,
    /// Secret with `application_credential_id` and `application_credential_secret`; `<service>-keystone-credentials`
    /// when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_credential_ref: Option<AppCredentialRef>,
    /// Region to look for endpoints in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
    /// Secret with the CA certificate that signed the one of the identity endpoint, key `ca.crt`; that of the `keystone`
    /// object's TLS when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<SecretRef>,
}

/// A pool in a Ceph cluster, and the keys for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CephRbd {
    /// Name of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    pub pool: Option<String>,
    /// Ceph user, without `client.`; when absent the name of the CephClient, `userID` of the Secret, or the service's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    pub user: Option<String>,
    /// Secret with `key` and `monitors`, and perhaps `userID` and `fsid`.
    pub ceph_secret_ref: SecretRef,
    /// The CephClient object that the key is from: its name is the user's, and it is what to look at while the Secret is
    /// missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceph_client_ref: Option<NamespacedRef>,
}
