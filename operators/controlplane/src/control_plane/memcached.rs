//! Memcached: servers that know nothing of each other, so that no operator is needed for them.

use c5c3_api::blocks::Size;
use c5c3_api::c5c3::ControlPlane;
use c5c3_kit::{Child, Inputs, Step};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::cloud::{Cloud, replicas};

const NAME: &str = "memcached";
const PORT: u16 = 11211;

/// The image of Memcached, which belongs to no release.
pub const IMAGE: &str = "ghcr.io/c5c3/memcached:1.6.38";

/// The user that images run as.
const USER: i64 = 42424;

/// Connections of one server: every worker of every service keeps a pool of them.
const CONNECTIONS: &str = "4096";

/// Memory beside the cache itself: hash table, connections, threads.
const OVERHEAD: u64 = 64 << 20;

pub(super) fn step(step: Step, cloud: &Cloud, _: &Inputs<ControlPlane>) -> Step {
    step.children(children(cloud))
}

fn children(cloud: &Cloud) -> Vec<Child> {
    let written = cloud.infrastructure.memcached.clone().unwrap_or_default();
    let count = replicas(written.replicas, 3);
    let megabytes = written.memory.as_ref().map_or(1024, |memory: &Size| (memory.bytes() >> 20).max(1));
    let resources = written.resources.map_or_else(|| resources(megabytes), |own| json!(own));
    let mut children = vec![
        child::<Service>(cloud, &service()),
        child::<StatefulSet>(cloud, &stateful_set(cloud, count, megabytes, &resources)),
        child::<NetworkPolicy>(cloud, &network_policy()),
    ];
    if count > 1 {
        children.push(child::<PodDisruptionBudget>(
            cloud,
            &json!({"maxUnavailable": 1, "selector": {"matchLabels": labels()}}),
        ));
    }
    children
}

fn child<K: Resource<DynamicType = ()>>(cloud: &Cloud, spec: &Value) -> Child {
    let resource = ApiResource::erase::<K>(&());
    let mut object = DynamicObject::new(NAME, &resource).within(&cloud.namespace);
    object.data = json!({ "spec": spec });
    Child::dynamic(resource, object)
}

fn labels() -> Value {
    json!({"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "cache"})
}

/// A name for each server, which clients spread keys over: it must lead to a server also before it is ready, lest all keys
/// move when one restarts.
fn service() -> Value {
    json!({
        "clusterIP": "None",
        "publishNotReadyAddresses": true,
        "selector": labels(),
        "ports": [{"name": NAME, "port": PORT, "targetPort": NAME}],
    })
}

fn stateful_set(cloud: &Cloud, replicas: i32, megabytes: u64, resources: &Value) -> Value {
    let probe = json!({"tcpSocket": {"port": NAME}, "periodSeconds": 5});
    // It listens within a moment, and others wait for it: worth another look soon.
    let startup = json!({"tcpSocket": {"port": NAME}, "periodSeconds": 1, "failureThreshold": 60});
    let mut set = json!({
        "serviceName": NAME,
        "replicas": replicas,
        // They hold nothing that another would have to wait for.
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels()},
        "template": {
            "metadata": {"labels": labels()},
            "spec": {
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                "securityContext": {
                    "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "topologySpreadConstraints": [{
                    "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": labels()},
                }],
                "containers": [{
                    "name": NAME,
                    "image": cloud.pulled(IMAGE),
                    "imagePullPolicy": "IfNotPresent",
                    "args": ["memcached", "-m", megabytes.to_string(), "-c", CONNECTIONS, "-p", PORT.to_string()],
                    "ports": [{"name": NAME, "containerPort": PORT}],
                    "startupProbe": startup,
                    "readinessProbe": probe,
                    "livenessProbe": probe,
                    "resources": resources,
                    "securityContext": {
                        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }],
            },
        },
    });
    if !cloud.pull_secrets().is_empty() {
        set["template"]["spec"]["imagePullSecrets"] = json!(cloud.pull_secrets());
    }
    set
}

/// Half a processor for a cache of 1Gi, and in proportion; the memory that it may fill.
fn resources(megabytes: u64) -> Value {
    let processor = (megabytes * 500 / 1024).clamp(10, 500);
    let memory = format!("{}Mi", megabytes + (OVERHEAD >> 20));
    json!({"requests": {"cpu": format!("{processor}m"), "memory": memory}, "limits": {"memory": memory}})
}

/// Memcached has no authentication: only pods of the namespace may connect.
fn network_policy() -> Value {
    json!({
        "podSelector": {"matchLabels": labels()},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": PORT, "protocol": "TCP"}]}],
    })
}
