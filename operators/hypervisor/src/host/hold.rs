//! What is made in the cluster for each host: a pod that keeps its machine until it has left Nova, and libvirt's certificate.

use std::collections::BTreeMap;

use c5c3_api::ext::cert_manager::Certificate;
use c5c3_kit::{Child, KindRef, Step};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::offboarding::State;
use super::view::View;
use crate::node::{HOST_NAMES, INTERNAL_IP};
use crate::settings::{Hold, Issuer};

/// The label of the pod that holds a machine.
const HOLDS: &str = "hypervisor.c5c3.io/holds";

/// The children of a host beside its Eviction. Nothing waits for them.
pub(super) fn step(view: &View<'_>, state: State) -> Step {
    let step = Step::new("NodeHeld").node("hold", []);
    let mut children = Vec::new();
    if let Some(hold) = view.settings.hold.as_ref().filter(|_| view.object().spec.lifecycle_enabled) {
        let is_gone = state == State::Gone;
        children.extend([deployment(view, hold, is_gone), budget(view, hold, is_gone)]);
    }
    // The agent makes its own when it is asked to; two Certificates of one name would be written in turns.
    let agent_does = view.object().spec.create_cert_manager_certificate;
    if let Some(issuer) = view.settings.issuer.as_ref().filter(|_| !agent_does) {
        children.push(certificate(view, issuer));
    }
    if children.is_empty() {
        return step.childless().reasons("NotConfigured", "NotConfigured").done("nothing holds the machine");
    }
    step.children(children.into_iter().map(Child::readiness_optional))
        .done("the machine is held until its host has left Nova")
}

fn child<K: kube::Resource<DynamicType = ()>>(namespace: &str, name: &str, content: Value) -> Child
where
    K::Scope: 'static,
{
    let kind = KindRef::of::<K>();
    let mut object = DynamicObject::new(name, &kind.resource).within(namespace);
    object.data = content;
    Child::dynamic(kind.resource, object)
}

fn name(view: &View<'_>) -> String {
    format!("hold-{}", view.name)
}

/// The value of the label. Names of nodes may be longer than labels.
fn labels(view: &View<'_>) -> BTreeMap<&'static str, String> {
    BTreeMap::from([(HOLDS, c5c3_kit::hash::short(view.name.as_bytes()))])
}

fn deployment(view: &View<'_>, hold: &Hold, is_gone: bool) -> Child {
    let hostname = view.object().labels().get("kubernetes.io/hostname").cloned().unwrap_or_else(|| view.name.clone());
    let labels = labels(view);
    let mut of_pod = json!(labels);
    // Gardener waits for such pods before it lets others onto a node.
    of_pod["node.gardener.cloud/critical-component"] = "true".into();
    let security = json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
        "runAsUser": 65535, "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}});
    let content = json!({"spec": {
        "replicas": i32::from(!is_gone),
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": of_pod}, "spec": {
            "nodeSelector": {"kubernetes.io/hostname": hostname},
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}, {"operator": "Exists", "effect": "NoSchedule"}],
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": false,
            "containers": [{"name": "hold", "image": hold.image, "securityContext": security,
                "resources": {"requests": {"cpu": "1m", "memory": "4Mi"}, "limits": {"memory": "16Mi"}}}],
        }},
    }});
    child::<Deployment>(&hold.namespace, &name(view), content)
}

fn budget(view: &View<'_>, hold: &Hold, is_gone: bool) -> Child {
    let content = json!({"spec": {"minAvailable": i32::from(!is_gone), "selector": {"matchLabels": labels(view)}}});
    child::<PodDisruptionBudget>(&hold.namespace, &name(view), content)
}

fn certificate(view: &View<'_>, issuer: &Issuer) -> Child {
    let annotation = |key: &str| view.object().annotations().get(key).cloned().unwrap_or_default();
    let list = |text: String| text.split(',').filter(|one| !one.is_empty()).map(ToOwned::to_owned).collect::<Vec<_>>();
    let secret = format!("tls-libvirt-{}", view.name);
    let content = json!({"spec": {
        "secretName": secret,
        "issuerRef": {"name": issuer.name, "kind": issuer.kind, "group": "cert-manager.io"},
        "subject": {"organizations": ["nova"]},
        "dnsNames": list(annotation(HOST_NAMES)),
        "ipAddresses": list(annotation(INTERNAL_IP)),
        "duration": "1128h",
        "renewBefore": "888h",
        "usages": ["digital signature", "key encipherment", "server auth", "client auth"],
        "privateKey": {"algorithm": "RSA", "size": 4096, "encoding": "PKCS1", "rotationPolicy": "Always"},
    }});
    child::<Certificate>(&issuer.namespace, &format!("libvirt-{}", view.name), content)
}
