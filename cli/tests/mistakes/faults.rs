//! What breaks under a cloud that runs, and how it is well again.

use crate::explained::until_told;
use crate::machine::Machine;

/// A fault, and what shows that it is over, beside the cloud being ready and Keystone answering.
pub struct Fault {
    /// What happens.
    command: &'static str,
    /// A command and what it prints in the end; none where readiness shows enough.
    heals: Option<(&'static str, &'static str)>,
}

const fn fault(command: &'static str) -> Fault {
    Fault { command, heals: None }
}

const fn heals(command: &'static str, look: &'static str, wanted: &'static str) -> Fault {
    Fault { command, heals: Some((look, wanted)) }
}

/// Waits until no pod of this part is the one that was there before.
const KEYSTONE_PODS: &str = "kubectl -n cloud get pods -l app.kubernetes.io/component=api -o name | wc -l";

/// Whether the file of clients has the password and the address of now.
const CLIENT_FOLLOWS: &str = "
    password=$(kubectl -n cloud get secret keystone-admin-credentials -o jsonpath='{.data.password}' | base64 -d)
    address=$(kubectl -n cloud get service keystone -o jsonpath='{.spec.clusterIP}')
    grep -q \"$password\" data/clouds.yaml && grep -q \"//$address:\" data/clouds.yaml && echo follows";

