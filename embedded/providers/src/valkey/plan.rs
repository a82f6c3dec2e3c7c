//! What a Valkey is made of: the objects that the genuine operator makes, by the same names.

use c5c3_api::ext::valkey::Valkey;
use c5c3_kit::{Child, Plan, Step};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use serde_json::{Value, json};

use super::names::{Names, PRIMARY_NAME, SENTINEL_PORT, SERVER_PORT};
use super::{config, tls};
use crate::certificates::{CERTIFICATE, Signed};
use crate::objects::{child, secret_child};
use crate::pods::{container_security, pod_security, scratch};

/// The image that members run from, without the tag.
const IMAGE: &str = "ghcr.io/c5c3/valkey";

/// The tag of the image unless the Valkey names a version.
const VERSION: &str = "8.1.1";

/// What comes from elsewhere and goes into the objects.
pub(super) struct Given<'g> {
    pub(super) password: &'g str,
    /// The members' certificate, once there is one. Another one makes members restart.
    pub(super) signed: Option<&'g Signed>,
}

/// The objects of a Valkey.
pub(super) fn plan(valkey: &Valkey, given: &Given<'_>) -> Plan {
    let names = Names::of(valkey);
    let files = config::files(valkey, &names);
    let password = [("valkey-password", given.password.to_owned())];
    let mut children = vec![
        secret_child(&names.metadata(&names.base()), "Opaque", password),
        child::<ConfigMap>(json!({"metadata": names.metadata(&names.part("configuration")), "data": files})),
        child::<ServiceAccount>(
            json!({"metadata": names.metadata(&names.base()), "automountServiceAccountToken": false}),
        ),
        headless(&names),
    ];
    children.extend(services(&names));
    children.extend(tls::children(valkey, &names));
    // Without their certificate, members could not start, and clients would not know whom to trust.
    if names.tls.is_none() || given.signed.is_some() {
        children.push(secret_child(&names.metadata(names.binding()), "Opaque", binding(&names, given)));
        let annotations = annotations(&files, given);
        let sets = names.sets().into_iter();
        children.extend(sets.map(|(part, members)| set(valkey, &names, part, members, &annotations)));
    }
    Plan::new().step(children.into_iter().fold(Step::new("Ready"), Step::child))
}

/// What members restart for.
fn annotations(files: &Value, given: &Given<'_>) -> Value {
    let mut annotations = json!({"c5c3.io/configuration": config::hash(files)});
    if let Some(signed) = given.signed {
        annotations[CERTIFICATE] = json!(signed.certificate);
    }
    annotations
}

/// What a client must know.
fn binding(names: &Names, given: &Given<'_>) -> Vec<(&'static str, String)> {
    let mut binding = vec![
        ("password", given.password.to_owned()),
        ("tlsEnabled", names.tls.is_some().to_string()),
        ("sentinelEnabled", names.sentinel.to_string()),
    ];
    binding.extend(given.signed.map(|signed| ("caData", signed.authorities.clone())));
    if names.sentinel {
        let host = names.host(&names.base());
        binding.extend([
            ("host", host.clone()),
            ("port", SERVER_PORT.to_string()),
            ("sentinelHost", host),
            ("sentinelPort", SENTINEL_PORT.to_string()),
            ("primaryName", PRIMARY_NAME.to_owned()),
        ]);
    } else {
        binding.extend([
            ("primaryHost", names.host(&names.part("primary"))),
            ("primaryPort", SERVER_PORT.to_string()),
            ("replicaHost", names.host(&names.part("replicas"))),
            ("replicaPort", SERVER_PORT.to_string()),
        ]);
    }
    binding
}

fn port(name: &str, number: u16) -> Value {
    json!({"name": name, "port": number, "targetPort": number, "protocol": "TCP"})
}

/// Gives every member a name, before it is ready too: members look for each other while they start.
fn headless(names: &Names) -> Child {
    child::<Service>(json!({
        "metadata": names.metadata(&names.part("headless")),
        "spec": {
            "clusterIP": "None", "publishNotReadyAddresses": true, "selector": names.labels(None),
            "ports": [port("tcp-valkey", SERVER_PORT), port("tcp-sentinel", SENTINEL_PORT)],
        },
    }))
}

