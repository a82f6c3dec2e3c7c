//! Users of Ceph through whole rotations, with a ControlPlane, a Rook and a Glance on paper.

use c5c3_api::c5c3::CredentialRotation;
use serde_json::{Value, json};

use super::super::account::Names;
use super::super::{RotationType, ceph_users};
use super::plans::Case;

const TARGET: &str = "gull-ceph-credentials";

fn rook(kind: &str, version: &str, name: &str, rest: &Value) -> Value {
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "rook-ceph"}});
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    object
}

fn base64(text: &str) -> Value {
    json!(k8s_openapi::ByteString(text.as_bytes().to_vec()))
}

struct Bay {
    case: Case,
    made: usize,
}

impl Bay {
    fn new() -> Self {
        let spec = json!({"targetServiceUser": "gull", "rotationType": "cephUser", "cephCluster": "reef",
            "schedule": {"intervalDays": 90, "preRotationDays": 7}, "gracePeriodDays": 0,
            "consumers": [{"apiVersion": "glance.openstack.c5c3.io/v1alpha1", "kind": "Glance", "name": "glance"}]});
        let cluster = json!({"spec": {}, "status": {"phase": "Ready", "ceph": {"fsid": "f5"}}});
        let monitors = json!({"data": {"data": "a=192.0.2.7:6789"}});
        let objects = vec![
            rook("CephCluster", "ceph.rook.io/v1", "reef", &cluster),
            rook("ConfigMap", "v1", "rook-ceph-mon-endpoints", &monitors),
        ];
        Self { case: Case { spec, status: Value::Null, objects, answer: None }, made: 0 }
    }

    fn find(&self, kind: &str, name: &str) -> Option<&Value> {
        self.case.objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
    }

    fn users(&self) -> Vec<&str> {
        let clients = self.case.objects.iter().filter(|object| object["kind"] == "CephClient");
        clients.map(|client| client["metadata"]["name"].as_str().unwrap()).collect()
    }

    /// What the controller does, as far as objects go.
    fn reconcile(&mut self) {
        let plan = self.case.plan();
        self.case.status = serde_json::to_value(&plan.status).unwrap();
        for child in plan.children() {
            let object = serde_json::to_value(&child.object).unwrap();
            let name = object["metadata"]["name"].clone();
            self.case.objects.retain(|old| old["kind"] != "Secret" || old["metadata"]["name"] != name);
            self.case.objects.push(object);
        }
    }

    /// The ControlPlane makes and deletes users, and Rook their keys.
    fn serve(&mut self) {
        let (_, inputs) = self.case.inputs();
        let rotation: CredentialRotation = inputs.object.clone();
        let names = Names { service: "gull".into(), namespace: "cloud".into(), kind: RotationType::CephUser };
        let kept = ceph_users(&inputs, Some(&rotation), &names);
        self.case.objects.retain(|object| {
            let name = object["metadata"]["name"].as_str().unwrap().trim_start_matches("rook-ceph-client-");
            let is_theirs = object["metadata"]["namespace"] == "rook-ceph" && name.starts_with("gull");
            !is_theirs || kept.contains(name)
        });
        for user in kept {
            if self.find("CephClient", &user).is_none() {
                self.made += 1;
                let key = json!({"data": {"userKey": base64(&format!("key-{}", self.made))}});
                let ready = json!({"spec": {"caps": {}}, "status": {"phase": "Ready"}});
                self.case.objects.push(rook("CephClient", "ceph.rook.io/v1", &user, &ready));
                self.case.objects.push(rook("Secret", "v1", &format!("rook-ceph-client-{user}"), &key));
            }
        }
    }

