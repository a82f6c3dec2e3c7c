//! The operators of other projects that ControlPlanes rely on, in the versions whose kinds we write.

use serde_json::{Value, json};

use super::{Release, object, remote, repository};

/// RabbitMQ's operators have no charts of their own. The image that their manifests name is a placeholder, so that one version is
/// chosen here for both the manifests and the image.
const CLUSTER_OPERATOR: &str = "2.22.3";
const TOPOLOGY_OPERATOR: &str = "1.20.1";

/// Where the charts are.
pub(super) fn sources() -> Vec<Value> {
    vec![
        repository("jetstack", "https://charts.jetstack.io"),
        repository("external-secrets", "https://charts.external-secrets.io"),
        repository("mariadb-operator", "https://helm.mariadb.com/mariadb-operator"),
        repository("valkey-operator", "oci://ghcr.io/sap/valkey-operator-helm"),
        repository("rook-release", "https://charts.rook.io/release"),
        git("rabbitmq-cluster-operator", "https://github.com/rabbitmq/cluster-operator", CLUSTER_OPERATOR),
        git("rabbitmq-topology-operator", "https://github.com/rabbitmq/messaging-topology-operator", TOPOLOGY_OPERATOR),
    ]
}

/// A repository with manifests, for projects that publish no chart.
fn git(name: &str, url: &str, version: &str) -> Value {
    let spec = json!({"interval": "1h", "url": url, "ref": {"tag": format!("v{version}")}});
    object("source", "v1", "GitRepository", name, &spec)
}

/// The releases, a file each.
///
/// The lower bound of a range is the version whose CRDs the contracts are made of (docs/contracts.md): mariadb-operator before 25.8,
/// for one, drops `autoFailover` and `pvcRetentionPolicy` in silence.
pub(super) fn files() -> Vec<(String, Vec<Value>)> {
    let releases = [
        Release {
            name: "cert-manager",
            chart: "cert-manager",
            source: "jetstack",
            versions: ">=1.21.0 <2.0.0",
            namespace: "cert-manager",
            after: &[],
            values: json!({"crds": {"enabled": true, "keep": true}}),
        },
        Release {
            name: "external-secrets",
            chart: "external-secrets",
            source: "external-secrets",
            versions: ">=2.9.0 <3.0.0",
            namespace: "external-secrets",
            after: &[],
            values: json!({"installCRDs": true}),
        },
        Release {
            name: "mariadb-operator-crds",
            chart: "mariadb-operator-crds",
            source: "mariadb-operator",
            versions: ">=26.6.0 <27.0.0",
            namespace: "mariadb-system",
            after: &[],
            values: json!({}),
        },
        Release {
            name: "mariadb-operator",
            chart: "mariadb-operator",
            source: "mariadb-operator",
            versions: ">=26.6.0 <27.0.0",
            namespace: "mariadb-system",
            after: &["mariadb-operator-crds", "cert-manager"],
            values: json!({"ha": {"enabled": true}, "webhook": {"cert": {"certManager": {"enabled": true}}}}),
        },
        Release {
            name: "valkey-operator",
            chart: "valkey-operator",
            source: "valkey-operator",
            versions: ">=0.1.10 <0.2.0",
            namespace: "valkey-system",
            after: &["cert-manager"],
            values: json!({}),
        },
        Release {
            name: "rook-ceph",
            chart: "rook-ceph",
            source: "rook-release",
            versions: ">=1.20.0 <2.0.0",
            namespace: "rook-ceph",
            after: &[],
            values: json!({}),
        },
    ];
    let file = |release: &Release<'_>| format!("apps/infrastructure/operators/{}.yaml", release.name);
    releases.iter().map(|release| (file(release), vec![release.object()])).collect()
}

/// RabbitMQ's operators, from their repositories.
pub(super) fn kustomizations(is_hub: bool) -> Vec<Value> {
    let manifest = |name: &str, path: &str, image: String, after: &[&str]| {
        let after: Value = after.iter().map(|name| json!({"name": name})).collect();
        let image = format!("- op: replace\n  path: /spec/template/spec/containers/0/image\n  value: {image}\n");
        let spec = json!({
            "interval": "30m", "retryInterval": "2m", "timeout": "10m", "prune": true, "wait": true,
            "path": path,
            "sourceRef": {"kind": "GitRepository", "name": name},
            "dependsOn": after,
            "patches": [{"target": {"kind": "Deployment"}, "patch": image}],
        });
        remote(object("kustomize", "v1", "Kustomization", name, &spec), is_hub)
    };
    vec![
        manifest(
            "rabbitmq-cluster-operator",
            "./config/installation",
            format!("docker.io/rabbitmqoperator/cluster-operator:{CLUSTER_OPERATOR}"),
            &["sources"],
        ),
        manifest(
            "rabbitmq-topology-operator",
            "./config/installation/cert-manager",
            format!("docker.io/rabbitmqoperator/messaging-topology-operator:{TOPOLOGY_OPERATOR}"),
            &["infrastructure-operators", "rabbitmq-cluster-operator"],
        ),
    ]
}
