//! Images and volumes in a Ceph that is added to a cloud that runs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cloud::{Cloud, client};
use crate::images::{downloaded, upload};

const CLUSTER: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: rook-ceph}
---
apiVersion: ceph.rook.io/v1
kind: CephCluster
metadata: {name: rook-ceph, namespace: rook-ceph}
spec:
  mon: {count: 1}
  storage:
    storageClassDeviceSets:
    - name: disks
      count: 1
      portable: true
      volumeClaimTemplates:
      - metadata: {name: data}
        spec: {resources: {requests: {storage: 10Gi}}}
---
apiVersion: ceph.rook.io/v1
kind: CephBlockPool
metadata: {name: images, namespace: rook-ceph}
spec: {failureDomain: osd, replicated: {size: 1}}
---
apiVersion: ceph.rook.io/v1
kind: CephBlockPool
metadata: {name: volumes, namespace: rook-ceph}
spec: {failureDomain: osd, replicated: {size: 1}}
---
apiVersion: ceph.rook.io/v1
kind: CephBlockPool
metadata: {name: backups, namespace: rook-ceph}
spec: {failureDomain: osd, replicated: {size: 1}}
";

/// Glance's and Cinder's part of the ControlPlane, from files to Ceph.
const IN_CEPH: &str = r#"{"spec": {"services": {
    "glance": {"backend": {"type": "rbd"}, "template": {"storage": null}},
    "cinder": {"backends": [{"name": "ceph-rbd", "type": "rbd"}], "template": {"backends": null,
        "backup": {"pool": "backups", "cephSecretRef": {"name": "cinder-ceph-credentials"}}}}}}}"#;

/// How long it may take until it is told that a pool is gone.
const TOLD_WITHIN: Duration = Duration::from_mins(1);

/// The status of a volume.
pub fn status(name: &str) -> String {
    client(&format!("volume show {name} -f value -c status"))
}

fn condition(object: &str, name: &str, field: &str) -> String {
    format!("kubectl -n cloud get {object} -o jsonpath='{{.status.conditions[?(@.type==\"{name}\")].{field}}}'")
}

/// A command where the monitor is, as the administrator of Ceph.
pub fn ceph(command: &str) -> String {
    format!("kubectl -n rook-ceph exec deploy/rook-ceph-mon-a -- {command}")
}

/// The users of Ceph and their rights, by name.
pub fn users(cloud: &Cloud) -> BTreeMap<String, Value> {
    let text = cloud.machine.ok(&ceph("sh -c 'ceph auth ls -f json 2>/dev/null'"));
    // A slow connection makes `kubectl` say something before it.
    let json = &text[text.find('{').unwrap_or_else(|| panic!("{text}"))..];
    let all = serde_json::Deserializer::from_str(json).into_iter::<Value>().next().unwrap().unwrap();
    let users = all["auth_dump"].as_array().unwrap().iter();
    users.map(|user| (user["entity"].as_str().unwrap().to_owned(), user.clone())).collect()
}

pub fn is_added_to_a_cloud_that_runs(cloud: &Cloud) {
    let it = &cloud.machine;
    it.ok("$C5C3 image import --data $PWD/data ceph");
    it.write("ceph.yaml", CLUSTER);
    it.ok("kubectl apply -f ceph.yaml");
    let ready = "--for=jsonpath='{.status.phase}'=Ready cephcluster/rook-ceph cephblockpool/images cephblockpool/volumes cephblockpool/backups";
    it.ok(&format!("kubectl -n rook-ceph wait {ready} --timeout=170s"));
    it.ok(&format!("kubectl -n cloud patch controlplane lab --type=merge -p '{IN_CEPH}'"));
    let store = "kubectl -n cloud get glance glance -o jsonpath='{.spec.storage.backend}'";
    it.eventually(store, "rbd");
    it.eventually(&client("volume type list --default -f value -c Name"), "ceph-rbd");
    cloud.settle();
    for object in ["glance/glance", "cinder/cinder"] {
        it.eventually(&condition(object, "CephConnected", "reason"), "PoolAccessible");
        it.eventually(&condition(object, "Ready", "status"), "True");
    }
}

/// Copy on write: the volume's parent is the image.
pub fn a_volume_of_an_image_shares_its_data(cloud: &Cloud) {
    let (id, digest) = upload(cloud, "root 64 0");
    assert_eq!(downloaded(cloud, &id), digest);
    let snapshots = cloud.machine.ok(&ceph(&format!("rbd snap ls images/{id}")));
    assert!(snapshots.contains("snap"), "{snapshots}");
    let volume = cloud.openstack(&format!("volume create --image {id} --size 1 root -f value -c id"));
    let volume = volume.trim();
    cloud.machine.eventually(&client("volume show root -f value -c status"), "available");
    let info = cloud.machine.ok(&ceph(&format!("rbd info volumes/volume-{volume}")));
    assert!(info.contains(&format!("parent: images/{id}@snap")), "{info}");
}

