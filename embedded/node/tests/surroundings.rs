//! What a container finds around it: its environment, names, user, limits.

#![allow(clippy::needless_pass_by_value, reason = "`json!(..)` reads better than `&json!(..)`")]

mod support;

use serde_json::{Value, json};
use support::{TestNode, container_status, idle};

fn with(mut container: Value, fields: Value) -> Value {
    for (name, value) in fields.as_object().unwrap() {
        container[name] = value.clone();
    }
    container
}

#[tokio::test]
async fn the_environment_comes_from_values_fields_maps_and_services() {
    let node = TestNode::start().await;
    let metadata = |name: &str| json!({"name": name});
    node.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("till"), "data": {"open": "8"}}))
        .await;
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("key"), "stringData": {"pin": "1234"}});
    node.apply(secret).await;
    let ports = json!([{"port": 80, "name": "web"}]);
    let spec = json!({"clusterIP": "10.125.0.77", "ports": ports});
    node.apply(json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata("my-till"), "spec": spec})).await;
    let field = |path: &str| json!({"fieldRef": {"fieldPath": path}});
    let env = json!([
        {"name": "PLAIN", "value": "a $(OPEN)"},
        {"name": "OPEN", "valueFrom": {"configMapKeyRef": {"name": "till", "key": "open"}}},
        {"name": "EXPANDED", "value": "$(OPEN)-$(T_open)-$(MY_TILL_SERVICE_PORT)"},
        {"name": "PIN", "valueFrom": {"secretKeyRef": {"name": "key", "key": "pin"}}},
        {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "none", "key": "pin", "optional": true}}},
        {"name": "IP", "valueFrom": field("status.podIP")},
        {"name": "NODE", "valueFrom": field("spec.nodeName")},
        {"name": "APP", "valueFrom": field("metadata.labels['app']")},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
    ]);
    let from = json!([{"prefix": "T_", "configMapRef": {"name": "till"}}]);
    let app = with(idle("app"), json!({"env": env, "envFrom": from, "resources": {"limits": {"cpu": "250m"}}}));
    node.create("env", json!({"containers": [app]})).await;
    let pod = node.ready("env").await;
    let printed = node.exec("env", "app", "env").await;
    let ip = format!("IP={}", pod.status.unwrap().pod_ip.unwrap());
    let expected = [
        "PLAIN=a $(OPEN)",
        "EXPANDED=8-8-80",
        "PIN=1234",
        "NODE=node-0",
        "APP=env",
        "CPU=250",
        "HOSTNAME=env",
        "MY_TILL_SERVICE_HOST=10.125.0.77",
        "KUBERNETES_SERVICE_PORT=443",
        &ip,
    ];
    for line in expected {
        assert!(printed.lines().any(|printed| printed == line), "{line} in\n{printed}");
    }
    assert!(!printed.contains("NONE="), "{printed}");
}

#[tokio::test]
async fn a_pod_has_its_names() {
    let node = TestNode::start().await;
    let aliases = json!([{"ip": "192.0.2.7", "hostnames": ["till"]}]);
    let spec = json!({"containers": [idle("app")], "hostname": "db-0", "subdomain": "db", "hostAliases": aliases});
    node.create("names", spec).await;
    let options = json!([{"name": "ndots", "value": "2"}]);
    let dns = json!({"nameservers": ["192.0.2.9"], "searches": ["shop.test"], "options": options});
    node.create("dns", json!({"containers": [idle("app")], "dnsPolicy": "None", "dnsConfig": dns})).await;
    node.ready("names").await;
    assert_eq!(node.exec("names", "app", "hostname").await, "db-0");
    let hosts = node.exec("names", "app", "cat /etc/hosts").await;
    assert!(hosts.contains("\tdb-0.db.default.svc.cluster.local\tdb-0\n"), "{hosts}");
    assert!(hosts.contains("192.0.2.7\ttill"), "{hosts}");
    let resolv = node.exec("names", "app", "cat /etc/resolv.conf").await;
    assert!(resolv.contains("nameserver 10.125.0.10") && resolv.contains("options ndots:5"), "{resolv}");
    assert!(resolv.contains("search default.svc.cluster.local svc.cluster.local cluster.local"), "{resolv}");
    node.ready("dns").await;
    let resolv = node.exec("dns", "app", "cat /etc/resolv.conf").await;
    assert!(resolv.contains("nameserver 192.0.2.9") && resolv.contains("search shop.test"), "{resolv}");
    assert!(resolv.contains("options ndots:2"), "{resolv}");
}

