//! Hypervisors among the nodes of this cluster: a DaemonSet of libvirt, and for each cell one of nova-compute. The configuration of
//! nova-compute is that of hypervisors elsewhere (`hypervisors.rs`).
//!
//! ```text
//!  node ── pod libvirt ─────── libvirtd ─► QEMU, in the cgroup c5c3-guests beside those of pods
//!   │        hostPID              ▲ /run/libvirt
//!   └───── pod compute-<cell> ─ nova-compute ─► /run/openvswitch
//! ```
//!
//! Both pods may be deleted and replaced at any time: guests are neither in their cgroups nor in their process namespaces, and what
//! libvirt and Nova know of guests is in folders of the node.

mod fake;
mod node;

use c5c3_api::openstack::{LiveMigration, MigrationTransport, Nova, NovaCompute, NovaSpec, VirtType};
use c5c3_api::{Problem, problem};
use c5c3_kit::config::ConfigFiles;
use c5c3_kit::ini::{Ini, IniError};
use c5c3_kit::{Child, Step, StepName};
use c5c3_service::image;
use c5c3_service::pod::{Mount, Shared};
use c5c3_service::rbd::{Pool, PoolConnection};
use c5c3_service::{Instance, Service, ServicePlan};
use secrecy::SecretString;
use serde_json::json;

use crate::hypervisors;
use node::NodePod;

/// The step of both, and its condition.
pub(crate) const STEP: &str = "compute";
pub(crate) const CONDITION: &str = "ComputeReady";

/// The switch's database, as the DaemonSet of Open vSwitch has it.
const SWITCH: &str = "/run/openvswitch";
const LIBVIRT: &str = "/run/libvirt";
const STATE: &str = crate::config::STATE;

/// Where scripts and settings of libvirt are in its pod.
const SCRIPTS: &str = "/etc/c5c3";

/// What starts privileged helpers of Nova, os-vif and os-brick: sections, each with an option `helper_command`.
const PRIVSEP: [&str; 3] = ["nova_sys_admin", "vif_plug_ovs_privileged", "privsep_osbrick"];

