//! The row of a horizontal pod autoscaler, which is stored as `autoscaling/v2` and may be shown as `v1`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::format::{NONE, UNKNOWN, UNSET, age, name, plain};
use crate::read::{int_at, list_at, str_at};

/// How many metrics fit a cell.
const SHOWN: usize = 2;

pub(super) fn autoscaler(autoscaler: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &autoscaler["spec"];
    let target = &spec["scaleTargetRef"];
    vec![
        name(autoscaler),
        json!(format!("{}/{}", str_at(target, "kind"), str_at(target, "name"))),
        json!(targets(autoscaler)),
        json!(spec["minReplicas"].as_i64().map_or_else(|| UNSET.to_owned(), |least| least.to_string())),
        json!(int_at(spec, "maxReplicas").to_string()),
        json!(int_at(&autoscaler["status"], "currentReplicas")),
        age(autoscaler, now),
    ]
}

fn targets(autoscaler: &Value) -> String {
    let (spec, status) = (&autoscaler["spec"], &autoscaler["status"]);
    if let Some(percent) = spec["targetCPUUtilizationPercentage"].as_i64() {
        let now = status["currentCPUUtilizationPercentage"].as_i64();
        return format!("cpu: {}/{percent}%", now.map_or_else(|| UNKNOWN.to_owned(), |now| format!("{now}%")));
    }
    let current = list_at(status, "currentMetrics");
    let metrics: Vec<String> = list_at(spec, "metrics")
        .iter()
        .enumerate()
        .map(|(at, metric)| one(metric, current.get(at).unwrap_or(&Value::Null)))
        .collect();
    match metrics.len() {
        0 => NONE.to_owned(),
        count if count > SHOWN => format!("{} + {} more...", metrics[..SHOWN].join(", "), count - SHOWN),
        _ => metrics.join(", "),
    }
}

fn one(metric: &Value, current: &Value) -> String {
    let source = match str_at(metric, "type") {
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        "Pods" => "pods",
        "Object" => "object",
        "External" => "external",
        _ => return UNKNOWN.to_owned(),
    };
    let (target, reached) = (&metric[source]["target"], &current[source]["current"]);
    let amount = |of: &Value, key: &str, suffix: &str| match &of[key] {
        Value::Null => UNKNOWN.to_owned(),
        value => format!("{}{suffix}", plain(value)),
    };
    let ratio = match str_at(target, "type") {
        "Utilization" => {
            format!("{}/{}", amount(reached, "averageUtilization", "%"), amount(target, "averageUtilization", "%"))
        }
        "AverageValue" => {
            let unit = if matches!(source, "external" | "object") { " (avg)" } else { "" };
            format!("{}/{}{unit}", amount(reached, "averageValue", ""), amount(target, "averageValue", ""))
        }
        _ => format!("{}/{}", amount(reached, "value", ""), amount(target, "value", "")),
    };
    match source {
        "resource" | "containerResource" => format!("{}: {ratio}", str_at(&metric[source], "name")),
        _ => ratio,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    #[test]
    fn an_autoscaler_shows_where_it_is_and_where_it_aims() {
        let mut object = json!({
            "metadata": {"name": "oak"},
            "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "oak"}, "minReplicas": 1, "maxReplicas": 5,
                "metrics": [{"type": "Resource", "resource": {
                    "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80},
                }}],
            },
            "status": {"currentReplicas": 2},
        });
        let shown = |object: &Value| row("autoscaling", "horizontalpodautoscalers", object);
        assert_eq!(shown(&object), "oak | Deployment/oak | cpu: <unknown>/80% | 1 | 5 | 2 | <unknown>");
        object["status"]["currentMetrics"] =
            json!([{"type": "Resource", "resource": {"current": {"averageUtilization": 7}}}]);
        assert!(shown(&object).contains("cpu: 7%/80%"));
    }
}
