//! CephClient: a Ceph user and the Secret with its key.

use std::collections::BTreeMap;

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::OPERATOR;
use crate::ext::readiness::Judge;
use crate::ext::{Readiness, Ready};

/// A Ceph user. It must live in the namespace of the CephCluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ceph.rook.io",
    version = "v1",
    kind = "CephClient",
    plural = "cephclients",
    namespaced,
    status = "CephClientStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct CephClientSpec {
    /// What the user may do, by daemon: `mon`, `osd`, `mgr`, `mds`.
    #[serde(default)]
    pub caps: BTreeMap<String, String>,
    /// Name of the Ceph user without `client.`; the object's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where the key is written; `rook-ceph-client-` and the object's name when absent. Cannot change once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
    /// Whether there shall be no Secret with the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove_secret: Option<bool>,
    /// How the key is rotated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<CephClientSecurity>,
}

/// Security of a Ceph user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CephClientSecurity {
    /// Its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cephx: Option<Cephx>,
}

/// How a cephx key is rotated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cephx {
    /// What starts a rotation; nothing does when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_rotation_policy: Option<KeyRotationPolicy>,
    /// Raise it to rotate the key. It can neither fall nor, once set, go away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_generation: Option<i64>,
    /// Cipher of the key; Ceph's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_type: Option<CephxKeyType>,
}

words! {
    /// What starts a rotation of a cephx key.
    KeyRotationPolicy {
        /// Nothing.
        Disabled = "Disabled",
        /// A higher `keyGeneration`.
        KeyGeneration = "KeyGeneration",
    }
}

words! {
    /// Cipher of a cephx key.
    CephxKeyType {
        /// AES-128.
        Aes = "aes",
        /// AES-256, which older clients do not know.
        Aes256k = "aes256k",
    }
}

/// What Rook reports. There are no conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CephClientStatus {
    /// `Ready` when the key is in the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The generation that the phase is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `secretName`, where the key is.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub info: BTreeMap<String, String>,
    /// The key as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cephx: Option<CephxStatus>,
}

/// A cephx key as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CephxStatus {
    /// How often it was rotated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_generation: Option<i64>,
    /// Its cipher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_type: Option<String>,
    /// The release of Ceph that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_ceph_version: Option<String>,
}

impl CephClient {
    /// The Ceph user, without `client.`.
    pub fn user(&self) -> Option<&str> {
        self.spec.name.as_deref().or(self.metadata.name.as_deref())
    }

    /// The Secret with `userID`, `userKey`, and the key once more under the user's name.
    pub fn secret(&self) -> Option<String> {
        let reported = self.status.as_ref().and_then(|status| status.info.get("secretName")).cloned();
        reported
            .or_else(|| self.spec.secret_name.clone())
            .or_else(|| Some(format!("rook-ceph-client-{}", self.metadata.name.as_ref()?)))
    }
}

impl Readiness for CephClient {
    fn readiness(&self) -> Ready {
        Judge::judge(OPERATOR, &self.metadata, self.status.as_ref(), |judge, status| {
            judge.in_state("phase", status.phase.as_deref(), "Ready", None)?;
            judge.current(status.observed_generation)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn client(status: &serde_json::Value) -> CephClient {
        serde_json::from_value(json!({
            "apiVersion": "ceph.rook.io/v1", "kind": "CephClient",
            "metadata": {"name": "potter", "generation": 2},
            "spec": {"name": "clay", "caps": {"mon": "profile rbd"}}, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_ceph_client_is_ready_by_phase_and_generation() {
        assert_eq!(client(&json!({"phase": "Ready", "observedGeneration": 2})).readiness(), Ready::Yes);
        let Ready::No { reason, .. } = client(&json!({"phase": "Ready", "observedGeneration": 1})).readiness() else {
            panic!()
        };
        assert_eq!(reason, "Outdated");
        assert_eq!(
            client(&json!({"phase": "Failure"})).readiness(),
            Ready::No { reason: "Failure".into(), message: "phase is Failure, not Ready".into() },
        );
        let Ready::No { message, .. } = client(&json!({})).readiness() else { panic!() };
        assert_eq!(message, "has no status yet: is Rook running?");
    }

    #[test]
    fn the_secret_is_the_one_that_rook_reports_or_is_named_after_the_object() {
        assert_eq!(client(&json!({})).user(), Some("clay"));
        assert_eq!(client(&json!({})).secret().unwrap(), "rook-ceph-client-potter");
        assert_eq!(client(&json!({"info": {"secretName": "kiln"}})).secret().unwrap(), "kiln");
    }
}
