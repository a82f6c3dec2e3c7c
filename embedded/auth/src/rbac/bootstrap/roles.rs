//! The tables: roles for people, for the parts of the cluster, and who holds them.

use super::Who::{Group, ServiceAccount, User};
use super::{EVENTS, Holder, READ, READ_WRITE, RoleTable, Row, WRITE, named, on, paths, role};

const LEASES: &str = "coordination.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const WORKLOADS: &str = "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale \
                         statefulsets statefulsets/scale";

const DELEGATED_AUTH: [Row; 2] = [
    on("create", "authentication.k8s.io", "tokenreviews"),
    on("create", "authorization.k8s.io", "subjectaccessreviews"),
];

pub(super) const CLUSTER_ROLES: &[RoleTable] = &[
    role("cluster-admin", &[on("*", "*", "*"), paths("*", "*")]),
    RoleTable { name: "admin", rows: &[], aggregates_to: None, aggregated: true },
    RoleTable { name: "edit", rows: &[], aggregates_to: Some("admin"), aggregated: true },
    RoleTable { name: "view", rows: &[], aggregates_to: Some("edit"), aggregated: true },
    RoleTable { name: "system:aggregate-to-admin", rows: ADMIN, aggregates_to: Some("admin"), aggregated: false },
    RoleTable { name: "system:aggregate-to-edit", rows: EDIT, aggregates_to: Some("edit"), aggregated: false },
    RoleTable { name: "system:aggregate-to-view", rows: VIEW, aggregates_to: Some("view"), aggregated: false },
    role(
        "system:discovery",
        &[paths("get", "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/")],
    ),
    role(
        "system:basic-user",
        &[
            on("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
            on("create", "authentication.k8s.io", "selfsubjectreviews"),
        ],
    ),
    role("system:public-info-viewer", &[paths("get", "/healthz /livez /readyz /version /version/")]),
    role(
        "system:monitoring",
        &[paths("get", "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*")],
    ),
    role(
        "system:service-account-issuer-discovery",
        &[paths("get", "/.well-known/openid-configuration /openid/v1/jwks")],
    ),
    role("system:auth-delegator", &DELEGATED_AUTH),
    role("system:kube-aggregator", &[on(READ, "core", "endpoints services")]),
    role(
        "system:kube-dns",
        &[on("list watch", "core", "endpoints services"), on("list watch", "discovery.k8s.io", "endpointslices")],
    ),
    role("system:kube-controller-manager", CONTROLLER_MANAGER),
    role("system:kube-scheduler", SCHEDULER),
    role("system:volume-scheduler", VOLUME_SCHEDULER),
    role("system:node", NODE),
    role(
        "system:node-bootstrapper",
        &[on("create get list watch", "certificates.k8s.io", "certificatesigningrequests")],
    ),
    role("system:node-proxier", NODE_PROXIER),
    role("system:node-problem-detector", &[on("get", "core", "nodes"), on("patch", "core", "nodes/status"), EVENTS]),
    role(
        "system:kubelet-api-admin",
        &[
            on(READ, "core", "nodes"),
            on("proxy", "core", "nodes"),
            on("*", "core", "nodes/log nodes/metrics nodes/proxy nodes/stats"),
        ],
    ),
    role("system:persistent-volume-provisioner", PROVISIONER),
];

const ADMIN: &[Row] =
    &[on("create", "authorization.k8s.io", "localsubjectaccessreviews"), on(READ_WRITE, RBAC, "rolebindings roles")];

const EDIT: &[Row] = &[
    on(READ, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
    on("impersonate", "core", "serviceaccounts"),
    on(WRITE, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
    on("create", "core", "pods/eviction"),
    on(
        WRITE,
        "core",
        "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets \
         serviceaccounts services services/proxy",
    ),
    on("create", "core", "serviceaccounts/token"),
    on(WRITE, "apps", WORKLOADS),
    on(WRITE, "autoscaling", "horizontalpodautoscalers"),
    on(WRITE, "batch", "cronjobs jobs"),
    on(WRITE, "policy", "poddisruptionbudgets"),
    on(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
    on(READ_WRITE, LEASES, "leases"),
];

const VIEW: &[Row] = &[
    on(
        READ,
        "core",
        "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers \
         replicationcontrollers/scale serviceaccounts services services/status",
    ),
    on(
        READ,
        "core",
        "bindings events limitranges namespaces/status pods/log pods/status replicationcontrollers/status \
         resourcequotas resourcequotas/status",
    ),
    on(READ, "core", "namespaces"),
    on(READ, "discovery.k8s.io", "endpointslices"),
    on(
        READ,
        "apps",
        "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets \
         replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
    ),
    on(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    on(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
    on(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    on(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
];

const CONTROLLER_MANAGER: &[Row] = &[
    EVENTS,
    on("create", LEASES, "leases"),
    named("get update", LEASES, "leases", "kube-controller-manager"),
    on("create", "core", "secrets serviceaccounts"),
    on("delete", "core", "secrets"),
    on("get", "core", "configmaps namespaces secrets serviceaccounts"),
    on("update", "core", "secrets serviceaccounts"),
    DELEGATED_AUTH[0],
    DELEGATED_AUTH[1],
    on("list watch", "*", "*"),
    on("create", "core", "serviceaccounts/token"),
];

const SCHEDULER: &[Row] = &[
    EVENTS,
    on("create", LEASES, "leases"),
    named("get update", LEASES, "leases", "kube-scheduler"),
    on(READ, "core", "nodes"),
    on("delete get list watch", "core", "pods"),
    on("create", "core", "bindings pods/binding"),
    on("patch update", "core", "pods/status"),
    on(READ, "core", "replicationcontrollers services"),
    on(READ, "apps", "replicasets"),
    on(READ, "apps", "statefulsets"),
    on(READ, "policy", "poddisruptionbudgets"),
    on(READ, "core", "persistentvolumeclaims persistentvolumes"),
    DELEGATED_AUTH[0],
    DELEGATED_AUTH[1],
    on(READ, "storage.k8s.io", "csinodes"),
    on(READ, "core", "namespaces"),
    on(READ, "storage.k8s.io", "csidrivers"),
    on(READ, "storage.k8s.io", "csistoragecapacities"),
];

const VOLUME_SCHEDULER: &[Row] = &[
    on("get list patch update watch", "core", "persistentvolumes"),
    on(READ, "storage.k8s.io", "storageclasses"),
    on("get list patch update watch", "core", "persistentvolumeclaims"),
];

const NODE: &[Row] = &[
    DELEGATED_AUTH[0],
    on("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
    on(READ, "core", "services"),
    on("create get list watch", "core", "nodes"),
    on("patch update", "core", "nodes/status"),
    on("patch update", "core", "nodes"),
    EVENTS,
    on(READ, "core", "pods"),
    on("create delete", "core", "pods"),
    on("patch update", "core", "pods/status"),
    on("create", "core", "pods/eviction"),
    on(READ, "core", "configmaps secrets"),
    on("get", "core", "persistentvolumeclaims persistentvolumes"),
    on("get", "core", "endpoints"),
    on("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
    on("create delete get patch update", LEASES, "leases"),
    on("get", "storage.k8s.io", "volumeattachments"),
    on("create", "core", "serviceaccounts/token"),
    on("get patch update", "core", "persistentvolumeclaims/status"),
    on(READ, "storage.k8s.io", "csidrivers"),
    on("create delete get patch update", "storage.k8s.io", "csinodes"),
    on(READ, "node.k8s.io", "runtimeclasses"),
];

const NODE_PROXIER: &[Row] = &[
    on("list watch", "core", "endpoints services"),
    on(READ, "core", "nodes"),
    EVENTS,
    on("list watch", "discovery.k8s.io", "endpointslices"),
];

const PROVISIONER: &[Row] = &[
    on("create delete get list watch", "core", "persistentvolumes"),
    on("get list update watch", "core", "persistentvolumeclaims"),
    on(READ, "storage.k8s.io", "storageclasses"),
    on("watch", "core", "events"),
    EVENTS,
];

pub(super) const HOLDERS: &[Holder] = &[
    holder("cluster-admin", &[Group("system:masters")]),
    holder("system:discovery", &[Group("system:authenticated")]),
    holder("system:basic-user", &[Group("system:authenticated")]),
    holder("system:public-info-viewer", &[Group("system:authenticated"), Group("system:unauthenticated")]),
    holder("system:monitoring", &[Group("system:monitoring")]),
    holder("system:service-account-issuer-discovery", &[Group("system:serviceaccounts")]),
    holder("system:kube-dns", &[ServiceAccount("kube-dns")]),
    holder("system:kube-controller-manager", &[User("system:kube-controller-manager")]),
    holder("system:kube-scheduler", &[User("system:kube-scheduler")]),
    holder("system:volume-scheduler", &[User("system:kube-scheduler")]),
    holder("system:node", &[Group("system:nodes")]),
    holder("system:node-proxier", &[User("system:kube-proxy")]),
];

const fn holder(role: &'static str, subjects: &'static [super::Who]) -> Holder {
    Holder { binding: role, role, subjects }
}

const LEADER_LOCK: &[Row] = &[
    on("create get list update watch", LEASES, "leases"),
    on("create get list update watch", LEASES, "leasecandidates"),
];

pub(super) const LOCAL_ROLES: &[(&str, &[Row])] = &[
    (
        "extension-apiserver-authentication-reader",
        &[named(READ, "core", "configmaps", "extension-apiserver-authentication")],
    ),
    ("system::leader-locking-kube-controller-manager", LEADER_LOCK),
    ("system::leader-locking-kube-scheduler", LEADER_LOCK),
];

pub(super) const LOCAL_HOLDERS: &[Holder] = &[
    Holder {
        binding: "system::extension-apiserver-authentication-reader",
        role: "extension-apiserver-authentication-reader",
        subjects: &[User("system:kube-controller-manager"), User("system:kube-scheduler")],
    },
    holder(
        "system::leader-locking-kube-controller-manager",
        &[User("system:kube-controller-manager"), ServiceAccount("kube-controller-manager")],
    ),
    holder("system::leader-locking-kube-scheduler", &[User("system:kube-scheduler"), ServiceAccount("kube-scheduler")]),
];
