//! Pods for tests: what they have in common, how they are started, and how a test asks them.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::{Runtime, Site, v1};

/// A sandbox with a network of its own, whose containers log below the node's folder.
pub fn sandbox(site: &Site, name: &str) -> v1::PodSandboxConfig {
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

/// A container `main` that runs what its image says, and logs to `main.log`.
pub fn container(image: &str) -> v1::ContainerConfig {
    v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata { name: "main".into(), attempt: 0 }),
        image: Some(v1::ImageSpec { image: image.into(), ..v1::ImageSpec::default() }),
        log_path: "main.log".into(),
        linux: Some(v1::LinuxContainerConfig::default()),
        ..v1::ContainerConfig::default()
    }
}

/// A container as our pods are: an ordinary user, nothing writable but `/tmp` and `/run`, which are in `folder`, and no
/// capabilities.
pub fn confined(image: &str, user: u32, folder: &Path, arguments: &[&str]) -> v1::ContainerConfig {
    let mounts = ["/tmp", "/run"].map(|path| {
        let host = folder.join(path.trim_start_matches('/'));
        fs::create_dir_all(&host).expect("a folder of the pod");
        fs::set_permissions(&host, fs::Permissions::from_mode(0o1777)).expect("a folder of the pod");
        v1::Mount { container_path: path.into(), host_path: host.display().to_string(), ..v1::Mount::default() }
    });
    let security = v1::LinuxContainerSecurityContext {
        run_as_user: Some(v1::Int64Value { value: user.into() }),
        run_as_group: Some(v1::Int64Value { value: user.into() }),
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
        ..container(image)
    }
}

/// A pod with one container that was started.
#[derive(Debug)]
pub struct Pod {
    /// Its sandbox.
    pub sandbox: String,
    container: String,
    log: String,
}

impl Pod {
    /// Starts a pod.
    pub async fn start(site: &Site, runtime: &Runtime, name: &str, container: v1::ContainerConfig) -> Self {
        let config = sandbox(site, name);
        let sandbox = runtime.run_pod_sandbox(config.clone(), "").await.expect("a sandbox");
        let log = format!("{}/main.log", config.log_directory);
        let container = runtime.create_container(&sandbox, container, config).await.expect("a container");
        runtime.start_container(&container).await.expect("a container that runs");
        Self { sandbox, container, log }
    }

    /// What its container has printed.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for the container's end; its exit code.
    pub async fn ended(&self, runtime: &Runtime, limit: Duration) -> i32 {
        let deadline = Instant::now() + limit;
        loop {
            let status = runtime.container_status(&self.container).await.expect("its status");
            if status.state() == v1::ContainerState::ContainerExited {
                return status.exit_code;
            }
            assert!(Instant::now() < deadline, "it has not ended: {}", self.said());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Stops and removes it.
    pub async fn remove(self, runtime: &Runtime) {
        runtime.stop_pod_sandbox(&self.sandbox).await.expect("a sandbox that stops");
        runtime.remove_pod_sandbox(&self.sandbox).await.expect("a sandbox that goes");
    }
}

/// What a web server answers at `/`, asked again until the answer is good or the time is over.
pub fn ask(address: SocketAddr, limit: Duration, is_good: impl Fn(&str) -> bool) -> String {
    let deadline = Instant::now() + limit;
    loop {
        let asked = TcpStream::connect_timeout(&address, Duration::from_secs(1)).and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(30)))?;
            stream.write_all(b"GET / HTTP/1.0\r\nHost: test\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        });
        match asked {
            Ok(answer) if is_good(&answer) => return answer,
            late if Instant::now() > deadline => panic!("{address}: {late:?}"),
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
