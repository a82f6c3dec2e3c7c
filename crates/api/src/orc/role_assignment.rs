//! Role assignments: which user or group has which role on which project or domain.

#![expect(clippy::struct_field_names, reason = "the names are upstream's")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::envelope::{Condition, ImportByFilter, kind};
use super::names::ObjectRef;

kind! {
    /// A Keystone role assignment: the role of a user or group on a project or domain.
    "RoleAssignment", RoleAssignment, RoleAssignmentSpec, RoleAssignmentStatus,
    resource RoleAssignmentResource, import ImportByFilter<RoleAssignmentFilter>, observed RoleAssignmentObserved,
    columns []
}

/// The assignment as it should be. Nothing of it can change; make another one instead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("(has(self.userRef) && !has(self.groupRef)) || (!has(self.userRef) && has(self.groupRef))")
        .message("exactly one of userRef or groupRef is required"),
    validation = Rule::new("(has(self.projectRef) && !has(self.domainRef)) || (!has(self.projectRef) && has(self.domainRef))")
        .message("exactly one of projectRef or domainRef is required"),
    validation = Rule::new("self == oldSelf").message("RoleAssignmentResourceSpec is immutable")
)]
pub struct RoleAssignmentResource {
    /// The Role.
    pub role_ref: ObjectRef,
    /// The User that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_ref: Option<ObjectRef>,
    /// The Group whose users have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_ref: Option<ObjectRef>,
    /// The Project that it holds in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_ref: Option<ObjectRef>,
    /// The Domain that it holds in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain_ref: Option<ObjectRef>,
}

/// Which assignment to read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct RoleAssignmentFilter {
    /// The Role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_ref: Option<ObjectRef>,
    /// The User that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_ref: Option<ObjectRef>,
    /// The Group whose users have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_ref: Option<ObjectRef>,
    /// The Project that it holds in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_ref: Option<ObjectRef>,
    /// The Domain that it holds in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain_ref: Option<ObjectRef>,
}

/// What was observed. There is no id: the five ids of the resource say which assignment it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleAssignmentStatus {
    /// Available: the assignment is there. Progressing: there is still something to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// When the assignment was last read without anything left to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync_time: Option<Time>,
    /// The assignment as it is in OpenStack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<RoleAssignmentObserved>,
}

/// The assignment as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleAssignmentObserved {
    /// The id of the role.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "roleID")]
    #[schemars(length(max = 1024))]
    pub role_id: Option<String>,
    /// The id of the user.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "userID")]
    #[schemars(length(max = 1024))]
    pub user_id: Option<String>,
    /// The id of the group.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "groupID")]
    #[schemars(length(max = 1024))]
    pub group_id: Option<String>,
    /// The id of the project.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "projectID")]
    #[schemars(length(max = 1024))]
    pub project_id: Option<String>,
    /// The id of the domain.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "domainID")]
    #[schemars(length(max = 1024))]
    pub domain_id: Option<String>,
}