/// What these helpers and nova-compute itself need as root, and nothing else.
const CAPABILITIES: &[&str] = &["CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "NET_ADMIN", "SYS_ADMIN"];

/// After how many seconds a nova-compute that hears nothing is not ready, and when it is started again. Brokers may be away for
/// some minutes: it comes back by itself then.
const DEAF_SECONDS: &str = "120";
const LOST_SECONDS: &str = "600";

/// The pools of volumes, whose keys libvirt needs: Cinder names its own user to Nova.
pub(crate) fn pools(spec: &NovaSpec, instance: &Instance) -> Vec<Pool> {
    // A user that neither the spec nor the Secret names is Cinder's.
    let cinder = Instance { service: "cinder", ..instance.clone() };
    let given = spec.compute.iter().flat_map(|compute| &compute.volume_pools).enumerate();
    given.map(|(index, rbd)| Pool::new(&cinder, format!("volumes-{index}"), Some(rbd), "volumes")).collect()
}

/// What `nova.conf` of a hypervisor has beyond Nova's own services, wherever it is. What differs from node to node is written into
/// the environment by `compute.py`.
pub(crate) fn configure(spec: &NovaSpec, conf: &mut Ini) -> Result<(), IniError> {
    let mut default = |section: &str, key: &str, value: &str| -> Result<(), IniError> {
        if !conf.contains(section, key) {
            conf.set(section, key, value)?;
        }
        Ok(())
    };
    default("DEFAULT", "resume_guests_state_on_host_boot", "true")?;
    default("libvirt", "connection_uri", "qemu:///system")?;
    // Files that QEMU reads without a layer between.
    default("libvirt", "images_type", "raw")?;
    // The emulated CPU of another node is the same, whatever the nodes' own are; with KVM libvirt itself compares them.
    default("workarounds", "skip_cpu_compare_on_dest", "true")?;
    default("os_vif_ovs", "ovsdb_connection", &format!("unix:{SWITCH}/db.sock"))?;
    for section in PRIVSEP {
        default(section, "helper_command", "/opt/nova/bin/privsep-helper --config-file /etc/nova/nova.conf")?;
    }
    match spec.compute.as_ref().and_then(|compute| compute.live_migration.as_ref()).map(|to| to.transport) {
        Some(MigrationTransport::Tls) => {
            default("libvirt", "live_migration_scheme", "tls")?;
            default("libvirt", "live_migration_with_native_tls", "true")
        }
        Some(MigrationTransport::Tcp) => default("libvirt", "live_migration_scheme", "tcp"),
        None => Ok(()),
    }
}

/// Another driver than that of the hypervisors that are asked for.
pub(crate) fn problems(spec: &NovaSpec) -> Option<Problem> {
    spec.compute.as_ref()?.fake.as_ref()?;
    spec.extra_config.get("DEFAULT")?.get("compute_driver")?;
    let what = "names a driver, but spec.compute.fake decides that it is Nova's fake driver";
    Some(problem("spec.extraConfig.DEFAULT.compute_driver", what, "remove it, or remove spec.compute.fake"))
}

/// The DaemonSets, or fake hypervisors, after everything that nova-compute talks to.
pub(crate) fn step<S: Service<Kind = Nova>>(plan: &ServicePlan<'_, S>) -> Step {
    let spec = &plan.parts.object.spec;
    let step = Step::new(CONDITION).reasons("ComputeAvailable", "ComputeProgressing");
    let Some(compute) = &spec.compute else {
        return step.node(STEP, []).childless().done("no node of this cluster is a hypervisor");
    };
    let needs: Vec<StepName> = plan.parts.description.components.iter().map(|one| one.step.clone()).collect();
    let step = step.node(STEP, needs);
    if let Some(fake) = &compute.fake {
        return fake::children(plan, compute, fake, step.done("every fake hypervisor runs"));
    }
    let step = step.done("libvirt and nova-compute run on every hypervisor");
    let Ok(resolved) = plan.resolved else { return step.undecided([]) };
    let hypervisors = Hypervisors {
        instance: &plan.parts.instance,
        compute,
        image: &plan.parts.image,
        shared: &plan.parts.shared,
        pools: &resolved.backing.pools,
    };
    let mut children = hypervisors.libvirt();
    for (cell, labels) in spec.cells_here() {
        // What cannot be written was refused when the main file was.
        let Ok(files) = hypervisors::files(spec, resolved, cell) else { continue };
        children.extend(hypervisors.nova_compute(cell, labels, files, hypervisors::mounts(resolved, cell)));
    }
    step.children(children)
}

/// libvirt on hypervisors, as a Nova without Ceph pools has it. Guests need nothing else of Nova to run.
pub fn libvirt(instance: &Instance, compute: &NovaCompute) -> Vec<Child> {
    Hypervisors { instance, compute, image: "", shared: &Shared::default(), pools: &[] }.libvirt()
}

/// What runs on hypervisors.
struct Hypervisors<'a> {
    instance: &'a Instance,
    compute: &'a NovaCompute,
    /// Nova's image.
    image: &'a str,
    shared: &'a Shared,
    /// All pools, whose keys libvirt gets.
    pools: &'a [PoolConnection],
}

