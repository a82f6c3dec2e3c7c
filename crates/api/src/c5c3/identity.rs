//! Who the services are in Keystone: the administrator, the service users and their application credentials.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::blocks::{NamespacedRef, SecretKeyRef};

/// Identities that are made when the ControlPlane starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// Keystone's part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keystone: Option<IdentityKeystone>,
}

/// Keystone, as the identity section has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdentityKeystone {
    /// What is made at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<IdentityBootstrap>,
}

/// The users that exist from the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdentityBootstrap {
    /// The administrator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin_user: Option<AdminUser>,
    /// Service users beside or instead of the conventional ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub service_users: Vec<ServiceUser>,
}

/// The administrator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdminUser {
    /// Name; `admin` when absent.
    #[serde(default = "admin")]
    #[schemars(length(min = 1, max = 255))]
    pub name: String,
    /// The password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_secret_ref: Option<SecretKeyRef>,
}

fn admin() -> String {
    "admin".into()
}

/// A user that a service signs in as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceUser {
    /// Name of the user.
    #[schemars(length(min = 1, max = 255))]
    pub name: String,
    /// Project it has its roles in; `service` when absent.
    #[serde(default = "service")]
    #[schemars(length(min = 1, max = 64))]
    pub project: String,
    /// Its roles; `admin` and `service` when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 64)))]
    pub roles: Vec<String>,
    /// The password it is created with; a random one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_secret_ref: Option<SecretKeyRef>,
    /// The credential that the service really signs in with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_credential: Option<ServiceCredential>,
}

fn service() -> String {
    "service".into()
}

/// An application credential of a service user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceCredential {
    /// Whether it is made.
    #[serde(default = "crate::blocks::yes")]
    pub enabled: bool,
    /// Name in Keystone; `<user>-app-credential` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub name: Option<String>,
    /// Roles it carries; all of the user's when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 64)))]
    pub roles: Vec<String>,
    /// Secret it is written to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_secret_ref: Option<NamespacedRef>,
}

/// How far the identities are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdentityStatus {
    /// In a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub phase: Option<String>,
    /// User by user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub service_users: Vec<ServiceUserStatus>,
}

/// How far one service user is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceUserStatus {
    /// Name of the user.
    #[schemars(length(max = 255))]
    pub name: String,
    /// In a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub status: Option<String>,
    /// Its id in Keystone.
    #[serde(default, rename = "userID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub user_id: Option<String>,
    /// Its application credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_credential: Option<ServiceCredentialStatus>,
}

/// How far one application credential is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceCredentialStatus {
    /// In a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub status: Option<String>,
    /// Its id in Keystone.
    #[serde(default, rename = "credentialID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub credential_id: Option<String>,
    /// When it stops working.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
}
