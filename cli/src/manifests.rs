//! `c5c3 manifests`: what runs the operators and agents on a cluster, each with an account of its own that may do what it needs and
//! nothing else.

mod agents;
mod exposure;
mod people;
mod places;
mod webhooks;

use std::collections::BTreeMap;
use std::process::ExitCode;

use c5c3_api::Kind;
use c5c3_kit::{Hook, Operator, access};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};

use crate::args::ManifestsArgs;
use crate::{Done, crds, operator, print};
pub(crate) use agents::{Agent, HYPERVISOR, all as agents};
pub(crate) use places::{CERTIFICATES, HOLD, Places};

/// Where the operator of ControlPlanes runs, and those of other kinds than OpenStack's.
const HOME: &str = "c5c3-system";

/// The repository of every operator's image.
pub(crate) const REPOSITORY: (&str, &str) = ("ghcr.io", "c5c3/c5c3");

/// Where /healthz, /readyz and /metrics are served.
const PORT: u16 = 8080;

/// The user of the image.
const USER: i64 = 42424;

/// An operator as it is installed on a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Installation {
    /// What the command line calls it.
    pub(crate) name: &'static str,
    /// The name of its Deployment, its account and its chart.
    pub(crate) own: String,
    /// The namespace that it runs in.
    pub(crate) home: String,
    /// The namespace that it looks after; all of them when absent.
    pub(crate) namespace: Option<String>,
    /// What the hypervisor operator makes in namespaces that its flags name.
    pub(crate) places: Places,
}

impl Installation {
    /// The operator of this name in its usual namespace.
    pub(crate) fn new(name: &'static str, operator: &Operator, namespace: Option<&str>) -> Self {
        Self {
            name,
            own: account_name(name, operator),
            home: home(operator),
            namespace: namespace.map(ToOwned::to_owned),
            places: Places::default(),
        }
    }

    /// Sets what the hypervisor operator makes in other namespaces; other operators make nothing there.
    pub(crate) fn with_places(self, places: Places) -> Self {
        if self.name == "hypervisor" { Self { places, ..self } } else { self }
    }

    fn account(&self) -> (&str, &str) {
        (&self.own, &self.home)
    }

    /// An object of the operator, in its namespace.
    fn object(&self, version: &str, kind: &str, name: &str) -> Value {
        object(version, kind, name, Some(&self.home))
    }

    /// The labels that its pods are found by.
    fn labels(&self) -> Value {
        json!({"app.kubernetes.io/name": self.own, "app.kubernetes.io/part-of": "c5c3"})
    }
}

/// Which parts of an installation need something that not every cluster has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extras {
    /// Admission webhooks: need cert-manager.
    pub(crate) webhooks: bool,
    /// A ServiceMonitor: needs the Prometheus operator.
    pub(crate) monitor: bool,
}

/// The namespace that an operator runs in, by the API group of its first kind: services in `openstack`, others in one of their
/// own. That of K-ORC's kinds is where upstream's is, and where people look for it.
fn home(operator: &Operator) -> String {
    let group =
        operator.kinds().first().and_then(|(version, _)| version.split_once('/')).map_or("", |(group, _)| group);
    match group {
        "openstack.k-orc.cloud" => "orc-system".into(),
        "cortex.c5c3.io" => "openstack".into(),
        _ if group.ends_with(".openstack.c5c3.io") => "openstack".into(),
        _ => group.strip_suffix(".c5c3.io").map_or_else(|| HOME.into(), |area| format!("{area}-system")),
    }
}

/// The name of an operator's account, Deployment and chart. The names of two of them are older than their place in the documents
/// and cannot change: they are the field managers of what is on clusters.
pub(crate) fn account_name(name: &str, operator: &Operator) -> String {
    match name {
        "controlplane" => "c5c3-operator".into(),
        "orc" => "openstack-resource-controller".into(),
        _ => operator.name().into(),
    }
}

