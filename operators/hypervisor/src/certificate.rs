//! The certificate of a host's libvirt, which cert-manager signs.

use c5c3_api::ext::cert_manager::Certificate;
use c5c3_api::hypervisor::Hypervisor;
use c5c3_kit::condition::ConditionState;
use c5c3_kit::object::condition;
use c5c3_kit::{Child, Controller, Inputs, KindRef, Plan, Ref, Step, Summary, Verdict};
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::json;

use crate::elsewhere;
use crate::node::{HOST_NAMES, INTERNAL_IP};
use crate::settings::Issuer;
use crate::unsupported::AGENT_CERTIFICATE;

/// The field manager. It must never change.
pub(crate) const MANAGER: &str = "hypervisor-operator-certificates";

const CONDITION: &str = "CertificateIssued";

/// The kinds that are made in the namespace of the issuer.
pub(crate) fn kinds() -> Vec<KindRef> {
    vec![KindRef::of::<Certificate>()]
}

/// The controller of certificates.
pub(crate) struct Certificates(pub(crate) Issuer);

impl Controller for Certificates {
    type Kind = Hypervisor;
    type Valid = ();
    const NAME: &'static str = "hypervisor-certificate";
    const CONDITIONS: &'static [&'static str] = &[CONDITION];
    const SUMMARY: &'static [&'static str] = &[];

    fn children(&self) -> Vec<KindRef> {
        kinds()
    }

    fn observes(&self) -> Vec<KindRef> {
        kinds()
    }

    fn needs(&self, _: &Inputs<Hypervisor>) -> Vec<Ref> {
        Vec::new()
    }

    fn validate(&self, _: &Inputs<Hypervisor>) -> Verdict<()> {
        Verdict::Valid(())
    }

    fn plan(&self, (): &(), inputs: &Inputs<Hypervisor>) -> Plan {
        let object = &inputs.object;
        let step = Step::new(CONDITION);
        // Nobody else requests a Certificate, so that one of before stays. Two writers of one would write it in turns.
        if let Some(wait) = AGENT_CERTIFICATE.wait(object) {
            let refused = ConditionState::unmet(CONDITION, "NotSupported", wait.message(None));
            return Plan::new().step(step.undecided([])).condition(refused);
        }
        let live = inputs.own_named::<Certificate>(&name(object));
        let step = step.child(certificate(object, &self.0).readiness_optional());
        Plan::new().step(step).condition(said(live, object, &self.0))
    }

    /// What the host is as a whole is said by the controller of hosts.
    fn summary(&self, _: Summary<'_>) -> Vec<ConditionState> {
        Vec::new()
    }
}

/// What cert-manager says of it.
fn said(live: Option<&DynamicObject>, object: &Hypervisor, issuer: &Issuer) -> ConditionState {
    let ready = live.and_then(|live| condition(live, "Ready"));
    let text = |key: &str| ready.and_then(|ready| ready[key].as_str()).unwrap_or_default();
    if text("status") == "True" {
        let message = format!(
            "it is in secret/{} of namespace {}; no agent of this version installs it on the node, whatever \
             spec.installCertificate says",
            secret(object),
            issuer.namespace
        );
        return ConditionState::met(CONDITION, "Issued", message);
    }
    let message = if text("message").is_empty() { "cert-manager has not said anything yet" } else { text("message") };
    ConditionState::unmet(CONDITION, "NotIssued", message)
}

fn name(object: &Hypervisor) -> String {
    format!("libvirt-{}", object.name_any())
}

fn secret(object: &Hypervisor) -> String {
    format!("tls-libvirt-{}", object.name_any())
}

fn certificate(object: &Hypervisor, issuer: &Issuer) -> Child {
    let annotation = |key: &str| object.annotations().get(key).cloned().unwrap_or_default();
    let list = |text: String| text.split(',').filter(|one| !one.is_empty()).map(ToOwned::to_owned).collect::<Vec<_>>();
    let content = json!({"spec": {
        "secretName": secret(object),
        "issuerRef": {"name": issuer.name, "kind": issuer.kind, "group": "cert-manager.io"},
        "subject": {"organizations": ["nova"]},
        "dnsNames": list(annotation(HOST_NAMES)),
        "ipAddresses": list(annotation(INTERNAL_IP)),
        "duration": "1128h",
        "renewBefore": "888h",
        "usages": ["digital signature", "key encipherment", "server auth", "client auth"],
        "privateKey": {"algorithm": "RSA", "size": 4096, "encoding": "PKCS1", "rotationPolicy": "Always"},
    }});
    elsewhere::child::<Certificate>(&issuer.namespace, &name(object), content)
}