/// The Services for clients.
fn services(names: &Names) -> Vec<Child> {
    let service = |name: String, component: &str, ports: Vec<Value>| {
        child::<Service>(json!({
            "metadata": names.metadata(&name),
            "spec": {"type": "ClusterIP", "selector": names.labels(Some(component)), "ports": ports},
        }))
    };
    if names.sentinel {
        let ports = vec![port("tcp-valkey", SERVER_PORT), port("tcp-sentinel", SENTINEL_PORT)];
        return vec![service(names.base(), "node", ports)];
    }
    // Both are there however many replicas there are, as clients are told of both.
    let one = |part: &str| service(names.part(part), part, vec![port("tcp-valkey", SERVER_PORT)]);
    vec![one("primary"), one("replicas")]
}

fn set(valkey: &Valkey, names: &Names, part: &str, members: i32, annotations: &Value) -> Child {
    let spec = &valkey.spec;
    let mut containers = vec![container(valkey, names, "valkey", "server.sh", SERVER_PORT)];
    if names.sentinel {
        containers.push(container(valkey, names, "sentinel", "sentinel.sh", SENTINEL_PORT));
    }
    let mut pod = json!({
        "serviceAccountName": names.base(),
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 30,
        "securityContext": pod_security(),
        "containers": containers,
    });
    let mut volumes = vec![
        json!({"name": "conf", "configMap": {"name": names.part("configuration")}}),
        json!({"name": "secret", "secret": {"secretName": names.base()}}),
    ];
    volumes.extend(tls::volume(names).into_iter().chain(scratch()).map(|(volume, _)| volume));
    let mut fields = json!({});
    match spec.persistence.as_ref().filter(|persistence| persistence.enabled) {
        Some(persistence) => {
            let size = persistence.size.as_ref().map_or("8Gi", |size| size.as_str());
            let mut claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
            if let Some(class) = &persistence.storage_class {
                claim["storageClassName"] = json!(class);
            }
            fields["volumeClaimTemplates"] =
                json!([{"metadata": {"name": "valkey-data", "labels": names.labels(None)}, "spec": claim}]);
        }
        None => volumes.push(json!({"name": "valkey-data", "emptyDir": {}})),
    }
    pod["volumes"] = json!(volumes);
    place(valkey, &mut pod);
    let labels = names.labels(Some(part));
    let mut set = json!({
        "replicas": members,
        "serviceName": names.part("headless"),
        // All at once: members wait for the first of them, wherever in the order they are.
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod},
    });
    if let Some(claims) = fields.get("volumeClaimTemplates") {
        set["volumeClaimTemplates"] = claims.clone();
    }
    child::<StatefulSet>(json!({"metadata": names.metadata(&names.part(part)), "spec": set}))
}

/// Where pods go, as the Valkey asks for it.
fn place(valkey: &Valkey, pod: &mut Value) {
    let spec = &valkey.spec;
    let asked = [
        ("nodeSelector", json!(spec.node_selector)),
        ("tolerations", json!(spec.tolerations)),
        ("affinity", json!(spec.affinity)),
        ("topologySpreadConstraints", json!(spec.topology_spread_constraints)),
        ("priorityClassName", json!(spec.priority_class_name)),
    ];
    let empty = |value: &Value| match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        other => other.is_null(),
    };
    for (field, value) in asked.into_iter().filter(|(_, value)| !empty(value)) {
        pod[field] = value;
    }
}

