//! Which columns each built-in kind has. A name that ends in `*` is shown only in the wide view.

use serde_json::{Value, json};

use super::{Cells, access, autoscaling, cluster, network, pod, storage, workload};
use crate::jsonpath::JsonPath;
use crate::read::{int_at, str_at};

/// One column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// `name` for the column that identifies the row.
    pub format: String,
    /// What it shows.
    pub description: String,
    /// Columns above zero are shown only in the wide view.
    pub priority: i64,
    /// Where a custom column takes its value from; none if the path is not understood, and then the cell is empty.
    pub(super) path: Option<JsonPath>,
}

impl Column {
    /// A printer column of a CustomResourceDefinition.
    pub(crate) fn custom(declared: &Value) -> Self {
        Self {
            name: str_at(declared, "name").to_owned(),
            kind: str_at(declared, "type").to_owned(),
            format: str_at(declared, "format").to_owned(),
            description: str_at(declared, "description").to_owned(),
            priority: int_at(declared, "priority"),
            path: JsonPath::parse(str_at(declared, "jsonPath")).ok(),
        }
    }

    pub(super) fn built_in(heading: &&str) -> Self {
        let (name, priority) = heading.strip_suffix('*').map_or((*heading, 0), |name| (name, 1));
        Self {
            name: name.to_owned(),
            kind: kind(name).to_owned(),
            format: if name == "Name" { "name" } else { "" }.to_owned(),
            description: description(name),
            priority,
            path: None,
        }
    }

    pub(super) fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

const INTEGERS: &[&str] = &[
    "Allowed Disruptions",
    "Available",
    "Up-to-date",
    "Active",
    "Data",
    "Secrets",
    "Webhooks",
    "Replicas",
    "Revision",
    "Drivers",
    "Desired",
    "Current",
    "Value",
];

fn kind(name: &str) -> &'static str {
    match name {
        "Suspend" | "AttachRequired" | "PodInfoOnMount" | "StorageCapacity" | "RequiresRepublish" | "Attached"
        | "Global-Default" => "boolean",
        "Created At" => "date",
        _ if INTEGERS.contains(&name) => "integer",
        _ => "string",
    }
}

fn description(name: &str) -> String {
    match name {
        "Name" => "Name must be unique within a namespace.".to_owned(),
        "Age" => "Time since the object was created.".to_owned(),
        "Created At" => "When the object was created.".to_owned(),
        other => format!("{other} of the object."),
    }
}

/// Columns, and what fills them, of a kind.
pub(super) fn built_in(group: &str, kind: &str) -> (&'static [&'static str], Cells) {
    match (group, kind) {
        ("", "Pod") => (
            &["Name", "Ready", "Status", "Restarts", "Age", "IP*", "Node*", "Nominated Node*", "Readiness Gates*"],
            pod::pod,
        ),
        ("", "PodTemplate") => (&["Name", "Containers", "Images", "Pod Labels"], workload::pod_template),
        ("", "ReplicationController") | ("apps", "ReplicaSet") => (
            &["Name", "Desired", "Current", "Ready", "Age", "Containers*", "Images*", "Selector*"],
            workload::replica_set,
        ),
        ("apps", "Deployment") => (
            &["Name", "Ready", "Up-to-date", "Available", "Age", "Containers*", "Images*", "Selector*"],
            workload::deployment,
        ),
        ("apps", "StatefulSet") => (&["Name", "Ready", "Age", "Containers*", "Images*"], workload::stateful_set),
        ("apps", "DaemonSet") => (
            &[
                "Name",
                "Desired",
                "Current",
                "Ready",
                "Up-to-date",
                "Available",
                "Node Selector",
                "Age",
                "Containers*",
                "Images*",
                "Selector*",
            ],
            workload::daemon_set,
        ),
        ("apps", "ControllerRevision") => (&["Name", "Controller", "Revision", "Age"], workload::revision),
        ("batch", "Job") => (
            &["Name", "Status", "Completions", "Duration", "Age", "Containers*", "Images*", "Selector*"],
            workload::job,
        ),
        ("batch", "CronJob") => (
            &[
                "Name",
                "Schedule",
                "Timezone",
                "Suspend",
                "Active",
                "Last Schedule",
                "Age",
                "Containers*",
                "Images*",
                "Selector*",
            ],
            workload::cron_job,
        ),
        ("autoscaling", "HorizontalPodAutoscaler") => {
            (&["Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"], autoscaling::autoscaler)
        }
        ("policy", "PodDisruptionBudget") => {
            (&["Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"], workload::disruption_budget)
        }
        ("", "Service") => {
            (&["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector*"], network::service)
        }
        ("", "Endpoints") => (&["Name", "Endpoints", "Age"], network::endpoints),
        ("discovery.k8s.io", "EndpointSlice") => {
            (&["Name", "AddressType", "Ports", "Endpoints", "Age"], network::endpoint_slice)
        }
        ("networking.k8s.io", "Ingress") => (&["Name", "Class", "Hosts", "Address", "Ports", "Age"], network::ingress),
        ("networking.k8s.io", "IngressClass") => (&["Name", "Controller", "Parameters", "Age"], network::ingress_class),
        ("networking.k8s.io", "NetworkPolicy") => (&["Name", "Pod-Selector", "Age"], network::policy),
        ("storage.k8s.io", _) | ("", "PersistentVolume" | "PersistentVolumeClaim") => storage::built_in(kind),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            (&["Name", "Role", "Age", "Users*", "Groups*", "ServiceAccounts*"], access::binding)
        }
        ("certificates.k8s.io", _) => {
            (&["Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"], access::signing_request)
        }
        _ => cluster::built_in(group, kind),
    }
}
