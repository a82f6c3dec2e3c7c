//! Ceph: users of their own for services, and the Secrets with their keys.

use serde_json::{Value, json};

use crate::paper::{lab, plan, waits};

fn services() -> Value {
    json!({"keystone": {}, "glance": {}, "placement": {}, "nova": {}, "cinder": {}})
}

/// What Rook has there: the cluster, the monitors, and the keys of these users.
fn rook(cluster: &str, users: &[&str]) -> Vec<Value> {
    let meta = |name: &str| json!({"name": name, "namespace": "rook-ceph", "generation": 1});
    let mut there = vec![
        json!({"apiVersion": "ceph.rook.io/v1", "kind": "CephCluster", "metadata": meta(cluster), "spec": {},
               "status": {"phase": "Ready", "observedGeneration": 1, "ceph": {"health": "HEALTH_OK", "fsid": "0b5c"}}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("rook-ceph-mon-endpoints"),
               "data": {"data": "a=192.0.2.1:6789,b=192.0.2.2:6789"}}),
        json!({"apiVersion": "ceph.rook.io/v1", "kind": "CephBlockPool", "metadata": meta("images"),
               "spec": {"replicated": {"size": 1}}, "status": {"phase": "Ready"}}),
    ];
    there.extend(users.iter().map(|user| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta(&format!("rook-ceph-client-{user}")),
               "data": {"userID": "eA==", "userKey": "a2V5"}})
    }));
    there
}

fn child(spec: &Value, there: &[Value], kind: &str, name: &str) -> Option<Value> {
    let plan = plan(&lab(spec), there).unwrap();
    let found = plan
        .children()
        .find(|child| child.resource.kind == kind && child.object.metadata.name.as_deref() == Some(name));
    found.map(|child| serde_json::to_value(&child.object).unwrap())
}

#[test]
fn each_service_has_a_user_that_may_write_to_its_own_pools_only() {
    let spec = json!({"services": services(), "storage": {"storageClusters": ["kiln"],
        "ceph": {"pools": {"images": "i", "volumes": "v", "ephemeral": "e"}}}});
    let caps = |service: &str| child(&spec, &rook("kiln", &[]), "CephClient", service).unwrap()["spec"]["caps"].clone();
    assert_eq!(caps("glance"), json!({"mon": "profile rbd", "osd": "profile rbd pool=i", "mgr": "profile rbd pool=i"}));
    assert_eq!(
        caps("cinder"),
        json!({"mon": "profile rbd", "osd": "profile rbd pool=v, profile rbd pool=e, profile rbd-read-only pool=i",
               "mgr": "profile rbd pool=v, profile rbd pool=e"})
    );
    assert_eq!(
        caps("nova"),
        json!({"mon": "profile rbd", "osd": "profile rbd pool=e, profile rbd pool=v, profile rbd-read-only pool=i",
               "mgr": "profile rbd pool=e"})
    );
}

#[test]
fn services_are_told_of_their_keys_and_get_them_in_secrets() {
    let spec = json!({"services": services(), "storage": {"storageClusters": ["kiln"]}});
    let there = rook("kiln", &["glance", "cinder", "nova"]);
    let rbd = json!({"pool": "images", "cephSecretRef": {"name": "glance-ceph-credentials"},
        "cephClientRef": {"name": "glance", "namespace": "rook-ceph"}});
    assert_eq!(
        child(&spec, &there, "Glance", "glance").unwrap()["spec"]["storage"],
        json!({"backend": "rbd", "rbd": rbd})
    );
    let cinder = child(&spec, &there, "Cinder", "cinder").unwrap();
    assert_eq!(cinder["spec"]["backends"][0]["rbd"]["cephSecretRef"]["name"], "cinder-ceph-credentials");
    let secret = child(&spec, &there, "Secret", "cinder-ceph-credentials").unwrap();
    assert_eq!(secret["metadata"]["namespace"], "cellar");
    // key, 192.0.2.1:6789,192.0.2.2:6789, cinder and 0b5c.
    let data = json!({"key": "a2V5", "monitors": "MTkyLjAuMi4xOjY3ODksMTkyLjAuMi4yOjY3ODk=", "userID": "Y2luZGVy", "fsid": "MGI1Yw=="});
    assert_eq!(secret["data"], data);
    // Until Rook has made a key, no Secret is made without it.
    let waiting = plan(&lab(&spec), &rook("kiln", &["glance"])).unwrap();
    assert!(waits(&waiting).iter().any(|wait| wait.contains("rook-ceph-client-cinder")), "{:#?}", waits(&waiting));
    let status = plan(&lab(&spec), &there).unwrap().status["ceph"].clone();
    assert_eq!(status, json!({"imagePool": "Ready", "volumePool": "NotFound"}));
}

