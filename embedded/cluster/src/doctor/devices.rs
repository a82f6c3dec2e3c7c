//! Devices of the machine that hypervisors use: what becomes of servers without them.

use std::path::Path;

use super::Finding;

/// Looks for them in a folder, which is `/dev`.
pub(super) fn look(folder: &Path) -> [Finding; 2] {
    [kvm(&folder.join("kvm")), tun(&folder.join("net/tun"))]
}

/// Servers run without it, so that a machine without it is as it should be.
fn kvm(device: &Path) -> Finding {
    let path = device.display();
    Finding::good(
        "KVM",
        if device.exists() {
            format!("{path} is there; a hypervisor tries it before it uses it")
        } else {
            format!(
                "no {path}: servers run by emulation, many times slower; modprobe kvm_intel or kvm_amd, or allow nested \
                virtualization if this machine is a virtual one"
            )
        },
    )
}

fn tun(device: &Path) -> Finding {
    let path = device.display();
    if device.exists() {
        Finding::good("TUN", format!("{path} is there"))
    } else {
        Finding::warning(
            "TUN",
            format!(
                "no {path}, of which the network cards of servers are made, and Open vSwitch without a kernel module"
            ),
            "modprobe tun",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_missing_device_is_good_for_is_said_and_no_cluster_is_refused_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let [kvm, tun] = look(folder.path());
        assert!(kvm.seen.contains("servers run by emulation") && kvm.fix.is_none(), "{kvm}");
        assert!(tun.seen.contains("network cards of servers") && tun.is_bearable(), "{tun}");
        assert_eq!(tun.fix.as_deref(), Some("modprobe tun"));

        std::fs::create_dir(folder.path().join("net")).unwrap();
        for device in ["kvm", "net/tun"] {
            std::fs::write(folder.path().join(device), "").unwrap();
        }
        assert!(look(folder.path()).iter().all(|finding| finding.fix.is_none() && finding.seen.contains("is there")));
    }
}
