//! A cloud in which everybody who can talks by TLS: Keystone with its clients and its database, the members of Galera and of
//! Valkey with each other, RabbitMQ with everybody. A token outlives the death of all servers of the database at once.

mod cloud;
mod machine;

use cloud::{Cloud, Token};
use machine::Machine;

const CLOUD: &str = "
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: itself, namespace: cloud}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: notary, namespace: cloud}
spec: {secretName: notary, isCA: true, commonName: notary, issuerRef: {name: itself}}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: notary, namespace: cloud}
spec: {ca: {secretName: notary}}
---
apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata: {name: lab, namespace: cloud}
spec:
  global:
    tls: {enabled: true, issuerRef: {name: notary, kind: Issuer}}
  infrastructure:
    mariadb: {replicas: 3, storageSize: 1Gi}
    rabbitmq: {replicas: 1, storageSize: 1Gi, resources: {requests: {cpu: 50m, memory: 384Mi}}}
    valkey: {replicas: 3, sentinel: {enabled: true}}
    memcached: {replicas: 1, memory: 64Mi}
  services:
    keystone: {replicas: 2}
";

/// A virtual host and a user of it, which are made over the management interface.
const TOPOLOGY: &str = "
apiVersion: rabbitmq.com/v1beta1
kind: Vhost
metadata: {name: carrots, namespace: cloud}
spec: {name: /carrots, rabbitmqClusterReference: {name: rabbitmq}}
---
apiVersion: rabbitmq.com/v1beta1
kind: User
metadata: {name: hare, namespace: cloud}
spec: {rabbitmqClusterReference: {name: rabbitmq}}
";

/// Asks a broker for the protocol that it speaks, as clients do who know its address and whom to trust.
const KNOCK: &str = r#"
import socket, ssl, sys
host, authorities = sys.argv[1:]
context = ssl.create_default_context(cafile=authorities)
with socket.create_connection((host, 5671), 20) as plain:
    with context.wrap_socket(plain, server_hostname="rabbitmq.cloud.svc") as secure:
        secure.sendall(b"AMQP\x00\x00\x09\x01")
        # A method frame on channel 0: the broker begins the conversation.
        print(secure.version(), secure.recv(3).hex())
for port in (5672, 15672, 15692):
    try:
        socket.create_connection((host, port), 5).close()
        print("open:", port)
    except OSError:
        pass
"#;

/// Signs in to the database with what a pod of Keystone signs in with, as it does and then in the clear.
const SIGN_IN: &str = r#"
import json, pymysql
with open("/etc/keystone/health.json") as file:
    account = json.load(file)["checks"][0]["database"]
with pymysql.connect(**account) as connection, connection.cursor() as cursor:
    cursor.execute("SHOW STATUS LIKE 'Ssl_version'")
    print(cursor.fetchone()[1])
try:
    pymysql.connect(**{key: value for key, value in account.items() if "ssl" not in key}, ssl_disabled=True)
    print("let in")
except pymysql.Error as error:
    print(type(error).__name__)
"#;

fn up() -> Cloud {
    let machine = Machine::up_with(1, &["mariadb", "rabbitmq", "valkey", "memcached", "keystone"]);
    machine.import_itself();
    machine.write("cloud.yaml", CLOUD);
    machine.write("sign_in.py", SIGN_IN);
    machine.write("topology.yaml", TOPOLOGY);
    machine.write("knock.py", KNOCK);
    machine.ok("kubectl create namespace cloud && kubectl apply -f cloud.yaml");
    machine.ok("kubectl -n cloud wait --for=condition=Ready controlplane/lab --timeout=480s || ($C5C3 why; false)");
    let cloud = Cloud::on(machine);
    cloud.settle();
    cloud
}