impl Hypervisors<'_> {
    /// libvirt on every hypervisor of every cell.
    fn libvirt(&self) -> Vec<Child> {
        let mut files = ConfigFiles::new(&self.instance.namespace, self.instance.named("libvirt"))
            .file("libvirt.py", include_str!("libvirt.py").into())
            .file("qemu.conf", include_str!("qemu.conf").into())
            .file("libvirtd.conf", libvirtd(self.compute.live_migration.as_ref()).into())
            .file("settings.json", self.settings().into());
        for (name, content) in self.pools.iter().flat_map(PoolConnection::libvirt_secret) {
            files = files.file(format!("secret-{name}"), content);
        }
        let image = self.compute.libvirt_image.as_ref();
        let image = image.map_or_else(|| image::LIBVIRT.to_owned(), c5c3_api::blocks::Image::reference);
        let pod = NodePod {
            instance: self.instance,
            component: "libvirt".into(),
            shared: &Shared { pull_secrets: self.shared.pull_secrets.clone(), ..Shared::default() },
            containers: vec![node::libvirt(&image, self.compute.libvirt_resources.as_ref())],
            init_containers: self.probe().into_iter().collect(),
            mounts: self.libvirt_mounts(&files),
            labels: self.compute.labels(),
            tolerations: self.compute.tolerations.clone(),
            // libvirtd ends at once; what it does for a guest then is taken up by the next one.
            grace_seconds: 30,
            shares_processes: true,
        };
        vec![files.child(), pod.child(&image)]
    }

    fn settings(&self) -> String {
        let virt_type = match self.compute.virt_type {
            VirtType::Auto => "auto",
            VirtType::Kvm => "kvm",
            VirtType::Qemu => "qemu",
        };
        json!({"virtType": virt_type, "listen": self.compute.live_migration.is_some()}).to_string()
    }

    /// Copies the guest that shows whether KVM works to where libvirt's container finds it.
    fn probe(&self) -> Option<k8s_openapi::api::core::v1::Container> {
        if self.compute.virt_type != VirtType::Auto {
            return None;
        }
        let image = self.compute.probe_image.as_ref();
        let image = image.map_or_else(|| image::GUEST.to_owned(), c5c3_api::blocks::Image::reference);
        Some(node::probe(&image))
    }

    fn libvirt_mounts(&self, files: &ConfigFiles) -> Vec<Mount> {
        let mut mounts = vec![
            Mount::secret("config", &files.name(), SCRIPTS),
            Mount::scratch(node::GUEST, "/guest", "64Mi"),
            Mount::scratch(node::KEYS, "/etc/libvirt", "16Mi"),
            Mount::scratch("cache", "/var/cache/libvirt", "64Mi"),
            Mount::host_path("definitions", "/etc/libvirt/qemu", "/etc/libvirt/qemu"),
            Mount::host_path("libvirt", LIBVIRT, LIBVIRT),
            Mount::host_path("switch", SWITCH, SWITCH),
            Mount::host_path("guests", "/var/lib/libvirt", "/var/lib/libvirt"),
            Mount::host_path("state", STATE, STATE),
            Mount::host_path("logs", "/var/log/libvirt", "/var/log/libvirt"),
            Mount::host_path("cgroups", "/sys/fs/cgroup", "/sys/fs/cgroup"),
        ];
        let certificate = self.compute.live_migration.as_ref().and_then(|to| to.cert_secret_ref.as_ref());
        mounts.extend(certificate.map(|secret| Mount::secret_items("pki", secret.name.as_str(), "/etc/pki", PKI)));
        mounts
    }

    /// nova-compute on the hypervisors of a cell.
    fn nova_compute(
        &self,
        cell: &str,
        labels: std::collections::BTreeMap<String, String>,
        files: Vec<(String, SecretString)>,
        certificates: Vec<Mount>,
    ) -> Vec<Child> {
        let component = format!("compute-{cell}");
        let config = ConfigFiles::new(&self.instance.namespace, self.instance.named(&format!("{component}-config")))
            .file("compute.py", include_str!("compute.py").into());
        let config = files.into_iter().fold(config, |config, (name, content)| config.file(name, content));
        let mut mounts = vec![
            Mount::secret("config", &config.name(), crate::config::FOLDER),
            Mount::host_path("libvirt", LIBVIRT, LIBVIRT),
            Mount::host_path("switch", SWITCH, SWITCH),
            Mount::host_path("state", STATE, STATE),
        ];
        mounts.extend(certificates);
        let pod = NodePod {
            instance: self.instance,
            component,
            shared: self.shared,
            containers: vec![node::nova_compute(self.image, self.compute.resources.as_ref())],
            init_containers: Vec::new(),
            mounts,
            labels,
            tolerations: self.compute.tolerations.clone(),
            // Nova finishes what it does for servers within 60 seconds, or leaves it.
            grace_seconds: 90,
            shares_processes: false,
        };
        vec![config.child(), pod.child(self.image)]
    }
}

/// The places of the certificate: of libvirtd as a server and as a client of others, and the same for QEMU.
const PKI: &[(&str, &str)] = &[
    ("ca.crt", "CA/cacert.pem"),
    ("tls.crt", "libvirt/servercert.pem"),
    ("tls.key", "libvirt/private/serverkey.pem"),
    ("tls.crt", "libvirt/clientcert.pem"),
    ("tls.key", "libvirt/private/clientkey.pem"),
    ("ca.crt", "qemu/ca-cert.pem"),
    ("tls.crt", "qemu/server-cert.pem"),
    ("tls.key", "qemu/server-key.pem"),
    ("tls.crt", "qemu/client-cert.pem"),
    ("tls.key", "qemu/client-key.pem"),
];

/// `libvirtd.conf` but for what is a node's own.
fn libvirtd(migration: Option<&LiveMigration>) -> String {
    let listen = match migration.map(|migration| migration.transport) {
        Some(MigrationTransport::Tls) => "listen_tls = 1\nlisten_tcp = 0\n",
        Some(MigrationTransport::Tcp) => "listen_tls = 0\nlisten_tcp = 1\nauth_tcp = \"none\"\n",
        None => "",
    };
    format!("{}{listen}", include_str!("libvirtd.conf"))
}
