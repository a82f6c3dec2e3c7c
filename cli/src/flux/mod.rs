//! `c5c3 flux`: a git repository's content from which Flux installs the infrastructure operators, ours, the agents of hypervisors, and
//! a ControlPlane: on the clusters that a hub reaches by kubeconfigs, or on the one that it runs in.

mod infrastructure;
mod own;

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::args::FolderArgs;
use crate::{Done, crds, manifests};
use own::Own;

/// Where Flux runs, and where its objects are.
const HOME: &str = "flux-system";

/// The Secret with the kubeconfig of the cluster of control planes.
const CONTROL_PLANE: &str = "control-plane-kubeconfig";

/// The namespace that the ControlPlane is in.
const CLOUD: &str = "openstack";

/// The ControlPlane of a new repository.
const CONTROL_PLANE_OBJECT: &str = include_str!("../../../examples/controlplane/controlplane-small.yaml");

pub(crate) fn run(args: &FolderArgs) -> Done {
    crds::replace(&args.output, &files()?)?;
    Ok(ExitCode::SUCCESS)
}

fn files() -> Result<BTreeMap<String, String>, String> {
    let own = own::all();
    let mut files = BTreeMap::from([
        ("bootstrap/flux-instance.yaml".to_owned(), manifests::text(&[instance()])?),
        ("clusters/management/kustomizations.yaml".to_owned(), manifests::text(&kustomizations(&own, true))?),
        ("clusters/single/kustomizations.yaml".to_owned(), manifests::text(&kustomizations(&own, false))?),
        ("infrastructure/namespaces/namespaces.yaml".to_owned(), manifests::text(&namespaces(&own))?),
        ("infrastructure/sources/sources.yaml".to_owned(), manifests::text(&sources())?),
        ("infrastructure/kubeconfigs/kubeconfigs.yaml".to_owned(), manifests::text(&kubeconfigs())?),
        ("apps/control-plane-cr/controlplane.yaml".to_owned(), CONTROL_PLANE_OBJECT.to_owned()),
    ]);
    for (path, objects) in infrastructure::files() {
        files.insert(path, manifests::text(&objects)?);
    }
    for own in &own {
        files.insert(format!("apps/{}/release.yaml", own.chart), manifests::text(&[own.release()])?);
    }
    Ok(files)
}

/// An object of Flux.
fn object(group: &str, version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("{group}.toolkit.fluxcd.io/{version}"), "kind": kind,
        "metadata": {"name": name, "namespace": HOME}, "spec": spec})
}

/// Flux itself, for the Flux Operator. Applied by hand, once.
fn instance() -> Value {
    json!({
        "apiVersion": "fluxcd.controlplane.io/v1", "kind": "FluxInstance",
        "metadata": {"name": "flux", "namespace": HOME},
        "spec": {
            "distribution": {"version": "2.x", "registry": "ghcr.io/fluxcd"},
            "components": ["source-controller", "kustomize-controller", "helm-controller", "notification-controller"],
            "cluster": {"multitenant": false, "networkPolicy": true},
            "sync": {
                "kind": "GitRepository", "url": "ssh://git@github.com/c5c3/c5c3-gitops.git", "ref": "refs/heads/main",
                "path": "clusters/management", "pullSecret": HOME,
            },
        },
    })
}

/// What is applied in which order. Releases are objects of the hub, which installs them on the cluster of their kubeconfig; other
/// objects are applied to that cluster as they are.
fn kustomizations(own: &[Own], is_hub: bool) -> Vec<Value> {
    let mut all = vec![kustomization("sources", "infrastructure/sources", &[])];
    let mut first = vec!["sources"];
    if is_hub {
        all.push(kustomization("kubeconfigs", "infrastructure/kubeconfigs", &[]));
        first.push("kubeconfigs");
    }
    let mut namespaces = remote(kustomization("namespaces", "infrastructure/namespaces", &first[1..]), is_hub);
    // Clouds are in them, which would go with them.
    namespaces["spec"]["prune"] = false.into();
    all.push(namespaces);
    all.push(kustomization("infrastructure-operators", "apps/infrastructure/operators", &first));
    all.extend(infrastructure::kustomizations(is_hub));
    for Own { chart, .. } in own {
        all.push(kustomization(chart, &format!("apps/{chart}"), &["namespaces", "infrastructure-operators"]));
    }
    // Agents need what the cloud runs on hosts, and it never waits for them.
    let names: Vec<&str> = own.iter().filter(|own| !own.is_agent).map(|own| own.chart.as_str()).collect();
    let mut cloud = remote(kustomization("control-plane-cr", "apps/control-plane-cr", &names), is_hub);
    cloud["spec"]["targetNamespace"] = CLOUD.into();
    // A file that is gone from the repository by mistake takes no cloud with it.
    cloud["spec"]["prune"] = false.into();
    // What is waited for is named, since Flux does not know when a ControlPlane is ready.
    cloud["spec"]["wait"] = false.into();
    cloud["spec"]["healthChecks"] =
        json!([{"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane", "name": "lab", "namespace": CLOUD}]);
    cloud["spec"]["healthCheckExprs"] = json!([{"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
        "current": "status.conditions.exists(e, e.type == 'Ready' && e.status == 'True' \
            && e.observedGeneration == metadata.generation)"}]);
    cloud["spec"]["timeout"] = "60m".into();
    all.push(cloud);
    if !is_hub {
        all.iter_mut().for_each(local);
    }
    all
}

