//! `neutron.conf` and `ml2_conf.ini`: one configuration, of which the sections of the ML2 plugin are in a file of their own.

use c5c3_api::openstack::{NetworkType, NeutronSpec};
use c5c3_kit::ini::{Ini, IniError};
use c5c3_service::BackingServices;
use c5c3_service::config::Owned;

use crate::ovn;

/// Where the configuration is.
pub(crate) const FOLDER: &str = "/etc/neutron";
/// Where pods write what they need while they run: locks.
pub(crate) const STATE: &str = "/var/lib/neutron";

/// What Geneve's options take of each packet: OVN uses 8 bytes of them beside the 30 of the header.
const GENEVE_HEADER: i32 = 38;

/// Options that follow from fields, or that nothing would work with.
pub(crate) const OWNED: &[Owned] = &[
    ("database", "connection", "use spec.database"),
    ("database", "slave_connection", "use spec.database"),
    ("DEFAULT", "auth_strategy", "it is always keystone"),
    ("DEFAULT", "api_paste_config", "use spec.middleware"),
    ("DEFAULT", "core_plugin", "it is always ml2"),
    ("DEFAULT", "host", "workers are told apart by the host name of their pod"),
    ("DEFAULT", "state_path", "no other folder can be written to"),
    ("DEFAULT", "metadata_proxy_shared_secret", "it is in the Secret nova-metadata-proxy"),
    ("ml2", "type_drivers", "use spec.ml2.typeDrivers"),
    ("ml2", "tenant_network_types", "use spec.ml2.tenantNetworkTypes"),
    ("ml2", "mechanism_drivers", "use spec.ml2.mechanismDrivers"),
    ("ml2", "extension_drivers", "use spec.ml2.extensionDrivers"),
    ("ovn", "ovn_nb_connection", "use spec.ovn.nbConnection"),
    ("ovn", "ovn_sb_connection", "use spec.ovn.sbConnection"),
    ("ovn", "ovn_nb_private_key", "use spec.ovn.certSecretRef"),
    ("ovn", "ovn_nb_certificate", "use spec.ovn.certSecretRef"),
    ("ovn", "ovn_nb_ca_cert", "use spec.ovn.certSecretRef"),
    ("ovn", "ovn_sb_private_key", "use spec.ovn.certSecretRef"),
    ("ovn", "ovn_sb_certificate", "use spec.ovn.certSecretRef"),
    ("ovn", "ovn_sb_ca_cert", "use spec.ovn.certSecretRef"),
];

/// Whether a section is in `ml2_conf.ini`.
pub(crate) fn is_of_ml2(section: &str) -> bool {
    let drivers = ["securitygroup", "network_log", "ovs", "ovs_driver", "sriov_driver"];
    section.starts_with("ml2") || section.starts_with("ovn") || drivers.contains(&section)
}

pub(crate) fn configure(spec: &NeutronSpec, backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError> {
    backing.database_section(conf, "database", backing.main_database().1)?;
    for bus in &backing.buses {
        bus.configure(conf)?;
    }
    backing.authtoken(conf)?;
    if let Some(identity) = &backing.identity {
        for service in ["nova", "placement"] {
            identity.credential(conf, service)?;
            conf.set(service, "endpoint_type", "internal")?;
        }
    }
    conf.set("DEFAULT", "auth_strategy", "keystone")?;
    conf.set("DEFAULT", "api_paste_config", format!("{FOLDER}/api-paste.ini"))?;
    conf.set("DEFAULT", "state_path", STATE)?;
    conf.set("oslo_concurrency", "lock_path", format!("{STATE}/lock"))?;
    conf.set("DEFAULT", "core_plugin", "ml2")?;
    conf.set("DEFAULT", "service_plugins", service_plugins(spec).as_slice())?;
    // Its default is half of the node's processors, whatever the pod may use of them. Pods are what is scaled.
    conf.set("DEFAULT", "rpc_workers", 1)?;
    ml2(spec, conf)?;
    if spec.has_ovn() {
        // Addresses are given by OVN itself, and by no agent that would have to be told.
        conf.set("DEFAULT", "dhcp_agent_notification", false)?;
        ovn::configure(spec, backing, conf)?;
    }
    Ok(())
}

/// What is beside networks and ports. Quality of service is there if its driver is.
fn service_plugins(spec: &NeutronSpec) -> Vec<&'static str> {
    let routers = if spec.has_ovn() { "ovn-router" } else { "router" };
    let mut plugins = vec![routers, "segments", "trunk", "port_forwarding"];
    if spec.ml2.extension_drivers.iter().any(|driver| driver == "qos") {
        plugins.push("qos");
    }
    plugins
}

fn ml2(spec: &NeutronSpec, conf: &mut Ini) -> Result<(), IniError> {
    let ml2 = &spec.ml2;
    let names = |types: &[NetworkType]| types.iter().map(|one| one.name()).collect::<Vec<_>>();
    conf.set("ml2", "type_drivers", names(&ml2.type_drivers).as_slice())?;
    conf.set("ml2", "tenant_network_types", names(&ml2.tenant_network_types).as_slice())?;
    conf.set("ml2", "mechanism_drivers", ml2.mechanism_drivers.as_slice())?;
    conf.set("ml2", "extension_drivers", ml2.extension_drivers.as_slice())?;
    conf.set("securitygroup", "enable_security_group", true)?;
    if ml2.type_drivers.contains(&NetworkType::Geneve) {
        conf.set("ml2_type_geneve", "vni_ranges", "1:65536")?;
        conf.set("ml2_type_geneve", "max_header_size", GENEVE_HEADER)?;
    }
    if ml2.type_drivers.contains(&NetworkType::Vxlan) {
        conf.set("ml2_type_vxlan", "vni_ranges", "65537:69999")?;
    }
    if ml2.type_drivers.contains(&NetworkType::Flat) {
        // Which physical networks there are is said by the bridge mappings of chassis.
        conf.set("ml2_type_flat", "flat_networks", "*")?;
    }
    if !ml2.vlan_ranges.is_empty() {
        conf.set("ml2_type_vlan", "network_vlan_ranges", ml2.vlan_ranges.as_slice())?;
    }
    Ok(())
}
