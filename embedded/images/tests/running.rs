//! Built images in a real containerd: as an ordinary user, on a root that cannot be written to.
//!
//! Those that a cloud starts with; with `C5C3_TEST_IMAGES=all` every image, which takes minutes and gigabytes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use c5c3_cri::testing::Machine;
use c5c3_cri::{Programs, Runtime, Site, images, v1};
use c5c3_images::{Builder, BuiltImage, DEFAULT_RELEASE, Quiet, USER};

const USUAL: [&str; 5] = ["keystone", "mariadb", "memcached", "rabbitmq", "valkey"];
const DEADLINE: Duration = Duration::from_mins(3);

fn builder() -> Builder {
    Builder::new(DEFAULT_RELEASE).unwrap()
}

/// Builds an image and brings it into a node.
async fn import(site: &Site, runtime: &Runtime, image: &BuiltImage) -> String {
    let ready = c5c3_images::archive(&builder(), image).unwrap();
    let names = images::import(site, &Programs::find().unwrap(), runtime, &ready.archive).await.unwrap();
    assert_eq!(names[0], ready.reference);
    ready.reference
}

fn sandbox(site: &Site, name: &str) -> v1::PodSandboxConfig {
    v1::PodSandboxConfig {
        metadata: Some(v1::PodSandboxMetadata {
            name: name.into(),
            uid: format!("uid-{name}"),
            namespace: "default".into(),
            attempt: 0,
        }),
        hostname: name.into(),
        log_directory: site.data().join("logs").join(name).to_string_lossy().into_owned(),
        linux: Some(v1::LinuxPodSandboxConfig {
            cgroup_parent: format!("{}/{name}", site.cgroup_parent()),
            ..v1::LinuxPodSandboxConfig::default()
        }),
        ..v1::PodSandboxConfig::default()
    }
}

/// A container as our pods are: an ordinary user, nothing writable but `/tmp` and `/run`, no capabilities.
fn container(image: &str, folder: &Path, user: i64, arguments: &[&str]) -> v1::ContainerConfig {
    let mounts = ["/tmp", "/run"].map(|path| {
        let host = folder.join(path.trim_start_matches('/'));
        fs::create_dir_all(&host).unwrap();
        fs::set_permissions(&host, fs::Permissions::from_mode(0o1777)).unwrap();
        v1::Mount { container_path: path.into(), host_path: host.display().to_string(), ..v1::Mount::default() }
    });
    let security = v1::LinuxContainerSecurityContext {
        run_as_user: Some(v1::Int64Value { value: user }),
        run_as_group: Some(v1::Int64Value { value: user }),
        readonly_rootfs: true,
        no_new_privs: true,
        capabilities: Some(v1::Capability { drop_capabilities: vec!["ALL".into()], ..v1::Capability::default() }),
        ..v1::LinuxContainerSecurityContext::default()
    };
    v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata { name: "main".into(), attempt: 0 }),
        image: Some(v1::ImageSpec { image: image.into(), ..v1::ImageSpec::default() }),
        args: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        envs: vec![v1::KeyValue { key: "HOME".into(), value: "/tmp".into() }],
        mounts: mounts.to_vec(),
        log_path: "main.log".into(),
        linux: Some(v1::LinuxContainerConfig {
            security_context: Some(security),
            ..v1::LinuxContainerConfig::default()
        }),
        ..v1::ContainerConfig::default()
    }
}

/// Waits for a container's end; its exit code and what it printed.
async fn outcome(runtime: &Runtime, container: &str, log: &str) -> (i32, String) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let status = runtime.container_status(container).await.unwrap();
        if status.state() == v1::ContainerState::ContainerExited {
            return (status.exit_code, fs::read_to_string(log).unwrap_or_default());
        }
        assert!(Instant::now() < deadline, "it has not ended: {}", fs::read_to_string(log).unwrap_or_default());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_image_prints_its_version_as_an_ordinary_user_on_a_read_only_root() {
    let builder = builder();
    let all = std::env::var("C5C3_TEST_IMAGES").is_ok_and(|which| which == "all");
    let names: Vec<_> =
        if all { builder.catalogue.images().map(|image| image.name.as_str()).collect() } else { USUAL.to_vec() };
    let names: Vec<_> = names.into_iter().filter(|name| *name != "c5c3").collect();
    let built = builder.build(&names, &Quiet).unwrap();
    let machine = Machine::new(1);
    let containerd = machine.start(0).await;
    let (site, runtime) = (&machine.sites[0], containerd.runtime());
    for image in &built {
        let (name, version) = (&image.planned.definition.name, &image.planned.version);
        let reference = import(site, &runtime, image).await;
        let folder = site.data().join("pods").join(name);
        let check: Vec<_> = image.planned.definition.check.iter().map(String::as_str).collect();
        let config = sandbox(site, name);
        let pod = runtime.run_pod_sandbox(config.clone(), "").await.unwrap();
        let log = format!("{}/main.log", config.log_directory);
        let made =
            runtime.create_container(&pod, container(&reference, &folder, USER.into(), &check), config).await.unwrap();
        runtime.start_container(&made).await.unwrap();
        let (code, said) = outcome(&runtime, &made, &log).await;
        assert_eq!(code, 0, "{name}: {said}");
        // Debian's own version is not what Python says.
        assert!(name == "base" || said.contains(version.as_str()), "{name} {version}: {said}");
        runtime.stop_pod_sandbox(&pod).await.unwrap();
        runtime.remove_pod_sandbox(&pod).await.unwrap();
        // Few stay, and share the base; all of them would not fit everywhere.
        if all {
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
    let (config, folder) = (sandbox(site, "keystone"), site.data().join("pods/keystone"));
    let pod = runtime.run_pod_sandbox(config.clone(), "").await.unwrap();
    let log = format!("{}/main.log", config.log_directory);
    let script = container(&reference, &folder, USER.into(), &["sh", "-c", SERVE]);
    let made = runtime.create_container(&pod, script, config).await.unwrap();
    runtime.start_container(&made).await.unwrap();
    let address = runtime.pod_sandbox_status(&pod).await.unwrap().network.unwrap().ip;
    let answer = tokio::task::spawn_blocking(move || get(SocketAddr::new(address.parse().unwrap(), 5000), &log)).await;
    let answer = answer.unwrap();
    assert!(answer.contains(" 300 ") && answer.contains("\"v3.14\""), "{answer}");
}

fn get(address: SocketAddr, log: &str) -> String {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let asked = TcpStream::connect_timeout(&address, Duration::from_secs(1)).and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(30)))?;
            stream.write_all(b"GET / HTTP/1.0\r\nHost: keystone\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        });
        match asked {
            Ok(answer) if !answer.is_empty() => return answer,
            late if Instant::now() > deadline => panic!("{late:?}: {}", fs::read_to_string(log).unwrap_or_default()),
            _ => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}