/// A folder of the repository that is applied after others are.
fn kustomization(name: &str, path: &str, after: &[&str]) -> Value {
    let mut spec = json!({
        "interval": "10m", "retryInterval": "2m", "timeout": "15m", "prune": true, "wait": true,
        "path": format!("./{path}"),
        "sourceRef": {"kind": "GitRepository", "name": HOME},
    });
    if !after.is_empty() {
        spec["dependsOn"] = after.iter().map(|name| json!({"name": name})).collect();
    }
    object("kustomize", "v1", "Kustomization", name, &spec)
}

/// The same, applied to the cluster of control planes by the hub.
fn remote(mut kustomization: Value, is_hub: bool) -> Value {
    if is_hub {
        kustomization["spec"]["kubeConfig"] = json!({"secretRef": {"name": CONTROL_PLANE}});
    }
    kustomization
}

/// Where Flux runs on the one cluster that there is, releases need no kubeconfig.
fn local(kustomization: &mut Value) {
    let path = kustomization["spec"]["path"].as_str().unwrap_or_default();
    if path.starts_with("./apps/") && path != "./apps/control-plane-cr" {
        kustomization["spec"]["patches"] = json!([{
            "target": {"kind": "HelmRelease"},
            "patch": "- op: remove\n  path: /spec/kubeConfig\n",
        }]);
    }
}

/// The namespaces of operators and agents, and of the cloud.
fn namespaces(own: &[Own]) -> Vec<Value> {
    let mut names: Vec<&str> = own.iter().map(|own| own.home.as_str()).chain([CLOUD]).collect();
    names.sort_unstable();
    names.dedup();
    names.iter().map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).collect()
}

fn sources() -> Vec<Value> {
    let own = repository("c5c3", "https://c5c3.github.io/c5c3-operator");
    std::iter::once(own).chain(infrastructure::sources()).collect()
}

/// A repository of charts.
fn repository(name: &str, url: &str) -> Value {
    let mut spec = json!({"interval": "1h", "url": url});
    if url.starts_with("oci://") {
        spec["type"] = "oci".into();
    }
    object("source", "v1", "HelmRepository", name, &spec)
}

/// The kubeconfigs of the clusters that the hub reaches, from the secret store.
fn kubeconfigs() -> Vec<Value> {
    let clusters = [("control-plane", "cp"), ("hypervisor", "hv"), ("storage", "st")];
    let secret = |(cluster, short): (&str, &str)| {
        let name = format!("{cluster}-kubeconfig");
        json!({"apiVersion": "external-secrets.io/v1", "kind": "ExternalSecret",
        "metadata": {"name": name, "namespace": HOME},
        "spec": {
            "refreshInterval": "1h",
            "secretStoreRef": {"kind": "ClusterSecretStore", "name": "openbao-cluster-store"},
            "target": {"name": name, "creationPolicy": "Owner"},
            "data": [{"secretKey": "value",
                "remoteRef": {"key": format!("infrastructure/kubeconfig-{short}"), "property": "value"}}],
        }})
    };
    clusters.into_iter().map(secret).collect()
}

/// A chart that is installed, and upgraded within a range of versions.
struct Release<'a> {
    name: &'a str,
    chart: &'a str,
    source: &'a str,
    versions: &'a str,
    namespace: &'a str,
    after: &'a [&'a str],
    values: Value,
}