/// The free space of the backend as the status has it, in GiB.
const FREE: &str = "kubectl -n cloud get cinder cinder -o jsonpath='{.status.backends[0].availableCapacityGb}'";

/// Volumes are made, grown, copied and deleted while the storage fills by two GiB and empties again: the status says both.
pub fn volumes_grow_are_copied_and_go(cloud: &Cloud) {
    let is = |test: &str| cloud.machine.eventually(&format!("[ \"$({FREE})\" {test} ] && echo yes"), "yes");
    is("-gt 2");
    let before: u32 = cloud.machine.ok(FREE).parse().unwrap();
    cloud.machine.ok(&ceph("rbd create volumes/filling --size 2G"));
    cloud
        .machine
        .ok(&ceph("rbd bench --io-type write --io-size 4M --io-total 2G --io-pattern seq volumes/filling > /dev/null"));
    volumes_of_volumes(cloud);
    is(&format!("-le {}", before.saturating_sub(2)));
    cloud.machine.ok(&ceph("rbd rm --no-progress volumes/filling"));
    is(&format!("-ge {}", before.saturating_sub(1)));
}

fn volumes_of_volumes(cloud: &Cloud) {
    cloud.openstack("volume create --size 1 first");
    cloud.machine.eventually(&status("first"), "available");
    cloud.openstack("volume set --size 2 first");
    cloud.machine.eventually(&client("volume show first -f value -c size -c status | xargs"), "2 available");
    cloud.openstack("volume snapshot create --volume first moment");
    cloud.machine.eventually(&client("volume snapshot show moment -f value -c status"), "available");
    cloud.openstack("volume create --snapshot moment --size 2 second");
    cloud.machine.eventually(&status("second"), "available");
    cloud.openstack("volume create --source second --size 2 third");
    cloud.machine.eventually(&status("third"), "available");
    // The source goes first: it stays in the pool under another name until its copy is gone.
    for name in ["second", "third"] {
        delete(cloud, name);
    }
    cloud.machine.eventually(&ceph("rbd ls volumes | grep deleted || true"), "");
    cloud.openstack("volume snapshot delete moment");
    cloud.machine.eventually(&client("volume snapshot list -f value"), "");
    delete(cloud, "first");
}

pub fn delete(cloud: &Cloud, volume: &str) {
    cloud.openstack(&format!("volume delete {volume}"));
    cloud.machine.eventually(&client(&format!("volume list --name {volume} -f value")), "");
}

/// What was in a volume is in the one that its backup is restored to.
pub fn a_volume_comes_back_from_its_backup(cloud: &Cloud) {
    let it = &cloud.machine;
    let content = |name: &str| {
        let id = cloud.openstack(&format!("volume show {name} -f value -c id"));
        let export = format!("rbd export --no-progress volumes/volume-{} -", id.trim());
        it.ok(&ceph(&format!("sh -c '{export} | sha256sum'")))
    };
    let before = content("root");
    cloud.openstack("volume backup create --name safe root");
    let backup = client("volume backup show safe -f value -c status");
    it.eventually(&backup, "available");
    delete(cloud, "root");
    cloud.openstack("volume backup restore safe again");
    it.eventually(&status("again"), "available");
    it.eventually(&backup, "available");
    assert_eq!(content("again"), before);
    delete(cloud, "again");
    cloud.openstack("volume backup delete safe");
    it.eventually(&client("volume backup list -f value"), "");
    it.eventually(&ceph("rbd ls backups"), "");
    cloud.openstack("image delete root");
    it.eventually(&ceph("rbd ls images"), "");
}

/// Volumes are copied and created when the pod that does it is killed: none stays in between.
pub fn volumes_outlive_the_pod_that_makes_them(cloud: &Cloud) {
    let it = &cloud.machine;
    cloud.openstack("volume create --size 3 large");
    it.eventually(&status("large"), "available");
    cloud.openstack("image create --volume large copied");
    it.eventually(&status("large"), "uploading");
    cloud.openstack("volume create --size 1 meanwhile");
    it.ok("kubectl -n cloud delete pod cinder-volume-ceph-rbd-0 --grace-period=0 --force 2>&1");
    for volume in ["large", "meanwhile"] {
        it.eventually(&format!("{} | grep -cx -e available -e error", status(volume)), "1");
        eprintln!("{volume} ended {}", it.ok(&status(volume)).trim());
        delete(cloud, volume);
    }
    cloud.openstack("image delete copied");
}

