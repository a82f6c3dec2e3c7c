//! The tables: what each controller may do. A role's name without the prefix is its service account in `kube-system`.

use super::{EVENTS, READ, RoleTable, on, role};

pub(super) const PREFIX: &str = "system:controller:";

const ALL_BUT_COLLECTION: &str = "create delete get list patch update watch";

pub(super) const ROLES: &[RoleTable] = &[
    role(
        "system:controller:clusterrole-aggregation-controller",
        &[on("escalate get list patch update watch", "rbac.authorization.k8s.io", "clusterroles")],
    ),
    role(
        "system:controller:cronjob-controller",
        &[
            on("get list update watch", "batch", "cronjobs"),
            on(ALL_BUT_COLLECTION, "batch", "jobs"),
            on("update", "batch", "cronjobs/status"),
            on("update", "batch", "cronjobs/finalizers"),
            on("delete list watch", "core", "pods"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:daemon-set-controller",
        &[
            on(READ, "apps", "daemonsets"),
            on("update", "apps", "daemonsets/status"),
            on("update", "apps", "daemonsets/finalizers"),
            on("list watch", "core", "nodes"),
            on("create delete list patch watch", "core", "pods"),
            on("create", "core", "pods/binding"),
            on(ALL_BUT_COLLECTION, "apps", "controllerrevisions"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:deployment-controller",
        &[
            on("get list update watch", "apps", "deployments"),
            on("update", "apps", "deployments/status"),
            on("update", "apps", "deployments/finalizers"),
            on(ALL_BUT_COLLECTION, "apps", "replicasets"),
            on("get list update watch", "core", "pods"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:disruption-controller",
        &[
            on(READ, "apps", "deployments"),
            on(READ, "apps", "replicasets"),
            on(READ, "core", "replicationcontrollers"),
            on(READ, "policy", "poddisruptionbudgets"),
            on(READ, "apps", "statefulsets"),
            on("update", "policy", "poddisruptionbudgets/status"),
            on("patch update", "core", "pods/status"),
            on("get", "*", "*/scale"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:endpoint-controller",
        &[
            on(READ, "core", "pods services"),
            on("create delete get list update watch", "core", "endpoints"),
            on("create", "core", "endpoints/restricted"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:endpointslice-controller",
        &[
            on(READ, "core", "nodes pods services"),
            on("update", "core", "services/finalizers"),
            on("create delete get list update watch", "discovery.k8s.io", "endpointslices"),
            EVENTS,
        ],
    ),
    role("system:controller:generic-garbage-collector", &[on("delete get list patch update watch", "*", "*"), EVENTS]),
    role(
        "system:controller:horizontal-pod-autoscaler",
        &[
            on(READ, "autoscaling", "horizontalpodautoscalers"),
            on("update", "autoscaling", "horizontalpodautoscalers/status"),
            on("get update", "*", "*/scale"),
            on("list watch", "core", "pods"),
            on("list watch", "metrics.k8s.io", "pods"),
            on(READ, "custom.metrics.k8s.io", "*"),
            on(READ, "external.metrics.k8s.io", "*"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:job-controller",
        &[
            on("get list patch update watch", "batch", "jobs"),
            on("update", "batch", "jobs/status"),
            on("update", "batch", "jobs/finalizers"),
            on("create delete list patch watch", "core", "pods"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:namespace-controller",
        &[
            on("delete get list watch", "core", "namespaces"),
            on("update", "core", "namespaces/finalize namespaces/status"),
            on("delete deletecollection get list watch", "*", "*"),
        ],
    ),
    role(
        "system:controller:node-controller",
        &[
            on("delete get list patch update watch", "core", "nodes"),
            on("patch update", "core", "nodes/status"),
            on("patch update", "core", "pods/status"),
            on("delete get list watch", "core", "pods"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:persistent-volume-binder",
        &[
            on("create delete get list update watch", "core", "persistentvolumes"),
            on("update", "core", "persistentvolumes/status"),
            on("get list update watch", "core", "persistentvolumeclaims"),
            on("update", "core", "persistentvolumeclaims/status"),
            on("create delete get list watch", "core", "pods"),
            on(READ, "storage.k8s.io", "storageclasses"),
            on("list watch", "core", "nodes"),
            EVENTS,
            on("watch", "core", "events"),
        ],
    ),
    role(
        "system:controller:pod-garbage-collector",
        &[on("delete list watch", "core", "pods"), on(READ, "core", "nodes"), on("patch", "core", "pods/status")],
    ),
    role(
        "system:controller:pv-protection-controller",
        &[on("get list update watch", "core", "persistentvolumes"), EVENTS],
    ),
    role(
        "system:controller:pvc-protection-controller",
        &[
            on("get list update watch", "core", "persistentvolumeclaims"),
            on("update", "core", "persistentvolumeclaims/status"),
            on(READ, "core", "pods"),
            EVENTS,
        ],
    ),
    role(
        "system:controller:replicaset-controller",
        &[
            on("get list update watch", "apps", "replicasets"),
            on("update", "apps", "replicasets/status"),
            on("update", "apps", "replicasets/finalizers"),
            on("create delete list patch watch", "core", "pods"),
            EVENTS,
        ],
    ),
    role("system:controller:root-ca-cert-publisher", &[on("create update", "core", "configmaps"), EVENTS]),
    role("system:controller:service-account-controller", &[on("create", "core", "serviceaccounts"), EVENTS]),
    role(
        "system:controller:statefulset-controller",
        &[
            on("list watch", "core", "pods"),
            on(READ, "apps", "statefulsets"),
            on("update", "apps", "statefulsets/status"),
            on("update", "apps", "statefulsets/finalizers"),
            on("create delete get patch update", "core", "pods"),
            on(ALL_BUT_COLLECTION, "apps", "controllerrevisions"),
            on("create get list watch", "core", "persistentvolumeclaims"),
            on("delete update", "core", "persistentvolumeclaims"),
            on("update", "core", "pods/finalizers"),
            EVENTS,
        ],
    ),
    role("system:controller:ttl-after-finished-controller", &[on("delete get list watch", "batch", "jobs"), EVENTS]),
];
