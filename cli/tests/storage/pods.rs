//! Pods of Glance and Cinder that end: the one that an image is being uploaded to, and all of them at once.

use std::collections::BTreeSet;

use serde_json::json;

use crate::ceph::{delete, status};
use crate::cloud::{Cloud, client};
use crate::images::{downloaded, upload};

/// The port of Glance's API as the kernel writes it, and a connection that is open.
const PORT: &str = ":244C";
const OPEN: &str = "01";

/// What has pods: of each at least one is there.
const PARTS: [&str; 5] =
    ["glance-api-", "cinder-api-", "cinder-scheduler-", "cinder-volume-ceph-rbd-", "cinder-backup-"];

/// The pods that serve, by uid, and whether they are ready.
const PODS: &str = r#"kubectl -n cloud get pods -l 'app.kubernetes.io/name in (glance,cinder),!batch.kubernetes.io/job-name' \
    -o jsonpath='{range .items[*]}{.metadata.uid} {.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}'"#;

/// The pod that takes an upload is deleted meanwhile: it goes on until it has all of it, and no longer.
pub fn an_upload_outlives_the_pod_that_takes_it(cloud: &Cloud) {
    let it = &cloud.machine;
    let count = |field: &str| format!("kubectl -n cloud get deployment glance-api -o jsonpath='{{.status.{field}}}'");
    set_replicas(cloud, 2);
    it.eventually(&count("readyReplicas"), "2");
    let (id, digest) = std::thread::scope(|scope| {
        let uploading = scope.spawn(|| upload(cloud, "rolled 20 25"));
        let pod = serving(cloud, || uploading.is_finished());
        it.ok(&format!("kubectl -n cloud delete pod {pod} --wait=false"));
        assert!(!uploading.is_finished(), "the upload ended before its pod was deleted");
        let uploaded = uploading.join().unwrap();
        // Such a pod has an hour for uploads, and waits for nothing when it has none.
        it.ok(&format!("kubectl -n cloud wait --for=delete pod/{pod} --timeout=120s"));
        uploaded
    });
    assert_eq!(downloaded(cloud, &id), digest);
    cloud.openstack(&format!("image delete {id}"));
    set_replicas(cloud, 1);
    it.eventually(&count("replicas"), "1");
}

fn set_replicas(cloud: &Cloud, replicas: u8) {
    let patch = json!({"spec": {"services": {"glance": {"replicas": replicas}}}});
    cloud.machine.ok(&format!("kubectl -n cloud patch controlplane lab --type=merge -p '{patch}'"));
}

/// The pod of Glance that has the same client at two looks. That of a probe is gone at the second.
fn serving(cloud: &Cloud, is_over: impl Fn() -> bool) -> String {
    let pods = cloud.pods("glance");
    let mut before = BTreeSet::new();
    loop {
        let now: BTreeSet<(&String, String)> =
            pods.iter().flat_map(|pod| clients(cloud, pod).into_iter().map(move |client| (pod, client))).collect();
        if let Some((pod, _)) = now.intersection(&before).next() {
            return (*pod).clone();
        }
        assert!(!is_over(), "none of {pods:?} had a client for long");
        before = now;
    }
}

/// Who is connected to the API of a pod.
fn clients(cloud: &Cloud, pod: &str) -> Vec<String> {
    let read = "sh -c 'cat /proc/net/tcp /proc/net/tcp6 2>/dev/null || true'";
    let tables = cloud.machine.ok(&format!("kubectl -n cloud exec {pod} -c api -- {read}"));
    let client = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, remote, state) = (fields.next()?, fields.next()?, fields.next()?);
        (local.ends_with(PORT) && state == OPEN).then(|| remote.to_owned())
    };
    tables.lines().filter_map(client).collect()
}

/// Each pod once, all at the same time, as if their machine had lost its power.
pub fn all_are_killed_and_images_and_volumes_work_again(cloud: &Cloud) {
    let it = &cloud.machine;
    let pods = [cloud.pods("glance"), cloud.pods("cinder")].concat();
    for part in PARTS {
        assert!(pods.iter().any(|pod| pod.starts_with(part)), "no {part} in {pods:?}");
    }
    let before = it.ok(PODS);
    let uids = before.lines().filter_map(|line| line.split(' ').next()).map(|uid| format!("-e {uid}"));
    let new = format!("{PODS} | grep -v {} | grep -c ' True$'", uids.collect::<Vec<_>>().join(" "));
    it.ok(&format!("kubectl -n cloud delete pod {} --grace-period=0 --force --wait=false", pods.join(" ")));
    it.eventually(&new, &pods.len().to_string());
    cloud.settle();

    let (id, digest) = upload(cloud, "after 4 0");
    assert_eq!(downloaded(cloud, &id), digest);
    cloud.openstack(&format!("image delete {id}"));
    cloud.openstack("volume create --size 1 after");
    it.eventually(&status("after"), "available");
    cloud.openstack("volume backup create --name after after");
    it.eventually(&client("volume backup show after -f value -c status"), "available");
    cloud.openstack("volume backup delete after");
    it.eventually(&client("volume backup list -f value"), "");
    delete(cloud, "after");
}
