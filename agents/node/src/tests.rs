//! The agent beside a libvirt that says what a real one was recorded saying, and a whole API server.

mod guests;
mod restarts;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use c5c3_api::blocks::ConditionStatus;
use c5c3_api::hypervisor::{Hypervisor, Migration, MigrationType};
use c5c3_auth::UserInfo;
use c5c3_harness::TestCluster;
use c5c3_kit::condition::find;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::connection::Connection;
use crate::protocol::{Domain, Head, Procedure};
use crate::xdr::{Reader, Writer};
use crate::{CONNECTION, NodeMetrics, Options, access};

type Tested = Result<(), Box<dyn std::error::Error>>;

const PLUM: Uuid = Uuid::from_u128(0x6f2c_0000_0000_4000_8000_0000_0000_0001);

fn plum() -> Domain {
    Domain { name: "plum".into(), uuid: PLUM, id: 1 }
}

/// What the scripted libvirt has.
#[derive(Default)]
struct Script {
    domains: Mutex<Vec<Domain>>,
    /// The type of the job that a migrating domain has.
    job: Mutex<i32>,
    /// The states of domains, with their reasons, that do not run as usual.
    states: Mutex<HashMap<Uuid, (i32, i32)>>,
    /// The events that were asked for.
    registered: Mutex<Vec<i32>>,
    lists: AtomicUsize,
    jobs: AtomicUsize,
    /// How many events come before each answer to a pulse.
    burst: usize,
}

/// A libvirt at a socket. Aborting the task closes it and its connections.
struct Libvirt {
    script: Arc<Script>,
    events: broadcast::Sender<(i32, Vec<u8>)>,
    task: JoinHandle<()>,
}

impl Libvirt {
    fn start(socket: &Path, script: Arc<Script>) -> Self {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).unwrap();
        let (events, _) = broadcast::channel(16);
        let (shared, sender) = (script.clone(), events.clone());
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, shared.clone(), sender.subscribe()));
            }
        });
        Self { script, events, task }
    }

    fn event(&self, procedure: Procedure, payload: Writer) {
        self.events.send((procedure as i32, payload.into_bytes())).unwrap();
    }
}

async fn serve(mut stream: UnixStream, script: Arc<Script>, mut events: broadcast::Receiver<(i32, Vec<u8>)>) {
    loop {
        tokio::select! {
            length = stream.read_u32() => {
                let Ok(length) = length else { return };
                let mut message = vec![0; length as usize - 4];
                stream.read_exact(&mut message).await.unwrap();
                let mut reader = Reader::new(&message);
                let head = Head::read(&mut reader).unwrap();
                let is_pulse = head.procedure == Procedure::ConnectGetLibVersion as i32;
                let burst = if is_pulse { script.burst } else { 0 };
                for _ in 0..burst {
                    let event = plum().write(Writer::default().i32(0)).i32(2).i32(0).into_bytes();
                    stream.write_all(&framed(Procedure::LifecycleEvent as i32, 2, 0, 0, &event)).await.unwrap();
                }
                stream.write_all(&answer(head, &mut reader, &script)).await.unwrap();
            }
            Ok((procedure, payload)) = events.recv() => {
                stream.write_all(&framed(procedure, 2, 0, 0, &payload)).await.unwrap();
            }
        }
    }
}

fn framed(procedure: i32, kind: i32, serial: u32, status: i32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(28 + payload.len()).unwrap();
    let head = Writer::default().u32(length).u32(0x2000_8086).u32(1).i32(procedure).i32(kind).u32(serial).i32(status);
    [head.into_bytes(), payload.to_vec()].concat()
}

fn answer(head: Head, arguments: &mut Reader<'_>, script: &Script) -> Vec<u8> {
    let number = |number: u32| Writer::default().u32(0).u32(number);
    let payload = match head.procedure {
        66 | 1 => Writer::default().u32(0),
        316 => {
            script.registered.lock().unwrap().push(arguments.i32().unwrap());
            Writer::default().i32(7)
        }
        212 => {
            let domain = Domain::read(arguments).unwrap();
            let running = (1, 1);
            let (state, reason) = script.states.lock().unwrap().get(&domain.uuid).copied().unwrap_or(running);
            Writer::default().i32(state).i32(reason)
        }
        157 => number(9_000_000),
        4 => number(7_002_022),
        6 => (0..32).fold(Writer::default(), |writer, _| writer.u32(0)).u32(0).u32(1024).i32(4),
        7 => Writer::default().string(include_str!("../tests/recorded/capabilities.xml")),
        342 => Writer::default().string(include_str!("../tests/recorded/domain-capabilities.xml")),
        14 => Writer::default().string(include_str!("../tests/recorded/plain.xml")),
        273 => {
            script.lists.fetch_add(1, Ordering::SeqCst);
            let domains = script.domains.lock().unwrap();
            let count = u32::try_from(domains.len()).unwrap();
            domains.iter().fold(Writer::default().u32(count), |writer, domain| domain.write(writer)).u32(count)
        }
        298 => {
            script.jobs.fetch_add(1, Ordering::SeqCst);
            Writer::default().i32(*script.job.lock().unwrap()).u32(1).string("memory_total").i32(4).u32(0).u32(128)
        }
        // As the test driver answers: "not supported", code 3.
        _ => {
            let refusal = Writer::default().i32(3).i32(12).optional(Some("not supported")).into_bytes();
            return framed(head.procedure, 1, head.serial, 1, &refusal);
        }
    };
    framed(head.procedure, 1, head.serial, 0, &payload.into_bytes())
}

