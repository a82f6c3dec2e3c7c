//! Built images in a real containerd: as an ordinary user, on a root that cannot be written to. Those that a cloud starts
//! with; `make images` starts every image of every release.

mod support;

use std::fs;
use std::net::SocketAddr;
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

/// What QEMU is told: no hardware but what it emulates, the guest's console on its output.
const BOOT: &str = "exec qemu-system-x86_64 -M q35,accel=tcg -m 192 -nographic -no-reboot -nodefaults -serial stdio \
    -kernel /tmp/guest/vmlinuz -initrd /tmp/guest/initramfs.gz -append 'console=ttyS0 panic=-1' \
    -netdev user,id=net -device virtio-net-pci,netdev=net,romfile=";

/// QEMU of the image of libvirt boots the tiny guest.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the largest images, emulates a machine: run by `make images`"]
async fn the_guest_boots_and_gets_an_address() {
    let built = builder().build(&["libvirt", "guest"], &Quiet).unwrap();
    let machine = Machine::new(1);
    let containerd = machine.start(0).await;
    let (site, runtime) = (&machine.sites[0], containerd.runtime());
    let ready = import(site, &runtime, &built[0]).await;
    let folder = site.data().join("pods/guest");
    let boot = confined(&ready.reference, USER, &folder, &["sh", "-c", BOOT]);
    unpack(&builder(), &built[1], &folder.join("tmp"));
    let pod = Pod::start(site, &runtime, "guest", boot).await;
    let deadline = Instant::now() + DEADLINE;
    while !pod.said().contains("GUEST-READY") {
        assert!(Instant::now() < deadline, "{}", pod.said());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let said = pod.said();
    assert!(said.contains("GUEST-LEASE eth0 10.0.2.15"), "{said}");
    assert!(said.contains(&format!("GUEST-UP {}", built[1].planned.version)), "{said}");
}
