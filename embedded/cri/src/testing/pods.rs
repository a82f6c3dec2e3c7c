//! Pods for tests: what they have in common, and how a test asks them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::{Site, v1};

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
