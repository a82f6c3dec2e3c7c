//! `c5c3 manifests`: what runs the operators and agents on a cluster, each with an account of its own that may do what it needs and
//! nothing else.

mod agents;
mod people;
mod webhooks;

use std::collections::BTreeMap;
use std::process::ExitCode;

use c5c3_api::Kind;
use c5c3_kit::{Hook, Operator, access};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};

use crate::args::ManifestsArgs;
use crate::{Done, crds, operator, print};

/// Where operators run.
const HOME: &str = "c5c3-system";

/// Where an operator runs. That of K-ORC's kinds is where upstream's is, and where people look for it.
pub(crate) fn home(name: &str) -> &'static str {
    if name == "orc" { "orc-system" } else { HOME }
}

/// The image of every operator.
const IMAGE: &str = concat!("ghcr.io/c5c3/c5c3:", env!("CARGO_PKG_VERSION"));

/// Where /healthz, /readyz and /metrics are served.
const PORT: u16 = 8080;

/// The user of the image.
const USER: i64 = 42424;

pub(crate) fn run(args: &ManifestsArgs) -> Done {
    let namespace = (!args.all_namespaces).then_some(args.namespace.as_str());
    let mut files = BTreeMap::from([("roles.yaml".to_owned(), text(&people::roles())?)]);
    for (name, operator) in operator::named() {
        files.insert(format!("{name}.yaml"), text(&objects(name, &operator, namespace, args.webhooks))?);
    }
    for agent in agents::all(&args.namespace) {
        files.insert(format!("agent-{}.yaml", agent.name), text(&agent.manifests())?);
    }
    match &args.output {
        None => print(&files.into_values().collect::<Vec<_>>().join("---\n")),
        Some(folder) => {
            crds::write(folder, "yaml", &files)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn text(objects: &[Value]) -> Result<String, String> {
    let texts: Result<Vec<String>, String> = objects
        .iter()
        .map(|object| {
            let text = serde_saphyr::to_string(object).map_err(|error| format!("cannot write a manifest: {error}"))?;
            Ok(format!("{}\n", text.trim_end()))
        })
        .collect();
    Ok(texts?.join("---\n"))
}

/// Everything that one operator needs but its CRDs, in the order in which it is applied. It looks after one namespace, or
/// after all. The API server asks it about its objects if it is to have webhooks.
fn objects(name: &str, operator: &Operator, namespace: Option<&str>, with_webhooks: bool) -> Vec<Value> {
    let (own, home) = (account_name(name), home(name));
    let lease = access::lease(&format!("c5c3-{}", operator.name()));
    let mut objects = rights((&own, home), operator, namespace);
    objects.extend(grant((&own, home), &format!("{own}-lease"), Some(home), Some(home), &lease));
    let mut deployment = deployment(name, &own, namespace);
    if with_webhooks {
        webhooks::serve(&mut deployment, &own);
        objects.extend(webhooks::objects((&own, home), operator, namespace));
    }
    objects.push(deployment);
    objects
}

/// The account of an operator that looks after all namespaces, without what runs it.
pub(crate) fn account(name: &str, operator: &Operator) -> Vec<Value> {
    rights((&account_name(name), home(name)), operator, None)
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
pub(crate) fn hooked(name: &str, hook: &Hook, client: &Value) -> Value {
    webhooks::hooked(&account_name(name), hook, client)
}

/// The service account of an operator.
pub(crate) fn account_name(name: &str) -> String {
    format!("c5c3-{name}")
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

/// Two pods, of which one works: the other takes over when it goes.
fn deployment(name: &str, own: &str, namespace: Option<&str>) -> Value {
    let labels = json!({"app.kubernetes.io/name": own, "app.kubernetes.io/part-of": "c5c3"});
    let mut pod_labels = labels.clone();
    if name == "orc" {
        // `kubectl logs -n orc-system -l app=openstack-resource-controller`, as with upstream's.
        pod_labels["app"] = "openstack-resource-controller".into();
    }
    let mut args: Vec<String> = ["c5c3", "operator", name, "--log-format=json"].map(ToOwned::to_owned).into();
    args.push(format!("--metrics-address=0.0.0.0:{PORT}"));
    args.extend(namespace.map(|namespace| format!("--namespace={namespace}")));
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "http"}, "periodSeconds": 10});
    let mut deployment = object("apps/v1", "Deployment", own, Some(home(name)));
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
                    "image": IMAGE,
                    "args": args,
                    "env": [field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace")],
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
    pub(super) fn written(name: &str, namespace: Option<&str>, with_webhooks: bool) -> Vec<Value> {
        let (_, operator) = operator::named().find(|(other, _)| *other == name).expect("an operator of this name");
        objects(name, &operator, namespace, with_webhooks)
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
            for object in objects(name, &operator, Some("cellar"), true) {
                let rules = object["rules"].as_array().cloned().unwrap_or_default();
                for rule in &rules {
                    assert!(!rule.to_string().contains('*'), "{name}: {rule}");
                }
                let binds_all = object["kind"] == "ClusterRoleBinding";
                assert!(!binds_all || object["roleRef"]["name"] == format!("c5c3-{name}"), "{name}: {object}");
            }
            let cluster = json!(operator.access().in_cluster()).to_string();
            assert!(!cluster.contains("secrets\""), "{name}: {cluster}");
        }
    }
}