impl Release<'_> {
    /// The release. What fails is tried three times, and undone when it was an upgrade.
    fn object(&self) -> Value {
        let mut spec = json!({
            "interval": "30m",
            "timeout": "10m",
            "releaseName": self.name,
            "targetNamespace": self.namespace,
            "storageNamespace": self.namespace,
            "kubeConfig": {"secretRef": {"name": CONTROL_PLANE}},
            "chart": {"spec": {
                "chart": self.chart, "version": self.versions, "interval": "1h",
                "sourceRef": {"kind": "HelmRepository", "name": self.source, "namespace": HOME},
            }},
            "install": {"crds": "CreateReplace", "createNamespace": true, "remediation": {"retries": 3}},
            "upgrade": {
                "crds": "CreateReplace", "cleanupOnFail": true,
                "remediation": {"retries": 3, "strategy": "rollback", "remediateLastFailure": true},
            },
            "rollback": {"cleanupOnFail": true},
            "driftDetection": {"mode": "enabled", "ignore": [{"paths": ["/spec/replicas"], "target": {"kind": "Deployment"}}]},
            "values": self.values,
        });
        if !self.after.is_empty() {
            spec["dependsOn"] = self.after.iter().map(|name| json!({"name": name})).collect();
        }
        object("helm", "v2", "HelmRelease", self.name, &spec)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn objects() -> Vec<(String, Value)> {
        let read = |(path, text): (String, String)| {
            let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
            objects.into_iter().map(move |object| (path.clone(), object))
        };
        files().unwrap().into_iter().flat_map(read).collect()
    }

    fn name(object: &Value) -> &str {
        object["metadata"]["name"].as_str().unwrap()
    }

    #[test]
    fn what_a_release_or_a_kustomization_depends_on_is_there() {
        for cluster in ["management", "single"] {
            let all = objects();
            let of_kind = |kind: &str| -> BTreeSet<&str> {
                let here = |path: &str| !path.starts_with("clusters/") || path.contains(cluster);
                all.iter()
                    .filter(|(path, object)| here(path) && object["kind"] == kind)
                    .map(|(_, found)| name(found))
                    .collect()
            };
            let (releases, kustomizations) = (of_kind("HelmRelease"), of_kind("Kustomization"));
            let sources: BTreeSet<&str> = of_kind("HelmRepository").union(&of_kind("GitRepository")).copied().collect();
            for (path, object) in &all {
                let known = if object["kind"] == "HelmRelease" { &releases } else { &kustomizations };
                let after = object["spec"]["dependsOn"].as_array().cloned().unwrap_or_default();
                if !path.starts_with("clusters/") || path.contains(cluster) {
                    assert!(
                        after.iter().all(|other| known.contains(name(&json!({"metadata": other})))),
                        "{path}: {object}"
                    );
                }
                let source = &object["spec"]["chart"]["spec"]["sourceRef"]["name"];
                assert!(source.is_null() || sources.contains(source.as_str().unwrap()), "{path}: {object}");
            }
        }
    }

    #[test]
    fn the_health_of_the_cloud_is_that_of_the_control_plane_in_the_tree() {
        let all = objects();
        let plane = all.iter().find(|(_, object)| object["kind"] == "ControlPlane").unwrap();
        let checks: Vec<&Value> = all.iter().map(|(_, object)| &object["spec"]["healthChecks"][0]).collect();
        let checks: Vec<&&Value> = checks.iter().filter(|check| !check.is_null()).collect();
        assert_eq!(checks.len(), 2);
        assert!(checks.iter().all(|check| check["name"] == plane.1["metadata"]["name"]), "{checks:?}");
    }

    #[test]
    fn the_cloud_waits_for_operators_and_for_no_agent() {
        for is_hub in [true, false] {
            let all = kustomizations(&own::all(), is_hub);
            let cloud = all.iter().find(|found| name(found) == "control-plane-cr").unwrap();
            let after = cloud["spec"]["dependsOn"].to_string();
            assert!(after.contains("nova-operator") && !after.contains("c5c3-agent-"), "{after}");
        }
    }

    #[test]
    fn each_folder_that_is_applied_has_files_and_each_file_is_applied() {
        let all = objects();
        let folders: BTreeSet<String> = all
            .iter()
            .filter(|(path, object)| object["kind"] == "Kustomization" && path.starts_with("clusters/"))
            .filter(|(_, object)| object["spec"]["sourceRef"]["name"] == HOME)
            .map(|(_, object)| object["spec"]["path"].as_str().unwrap().trim_start_matches("./").to_owned())
            .collect();
        let files: BTreeSet<String> = all.iter().map(|(path, _)| path.rsplit_once('/').unwrap().0.to_owned()).collect();
        let by_hand = ["bootstrap", "clusters/management", "clusters/single"].map(str::to_owned);
        let expected: BTreeSet<String> = folders.iter().cloned().chain(by_hand).collect();
        assert_eq!(files, expected);
    }

    #[test]
    fn every_object_is_accepted_by_the_genuine_definitions() {
        if !c5c3_contracts::compared_with_genuine("the Flux tree against the CRDs of Flux") {
            return;
        }
        let mut checked = BTreeSet::new();
        for (path, object) in objects() {
            let version = object["apiVersion"].as_str().unwrap();
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            let kind = object["kind"].as_str().unwrap().to_lowercase();
            let plural =
                if kind.ends_with('y') { format!("{}ies", &kind[..kind.len() - 1]) } else { format!("{kind}s") };
            let Some(genuine) = c5c3_contracts::Genuine::find(group, &plural) else { continue };
            let schema = genuine.schema(version).unwrap_or_else(|| panic!("{kind} has no {version}"));
            let problems = c5c3_schema::Schema::compile(schema).unwrap().check(&object, None).to_string();
            assert_eq!(problems, "", "{path}");
            checked.insert(kind);
        }
        for kind in ["helmrelease", "kustomization", "helmrepository", "gitrepository", "externalsecret"] {
            assert!(checked.contains(kind), "no {kind} was checked: {checked:?}");
        }
    }
}
