//! MariaDB on a whole cluster: three real servers that form a Galera cluster over TLS, and outlive whatever happens to
//! them with every row that was acknowledged.

mod machine;

use machine::Machine;

const LEDGER: &str = r#"
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: itself}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: notary}
spec: {secretName: notary, isCA: true, commonName: notary, issuerRef: {name: itself}}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: notary}
spec: {ca: {secretName: notary}}
---
apiVersion: k8s.mariadb.com/v1alpha1
kind: MariaDB
metadata: {name: ledger}
spec:
  replicas: 3
  galera: {enabled: true}
  storage: {size: 1Gi}
  tls: {enabled: true, required: true, serverCertIssuerRef: {name: notary}}
---
apiVersion: v1
kind: Secret
metadata: {name: clerk, labels: {k8s.mariadb.com/watch: ""}}
stringData: {password: "it's \\ a %s"}
---
apiVersion: k8s.mariadb.com/v1alpha1
kind: Database
metadata: {name: accounts}
spec: {mariaDbRef: {name: ledger}, name: the_accounts, characterSet: utf8mb3, collate: utf8mb3_general_ci}
---
apiVersion: k8s.mariadb.com/v1alpha1
kind: User
metadata: {name: clerk}
spec: {mariaDbRef: {name: ledger}, passwordSecretKeyRef: {name: clerk, key: password}, maxUserConnections: 20}
---
apiVersion: k8s.mariadb.com/v1alpha1
kind: Grant
metadata: {name: clerk}
spec: {mariaDbRef: {name: ledger}, username: clerk, database: the_accounts, privileges: [ALL PRIVILEGES]}
"#;

/// Someone who writes line after line by way of the primary's Service, and says of each line that was acknowledged.
const CLERK: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: clerk}
spec:
  terminationGracePeriodSeconds: 0
  securityContext: {runAsUser: 42424, runAsGroup: 42424, fsGroup: 42424}
  volumes:
  - {name: password, secret: {secretName: clerk, defaultMode: 0440}}
  - {name: trusted, secret: {secretName: ledger-ca-bundle}}
  containers:
  - name: clerk
    image: ghcr.io/c5c3/mariadb:11.8.6
    volumeMounts: [{name: password, mountPath: /password}, {name: trusted, mountPath: /trusted}]
    command:
    - sh
    - -c
    - |
      n=0
      while :; do
        n=$((n + 1))
        MYSQL_PWD=$(cat /password/password) mariadb --no-defaults --connect-timeout=5 --ssl-ca=/trusted/ca.crt \
          -u clerk -h ledger-primary -e "INSERT INTO entries VALUES ($n)" the_accounts 2>/dev/null && echo "$n"
        sleep 0.1
      done
"#;

/// ask.sh WHO POD SQL: what a server says, asked over TLS and by its name. Passwords are in no argument.
const ASK: &str = r#"
kubectl get secret "$1" -o jsonpath='{.data.password}' | base64 -d | kubectl exec -i "$2" -- sh -c '
    MYSQL_PWD=$(cat) exec timeout 20 mariadb --no-defaults --connect-timeout=5 --ssl-ca=/etc/mariadb/tls/ca.crt \
        -u "${0##*-}" -h "$1" -Nse "$2"' "$1" "$2.${2%-*}-internal.default" "$3"
"#;

/// lost.sh POD: lines that were acknowledged and that a server does not have.
const LOST: &str = r#"
kubectl logs clerk | sort > acknowledged
sh ask.sh clerk "ledger-$1" 'SELECT number FROM the_accounts.entries' | sort > "entries-$1" || { echo "no answer"; exit; }
comm -23 acknowledged "entries-$1"
"#;

struct Ledger(Machine);

