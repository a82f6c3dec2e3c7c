//! The account of the scheduler, and what it may do: read Pipelines and Hypervisors, write Decisions and Deschedulings, read Nova's
//! credential, publish events, hold one Lease.

use c5c3_kit::{Child, access};
use c5c3_service::Instance;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::core::ObjectMeta;

use crate::scheduler::COMPONENT;

/// To follow objects.
pub(crate) const READ: &[&str] = &["get", "list", "watch"];

/// What the scheduler does with Decisions.
pub(crate) const DECISIONS: &[&str] = &["create", "delete", "get", "list", "patch"];

/// What the scheduler does with Deschedulings.
pub(crate) const DESCHEDULINGS: &[&str] = &["create", "delete", "get", "list"];

/// The Secret with the clouds.yaml with which servers are moved; a ControlPlane with Cortex makes it.
const CLOUDS_SECRET: &str = "cortex-clouds-yaml";

/// The Lease of the scheduler that decides.
const LEASE: &str = "cortex-scheduler";

const RBAC: &str = "rbac.authorization.k8s.io";
const CORTEX: &str = "cortex.c5c3.io";
const HYPERVISORS: &str = "hypervisor.c5c3.io";

/// The name of the account.
pub(crate) fn account(instance: &Instance) -> String {
    instance.named(COMPONENT)
}

pub(crate) fn children(instance: &Instance) -> Vec<Child> {
    let name = account(instance);
    let meta = || instance.meta(&name, COMPONENT);
    // Names of kinds without a namespace are shared by all Cortexes.
    let everywhere = format!("{}-{name}", instance.namespace);
    let unplaced = || ObjectMeta { namespace: None, ..instance.meta(&everywhere, COMPONENT) };
    let role_ref =
        |kind: &str, name: &str| RoleRef { api_group: RBAC.into(), kind: kind.into(), name: name.to_owned() };
    let subjects = || {
        Some(vec![Subject {
            kind: "ServiceAccount".into(),
            name: name.clone(),
            namespace: Some(instance.namespace.clone()),
            ..Subject::default()
        }])
    };
    let account =
        ServiceAccount { metadata: meta(), automount_service_account_token: Some(false), ..ServiceAccount::default() };
    let mut rules = vec![
        rule(CORTEX, &["pipelines"], READ),
        rule(CORTEX, &["decisions"], DECISIONS),
        rule(CORTEX, &["decisions/status", "pipelines/status"], &["patch"]),
        rule(CORTEX, &["deschedulings"], DESCHEDULINGS),
        rule(CORTEX, &["deschedulings/status"], &["update"]),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
        PolicyRule { resource_names: Some(vec![CLOUDS_SECRET.to_owned()]), ..rule("", &["secrets"], &["get"]) },
    ];
    rules.extend(access::lease(LEASE));
    let hosts = vec![rule(HYPERVISORS, &["hypervisors"], READ)];
    vec![
        Child::new(&account),
        Child::new(&Role { metadata: meta(), rules: Some(rules) }),
        Child::new(&RoleBinding { metadata: meta(), role_ref: role_ref("Role", &name), subjects: subjects() }),
        Child::new(&ClusterRole { metadata: unplaced(), rules: Some(hosts), aggregation_rule: None }),
        Child::new(&ClusterRoleBinding {
            metadata: unplaced(),
            role_ref: role_ref("ClusterRole", &everywhere),
            subjects: subjects(),
        }),
    ]
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}
