//! The alerts: each with what it means, what to do, and the course of its metrics by which a test sees it fire and clear.

/// An alert.
pub(super) struct Alert {
    pub(super) name: &'static str,
    /// `JOBS` stands for the names of the operators.
    pub(super) expr: &'static str,
    /// How long it must be so.
    pub(super) wait: &'static str,
    pub(super) severity: Severity,
    pub(super) summary: &'static str,
    /// What it means, and what to do.
    pub(super) description: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "a test runs promtool on it"))]
    pub(super) proof: Proof,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    Warning,
    Critical,
}

impl Severity {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// How metrics go, minute by minute, when the alert's cause comes and goes.
#[cfg_attr(not(test), expect(dead_code, reason = "a test runs promtool on it"))]
pub(super) struct Proof {
    /// Series and their values, in the notation of promtool.
    pub(super) series: &'static [(&'static str, &'static str)],
    /// When it fires.
    pub(super) fires: &'static str,
    /// The labels that it has then, beside its name and severity.
    pub(super) labels: &'static [(&'static str, &'static str)],
    /// When it no longer fires.
    pub(super) clears: &'static str,
}

/// Alerts that are about the same.
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) alerts: &'static [Alert],
}

use Severity::{Critical, Warning};

pub(super) const GROUPS: &[Group] = &[
    Group { name: "c5c3-operators", alerts: OPERATORS },
    Group { name: "openstack-service-health", alerts: SERVICES },
    Group { name: "hypervisor-health", alerts: HYPERVISORS },
];

