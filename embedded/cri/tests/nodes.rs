//! Nodes with a real containerd, on this machine: pods run, survive, reach each other, and leave nothing.

mod support;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use c5c3_cri::testing::Machine;
use c5c3_cri::{Containerd, end_node, images, v1};
use rustix::process::{Resource, Rlimit, setrlimit};
use tokio_util::sync::CancellationToken;

use support::{container, eventually, get, plugin_results, run, sandbox, traces, web, words};

#[tokio::test]
async fn a_container_runs_is_looked_into_and_ends_with_its_code() {
    let machine = Machine::new(1);
    let (site, containerd) = (&machine.sites[0], machine.start(0).await);
    let runtime = containerd.runtime();
    assert_eq!(runtime.version().await.unwrap().runtime_name, "containerd");
    let conditions = runtime.status(false).await.unwrap().status.unwrap().conditions;
    assert!(conditions.iter().all(|condition| condition.status), "{conditions:?}");

    let script = "trap 'exit 7' TERM; echo hello; while :; do sleep 0.1; done";
    let pod = run(site, &runtime, sandbox(site, "one"), script).await;
    let answer = runtime.exec_sync(&pod.container, words("hostname"), None).await.unwrap();
    assert_eq!((answer.stdout.as_slice(), answer.exit_code), (b"one\n".as_slice(), 0));
    let late = runtime.exec_sync(&pod.container, words("sleep 600"), Some(Duration::from_secs(1))).await.unwrap_err();
    assert!(late.is_timeout(), "{late:?}");
    eventually("the log", async || fs::read_to_string(&pod.log).ok()?.contains("stdout F hello\n").then_some(())).await;
    let stream =
        v1::ExecRequest { container_id: pod.container.clone(), cmd: words("true"), stdout: true, ..Default::default() };
    let served = runtime.exec(stream).await.unwrap();
    assert!(served.starts_with(&format!("http://{}:", machine.network.addresses.node(0))), "{served}");
    fs::rename(&pod.log, format!("{}.1", pod.log)).unwrap();
    runtime.reopen_container_log(&pod.container).await.unwrap();
    assert!(Path::new(&pod.log).exists());

    let smaller = v1::LinuxContainerResources { memory_limit_in_bytes: 64 << 20, ..Default::default() };
    runtime.update_container_resources(&pod.container, smaller).await.unwrap();
    assert_eq!(runtime.container_stats(&pod.container).await.unwrap().attributes.unwrap().id, pod.container);
    assert_eq!(runtime.list_container_stats(None).await.unwrap().len(), 1);
    assert_eq!(runtime.list_pod_sandbox_stats(None).await.unwrap().len(), 1);

    runtime.stop_container(&pod.container, Duration::from_mins(1)).await.unwrap();
    let status = runtime.container_status(&pod.container).await.unwrap();
    assert_eq!((status.state(), status.exit_code), (v1::ContainerState::ContainerExited, 7));
    runtime.remove_container(&pod.container).await.unwrap();
    assert!(runtime.container_status(&pod.container).await.unwrap_err().is_not_found());
    assert!(runtime.list_containers(None).await.unwrap().is_empty());
    runtime.stop_pod_sandbox(&pod.sandbox).await.unwrap();
    runtime.remove_pod_sandbox(&pod.sandbox).await.unwrap();
    assert!(runtime.list_pod_sandbox(None).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_container_may_have_as_many_files_open_as_the_process_that_started_containerd() {
    let machine = Machine::new(1);
    // The soft limit alone would not do: containerd and runc raise it to the hard one.
    setrlimit(Resource::Nofile, Rlimit { current: Some(4321), maximum: Some(4321) }).unwrap();
    let (site, containerd) = (&machine.sites[0], machine.start(0).await);
    let pod = run(site, &containerd.runtime(), sandbox(site, "many"), "ulimit -n; exec sleep 600").await;
    let log = async || fs::read_to_string(&pod.log).ok().filter(|log| log.ends_with('\n'));
    let said = eventually("the log", log).await;
    assert!(said.ends_with("stdout F 4321\n"), "{said}");
    containerd.runtime().stop_container(&pod.container, Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_with_a_reason() {
    let machine = Machine::new(1);
    let (site, containerd) = (&machine.sites[0], machine.start(0).await);
    let runtime = containerd.runtime();
    let config = sandbox(site, "two");
    let id = runtime.run_pod_sandbox(config.clone(), "").await.unwrap();

    let absent = container("c5c3.local/absent:1", "true");
    let error = runtime.create_container(&id, absent, config.clone()).await.unwrap_err();
    assert!(error.is_not_found() && error.to_string().starts_with(&format!("CreateContainer of main in {id}")));
    let mut nonsense = container(images::BUSYBOX, "true");
    nonsense.command = words("/no/such/program");
    let made = runtime.create_container(&id, nonsense, config).await.unwrap();
    let error = runtime.start_container(&made).await.unwrap_err();
    assert!(error.reason.contains("no such file or directory"), "{error}");

    assert!(runtime.image_status("c5c3.local/absent:1").await.unwrap().is_none());
    runtime.remove_image("c5c3.local/absent:1").await.unwrap();
    let names: Vec<_> = runtime.list_images().await.unwrap().into_iter().flat_map(|image| image.repo_tags).collect();
    assert!(names.contains(&images::PAUSE.to_owned()) && names.contains(&images::BUSYBOX.to_owned()), "{names:?}");
    assert_eq!(runtime.image_fs_info().await.unwrap().image_filesystems.len(), 1);
    assert!(runtime.pod_sandbox_status("0123").await.unwrap_err().is_not_found());
    // What is not there is stopped, and removed.
    runtime.stop_container("0123", Duration::ZERO).await.unwrap();
    runtime.remove_container("0123").await.unwrap();
    runtime.stop_pod_sandbox("0123").await.unwrap();
    runtime.remove_pod_sandbox("0123").await.unwrap();
}

#[tokio::test]
async fn a_container_is_removed_although_it_runs_without_the_cri_knowing() {
    let machine = Machine::new(1);
    let (site, containerd) = (&machine.sites[0], machine.start(0).await);
    let runtime = containerd.runtime();
    let config = sandbox(site, "lost");
    let id = runtime.run_pod_sandbox(config.clone(), "").await.unwrap();
    let runs = || traces(&machine).iter().any(|trace| trace.contains("sleep 600"));
    // containerd has a task; for the CRI the container has not started, or could not.
    for (has_failed, state) in
        [(false, v1::ContainerState::ContainerCreated), (true, v1::ContainerState::ContainerExited)]
    {
        let busy = container(images::BUSYBOX, "sleep 600");
        let made = runtime.create_container(&id, busy, config.clone()).await.unwrap();
        machine.start_task(0, &made);
        if has_failed {
            runtime.start_container(&made).await.unwrap_err();
            assert_eq!(runtime.container_status(&made).await.unwrap().reason, "StartError");
        }
        assert_eq!(runtime.container_status(&made).await.unwrap().state(), state);
        assert!(runs());

        runtime.stop_container(&made, Duration::ZERO).await.unwrap();
        runtime.remove_container(&made).await.unwrap();
        assert!(!runs(), "its process is left");
        assert!(runtime.container_status(&made).await.unwrap_err().is_not_found());
    }
    runtime.stop_pod_sandbox(&id).await.unwrap();
    runtime.remove_pod_sandbox(&id).await.unwrap();
}

#[tokio::test]
async fn containers_outlive_a_containerd_that_is_killed_and_the_next_one_finds_them() {
    let machine = Machine::new(1);
    let (site, mut containerd) = (&machine.sites[0], machine.start(0).await);
    let pod = run(site, &containerd.runtime(), sandbox(site, "three"), "sleep 600").await;

    let again = Containerd::start(machine.settings(0)).await.unwrap();
    assert!(!containerd.was_found() && again.was_found());
    assert_eq!(containerd.pid(), again.pid());

    Command::new("kill").args(["-9", &containerd.pid().to_string()]).status().unwrap();
    containerd.exited().await.unwrap();
    // The client of before finds the new one, too.
    let runtime = again.runtime();
    let next = Containerd::start(machine.settings(0)).await.unwrap();
    assert!(!next.was_found() && next.pid() != again.pid());
    let listed = eventually("an answer", async || runtime.list_containers(None).await.ok()).await;
    assert_eq!(
        (listed[0].id.as_str(), listed[0].state()),
        (pod.container.as_str(), v1::ContainerState::ContainerRunning)
    );
    assert_eq!(runtime.exec_sync(&pod.container, words("true"), None).await.unwrap().exit_code, 0);

    // Other settings are for another containerd, and for the same containers.
    let mut changed = machine.settings(0);
    changed.sandbox_image = images::BUSYBOX.to_owned();
    let other = Containerd::start(changed).await.unwrap();
    assert!(!other.was_found());
    assert_eq!(eventually("an answer", async || runtime.list_containers(None).await.ok()).await.len(), 1);
}

#[tokio::test]
async fn a_keeper_brings_containerd_back_and_leaves_it_running() {
    let machine = Machine::new(1);
    let containerd = Containerd::start(machine.settings(0)).await.unwrap();
    let (first, runtime, stop) = (containerd.pid(), containerd.runtime(), CancellationToken::new());
    let keeper = tokio::spawn(containerd.keep(stop.clone()));
    Command::new("kill").args(["-9", &first.to_string()]).status().unwrap();
    let found = eventually("another containerd", async || {
        let gone = !Path::new(&format!("/proc/{first}")).exists();
        if gone { runtime.version().await.ok() } else { None }
    });
    found.await;
    stop.cancel();
    keeper.await.unwrap();
    let left = Containerd::start(machine.settings(0)).await.unwrap();
    assert!(left.was_found() && left.pid() != first);
    left.stop().await.unwrap();
    assert!(runtime.version().await.unwrap_err().is_unreachable());
}

#[tokio::test]
async fn nodes_reach_each_other_until_one_is_cut_off_and_again_when_it_is_healed() {
    let machine = Machine::new(2);
    let (first, second) = tokio::join!(machine.start(0), machine.start(1));
    let (here, there) = (first.runtime(), second.runtime());
    let mut config = sandbox(&machine.sites[0], "web");
    config.port_mappings = vec![v1::PortMapping { container_port: 8080, host_port: 9090, ..Default::default() }];
    let server = run(&machine.sites[0], &here, config, &web("lion")).await;
    let client = run(&machine.sites[1], &there, sandbox(&machine.sites[1], "client"), "sleep 600").await;

    let addresses = &machine.network.addresses;
    assert!(
        addresses.pods_of(0).contains(&server.address.parse::<std::net::Ipv4Addr>().unwrap()),
        "{}",
        server.address
    );
    assert_eq!(get(format!("{}:8080", server.address).parse().unwrap()), "lion", "from the machine");
    assert_eq!(get(SocketAddr::from((addresses.node(0), 9090))), "lion", "by the node's port");
    let ask = || async {
        let command = words(&format!("timeout 2 wget -q -O - http://{}:8080/", server.address));
        there.exec_sync(&client.container, command, None).await.unwrap().exit_code == 0
    };
    eventually("a pod reaches one on another node", async || ask().await.then_some(())).await;

    machine.network.cut(0, &machine.programs).unwrap();
    assert!(!ask().await);
    machine.network.ensure(&machine.programs).unwrap();
    assert!(!ask().await, "making sure of all links heals none that was cut");
    machine.network.heal(0, &machine.programs).unwrap();
    eventually("the node is back", async || ask().await.then_some(())).await;
}

#[tokio::test]
async fn clusters_live_side_by_side_and_each_leaves_nothing() {
    let (left, right) = (Machine::new(1), Machine::new(1));
    let (first, second) = tokio::join!(left.start(0), right.start(0));
    let ours = run(&left.sites[0], &first.runtime(), sandbox(&left.sites[0], "same"), &web("left")).await;
    let theirs = run(&right.sites[0], &second.runtime(), sandbox(&right.sites[0], "same"), &web("right")).await;
    assert_eq!(get(format!("{}:8080", ours.address).parse().unwrap()), "left");
    let kinds = ["process", "mount", "link", "rules", "cgroup", "file"];
    let seen = traces(&left);
    for kind in kinds {
        assert!(seen.iter().any(|trace| trace.starts_with(kind)), "{kind}: {seen:#?}");
    }
    assert_eq!(plugin_results(&ours.sandbox).len(), 2, "of the network and of the loopback");
    drop(first);
    left.clean();
    eventually("nothing is left", async || traces(&left).is_empty().then_some(())).await;
    assert_eq!(plugin_results(&ours.sandbox), Vec::<String>::new());
    assert_eq!(get(format!("{}:8080", theirs.address).parse().unwrap()), "right");

    // The other one loses its containerd and a shim first, as in a crash.
    let shim = traces(&right).into_iter().find_map(|trace| {
        let process = trace.strip_prefix("process /proc/").filter(|line| line.contains("containerd-shim-runc-v2"));
        process.and_then(|line| line.split(' ').next().map(str::to_owned))
    });
    Command::new("kill").args(["-9", &second.pid().to_string(), &shim.unwrap()]).status().unwrap();
    drop(second);
    right.clean();
    eventually("nothing is left", async || traces(&right).is_empty().then_some(())).await;
}

#[tokio::test]
async fn a_node_that_was_ended_starts_again_with_its_images() {
    let machine = Machine::new(1);
    let (site, containerd) = (&machine.sites[0], machine.start(0).await);
    let pod = run(site, &containerd.runtime(), sandbox(site, "four"), "sleep 600").await;
    end_node(site).unwrap();
    drop(containerd);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(site.data().to_str().unwrap()), "{mounts}");

    let again = Containerd::start(machine.settings(0)).await.unwrap();
    let runtime = again.runtime();
    assert!(runtime.image_status(images::BUSYBOX).await.unwrap().is_some());
    let status = runtime.pod_sandbox_status(&pod.sandbox).await.unwrap();
    assert_eq!(status.state(), v1::PodSandboxState::SandboxNotready);
    runtime.stop_pod_sandbox(&pod.sandbox).await.unwrap();
    runtime.remove_pod_sandbox(&pod.sandbox).await.unwrap();
    run(site, &runtime, sandbox(site, "four"), "sleep 600").await;
}

#[tokio::test]
async fn a_layer_that_is_there_is_not_imported_again() {
    let machine = Machine::new(1);
    let (site, containerd) = (&machine.sites[0], machine.start(0).await);
    let runtime = containerd.runtime();
    let mut image = images::busybox(Path::new("/bin/busybox")).unwrap();
    image.name = "c5c3.local/same:1".into();
    image.config.environment = vec!["PATH=/bin:/usr/bin".into(), "KIND=other".into()];
    // Nothing of the layer is right any more, but for its name.
    let mut archive = image.archive().unwrap();
    let shell = archive.windows(4).position(|bytes| bytes == b"\x7fELF").unwrap();
    archive[shell..shell + 4096].fill(0);
    let file = machine.folder().join("same.tar");
    fs::write(&file, archive).unwrap();
    images::import(site, &machine.programs, &runtime, &file).await.unwrap();

    let pod = sandbox(site, "same");
    let id = runtime.run_pod_sandbox(pod.clone(), "").await.unwrap();
    let container = runtime.create_container(&id, container(&image.name, "sleep 600"), pod).await.unwrap();
    runtime.start_container(&container).await.unwrap();
    let answer = runtime.exec_sync(&container, words("env"), None).await.unwrap();
    let environment = String::from_utf8_lossy(&answer.stdout);
    assert!(environment.lines().any(|line| line == "KIND=other"), "{environment}");
}

#[tokio::test]
async fn a_containerd_that_cannot_start_says_why() {
    let machine = Machine::new(1);
    let mut settings = machine.settings(0);
    settings.programs.containerd = "/no/such/containerd".into();
    let error = Containerd::start(settings).await.unwrap_err().to_string();
    assert!(
        error.starts_with("containerd ended before it answered") && error.contains("/no/such/containerd"),
        "{error}"
    );
}
