//! The scheduler on a whole API server: requests over HTTP, Pipelines and Hypervisors watched, Decisions written.

mod descheduling;
mod names;
mod nova;
mod tls;
mod volumes;

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use c5c3_api::blocks::ConditionStatus;
use c5c3_api::cortex::{Decision, Pipeline};
use c5c3_api::hypervisor::Hypervisor;
use c5c3_cortex::Domain;
use c5c3_cortex_server::{DeschedulingSettings, Error, Settings, run};
use c5c3_harness::TestCluster;
use c5c3_kit::http::Readiness;
use c5c3_kit::leader::Election;
use c5c3_kit::metrics::Metrics;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const TOKEN: &str = "plum-pit";

/// A scheduler that runs, and its files.
struct Running {
    address: SocketAddr,
    metrics: Metrics,
    readiness: Readiness,
    stop: CancellationToken,
    done: JoinHandle<Result<(), Error>>,
    _folder: tempfile::TempDir,
}

impl Running {
    /// One that decides.
    async fn start(cluster: &TestCluster, decisions: usize) -> Self {
        let running = Self::launch(cluster, decisions, None);
        running.until_it_decides().await;
        running
    }

    fn launch(cluster: &TestCluster, decisions: usize, identity: Option<&str>) -> Self {
        let election = identity.map(|identity| Election::new(cluster.namespace(), "cortex-scheduler", identity));
        Self::launch_with(cluster, |settings| Settings { election, decisions, ..settings })
    }

    fn launch_with(cluster: &TestCluster, change: impl FnOnce(Settings) -> Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tokens = folder.path().join("token");
        std::fs::write(&tokens, format!("old-token\n{TOKEN}\n")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let settings = change(settings(cluster.namespace(), &tokens, 100));
        let (metrics, readiness, stop) = (Metrics::default(), Readiness::default(), CancellationToken::new());
        let work = run(cluster.client(), listener, settings, metrics.clone(), readiness.clone(), stop.clone());
        let done = tokio::spawn(work);
        Self { address, metrics, readiness, stop, done, _folder: folder }
    }

    async fn until_it_decides(&self) {
        until("it decides", async || self.post("nova", TOKEN, &body("probe", 1, &[], true)).await.0 == 200).await;
        assert!(self.readiness.is_ready(), "one that decides is ready");
    }

    async fn stop(self) {
        self.stop.cancel();
        self.done.await.unwrap().unwrap();
    }

    async fn post(&self, domain: &str, token: &str, body: &Value) -> (u16, String) {
        self.send("POST", &format!("/scheduler/{domain}/external"), token, &body.to_string()).await
    }

    /// The hosts of an answer.
    async fn ask(&self, server: &str, memory: u64, hosts: &[&str]) -> Vec<String> {
        let (status, text) = self.post("nova", TOKEN, &body(server, memory, hosts, false)).await;
        assert_eq!(status, 200, "{text}");
        let answer: Value = serde_json::from_str(&text).unwrap();
        serde_json::from_value(answer["hosts"].clone()).unwrap()
    }

    async fn send(&self, method: &str, path: &str, token: &str, body: &str) -> (u16, String) {
        let answer = self.try_send(method, path, token, body).await;
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), text.to_owned())
    }

    /// Everything that comes back over a connection in the clear.
    async fn try_send(&self, method: &str, path: &str, token: &str, body: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(self.address).await.unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: cortex\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }
}

fn settings(namespace: &str, tokens: &Path, decisions: usize) -> Settings {
    Settings {
        namespace: namespace.to_owned(),
        certificates: None,
        plaintext: false,
        domains: Domain::ALL.into(),
        tokens: tokens.to_owned(),
        election: None,
        promise: Duration::from_mins(10),
        decisions,
        decision_age: Duration::from_hours(1),
        descheduling: DeschedulingSettings { interval: Duration::from_millis(50), ..DeschedulingSettings::default() },
    }
}