#[tokio::test]
async fn security_contexts_are_real() {
    let node = TestNode::start().await;
    let caps = json!({"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]});
    let strict = json!({"capabilities": caps, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
        "seccompProfile": {"type": "RuntimeDefault"}});
    let of_pod = json!({"runAsUser": 1000, "runAsGroup": 1500, "fsGroup": 2000, "supplementalGroups": [3000],
        "runAsNonRoot": true, "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "79"}]});
    let strict = with(idle("app"), json!({"securityContext": strict}));
    node.create("strict", json!({"containers": [strict], "securityContext": of_pod})).await;
    let free = with(idle("app"), json!({"securityContext": {"privileged": true}}));
    node.create("free", json!({"containers": [free], "hostNetwork": true, "hostPID": true})).await;
    let shared = json!({"containers": [idle("app"), idle("other")], "shareProcessNamespace": true});
    node.create("shared", shared).await;

    node.ready("strict").await;
    assert_eq!(node.exec("strict", "app", "id -u; id -g; id -G").await, "1000\n1500\n1500 2000 3000");
    assert!(node.exec("strict", "app", "touch /x").await.contains("Read-only file system"));
    let status = node.exec("strict", "app", "cat /proc/1/status").await;
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    assert_eq!(
        (line("NoNewPrivs:"), line("Seccomp:"), line("CapBnd:")),
        ("1".into(), "2".into(), "0000000000000400".into())
    );
    assert_eq!(node.exec("strict", "app", "cat /proc/sys/net/ipv4/ip_unprivileged_port_start").await, "79");

    let pod = node.ready("free").await;
    let address = node.config.address.to_string();
    assert_eq!(pod.status.unwrap().pod_ip.as_deref(), Some(address.as_str()));
    assert!(node.exec("free", "app", "ip addr").await.contains(&address));
    let processes: usize = node.exec("free", "app", "ls /proc 2>/dev/null | grep -c '^[0-9]'").await.parse().unwrap();
    assert!(processes > 5, "{processes}");
    node.ready("shared").await;
    let processes = node.exec("shared", "app", "ps").await;
    assert!(processes.contains("catatonit") && processes.matches("trap").count() >= 2, "{processes}");
}

#[tokio::test]
async fn limits_are_set_and_a_container_that_takes_too_much_memory_is_killed() {
    let node = TestNode::start().await;
    let limits = json!({"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "250m", "memory": "64Mi"}});
    let app = with(idle("app"), json!({"resources": limits}));
    node.create("limited", json!({"containers": [app]})).await;
    let greedy =
        json!({"name": "app", "command": ["sh", "-c", "tail /dev/zero"], "resources": {"limits": {"memory": "16Mi"}}});
    node.create("greedy", json!({"restartPolicy": "Never", "containers": [greedy]})).await;

    node.ready("limited").await;
    let read = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; \
                cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu.max 2>/dev/null";
    let limits = node.exec("limited", "app", read).await;
    assert!(limits.contains("67108864") && limits.contains("50000"), "{limits}");
    let pod = node.phase("greedy", "Failed").await;
    let end = container_status(&pod, "app").unwrap().state.unwrap().terminated.unwrap();
    assert_eq!((end.reason.as_deref(), end.exit_code), (Some("OOMKilled"), 137));
}
