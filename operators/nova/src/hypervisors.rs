//! What hypervisors of a cell get: the configuration of nova-compute, and the keys of the pool that disks are in. Nothing in it
//! leads to a database.

use std::collections::BTreeMap;

use c5c3_api::openstack::{NovaBackend, NovaSpec};
use c5c3_kit::ini::{Ini, IniError};
use c5c3_kit::{Child, Step};
use c5c3_service::ServicePlan;
use c5c3_service::pod::Mount;
use c5c3_service::service_plan::Resolved;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use secrecy::{ExposeSecret, SecretString};

use crate::Compute;
use crate::cells::{self, Cell};
use crate::compute;
use crate::config::{self, FOLDER};

/// The pool of disks, as the files of its client are named.
pub(crate) const POOL: &str = "vms";

/// The step of it.
pub(crate) const STEP: &str = "hypervisors";

/// Sections of `nova.conf` that nova-compute has nothing to do with. It refuses to start with a database.
const NOT_FOR_COMPUTES: &[&str] = &[
    "api",
    "api_database",
    "conductor",
    "database",
    "external_scheduler",
    "keystone_authtoken",
    "oslo_middleware",
    "oslo_policy",
    "scheduler",
    "wsgi",
];

/// Whether disks are in a Ceph pool.
pub(crate) fn is_on_ceph(spec: &NovaSpec) -> bool {
    spec.storage.as_ref().is_some_and(|storage| storage.backend == NovaBackend::Rbd)
}

/// What `nova.conf` of every nova-compute of a cell has.
fn common(resolved: &Resolved, cell: &str) -> Result<Ini, IniError> {
    let (_, mut conf) = resolved.conf.partition(|section| NOT_FOR_COMPUTES.contains(&section));
    config::broker(resolved.backing.bus_named(cell), &mut conf)?;
    conf.remove("neutron", "service_metadata_proxy");
    conf.remove("neutron", "metadata_proxy_shared_secret");
    conf.remove("filter_scheduler", "weight_classes");
    Ok(conf)
}

/// `nova.conf` of fake hypervisors of a cell. They have no disks, so that keys of Ceph are not for them.
pub(crate) fn fake_conf(resolved: &Resolved, cell: &str) -> Result<Ini, IniError> {
    let mut conf = common(resolved, cell)?;
    conf.set("DEFAULT", "compute_driver", "fake.FakeDriver")?;
    Ok(conf)
}

/// `nova.conf` of nova-compute on every hypervisor of a cell. What is a host's own (`host`, `my_ip`, `[libvirt] virt_type`) is not
/// in it.
pub(crate) fn conf(spec: &NovaSpec, resolved: &Resolved, cell: &str) -> Result<Ini, IniError> {
    let mut conf = common(resolved, cell)?;
    let default = |conf: &mut Ini, section: &str, key: &str, value: &str| -> Result<(), IniError> {
        if !conf.contains(section, key) {
            conf.set(section, key, value)?;
        }
        Ok(())
    };
    default(&mut conf, "DEFAULT", "compute_driver", "libvirt.LibvirtDriver")?;
    if is_on_ceph(spec) {
        let pool = resolved.backing.pool_named(POOL);
        conf.set("libvirt", "images_type", "rbd")?;
        conf.set("libvirt", "images_rbd_pool", pool.pool.as_str())?;
        conf.set("libvirt", "images_rbd_ceph_conf", pool.conf(FOLDER))?;
        conf.set("libvirt", "rbd_user", pool.user.as_str())?;
        conf.set("libvirt", "rbd_secret_uuid", pool.secret_uuid().to_string())?;
        default(&mut conf, "libvirt", "hw_disk_discard", "unmap")?;
        // The folder of an instance that was evacuated would stay, and refuse it when it comes back.
        default(&mut conf, "workarounds", "ensure_libvirt_rbd_instance_dir_cleanup", "true")?;
    }
    compute::configure(spec, &mut conf)?;
    Ok(conf)
}

/// The files of a cell's hypervisors, by their names in [`FOLDER`]: `nova.conf`, and for Ceph the configuration and the keyring of
/// its client.
pub(crate) fn files(spec: &NovaSpec, resolved: &Resolved, cell: &str) -> Result<Vec<(String, SecretString)>, IniError> {
    let mut files = vec![("nova.conf".to_owned(), conf(spec, resolved, cell)?.render())];
    if is_on_ceph(spec) {
        files.extend(resolved.backing.pool_named(POOL).files(FOLDER));
    }
    Ok(files)
}

/// The certificates that these files name: of the cell's broker, and of Keystone.
pub(crate) fn mounts(resolved: &Resolved, cell: &str) -> Vec<Mount> {
    let identity = resolved.backing.identity.iter().flat_map(c5c3_service::identity::Access::mounts);
    resolved.backing.bus_named(cell).mounts().into_iter().chain(identity).collect()
}

/// The Secrets `<name>-compute-<cell>`, which hypervisors of other clusters get copies of.
pub(crate) fn step(plan: &ServicePlan<'_, Compute>) -> Step {
    let step = Step::new("ConfigReady").node(STEP, ["config"]).done("").reasons("Rendered", "WaitingForConfig");
    let Ok(resolved) = plan.resolved else { return step.undecided([]) };
    let nova = plan.parts.object;
    // What cannot be written was refused when the main file was.
    let of_cell = |cell: &Cell| Some(secret(plan, cell.name(), files(&nova.spec, resolved, cell.name()).ok()?));
    step.children(cells::all(nova).iter().filter_map(of_cell))
}

fn secret(plan: &ServicePlan<'_, Compute>, cell: &str, files: Vec<(String, SecretString)>) -> Child {
    let instance = &plan.parts.instance;
    let bytes = |text: SecretString| ByteString(text.expose_secret().as_bytes().to_vec());
    let data: BTreeMap<String, ByteString> = files.into_iter().map(|(name, text)| (name, bytes(text))).collect();
    Child::new(&Secret {
        metadata: instance.meta(instance.named(&format!("compute-{cell}")), "hypervisors"),
        data: Some(data),
        ..Secret::default()
    })
}
