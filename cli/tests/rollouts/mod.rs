//! Rollouts as a user sees them: followed, paused, undone and restarted, with the controllers at work behind the server.

use c5c3_controllers::Options;
use c5c3_harness::pretended;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::terminal::Terminal;

const SETS: &str = "apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: 'db:1'}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: 'agent:1'}]}
";

/// Puts the controllers and a pretended node behind a terminal's server, for as long as the runtime lives.
fn staff(terminal: &Terminal) -> Runtime {
    let runtime = Runtime::new().unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(terminal.kubeconfig()).unwrap();
    runtime.block_on(async {
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let client = Client::try_from(config).unwrap();
        let node: Node = serde_json::from_value(json!({"metadata": {"name": "n1"}})).unwrap();
        let nodes = Api::<Node>::all(client.clone());
        nodes.create(&PostParams::default(), &node).await.unwrap();
        // It is never heard of again, and must not be missed however long a test takes.
        let tomorrow = Timestamp::now() + SignedDuration::from_hours(24);
        let alive = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": Time(tomorrow)}]}});
        nodes.patch_status("n1", &PatchParams::default(), &Patch::Merge(alive)).await.unwrap();
        let options = Options::new("/nonexistent");
        tokio::spawn(c5c3_controllers::run(client.clone(), options, CancellationToken::new()));
        tokio::spawn(pretended::node(client));
    });
    runtime
}

#[test]
fn a_deployment_is_rolled_out_paused_undone_and_restarted() {
    let it = Terminal::open();
    let _staff = staff(&it);
    let done = "deployment \"web\" successfully rolled out";
    let follow = "kubectl rollout status deploy/web --timeout=60s";
    it.ok("kubectl apply -f web.yaml");
    it.tells(follow, &[done]);
    it.says("kubectl set image deploy/web nginx=nginx:2", "deployment.apps/web image updated");
    it.tells(follow, &[done]);
    let revisions = || it.rows("kubectl rollout history deploy/web | tail -n +2").into_iter().map(|row| row[0].clone());
    assert_eq!(revisions().collect::<Vec<_>>(), ["1", "2"]);
    it.tells("kubectl rollout history deploy/web --revision=1", &["Image:\tnginx:1"]);
    it.says("kubectl rollout undo deploy/web", "deployment.apps/web rolled back");
    it.tells(follow, &[done]);
    it.says("kubectl get deploy web -o jsonpath='{.spec.template.spec.containers[0].image}'", "nginx:1");
    assert_eq!(revisions().collect::<Vec<_>>(), ["2", "3"], "the old revision is the newest now");
    it.says("kubectl rollout undo deploy/web --to-revision=2", "deployment.apps/web rolled back");
    it.tells(follow, &[done]);
    it.says("kubectl rollout pause deploy/web", "deployment.apps/web paused");
    it.ok("kubectl set image deploy/web nginx=nginx:3");
    it.fails("kubectl rollout undo deploy/web", "cannot rollback a paused deployment");
    it.says("kubectl rollout resume deploy/web", "deployment.apps/web resumed");
    it.tells(follow, &[done]);
    it.says("kubectl rollout restart deploy/web", "deployment.apps/web restarted");
    it.tells(follow, &[done]);
    it.says("kubectl scale deploy/web --replicas=3", "deployment.apps/web scaled");
    it.tells(follow, &[done]);
    it.tells("kubectl get deploy web --no-headers", &["3/3"]);
    it.tells(
        "kubectl describe deploy web",
        &["ScalingReplicaSet", "Scaled up replica set web-", "deployment-controller"],
    );
    it.tells("kubectl wait --for=condition=Available deploy/web --timeout=60s", &["condition met"]);
}

#[test]
fn stateful_sets_and_daemon_sets_are_rolled_out_and_undone() {
    let it = Terminal::open();
    let _staff = staff(&it);
    it.write("sets.yaml", SETS);
    it.ok("kubectl apply -f sets.yaml");
    for (name, image, done) in [
        ("statefulset/db", "db", "partitioned roll out complete|rolling update complete"),
        ("daemonset/agent", "agent", "daemon set \"agent\" successfully rolled out"),
    ] {
        let follow = || {
            let text = it.ok(&format!("kubectl rollout status {name} --timeout=60s"));
            assert!(done.split('|').any(|done| text.contains(done)), "{name}: {text}");
        };
        let current = format!("kubectl get {name} -o jsonpath='{{.spec.template.spec.containers[0].image}}'");
        follow();
        it.ok(&format!("kubectl set image {name} c={image}:2"));
        follow();
        it.tells(&format!("kubectl rollout history {name} --revision=1"), &[&format!("Image:\t{image}:1")]);
        it.tells(&format!("kubectl rollout undo {name}"), &["rolled back"]);
        follow();
        it.says(&current, &format!("{image}:1"));
        it.tells(&format!("kubectl rollout undo {name} --to-revision=2"), &["rolled back"]);
        it.tells(&format!("kubectl rollout restart {name}"), &["restarted"]);
        follow();
        it.says(&current, &format!("{image}:2"));
    }
    it.tells("kubectl describe sts db", &["create Pod db-0 in StatefulSet db successful"]);
    it.tells("kubectl describe ds agent", &["Created pod: agent-"]);
    it.tells("kubectl delete -f sets.yaml --timeout=60s", &["deleted"]);
}
