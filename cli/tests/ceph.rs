//! Ceph on a whole cluster, by Rook's kinds: users that are kept apart, a monitor and a disk that die and come back, a key
//! that is rotated, and a pool that is not deleted with what is in it.

mod machine;

use machine::Machine;

const POTTERY: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: clay}
---
apiVersion: ceph.rook.io/v1
kind: CephCluster
metadata: {name: pottery, namespace: clay}
spec:
  mon: {count: 3, allowMultiplePerNode: true}
  storage:
    storageClassDeviceSets:
    - name: kiln
      count: 1
      portable: true
      volumeClaimTemplates:
      - metadata: {name: data}
        spec: {resources: {requests: {storage: 5Gi}}}
---
apiVersion: ceph.rook.io/v1
kind: CephBlockPool
metadata: {name: bricks, namespace: clay}
spec: {failureDomain: osd, replicated: {size: 1}}
---
apiVersion: ceph.rook.io/v1
kind: CephBlockPool
metadata: {name: tiles, namespace: clay}
spec: {failureDomain: osd, replicated: {size: 1}}
---
apiVersion: ceph.rook.io/v1
kind: CephClient
metadata: {name: mason, namespace: clay}
spec: {caps: {mon: profile rbd, osd: profile rbd pool=bricks, mgr: profile rbd pool=bricks}}
---
apiVersion: ceph.rook.io/v1
kind: CephClient
metadata: {name: tiler, namespace: clay}
spec: {caps: {mon: profile rbd, osd: "profile rbd pool=tiles, profile rbd-read-only pool=bricks"}}
---
# Something of ours: the status is about that, and about what it stands on.
apiVersion: c5c3.io/v1alpha1
kind: SecretAggregate
metadata: {name: mason, namespace: clay}
spec: {sources: [{secretRef: {name: rook-ceph-client-mason}}], target: {name: mason}}
"#;

/// A command where the first monitor is, as the administrator.
fn ceph(command: &str) -> String {
    format!("kubectl -n clay exec deploy/rook-ceph-mon-a -- {command}")
}

/// A command of `rbd` there, as a user whose key is in a file.
fn rbd(user: &str, command: &str) -> String {
    ceph(&format!("timeout 60 rbd --id {user} --keyring /tmp/{user}.keyring {command}"))
}

/// Puts the key that is in a user's Secret into a file where the first monitor is. It is in no argument.
fn fetch_key(it: &Machine, user: &str) {
    let key = format!("kubectl -n clay get secret rook-ceph-client-{user} -o jsonpath='{{.data.userKey}}' | base64 -d");
    let write = format!("sh -c 'printf \"[client.{user}]\\n\\tkey = %s\\n\" \"$(cat)\" >/tmp/{user}.keyring'");
    it.ok(&format!("{key} | kubectl -n clay exec -i deploy/rook-ceph-mon-a -- {write}"));
}

/// What `kubectl` says of a field.
fn field(object: &str, path: &str) -> String {
    format!("kubectl -n clay get {object} -o jsonpath='{{{path}}}'")
}

/// How Ceph is, and why it is not well.
const HEALTH: &str = "kubectl -n clay get cephcluster pottery -o jsonpath='{.status.ceph.health} {.status.ceph.details}' | sed 's/ *$//'";

/// The monitors in quorum, by name: Ceph lists them by rank, which follows from the addresses that their Services happen to
/// have.
fn quorum() -> String {
    let names = "grep -o 'quorum_names[^]]*' | grep -o '\"[abc]\"' | tr -d '\"' | sort | xargs";
    format!("{} | {names}", ceph("ceph quorum_status -f json"))
}

#[test]
fn a_ceph_cluster_survives_the_death_of_a_monitor_and_of_a_disk() {
    let it = Machine::up_with(1, &["ceph"]);
    it.write("pottery.yaml", POTTERY);
    it.ok("kubectl apply -f pottery.yaml");
    it.ok("kubectl -n clay wait --for=jsonpath='{.status.phase}'=Ready cephcluster/pottery --timeout=170s");
    let all = "cephblockpool/bricks cephblockpool/tiles cephclient/mason cephclient/tiler";
    it.ok(&format!("kubectl -n clay wait --for=jsonpath='{{.status.phase}}'=Ready {all} --timeout=120s"));
    it.eventually(HEALTH, "HEALTH_OK");

    users_are_kept_apart(&it);
    a_monitor_dies(&it);
    a_disk_dies(&it);
    a_key_is_rotated(&it);
    a_pool_is_kept_until_it_is_empty(&it);

    it.ok("kubectl -n clay delete cephclient mason tiler --timeout=60s");
    it.says(&ceph("sh -c 'ceph auth ls 2>/dev/null | grep -c -e client.mason -e client.tiler || true'"), "0");
}

