//! Application credentials: passwords of programs, made by a user for one project.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::envelope::kind;
use super::names::{ObjectRef, OpenStackName};

kind! {
    /// A Keystone application credential: what a program signs in with instead of its user's password.
    "ApplicationCredential", ApplicationCredential, ApplicationCredentialSpec, ApplicationCredentialStatus,
    resource ApplicationCredentialResource, filter ApplicationCredentialFilter, observed ApplicationCredentialObserved
}

/// The application credential as it should be. Nothing of it can change; make another one instead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self == oldSelf").message("ApplicationCredentialResourceSpec is immutable"))]
pub struct ApplicationCredentialResource {
    /// The name in Keystone; the object's own name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<OpenStackName>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub description: Option<String>,
    /// The User that it belongs to. Keystone lets a user make them only for itself.
    pub user_ref: ObjectRef,
    /// A Secret whose key `value` holds the secret to use.
    pub secret_ref: ObjectRef,
    /// Whether it can make further application credentials and trusts; false when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrestricted: Option<bool>,
    /// The Roles that it has; those of the credentials in use when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub role_refs: Vec<ObjectRef>,
    /// The only requests that it can make; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub access_rules: Vec<AccessRule>,
    /// When it expires; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
}

/// A request that an application credential can make.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct AccessRule {
    /// The path, in which `*` and `**` stand for one and for many parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub path: Option<String>,
    /// The method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<HttpMethod>,
    /// The Service whose API it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_ref: Option<ObjectRef>,
}

/// A method of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "the names are those of RFC 9110")]
pub enum HttpMethod {
    Connect,
    Delete,
    Get,
    Head,
    Options,
    Patch,
    Post,
    Put,
    Trace,
}

/// Which application credential to read: those of a user, and its name or description.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 2))]
pub struct ApplicationCredentialFilter {
    /// The User that it belongs to.
    pub user_ref: ObjectRef,
    /// Its exact name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<OpenStackName>,
    /// Its exact description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
}

/// The application credential as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationCredentialObserved {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub name: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Whether it can make further application credentials and trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrestricted: Option<bool>,
    /// The id of the project that it works in.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "projectID")]
    #[schemars(length(max = 1024))]
    pub project_id: Option<String>,
    /// Its roles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub roles: Vec<ObservedRole>,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// The only requests that it can make.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub access_rules: Vec<ObservedAccessRule>,
}

/// A role of an application credential.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedRole {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub name: Option<String>,
    /// Its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub id: Option<String>,
    /// The id of its domain.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "domainID")]
    #[schemars(length(max = 1024))]
    pub domain_id: Option<String>,
}

/// A request that an application credential can make.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedAccessRule {
    /// Its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub id: Option<String>,
    /// The path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub path: Option<String>,
    /// The method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub method: Option<String>,
    /// The type of the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub service: Option<String>,
}
