//! What containerd and the CNI plugins read: pure functions from a node's settings to files.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::Settings;

/// Where images of one registry are fetched from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registry {
    /// The registry as it stands in the names of images, with its port: `registry.example.org:5000`.
    pub host: String,
    /// The addresses that are asked, in this order, with `http` for those without TLS: mirrors first, and last the
    /// registry itself.
    pub endpoints: Vec<String>,
}

/// What the machine allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// Whether a process may be made less likely to be killed for want of memory (`CAP_SYS_RESOURCE`).
    pub(crate) may_lower_oom_score: bool,
}

/// How unlikely a process is killed for want of memory: less likely than any container, the least of which is at -998.
const OOM_SCORE: i32 = -999;

/// Makes this process less likely to be killed for want of memory than any container. Programs that it starts from then on
/// are as unlikely. Takes `CAP_SYS_RESOURCE`.
pub fn protect_from_oom() -> std::io::Result<()> {
    std::fs::write("/proc/self/oom_score_adj", OOM_SCORE.to_string())
}

impl Machine {
    pub(crate) fn detect() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self { may_lower_oom_score: has_sys_resource(&status) }
    }
}

fn has_sys_resource(status: &str) -> bool {
    const CAP_SYS_RESOURCE: u32 = 24;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    bits & (1 << CAP_SYS_RESOURCE) != 0
}

/// All files of a node, with their contents.
pub(crate) fn files(settings: &Settings, machine: Machine) -> Vec<(PathBuf, String)> {
    let registries = settings.registries.iter().map(|registry| {
        (registry_folder(settings).join(&registry.host).join("hosts.toml"), hosts(&registry.endpoints))
    });
    [
        (settings.site.containerd().join("config.toml"), containerd(settings, machine)),
        (plugin_folder(settings).join("10-c5c3.conflist"), network(settings)),
    ]
    .into_iter()
    .chain(registries)
    .collect()
}

fn registry_folder(settings: &Settings) -> PathBuf {
    settings.site.containerd().join("registries")
}

fn plugin_folder(settings: &Settings) -> PathBuf {
    settings.site.data().join("cni")
}

/// `config.toml`, in the form that containerd 1.5 to 1.7 read.
fn containerd(settings: &Settings, machine: Machine) -> String {
    let site = &settings.site;
    let path = |path: &Path| quoted(&path.to_string_lossy());
    format!(
        r#"version = 2
root = {root}
state = {state}
temp = {temp}
oom_score = {oom_score}
# Not for this machine, or reaching out of our folders.
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
  address = {socket}
[ttrpc]
  address = {ttrpc}
[debug]
  level = "info"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = {sandbox_image}
  stream_server_address = {address}
  stream_server_port = "0"
  max_container_log_line_size = 16384
  # Without the capability to lower the score, no sandbox would start.
  restrict_oom_score_adj = {restrict_oom}
  # A profile would stay in the kernel when all else is removed.
  disable_apparmor = true
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
  # Else they would lie in /run/netns, among those of others.
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = {runc}
        Root = {runc_root}
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = {plugins}
    conf_dir = {plugin_folder}
    max_conf_num = 1
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = {registries}
"#,
        root = path(&site.containerd().join("root")),
        state = path(&site.state()),
        temp = path(&site.containerd().join("temp")),
        socket = path(&site.socket()),
        ttrpc = path(&site.run().join("cri.sock.ttrpc")),
        sandbox_image = quoted(&settings.sandbox_image),
        address = quoted(&settings.address.to_string()),
        oom_score = if machine.may_lower_oom_score { OOM_SCORE } else { 0 },
        restrict_oom = !machine.may_lower_oom_score,
        runc = path(&settings.programs.runc),
        runc_root = path(&site.run().join("runc")),
        plugins = path(&settings.programs.plugins),
        plugin_folder = path(&plugin_folder(settings)),
        registries = path(&registry_folder(settings)),
    )
}

/// The pod network: a link of its own for each pod, which the node routes; addresses from the node's range; host ports.
/// Each pod has its loopback from containerd. What leaves the cluster is masqueraded by the machine, not here, so that
/// nodes and policies see the addresses of pods.
fn network(settings: &Settings) -> String {
    let conflist = json!({
        "cniVersion": "0.4.0",
        "name": settings.site.network(),
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": false,
                "ipam": {
                    "type": "host-local",
                    "dataDir": settings.site.data().join("addresses"),
                    "ranges": [[{ "subnet": settings.pods }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                },
            },
            { "type": "portmap", "capabilities": { "portMappings": true }, "snat": true },
        ],
    });
    format!("{conflist:#}\n")
}

/// `hosts.toml` of a registry. The last endpoint stands there twice: containerd 1.6 ignores a file without a host.
fn hosts(endpoints: &[String]) -> String {
    let Some(server) = endpoints.last() else { return String::new() };
    let hosts = endpoints
        .iter()
        .map(|endpoint| format!("[host.{}]\n  capabilities = [\"pull\", \"resolve\"]\n", quoted(endpoint)));
    format!("server = {}\n{}", quoted(server), hosts.collect::<String>())
}

/// A string of TOML: what JSON escapes, TOML escapes likewise.
fn quoted(text: &str) -> String {
    json!(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Instance, Programs, Site};

    #[test]
    fn the_files_of_a_node() {
        let programs = Programs {
            containerd: "/usr/bin/containerd".into(),
            ctr: "/usr/bin/ctr".into(),
            runc: "/usr/sbin/runc".into(),
            plugins: "/usr/lib/cni".into(),
            ip: "/usr/sbin/ip".into(),
            nft: "/usr/sbin/nft".into(),
            nsenter: "/usr/bin/nsenter".into(),
            unshare: "/usr/bin/unshare".into(),
            setsid: "/usr/bin/setsid".into(),
            catatonit: "/usr/bin/catatonit".into(),
        };
        let settings = Settings {
            site: Site::new(Instance::new("zoo").unwrap(), "lion", "/data/a \"b\"").unwrap(),
            programs,
            namespace: None,
            address: "10.9.0.11".parse().unwrap(),
            pods: "10.10.1.0/24".parse().unwrap(),
            sandbox_image: "local.test/pause:7".into(),
            registries: vec![Registry {
                host: "docker.io".into(),
                endpoints: vec!["http://10.9.0.1:5000".into(), "https://registry-1.docker.io".into()],
            }],
        };
        let allowed = containerd(&settings, Machine { may_lower_oom_score: true });
        assert!(allowed.contains("\noom_score = -999\n"), "less likely to be killed than a guaranteed pod, at -997");
        let files = files(&settings, Machine { may_lower_oom_score: false });
        let all: Vec<_> = files.iter().map(|(path, text)| format!("==> {} <==\n{text}", path.display())).collect();
        insta::assert_snapshot!(all.join("\n"));
    }

    #[test]
    fn the_capability_is_one_bit_of_many() {
        assert!(has_sys_resource("Name:\tx\nCapEff:\t000001ffffffffff\n"));
        assert!(!has_sys_resource("Name:\tx\nCapEff:\t000001fffeffffff\n"));
        assert!(!has_sys_resource(""));
    }
}