fn container(valkey: &Valkey, names: &Names, name: &str, script: &str, port: u16) -> Value {
    let version = valkey.spec.version.as_deref().unwrap_or(VERSION);
    let mut mounts = vec![
        json!({"name": "valkey-data", "mountPath": "/data"}),
        json!({"name": "conf", "mountPath": "/conf", "readOnly": true}),
        json!({"name": "secret", "mountPath": "/secret", "readOnly": true}),
    ];
    mounts.extend(tls::volume(names).into_iter().chain(scratch()).map(|(_, mount)| mount));
    let ping = ["/bin/sh", "-c", &format!("sh /conf/ask.sh {port} 127.0.0.1 PING | grep -q PONG")].map(str::to_owned);
    let mut container = json!({
        "name": name,
        "image": format!("{IMAGE}:{version}"),
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/tini", "--", "/bin/sh", format!("/conf/{script}")],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}},
            {"name": "DOMAIN", "value": names.domain()},
            {"name": "QUORUM", "value": names.quorum().map(|quorum| quorum.to_string()).unwrap_or_default()},
        ],
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"}],
        "readinessProbe": {"exec": {"command": ping}, "periodSeconds": 2, "timeoutSeconds": 5, "failureThreshold": 3},
        "livenessProbe": {"tcpSocket": {"port": name}, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 5},
        "securityContext": container_security(),
        "volumeMounts": mounts,
    });
    if name == "sentinel" {
        // No one is killed for having heard of no one: that may take as long as it takes.
        let known = json!({"command": ["/bin/sh", "/conf/known.sh"]});
        container["startupProbe"] =
            json!({"exec": known, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 604_800});
    }
    if let Some(resources) = valkey.spec.resources.as_ref().filter(|_| name == "valkey") {
        container["resources"] = json!(resources);
    }
    container
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::valkey;

    const PASSWORD: &str = "pantry-password";

    fn planned(spec: Value) -> Plan {
        let signed = Signed { certificate: "<certificate>".into(), authorities: "root".into() };
        let valkey = valkey(spec);
        let signed = Names::of(&valkey).tls.map(|_| &signed);
        plan(&valkey, &Given { password: PASSWORD, signed })
    }

    fn of_kind<'p>(plan: &'p Plan, kind: &'p str) -> impl Iterator<Item = &'p Child> {
        plan.children().filter(move |child| child.resource.kind == kind)
    }

    #[test]
    fn a_single_valkey_without_sentinel() {
        insta::assert_snapshot!(planned(json!({})).golden());
    }

    #[test]
    fn three_with_sentinel_and_everything() {
        let spec = json!({
            "replicas": 3,
            "version": "9.9.9",
            "sentinel": {"enabled": true},
            "persistence": {"enabled": true, "storageClass": "fast", "size": "1Gi"},
            "binding": {"secretName": "key"},
            "resources": {"limits": {"memory": "256Mi"}},
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "k", "operator": "Exists"}],
        });
        insta::assert_snapshot!(planned(spec).golden());
    }

    #[test]
    fn replicas_without_sentinel_are_a_set_of_their_own() {
        let plan = planned(json!({"replicas": 3}));
        let told = of_kind(&plan, "StatefulSet")
            .map(|set| format!("{} {}", set.reference().name, set.object.data["spec"]["replicas"]));
        assert_eq!(told.collect::<Vec<_>>(), ["valkey-larder-primary 1", "valkey-larder-replicas 2"]);
    }

    #[test]
    fn no_secret_is_in_anything_but_secrets() {
        let plan = planned(json!({"replicas": 3, "sentinel": {"enabled": true}}));
        for child in plan.children().filter(|child| child.resource.kind != "Secret") {
            assert!(!serde_json::to_string(&child.object).unwrap().contains(PASSWORD), "{child:?}");
        }
    }

    #[test]
    fn three_with_sentinel_and_tls_by_an_issuer() {
        let issuer = json!({"group": "cert-manager.io", "kind": "ClusterIssuer", "name": "stamp"});
        let tls = json!({"enabled": true, "certManager": {"issuer": issuer}});
        let plan = planned(json!({"replicas": 3, "sentinel": {"enabled": true}, "tls": tls}));
        // What TLS has no part in is in the others.
        let told = ["Secret", "Issuer", "Certificate", "StatefulSet"];
        let children = plan.children().filter(|child| told.contains(&child.resource.kind.as_str())).cloned();
        let part = Plan::new().step(children.fold(Step::new("Ready"), Step::child));
        insta::assert_snapshot!(part.golden());
    }

    #[test]
    fn without_an_issuer_the_certificate_signs_itself_and_is_where_the_genuine_operator_has_it() {
        for (tls, secret) in [
            (json!({"enabled": true}), "valkey-larder-crt"),
            (json!({"enabled": true, "certManager": {}}), "valkey-larder-tls"),
        ] {
            let plan = planned(json!({"tls": tls}));
            let issuer = of_kind(&plan, "Issuer").next().unwrap();
            assert_eq!(issuer.object.data["spec"], json!({"selfSigned": {}}));
            let certificate = of_kind(&plan, "Certificate").next().unwrap();
            assert_eq!(certificate.object.data["spec"]["secretName"], secret);
            assert_eq!(certificate.object.data["spec"]["issuerRef"]["name"], issuer.reference().name);
        }
    }

    #[test]
    fn nobody_starts_and_no_client_is_told_before_there_is_a_certificate() {
        let plan = plan(&valkey(json!({"tls": {"enabled": true}})), &Given { password: PASSWORD, signed: None });
        assert_eq!(of_kind(&plan, "StatefulSet").count(), 0);
        let secrets: Vec<_> = of_kind(&plan, "Secret").map(|secret| secret.reference().name).collect();
        assert_eq!(secrets, ["valkey-larder"]);
    }
}
