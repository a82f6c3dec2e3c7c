//! RabbitMQ and Valkey on a whole cluster: real servers that lose one of their number and keep what they were told.

mod machine;

use machine::Machine;

const BURROW: &str = r#"
apiVersion: rabbitmq.com/v1beta1
kind: RabbitmqCluster
metadata: {name: burrow}
spec: {replicas: 3, persistence: {storage: 1Gi}}
---
apiVersion: rabbitmq.com/v1beta1
kind: Vhost
metadata: {name: carrots}
spec: {name: /carrots, rabbitmqClusterReference: {name: burrow}}
---
apiVersion: rabbitmq.com/v1beta1
kind: User
metadata: {name: hare}
spec: {tags: [management], rabbitmqClusterReference: {name: burrow}}
---
apiVersion: rabbitmq.com/v1beta1
kind: User
metadata: {name: fox}
spec: {tags: [management], rabbitmqClusterReference: {name: burrow}}
---
apiVersion: rabbitmq.com/v1beta1
kind: Permission
metadata: {name: hare}
spec:
  vhost: /carrots
  userReference: {name: hare}
  permissions: {configure: ".*", write: ".*", read: ".*"}
  rabbitmqClusterReference: {name: burrow}
"#;

/// ask.sh USER METHOD PATH [BODY]: asks the management interface as a user that the provider made, by the Service's
/// address. The password goes through a pipe and is in no argument.
const MANAGEMENT: &str = r#"
user=$1
part() { kubectl get secret "$user-user-credentials" -o jsonpath="{.data.$1}" | base64 -d; }
host=$(kubectl get service burrow -o jsonpath='{.spec.clusterIP}')
printf 'user = "%s:%s"\n' "$(part username)" "$(part password)" |
    curl -s -m 20 -K - -H content-type:application/json -X "$2" "http://$host:15672/api/$3" ${4:+-d "$4"}
"#;

#[test]
fn three_brokers_keep_a_quorum_queue_when_one_of_them_dies() {
    let it = Machine::up_with(1, &["rabbitmq"]);
    it.write("burrow.yaml", BURROW);
    it.write("ask.sh", MANAGEMENT);
    it.ok("kubectl apply -f burrow.yaml");
    it.ok("kubectl wait --for=condition=AllReplicasReady rabbitmqcluster/burrow --timeout=170s");
    it.ok("kubectl wait --for=condition=Ready vhost/carrots user.rabbitmq.com/hare user.rabbitmq.com/fox permission/hare --timeout=120s");

    let queue = "sh ask.sh hare GET queues/%2Fcarrots/nest";
    it.says("sh ask.sh hare PUT queues/%2Fcarrots/nest '{\"durable\":true}'", "");
    let publish = "sh ask.sh hare POST exchanges/%2Fcarrots/amq.default/publish '{\"properties\":{\"delivery_mode\":2},\"routing_key\":\"nest\",\"payload\":\"egg\",\"payload_encoding\":\"string\"}'";
    it.says(publish, r#"{"routed":true}"#);
    it.eventually(&format!("{queue} | grep -o '\"type\":\"[a-z]*\"'"), r#""type":"quorum""#);
    let online = format!("{queue} | grep -o '\"online\":\\[[^]]*\\]' | grep -o rabbit@ | wc -l");
    it.eventually(&online, "3");

    // Each service has a virtual host and a user of its own, and no one else gets in.
    it.says("sh ask.sh fox GET queues/%2Fcarrots/nest | grep -o not_authorised", "not_authorised");

    it.ok("kubectl delete pod burrow-server-0 --grace-period=0 --force");
    it.eventually(publish, r#"{"routed":true}"#);
    it.ok("kubectl wait --for=condition=AllReplicasReady rabbitmqcluster/burrow --timeout=170s");
    it.eventually(&online, "3");
    it.eventually(&format!("{queue} | grep -o '\"messages\":[0-9]*'"), r#""messages":2"#);
}

const LARDER: &str = "
apiVersion: cache.cs.sap.com/v1alpha1
kind: Valkey
metadata: {name: larder}
spec: {replicas: 3, sentinel: {enabled: true}, persistence: {enabled: true, size: 1Gi}}
";

#[test]
fn a_valkey_has_another_primary_when_its_primary_dies() {
    let it = Machine::up_with(1, &["valkey"]);
    it.write("larder.yaml", LARDER);
    it.ok("kubectl apply -f larder.yaml");
    it.ok("kubectl wait --for=jsonpath='{.status.state}'=Ready valkey/larder --timeout=170s");
    let ask = |pod: u8, port: u16, what: &str| {
        format!("kubectl exec valkey-larder-node-{pod} -c valkey -- sh /conf/ask.sh {port} 127.0.0.1 '{what}'")
    };
    let primary = |pod: u8| {
        format!("{} | head -n 1 | cut -d. -f1", ask(pod, 26379, "SENTINEL get-primary-addr-by-name myprimary"))
    };
    it.eventually(&primary(1), "valkey-larder-node-0");
    it.eventually(&ask(0, 6379, "SET word owl"), "OK");
    it.eventually(&ask(1, 6379, "GET word"), "owl");
    it.eventually(&ask(2, 6379, "GET word"), "owl");

    // A pod that comes back at once would be the primary again before anybody has missed it.
    it.ok("kubectl cordon node-1 && kubectl delete pod valkey-larder-node-0 --grace-period=0 --force");
    it.eventually(&format!("{} | grep -c -v node-0", primary(1)), "1");
    it.ok("kubectl uncordon node-1");
    it.ok("kubectl wait --for=condition=Ready pod/valkey-larder-node-0 --timeout=120s");
    it.eventually(&format!("{} | grep ^role: | tr -d '\\r'", ask(0, 6379, "INFO replication")), "role:slave");
    it.eventually(&ask(0, 6379, "GET word"), "owl");
}