/// Volumes are made all the time while another backend comes and goes.
pub fn a_backend_comes_and_goes_while_volumes_are_made(cloud: &Cloud) {
    let it = &cloud.machine;
    let backends = |list: &str| {
        let patch = format!(r#"{{"spec": {{"services": {{"cinder": {{"backends": [{list}]}}}}}}}}"#);
        it.ok(&format!("kubectl -n cloud patch controlplane lab --type=merge -p '{patch}'"));
    };
    let make = |name: &str| {
        cloud.openstack(&format!("volume create --type ceph-rbd --size 1 {name}"));
    };
    let first = r#"{"name": "ceph-rbd", "type": "rbd"}"#;
    make("v1");
    backends(&format!(r#"{first}, {{"name": "other", "type": "rbd", "pool": "volumes"}}"#));
    ["v2", "v3", "v4"].into_iter().for_each(make);
    it.eventually(&client("volume type show other -f value -c name 2>/dev/null"), "other");
    it.eventually(&condition("cinder/cinder", "Ready", "status"), "True");
    let connected = "kubectl -n cloud get cinder cinder -o jsonpath='{.status.backends[*].conditions[*].reason}'";
    it.eventually(connected, "PoolAccessible PoolAccessible");
    cloud.openstack("volume create --type other --size 1 v5");
    it.eventually(&status("v5"), "available");
    delete(cloud, "v5");
    backends(first);
    ["v6", "v7", "v8"].into_iter().for_each(make);
    let other = "kubectl -n cloud get statefulset cinder-volume-other --ignore-not-found -o name";
    it.eventually(other, "");
    for volume in ["v1", "v2", "v3", "v4", "v6", "v7", "v8"] {
        it.eventually(&status(volume), "available");
        delete(cloud, volume);
    }
}

/// The only disk goes, is said to be gone, and comes back with what was on it.
pub fn a_disk_that_is_gone_is_told(cloud: &Cloud) {
    let it = &cloud.machine;
    let (id, digest) = upload(cloud, "kept 8 0");
    it.ok("kubectl cordon node-1");
    it.ok("kubectl -n rook-ceph delete pod -l app=rook-ceph-osd --wait=false");
    it.eventually("$C5C3 status --data $PWD/data | grep -o OSD_DOWN", "OSD_DOWN");
    it.ok("kubectl uncordon node-1");
    assert_eq!(downloaded(cloud, &id), digest);
    it.eventually("$C5C3 status --data $PWD/data | grep HEALTH_ || true", "");
    cloud.openstack("image delete kept");
}

/// Each user of Ceph may do what its service needs, and nothing in the other's pool.
pub fn each_service_is_kept_to_its_pools(cloud: &Cloud) {
    let caps = cloud.machine.ok(&ceph("ceph auth ls"));
    assert!(caps.contains("profile rbd pool=images") && caps.contains("profile rbd pool=volumes"), "{caps}");
    let try_it = "import sys, rados; cluster = rados.Rados(conffile=sys.argv[1], rados_id=sys.argv[2]); cluster.connect(); \
        cluster.open_ioctx(sys.argv[3]).write_full(\"probe\", b\"x\")";
    for (service, conf, own, other) in
        [("glance", "ceph-rbd.conf", "images", "volumes"), ("cinder", "ceph-ceph-rbd.conf", "volumes", "images")]
    {
        let pod = cloud.pods(service).into_iter().find(|pod| pod.contains("-api-")).unwrap();
        let write = |pool: &str| {
            format!(
                "kubectl -n cloud exec {pod} -c api -- /opt/{service}/bin/python -c '{try_it}' /etc/{service}/{conf} {service} {pool} 2>&1"
            )
        };
        cloud.machine.ok(&write(own));
        let refused = cloud.machine.ok(&format!("{} || true", write(other)));
        assert!(refused.contains("Permission") || refused.contains("not permitted"), "{refused}");
        cloud.machine.ok(&ceph(&format!("rados -p {own} rm probe")));
    }
}

/// Which pools a user of Ceph may write to, with the key that Rook has made for it.
fn writes_to(cloud: &Cloud, user: &str, pools: &[&str]) -> Vec<String> {
    let it = &cloud.machine;
    let secret = format!("kubectl -n rook-ceph get secret rook-ceph-client-{user} -o jsonpath='{{.data.userKey}}'");
    let keyring = format!("sh -c 'printf \"[client.{user}]\\n\\tkey = %s\\n\" \"$(cat)\" >/tmp/{user}.keyring'");
    it.ok(&format!("{secret} | base64 -d | kubectl -n rook-ceph exec -i deploy/rook-ceph-mon-a -- {keyring}"));
    let may_write = |pool: &&&str| {
        let rados = format!("timeout 60 rados --id {user} --keyring /tmp/{user}.keyring -p {pool}");
        let write = format!("{rados} put probe /etc/hostname && {rados} rm probe && echo written");
        let said = it.ok(&ceph(&format!("sh -c '({write}) 2>/tmp/said || cat /tmp/said'")));
        assert!(said.trim() == "written" || said.contains("not permitted"), "{user} in {pool}: {said}");
        said.trim() == "written"
    };
    pools.iter().filter(may_write).map(ToString::to_string).collect()
}

/// Nova's user comes before any of its pods, with the pools that servers have their disks in.
pub fn a_third_user_comes_with_nova_and_each_is_refused_in_the_others_pools(cloud: &Cloud) {
    let with = r#"{"spec": {"services": {"placement": {"replicas": 1}, "nova": {"api": {"replicas": 1}}}}}"#;
    cloud.machine.ok(&format!("kubectl -n cloud patch controlplane lab --type=merge -p '{with}'"));
    let caps =
        ceph("sh -c 'ceph auth get client.nova 2>/dev/null | grep -c -e caps.mgr -e caps.mon -e caps.osd || true'");
    cloud.machine.eventually(&caps, "3");
    let rights = |osd: &str, mgr: &str| json!({"mon": "profile rbd", "osd": osd, "mgr": mgr});
    let own = "profile rbd pool=volumes, profile rbd pool=backups, profile rbd pool=vms";
    let read = "profile rbd-read-only pool=images";
    let servers = "profile rbd pool=vms, profile rbd pool=volumes";
    let exactly = [
        ("glance", rights("profile rbd pool=images", "profile rbd pool=images"), vec!["images"]),
        ("cinder", rights(&format!("{own}, {read}"), own), vec!["volumes", "backups"]),
        ("nova", rights(&format!("{servers}, {read}"), "profile rbd pool=vms"), vec!["volumes"]),
    ];
    let listed = users(cloud);
    for (user, caps, pools) in exactly {
        assert_eq!(listed[&format!("client.{user}")]["caps"], caps, "{user}");
        assert_eq!(writes_to(cloud, user, &["images", "volumes", "backups"]), pools, "{user}");
    }
}

/// The pool of images is renamed and gets its name back. Meanwhile an image of another store is read.
pub fn a_pool_that_is_gone_is_told_and_pods_serve_on(cloud: &Cloud, elsewhere: &str, digest: &str) {
    let it = &cloud.machine;
    let reason = condition("glance/glance", "CephConnected", "reason");
    it.eventually(&reason, "PoolAccessible");
    it.ok(&ceph("ceph osd pool rename images pictures"));
    let begun = Instant::now();
    it.eventually(&reason, "PoolNotFound");
    let took = begun.elapsed();
    eprintln!("a pool that is gone was told after {took:.0?}");
    assert!(took < TOLD_WITHIN, "{took:?}");
    let message = it.ok(&condition("glance/glance", "CephConnected", "message"));
    assert!(message.contains("the store rbd: PoolNotFound: pool images as client.glance"), "{message}");
    assert!(cloud.openstack("image list -f value -c ID").contains(elsewhere));
    assert_eq!(downloaded(cloud, elsewhere), digest);
    it.ok(&ceph("ceph osd pool rename pictures images"));
    it.eventually(&reason, "PoolAccessible");
}

/// A cloud that is deleted leaves its pools, and images in them: with `Retain`, which is the default, no data goes.
pub fn pools_and_images_outlive_a_cloud_that_is_deleted(cloud: &Cloud) {
    let it = &cloud.machine;
    let (id, digest) = upload(cloud, "left 4 0");
    it.ok("kubectl -n cloud delete controlplane lab --timeout=200s");
    it.eventually("kubectl -n rook-ceph get cephclients -o name", "");
    let export = format!("rbd export --no-progress images/{id} -");
    let kept = it.ok(&ceph(&format!("sh -c '{export} | sha256sum'")));
    assert!(kept.contains(&digest), "{kept}");
    let pools = "kubectl -n rook-ceph get cephblockpools -o jsonpath='{.items[*].status.phase}'";
    it.says(pools, "Ready Ready Ready");
}
