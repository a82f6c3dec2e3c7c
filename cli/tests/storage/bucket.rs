//! Images in a bucket: an object gateway of Ceph, and Glance with one more store.

use serde_json::json;

use crate::ceph::{self, ceph};
use crate::cloud::{Cloud, client};
use crate::images::{downloaded, upload};

/// A gateway that anybody may run beside a cluster of Rook's: it signs in with a key of its own.
const GATEWAY: &str = r"
apiVersion: v1
kind: Service
metadata: {name: gateway, namespace: rook-ceph}
spec: {selector: {app: gateway}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: gateway, namespace: rook-ceph, labels: {app: gateway}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: radosgw
    image: IMAGE
    command: [radosgw, -f, --id, gateway, --keyring, /keys/keyring, --conf, /conf/ceph.conf, --rgw-frontends, beast port=8080]
    readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
    volumeMounts:
    - {name: conf, mountPath: /conf}
    - {name: keys, mountPath: /keys}
    - {name: run, mountPath: /run/ceph}
  volumes:
  - {name: conf, configMap: {name: rook-ceph-files}}
  - {name: keys, secret: {secretName: gateway-keyring}}
  - {name: run, emptyDir: {}}
";

/// Starts the gateway, and makes a user of it for Glance.
fn start(cloud: &Cloud) {
    let it = &cloud.machine;
    let keyring = ceph("ceph auth get-or-create client.gateway mon 'allow rw' osd 'allow rwx'");
    it.ok(&format!(
        "{keyring} 2>/dev/null | kubectl -n rook-ceph create secret generic gateway-keyring --from-file=keyring=/dev/stdin"
    ));
    let mon = "kubectl -n rook-ceph get deploy rook-ceph-mon-a -o";
    let image = it.ok(&format!("{mon} jsonpath='{{.spec.template.spec.containers[0].image}}'"));
    it.write("gateway.yaml", &GATEWAY.replace("IMAGE", &image));
    it.ok("kubectl apply -f gateway.yaml");
    it.ok("kubectl -n rook-ceph wait --for=condition=Ready pod/gateway --timeout=170s");
    let admin = "radosgw-admin --id gateway --keyring /keys/keyring --conf /conf/ceph.conf";
    let user = format!("kubectl -n rook-ceph exec gateway -- {admin} user create --uid glance --display-name Glance");
    it.write("user.sh", &format!("{user} 2>/dev/null >user.json"));
    it.ok("sh user.sh");
    let value = |key: &str| format!("$(grep -o '\"{key}\": \"[^\"]*\"' user.json | cut -d'\"' -f4)");
    it.ok(&format!(
        "kubectl -n cloud create secret generic objects --from-literal=AccessKey={} --from-literal=SecretKey={}",
        value("access_key"),
        value("secret_key")
    ));
}

/// The stores of the cloud besides the pool.
fn set_stores(cloud: &Cloud, storage: &serde_json::Value) {
    let patch = json!({"spec": {"services": {"glance": {"template": {"storage": storage}}}}});
    cloud.machine.ok(&format!("kubectl -n cloud patch controlplane lab --type=merge -p '{patch}'"));
}

pub fn an_image_is_kept_in_a_bucket(cloud: &Cloud) {
    start(cloud);
    let bucket = json!({
        "endpoint": "http://gateway.rook-ceph.svc.cluster.local", "bucket": "images", "secretRef": {"name": "objects"},
    });
    set_stores(cloud, &json!({"stores": [{"name": "objects", "s3": bucket}]}));
    let listed = "kubectl -n cloud get glance glance -o jsonpath='{.spec.storage.stores[*].name}'";
    cloud.machine.eventually(listed, "objects");
    cloud.settle();
    let (id, digest) = upload(cloud, "bucket 24 0 objects");
    assert_eq!(downloaded(cloud, &id), digest);
    let admin = "radosgw-admin --id gateway --keyring /keys/keyring --conf /conf/ceph.conf";
    let inside = format!("kubectl -n rook-ceph exec gateway -- {admin} bucket list --bucket images 2>/dev/null");
    let inside = cloud.machine.ok(&format!("{inside} | grep -c '\"name\": \"{id}' || true"));
    assert_eq!(inside.trim(), "1", "the image is an object of the bucket");
    ceph::a_pool_that_is_gone_is_told_and_pods_serve_on(cloud, &id, &digest);
    // From the bucket to the pool: a copy on write needs it there.
    cloud.openstack(&format!("image import --method copy-image {id} --store rbd"));
    let both = client(&format!("image show {id} -f json | grep -o '\"stores\": \"[a-z,]*\"'"));
    cloud.machine.eventually(&both, "\"stores\": \"objects,rbd\"");
    assert_eq!(downloaded(cloud, &id), digest);
    cloud.openstack(&format!("image delete {id}"));
    set_stores(cloud, &json!(null));
    cloud.machine.eventually(listed, "");
    cloud.settle();
}