#[tokio::test]
async fn an_answer_is_read_though_no_one_takes_the_many_events_before_it() -> Tested {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("libvirt-sock");
    let burst = 3000;
    let libvirt = Libvirt::start(&socket, Arc::new(Script { burst, ..Script::default() }));
    let (connection, mut events) = Connection::open(&socket, "qemu:///system").await?;
    connection.pulse().await?;
    for _ in 0..burst {
        events.try_recv()?;
    }
    libvirt.task.abort();
    Ok(())
}

/// A cluster with a Hypervisor `pear`, and an agent beside a scripted libvirt.
struct Stand {
    cluster: TestCluster,
    folder: tempfile::TempDir,
    libvirt: Libvirt,
    metrics: NodeMetrics,
    hypervisors: Api<Hypervisor>,
    agent: JoinHandle<()>,
}

impl Stand {
    async fn set() -> Result<Self, Box<dyn std::error::Error>> {
        let cluster = TestCluster::start().await?;
        for (version, kind) in [("hypervisor.c5c3.io/v1", "Hypervisor"), ("hypervisor.c5c3.io/v1alpha1", "Migration")] {
            cluster.install(&c5c3_api::find(version, kind).unwrap().crd()).await?;
        }
        let hypervisors: Api<Hypervisor> = Api::all(cluster.client());
        let name = cluster.name("pear");
        let pear = json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Hypervisor", "metadata": {"name": name},
            "spec": {"overcommit": {"cpu": 4.0}}});
        hypervisors.create(&PostParams::default(), &serde_json::from_value(pear)?).await?;
        let folder = tempfile::tempdir()?;
        let script = Arc::new(Script::default());
        script.domains.lock().unwrap().push(plum());
        let libvirt = Libvirt::start(&folder.path().join("sock"), script);
        let (metrics, options) = (NodeMetrics::default(), options(&cluster, folder.path(), &name));
        let work = crate::run(cluster.client(), options, metrics.clone(), CancellationToken::new());
        Ok(Self { libvirt, metrics, hypervisors, agent: tokio::spawn(work), cluster, folder })
    }

    /// Ends the agent wherever it is.
    async fn kill(&mut self) {
        self.agent.abort();
        let ended = (&mut self.agent).await;
        assert!(ended.is_err_and(|error| error.is_cancelled()), "it ended before");
    }

    /// Starts another agent in the place of one that was killed.
    fn start(&mut self) {
        self.metrics = NodeMetrics::default();
        let options = options(&self.cluster, self.folder.path(), &self.cluster.name("pear"));
        let work = crate::run(self.cluster.client(), options, self.metrics.clone(), CancellationToken::new());
        self.agent = tokio::spawn(work);
    }

    /// A domain as it is from now on, and an event about it.
    fn lifecycle(&self, id: i32, what: (i32, i32)) {
        self.libvirt.script.domains.lock().unwrap()[0].id = id;
        let event = plum().write(Writer::default().i32(7)).i32(what.0).i32(what.1);
        self.libvirt.event(Procedure::LifecycleEvent, event);
    }

    async fn migration(&self) -> Option<Migration> {
        Api::<Migration>::default_namespaced(self.cluster.client()).get_opt(&PLUM.to_string()).await.unwrap()
    }

    async fn hypervisor(&self) -> Hypervisor {
        self.hypervisors.get(&self.cluster.name("pear")).await.unwrap()
    }

    /// Waits until the connection's condition has a status and a reason.
    async fn until(&self, status: ConditionStatus, reason: &str) -> Hypervisor {
        let began = Instant::now();
        loop {
            let found = self.hypervisor().await;
            let conditions = found.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
            let condition = find(conditions, CONNECTION);
            if condition.is_some_and(|it| it.status == status && it.reason.as_deref() == Some(reason)) {
                return found;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "no {reason}: {condition:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn options(cluster: &TestCluster, folder: &Path, node: &str) -> Options {
    Options {
        node: node.to_owned(),
        namespace: cluster.namespace().to_owned(),
        socket: folder.join("sock"),
        uri: "qemu:///system".into(),
        virt_type: PathBuf::from("/nonexistent"),
        os_release: PathBuf::from("/etc/os-release"),
    }
}

/// Waits until something is so.
async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_libvirt_says_is_in_the_hypervisor_and_nothing_is_written_when_nothing_changes() -> Tested {
    let stand = Stand::set().await?;
    let status = stand.until(ConditionStatus::True, "Connected").await.status.unwrap();
    assert_eq!(status.lib_virt_version.as_deref(), Some("9.0.0"));
    assert_eq!(status.hypervisor_version.as_deref(), Some("7.2.22"));
    assert_eq!((status.num_instances, status.instances[0].id.as_str()), (Some(1), PLUM.to_string().as_str()));
    assert_eq!(status.domain_capabilities.unwrap().hypervisor_type.as_deref(), Some("qemu"));
    let cpu = |amounts: Option<c5c3_api::hypervisor::Amounts>| amounts.unwrap().cpu.unwrap().as_str().to_owned();
    assert_eq!((cpu(status.capacity), cpu(status.effective_capacity)), ("2".into(), "8".into()));
    assert_eq!(cpu(status.allocation), "1", "a guest without pinning is counted");

    // Another writer's condition stays, and is no reason to write.
    let ready = json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Hypervisor", "status":
        {"conditions": [{"type": "Ready", "status": "False", "reason": "Onboarding"}]}});
    let name = stand.cluster.name("pear");
    stand.hypervisors.patch_status(&name, &PatchParams::apply("other"), &Patch::Apply(&ready)).await?;
    let (writes, lists) = (stand.metrics.writes(), stand.libvirt.script.lists.load(Ordering::SeqCst));
    let version = stand.hypervisor().await.metadata.resource_version;
    // Events about nothing new: domains are listed again, and nothing is written.
    for round in 1..=2 {
        let event = plum().write(Writer::default().i32(7)).i32(4).i32(0);
        stand.libvirt.event(Procedure::LifecycleEvent, event);
        eventually("domains are listed again", async || {
            stand.libvirt.script.lists.load(Ordering::SeqCst) >= lists + round
        })
        .await;
    }
    assert_eq!(stand.metrics.writes(), writes);
    let found = stand.hypervisor().await;
    assert_eq!(found.metadata.resource_version, version);
    assert!(find(&found.status.unwrap().conditions, "Ready").is_some());

    // An instance that ends is gone at once.
    stand.libvirt.script.domains.lock().unwrap().clear();
    stand.libvirt.event(Procedure::LifecycleEvent, plum().write(Writer::default().i32(7)).i32(5).i32(0));
    eventually("the instance is gone", async || stand.hypervisor().await.status.unwrap().num_instances == Some(0))
        .await;
    Ok(())
}

