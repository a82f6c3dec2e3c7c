//! Users.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::envelope::kind;
use super::names::{ObjectRef, OpenStackName};

kind! {
    /// A Keystone user: a person or a service that signs in.
    "User", User, UserSpec, UserStatus,
    resource UserResource, filter UserFilter, observed UserObserved
}

/// The user as it should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(oldSelf.passwordRef) || has(self.passwordRef)").message("passwordRef may not be removed once set"))]
pub struct UserResource {
    /// The name in Keystone; the object's own name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<OpenStackName>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub description: Option<String>,
    /// The Domain that it belongs to; the domain of the credentials when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self == oldSelf").message("domainRef is immutable"))]
    pub domain_ref: Option<ObjectRef>,
    /// The Project that it works in when it names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self == oldSelf").message("defaultProjectRef is immutable"))]
    pub default_project_ref: Option<ObjectRef>,
    /// Whether it can sign in; true when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// A Secret whose key `password` holds the password; without one it cannot sign in with a password. A changed
    /// Secret is applied when its name changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_ref: Option<ObjectRef>,
}

/// Which user to read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct UserFilter {
    /// Its exact name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<OpenStackName>,
    /// The Domain that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain_ref: Option<ObjectRef>,
}

/// The user as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserObserved {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub name: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// The id of its domain.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "domainID")]
    #[schemars(length(max = 1024))]
    pub domain_id: Option<String>,
    /// The id of its default project.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "defaultProjectID")]
    #[schemars(length(max = 1024))]
    pub default_project_id: Option<String>,
    /// Whether it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// When its password expires, as Keystone writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub password_expires_at: Option<String>,
    /// The Secret whose password was set last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub applied_password_ref: Option<String>,
}
