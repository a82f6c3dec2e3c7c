//! `c5c3 up`: a cluster on this machine with real containers, used by kubectl as people use it.

mod machine;

use machine::Machine;

const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: c5c3.local/busybox:1
        command: [sh, -c, "mkdir /tmp/w; hostname > /tmp/w/index.html; touch /tmp/w/ready; echo serving; exec httpd -f -p 8080 -h /tmp/w"]
        readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1, failureThreshold: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
"#;

/// Asks a Service until the answers have come from this many pods.
const FROM_PODS: &str = r#"
count() { for i in $(seq 20); do timeout 5 wget -qO- http://web.default.svc.cluster.local/; done | sort -u | wc -l; }
for turn in $(seq 60); do [ "$(count)" = "$1" ] && echo "$1 pods answer" && exit; sleep 0.5; done; echo "$(count) pods answer"
"#;

#[test]
fn a_service_balances_over_ready_pods_by_name_from_a_pod_and_from_the_machine() {
    let it = Machine::up(2);
    it.write("web.yaml", WEB);
    it.ok("kubectl apply -f web.yaml");
    it.ok("kubectl rollout status deployment/web --timeout=120s");
    it.ok("kubectl run asker --image=c5c3.local/busybox:1 --restart=Never -- sleep 3600");
    it.ok("kubectl wait --for=condition=Ready pod/asker --timeout=60s");
    it.write("ask.sh", FROM_PODS);
    let ask =
        |pods: u8| it.says(&format!("kubectl exec -i asker -- sh -s {pods} < ask.sh"), &format!("{pods} pods answer"));
    ask(2);
    it.says(
        "curl -sf -m 10 http://$(kubectl get svc web -o jsonpath='{.spec.clusterIP}')/ready && echo reached",
        "reached",
    );

    // A pod that is not ready gets no more requests; one that asks its own Service may be answered by itself.
    let pods = it.ok("kubectl get pods -l app=web -o jsonpath='{.items[*].metadata.name}'");
    let (first, second) = pods.split_once(' ').unwrap();
    it.ok(&format!("kubectl exec {first} -- rm /tmp/w/ready"));
    it.ok(&format!("kubectl wait --for=condition=Ready=false pod/{first} --timeout=60s"));
    ask(1);
    it.says(&format!("kubectl exec {second} -- wget -qO- http://web/"), second);
    it.ok(&format!("kubectl exec {first} -- touch /tmp/w/ready"));
    ask(2);

    // No one is let in any more, and then only who is named.
    it.write("deny.yaml", "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: deny}, spec: {podSelector: {}, policyTypes: [Ingress]}}");
    it.ok("kubectl apply -f deny.yaml");
    it.eventually("kubectl exec asker -- timeout 2 wget -qO- http://web/ >/dev/null 2>&1 || echo blocked", "blocked");
    it.write("allow.yaml", "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: allow}, spec: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {run: asker}}}]}]}}");
    it.ok("kubectl apply -f allow.yaml");
    it.eventually("kubectl exec asker -- timeout 5 wget -qO- http://web/ready && echo let in", "let in");
}

#[test]
fn kubectl_does_with_pods_what_people_do_with_it() {
    let it = Machine::up(2);
    it.write("web.yaml", WEB);
    it.ok("kubectl apply -f web.yaml && kubectl rollout status deployment/web --timeout=120s");
    it.says("kubectl logs deployment/web 2>/dev/null", "serving");
    it.ok("kubectl run talker --image=c5c3.local/busybox:1 --restart=Never -- sh -c 'for i in 1 2 3; do echo line $i; done; sleep 1; echo last'");
    it.ok("kubectl wait --for=jsonpath='{.status.phase}'=Succeeded pod/talker --timeout=60s");
    it.says("kubectl logs talker --tail=2", "line 3\nlast");
    it.says("kubectl logs -f talker", "line 1\nline 2\nline 3\nlast");
    it.ok("kubectl run box --image=c5c3.local/busybox:1 --restart=Never -- sleep 3600");
    it.ok("kubectl wait --for=condition=Ready pod/box --timeout=60s");
    it.says("echo over | kubectl exec -i box -- sh -c 'cat; exit 7' 2>/dev/null; echo code $?", "over\ncode 7");
    // In a terminal, which util-linux's script is: the command has one too, and what is typed is read.
    it.write("typed", "tty; echo $((6 * 7)) is typed; exit 3\n");
    let typed = it.ok("script -qec 'kubectl exec -it box -- sh' /dev/null < typed || echo code $?");
    for part in ["/dev/pts/0", "42 is typed", "code 3"] {
        assert!(typed.contains(part), "{part:?} is not in what the terminal shows: {typed}");
    }
    it.write("letter", "dear pod\n");
    it.ok("kubectl cp letter box:/tmp/letter");
    it.says("kubectl exec box -- cat /tmp/letter", "dear pod");
    it.says("kubectl cp box:/tmp/letter answer >/dev/null && cat answer", "dear pod");
    it.says(
        "kubectl port-forward deployment/web 0:8080 > forward.log 2>&1 & pid=$!; \
        for i in $(seq 100); do grep -q Forwarding forward.log && break; sleep 0.1; done; \
        port=$(sed -n 's/.*127.0.0.1:\\([0-9]*\\) .*/\\1/p' forward.log | head -1); \
        curl -sf -m 10 http://127.0.0.1:$port/ready && echo forwarded; kill $pid",
        "forwarded",
    );
    it.ok("kubectl expose deployment web --name=again --port=81 --target-port=8080");
    it.eventually("kubectl exec box -- timeout 5 wget -qO- http://again:81/ready && echo exposed", "exposed");

    it.ok("kubectl set env deployment/web COLOUR=red && kubectl rollout status deployment/web --timeout=120s");
    it.says("kubectl exec deployment/web -- sh -c 'echo $COLOUR'", "red");
    it.ok("kubectl rollout undo deployment/web && kubectl rollout status deployment/web --timeout=120s");
    it.says("kubectl exec deployment/web -- sh -c 'echo $COLOUR.'", ".");
    it.ok("kubectl rollout restart deployment/web && kubectl rollout status deployment/web --timeout=120s");

    it.ok("kubectl delete pod box talker --grace-period=1");
    it.ok("kubectl drain node-1 --ignore-daemonsets --timeout=60s");
    it.ok("kubectl rollout status deployment/web --timeout=120s");
    it.eventually("kubectl get pods -l app=web -o jsonpath='{.items[*].spec.nodeName}'", "node-2 node-2");
    it.says("kubectl uncordon node-1", "node/node-1 uncordoned");
}

/// A pod on the host's network. One container mounts things in volumes; another sees them.
const PROPAGATING: &str = r#"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: images}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: propagating}
spec:
  hostNetwork: true
  nodeSelector: {kubernetes.io/hostname: node-2}
  terminationGracePeriodSeconds: 1
  volumes:
  - {name: scratch, emptyDir: {}}
  - {name: images, persistentVolumeClaim: {claimName: images}}
  - {name: run, hostPath: {path: /run/propagating, type: DirectoryOrCreate}}
  - {name: share, hostPath: {path: /srv/share, type: DirectoryOrCreate}}
  containers:
  - name: mounts
    image: c5c3.local/busybox:1
    securityContext: {privileged: true}
    command:
    - sh
    - -ec
    - |
      echo data >/share/precious
      for volume in scratch images run; do
        mkdir -p /$volume/inner
        mount --bind /share /$volume/inner
      done
      exec sleep 3600
    volumeMounts:
    - {name: scratch, mountPath: /scratch, mountPropagation: Bidirectional}
    - {name: images, mountPath: /images, mountPropagation: Bidirectional}
    - {name: run, mountPath: /run, mountPropagation: Bidirectional}
    - {name: share, mountPath: /share}
  - name: looks
    image: c5c3.local/busybox:1
    command: [sleep, "3600"]
    volumeMounts:
    - {name: scratch, mountPath: /scratch, mountPropagation: HostToContainer}
    - {name: images, mountPath: /images, mountPropagation: HostToContainer}
    - {name: run, mountPath: /run, mountPropagation: HostToContainer}
"#;

#[test]
fn mounts_in_volumes_reach_other_containers_and_their_data_outlives_the_volumes() {
    let it = Machine::up(2);
    let hostname = it.ok("cat /proc/sys/kernel/hostname");
    it.write("propagating.yaml", PROPAGATING);
    it.ok("kubectl apply -f propagating.yaml && kubectl wait --for=condition=Ready pod/propagating --timeout=120s");
    for volume in ["scratch", "images", "run"] {
        it.eventually(&format!("kubectl exec propagating -c looks -- cat /{volume}/inner/precious"), "data");
    }
    it.says("kubectl exec propagating -c looks -- hostname", "node-2");
    assert_eq!(it.ok("cat /proc/sys/kernel/hostname"), hostname, "the machine keeps its hostname");

    // Killed, the container leaves its mounts behind. Neither the pod's end nor the claim's deletes what is in them.
    it.ok("kubectl delete pod propagating --grace-period=0 --force && kubectl delete pvc images");
    it.eventually("kubectl get pv -o name; ls data/volumes", "");
    it.eventually("ls -d data/nodes/node-2/pods/*/volumes 2>/dev/null || true", "");
    it.says("cat data/nodes/node-2/host/srv/share/precious", "data");
}

#[test]
fn two_clusters_live_side_by_side_and_nodes_are_marked_as_they_are_told() {
    let mut first = Machine::up_marked(2, "--label node-2:rack=b --taint node-2:only=press:NoSchedule");
    let second = Machine::up(1);
    let keys = |node: &str| format!("kubectl get node {node} -o jsonpath='{{.spec.taints[*].key}}'");
    first.says("kubectl get nodes -l rack=b -o name", "node/node-2");
    // Nodes register as not ready; when they are, only the taint that was asked for is left.
    first.eventually(&keys("node-1"), "");
    first.eventually(&keys("node-2"), "only");
    let run = |it: &Machine, pod: &str, spec: &str| {
        it.write(&format!("{pod}.yaml"), &format!("{{apiVersion: v1, kind: Pod, metadata: {{name: {pod}, labels: {{app: web}}}}, spec: {{terminationGracePeriodSeconds: 0, {spec} containers: [{{name: c, image: 'c5c3.local/busybox:1', command: [sh, -c, 'mkdir /tmp/w; echo {pod} > /tmp/w/index.html; exec httpd -f -p 8080 -h /tmp/w']}}]}}}}"));
        it.ok(&format!("kubectl apply -f {pod}.yaml && kubectl wait --for=condition=Ready pod/{pod} --timeout=120s"));
        it.ok(&format!("kubectl get pod {pod} -o jsonpath='{{.spec.nodeName}}'"))
    };
    assert_eq!(run(&first, "plain", ""), "node-1");
    let marked = "nodeSelector: {rack: b}, tolerations: [{key: only, value: press, effect: NoSchedule}],";
    assert_eq!(run(&first, "marked", marked), "node-2");
    assert_eq!(run(&second, "other", ""), "node-1");
    let ask = "curl -sf -m 10 http://$(kubectl get svc web -o jsonpath='{.spec.clusterIP}')/";
    for it in [&first, &second] {
        it.ok("kubectl expose pod $(kubectl get pods -l app=web -o jsonpath='{.items[0].metadata.name}') --name=web --port=80 --target-port=8080 --selector=app=web");
    }
    second.eventually(ask, "other");
    first.eventually(&format!("for i in $(seq 20); do {ask}; done | sort -u | xargs"), "marked plain");
    first.down(true);
    assert_eq!(first.traces(), "");
    second.says(ask, "other");
    second.says("kubectl exec other -- wget -qO- http://web/", "other");
}

/// A machine beside this one, which is a network namespace with a cable to it.
struct Neighbour {
    name: String,
}

impl Neighbour {
    /// The machine's end of the cable, with two addresses only: where tests run, others are the way out. No other test has
    /// them: 198.51.100.0/24 belongs to embedded/cri/tests/neighbours.rs, which may run at the same time.
    const LAN: &str = "203.0.113.1";

    fn new(it: &Machine) -> Self {
        let name = format!("c5c3-beside-{}", std::process::id());
        let this = Self { name: name.clone() };
        it.ok(&format!(
            "ip netns add {name} && ip link add name lan{0} type veth peer name lan netns {name} &&
            ip addr add {1}/30 dev lan{0} && ip link set lan{0} up &&
            ip -n {name} addr add 203.0.113.2/30 dev lan && ip -n {name} link set lan up",
            std::process::id(),
            Self::LAN
        ));
        this
    }

    /// What the machine answers at a port, or how curl ends.
    fn ask(&self, port: &str) -> String {
        format!("ip netns exec {} curl -sf -m 5 http://{}:{port}/ || echo $?", self.name, Self::LAN)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = std::process::Command::new("ip").args(["netns", "delete", &self.name]).status();
    }
}

#[test]
fn neighbours_reach_a_load_balancer_when_an_address_is_exposed_and_only_then() {
    let mut it = Machine::up(1);
    let neighbour = Neighbour::new(&it);
    it.write(
        "web.yaml",
        &WEB.replace("spec: {selector: {app: web},", "spec: {type: LoadBalancer, selector: {app: web},"),
    );
    it.ok("kubectl apply -f web.yaml && kubectl rollout status deployment/web --timeout=120s");
    let address = "kubectl get service web -o jsonpath='{.status.loadBalancer.ingress[0].ip}'";
    let port = it.ok("kubectl get service web -o jsonpath='{.spec.ports[0].nodePort}'");
    it.eventually(&format!("curl -sf -m 5 http://$({address})/ready && echo reached"), "reached");
    // 7 is a connection that is refused.
    for port in ["80", &port] {
        it.says(&neighbour.ask(port), "7");
    }

    it.down(false);
    it.ok(&format!("$C5C3 up --bare --detach --data $PWD/data --expose {}", Neighbour::LAN));
    it.eventually(address, Neighbour::LAN);
    let pods = "kubectl get pods -l app=web -o jsonpath='{.items[*].metadata.name}'";
    for port in ["80", &port] {
        it.eventually(&format!("{pods} | grep -c \"$({})\"", neighbour.ask(port)), "1");
    }
}

#[test]
fn what_cannot_run_says_why_as_kubernetes_does() {
    let it = Machine::up(1);
    let pod = |name: &str, rest: &str| {
        it.write(&format!("{name}.yaml"), &format!("{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{restartPolicy: Always, terminationGracePeriodSeconds: 0, {rest}}}}}"));
        it.ok(&format!("kubectl apply -f {name}.yaml"));
    };
    pod("no-image", "containers: [{name: c, image: 'c5c3.local/nowhere:1', imagePullPolicy: Never}]");
    pod("no-command", "containers: [{name: c, image: 'c5c3.local/busybox:1', command: [/no/such/thing]}]");
    pod(
        "no-volume",
        "containers: [{name: c, image: 'c5c3.local/busybox:1'}], volumes: [{name: v, hostPath: {path: /no/such/folder, type: Directory}}]",
    );
    pod(
        "no-config",
        "containers: [{name: c, image: 'c5c3.local/busybox:1', envFrom: [{configMapRef: {name: nowhere}}]}]",
    );
    pod("no-room", "containers: [{name: c, image: 'c5c3.local/busybox:1', resources: {requests: {memory: 100Ti}}}]");
    pod(
        "no-memory",
        "containers: [{name: c, image: 'c5c3.local/busybox:1', command: [sh, -c, 'x=a; while true; do x=$x$x; done'], resources: {limits: {memory: 20Mi}}}]",
    );
    pod(
        "no-pages",
        "containers: [{name: c, image: 'c5c3.local/busybox:1', resources: {limits: {hugepages-1Gi: 900Gi, memory: 10Mi}}}]",
    );
    let waiting = |name: &str, reason: &str| {
        it.eventually(
            &format!("kubectl get pod {name} -o jsonpath='{{.status.containerStatuses[0].state.waiting.reason}}'"),
            reason,
        );
    };
    waiting("no-image", "ErrImageNeverPull");
    waiting("no-config", "CreateContainerConfigError");
    it.eventually(
        "kubectl get pod no-command -o jsonpath='{.status.containerStatuses[0].lastState.terminated.reason}'",
        "StartError",
    );
    it.eventually(
        "kubectl get pod no-memory -o jsonpath='{.status.containerStatuses[0].lastState.terminated.reason}'",
        "OOMKilled",
    );
    it.eventually(
        "kubectl get pod no-room -o jsonpath='{.status.conditions[?(@.type==\"PodScheduled\")].reason}'",
        "Unschedulable",
    );
    it.eventually(
        "kubectl get pod no-pages -o jsonpath='{.status.conditions[?(@.type==\"PodScheduled\")].message}' | grep -o 'Insufficient hugepages-1Gi'",
        "Insufficient hugepages-1Gi",
    );
    let event = |pod: &str, reason: &str| {
        it.eventually(&format!("kubectl get events --field-selector involvedObject.name={pod},reason={reason} -o jsonpath='{{.items[0].reason}}'"), reason);
    };
    event("no-volume", "FailedMount");
    event("no-room", "FailedScheduling");
    event("no-command", "Failed");
    event("no-image", "ErrImageNeverPull");
}

const STORE: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: store}
spec: {clusterIP: None, selector: {app: store}, ports: [{port: 8080}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec:
  serviceName: store
  replicas: 3
  selector: {matchLabels: {app: store}}
  template:
    metadata: {labels: {app: store}}
    spec:
      terminationGracePeriodSeconds: 1
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {labelSelector: {matchLabels: {app: store}}, topologyKey: kubernetes.io/hostname}
      containers:
      - name: store
        image: c5c3.local/busybox:1
        command: [sh, -c, "echo start >> /data/starts; exec httpd -f -p 8080 -h /data"]
        readinessProbe: {httpGet: {path: /starts, port: 8080}, periodSeconds: 1}
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
"#;

#[test]
fn a_stateful_set_over_three_nodes_keeps_its_data_whatever_happens() {
    let it = Machine::up(3);
    it.write("store.yaml", STORE);
    it.ok("kubectl apply -f store.yaml && kubectl rollout status statefulset/store --timeout=180s");
    let nodes = "kubectl get pods -l app=store -o jsonpath='{.items[*].spec.nodeName}' | tr ' ' '\\n' | sort | xargs";
    it.says(nodes, "node-1 node-2 node-3");
    for number in 0..3 {
        it.ok(&format!("kubectl exec store-{number} -- sh -c 'echo written by {number} > /data/letter'"));
    }
    let whole = |after: &str| {
        it.eventually("kubectl get statefulset store -o jsonpath='{.status.readyReplicas}'", "3");
        for number in 0..3 {
            it.eventually(
                &format!("kubectl exec store-{number} -- cat /data/letter # {after}"),
                &format!("written by {number}"),
            );
        }
    };

    it.ok("kubectl set env statefulset/store TURN=2 && kubectl rollout status statefulset/store --timeout=180s");
    whole("a rolling update");
    it.ok("kubectl delete pod store-1 --grace-period=0 --force");
    whole("a pod was killed");

    let node = it.ok("kubectl get pod store-0 -o jsonpath='{.spec.nodeName}'");
    let ready = format!("kubectl get node {node} -o jsonpath='{{.status.conditions[?(@.type==\"Ready\")].status}}'");
    for (fault, done) in [("stop", "off"), ("cut", "cut off")] {
        it.says(&format!("$C5C3 node {fault} {node} --data data"), &format!("{node} is {done}"));
        it.eventually(&ready, "Unknown");
        it.eventually(
            "kubectl get pod store-0 -o jsonpath='{.status.conditions[?(@.type==\"Ready\")].status}'",
            "False",
        );
        it.eventually(
            &format!("kubectl get node {node} -o jsonpath='{{.spec.taints[*].key}}' | grep -o unreachable | head -1"),
            "unreachable",
        );
        it.says(&format!("$C5C3 node start {node} --data data"), &format!("{node} is on"));
        it.eventually(&ready, "True");
        whole(fault);
    }

    let starts = "for i in 0 1 2; do kubectl exec store-$i -- cat /data/starts; done | wc -l";
    let before = it.ok(starts);
    it.kill();
    it.again();
    whole("c5c3 was killed");
    it.says(starts, &before);

    // A second start changes nothing, and refuses what only a start can change.
    let process = it.ok("cat data/lock");
    let said = it.ok("$C5C3 up --bare --detach --data $PWD/data");
    assert!(said.starts_with(&format!("it runs: process {process}\n")), "{said}");
    let said = it.ok("$C5C3 up --bare --detach --data $PWD/data --expose none && echo it was ignored || true");
    assert!(said.contains("--expose cannot change while it runs") && !said.contains("ignored"), "{said}");
    it.says("cat data/lock", &process);
    it.says(starts, &before);
}
