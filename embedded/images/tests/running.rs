//! Built images in a real containerd: as an ordinary user, on a root that cannot be written to.
//!
//! Those that a cloud starts with; with `C5C3_TEST_IMAGES=all` every image, which takes minutes and gigabytes. The release
//! is the default one, or `C5C3_TEST_RELEASE`.

mod support;

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use c5c3_cri::testing::{Machine, pods};
use c5c3_cri::{Programs, Runtime, Site, images, v1};
use c5c3_images::{BuiltImage, Quiet, USER};
use support::{are_all, builder, chosen, unpack};

const DEADLINE: Duration = Duration::from_mins(3);

/// Brings a built image into a node.
async fn import(site: &Site, runtime: &Runtime, image: &BuiltImage) -> String {
    let ready = c5c3_images::archive(&builder().cache, &image.references, &image.manifest).unwrap();
    let names = images::import(site, &Programs::find().unwrap(), runtime, &ready.archive).await.unwrap();
    assert_eq!(names[0], ready.reference);
    if are_all() {
        // All archives at once would not fit everywhere.
        fs::remove_file(ready.archive).unwrap();
    }
    ready.reference
}

/// A container as our pods are: an ordinary user, nothing writable but `/tmp` and `/run`, no capabilities.
fn container(image: &str, folder: &Path, arguments: &[&str]) -> v1::ContainerConfig {
    let mounts = ["/tmp", "/run"].map(|path| {
        let host = folder.join(path.trim_start_matches('/'));
        fs::create_dir_all(&host).unwrap();
        fs::set_permissions(&host, fs::Permissions::from_mode(0o1777)).unwrap();
        v1::Mount { container_path: path.into(), host_path: host.display().to_string(), ..v1::Mount::default() }
    });
    let security = v1::LinuxContainerSecurityContext {
        run_as_user: Some(v1::Int64Value { value: USER.into() }),
        run_as_group: Some(v1::Int64Value { value: USER.into() }),
        readonly_rootfs: true,
        no_new_privs: true,
        capabilities: Some(v1::Capability { drop_capabilities: vec!["ALL".into()], ..v1::Capability::default() }),
        ..v1::LinuxContainerSecurityContext::default()
    };
    v1::ContainerConfig {
        args: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        envs: vec![v1::KeyValue { key: "HOME".into(), value: "/tmp".into() }],
        mounts: mounts.to_vec(),
        linux: Some(v1::LinuxContainerConfig {
            security_context: Some(security),
            ..v1::LinuxContainerConfig::default()
        }),
        ..pods::container(image)
    }
}

/// A pod that was started.
struct Pod {
    sandbox: String,
    container: String,
    log: String,
}

async fn start(site: &Site, runtime: &Runtime, name: &str, container: v1::ContainerConfig) -> Pod {
    let config = pods::sandbox(site, name);
    let sandbox = runtime.run_pod_sandbox(config.clone(), "").await.unwrap();
    let log = format!("{}/main.log", config.log_directory);
    let container = runtime.create_container(&sandbox, container, config).await.unwrap();
    runtime.start_container(&container).await.unwrap();
    Pod { sandbox, container, log }
}

