//! The operating system and the hardware of the host, from files that every Linux has. No bus is needed for that.

use std::path::Path;

use c5c3_api::hypervisor::OperatingSystem;

/// Reads what there is. `os_release` is the host's file of that name.
pub fn read(os_release: &Path) -> OperatingSystem {
    let release = std::fs::read_to_string(os_release).unwrap_or_default();
    let file = |path: &str| text(&std::fs::read_to_string(path).unwrap_or_default());
    let dmi = |name: &str| file(&format!("/sys/class/dmi/id/{name}"));
    let kernel = rustix::system::uname();
    OperatingSystem {
        kernel_name: text(&kernel.sysname().to_string_lossy()),
        kernel_release: text(&kernel.release().to_string_lossy()),
        kernel_version: text(&kernel.version().to_string_lossy()),
        kernel_command_line: file("/proc/cmdline"),
        hardware_vendor: dmi("sys_vendor"),
        hardware_model: dmi("product_name"),
        hardware_serial: dmi("product_serial"),
        firmware_version: dmi("bios_version"),
        firmware_vendor: dmi("bios_vendor"),
        firmware_date: dmi("bios_date"),
        ..distribution(&release)
    }
}

/// What `os-release` says. Garden Linux has a version of its own; other distributions have `VERSION_ID`.
fn distribution(release: &str) -> OperatingSystem {
    let value = |name: &str| {
        let line = release.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='))?;
        text(line.trim().trim_matches(['"', '\'']))
    };
    OperatingSystem {
        version: value("GARDENLINUX_VERSION").or_else(|| value("VERSION_ID")),
        variant_id: value("VARIANT_ID"),
        pretty_version: value("PRETTY_NAME"),
        garden_linux_commit_id: value("GARDENLINUX_COMMIT_ID_LONG").or_else(|| value("GARDENLINUX_COMMIT_ID")),
        garden_linux_features: value("GARDENLINUX_FEATURES")
            .map(|all| all.split(',').filter_map(text).take(128).collect())
            .unwrap_or_default(),
        ..OperatingSystem::default()
    }
}

/// A text without what surrounds it, unless it is empty. Each field of the schema takes at least 64 characters.
fn text(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches('\0');
    (!text.is_empty()).then(|| text.chars().take(64).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_distribution_has_a_version() {
        let found = distribution("PRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\nVERSION_ID=\"13\"\n");
        assert_eq!(found.version.as_deref(), Some("13"));
        assert_eq!(found.pretty_version.as_deref(), Some("Debian GNU/Linux 13 (trixie)"));
        assert_eq!(found.garden_linux_commit_id, None);
    }

    #[test]
    fn garden_linux_has_its_own() {
        let release = "VERSION_ID=1592\nGARDENLINUX_VERSION=1592.9\nGARDENLINUX_FEATURES=log,sap,,ssh\nVARIANT_ID=kvm";
        let found = distribution(release);
        assert_eq!((found.version.as_deref(), found.variant_id.as_deref()), (Some("1592.9"), Some("kvm")));
        assert_eq!(found.garden_linux_features, ["log", "sap", "ssh"]);
    }

    #[test]
    fn this_machine_has_a_kernel() {
        let found = read(Path::new("/etc/os-release"));
        assert_eq!(found.kernel_name.as_deref(), Some("Linux"));
        assert!(found.kernel_release.is_some());
    }
}
