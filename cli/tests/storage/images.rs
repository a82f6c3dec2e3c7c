//! Images by the client from PyPI: up, down, on the store that is named.

use crate::cloud::{Cloud, client};
use crate::machine;

/// The size of the image that is uploaded slowly, in MiB, and how long that takes: longer than any request of another service may.
const SLOW: (&str, &str) = ("C5C3_SLOW_UPLOAD", "96 70");

/// Runs `upload.py` with these arguments, and returns the image's id and the digest of what was sent.
pub fn upload(cloud: &Cloud, arguments: &str) -> (String, String) {
    cloud.machine.write("upload.py", include_str!("upload.py"));
    let python = machine::cache().join("c5c3/python/bin/python");
    let line = format!("eval \"$($C5C3 env --data $PWD/data)\" && {} upload.py {arguments}", python.display());
    let said = cloud.machine.ok(&line);
    let (id, digest) = said.trim().split_once(' ').unwrap_or_else(|| panic!("{said}"));
    (id.to_owned(), digest.to_owned())
}

/// The digest of an image as it comes back.
pub fn downloaded(cloud: &Cloud, id: &str) -> String {
    let save = client(&format!("image save {id}"));
    cloud.machine.ok(&format!("{save} | sha256sum | cut -d' ' -f1"))
}

pub fn a_slow_upload_outlives_every_limit(cloud: &Cloud) {
    let slow = std::env::var(SLOW.0).unwrap_or_else(|_| SLOW.1.to_owned());
    let (id, digest) = upload(cloud, &format!("slow {slow}"));
    assert_eq!(downloaded(cloud, &id), digest);
    // The second time it comes from the cache of the pod.
    assert_eq!(downloaded(cloud, &id), digest);
    let cached = "kubectl -n cloud exec deployment/glance-api -c api -- ls /var/lib/glance/cache";
    cloud.machine.eventually(&format!("{cached} | grep -cx {id}"), "1");
    cloud.openstack(&format!("image delete {id}"));
    assert_eq!(cloud.openstack("image list -f value -c Name"), "");
}

/// What properties of images may be called and mean is in the database since the installation.
pub fn metadata_definitions_are_listed(cloud: &Cloud) {
    let listed = cloud.openstack("image metadef namespace list -f value -c namespace");
    assert!(listed.lines().any(|namespace| namespace.starts_with("OS::")), "{listed}");
}

/// uWSGI forgets a signal to end that comes before it serves, and a pod that takes uploads has an hour.
pub fn a_pod_that_is_deleted_while_it_starts_ends(cloud: &Cloud) {
    let it = &cloud.machine;
    let pod = |uid: &str| {
        let started = format!(
            "{{range .items[?(@.metadata.uid!=\"{uid}\")]}}{{.metadata.uid}} {{.status.containerStatuses[0].started}} {{.metadata.name}}{{end}}"
        );
        format!(
            "kubectl -n cloud get pods -l app.kubernetes.io/name=glance,app.kubernetes.io/component=api -o jsonpath='{started}'"
        )
    };
    let first = it.ok(&pod(""));
    let (uid, name) = (first.split(' ').next().unwrap(), first.rsplit(' ').next().unwrap());
    it.ok(&format!("kubectl -n cloud delete pod {name} --wait=false"));
    it.eventually(&format!("{} | cut -d' ' -f2", pod(uid)), "true");
    let second = it.ok(&pod(uid));
    let name = second.rsplit(' ').next().unwrap();
    it.ok(&format!("kubectl -n cloud delete pod {name} --timeout=150s"));
    cloud.settle();
    it.eventually(&client("image list -f value -c Name"), "");
}

pub fn an_image_is_on_two_stores(cloud: &Cloud) {
    let (id, digest) = upload(cloud, "twice 8 0");
    cloud.openstack(&format!("image import --method copy-image {id} --store second"));
    let stores = client(&format!("image show {id} -f json | grep -o '\"stores\": \"[a-z,]*\"'"));
    cloud.machine.eventually(&stores, "\"stores\": \"file,second\"");
    assert_eq!(downloaded(cloud, &id), digest);
    cloud.openstack(&format!("image delete {id}"));
}

pub fn an_image_goes_to_the_store_that_is_named(cloud: &Cloud) {
    let (id, digest) = upload(cloud, "elsewhere 8 0 second");
    let stores = cloud.openstack(&format!("image show {id} -f json"));
    assert!(stores.contains("\"stores\": \"second\""), "{stores}");
    assert_eq!(downloaded(cloud, &id), digest);
    cloud.openstack(&format!("image delete {id}"));
}