/// Waits until something comes true, for a minute at most.
async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let soon = tokio::time::timeout(Duration::from_mins(1), async {
        while !is().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(soon.await.is_ok(), "waited a minute until {what}");
}

fn body(server: &str, memory: u64, hosts: &[&str], read_only: bool) -> Value {
    let weights: serde_json::Map<String, Value> = hosts.iter().map(|host| ((*host).to_owned(), json!(1.0))).collect();
    let hosts: Vec<Value> = hosts.iter().map(|host| json!({"host": host, "hypervisor_hostname": host})).collect();
    json!({
        "spec": {"nova_object.data": {
            "instance_uuid": server, "project_id": "red", "num_instances": 1,
            "flavor": {"nova_object.data": {"name": "small", "vcpus": 1, "memory_mb": memory, "root_gb": 1, "extra_specs": {}}},
        }},
        "context": {}, "hosts": hosts, "weights": weights, "options": {"read_only": read_only},
    })
}

/// A cluster with the kinds, and a hypervisor of each of these sizes in MiB.
async fn cluster(hosts: &[(&str, u64)]) -> Option<TestCluster> {
    let cluster = TestCluster::embedded("another cluster has Hypervisors of others").await.unwrap()?;
    for (version, kind) in [
        ("cortex.c5c3.io/v1alpha1", "Pipeline"),
        ("cortex.c5c3.io/v1alpha1", "Decision"),
        ("cortex.c5c3.io/v1alpha1", "Descheduling"),
        ("hypervisor.c5c3.io/v1", "Hypervisor"),
    ] {
        cluster.install(&c5c3_api::find(version, kind).unwrap().crd()).await.unwrap();
    }
    for (name, memory) in hosts {
        hypervisor(&cluster, name, *memory, &[]).await;
    }
    Some(cluster)
}

async fn hypervisor(cluster: &TestCluster, name: &str, memory: u64, servers: &[&str]) {
    busy_hypervisor(cluster, name, memory, 0, servers).await;
}

/// One of which so much memory is taken.
async fn busy_hypervisor(cluster: &TestCluster, name: &str, memory: u64, taken: u64, servers: &[&str]) {
    let api: Api<Hypervisor> = Api::all(cluster.client());
    let apply = PatchParams::apply("test").force();
    let object =
        json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Hypervisor", "metadata": {"name": name}, "spec": {}});
    api.patch(name, &apply, &Patch::Apply(&object)).await.unwrap();
    let servers: Vec<Value> = servers.iter().map(|id| json!({"id": id, "name": id, "active": true})).collect();
    let status = json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Hypervisor", "status": {
        "conditions": [{"type": "Ready", "status": "True"}], "instances": servers,
        "capacity": {"cpu": "64", "memory": format!("{memory}Mi")}, "allocation": {"cpu": "0", "memory": format!("{taken}Mi")},
    }});
    api.patch_status(name, &apply, &Patch::Apply(&status)).await.unwrap();
}

async fn pipeline(cluster: &TestCluster, spec: &Value) {
    let api: Api<Pipeline> = Api::default_namespaced(cluster.client());
    let object = json!({"apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Pipeline", "metadata": {"name": "nova"}, "spec": spec});
    api.patch("nova", &PatchParams::apply("test").force(), &Patch::Apply(&object)).await.unwrap();
}