impl Ledger {
    fn open() -> Self {
        let it = Machine::up_with(1, &["mariadb"]);
        for (name, text) in [("ledger.yaml", LEDGER), ("clerk.yaml", CLERK), ("ask.sh", ASK), ("lost.sh", LOST)] {
            it.write(name, text);
        }
        it.ok("kubectl apply -f ledger.yaml");
        it.ok("kubectl wait --for=condition=Ready mariadb/ledger --timeout=180s");
        it.ok("kubectl wait --for=condition=Ready --timeout=60s \
               database.k8s.mariadb.com/accounts user.k8s.mariadb.com/clerk grant.k8s.mariadb.com/clerk");
        it.ok("sh ask.sh clerk ledger-1 'CREATE TABLE the_accounts.entries (number INT PRIMARY KEY)'");
        it.ok("kubectl apply -f clerk.yaml && kubectl wait --for=condition=Ready pod/clerk --timeout=60s");
        Self(it)
    }

    /// Waits until lines are acknowledged that were not before.
    fn goes_on(&self) {
        let count = self.0.ok("kubectl logs clerk | wc -l");
        self.0.eventually(&format!("test $(kubectl logs clerk | wc -l) -gt {count} && echo goes on"), "goes on");
    }

    /// Waits until all servers are back, and asserts that each has all that was acknowledged.
    fn has_lost_nothing(&self) {
        let it = &self.0;
        it.eventually("sh ask.sh clerk ledger-0 \"SHOW STATUS LIKE 'wsrep_cluster_size'\" | cut -f 2", "3");
        it.ok("kubectl wait --for=condition=Ready mariadb/ledger --timeout=180s");
        for pod in 0..3 {
            // What was acknowledged a moment ago may be on its way to a server.
            it.eventually(&format!("sh lost.sh {pod}"), "");
        }
    }

    /// Kills servers as a crash would, all at once, and waits until that has been noticed.
    fn kill(&self, pods: &[u8]) {
        let pods: Vec<_> = pods.iter().map(|pod| format!("ledger-{pod}")).collect();
        self.0.crash("default", &pods, "mariadbd");
    }
}

#[test]
fn a_galera_cluster_keeps_what_it_acknowledged_whichever_of_its_servers_die_and_when() {
    let ledger = Ledger::open();
    let it = &ledger.0;
    ledger.goes_on();

    // All that is said is encrypted: by clients, who must, and between members.
    it.says("sh ask.sh clerk ledger-0 'SELECT @@require_secure_transport'", "1");
    it.says(
        "sh ask.sh clerk ledger-0 'SELECT @@wsrep_provider_options' | grep -o 'socket.ssl = [A-Z]*'",
        "socket.ssl = YES",
    );
    it.says("kubectl logs ledger-2 | grep -o -m 1 'Decrypting with cert'", "Decrypting with cert");

    // One dies: the others go on, and it comes back to what it has missed.
    ledger.kill(&[2]);
    ledger.goes_on();
    ledger.has_lost_nothing();

    // All die at once.
    ledger.kill(&[0, 1, 2]);
    ledger.goes_on();
    ledger.has_lost_nothing();

    // They die one after the other, and the first to go, which took the writes until then, must not have the last word.
    it.ok("kubectl cordon node-1");
    let primary = it.ok("kubectl get mariadb ledger -o jsonpath='{.status.currentPrimary}'");
    it.ok(&format!("kubectl delete pod {primary} --grace-period=0 --force"));
    ledger.goes_on();
    it.ok("kubectl delete pod ledger-0 ledger-1 ledger-2 --ignore-not-found --grace-period=0 --force");
    it.ok("kubectl uncordon node-1");
    ledger.goes_on();
    ledger.has_lost_nothing();

    // One differs from the others, who shut it out: it comes back with their data.
    it.ok("sh ask.sh ledger-root ledger-0 'CREATE TABLE the_accounts.seals (number INT PRIMARY KEY)'");
    let seal = "INSERT INTO the_accounts.seals VALUES (1)";
    it.ok(&format!("sh ask.sh ledger-root ledger-2 'SET SESSION wsrep_on = OFF; {seal}'"));
    it.ok(&format!("sh ask.sh ledger-root ledger-0 '{seal}'"));
    it.eventually("kubectl logs ledger-2 | grep -c 'entry: was not in the cluster any more'", "1");
    ledger.has_lost_nothing();

    // Another authority: old and new members could not talk to each other, so that all restart.
    let trust = it.ok(r"kubectl get pod ledger-0 -o jsonpath='{.metadata.annotations.c5c3\.io/trust}'");
    for secret in ["notary", "ledger-server-cert"] {
        let certificate = format!(r"kubectl get secret {secret} -o jsonpath='{{.data.tls\.crt}}'");
        it.ok(&format!("{certificate} > old && kubectl delete secret {secret}"));
        it.eventually(&format!("{certificate} > new 2>/dev/null; test -s new && ! cmp -s old new && echo new"), "new");
    }
    let trusts = r#"{range .items[*]}{.metadata.annotations.c5c3\.io/trust}{"\n"}{end}"#;
    let pods = "kubectl get pods -l app.kubernetes.io/instance=ledger";
    it.eventually(&format!("{pods} -o jsonpath='{trusts}' | grep -vc {trust}"), "3");
    ledger.goes_on();
    ledger.has_lost_nothing();
}