#[test]
fn with_tls_nobody_talks_in_the_clear_and_a_token_outlives_all_servers_of_the_database() {
    let cloud = up();
    // Over TLS, from a server that proves who it is.
    let token = cloud.identity.sign_in().unwrap();
    cloud.still_good(&token);
    the_database_lets_nobody_in_without_tls(&cloud);
    members_of_valkey_talk_by_tls_alone(&cloud.machine);
    brokers_talk_by_tls_alone(&cloud.machine);

    a_change_is_applied_while_a_server_of_the_database_is_down(&cloud, &token);

    let servers: Vec<_> = (0..3).map(|number| format!("mariadb-{number}")).collect();
    cloud.machine.crash("cloud", &servers, "mariadbd");
    cloud.good_again(&token);
    cloud.settle();
    cloud.kill_one("keystone", &token);
}

/// More memory for a pod is what may be needed most while something is broken.
fn a_change_is_applied_while_a_server_of_the_database_is_down(cloud: &Cloud, token: &Token) {
    let broken = cloud.break_a_database_server();
    let before = cloud.pods("keystone");
    let patch =
        r#"{"spec": {"services": {"keystone": {"template": {"resources": {"requests": {"memory": "321Mi"}}}}}}}"#;
    cloud.machine.ok(&format!("kubectl -n cloud patch controlplane lab --type=merge -p '{patch}'"));
    let memory = "{.spec.template.spec.containers[?(@.name==\"api\")].resources.requests.memory}";
    cloud.machine.eventually(&format!("kubectl -n cloud get deployment keystone-api -o jsonpath='{memory}'"), "321Mi");
    cloud.machine.ok("kubectl -n cloud rollout status deployment/keystone-api --timeout=180s");
    let now = cloud.pods("keystone");
    assert!(now.len() == 2 && before.iter().all(|pod| !now.contains(pod)), "{before:?} became {now:?}");
    cloud.good_again(token);
    cloud.repair(&broken);
    cloud.settle();
}

fn the_database_lets_nobody_in_without_tls(cloud: &Cloud) {
    let pod = cloud.pods("keystone").remove(0);
    let python = format!("kubectl -n cloud exec -i {pod} -c api -- /opt/keystone/bin/python - < sign_in.py");
    cloud.machine.says(&python, "TLSv1.3\nOperationalError");
}

fn members_of_valkey_talk_by_tls_alone(machine: &Machine) {
    let within = |command: &str| format!("kubectl -n cloud exec valkey-valkey-node-1 -c valkey -- {command}");
    let ask = |port: u16, what: &str| within(&format!("sh /conf/ask.sh {port} valkey-valkey '{what}'"));
    let quorum = format!("{} | cut -d' ' -f1-4", ask(26379, "SENTINEL ckquorum myprimary"));
    machine.eventually(&quorum, "OK 3 usable Sentinels.");
    let primary = "sh -c 'sh /conf/ask.sh 6379 $(sh /conf/primary.sh) \"INFO replication\"'";
    let replicas = format!("{} | grep ^connected_slaves: | tr -d '\\r'", within(primary));
    machine.eventually(&replicas, "connected_slaves:2");
    for port in [6379, 26379] {
        let plain = within(&format!("timeout 5 valkey-cli -p {port} PING"));
        machine.says(&format!("{plain} 2>&1 | grep -c -e PONG -e NOAUTH || true"), "0");
    }
    let told = "kubectl -n cloud get secret valkey-valkey-binding -o jsonpath='{.data.tlsEnabled}' | base64 -d";
    machine.says(told, "true");
}

fn brokers_talk_by_tls_alone(machine: &Machine) {
    machine.ok("kubectl -n cloud get secret rabbitmq-tls -o jsonpath='{.data.ca\\.crt}' | base64 -d > notary.crt");
    let address = "$(kubectl -n cloud get service rabbitmq -o jsonpath='{.spec.clusterIP}')";
    machine.says(&format!("python3 knock.py {address} notary.crt"), "TLSv1.3 010000");
    let told = "kubectl -n cloud get secret rabbitmq-default-user -o jsonpath='{.data.port}' | base64 -d";
    machine.says(told, "5671");
    machine.ok("kubectl apply -f topology.yaml");
    machine.ok("kubectl -n cloud wait --for=condition=Ready vhost/carrots user.rabbitmq.com/hare --timeout=120s");
}