/// A rotation writes the Secret of Glance; meanwhile both of its users are there, and of Cinder's one.
#[test]
fn while_a_user_is_rotated_both_exist() {
    let spec = json!({"services": services(), "storage": {"storageClusters": ["kiln"]}});
    let mut there = rook("kiln", &["glance", "cinder", "nova"]);
    let rotation = child(&spec, &there, "CredentialRotation", "glance-ceph-rotation").unwrap();
    assert_eq!(
        (&rotation["spec"]["rotationType"], &rotation["spec"]["cephCluster"]),
        (&json!("cephUser"), &json!("kiln"))
    );
    assert_eq!(rotation["spec"]["consumers"][0]["kind"], "Glance");
    assert_eq!(child(&spec, &there, "CephClient", "glance-b"), None);
    let with_status = |status: Value| {
        let mut rotation = rotation.clone();
        rotation["status"] = status;
        rotation
    };
    let version = |version: i64| json!({"version": version});
    let creating = json!({"phase": "Creating", "currentCredential": version(1), "nextCredential": version(2)});
    there.push(with_status(creating));
    for user in ["glance", "glance-b", "cinder"] {
        assert!(child(&spec, &there, "CephClient", user).is_some(), "{user}");
    }
    there.pop();
    let revoking = json!({"phase": "Revoking", "currentCredential": version(2), "previousCredential": version(1)});
    there.push(with_status(revoking));
    assert!(child(&spec, &there, "CephClient", "glance-b").is_some());
    assert_eq!(child(&spec, &there, "CephClient", "glance"), None);
    // A status that was lost takes no user from services.
    there.pop();
    there.push(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "glance-ceph-credentials",
        "namespace": "cellar", "annotations": {"c5c3.io/accounts": "glance-ceph-user-v2"},
        "labels": {"app.kubernetes.io/managed-by": "controlplane-operator"}}, "data": {}}));
    assert!(child(&spec, &there, "CephClient", "glance-b").is_some());
}

#[test]
fn backups_with_the_key_of_volumes_have_their_pool_in_its_rights_and_in_no_others() {
    let backup = json!({"pool": "attic", "cephSecretRef": {"name": "cinder-ceph-credentials"}});
    let mut services = services();
    services["cinder"] = json!({"template": {"backup": backup}});
    let spec = json!({"services": services, "storage": {"storageClusters": ["kiln"]}});
    let caps = |user: &str| {
        let caps = child(&spec, &rook("kiln", &[]), "CephClient", user).unwrap()["spec"]["caps"]["osd"].clone();
        caps.as_str().unwrap().to_owned()
    };
    assert!(caps("cinder").contains("profile rbd pool=attic"), "{}", caps("cinder"));
    assert!(!caps("nova").contains("attic"), "{}", caps("nova"));
}

#[test]
fn a_cluster_by_the_usual_name_is_used_where_nothing_is_said_about_storage() {
    let spec = json!({"services": services()});
    let glance =
        |there: &[Value]| child(&spec, there, "Glance", "glance").unwrap()["spec"]["storage"]["rbd"]["pool"].clone();
    assert_eq!(glance(&rook("rook-ceph", &[])), "images");
    assert_eq!(glance(&[]), Value::Null);
    let files = json!({"services": {"keystone": {}, "glance": {"backend": {"type": "file"}}}});
    assert_eq!(child(&files, &rook("rook-ceph", &[]), "CephClient", "glance"), None);
}

#[test]
fn a_cluster_that_is_asked_for_and_not_there_is_waited_for_with_what_to_do() {
    let spec = json!({"services": {"keystone": {}, "cinder": {"backends": [{"name": "fast", "type": "rbd"}]}}});
    let said = waits(&plan(&lab(&spec), &[]).unwrap());
    assert!(said.iter().any(|wait| wait.starts_with("ceph: cephcluster/rook-ceph/rook-ceph")), "{said:#?}");
    assert_eq!(child(&spec, &[], "Cinder", "cinder").unwrap()["spec"]["backends"][0]["name"], "fast");
}

#[test]
fn several_storage_clusters_are_refused() {
    let spec = json!({"services": services(), "storage": {"storageClusters": ["a", "b"]}});
    let why = plan(&lab(&spec), &[]).unwrap_err();
    assert!(why.starts_with("spec.storage.storageClusters: names 2 clusters"), "{why}");
}