const REGISTER: &str = "
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: itself}
spec: {selfSigned: {}}
---
apiVersion: k8s.mariadb.com/v1alpha1
kind: MariaDB
metadata: {name: register}
spec:
  rootPasswordSecretKeyRef: {name: register-root, key: password, generate: true}
  storage: {size: 1Gi, pvcRetentionPolicy: {whenDeleted: Delete}}
  tls: {enabled: true, required: true, serverCertIssuerRef: {name: itself}}
  metrics: {enabled: true}
---
apiVersion: k8s.mariadb.com/v1alpha1
kind: Database
metadata: {name: births}
spec: {mariaDbRef: {name: register}}
";

#[test]
fn a_server_follows_its_object_and_its_password_and_goes_with_its_volume() {
    let it = Machine::up_with(1, &["mariadb"]);
    it.write("register.yaml", REGISTER);
    it.write("ask.sh", ASK);
    it.ok("kubectl apply -f register.yaml");
    it.ok("kubectl wait --for=condition=Ready mariadb/register database.k8s.mariadb.com/births --timeout=180s");
    let said = |condition: &str| {
        format!("kubectl get mariadb register -o jsonpath='{{.status.conditions[?(@.type==\"{condition}\")].message}}'")
    };
    it.says(&format!("{} | cut -d: -f 1", said("MetricsReady")), "spec.metrics");
    it.says("sh ask.sh register-root register-0 \"SHOW DATABASES LIKE 'births'\"", "births");
    let plain = "kubectl exec register-0 -- mariadb --no-defaults --skip-ssl -u root -h register -e 'SELECT 1' 2>&1";
    it.eventually(&format!("{plain} | grep -o 'insecure transport'"), "insecure transport");

    // Another password of root's: what was in force is not any more.
    it.ok(
        "kubectl get secret register-root -o json | sed 's/register-root/old-root/' | kubectl create -f - > /dev/null",
    );
    it.ok(r#"kubectl patch secret register-root -p '{"stringData": {"password": "it'"'"'s \\ another"}}'"#);
    it.eventually("sh ask.sh register-root register-0 'SELECT 1'", "1");
    it.eventually("sh ask.sh old-root register-0 'SELECT 1' 2>&1 | grep -o 'Access denied'", "Access denied");
    it.ok("kubectl wait --for=condition=Ready mariadb/register --timeout=60s");

    // Volumes grow, and do not shrink.
    let size = |size: &str| {
        let patch = format!(r#"{{"spec": {{"storage": {{"size": "{size}"}}}}}}"#);
        it.ok(&format!("kubectl patch mariadb register --type=merge -p '{patch}'"))
    };
    size("2Gi");
    it.eventually("kubectl get pvc storage-register-0 -o jsonpath='{.spec.resources.requests.storage}'", "2Gi");
    size("512Mi");
    it.eventually(&said("Ready"), "spec.storage.size: a volume of 2Gi cannot shrink to 512Mi");
    size("2Gi");

    it.ok("kubectl delete database.k8s.mariadb.com/births --timeout=60s");
    it.says("sh ask.sh register-root register-0 \"SHOW DATABASES LIKE 'births'\"", "");
    it.ok("kubectl delete mariadb/register --timeout=60s");
    it.eventually("kubectl get pods,pvc -o name", "");
}