const OPERATORS: &[Alert] = &[
    Alert {
        name: "C5c3OperatorDown",
        expr: r#"up{job=~"JOBS"} == 0"#,
        wait: "5m",
        severity: Critical,
        summary: "{{ $labels.job }} cannot be scraped",
        description: "A pod of {{ $labels.job }} does not answer. Without a leader nothing is repaired or changed; clouds go on as \
            they are. Look at its pods: kubectl get pods -A -l app.kubernetes.io/name={{ $labels.job }}",
        proof: Proof {
            series: &[(r#"up{job="keystone-operator",instance="10.0.0.1:8080"}"#, "1x4 0x10 1x20")],
            fires: "12m",
            labels: &[("job", "keystone-operator"), ("instance", "10.0.0.1:8080")],
            clears: "20m",
        },
    },
    Alert {
        name: "C5c3OperatorWithoutLeader",
        expr: "max by (operator) (c5c3_leader) == 0",
        wait: "5m",
        severity: Critical,
        summary: "no pod of {{ $labels.operator }} leads",
        description: "The pods of {{ $labels.operator }} run, and none of them holds the Lease: nothing is reconciled. Look at the Lease \
            c5c3-{{ $labels.operator }} and at the operator's log.",
        proof: Proof {
            series: &[
                (r#"c5c3_leader{operator="nova-operator",pod="a"}"#, "1x4 0x30"),
                (r#"c5c3_leader{operator="nova-operator",pod="b"}"#, "0x14 1x20"),
            ],
            fires: "12m",
            labels: &[("operator", "nova-operator")],
            clears: "20m",
        },
    },
    Alert {
        name: "C5c3ReconcilesFail",
        expr: "sum by (controller, reason) (rate(c5c3_reconcile_errors_total[10m])) > 0",
        wait: "15m",
        severity: Warning,
        summary: "reconciles of {{ $labels.controller }} fail with {{ $labels.reason }}",
        description: "Objects of {{ $labels.controller }} are not brought up to date, and are tried again with back-off. `c5c3 why` names \
            them and the cause.",
        proof: Proof {
            series: &[(
                r#"c5c3_reconcile_errors_total{controller="keystone",step="apply",reason="ApiError"}"#,
                "0x4 1+1x30 31x40",
            )],
            fires: "30m",
            labels: &[("controller", "keystone"), ("reason", "ApiError")],
            clears: "60m",
        },
    },
    Alert {
        name: "C5c3ReconcilesSlow",
        expr: "histogram_quantile(0.99, sum by (controller, step, le) (rate(c5c3_reconcile_duration_seconds_bucket[10m]))) > 10",
        wait: "15m",
        severity: Warning,
        summary: "the step {{ $labels.step }} of {{ $labels.controller }} takes more than 10 s",
        description: "One in a hundred reconciles spends more than 10 s in one step: the API server or a remote answers slowly.",
        proof: Proof {
            series: &[
                (
                    r#"c5c3_reconcile_duration_seconds_bucket{controller="nova",step="read",le="10.0"}"#,
                    "0x4 0x40 0+10x40",
                ),
                (
                    r#"c5c3_reconcile_duration_seconds_bucket{controller="nova",step="read",le="60.0"}"#,
                    "0x4 0+10x40 400+10x40",
                ),
                (
                    r#"c5c3_reconcile_duration_seconds_bucket{controller="nova",step="read",le="+Inf"}"#,
                    "0x4 0+10x40 400+10x40",
                ),
            ],
            fires: "35m",
            labels: &[("controller", "nova"), ("step", "read")],
            clears: "70m",
        },
    },
    Alert {
        name: "C5c3QueueGrows",
        expr: "max by (controller) (c5c3_queue_depth) > 20",
        wait: "15m",
        severity: Warning,
        summary: "more than 20 objects wait for {{ $labels.controller }}",
        description: "Changes take long to be seen. The operator's --concurrency says how many objects are reconciled at a time.",
        proof: Proof {
            series: &[(r#"c5c3_queue_depth{controller="user"}"#, "0x4 40x30 2x30")],
            fires: "25m",
            labels: &[("controller", "user")],
            clears: "40m",
        },
    },
    Alert {
        name: "C5c3WatchesBreak",
        expr: "sum by (controller) (increase(c5c3_watch_errors_total[15m])) > 5",
        wait: "10m",
        severity: Warning,
        summary: "watches of {{ $labels.controller }} break again and again",
        description: "The API server ends watches, or refuses them. Changes are seen late. Look at the operator's log and rights.",
        proof: Proof {
            series: &[(r#"c5c3_watch_errors_total{controller="glance"}"#, "0x4 1+1x30 31x40")],
            fires: "30m",
            labels: &[("controller", "glance")],
            clears: "60m",
        },
    },
    Alert {
        name: "C5c3RemoteCallsFail",
        expr: r#"sum by (controller, verb, result) (rate(c5c3_remote_calls_total{result!="ok"}[10m])) > 0"#,
        wait: "15m",
        severity: Warning,
        summary: "calls of {{ $labels.controller }} fail: {{ $labels.result }}",
        description: "What {{ $labels.controller }} does outside Kubernetes (verb {{ $labels.verb }}) is refused or not answered. `c5c3 why` \
            quotes the answer.",
        proof: Proof {
            series: &[(
                r#"c5c3_remote_calls_total{controller="user",verb="create",result="Refused"}"#,
                "0x4 1+1x30 31x40",
            )],
            fires: "30m",
            labels: &[("controller", "user"), ("verb", "create"), ("result", "Refused")],
            clears: "60m",
        },
    },
];

/// The labels of an object's condition in a proof.
macro_rules! condition {
    ($kind:literal, $name:literal, $type:literal) => {
        concat!("c5c3_condition{kind=\"", $kind, "\",namespace=\"cloud\",name=\"", $name, "\",type=\"", $type, "\"}")
    };
}

const SERVICES: &[Alert] = &[
    Alert {
        name: "ControlPlaneNotReady",
        expr: r#"c5c3_condition{kind="ControlPlane",type="Ready"} != 1"#,
        wait: "30m",
        severity: Critical,
        summary: "the ControlPlane {{ $labels.namespace }}/{{ $labels.name }} is not ready",
        description: "`c5c3 why controlplane/{{ $labels.name }} -n {{ $labels.namespace }}` follows what it waits for to the cause.",
        proof: Proof {
            series: &[(condition!("ControlPlane", "lab", "Ready"), "1x4 0x40 1x20")],
            fires: "40m",
            labels: &[("kind", "ControlPlane"), ("namespace", "cloud"), ("name", "lab"), ("type", "Ready")],
            clears: "50m",
        },
    },
    Alert {
        name: "C5c3ObjectNotReady",
        expr: r#"c5c3_condition{kind!="ControlPlane",type=~"Ready|Available"} != 1"#,
        wait: "30m",
        severity: Warning,
        summary: "{{ $labels.kind }} {{ $labels.namespace }}/{{ $labels.name }} is not ready",
        description: "`c5c3 why` follows what it waits for to the cause.",
        proof: Proof {
            series: &[(condition!("Keystone", "keystone", "Ready"), "1x4 -1x40 1x20")],
            fires: "40m",
            labels: &[("kind", "Keystone"), ("namespace", "cloud"), ("name", "keystone"), ("type", "Ready")],
            clears: "50m",
        },
    },
    Alert {
        name: "C5c3ObjectDegraded",
        expr: r#"c5c3_condition{type="Degraded"} == 1"#,
        wait: "5m",
        severity: Critical,
        summary: "{{ $labels.kind }} {{ $labels.namespace }}/{{ $labels.name }} was ready and is not any more",
        description: "Nobody changed its spec: something that it relies on failed. `c5c3 why` follows it to the cause.",
        proof: Proof {
            series: &[(condition!("Nova", "nova", "Degraded"), "0x4 1x20 0x20")],
            fires: "15m",
            labels: &[("kind", "Nova"), ("namespace", "cloud"), ("name", "nova"), ("type", "Degraded")],
            clears: "30m",
        },
    },
    Alert {
        name: "InfrastructureNotReady",
        expr: r#"c5c3_condition{kind="ControlPlane",type="InfrastructureReady"} != 1"#,
        wait: "15m",
        severity: Critical,
        summary: "MariaDB, RabbitMQ, Valkey, Memcached or OVN of {{ $labels.namespace }}/{{ $labels.name }} is not ready",
        description: "Services fail without their servers. `c5c3 status` shows which of them it is.",
        proof: Proof {
            series: &[(condition!("ControlPlane", "lab", "InfrastructureReady"), "1x4 0x20 1x20")],
            fires: "22m",
            labels: &[
                ("kind", "ControlPlane"),
                ("namespace", "cloud"),
                ("name", "lab"),
                ("type", "InfrastructureReady"),
            ],
            clears: "30m",
        },
    },
    Alert {
        name: "C5c3WaitsLong",
        expr: "sum by (controller, reason) (c5c3_waits) > 0",
        wait: "2h",
        severity: Warning,
        summary: "objects of {{ $labels.controller }} have waited for two hours: {{ $labels.reason }}",
        description: "What is waited for does not come by itself. `c5c3 why` names the objects and the remedy.",
        proof: Proof {
            series: &[(r#"c5c3_waits{controller="cinder",reason="WaitingForSecret"}"#, "0x4 1x150 0x20")],
            fires: "130m",
            labels: &[("controller", "cinder"), ("reason", "WaitingForSecret")],
            clears: "160m",
        },
    },
    Alert {
        name: "C5c3WritesUndone",
        expr: r#"sum by (controller) (c5c3_waits{reason="WritesUndone"}) > 0"#,
        wait: "5m",
        severity: Warning,
        summary: "someone undoes what {{ $labels.controller }} writes",
        description: "Another field manager changes the same fields back each time. `c5c3 why` names it; one of the two has to stop.",
        proof: Proof {
            series: &[(r#"c5c3_waits{controller="glance",reason="WritesUndone"}"#, "0x4 1x20 0x20")],
            fires: "12m",
            labels: &[("controller", "glance")],
            clears: "30m",
        },
    },
    Alert {
        name: "RotationOverdue",
        expr: r#"sum by (controller) (c5c3_waits{reason="RotationOverdue"}) > 0"#,
        wait: "10m",
        severity: Warning,
        summary: "keys of {{ $labels.controller }} are older than their schedule allows",
        description: "The CronJob that rotates them does not succeed. `c5c3 credentials` lists ages; `c5c3 why` names the Job.",
        proof: Proof {
            series: &[(r#"c5c3_waits{controller="keystone",reason="RotationOverdue"}"#, "0x4 1x20 0x20")],
            fires: "18m",
            labels: &[("controller", "keystone")],
            clears: "30m",
        },
    },
    Alert {
        name: "KeystoneAPIHighLatency",
        expr: r#"histogram_quantile(0.99, sum by (service, le) (rate(openstack_api_request_duration_seconds_bucket{service="identity"}[5m]))) > 2"#,
        wait: "10m",
        severity: Warning,
        summary: "one in a hundred requests to Keystone takes more than 2 s",
        description: "As the operators see it. Look at Keystone's pods, at MariaDB and at Memcached.",
        proof: Proof {
            series: &[
                (r#"openstack_api_request_duration_seconds_bucket{service="identity",le="2.5"}"#, "0x4 0x30 0+10x30"),
                (
                    r#"openstack_api_request_duration_seconds_bucket{service="identity",le="10.0"}"#,
                    "0x4 0+10x30 300+10x30",
                ),
                (
                    r#"openstack_api_request_duration_seconds_bucket{service="identity",le="+Inf"}"#,
                    "0x4 0+10x30 300+10x30",
                ),
                (r#"openstack_api_request_duration_seconds_bucket{service="identity",le="0.1"}"#, "0x4 0x30 0+10x30"),
            ],
            fires: "25m",
            labels: &[("service", "identity")],
            clears: "50m",
        },
    },
    Alert {
        name: "CloudTestsFail",
        expr: r#"c5c3_condition{kind="Tempest",type="TestsPassed"} == 0"#,
        wait: "1m",
        severity: Warning,
        summary: "tests of {{ $labels.namespace }}/{{ $labels.name }} failed",
        description: "kubectl describe tempest {{ $labels.name }} -n {{ $labels.namespace }} names them.",
        proof: Proof {
            series: &[(condition!("Tempest", "tempest", "TestsPassed"), "1x4 0x10 1x20")],
            fires: "8m",
            labels: &[("kind", "Tempest"), ("namespace", "cloud"), ("name", "tempest"), ("type", "TestsPassed")],
            clears: "20m",
        },
    },
    Alert {
        name: "CephUnreachable",
        expr: r#"c5c3_condition{type="CephConnected"} == 0"#,
        wait: "5m",
        severity: Critical,
        summary: "{{ $labels.kind }} {{ $labels.namespace }}/{{ $labels.name }} cannot use its Ceph pools",
        description: "Images or volumes cannot be read or written. The condition CephConnected says which pool, and why.",
        proof: Proof {
            series: &[(condition!("Cinder", "cinder", "CephConnected"), "1x4 0x10 1x20")],
            fires: "12m",
            labels: &[("kind", "Cinder"), ("namespace", "cloud"), ("name", "cinder"), ("type", "CephConnected")],
            clears: "20m",
        },
    },
];

const HYPERVISORS: &[Alert] = &[
    Alert {
        name: "NovaComputeDown",
        expr: r#"c5c3_condition{kind="Nova",type="ComputeReady"} == 0"#,
        wait: "5m",
        severity: Critical,
        summary: "a hypervisor of {{ $labels.namespace }}/{{ $labels.name }} is not ready",
        description: "libvirt or nova-compute does not run on a node, or Nova does not see it. The condition ComputeReady names the node.",
        proof: Proof {
            series: &[(condition!("Nova", "nova", "ComputeReady"), "1x4 0x10 1x20")],
            fires: "12m",
            labels: &[("kind", "Nova"), ("namespace", "cloud"), ("name", "nova"), ("type", "ComputeReady")],
            clears: "20m",
        },
    },
    Alert {
        name: "OVNUnreachable",
        expr: r#"c5c3_condition{kind="Neutron",type="OVNConnected"} == 0"#,
        wait: "5m",
        severity: Critical,
        summary: "Neutron {{ $labels.namespace }}/{{ $labels.name }} does not reach OVN's databases",
        description: "Networks cannot be changed; what is there goes on. The condition OVNConnected says why.",
        proof: Proof {
            series: &[(condition!("Neutron", "neutron", "OVNConnected"), "1x4 0x10 1x20")],
            fires: "12m",
            labels: &[("kind", "Neutron"), ("namespace", "cloud"), ("name", "neutron"), ("type", "OVNConnected")],
            clears: "20m",
        },
    },
    Alert {
        name: "OVNDatabasesNotReady",
        expr: r#"c5c3_condition{kind="OVNCluster",type=~"NorthboundReady|SouthboundReady|NorthdReady"} != 1"#,
        wait: "10m",
        severity: Critical,
        summary: "OVN {{ $labels.namespace }}/{{ $labels.name }}: {{ $labels.type }} is not true",
        description: "A member of OVN's databases, or northd, is missing. With less than half of the members nothing can be written.",
        proof: Proof {
            series: &[(condition!("OVNCluster", "ovn", "SouthboundReady"), "1x4 0x20 1x20")],
            fires: "18m",
            labels: &[("kind", "OVNCluster"), ("namespace", "cloud"), ("name", "ovn"), ("type", "SouthboundReady")],
            clears: "30m",
        },
    },
];
