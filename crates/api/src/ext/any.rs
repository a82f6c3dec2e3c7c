//! Readiness of an object whose kind is only known at run time.

use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::cert_manager::{Certificate, ClusterIssuer, Issuer};
use super::external_secrets::{ClusterSecretStore, ExternalSecret, PushSecret, SecretStore};
use super::gateway::HTTPRoute;
use super::mariadb::{Backup, Database, Grant, MariaDB, MaxScale, Restore};
use super::rabbitmq::{Permission, RabbitmqCluster, Vhost};
use super::rook::{CephBlockPool, CephClient, CephCluster};
use super::valkey::Valkey;
use super::{Readiness, Ready, mariadb, rabbitmq};

/// How a kind is judged.
struct Judged {
    group: fn() -> String,
    kind: fn() -> String,
    judge: fn(&Value) -> Option<Ready>,
}

impl Judged {
    const fn of<K: Resource<DynamicType = ()> + DeserializeOwned + Readiness>() -> Self {
        Self {
            group: || K::group(&()).into_owned(),
            kind: || K::kind(&()).into_owned(),
            judge: |object| K::deserialize(object).ok().map(|object| object.readiness()),
        }
    }
}

/// Every kind of others that we wait for.
const JUDGED: &[Judged] = &[
    Judged::of::<MariaDB>(),
    Judged::of::<MaxScale>(),
    Judged::of::<Database>(),
    Judged::of::<mariadb::User>(),
    Judged::of::<Grant>(),
    Judged::of::<Backup>(),
    Judged::of::<Restore>(),
    Judged::of::<RabbitmqCluster>(),
    Judged::of::<Vhost>(),
    Judged::of::<rabbitmq::User>(),
    Judged::of::<Permission>(),
    Judged::of::<Valkey>(),
    Judged::of::<ExternalSecret>(),
    Judged::of::<PushSecret>(),
    Judged::of::<SecretStore>(),
    Judged::of::<ClusterSecretStore>(),
    Judged::of::<Certificate>(),
    Judged::of::<Issuer>(),
    Judged::of::<ClusterIssuer>(),
    Judged::of::<CephCluster>(),
    Judged::of::<CephBlockPool>(),
    Judged::of::<CephClient>(),
    Judged::of::<HTTPRoute>(),
];

/// Whether an object can be used; none for kinds that we hold no slice of, and for objects that do not fit theirs.
pub fn readiness(group: &str, kind: &str, object: &Value) -> Option<Ready> {
    let judged = JUDGED.iter().find(|judged| (judged.group)() == group && (judged.kind)() == kind)?;
    (judged.judge)(object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_judged_by_its_group_and_kind() {
        let user = json!({"apiVersion": "k8s.mariadb.com/v1alpha1", "kind": "User", "metadata": {"name": "u"},
            "spec": {"mariaDbRef": {"name": "m"}, "maxUserConnections": 5},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Created", "message": "",
                                       "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        assert_eq!(readiness("k8s.mariadb.com", "User", &user), Some(Ready::Yes));
        assert_eq!(readiness("openstack.k-orc.cloud", "User", &user), None);
    }
}