pub(crate) fn run(args: &ManifestsArgs) -> Done {
    let namespace = (!args.all_namespaces).then_some(args.namespace.as_str());
    let extras = Extras { webhooks: args.webhooks, monitor: args.monitoring };
    let mut files = BTreeMap::from([("roles.yaml".to_owned(), people::roles())]);
    for (name, operator) in operator::named() {
        let installation = Installation::new(name, &operator, namespace).with_places(args.places.places());
        files.insert(format!("{name}.yaml"), objects(&installation, &operator, extras));
    }
    for agent in agents::all(&args.namespace) {
        files.insert(format!("agent-{}.yaml", agent.name), agent.manifests());
    }
    match &args.output {
        None => print(&text(&namespaces_first(files.into_values().flatten()))?),
        Some(folder) => {
            let texts = files.into_iter().map(|(name, objects)| Ok((name, text(&objects)?)));
            let texts: Result<BTreeMap<String, String>, String> = texts.collect();
            crds::write(folder, "yaml", &texts?)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The objects of all files, in an order in which they can be applied: the agents' come first, and have roles in a namespace that
/// an operator's file has.
fn namespaces_first(objects: impl Iterator<Item = Value>) -> Vec<Value> {
    let (mut namespaces, others): (Vec<Value>, Vec<Value>) = objects.partition(|object| object["kind"] == "Namespace");
    namespaces.sort_by_key(|namespace| namespace["metadata"]["name"].to_string());
    namespaces.dedup();
    namespaces.into_iter().chain(others).collect()
}

/// Objects as one YAML text.
pub(crate) fn text(objects: &[Value]) -> Result<String, String> {
    let texts: Result<Vec<String>, String> = objects
        .iter()
        .map(|object| {
            let text = serde_saphyr::to_string(object).map_err(|error| format!("cannot write a manifest: {error}"))?;
            Ok(format!("{}\n", text.trim_end()))
        })
        .collect();
    Ok(texts?.join("---\n"))
}

/// Everything that one operator needs but its CRDs, in the order in which it is applied.
pub(crate) fn objects(installation: &Installation, operator: &Operator, extras: Extras) -> Vec<Value> {
    let Installation { own, home, namespace, .. } = installation;
    let lease = access::lease(&format!("c5c3-{}", operator.name()));
    let mut objects = rights(installation.account(), operator, namespace.as_deref());
    objects.extend(grant((own, home), &format!("{own}-lease"), Some(home), Some(home), &lease));
    objects.extend(places::objects(installation));
    let mut deployment = deployment(installation);
    if extras.webhooks {
        webhooks::serve(&mut deployment, own);
        objects.extend(webhooks::objects(installation, operator));
    }
    objects.extend(exposure::objects(installation, extras));
    objects.push(deployment);
    objects
}

/// The account of an operator of the embedded cluster, which looks after all namespaces, without what runs it. All accounts
/// are in one namespace there, so that a namespace of users can be deleted with all that is in it.
pub(crate) fn account(name: &str, operator: &Operator) -> Vec<Value> {
    rights((&account_name(name, operator), embedded_home(name)), operator, None)
}

/// Where the accounts of the embedded cluster are.
pub(crate) fn embedded_home(name: &str) -> &'static str {
    if name == "orc" { "orc-system" } else { HOME }
}

/// What people may do with our kinds.
pub(crate) fn people() -> Vec<Value> {
    people::roles()
}

/// Which requests an API server asks a webhook about, of a kind.
pub(crate) fn rule(kind: &Kind) -> Value {
    webhooks::rule(kind)
}

/// What tells an API server of a webhook about kinds that are not ours.
pub(crate) fn hooked(name: &str, operator: &Operator, hook: &Hook, client: &Value) -> Value {
    webhooks::hooked(&account_name(name, operator), hook, client)
}

/// An account by its name and namespace, and its rights.
fn rights(account: (&str, &str), operator: &Operator, namespace: Option<&str>) -> Vec<Value> {
    let ((own, home), access) = (account, operator.access());
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home}}),
        object("v1", "ServiceAccount", own, Some(home)),
    ];
    objects.extend(grant(account, own, None, None, &access.in_cluster()));
    objects.extend(grant(account, &format!("{own}-objects"), None, namespace, &access.in_namespaces()));
    objects
}

/// A role and its binding. A role of the whole cluster that is bound in a namespace reaches no farther, and can be bound in
/// another one as well.
fn grant(
    (account, home): (&str, &str),
    role: &str,
    role_in: Option<&str>,
    bound_in: Option<&str>,
    rules: &[PolicyRule],
) -> Vec<Value> {
    const GROUP: &str = "rbac.authorization.k8s.io";
    if rules.is_empty() {
        return Vec::new();
    }
    let version = format!("{GROUP}/v1");
    let kind = |of: Option<&str>, what: &str| if of.is_some() { what.to_owned() } else { format!("Cluster{what}") };
    let role_kind = kind(role_in, "Role");
    let mut granted = object(&version, &role_kind, role, role_in);
    granted["rules"] = json!(rules);
    let mut binding = object(&version, &kind(bound_in, "RoleBinding"), role, bound_in);
    binding["roleRef"] = json!({"apiGroup": GROUP, "kind": role_kind, "name": role});
    binding["subjects"] = json!([{"kind": "ServiceAccount", "name": account, "namespace": home}]);
    vec![granted, binding]
}

