//! What a cluster leaves on the machine when it has ended: nothing. Runs alone (`.config/nextest.toml`), so that no one else
//! changes the machine between the two looks at it.

mod machine;

use std::process::Command;

use machine::Machine;

const WORKLOAD: &str = r#"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
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
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}, {name: memory, emptyDir: {medium: Memory}}]
      containers:
      - name: web
        image: c5c3.local/busybox:1
        command: [sh, -c, "exec httpd -f -p 8080 -h /data"]
        volumeMounts: [{name: data, mountPath: /data}, {name: memory, mountPath: /memory}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web}
spec: {podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{podSelector: {}}]}]}
"#;

/// Everything of the machine that a cluster could change, whatever its name. A process that has ended and waits for its
/// parent to notice does not count.
const MACHINE: &str = "
    ls -Ad /run/* /run/netns/* /run/containerd/* /run/c5c3*/* /var/lib/cni/* /var/lib/cni/*/* /etc/cni/* 2>/dev/null
    ip -o link | cut -d: -f2
    ip netns list
    ip route
    ip rule
    nft list ruleset
    sort /proc/self/mounts
    find /sys/fs/cgroup -maxdepth 3 -type d | sort
    ps -eo stat=,comm= | grep -v ^Z | grep -o -e 'c5c3.*' -e 'containerd.*' -e 'runc.*' -e 'pause.*' | sort
    find /proc/sys/net/ipv4 -maxdepth 1 -name 'ip_*' -o -name 'tcp_*' -maxdepth 1 | sort | xargs grep . 2>/dev/null
    cat /proc/sys/net/ipv4/conf/all/* /proc/sys/net/ipv4/conf/default/* 2>/dev/null
    sha256sum /etc/resolv.conf /etc/hosts";

fn machine() -> String {
    let output = Command::new("sh").args(["-c", MACHINE]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The lines that are in one text and not in the other, with a sign of where.
fn differences(before: &str, after: &str) -> Vec<String> {
    let only = |here: &str, there: &str, sign: char| -> Vec<String> {
        here.lines()
            .filter(|line| !there.lines().any(|other| other == *line))
            .map(|line| format!("{sign} {line}"))
            .collect()
    };
    [only(before, after, '-'), only(after, before, '+')].concat()
}

#[test]
fn down_leaves_the_machine_as_it_was_and_wipe_leaves_not_even_the_data() {
    let before = machine();
    let mut it = Machine::up(2);
    it.write("workload.yaml", WORKLOAD);
    it.ok("kubectl apply -f workload.yaml && kubectl rollout status deployment/web --timeout=120s");
    let there = it.traces();
    for trace in ["containerd", "c5c3 up", "node-agent", "c5c3br-", "table ip c5c3", "overlay", "/sys/fs/cgroup"] {
        assert!(there.contains(trace), "{trace} is not among the traces that are looked for:\n{there}");
    }
    let during = differences(&before, &machine()).join("\n");
    for trace in ["c5c3br-", "table ip c5c3", "containerd", "overlay"] {
        assert!(during.contains(trace), "{trace} would not be noticed:\n{during}");
    }
    it.down(false);
    assert_eq!(it.traces(), "");
    assert_eq!(differences(&before, &machine()), Vec::<String>::new());
    assert!(it.data().join("cluster.json").exists());
    it.again();
    it.eventually("kubectl get deployment web -o jsonpath='{.status.readyReplicas}'", "2");
    it.kill();
    it.down(true);
    assert_eq!(it.traces(), "");
    assert_eq!(differences(&before, &machine()), Vec::<String>::new());
    assert!(!it.data().exists());
}