#[tokio::test]
async fn a_libvirt_that_ends_is_told_within_five_seconds_and_facts_stay() -> Tested {
    let stand = Stand::set().await?;
    stand.until(ConditionStatus::True, "Connected").await;
    stand.libvirt.task.abort();
    let ended = Instant::now();
    let status = stand.until(ConditionStatus::False, "Disconnected").await.status.unwrap();
    assert!(ended.elapsed() < Duration::from_secs(5), "{:?}", ended.elapsed());
    assert_eq!(status.num_instances, Some(1), "what was known stays");
    let _again = Libvirt::start(&stand.folder.path().join("sock"), stand.libvirt.script.clone());
    stand.until(ConditionStatus::True, "Connected").await;
    Ok(())
}

#[tokio::test]
async fn both_agents_write_one_migration() -> Tested {
    let stand = Stand::set().await?;
    stand.until(ConditionStatus::True, "Connected").await;
    *stand.libvirt.script.job.lock().unwrap() = 2;
    stand.libvirt.event(Procedure::MigrationIterationEvent, plum().write(Writer::default().i32(7)).i32(1));
    let migrations: Api<Migration> = Api::default_namespaced(stand.cluster.client());
    let status = async || migrations.get_opt(&PLUM.to_string()).await.unwrap().and_then(|found| found.status);
    eventually("it is followed", async || {
        status().await.is_some_and(|status| status.r#type == Some(MigrationType::Unbounded))
    })
    .await;

    // The destination: another host, to which the instance comes.
    let folder = tempfile::tempdir()?;
    let other = Libvirt::start(&folder.path().join("sock"), Arc::default());
    let quince = stand.cluster.name("quince");
    let work = options(&stand.cluster, folder.path(), &quince);
    let object =
        json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Hypervisor", "metadata": {"name": quince}, "spec": {}});
    stand.hypervisors.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    tokio::spawn(crate::run(stand.cluster.client(), work, NodeMetrics::default(), CancellationToken::new()));
    eventually("the other agent follows events", async || other.events.receiver_count() > 0).await;
    eventually("and its host is known", async || {
        stand.hypervisors.get(&quince).await.unwrap().status.is_some_and(|status| status.num_instances == Some(0))
    })
    .await;
    other.event(Procedure::LifecycleEvent, plum().write(Writer::default().i32(7)).i32(2).i32(1));
    eventually("the destination is told", async || {
        status().await.is_some_and(|status| status.destination.as_ref() == Some(&quince))
    })
    .await;

    let statistics = plum().write(Writer::default().i32(7)).u32(2).string("operation").i32(1).i32(5);
    let statistics = statistics.string("downtime").i32(4).u32(0).u32(20);
    stand.libvirt.event(Procedure::JobCompletedEvent, statistics);
    eventually("it has succeeded", async || {
        status().await.is_some_and(|status| status.r#type == Some(MigrationType::Success))
    })
    .await;
    let found = status().await.unwrap();
    assert_eq!((found.origin, found.destination), (Some(stand.cluster.name("pear")), Some(quince)));
    assert_eq!(found.downtime.unwrap().as_str(), "20ms");
    Ok(())
}

#[tokio::test]
async fn a_token_of_one_node_touches_no_other_nodes_objects() -> Tested {
    let Some(cluster) = TestCluster::embedded("a policy is for the whole cluster").await? else { return Ok(()) };
    for (version, kind) in [("hypervisor.c5c3.io/v1", "Hypervisor"), ("hypervisor.c5c3.io/v1alpha1", "Migration")] {
        cluster.install(&c5c3_api::find(version, kind).unwrap().crd()).await?;
    }
    for object in access().policy("agent", ("press", "orchard")) {
        apply(&cluster, object).await?;
    }
    let groups = ["system:masters", "system:authenticated"];
    let on = |node: &str| {
        let mut user = UserInfo::new("system:serviceaccount:orchard:press", groups);
        user.extra = BTreeMap::from([("authentication.kubernetes.io/node-name".into(), vec![node.into()])]);
        cluster.client_as(user)
    };
    for name in ["pear", "quince"] {
        let object = json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Hypervisor", "metadata": {"name": name}, "spec": {}});
        apply(&cluster, object).await?;
    }
    let write = async |client: kube::Client, name: &str| {
        let patch = json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Hypervisor", "status": {"numInstances": 1}});
        let api: Api<Hypervisor> = Api::all(client);
        api.patch_status(name, &PatchParams::apply("press").force(), &Patch::Apply(&patch)).await.map(drop)
    };
    write(on("pear"), "pear").await?;
    let refused = write(on("pear"), "quince").await.unwrap_err().to_string();
    assert!(refused.contains("an agent may only write the Hypervisor of its own node"), "{refused}");
    let nowhere = cluster.client_as(UserInfo::new("system:serviceaccount:orchard:press", groups));
    let refused = write(nowhere, "pear").await.unwrap_err().to_string();
    assert!(refused.contains("does not say which node"), "{refused}");

    let follow = async |node: &str, status: Value| {
        let api: Api<Migration> = Api::default_namespaced(on(node));
        let patch = json!({"apiVersion": "hypervisor.c5c3.io/v1alpha1", "kind": "Migration", "status": status});
        api.patch_status("m", &PatchParams::apply(node).force(), &Patch::Apply(&patch)).await.map(drop)
    };
    let object = json!({"metadata": {"name": "m"}, "spec": {}});
    Api::<Migration>::default_namespaced(on("pear"))
        .create(&PostParams::default(), &serde_json::from_value(object)?)
        .await?;
    follow("pear", json!({"origin": "pear", "type": "unbounded"})).await?;
    assert!(follow("fig", json!({"origin": "fig"})).await.is_err(), "it is under way from another host");
    assert!(follow("fig", json!({"destination": "quince"})).await.is_err(), "that is another host");
    follow("quince", json!({"destination": "quince"})).await?;
    follow("pear", json!({"origin": "pear", "type": "success"})).await?;
    follow("fig", json!({"origin": "fig"})).await?;
    Ok(())
}

async fn apply(cluster: &TestCluster, object: Value) -> Result<(), kube::Error> {
    let (version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let (group, version) = version.split_once('/').unwrap();
    let kind = kube::core::GroupVersionKind::gvk(group, version, kind);
    let mut resource = ApiResource::from_gvk(&kind);
    if resource.kind.ends_with("Policy") {
        resource.plural = "validatingadmissionpolicies".into();
    }
    let api: Api<DynamicObject> = Api::all_with(cluster.client(), &resource);
    api.create(&PostParams::default(), &serde_json::from_value(object).expect("an object")).await.map(drop)
}
