//! The ControlPlane that the design documents show, field for field, with one of everything instead of several, and with smaller
//! disks and caches: TLS for all services, and the storage class and the issuer that they name. Nothing is added but the number
//! and the size of OVN's members, and the Ceph beside it.

#[path = "cloud/mod.rs"]
mod cloud;
#[path = "machine/mod.rs"]
mod machine;

use cloud::{Cloud, client};
use machine::Machine;

/// Ceph, which the documents take for granted.
const CEPH: &str = "
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
      - {metadata: {name: data}, spec: {resources: {requests: {storage: 10Gi}}}}
";

/// Those of images, volumes and servers, by the names that services take when none is named.
const POOLS: [&str; 3] = ["images", "volumes", "vms"];

const CONTROL_PLANE: &str = "
apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata: {name: lab, namespace: cloud}
spec:
  infrastructure:
    mariadb: {replicas: 1, storageSize: 2Gi, storageClass: ceph-rbd}
    rabbitmq: {replicas: 1, storageSize: 1Gi}
    valkey: {replicas: 1, sentinel: {enabled: true}}
    memcached: {replicas: 1, memory: 64Mi}
    ovn: {replicas: 1, storageSize: 1Gi}
  services:
    keystone: {enabled: true, replicas: 1}
    glance: {enabled: true, replicas: 1}
    placement: {enabled: true, replicas: 1}
    nova: {enabled: true, api: {replicas: 1}, scheduler: {replicas: 1}, conductor: {replicas: 1}}
    neutron: {enabled: true, api: {replicas: 1}}
    cinder: {enabled: true, api: {replicas: 1}, scheduler: {replicas: 1}}
  cortex: {enabled: false, replicas: 1}
  tempest: {enabled: false, schedule: '0 2 * * *'}
  korc: {enabled: true, bootstrapResources: [domains, projects]}
  global:
    region: RegionOne
    tls: {enabled: true, issuerRef: {name: letsencrypt-prod, kind: ClusterIssuer}}
    monitoring: {enabled: true}
";

#[test]
fn the_control_plane_of_the_design_documents_gets_ready_and_serves_by_tls() {
    let pools = POOLS.map(|name| format!("---\napiVersion: ceph.rook.io/v1\nkind: CephBlockPool\nmetadata: {{name: {name}, namespace: rook-ceph}}\nspec: {{failureDomain: osd, replicated: {{size: 1}}}}\n"));
    let cloud = Cloud::on(Machine::up_to_ready(&format!("{CEPH}{}---{CONTROL_PLANE}", pools.concat())));
    every_service_is_in_the_catalog_by_tls(&cloud);
    agents_and_workers_are_up(&cloud);
    an_image_becomes_a_volume(&cloud);
}

fn every_service_is_in_the_catalog_by_tls(cloud: &Cloud) {
    let services = cloud.openstack("service list -f value -c Type | sort | xargs");
    assert_eq!(services, "block-storage compute identity image network placement");
    let plain = cloud.openstack("endpoint list -f value -c URL | grep -vc '^https://' || true");
    assert_eq!(plain, "0", "endpoints without TLS");
}

fn agents_and_workers_are_up(cloud: &Cloud) {
    let down = |command: &str| client(&format!("{command} -f value -c State | grep -vci '^up$' || true"));
    cloud.machine.eventually(&down("compute service list"), "0");
    cloud.machine.eventually(&down("volume service list"), "0");
    assert_eq!(cloud.openstack("network create inside -f value -c status"), "ACTIVE");
}

fn an_image_becomes_a_volume(cloud: &Cloud) {
    cloud.machine.ok("head -c 4M /dev/urandom > image.raw");
    cloud.openstack("image create small --disk-format raw --container-format bare --file image.raw");
    cloud.openstack("volume create --image small --size 1 data");
    cloud.machine.eventually(&client("volume show data -f value -c status"), "available");
    cloud.openstack("volume delete data");
    cloud.machine.eventually(&client("volume list -f value -c ID"), "");
}
