//! Built images in a real containerd: as an ordinary user, on a root that cannot be written to. Those that a cloud starts
//! with; `make images` starts every image of every release.

mod support;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use c5c3_cri::testing::Machine;
use c5c3_cri::testing::pods::{self, Pod, confined};
use c5c3_cri::{Programs, Runtime, Site, images};
use c5c3_images::{BuiltImage, Cache, Quiet, Ready, USER};
use support::{USUAL, all, builder, builders, unpack};

const DEADLINE: Duration = Duration::from_mins(3);

/// Brings a built image into a node.
async fn import(site: &Site, runtime: &Runtime, image: &BuiltImage) -> Ready {
    let cache = Cache::open(Cache::default_path()).unwrap();
    let ready = c5c3_images::archive(&cache, &image.references, &image.manifest).unwrap();
    let names = images::import(site, &Programs::find().unwrap(), runtime, &ready.archive).await.unwrap();
    assert_eq!(names[0], ready.reference);
    ready
}

/// Starts an image with the command that shows its version, in a pod of a name that has not been there.
async fn prints_its_version(site: &Site, runtime: &Runtime, pod: &str, image: &BuiltImage) -> Ready {
    let (name, version) = (&image.planned.definition.name, &image.planned.version);
    let ready = import(site, runtime, image).await;
    let check: Vec<_> = image.planned.definition.check.iter().map(String::as_str).collect();
    let folder = site.data().join("pods").join(pod);
    let pod = Pod::start(site, runtime, pod, confined(&ready.reference, USER, &folder, &check)).await;
    let (code, said) = (pod.ended(runtime, DEADLINE).await, pod.said());
    assert_eq!(code, 0, "{name}: {said}");
    // Debian's own version is not what Python says.
    assert!(name == "base" || said.contains(version.as_str()), "{name} {version}: {said}");
    pod.remove(runtime).await;
    ready
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cloud_starts_with_prints_its_version_as_an_ordinary_user_on_a_read_only_root() {
    let built = builder().build(&USUAL, &Quiet).unwrap();
    let machine = Machine::new(1);
    let containerd = machine.start(0).await;
    for image in &built {
        prints_its_version(&machine.sites[0], &containerd.runtime(), &image.planned.definition.name, image).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes and gigabytes: run by `make images`"]
async fn every_image_of_every_release_prints_its_version_as_an_ordinary_user_on_a_read_only_root() {
    let machine = Machine::new(1);
    let containerd = machine.start(0).await;
    let (site, runtime) = (&machine.sites[0], containerd.runtime());
    for builder in builders() {
        for image in builder.build(&all(&builder), &Quiet).unwrap() {
            let pod = format!("{}-{}", image.planned.definition.name, builder.release.name.replace('.', "-"));
            let ready = prints_its_version(site, &runtime, &pod, &image).await;
            // All of them at once would not fit everywhere.
            runtime.remove_image(&ready.reference).await.unwrap();
            fs::remove_file(ready.archive).unwrap();
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
    let ready = import(site, &runtime, &built[0]).await;
    let folder = site.data().join("pods/keystone");
    let serve = confined(&ready.reference, USER, &folder, &["sh", "-c", SERVE]);
    let pod = Pod::start(site, &runtime, "keystone", serve).await;
    let address = runtime.pod_sandbox_status(&pod.sandbox).await.unwrap().network.unwrap().ip;
    let address = SocketAddr::new(address.parse().unwrap(), 5000);
    let asked = tokio::task::spawn_blocking(move || pods::ask(address, DEADLINE, |answer| !answer.is_empty())).await;
    let answer = asked.unwrap_or_else(|error| panic!("{error}: {}", pod.said()));
    assert!(answer.contains(" 300 ") && answer.contains("\"v3.14\""), "{answer}");
}

/// What QEMU is told: no hardware but what it emulates, the guest's console in a file.
const BOOT: &str = "exec qemu-system-x86_64 -M q35,accel=tcg -m 192 -nographic -no-reboot -nodefaults -serial file:/tmp/console \
    -kernel /tmp/guest/vmlinuz -initrd /tmp/guest/initramfs.gz -append 'console=ttyS0 panic=-1' \
    -netdev user,id=net -device virtio-net-pci,netdev=net,romfile=";

/// The disk alone, as Nova starts it, on a network with a metadata service. What is written into `orders` goes to QEMU's
/// monitor, and the port 8080 of the pod leads to the guest's 80.
const BOOT_DISK: &str = "mkfifo /tmp/orders; truncate -s 48M /tmp/extra
exec qemu-system-x86_64 -M pc,accel=tcg -m 192 -display none -no-reboot -nodefaults -serial file:/tmp/console -monitor stdio \
    -drive file=/tmp/guest/disk.qcow2,format=qcow2,if=virtio,readonly=on \
    -blockdev driver=file,filename=/tmp/extra,node-name=extra -device virtio-net-pci,netdev=net,romfile= -netdev 'user,id=net\
,net=169.254.169.0/24,hostfwd=tcp::8080-:80,guestfwd=tcp:169.254.169.254:80-cmd:/bin/sh /tmp/metadata' <>/tmp/orders";

/// What the guest is told of itself, by a shell for each connection.
const METADATA: &str = r#"read -r method path version
while read -r header && [ "${#header}" -gt 1 ]; do :; done
case $path in
    /latest/meta-data/instance-id) body=i-0000002a ;;
    /openstack/latest/meta_data.json) body='{"hostname": "one.example", "name": "one", "uuid": "5a0c1d3e"}' ;;
esac
printf 'HTTP/1.0 200 OK\r\nContent-Length: %s\r\n\r\n%s' "${#body}" "$body"
"#;

/// A guest that QEMU of the image of libvirt emulates.
struct Guest {
    pod: Pod,
    /// The pod's `/tmp`.
    folder: PathBuf,
    /// The version of its kernel.
    kernel: String,
}

impl Guest {
    async fn start(site: &Site, runtime: &Runtime, command: &str) -> Self {
        let built = builder().build(&["libvirt", "guest"], &Quiet).unwrap();
        let ready = import(site, runtime, &built[0]).await;
        let folder = site.data().join("pods/guest");
        let boot = confined(&ready.reference, USER, &folder, &["sh", "-c", command]);
        let folder = folder.join("tmp");
        unpack(&builder(), &built[1], &folder);
        fs::write(folder.join("metadata"), METADATA).unwrap();
        let pod = Pod::start(site, runtime, "guest", boot).await;
        Self { pod, folder, kernel: built[1].planned.version.clone() }
    }

    /// Its console so far.
    fn console(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.join("console")).unwrap_or_default()).into_owned()
    }

    /// Waits until its console has a line.
    async fn says(&self, line: &str) {
        let deadline = Instant::now() + DEADLINE;
        while !self.console().contains(line) {
            assert!(Instant::now() < deadline, "no {line}:\n{}{}", self.pod.said(), self.console());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Tells QEMU's monitor to do something.
    fn order(&self, order: &str) {
        let mut orders = OpenOptions::new().write(true).open(self.folder.join("orders")).unwrap();
        writeln!(orders, "{order}").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the largest images, emulates a machine: run by `make images`"]
async fn the_guest_boots_and_gets_an_address() {
    let machine = Machine::new(1);
    let containerd = machine.start(0).await;
    let guest = Guest::start(&machine.sites[0], &containerd.runtime(), BOOT).await;
    guest.says("GUEST-READY").await;
    let said = guest.console();
    assert!(said.contains("GUEST-LEASE eth0 10.0.2.15 1500"), "{said}");
    assert!(said.contains(&format!("GUEST-UP {}", guest.kernel)), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the largest images, emulates a machine: run by `make images`"]
async fn the_disk_of_the_guest_boots_and_its_console_tells_what_happens_to_it() {
    let machine = Machine::new(1);
    let containerd = machine.start(0).await;
    let (site, runtime) = (&machine.sites[0], containerd.runtime());
    let guest = Guest::start(site, &runtime, BOOT_DISK).await;
    guest.says(&format!("GUEST-UP {}", guest.kernel)).await;
    guest.says("GUEST-DISK vda 33554432").await;
    guest.says("GUEST-METADATA i-0000002a 5a0c1d3e one.example").await;
    guest.says("GUEST-ALIVE").await;

    let address = runtime.pod_sandbox_status(&guest.pod.sandbox).await.unwrap().network.unwrap().ip;
    let address = SocketAddr::new(address.parse().unwrap(), 8080);
    let asked = tokio::task::spawn_blocking(move || pods::ask(address, DEADLINE, |answer| !answer.is_empty())).await;
    let answer = asked.unwrap_or_else(|error| panic!("{error}:\n{}{}", guest.pod.said(), guest.console()));
    assert!(answer.ends_with("\r\n\r\ni-0000002a\n"), "{answer}");

    guest.order("device_add virtio-blk-pci,drive=extra,id=extra");
    guest.says("GUEST-DISK vdb 50331648").await;
    guest.order("device_del extra");
    guest.says("GUEST-DISK-GONE vdb").await;
    guest.order("system_powerdown");
    guest.says("GUEST-POWER-OFF").await;
    assert_eq!(guest.pod.ended(&runtime, DEADLINE).await, 0, "{}", guest.pod.said());
}
