//! What lets the API server ask an operator about its objects: a certificate by cert-manager, a Service, the registrations,
//! and what is added to the Deployment.

use c5c3_api::Kind;
use c5c3_kit::{Hook, Operator};
use serde_json::{Value, json};

use super::{Installation, USER, object};

/// Where the webhooks are served.
const PORT: u16 = 9443;

/// Where the certificate is mounted.
const FOLDER: &str = "/run/c5c3/webhooks";

/// Adds to a Deployment what serves webhooks.
pub(super) fn serve(deployment: &mut Value, own: &str) {
    let pod = &mut deployment["spec"]["template"]["spec"];
    // Only the webhook server reads the certificate's key.
    pod["securityContext"]["fsGroup"] = USER.into();
    pod["volumes"] = json!([{"name": "webhooks", "secret": {"secretName": secret(own), "defaultMode": 0o440}}]);
    let container = &mut pod["containers"][0];
    container["volumeMounts"] = json!([{"name": "webhooks", "mountPath": FOLDER, "readOnly": true}]);
    let added = [
        ("args", json!(format!("--webhook-address=0.0.0.0:{PORT}"))),
        ("args", json!(format!("--webhook-certificates={FOLDER}"))),
        ("ports", json!({"name": "webhooks", "containerPort": PORT})),
    ];
    for (list, item) in added {
        container[list].as_array_mut().into_iter().for_each(|list| list.push(item.clone()));
    }
}

/// The objects beside the Deployment and the Service.
pub(super) fn objects(installation: &Installation, operator: &Operator) -> Vec<Value> {
    let kinds: Vec<&Kind> =
        operator.kinds().iter().filter_map(|(version, kind)| c5c3_api::find(version, kind)).collect();
    let mut objects = certificate(installation);
    if !kinds.is_empty() {
        objects.push(registration("Mutating", "/default", installation, &kinds));
        objects.push(registration("Validating", "/validate", installation, &kinds));
    }
    for hook in operator.hooks() {
        let service = json!({"namespace": installation.home, "name": installation.own, "path": hook.path, "port": 443});
        objects.push(hooked(&installation.own, hook, &json!({"service": service})));
    }
    objects
}

/// The registration of a webhook about kinds that are not ours. Its operator keeps the authority of its certificate in it.
pub(super) fn hooked(own: &str, hook: &Hook, client: &Value) -> Value {
    let kind = if hook.mutating { "Mutating" } else { "Validating" };
    let version = "admissionregistration.k8s.io/v1";
    let mut registration = object(version, &format!("{kind}WebhookConfiguration"), own, None);
    registration["webhooks"] = json!([{
        "name": format!("{}.{own}.c5c3.io", kind.to_lowercase()),
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        // None of our webhooks may block other projects' kinds.
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "rules": hook.rules,
        "sideEffects": hook.side_effects,
        "timeoutSeconds": hook.timeout_seconds,
    }]);
    registration
}

/// The port of the Service that leads to the webhooks.
pub(super) fn service_port() -> Value {
    json!({"name": "webhooks", "port": 443, "targetPort": "webhooks"})
}

fn secret(own: &str) -> String {
    format!("{own}-webhooks")
}

fn certificate(installation: &Installation) -> Vec<Value> {
    const VERSION: &str = "cert-manager.io/v1";
    let Installation { own, home, .. } = installation;
    let name = secret(own);
    let mut issuer = installation.object(VERSION, "Issuer", &name);
    issuer["spec"] = json!({"selfSigned": {}});
    let mut certificate = installation.object(VERSION, "Certificate", &name);
    certificate["spec"] = json!({
        "secretName": name,
        // It signs itself: without a name, its issuer would have none either, which certificates must have.
        "commonName": own,
        "issuerRef": {"group": "cert-manager.io", "kind": "Issuer", "name": name},
        "dnsNames": [format!("{own}.{home}.svc"), format!("{own}.{home}.svc.cluster.local")],
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
        "usages": ["server auth", "digital signature"],
    });
    vec![issuer, certificate]
}

