//! What is around the pods of an operator: a Service, who may connect to them, how many may be evicted at once, and who scrapes
//! their metrics.

use serde_json::{Value, json};

use super::{Extras, Installation, webhooks};

/// The objects, but for the Deployment itself.
pub(super) fn objects(installation: &Installation, extras: Extras) -> Vec<Value> {
    let mut objects = vec![service(installation, extras), budget(installation), network_policy(installation, extras)];
    if extras.monitor {
        objects.push(monitor(installation));
    }
    objects
}

fn service(installation: &Installation, extras: Extras) -> Value {
    let mut ports = vec![json!({"name": "metrics", "port": super::PORT, "targetPort": "http"})];
    if extras.webhooks {
        ports.push(webhooks::service_port());
    }
    let mut service = installation.object("v1", "Service", &installation.own);
    // A ServiceMonitor selects Services by their labels.
    service["metadata"]["labels"] = installation.labels();
    service["spec"] = json!({"selector": {"app.kubernetes.io/name": installation.own}, "ports": ports});
    service
}

/// A drained node takes one of the two pods, never both.
fn budget(installation: &Installation) -> Value {
    let mut budget = installation.object("policy/v1", "PodDisruptionBudget", &installation.own);
    budget["spec"] = json!({"maxUnavailable": 1, "selector": {"matchLabels": installation.labels()}});
    budget
}

/// Connections are accepted at the ports that are served. Those that an operator opens are not restricted: it calls APIs of
/// clouds at addresses that only its objects know.
fn network_policy(installation: &Installation, extras: Extras) -> Value {
    let mut ports = vec![json!({"port": "http", "protocol": "TCP"})];
    if extras.webhooks {
        ports.push(json!({"port": "webhooks", "protocol": "TCP"}));
    }
    let mut policy = installation.object("networking.k8s.io/v1", "NetworkPolicy", &installation.own);
    policy["spec"] = json!({
        "podSelector": {"matchLabels": installation.labels()},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": ports}],
    });
    policy
}

/// Labels such as `namespace` are about the object that a metric is of, not about the operator's pod.
fn monitor(installation: &Installation) -> Value {
    let mut monitor = installation.object("monitoring.coreos.com/v1", "ServiceMonitor", &installation.own);
    monitor["spec"] = json!({
        "selector": {"matchLabels": installation.labels()},
        "endpoints": [{"port": "metrics", "interval": "30s", "honorLabels": true}],
    });
    monitor
}
