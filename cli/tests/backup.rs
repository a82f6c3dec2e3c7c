//! Backups: of databases, while their server runs, and of a whole cluster, while it is stopped.

mod machine;

use machine::Machine;

/// A server with what Keystone has in one.
const LEDGER: &str = r#"
apiVersion: k8s.mariadb.com/v1alpha1
kind: MariaDB
metadata: {name: ledger}
spec: {storage: {size: 1Gi}}
---
apiVersion: v1
kind: Secret
metadata: {name: keystone, labels: {k8s.mariadb.com/watch: ""}}
stringData: {password: "it's \\ a %s"}
---
apiVersion: k8s.mariadb.com/v1alpha1
kind: Database
metadata: {name: keystone}
spec: {mariaDbRef: {name: ledger}, characterSet: utf8mb3, collate: utf8mb3_general_ci}
---
apiVersion: k8s.mariadb.com/v1alpha1
kind: User
metadata: {name: keystone}
spec: {mariaDbRef: {name: ledger}, passwordSecretKeyRef: {name: keystone, key: password}, maxUserConnections: 20}
---
apiVersion: k8s.mariadb.com/v1alpha1
kind: Grant
metadata: {name: keystone}
spec: {mariaDbRef: {name: ledger}, username: keystone, database: keystone, privileges: [ALL PRIVILEGES]}
"#;

const ROWS: &str = "
CREATE TABLE user (id VARCHAR(64) PRIMARY KEY, extra BLOB, created_at DATETIME);
INSERT INTO user VALUES ('ada', 0x00FF27, '2026-01-01 00:00:00'), ('grüße', NULL, NULL);
CREATE TABLE project (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(64) UNIQUE, owner VARCHAR(64) REFERENCES user (id));
INSERT INTO project (name, owner) VALUES ('admin', 'ada'), ('service', 'ada');
CREATE VIEW owners AS SELECT DISTINCT owner FROM project;
";

