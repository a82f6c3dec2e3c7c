//! Grafana dashboards, as ConfigMaps that its sidecar loads.

use serde_json::{Value, json};

/// A dashboard.
struct Dashboard {
    name: &'static str,
    title: &'static str,
    panels: &'static [Panel],
}

/// One picture of a dashboard.
struct Panel {
    title: &'static str,
    kind: &'static str,
    unit: &'static str,
    expr: &'static str,
    legend: &'static str,
}

const fn lines(title: &'static str, unit: &'static str, expr: &'static str, legend: &'static str) -> Panel {
    Panel { title, kind: "timeseries", unit, expr, legend }
}

const fn number(title: &'static str, expr: &'static str) -> Panel {
    Panel { title, kind: "stat", unit: "short", expr, legend: "" }
}

/// The conditions of objects over time: 1 is True, 0 is False, -1 is Unknown.
const fn states(title: &'static str, expr: &'static str, legend: &'static str) -> Panel {
    Panel { title, kind: "state-timeline", unit: "short", expr, legend }
}

const OBJECT: &str = "{{kind}} {{namespace}}/{{name}}";

const DASHBOARDS: &[Dashboard] = &[
    Dashboard {
        name: "overview",
        title: "CobaltCore / Overview",
        panels: &[
            number(
                "ControlPlanes that are ready",
                r#"sum(c5c3_condition{kind="ControlPlane",type="Ready"} == bool 1)"#,
            ),
            number("Objects that are not ready", r#"sum(c5c3_condition{type=~"Ready|Available"} != bool 1)"#),
            number("Objects that are degraded", r#"sum(c5c3_condition{type="Degraded"} == bool 1)"#),
            states("Services", r#"c5c3_condition{type="Ready",kind!~"Secret.*"}"#, OBJECT),
            lines("Waits by reason", "short", "sum by (reason) (c5c3_waits)", "{{reason}}"),
            states(
                "Infrastructure",
                r#"c5c3_condition{kind="ControlPlane",type!~"Progressing|Degraded"}"#,
                "{{name}} {{type}}",
            ),
        ],
    },
    Dashboard {
        name: "operators",
        title: "CobaltCore / Operators",
        panels: &[
            states("Leaders", "max by (operator) (c5c3_leader)", "{{operator}}"),
            lines("Reconciles", "reqps", "sum by (controller) (rate(c5c3_reconciles_total[5m]))", "{{controller}}"),
            lines(
                "Failed reconciles",
                "reqps",
                "sum by (controller, reason) (rate(c5c3_reconcile_errors_total[5m]))",
                "{{controller}} {{reason}}",
            ),
            lines(
                "Time of a step, 99th percentile",
                "s",
                "histogram_quantile(0.99, sum by (step, le) (rate(c5c3_reconcile_duration_seconds_bucket[5m])))",
                "{{step}}",
            ),
            lines("Queued objects", "short", "max by (controller) (c5c3_queue_depth)", "{{controller}}"),
            lines(
                "Broken watches",
                "reqps",
                "sum by (controller) (rate(c5c3_watch_errors_total[5m]))",
                "{{controller}}",
            ),
            lines(
                "Questions to remotes",
                "reqps",
                "sum by (controller, result) (rate(c5c3_remote_questions_total[5m]))",
                "{{controller}} {{result}}",
            ),
            lines(
                "Calls to remotes",
                "reqps",
                "sum by (controller, verb, result) (rate(c5c3_remote_calls_total[5m]))",
                "{{controller}} {{verb}} {{result}}",
            ),
        ],
    },
    Dashboard {
        name: "openstack",
        title: "CobaltCore / OpenStack services",
        panels: &[
            states(
                "Conditions of services",
                r#"c5c3_condition{kind=~"Keystone|Glance|Placement|Nova|Neutron|Cinder"}"#,
                "{{kind}} {{type}}",
            ),
            lines(
                "Requests of operators to APIs",
                "reqps",
                "sum by (service, code) (rate(openstack_api_request_duration_seconds_count[5m]))",
                "{{service}} {{code}}",
            ),
            lines(
                "Answer time as operators see it, 99th percentile",
                "s",
                "histogram_quantile(0.99, sum by (service, le) (rate(openstack_api_request_duration_seconds_bucket[5m])))",
                "{{service}}",
            ),
        ],
    },
    Dashboard {
        name: "hypervisors",
        title: "CobaltCore / Hypervisors and networks",
        panels: &[
            states("Compute", r#"c5c3_condition{kind="Nova",type="ComputeReady"}"#, "{{namespace}}/{{name}}"),
            states("Hypervisors", r#"c5c3_condition{kind="Hypervisor"}"#, "{{name}} {{type}}"),
            states("OVN's databases", r#"c5c3_condition{kind="OVNCluster"}"#, "{{name}} {{type}}"),
            states("Chassis", r#"c5c3_condition{kind="OVNChassis"}"#, "{{name}} {{type}}"),
        ],
    },
];

/// The dashboards by name.
pub(super) fn objects() -> impl Iterator<Item = (&'static str, Value)> {
    DASHBOARDS.iter().map(|dashboard| {
        let mut object = super::object("v1", "ConfigMap", &format!("c5c3-dashboard-{}", dashboard.name));
        // What Grafana's sidecar looks for.
        object["metadata"]["labels"]["grafana_dashboard"] = "1".into();
        object["data"] = json!({format!("c5c3-{}.json", dashboard.name): format!("{:#}\n", json(dashboard))});
        (dashboard.name, object)
    })
}

/// The query of every panel.
#[cfg(test)]
pub(super) fn expressions() -> impl Iterator<Item = String> {
    DASHBOARDS.iter().flat_map(|dashboard| dashboard.panels).map(|panel| panel.expr.to_owned())
}

/// A dashboard as Grafana has it: panels in rows of two.
fn json(dashboard: &Dashboard) -> Value {
    let source = json!({"type": "prometheus", "uid": "${datasource}"});
    let panel = |(index, panel): (usize, &Panel)| {
        json!({
            "id": index + 1, "title": panel.title, "type": panel.kind, "datasource": source,
            "gridPos": {"x": index % 2 * 12, "y": index / 2 * 8, "w": 12, "h": 8},
            "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
            "targets": [{"refId": "A", "datasource": source, "expr": panel.expr, "legendFormat": panel.legend}],
        })
    };
    json!({
        "uid": format!("c5c3-{}", dashboard.name), "title": dashboard.title, "tags": ["c5c3", "openstack"],
        "schemaVersion": 39, "version": 1, "editable": false, "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
        "panels": dashboard.panels.iter().enumerate().map(panel).collect::<Vec<_>>(),
    })
}
