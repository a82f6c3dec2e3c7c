//! Defaults of horizontal pod autoscalers.

use serde_json::{Value, json};

use crate::write::{child, ensure, fill};

pub(super) fn autoscaler(version: &str, autoscaler: &mut Value) {
    let Some(spec) = child(autoscaler, "spec") else { return };
    fill(spec, "minReplicas", 1);
    if version != "v2" {
        return;
    }
    let cpu = json!([{"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80},
    }}]);
    fill(spec, "metrics", cpu);
    let Some(behavior) = child(spec, "behavior") else { return };
    let double = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let four = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    // A behavior that speaks of one direction leaves the other at its defaults, which the server writes out.
    if let Some(up) = ensure(behavior, "scaleUp") {
        fill(up, "stabilizationWindowSeconds", 0);
        fill(up, "selectPolicy", "Max");
        fill(up, "policies", json!([four, double]));
    }
    if let Some(down) = ensure(behavior, "scaleDown") {
        fill(down, "selectPolicy", "Max");
        fill(down, "policies", json!([double]));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::defaulted;
    use super::*;

    #[test]
    fn an_autoscaler_without_metrics_aims_at_four_fifths_of_the_cpu() {
        let hpa = defaulted("autoscaling", "horizontalpodautoscalers", json!({"spec": {"maxReplicas": 3}}));
        assert_eq!(hpa["spec"]["minReplicas"], 1);
        assert_eq!(hpa["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 80);
    }

    #[test]
    fn half_a_behavior_is_completed() {
        let hpa = defaulted(
            "autoscaling",
            "horizontalpodautoscalers",
            json!({"spec": {"behavior": {"scaleDown": {"selectPolicy": "Disabled"}}}}),
        );
        let behavior = &hpa["spec"]["behavior"];
        assert_eq!(behavior["scaleDown"]["selectPolicy"], "Disabled");
        assert_eq!(behavior["scaleUp"]["policies"].as_array().unwrap().len(), 2);
    }
}
