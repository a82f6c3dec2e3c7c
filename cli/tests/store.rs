//! The store of secrets of a whole cluster: used from the machine, by External Secrets, and after the cluster was killed.

mod interpreter;
mod machine;

use machine::Machine;

const SHARED: &str = "
apiVersion: v1
kind: Secret
metadata: {name: riddle}
stringData: {word: owl}
---
apiVersion: external-secrets.io/v1alpha1
kind: PushSecret
metadata: {name: riddle}
spec:
  secretStoreRefs: [{name: openbao-cluster-store, kind: ClusterSecretStore}]
  selector: {secret: {name: riddle}}
  data: [{match: {remoteRef: {remoteKey: openstack/riddle/app-credential}}}]
---
apiVersion: external-secrets.io/v1
kind: ExternalSecret
metadata: {name: answer}
spec:
  refreshInterval: 1s
  secretStoreRef: {name: openbao-cluster-store, kind: ClusterSecretStore}
  target: {name: answer}
  dataFrom: [{extract: {key: openstack/riddle/app-credential}}]
";

/// Reads a secret with the client of OpenBao.
const READ: &str = r#"
import hvac, os
store = hvac.Client(token=open(os.environ["TOKEN"]).read())
answer = store.secrets.kv.v2.read_secret_version(path="openstack/riddle/app-credential", mount_point="kv-v2", raise_on_deleted_version=True)
print(answer["data"]["data"]["word"], store.sys.is_sealed())
"#;

#[test]
fn secrets_go_to_the_store_and_come_back_and_are_there_after_a_crash() {
    let it = Machine::up(1);
    it.write("shared.yaml", SHARED);
    it.write("read.py", READ);
    let python = interpreter::interpreter().display().to_string();
    let client = concat!(env!("CARGO_MANIFEST_DIR"), "/../embedded/providers/tests/providers/hvac_client.py");
    let with_store = r#"eval "$($C5C3 env --data $PWD/data)"; export TOKEN=$PWD/data/store/root-token;"#;

    it.eventually(
        "kubectl get clustersecretstore openbao-cluster-store -o jsonpath='{.status.conditions[0].reason}'",
        "Valid",
    );
    it.says(&format!("{with_store} VAULT_TOKEN=$(cat $TOKEN) {python} {client} $VAULT_ADDR"), "ok");
    let read = format!("{with_store} {python} read.py");
    let pulled = "kubectl get secret answer -o jsonpath='{.data.word}' | base64 -d";

    it.ok("kubectl apply -f shared.yaml");
    it.eventually(pulled, "owl");
    it.says(&read, "owl False");
    it.ok(r#"kubectl patch secret riddle -p '{"stringData": {"word": "wren"}}'"#);
    it.eventually(pulled, "wren");

    // What was acknowledged is on the disk, for the owner alone, and in no file or log that others may read.
    it.says("stat -c '%a' data/store data/store/* | sort -u | paste -sd ' '", "600 700");
    it.says("grep -l -r -F -e wren -e \"$(cat data/store/root-token)\" data/store/store.sealed data/c5c3.log || echo nowhere", "nowhere");
    it.kill();
    it.again();
    it.eventually(&read, "wren False");
    it.ok("kubectl delete secret answer");
    it.eventually(pulled, "wren");
}