impl Pod {
    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for the container's end; its exit code.
    async fn ended(&self, runtime: &Runtime) -> i32 {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let status = runtime.container_status(&self.container).await.unwrap();
            if status.state() == v1::ContainerState::ContainerExited {
                return status.exit_code;
            }
            assert!(Instant::now() < deadline, "it has not ended: {}", self.said());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn remove(self, runtime: &Runtime) {
        runtime.stop_pod_sandbox(&self.sandbox).await.unwrap();
        runtime.remove_pod_sandbox(&self.sandbox).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_image_prints_its_version_as_an_ordinary_user_on_a_read_only_root() {
    let builder = builder();
    let built = builder.build(&chosen(&builder), &Quiet).unwrap();
    let machine = Machine::new(1);
    let containerd = machine.start(0).await;
    let (site, runtime) = (&machine.sites[0], containerd.runtime());
    for image in &built {
        let (name, version) = (&image.planned.definition.name, &image.planned.version);
        let reference = import(site, &runtime, image).await;
        let check: Vec<_> = image.planned.definition.check.iter().map(String::as_str).collect();
        let folder = site.data().join("pods").join(name);
        let pod = start(site, &runtime, name, container(&reference, &folder, &check)).await;
        let (code, said) = (pod.ended(&runtime).await, pod.said());
        assert_eq!(code, 0, "{name}: {said}");
        // Debian's own version is not what Python says.
        assert!(name == "base" || said.contains(version.as_str()), "{name} {version}: {said}");
        pod.remove(&runtime).await;
        if are_all() {
            runtime.remove_image(&reference).await.unwrap();
        }
    }
}

/// Makes a database and keys where they can be written, then serves.
const SERVE: &str = "set -eu
mkdir -p /tmp/keys /tmp/credentials
cat >/tmp/keystone.conf <<END
[DEFAULT]
use_stderr = true
[database]
connection = sqlite:////tmp/keystone.db
[fernet_tokens]
key_repository = /tmp/keys
[fernet_receipts]
key_repository = /tmp/keys
[credential]
key_repository = /tmp/credentials
END
export OS_KEYSTONE_CONFIG_DIR=/tmp OS_KEYSTONE_CONFIG_FILES=keystone.conf
keystone-manage --config-file /tmp/keystone.conf db_sync
keystone-manage --config-file /tmp/keystone.conf fernet_setup --keystone-user 42424 --keystone-group 42424
exec uwsgi --http-socket 0.0.0.0:5000 --master --need-app --die-on-term --module keystone.wsgi.api --enable-threads";

#[tokio::test(flavor = "multi_thread")]
async fn keystone_answers_once_it_is_configured() {
    let built = builder().build(&["keystone"], &Quiet).unwrap();
    let machine = Machine::new(1);
    let containerd = machine.start(0).await;
    let (site, runtime) = (&machine.sites[0], containerd.runtime());
    let reference = import(site, &runtime, &built[0]).await;
    let folder = site.data().join("pods/keystone");
    let pod = start(site, &runtime, "keystone", container(&reference, &folder, &["sh", "-c", SERVE])).await;
    let address = runtime.pod_sandbox_status(&pod.sandbox).await.unwrap().network.unwrap().ip;
    let address = SocketAddr::new(address.parse().unwrap(), 5000);
    let asked = tokio::task::spawn_blocking(move || pods::ask(address, DEADLINE, |answer| !answer.is_empty())).await;
    let answer = asked.unwrap_or_else(|error| panic!("{error}: {}", pod.said()));
    assert!(answer.contains(" 300 ") && answer.contains("\"v3.14\""), "{answer}");
}

/// What QEMU is told: no hardware but what it emulates, the guest's console on its output.
const BOOT: &str = "exec qemu-system-x86_64 -M q35,accel=tcg -m 192 -nographic -no-reboot -nodefaults -serial stdio \
    -kernel /tmp/guest/vmlinuz -initrd /tmp/guest/initramfs.gz -append 'console=ttyS0 panic=-1' \
    -netdev user,id=net -device virtio-net-pci,netdev=net,romfile=";

/// QEMU of the image of libvirt boots the tiny guest, which gets an address. Only with all images: that one is large.
#[tokio::test(flavor = "multi_thread")]
async fn the_guest_boots_and_gets_an_address() {
    if !are_all() {
        return;
    }
    let built = builder().build(&["libvirt", "guest"], &Quiet).unwrap();
    let machine = Machine::new(1);
    let containerd = machine.start(0).await;
    let (site, runtime) = (&machine.sites[0], containerd.runtime());
    let reference = import(site, &runtime, &built[0]).await;
    let folder = site.data().join("pods/guest");
    let config = container(&reference, &folder, &["sh", "-c", BOOT]);
    unpack(&builder(), &built[1], &folder.join("tmp"));
    let pod = start(site, &runtime, "guest", config).await;
    let deadline = Instant::now() + DEADLINE;
    while !pod.said().contains("GUEST-READY") {
        assert!(Instant::now() < deadline, "{}", pod.said());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let said = pod.said();
    assert!(said.contains("GUEST-LEASE eth0 10.0.2.15"), "{said}");
    assert!(said.contains(&format!("GUEST-UP {}", built[1].planned.version)), "{said}");
}