/// What the status says of the pipeline as it is now: whether it is ready, and why.
async fn said(cluster: &TestCluster) -> Option<(ConditionStatus, String)> {
    let api: Api<Pipeline> = Api::default_namespaced(cluster.client());
    let object = api.get("nova").await.unwrap();
    let status = object.status.filter(|status| status.observed_generation == object.metadata.generation)?;
    let ready = status.conditions.into_iter().find(|condition| condition.r#type == "Ready")?;
    Some((ready.status, ready.message.unwrap_or_default()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_answered_and_its_decision_says_why() {
    let Some(cluster) = cluster(&[("hv-1", 4096), ("hv-2", 8192)]).await else { return };
    let scheduler = Running::start(&cluster, 100).await;
    assert_eq!(scheduler.ask("s-1", 1024, &["hv-1", "hv-2"]).await, ["hv-2", "hv-1"]);
    assert_eq!(scheduler.ask("s-2", 9999, &["hv-1", "hv-2"]).await, [""; 0], "a list, never null");
    let api: Api<Decision> = Api::default_namespaced(cluster.client());
    until("both are written", async || {
        let list = api.list(&ListParams::default()).await.unwrap();
        list.items.iter().filter(|one| one.status.is_some()).count() == 2
    })
    .await;
    let placed = api.get("nova-s-1").await.unwrap();
    assert_eq!(placed.spec.pipeline_ref.name.as_str(), "kvm-general-purpose-load-balancing");
    let status = placed.status.unwrap();
    assert_eq!(status.target_host.as_deref(), Some("hv-2"));
    assert!(status.explanation.unwrap().starts_with("hv-2 is the best of 2 hosts that can take 1 vCPU, 1024 MiB"));
    let nowhere = api.get("nova-s-2").await.unwrap().status.unwrap();
    assert!(nowhere.explanation.unwrap().contains("hv-1 has 4096 MiB of memory free, 9999 are needed"));
    let metrics = scheduler.metrics.text();
    assert!(metrics.contains(r#"cortex_no_host_found_total{domain="nova"} 1"#), "{metrics}");
    assert!(metrics.contains(r#"cortex_known_hosts{domain="nova"} 2"#), "{metrics}");
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_ask_and_how() {
    let Some(cluster) = cluster(&[]).await else { return };
    let scheduler = Running::start(&cluster, 100).await;
    let asked = body("s-1", 1, &[], false);
    assert_eq!(scheduler.post("nova", "wrong", &asked).await.0, 401);
    assert_eq!(scheduler.post("nova", "", &asked).await.0, 401);
    assert_eq!(scheduler.post("nova", "old-token", &asked).await, (200, r#"{"hosts":[]}"#.into()), "both lines count");
    assert_eq!(scheduler.send("GET", "/scheduler/nova/external", TOKEN, "").await.0, 405);
    assert_eq!(scheduler.post("pods", TOKEN, &asked).await.0, 404);
    assert_eq!(scheduler.send("POST", "/scheduler/nova/external", TOKEN, "{").await.0, 400);
    let mut unweighed = body("s-1", 1, &["hv-1"], false);
    unweighed["weights"] = json!({});
    assert_eq!(scheduler.post("nova", TOKEN, &unweighed).await, (400, "missing weight for host hv-1\n".into()));
    let mut elsewhere = asked.clone();
    elsewhere["pipeline"] = json!("none-such");
    assert_eq!(scheduler.post("nova", TOKEN, &elsewhere).await.0, 500);
    let volume = json!({"spec": {"volume_id": "v-1", "volume_properties": {"size": 1}}, "context": {},
        "hosts": [{"host": "ceph@rbd#fast"}, {"host": "ceph@rbd#slow"}], "weights": {"ceph@rbd#fast": 1.0, "ceph@rbd#slow": 2.0}});
    let kept = (200, r#"{"hosts":["ceph@rbd#slow","ceph@rbd#fast"]}"#.to_owned());
    assert_eq!(scheduler.post("cinder", TOKEN, &volume).await, kept, "Cinder's order is kept");
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_changes_live_and_a_wrong_one_leaves_the_last_in_place() {
    let Some(cluster) = cluster(&[("hv-1", 4096), ("hv-2", 8192)]).await else { return };
    let scheduler = Running::start(&cluster, 100).await;
    let hosts = ["hv-1", "hv-2"];
    pipeline(&cluster, &json!({"schedulingDomain": "nova", "weighers": [{"name": "RAMWeigher", "multiplier": -1}]}))
        .await;
    until("it is ready", async || matches!(said(&cluster).await, Some((ConditionStatus::True, _)))).await;
    assert_eq!(scheduler.ask("s-1", 1, &hosts).await, ["hv-1", "hv-2"], "packed now");
    let exclude = json!([{"name": "filter_exclude_hosts", "params": [{"key": "hosts", "stringListValue": ["hv-1"]}]}]);
    pipeline(&cluster, &json!({"schedulingDomain": "nova", "filters": exclude})).await;
    until("the filter is live", async || scheduler.ask("s-2", 1, &hosts).await == ["hv-2"]).await;

    pipeline(&cluster, &json!({"schedulingDomain": "nova", "filters": [{"name": "AvailabilityZoneFiler"}]})).await;
    until("it is refused", async || matches!(said(&cluster).await, Some((ConditionStatus::False, _)))).await;
    let (_, message) = said(&cluster).await.unwrap();
    assert!(message.contains("did you mean AvailabilityZoneFilter?"), "{message}");
    assert_eq!(scheduler.ask("s-3", 1, &hosts).await, ["hv-2"], "the last good one goes on");

    let api: Api<Pipeline> = Api::default_namespaced(cluster.client());
    api.delete("nova", &DeleteParams::default()).await.unwrap();
    until("the built-in one is back", async || scheduler.ask("s-4", 1, &hosts).await.len() == 2).await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn promised_room_outlives_the_process_and_ends_when_the_server_arrives() {
    let Some(cluster) = cluster(&[("hv-1", 4096)]).await else { return };
    let scheduler = Running::start(&cluster, 100).await;
    assert_eq!(scheduler.ask("s-1", 3000, &["hv-1"]).await, ["hv-1"]);
    assert_eq!(scheduler.ask("s-2", 3000, &["hv-1"]).await, [""; 0], "two at once never get the same room");
    let api: Api<Decision> = Api::default_namespaced(cluster.client());
    until("it is written", async || api.get_opt("nova-s-1").await.unwrap().is_some_and(|one| one.status.is_some()))
        .await;
    scheduler.stop().await;

    let scheduler = Running::start(&cluster, 100).await;
    assert_eq!(scheduler.ask("s-3", 3000, &["hv-1"]).await, [""; 0], "the promise was read back");
    hypervisor(&cluster, "hv-1", 4096, &["s-1"]).await;
    until("the host reports it", async || scheduler.ask("s-4", 3000, &["hv-1"]).await == ["hv-1"]).await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_are_bounded_in_number_and_the_oldest_go_first() {
    let Some(cluster) = cluster(&[("hv-1", 40960)]).await else { return };
    let scheduler = Running::start(&cluster, 3).await;
    for index in 0..7 {
        scheduler.ask(&format!("s-{index}"), 1, &["hv-1"]).await;
    }
    let api: Api<Decision> = Api::default_namespaced(cluster.client());
    until("only the last three are left", async || {
        let list = api.list(&ListParams::default()).await.unwrap();
        let mut names: Vec<String> = list.items.iter().map(ResourceExt::name_any).collect();
        names.sort();
        names == ["nova-s-4", "nova-s-5", "nova-s-6"]
    })
    .await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_decides_and_the_other_takes_over_with_what_was_promised() {
    let Some(cluster) = cluster(&[("hv-1", 4096)]).await else { return };
    let first = Running::launch(&cluster, 100, Some("first"));
    first.until_it_decides().await;
    let second = Running::launch(&cluster, 100, Some("second"));
    let probe = body("probe", 1, &[], true);
    let standby = (503, "this scheduler is a standby; another one decides\n".to_owned());
    assert_eq!(second.post("nova", TOKEN, &probe).await, standby);
    assert!(!second.readiness.is_ready());
    assert_eq!(first.ask("s-1", 3000, &["hv-1"]).await, ["hv-1"]);
    // A clean stop writes down what was decided, and hands the lease over.
    first.stop().await;
    second.until_it_decides().await;
    assert_eq!(second.ask("s-2", 3000, &["hv-1"]).await, [""; 0], "the room is still promised");
    second.stop().await;
}

#[tokio::test]
async fn tokens_never_pass_a_network_in_the_clear() {
    let Some(cluster) = cluster(&[]).await else { return };
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let settings = settings(cluster.namespace(), Path::new("/nonexistent"), 1);
    let stop = CancellationToken::new();
    let refused =
        Box::pin(run(cluster.client(), listener, settings, Metrics::default(), Readiness::default(), stop)).await;
    assert!(matches!(refused, Err(Error::Plaintext(_))));
}