/// Kills a program of a pod from outside, where it may be the first process, and waits until its container has started again.
/// Images have no `pgrep`.
macro_rules! killed {
    ($pod:literal, $program:literal) => {
        concat!(
            "set -e
            pod=",
            $pod,
            "
            restarts='{.status.containerStatuses[0].restartCount}'
            uid=$(kubectl -n cloud get pod $pod -o jsonpath='{.metadata.uid}')
            before=$(kubectl -n cloud get pod $pod -o jsonpath=$restarts)
            pids=$(grep -l -- \"pod$uid\" /proc/[0-9]*/cgroup 2>/dev/null | cut -d/ -f3)
            kill -9 $(for pid in $pids; do grep -q -x ",
            $program,
            " /proc/$pid/comm && echo $pid; done)
            kubectl -n cloud wait --for=jsonpath=$restarts=$((before + 1)) --timeout=120s pod $pod
            kubectl -n cloud wait --for=condition=Ready --timeout=120s pod $pod"
        )
    };
}

/// Deletes an object without waiting, and then waits until another one is in its place.
macro_rules! replaced {
    ($object:literal) => {
        heals(
            concat!(
                "kubectl -n cloud get ",
                $object,
                " -o jsonpath='{.metadata.uid}' > uid && kubectl -n cloud delete ",
                $object,
                " --wait=false"
            ),
            concat!(
                "uid=$(kubectl -n cloud get ",
                $object,
                " -o jsonpath='{.metadata.uid}') && [ \"$uid\" != \"$(cat uid)\" ] && echo another"
            ),
            "another",
        )
    };
}

/// Whether the pods of the infrastructure are ready; those that were deleted are gone by then.
const INFRASTRUCTURE_IS_READY: &str = "kubectl -n cloud get pod mariadb-0 memcached-0 rabbitmq-server-0 valkey-valkey-primary-0 \
    -o jsonpath='{.items[*].status.conditions[?(@.type==\"Ready\")].status}'";

pub const FAULTS: &[Fault] = &[
    // Pods.
    heals("kubectl -n cloud delete pod -l app.kubernetes.io/component=api --wait=true", KEYSTONE_PODS, "1"),
    heals(
        "kubectl -n cloud delete pod -l app.kubernetes.io/component=api --grace-period=0 --force",
        KEYSTONE_PODS,
        "1",
    ),
    heals(
        "kubectl -n cloud delete pod mariadb-0 memcached-0 rabbitmq-server-0 valkey-valkey-primary-0",
        INFRASTRUCTURE_IS_READY,
        "True True True True",
    ),
    // Processes that die.
    fault(killed!(
        "$(kubectl -n cloud get pods -l app.kubernetes.io/component=api -o jsonpath='{.items[0].metadata.name}')",
        "uwsgi"
    )),
    fault(killed!("mariadb-0", "mariadbd")),
    fault(killed!("memcached-0", "memcached")),
    fault(killed!("rabbitmq-server-0", "beam.smp")),
    fault(killed!("valkey-valkey-primary-0", "valkey-server")),
    // Secrets that are lost.
    heals(
        "kubectl -n cloud delete secret keystone-fernet-keys keystone-credential-keys",
        "kubectl -n cloud get secret keystone-fernet-keys keystone-credential-keys -o name | xargs",
        "secret/keystone-fernet-keys secret/keystone-credential-keys",
    ),
    heals(
        "kubectl -n cloud delete secret keystone-db-credentials",
        "kubectl -n cloud get secret keystone-db-credentials -o name",
        "secret/keystone-db-credentials",
    ),
    heals("kubectl -n cloud delete secret keystone-admin-credentials", CLIENT_FOLLOWS, "follows"),
    heals(
        "kubectl -n cloud delete secret mariadb-root-credentials",
        "kubectl -n cloud get secret mariadb-root-credentials -o name",
        "secret/mariadb-root-credentials",
    ),
    heals(
        "kubectl -n cloud delete secret rabbitmq-default-user",
        "set -- $(kubectl -n cloud get secret rabbitmq-default-user -o jsonpath='{.data.username} {.data.password}')
         kubectl -n cloud exec rabbitmq-server-0 -- rabbitmqctl authenticate_user \
            \"$(echo $1 | base64 -d)\" \"$(echo $2 | base64 -d)\" | grep -o Success",
        "Success",
    ),
    heals(
        "kubectl -n cloud delete secret valkey-valkey",
        "kubectl -n cloud get secret valkey-valkey -o name",
        "secret/valkey-valkey",
    ),
    // Objects that are lost.
    heals("kubectl -n cloud delete service keystone", CLIENT_FOLLOWS, "follows"),
    replaced!("keystone/keystone"),
    replaced!("mariadb/mariadb"),
    // Changes by hand.
    heals(
        "kubectl -n cloud scale deployment keystone-api --replicas=3",
        "kubectl -n cloud get deployment keystone-api -o jsonpath='{.spec.replicas}'",
        "1",
    ),
    heals(
        "kubectl -n cloud scale statefulset mariadb --replicas=3",
        "kubectl -n cloud get statefulset mariadb -o jsonpath='{.spec.replicas}'",
        "1",
    ),
    heals(
        "kubectl -n cloud patch keystone keystone --type=merge -p '{\"spec\": {\"replicas\": 3}}'",
        "kubectl -n cloud get keystone keystone -o jsonpath='{.spec.replicas}'",
        "1",
    ),
    heals(
        "kubectl -n cloud patch configmap mariadb-server --type=merge -p '{\"data\": {\"server.cnf\": \"broken\"}}'",
        "kubectl -n cloud get configmap mariadb-server -o jsonpath='{.data.server\\.cnf}' | grep -c broken",
        "0",
    ),
    heals(
        "kubectl -n cloud set image deployment/keystone-api api=other:1",
        "! kubectl -n cloud get deployment keystone-api -o jsonpath='{.spec.template.spec.containers[*].image}' | grep other \
         && kubectl -n cloud get events | grep DriftCorrected | grep -q 'deployment/keystone-api was ' && echo told",
        "told",
    ),
    heals(
        "kubectl -n cloud patch service keystone --type=json \
            -p '[{\"op\": \"replace\", \"path\": \"/spec/ports/0/port\", \"value\": 5001}]'",
        "kubectl -n cloud get service keystone -o jsonpath='{.spec.ports[*].port}'",
        "5000",
    ),
    heals(
        "kubectl -n cloud patch deployment keystone-api --type=merge -p '{\"metadata\": {\"labels\": null}}'",
        "kubectl -n cloud get deployment keystone-api -o jsonpath='{.metadata.labels.app\\.kubernetes\\.io/managed-by}'",
        "keystone-operator",
    ),
    heals(
        "kubectl -n cloud patch deployment keystone-api --type=merge -p '{\"metadata\": {\"ownerReferences\": null}}'",
        "kubectl -n cloud get deployment keystone-api -o jsonpath='{.metadata.ownerReferences[*].kind}'",
        "Keystone",
    ),
    heals(
        "kubectl -n cloud patch mariadb mariadb --type=merge -p '{\"spec\": {\"replicas\": 3}}'",
        "kubectl -n cloud get mariadb mariadb -o jsonpath='{.spec.replicas}'",
        "1",
    ),
    // A field that no operator sets belongs to the client that set it, as with every server-side apply.
    heals(
        "kubectl -n cloud set env deployment/keystone-api -c api EXTRA=1",
        "kubectl -n cloud get deployment keystone-api -o jsonpath='{.spec.template.spec.containers[0].env[?(@.name==\"EXTRA\")].value}'",
        "1",
    ),
    // The whole process. A start that names no ControlPlane goes on with the oldest that is there.
    fault(
        "pid=$(cat data/lock); kill -9 $pid; while kill -0 $pid 2>/dev/null; do sleep 0.05; done
        $C5C3 up --detach --data $PWD/data >said && grep -x 'goes on with controlplane/lab in cloud' said",
    ),
    // All of it: with `Retain`, which is the default, data and what holds it stay.
    heals(
        "kubectl -n cloud delete controlplane lab --timeout=180s && kubectl apply -f plane.yaml",
        "kubectl -n cloud get controlplane lab -o jsonpath='{.status.conditions[?(@.type==\"Ready\")].status}'",
        "True",
    ),
];

impl Fault {
    /// Lets it happen, and waits until it is over.
    pub fn happen(&self, machine: &Machine) {
        machine.ok(self.command);
        if let Some((look, wanted)) = self.heals {
            machine.eventually(look, wanted);
        }
    }
}

/// A policy that closes the way to the database is named.
pub fn the_network_is_closed(machine: &Machine) {
    machine.write(
        "deny.yaml",
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: deny-db}, \
          spec: {podSelector: {matchLabels: {app.kubernetes.io/name: mariadb}}, policyTypes: [Ingress]}}",
    );
    machine.ok("kubectl -n cloud apply -f deny.yaml");
    until_told(machine, "cloud", &["networkpolicy/deny-db selects", "mariadb/mariadb on port 3306"]);
    machine.ok("kubectl -n cloud delete -f deny.yaml");
}
