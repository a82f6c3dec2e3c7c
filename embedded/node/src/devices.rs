//! Devices of the machine that a container gets by asking for a resource, without being privileged. Names and amounts are
//! those of KubeVirt's device plugin, so that the same pod runs on a cluster that has the plugin.

use std::path::Path;

use c5c3_cri::v1;
use k8s_openapi::api::core::v1::Container;

/// A resource and the device that it stands for.
const DEVICES: [(&str, &str); 3] = [
    ("devices.kubevirt.io/kvm", "/dev/kvm"),
    ("devices.kubevirt.io/tun", "/dev/net/tun"),
    ("devices.kubevirt.io/vhost-net", "/dev/vhost-net"),
];

/// How many containers may have one of these devices, which any number of processes can use at once.
pub(crate) const EACH: &str = "1k";

/// The resources that this machine has a device for.
pub(crate) fn offered() -> Vec<&'static str> {
    DEVICES.iter().filter(|(_, path)| Path::new(path).exists()).map(|(resource, _)| *resource).collect()
}

/// The devices of a container, by its limits.
pub(crate) fn of(container: &Container) -> Vec<v1::Device> {
    let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let asked = DEVICES
        .iter()
        .filter(|(resource, _)| limits.and_then(|limits| limits.get(*resource)).is_some_and(|amount| amount.0 != "0"));
    asked
        .map(|(_, path)| v1::Device {
            container_path: (*path).to_owned(),
            host_path: (*path).to_owned(),
            permissions: "rw".to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_gets_the_devices_that_its_limits_name() {
        let with = |limits| {
            let container = json!({"name": "libvirt", "resources": {"limits": limits}});
            of(&serde_json::from_value(container).unwrap())
                .into_iter()
                .map(|device| device.host_path)
                .collect::<Vec<_>>()
        };
        assert_eq!(with(json!({"devices.kubevirt.io/kvm": "1", "cpu": "1"})), ["/dev/kvm"]);
        assert_eq!(with(json!({"devices.kubevirt.io/tun": 1})), ["/dev/net/tun"]);
        assert!(with(json!({"devices.kubevirt.io/kvm": "0", "memory": "1Gi"})).is_empty());
    }
}