fn object(version: &str, kind: &str, name: &str, namespace: Option<&str>) -> Value {
    let mut object = json!({"apiVersion": version, "kind": kind,
        "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "c5c3"}}});
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

/// The image of every operator.
fn image() -> String {
    let (registry, repository) = REPOSITORY;
    format!("{registry}/{repository}:{}", env!("CARGO_PKG_VERSION"))
}

/// Two pods, of which one works: the other takes over when it goes.
fn deployment(installation: &Installation) -> Value {
    let Installation { name, own, namespace, places, .. } = installation;
    let labels = installation.labels();
    let mut pod_labels = labels.clone();
    if *name == "orc" {
        // `kubectl logs -n orc-system -l app=openstack-resource-controller`, as with upstream's.
        pod_labels["app"] = "openstack-resource-controller".into();
    }
    let mut args: Vec<String> = ["c5c3", "operator", name, "--log-format=json"].map(ToOwned::to_owned).into();
    args.push(format!("--metrics-address=0.0.0.0:{PORT}"));
    args.extend(namespace.iter().map(|namespace| format!("--namespace={namespace}")));
    args.extend(places.args());
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "http"}, "periodSeconds": 10});
    let mut deployment = installation.object("apps/v1", "Deployment", own);
    deployment["spec"] = json!({
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": pod_labels},
            "spec": {
                "serviceAccountName": own,
                "securityContext": {
                    "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "topologySpreadConstraints": [{
                    "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": labels},
                }],
                "containers": [{
                    "name": "operator",
                    "image": image(),
                    "args": args,
                    "env": [
                        field("POD_NAME", "metadata.name"),
                        field("POD_NAMESPACE", "metadata.namespace"),
                        field("POD_UID", "metadata.uid"),
                    ],
                    "ports": [{"name": "http", "containerPort": PORT}],
                    "livenessProbe": probe("/healthz"),
                    "readinessProbe": probe("/readyz"),
                    "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
                    "securityContext": {
                        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }],
            },
        },
    });
    deployment
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written for the operator of this name.
    pub(super) fn written(name: &str, namespace: Option<&str>, webhooks: bool) -> Vec<Value> {
        let (name, operator) = operator::named().find(|(other, _)| *other == name).expect("an operator of this name");
        let extras = Extras { webhooks, monitor: true };
        objects(&Installation::new(name, &operator, namespace), &operator, extras)
    }

    #[test]
    fn operators_are_named_and_placed_as_the_documents_say() {
        let placed = |wanted: &str| {
            let (name, operator) = operator::named().find(|(name, _)| *name == wanted).unwrap();
            let installation = Installation::new(name, &operator, None);
            format!("{}/{}", installation.home, installation.own)
        };
        assert_eq!(placed("controlplane"), "c5c3-system/c5c3-operator");
        assert_eq!(placed("nova"), "openstack/nova-operator");
        assert_eq!(placed("tempest"), "openstack/tempest-operator");
        assert_eq!(placed("ovn"), "ovn-system/ovn-operator");
        assert_eq!(placed("orc"), "orc-system/openstack-resource-controller");
    }

    #[test]
    fn the_operator_of_k_orcs_kinds_is_found_where_upstreams_is() {
        let objects = written("orc", None, true);
        let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
        assert_eq!(deployment["metadata"]["namespace"], "orc-system");
        assert_eq!(deployment["spec"]["template"]["metadata"]["labels"]["app"], "openstack-resource-controller");
        assert!(!json!(objects).to_string().contains(HOME), "all of it is there");
    }

    #[test]
    fn no_operator_may_do_everything_with_anything_and_secrets_are_read_in_one_namespace_only() {
        for (name, operator) in operator::named() {
            let installation = Installation::new(name, &operator, Some("cellar"));
            for object in objects(&installation, &operator, Extras { webhooks: true, monitor: true }) {
                let rules = object["rules"].as_array().cloned().unwrap_or_default();
                for rule in &rules {
                    assert!(!rule.to_string().contains('*'), "{name}: {rule}");
                }
                let binds_all = object["kind"] == "ClusterRoleBinding";
                assert!(!binds_all || object["roleRef"]["name"] == installation.own.as_str(), "{name}: {object}");
            }
            let cluster = json!(operator.access().in_cluster()).to_string();
            assert!(!cluster.contains("secrets\""), "{name}: {cluster}");
        }
    }
}