const BACKUPS: &str = r#"
apiVersion: k8s.mariadb.com/v1alpha1
kind: Backup
metadata: {name: once}
spec:
  mariaDbRef: {name: ledger}
  compression: gzip
  storage: {persistentVolumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
---
apiVersion: k8s.mariadb.com/v1alpha1
kind: Backup
metadata: {name: nightly}
spec:
  mariaDbRef: {name: ledger}
  databases: [keystone]
  schedule: {cron: "* * * * *"}
  maxRetention: 48h
  storage: {persistentVolumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
"#;

/// Loads the backup into a new server in the place of the one that it is of, and into a Galera cluster that talks by TLS alone.
const BACK: &str = r"
apiVersion: k8s.mariadb.com/v1alpha1
kind: Restore
metadata: {name: back}
spec: {mariaDbRef: {name: ledger}, backupRef: {name: once}}
";

const CHOIR: &str = r"
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
metadata: {name: choir}
spec:
  replicas: 3
  galera: {enabled: true}
  storage: {size: 1Gi}
  tls: {enabled: true, required: true, serverCertIssuerRef: {name: notary}}
---
apiVersion: k8s.mariadb.com/v1alpha1
kind: Restore
metadata: {name: choir}
spec: {mariaDbRef: {name: choir}, backupRef: {name: once}}
---
apiVersion: k8s.mariadb.com/v1alpha1
kind: Backup
metadata: {name: chorus}
spec:
  mariaDbRef: {name: choir}
  storage: {persistentVolumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
";

/// ask.sh POD: carries out what it reads, as root, by the socket of a server. The password is in no argument.
const ASK: &str = r#"
kubectl exec -i "$1" -- sh -c 'MYSQL_PWD=$(cat /etc/mariadb/root/password) exec mariadb --no-defaults \
    --default-character-set=utf8mb4 --socket=/run/mysqld/mysqld.sock -uroot -Ns'
"#;

/// What a server has.
fn rows(it: &Machine, pod: &str) -> String {
    it.write(
        "look.sql",
        "SELECT id, HEX(extra), created_at FROM keystone.user ORDER BY id;
        SELECT * FROM keystone.project ORDER BY id; SELECT * FROM keystone.owners;",
    );
    it.ok(&format!("sh ask.sh {pod} < look.sql"))
}

#[test]
fn databases_that_were_lost_come_back_from_a_backup_with_their_accounts() {
    let it = Machine::up_with(1, &["mariadb"]);
    for (name, text) in [
        ("ledger.yaml", LEDGER),
        ("rows.sql", ROWS),
        ("backups.yaml", BACKUPS),
        ("back.yaml", BACK),
        ("choir.yaml", CHOIR),
        ("ask.sh", ASK),
    ] {
        it.write(name, text);
    }
    let objects = "database.k8s.mariadb.com/keystone user.k8s.mariadb.com/keystone grant.k8s.mariadb.com/keystone";
    it.ok("kubectl apply -f ledger.yaml");
    it.ok(&format!("kubectl wait --for=condition=Ready --timeout=180s mariadb/ledger {objects}"));
    it.ok("{ echo 'USE keystone;'; cat rows.sql; } | sh ask.sh ledger-0");
    let had = rows(&it, "ledger-0");
    assert!(had.contains("grüße") && had.contains("00FF27") && had.contains("service"), "{had}");

    it.ok("kubectl apply -f backups.yaml");
    let reason = |kind: &str, name: &str| {
        format!("kubectl get {kind}.k8s.mariadb.com {name} -o jsonpath='{{.status.conditions[0].reason}}'")
    };
    it.eventually(&reason("backup", "once"), "JobComplete");
    it.ok("kubectl logs job/once | grep -q 'backup: wrote backup.*.gzip.sql'");
    // The password is where it was mounted, and nowhere else.
    it.says(
        "secret=$(kubectl get secret ledger-root -o jsonpath='{.data.password}' | base64 -d);
         { kubectl get job,cronjob,pod -o yaml; kubectl logs job/once; } | grep -c -F -e \"$secret\" || true",
        "0",
    );

    // All is lost but the Secrets and the claim of the backup.
    it.ok(&format!("kubectl delete {objects} mariadb/ledger --timeout=60s"));
    it.ok("kubectl wait --for=delete pod/ledger-0 --timeout=60s && kubectl delete pvc storage-ledger-0 --timeout=60s");
    it.ok("kubectl apply -f ledger.yaml");
    it.ok("kubectl wait --for=condition=Ready --timeout=180s mariadb/ledger database.k8s.mariadb.com/keystone");
    it.says("echo 'SHOW TABLES FROM keystone' | sh ask.sh ledger-0", "");
    it.ok("kubectl apply -f back.yaml");
    it.eventually(&reason("restore", "back"), "JobComplete");
    assert_eq!(rows(&it, "ledger-0"), had);

    it.ok("kubectl apply -f choir.yaml");
    it.eventually(&reason("restore", "choir"), "JobComplete");
    it.eventually("kubectl get mariadb choir -o jsonpath='{.status.conditions[?(@.type==\"Ready\")].status}'", "True");
    for member in ["choir-0", "choir-1", "choir-2"] {
        it.eventually(&format!("echo 'SELECT COUNT(*) FROM keystone.project' | sh ask.sh {member}"), "2");
        assert_eq!(rows(&it, member), had, "{member}");
        // The account reached every member, with its password: the hash is that of the first server.
        it.says(
            "for pod in ledger-0 MEMBER; do echo \"SELECT authentication_string FROM mysql.user WHERE User = 'keystone'\" | \
             sh ask.sh $pod; done | sort -u | grep -c '^\\*'"
                .replace("MEMBER", member)
                .as_str(),
            "1",
        );
    }
    // This may have run before the rows were there, and by TLS in any case.
    it.eventually(&reason("backup", "chorus"), "JobComplete");
    // By now a minute has begun since the schedule was there.
    it.eventually(&reason("backup", "nightly"), "CronJobSuccess");
}

/// A server of files with a volume that has one sparse file, and one that it keeps to itself.
const WEB: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: remembered}
data: {word: owl}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  strategy: {type: Recreate}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
      containers:
      - name: web
        image: c5c3.local/busybox:1
        command: [sh, -c, "exec httpd -f -p 8080 -h /data"]
        volumeMounts: [{name: data, mountPath: /data}]
"#;

#[test]
fn a_cluster_that_was_removed_comes_back_from_its_backup() {
    let mut it = Machine::up(1);
    it.write("web.yaml", WEB);
    it.ok("kubectl apply -f web.yaml && kubectl rollout status deployment/web --timeout=120s");
    it.ok("kubectl exec deploy/web -- sh -c 'echo here > /data/index.html; truncate -s 256M /data/disk; chmod 640 /data/disk; sync'");
    it.ok("kubectl create secret generic riddle --from-literal=word=wren");

    let refused = it.ok("! $C5C3 backup --data $PWD/data --output backup.tar.gz");
    assert!(refused.contains("is in use by another c5c3") && refused.contains("c5c3 down"), "{refused}");
    it.down(false);
    let said = it.ok("$C5C3 backup --data $PWD/data --output backup.tar.gz");
    assert!(said.contains("images/busybox.tar") && said.contains("nodes/node-1/containerd"), "{said}");
    it.says("stat -c '%a' backup.tar.gz", "600");
    it.says("test $(stat -c %s backup.tar.gz) -lt 50000000 && echo small", "small");
    let refused = it.ok("! $C5C3 backup --data $PWD/data --output backup.tar.gz");
    assert!(refused.contains("already exists"), "{refused}");

    let refused = it.ok("! $C5C3 restore --data $PWD/data backup.tar.gz");
    assert!(refused.contains("already holds a cluster"), "{refused}");
    it.ok("cp data/images/busybox.tar . && cp backup.tar.gz broken.tar.gz && printf x | dd of=broken.tar.gz bs=1 seek=5000 conv=notrunc 2>&1");
    it.down(true);
    let refused = it.ok("! $C5C3 restore --data $PWD/data broken.tar.gz");
    assert!(refused.contains("its checksum is not that of its content"), "{refused}");
    it.ok("$C5C3 restore --data $PWD/data backup.tar.gz");
    // Images are not in it.
    it.ok("mkdir -p data/images && cp busybox.tar data/images/");
    it.again();
    it.says("kubectl get configmap remembered -o jsonpath='{.data.word}'", "owl");
    it.says("kubectl get secret riddle -o jsonpath='{.data.word}' | base64 -d", "wren");
    it.eventually("kubectl exec deploy/web -- cat /data/index.html", "here");
    it.says("kubectl exec deploy/web -- stat -c '%s %a' /data/disk", "268435456 640");
    it.says("test $(du -k data/volumes/*/disk | cut -f1) -lt 1024 && echo sparse", "sparse");
}