fn users_are_kept_apart(it: &Machine) {
    let caps = ceph("sh -c 'ceph auth get client.tiler 2>/dev/null | grep caps | sort'");
    it.says(
        &format!("{caps} | tr -d '\\t'"),
        "caps mon = \"profile rbd\"\ncaps osd = \"profile rbd pool=tiles, profile rbd-read-only pool=bricks\"",
    );
    fetch_key(it, "mason");
    fetch_key(it, "tiler");
    it.ok(&rbd("mason", "create bricks/wall --size 16M"));
    it.says(&rbd("tiler", "ls bricks"), "wall");
    let refused = |user: &str, command: &str| {
        it.ok(&format!("! {}", rbd(user, command)));
    };
    refused("mason", "create tiles/floor --size 16M");
    refused("tiler", "create bricks/floor --size 16M");
    it.ok(&rbd("tiler", "create tiles/floor --size 16M"));
}

/// The node takes no pods for a while, so that what dies stays dead until it has been missed.
fn a_monitor_dies(it: &Machine) {
    it.ok("kubectl cordon node-1");
    it.ok("kubectl -n clay delete pod -l app=rook-ceph-mon,ceph_daemon_id=c --grace-period=0 --force");
    it.eventually(&quorum(), "a b");
    it.ok(&rbd("mason", "create bricks/tower --size 16M"));
    it.eventually(&format!("{} | grep -o MON_DOWN", field("cephcluster/pottery", ".status.ceph.details")), "MON_DOWN");
    it.eventually("$C5C3 status --data $PWD/data | grep -o MON_DOWN", "MON_DOWN");
    it.ok("kubectl uncordon node-1");
    it.eventually(&quorum(), "a b c");
    it.eventually(HEALTH, "HEALTH_OK");
}

fn a_disk_dies(it: &Machine) {
    it.ok(&ceph("sh -c 'head -c 4000000 /dev/zero | tr \"\\0\" x >/tmp/load'"));
    it.ok(&rbd("mason", "import --no-progress /tmp/load bricks/load"));
    it.ok("kubectl cordon node-1");
    it.ok("kubectl -n clay delete pod -l app=rook-ceph-osd --wait=false");
    it.eventually(&format!("{} | grep -o OSD_DOWN", field("cephcluster/pottery", ".status.ceph.details")), "OSD_DOWN");
    it.ok("kubectl uncordon node-1");
    // What is read now is answered once the disk is back, with what was written before.
    it.eventually(&rbd("mason", "export --no-progress bricks/load - | tr -d x | wc -c"), "0");
    it.says(&rbd("mason", "export --no-progress bricks/load - | wc -c"), "4000000");
    it.ok(&rbd("mason", "create bricks/arch --size 16M"));
    it.eventually(HEALTH, "HEALTH_OK");
}

fn a_key_is_rotated(it: &Machine) {
    let rotate = r#"{"spec":{"security":{"cephx":{"keyRotationPolicy":"KeyGeneration","keyGeneration":2}}}}"#;
    it.ok(&format!("kubectl -n clay patch cephclient mason --type merge -p '{rotate}'"));
    it.eventually(&field("cephclient/mason", ".status.cephx.keyGeneration"), "2");
    it.ok(&format!("! {}", rbd("mason", "ls bricks")));
    fetch_key(it, "mason");
    it.eventually(&rbd("mason", "ls bricks | sort | tr '\\n' ' '"), "arch load tower wall");
    // Caps follow the object as well.
    let narrow = r#"{"spec":{"caps":{"mon":"profile rbd","osd":"profile rbd-read-only pool=bricks","mgr":null}}}"#;
    it.ok(&format!("kubectl -n clay patch cephclient mason --type merge -p '{narrow}'"));
    it.eventually(&ceph("sh -c 'ceph auth get client.mason 2>/dev/null | grep -c read-only'"), "1");
}

fn a_pool_is_kept_until_it_is_empty(it: &Machine) {
    it.ok("kubectl -n clay delete cephblockpool tiles --wait=false");
    it.eventually(&field("cephblockpool/tiles", ".status.conditions[0].type"), "DeletionIsBlocked");
    it.ok(&rbd("tiler", "rm --no-progress tiles/floor"));
    it.ok("kubectl -n clay wait --for=delete cephblockpool/tiles --timeout=60s");
    it.says(&ceph("sh -c 'ceph osd pool ls | grep -c tiles || true'"), "0");
}
