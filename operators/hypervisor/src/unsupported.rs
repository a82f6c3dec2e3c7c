//! Fields of a Hypervisor's spec that no operator and no agent of this version acts on. Each that is set to another value than its
//! default is reported by name in a condition, with what to do instead.

use c5c3_api::hypervisor::{Hypervisor, HypervisorSpec};
use c5c3_kit::{Ref, Step, Wait};
use kube::ResourceExt;

/// The condition that says whether every field that is set has an effect.
pub(crate) const CONDITION: &str = "SpecSupported";

/// A field that nothing acts on.
pub(crate) struct Field {
    name: &'static str,
    /// Whether it differs from its default. A default is in every object, and asks for nothing.
    is_set: fn(&HypervisorSpec) -> bool,
    /// What the host would have by it.
    what: &'static str,
    /// What to do in its place.
    instead: &'static str,
}

/// Also told where the certificate would be.
pub(crate) const AGENT_CERTIFICATE: Field = Field {
    name: "spec.createCertManagerCertificate",
    is_set: |spec| spec.create_cert_manager_certificate,
    what: "has an agent that requests its certificate",
    instead: "set it to false; the operator requests the certificate where it runs with --certificate-issuer",
};

const FIELDS: &[Field] = &[
    Field {
        name: "spec.version",
        is_set: |spec| spec.version.is_some(),
        what: "has that version of the operating system",
        instead: "remove it; drain the host, and update it with what installed its node",
    },
    Field {
        name: "spec.reboot",
        is_set: |spec| spec.reboot,
        what: "reboots by itself",
        instead: "set it to false; drain the host, and reboot it yourself",
    },
    Field {
        name: "spec.evacuateOnReboot",
        is_set: |spec| !spec.evacuate_on_reboot,
        what: "is rebooted with its instances",
        instead: "remove it; with either value nothing is moved before a reboot, so drain the host if its instances must not stop",
    },
    Field {
        name: "spec.installCertificate",
        is_set: |spec| !spec.install_certificate,
        what: "has an agent that leaves its certificate alone",
        instead: "remove it; with either value no agent installs a certificate",
    },
    AGENT_CERTIFICATE,
];

impl Field {
    /// The wait for its removal, if it is set.
    pub(crate) fn wait(&self, object: &Hypervisor) -> Option<Wait> {
        (self.is_set)(&object.spec).then(|| {
            Wait::on(&Ref::cluster::<Hypervisor>(object.name_any()))
                .condition(self.what)
                .now(format!("sets {}, and no operator or agent of this version acts on it", self.name))
                .look_at(format!("{}: {}", self.name, self.instead))
                .failed("NotSupported")
        })
    }
}

/// The step that names the fields. Nothing waits for it: the host is as good as without them.
pub(crate) fn step(object: &Hypervisor) -> Step {
    let step = Step::new(CONDITION).node("unsupported", []).childless().reasons("Supported", "NotSupported");
    let step = step.done("every field that is set has an effect");
    FIELDS.iter().filter_map(|field| field.wait(object)).fold(step, Step::wait)
}
