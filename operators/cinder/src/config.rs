//! `cinder.conf`.

use c5c3_api::openstack::{CinderSpec, RBD_DRIVER};
use c5c3_kit::ini::{Ini, IniError};
use c5c3_service::BackingServices;
use c5c3_service::config::Owned;

use crate::BACKUP_POOL;

/// Where the configuration is.
pub(crate) const FOLDER: &str = "/etc/cinder";
/// Where pods write what they need while they run: locks.
pub(crate) const STATE: &str = "/var/lib/cinder";
/// Where images are converted.
pub(crate) const CONVERSION: &str = "/var/lib/cinder/conversion";

/// Options that follow from fields, or that nothing would work with.
pub(crate) const OWNED: &[Owned] = &[
    ("database", "connection", "use spec.database"),
    ("database", "slave_connection", "use spec.database"),
    ("coordination", "backend_url", "use spec.coordination"),
    ("DEFAULT", "auth_strategy", "it is always keystone"),
    ("DEFAULT", "api_paste_config", "use spec.middleware"),
    ("DEFAULT", "enabled_backends", "use spec.backends"),
    ("DEFAULT", "default_volume_type", "use spec.defaultVolumeType"),
    ("DEFAULT", "backup_driver", "use spec.backup"),
    ("DEFAULT", "cluster", "use spec.coordination"),
    ("DEFAULT", "host", "volumes are known by the host name of their pod"),
    ("DEFAULT", "state_path", "no other folder can be written to"),
    ("DEFAULT", "image_conversion_dir", "use spec.scratchSize for its size"),
];

pub(crate) fn configure(spec: &CinderSpec, backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError> {
    backing.database_section(conf, "database", backing.main_database().1)?;
    for bus in &backing.buses {
        bus.configure(conf)?;
    }
    backing.authtoken(conf)?;
    if let Some(identity) = &backing.identity {
        identity.service_user(conf)?;
        // Which endpoint is called is said by options of Cinder's own.
        identity.credential(conf, "nova")?;
        conf.set("nova", "interface", "internal")?;
        identity.credential(conf, "glance")?;
        // Glance is asked for images by a session of Cinder's own.
        if let Some(file) = identity.ca_file() {
            conf.set("DEFAULT", "glance_ca_certificates_file", file)?;
        }
    }
    conf.set("DEFAULT", "glance_catalog_info", "image:glance:internalURL")?;
    conf.set("DEFAULT", "auth_strategy", "keystone")?;
    conf.set("DEFAULT", "api_paste_config", format!("{FOLDER}/api-paste.ini"))?;
    conf.set("DEFAULT", "resource_query_filters_file", "/opt/cinder/etc/cinder/resource_filters.json")?;
    conf.set("DEFAULT", "state_path", STATE)?;
    conf.set("DEFAULT", "image_conversion_dir", CONVERSION)?;
    conf.set("oslo_concurrency", "lock_path", format!("{STATE}/lock"))?;
    // A volume service whose storage does not answer is started again (`launch.py`), in the place of trying within it.
    conf.set("DEFAULT", "reinit_driver_count", 0)?;
    if let Some(coordination) = &backing.coordination {
        conf.set("coordination", "backend_url", coordination.url.clone())?;
    }
    // Without privileges to give, the process that has them elsewhere is one like any other.
    for section in ["cinder_sys_admin", "privsep_osbrick"] {
        conf.set(
            section,
            "helper_command",
            format!("/opt/cinder/bin/privsep-helper --config-file {FOLDER}/cinder.conf"),
        )?;
        conf.set(section, "capabilities", "")?;
    }
    backends(spec, backing, conf)
}

fn backends(spec: &CinderSpec, backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError> {
    let names: Vec<&str> = spec.backends.iter().map(|backend| backend.name.as_str()).collect();
    if !names.is_empty() {
        conf.set("DEFAULT", "enabled_backends", names.as_slice())?;
    }
    if let Some(name) = spec.default_volume_type() {
        conf.set("DEFAULT", "default_volume_type", name)?;
    }
    for backend in &spec.backends {
        let section = backend.name.as_str();
        conf.set(section, "volume_driver", backend.driver())?;
        conf.set(section, "volume_backend_name", section)?;
        if backend.driver() == RBD_DRIVER {
            let pool = backing.pool_named(section);
            conf.set(section, "rbd_pool", pool.pool.as_str())?;
            conf.set(section, "rbd_user", pool.user.as_str())?;
            conf.set(section, "rbd_ceph_conf", pool.conf(FOLDER))?;
            conf.set(section, "rbd_secret_uuid", pool.secret_uuid().to_string())?;
            conf.set(section, "report_discard_supported", true)?;
        }
    }
    if spec.backup.is_some() {
        let pool = backing.pool_named(BACKUP_POOL);
        conf.set("DEFAULT", "backup_driver", "cinder.backup.drivers.ceph.CephBackupDriver")?;
        conf.set("DEFAULT", "backup_ceph_pool", pool.pool.as_str())?;
        conf.set("DEFAULT", "backup_ceph_user", pool.user.as_str())?;
        conf.set("DEFAULT", "backup_ceph_conf", pool.conf(FOLDER))?;
    }
    Ok(())
}