    /// Glance uses what its Secret has, and has tried what is revoked.
    fn use_it(&mut self) {
        let Some(target) = self.find("Secret", TARGET).cloned() else { return };
        let list = |annotation: &str| -> Vec<String> {
            let names = target["metadata"]["annotations"][annotation].as_str().unwrap_or_default();
            names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
        };
        let kept = list("c5c3.io/accounts").into_iter().map(|secret| {
            let own = self.find("Secret", &secret).unwrap_or_else(|| panic!("{secret} is listed and not there"));
            let state = if own["data"]["username"] == target["data"]["userID"] { "InUse" } else { "Available" };
            json!({"secret": secret, "state": state})
        });
        let revoked =
            list("c5c3.io/revoked-accounts").into_iter().map(|secret| json!({"secret": secret, "state": "Refused"}));
        let accounts: Vec<Value> = kept.chain(revoked).collect();
        self.case.objects.retain(|object| object["kind"] != "Glance");
        self.case.objects.push(json!({"apiVersion": "glance.openstack.c5c3.io/v1alpha1", "kind": "Glance",
            "metadata": {"name": "glance", "namespace": "cloud"}, "spec": {}, "status": {"accounts": accounts}}));
    }

    /// The key that Glance reads is one that Ceph knows under the name that it reads.
    fn is_valid(&self) {
        let Some(target) = self.find("Secret", TARGET) else { return };
        let user = self.users().into_iter().find(|user| base64(user) == target["data"]["userID"]);
        let user = user.unwrap_or_else(|| panic!("Glance reads a user that is not there: {target:#}"));
        let key = self.find("Secret", &format!("rook-ceph-client-{user}")).unwrap();
        assert_eq!(key["data"]["userKey"], target["data"]["key"]);
    }

    /// Goes on until one of these is in use, and the only one.
    fn until(&mut self, versions: &[i64]) -> Vec<String> {
        let mut phases = Vec::new();
        for _ in 0..60 {
            self.serve();
            self.is_valid();
            self.reconcile();
            self.use_it();
            let phase = self.case.status["phase"].as_str().unwrap().to_owned();
            if phases.last() != Some(&phase) {
                phases.push(phase.clone());
            }
            let current = self.case.status["currentCredential"]["version"].as_i64();
            if phase == "Idle" && current.is_some_and(|current| versions.contains(&current)) {
                return phases;
            }
        }
        panic!("{phases:?} {:#}", self.case.status);
    }
}

#[test]
fn two_users_of_ceph_alternate_and_services_always_read_one_that_is_there() {
    let mut bay = Bay::new();
    bay.until(&[1]);
    assert_eq!(bay.users(), ["gull"]);
    let first = bay.find("Secret", TARGET).unwrap()["data"].clone();
    assert_eq!((&first["monitors"], &first["fsid"]), (&base64("192.0.2.7:6789"), &base64("f5")));
    for (version, user) in [(2, "gull-b"), (3, "gull")] {
        // A lost request is asked for again by another value; here the spec's age does it.
        bay.case.status["currentCredential"]["createdAt"] = json!("2029-01-01T00:00:00Z");
        let phases = bay.until(&[version]);
        assert!(phases.ends_with(&["Grace", "Revoking", "VerifyingRevoked", "Idle"].map(str::to_owned)), "{phases:?}");
        assert_eq!(bay.users(), [user]);
        assert_eq!(bay.find("Secret", TARGET).unwrap()["data"]["userID"], base64(user));
    }
    assert_ne!(bay.find("Secret", TARGET).unwrap()["data"]["key"], first["key"]);
}

/// The status is lost after each step once: services keep a user that is there.
#[test]
fn a_lost_status_takes_no_user_from_services() {
    for step in 0..12 {
        let mut bay = Bay::new();
        bay.until(&[1]);
        bay.case.status["currentCredential"]["createdAt"] = json!("2029-01-01T00:00:00Z");
        for _ in 0..step {
            bay.serve();
            bay.reconcile();
            bay.use_it();
        }
        bay.case.status = Value::Null;
        // The second user is forgotten if services were not asked to know it yet.
        bay.until(&[1, 2]);
        bay.serve();
        bay.is_valid();
    }
}