/// A registration. What the webhook would refuse while it is away is told by the operator on the object itself, so its
/// absence blocks no request, not even the removal of a finalizer after the operator is uninstalled.
fn registration(kind: &str, path: &str, installation: &Installation, kinds: &[&Kind]) -> Value {
    const GROUP: &str = "admissionregistration.k8s.io";
    let Installation { own, home, namespace, .. } = installation;
    let mut registration = object(&format!("{GROUP}/v1"), &format!("{kind}WebhookConfiguration"), own, None);
    registration["metadata"]["annotations"] =
        json!({"cert-manager.io/inject-ca-from": format!("{home}/{}", secret(own))});
    let rules: Vec<Value> = kinds.iter().map(|kind| rule(kind)).collect();
    let mut webhook = json!({
        "name": format!("{}.{own}.c5c3.io", kind.to_lowercase()),
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": home, "name": own, "path": path, "port": 443}},
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "rules": rules,
        "sideEffects": "None",
        "timeoutSeconds": 5,
    });
    if let Some(namespace) = namespace {
        webhook["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    }
    registration["webhooks"] = json!([webhook]);
    registration
}

pub(super) fn rule(kind: &Kind) -> Value {
    let spec = &kind.crd().spec;
    let version = kind.api_version().rsplit('/').next().unwrap_or_default();
    json!({
        "apiGroups": [spec.group], "apiVersions": [version], "resources": [spec.names.plural],
        "operations": ["CREATE", "UPDATE"], "scope": spec.scope,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::written;
    use super::*;

    /// The object of a kind among those that are written for the Keystone operator.
    fn find<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
        objects.iter().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("there is no {kind}"))
    }

    #[test]
    fn a_registration_leads_by_the_service_to_the_port_whose_certificate_it_trusts() {
        let objects = written("keystone", Some("cellar"), true);
        let webhook = &find(&objects, "ValidatingWebhookConfiguration")["webhooks"][0];
        let (service, certificate) = (find(&objects, "Service"), find(&objects, "Certificate"));
        let asked = &webhook["clientConfig"]["service"];
        assert_eq!(
            (&asked["name"], &asked["namespace"]),
            (&service["metadata"]["name"], &service["metadata"]["namespace"])
        );
        assert_eq!((&asked["port"], &asked["path"]), (&service["spec"]["ports"][1]["port"], &json!("/validate")));
        assert_eq!(certificate["spec"]["dnsNames"][0], "keystone-operator.openstack.svc");
        let injected = &find(&objects, "MutatingWebhookConfiguration")["metadata"]["annotations"];
        assert_eq!(injected["cert-manager.io/inject-ca-from"], "openstack/keystone-operator-webhooks");
        assert_eq!(webhook["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"], "cellar");
        assert_eq!(webhook["rules"][0]["resources"], json!(["keystones"]));

        let template = &find(&objects, "Deployment")["spec"]["template"];
        assert_eq!(
            service["spec"]["selector"]["app.kubernetes.io/name"],
            template["metadata"]["labels"]["app.kubernetes.io/name"]
        );
        let container = &template["spec"]["containers"][0];
        assert_eq!(container["ports"][1]["name"], service["spec"]["ports"][1]["targetPort"]);
        assert_eq!(template["spec"]["volumes"][0]["secret"]["secretName"], certificate["spec"]["secretName"]);
        let args = container["args"].to_string();
        assert!(
            args.contains("--webhook-address=0.0.0.0:9443") && args.contains(&format!("certificates={FOLDER}")),
            "{args}"
        );
    }

    #[test]
    fn the_labels_injector_is_asked_about_bindings_and_may_write_to_its_own_registrations_only() {
        let objects = written("labels-injector", Some("cellar"), true);
        for kind in ["Mutating", "Validating"] {
            let registration = find(&objects, &format!("{kind}WebhookConfiguration"));
            assert_eq!(registration["metadata"]["name"], c5c3_operator_labels_injector::CONFIGURATION);
            let webhook = &registration["webhooks"][0];
            assert_eq!(webhook["rules"][0]["resources"], json!(["pods/binding", "bindings"]));
            assert_eq!(
                (&webhook["failurePolicy"], &webhook["sideEffects"]),
                (&json!("Ignore"), &json!("NoneOnDryRun"))
            );
            assert!(webhook["namespaceSelector"].is_null(), "pods are in all namespaces");
        }
        let role = find(&objects, "ClusterRole");
        let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
        let mut own = rule(
            "admissionregistration.k8s.io",
            &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
            &["get", "patch"],
        );
        own["resourceNames"] = json!([c5c3_operator_labels_injector::CONFIGURATION]);
        let nodes = rule("", &["nodes"], &["get", "list", "watch"]);
        let pods = rule("", &["pods"], &["get", "list", "patch", "watch"]);
        let rules = role["rules"].as_array().unwrap();
        assert!(rules.len() == 3 && [nodes, pods, own].iter().all(|rule| rules.contains(rule)), "{rules:?}");
        let bound: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "RoleBinding").collect();
        assert_eq!(bound.len(), 1, "the lease: {bound:?}");
    }

    #[test]
    fn nothing_of_it_is_written_unless_it_is_asked_for() {
        let text = json!(written("keystone", None, false)).to_string();
        assert!(!text.contains("ebhook"), "{text}");
    }
}
