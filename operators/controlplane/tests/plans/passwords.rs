//! No pod of a service holds a password of Keystone: it signs in with an application credential, which is in a Secret and nowhere
//! else. The password of its user is for K-ORC alone.

use std::collections::BTreeSet;

use c5c3_api::c5c3::CredentialRotation;
use c5c3_api::orc::User;
use c5c3_kit::{Child, Controller, KindRef, Plan};
use c5c3_operator_cinder::BlockStorage;
use c5c3_operator_controlplane::ControlPlanes;
use c5c3_operator_glance::Images;
use c5c3_operator_neutron::Networking;
use c5c3_operator_nova::Compute;
use c5c3_operator_placement::Inventory;
use c5c3_service::Service;
use c5c3_stage::{World, secret};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::paper;

/// What the Secrets of a world hold, which nothing but a Secret may.
const SECRETS: [&str; 5] = ["db$ecret", "mq$ecret", "app$ecret", "ceph$ecret", "meta$ecret"];

/// Options of a section that signs in with a password.
const OF_PASSWORDS: [&str; 7] =
    ["password", "username", "user_id", "user_domain_name", "user_domain_id", "admin_password", "admin_user"];

/// A world with the Secrets and the OVN that services share.
fn world<S: Service>() -> World<S>
where
    <S::Kind as kube::Resource>::Scope: 'static,
{
    let ceph = [("key", "AQBceph$ecret=="), ("monitors", "192.0.2.1:3300"), ("fsid", "1111-2222")];
    let condition = json!({"type": "Ready", "status": "True", "reason": "Fine", "message": ""});
    let ovn = json!({"apiVersion": "ovn.c5c3.io/v1alpha1", "kind": "OVNCluster",
        "metadata": {"name": "ovn", "namespace": "cloud", "generation": 1}, "spec": {},
        "status": {"endpoints": {"northbound": "tcp:ovn-nb.cloud.svc:6641", "southbound": "tcp:ovn-sb.cloud.svc:6642"},
                   "conditions": [condition]}});
    let metadata = [("shared-secret", "meta$ecret")];
    World::with_all(vec![
        ovn,
        secret("gate-metadata-proxy", &metadata),
        secret("nova-metadata-proxy", &metadata),
        secret("glance-ceph-credentials", &ceph),
        secret("cinder-ceph-credentials", &ceph),
        secret("nova-ceph-credentials", &ceph),
    ])
}

/// The template of the pods that a child makes.
fn pod(child: &Child) -> Option<&Value> {
    let places = ["/spec/template/spec", "/spec/jobTemplate/spec/template/spec"];
    places.iter().find_map(|place| child.object.data.pointer(place)).filter(|pod| pod["containers"].is_array())
}

/// The Secrets that a pod mounts or takes its environment from.
fn secrets_of(pod: &Value) -> BTreeSet<String> {
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut names = BTreeSet::new();
    for volume in list(&pod["volumes"]) {
        names.extend(text(&volume["secret"]["secretName"]));
        names.extend(list(&volume["projected"]["sources"]).iter().filter_map(|source| text(&source["secret"]["name"])));
    }
    for container in ["initContainers", "containers"].iter().flat_map(|kind| list(&pod[*kind])) {
        names.extend(list(&container["envFrom"]).iter().filter_map(|from| text(&from["secretRef"]["name"])));
        let values = list(&container["env"]);
        names.extend(values.iter().filter_map(|one| text(&one["valueFrom"]["secretKeyRef"]["name"])));
    }
    names
}

/// The files of a Secret, by their names.
fn files(data: &Value) -> Vec<(String, String)> {
    let decoded = data.as_object().into_iter().flatten().map(|(name, value)| {
        let ByteString(bytes) = serde_json::from_value(value.clone()).unwrap();
        (name.clone(), String::from_utf8_lossy(&bytes).into_owned())
    });
    decoded.collect()
}

/// How many places of a file sign in to Keystone with an application credential; and what signs in otherwise.
fn sign_ins(file: &str) -> (usize, Vec<String>) {
    let (mut good, mut wrong) = (0, Vec::new());
    if let Ok(settings) = serde_json::from_str::<Value>(file) {
        let mut left = vec![&settings];
        while let Some(value) = left.pop() {
            left.extend(value.as_object().into_iter().flat_map(serde_json::Map::values));
            left.extend(value.as_array().into_iter().flatten());
            match value.get("auth_url") {
                Some(_) if value.get("password").is_some() => wrong.push("JSON with a password".to_owned()),
                Some(_) => good += 1,
                None => {}
            }
        }
        return (good, wrong);
    }
    for section in file.split("\n[") {
        let name = section.trim_start_matches('[').split(']').next().unwrap_or_default();
        let options = section.lines().filter_map(|line| line.split_once('='));
        let options: Vec<(&str, &str)> = options.map(|(key, value)| (key.trim(), value.trim())).collect();
        let has = |key: &str, value: &str| options.contains(&(key, value));
        if !options.iter().any(|(key, _)| ["auth_type", "auth_url", "auth_plugin"].contains(key)) {
            continue;
        }
        good += usize::from(has("auth_type", "v3applicationcredential"));
        if !has("auth_type", "v3applicationcredential") {
            wrong.push(format!("[{name}] without an application credential"));
        }
        let of_passwords = options.iter().filter(|(key, _)| OF_PASSWORDS.contains(key));
        wrong.extend(of_passwords.map(|(key, _)| format!("[{name}] {key}")));
    }
    (good, wrong)
}

/// What tells a secret, and what signs in with a password, of the pods of a service.
fn faults(plan: &Plan, world: &[Value]) -> Vec<String> {
    let mut faults = Vec::new();
    // Environments, arguments, ConfigMaps and all else: the values of Secrets are left out of this text.
    let text = plan.golden();
    for value in SECRETS {
        let encoded = json!(ByteString(value.as_bytes().to_vec()));
        // The last letters of the encoded form depend on what follows.
        let encoded = encoded.as_str().unwrap()[..10].to_owned();
        for form in [value.to_owned(), value.replace('$', "%24"), encoded] {
            faults.extend(text.contains(&form).then(|| format!("{value} is in an object")));
        }
    }
    let of_plan = plan.children().filter(|child| child.resource.kind == "Secret");
    let of_plan = of_plan.map(|child| (child.reference().name, child.object.data["data"].clone()));
    let found = world.iter().filter(|object| object["kind"] == "Secret");
    let found = found.map(|object| (object["metadata"]["name"].as_str().unwrap().to_owned(), object["data"].clone()));
    let secrets: Vec<(String, Value)> = of_plan.chain(found).collect();
    let mounted: BTreeSet<String> = plan.children().filter_map(pod).flat_map(secrets_of).collect();
    let mut signed_in = 0;
    for name in mounted {
        let Some((_, data)) = secrets.iter().find(|(known, _)| *known == name) else {
            faults.push(format!("secret/{name} is mounted and unknown"));
            continue;
        };
        for (file, text) in files(data) {
            let (good, wrong) = sign_ins(&text);
            signed_in += good;
            faults.extend(wrong.into_iter().map(|wrong| format!("secret/{name} {file}: {wrong}")));
        }
    }
    if signed_in == 0 {
        faults.push("nothing signs in with an application credential".to_owned());
    }
    faults
}

/// The plan of a service with each of these specs.
fn holds_none<S: Service>(specs: &[Value])
where
    <S::Kind as kube::Resource>::Scope: 'static,
{
    let world = world::<S>();
    for spec in specs {
        let plan = world.plan(&World::<S>::object(spec)).unwrap();
        assert!(plan.children().filter_map(pod).count() > 1, "{}: no pods in the plan for {spec}", S::NAME);
        assert_eq!(faults(&plan, &world.objects), Vec::<String>::new(), "{}: {spec}", S::NAME);
    }
}

#[test]
fn no_pod_of_a_service_holds_a_password_of_keystone() {
    let ceph = |service: &str| json!({"cephSecretRef": {"name": format!("{service}-ceph-credentials")}});
    holds_none::<Inventory>(&[json!({})]);
    holds_none::<Images>(&[json!({}), json!({"replicas": 1, "storage": {"backend": "file"}})]);
    holds_none::<Networking>(&[json!({}), json!({"metadataAgent": {}})]);
    holds_none::<BlockStorage>(&[json!({}), json!({"backends": [{"name": "fast", "rbd": ceph("cinder")}]})]);
    let on_ceph = json!({"storage": {"backend": "rbd", "rbd": ceph("nova")}});
    holds_none::<Compute>(&[json!({}), json!({"compute": {}}), on_ceph]);
}

#[test]
fn a_password_in_a_pod_would_be_noticed() {
    let good = "[keystone_authtoken]\nauth_type = v3applicationcredential\nauth_url = http://k\n";
    assert_eq!(sign_ins(good), (1, vec![]));
    let worse = format!("{good}password = open-sesame\n\n[placement]\nauth_url = http://k\nusername = nova\n");
    let wrong =
        ["[keystone_authtoken] password", "[placement] without an application credential", "[placement] username"];
    assert_eq!(sign_ins(&worse), (1, wrong.map(ToOwned::to_owned).to_vec()));
    let health = json!({"checks": [{"database": {"password": "of the database"}}], "auth": {"auth_url": "http://k"}});
    assert_eq!(sign_ins(&health.to_string()), (1, vec![]));
    let health = json!({"report": {"auth": {"auth_url": "http://k", "password": "open-sesame"}}});
    assert_eq!(sign_ins(&health.to_string()).1, ["JSON with a password"]);

    let world = world::<Inventory>();
    let mut plan = world.plan(&World::<Inventory>::object(&json!({}))).unwrap();
    assert_eq!(faults(&plan, &world.objects), Vec::<String>::new());
    let children = plan.steps.iter_mut().flat_map(|step| &mut step.children);
    let mut pods = children.filter(|child| pod(child).is_some());
    let data = &mut pods.next().unwrap().object.data["spec"]["template"]["spec"];
    data["containers"][0]["env"] = json!([{"name": "DATABASE", "value": "gatekeeper:db$ecret/1"},
        {"name": "OS_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "placement-service-password", "key": "password"}}}]);
    let told = ["db$ecret is in an object", "secret/placement-service-password is mounted and unknown"];
    assert_eq!(faults(&plan, &world.objects), told);
}

/// The ControlPlane gives the names of the passwords to the Users of K-ORC, and to no service.
#[test]
fn a_control_plane_names_the_passwords_of_users_to_k_orc_alone() {
    let plan = full();
    let users: Vec<&Child> = plan.children().filter(|child| child.resource.kind == "User").collect();
    let passwords: BTreeSet<&str> =
        users.iter().filter_map(|user| user.object.data["spec"]["resource"]["passwordRef"].as_str()).collect();
    for service in ["nova", "neutron", "glance", "cinder", "placement"] {
        assert!(passwords.contains(format!("{service}-service-password").as_str()), "{service}: {passwords:?}");
    }
    for child in plan.children().filter(|child| !["User", "Secret"].contains(&child.resource.kind.as_str())) {
        let text = child.object.data.to_string();
        let named = passwords.iter().find(|password| text.contains(&format!("\"{password}\"")));
        assert_eq!(named, None, "{} names it", child.reference().short());
    }
}

/// The plan of a cloud with everything.
fn full() -> Plan {
    let there = [
        paper::storage_class("ceph-rbd"),
        paper::issuer("letsencrypt-prod"),
        paper::secret("keystone-admin-credentials", &["password"]),
    ];
    paper::plan(&paper::example("controlplane-full.yaml"), &there).unwrap()
}

/// The children that fit, as `kind/name`.
fn those(plan: &Plan, fits: impl Fn(&Child) -> bool) -> BTreeSet<String> {
    plan.children().filter(|child| fits(child)).map(|child| child.reference().short()).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The administrator's password is in two Secrets: the one that Keystone is told of, and one with which K-ORC keeps its own user.
#[test]
fn the_administrators_password_is_named_to_keystone_and_for_the_user_of_korc_alone() {
    let plan = full();
    let named = |secret: &str| {
        let quoted = format!("\"{secret}\"");
        those(&plan, |child| child.object.data.to_string().contains(&quoted))
    };
    assert_eq!(named("keystone-admin-credentials"), set(&["keystone/keystone"]));
    let own = [
        "roleassignment/k-orc-service-user-admin",
        "roleassignment/k-orc-service-user-service",
        "user/k-orc-service-user",
    ];
    assert_eq!(named("k-orc-admin-clouds-yaml"), set(&own));
}

/// All other users are deleted with K-ORC's credential.
#[test]
fn the_user_and_the_credential_of_korc_are_deleted_last() {
    let last = those(&full(), |child| {
        child
            .object
            .metadata
            .annotations
            .iter()
            .flatten()
            .any(|(key, value)| key == "c5c3.io/teardown" && value == "last")
    });
    let own = [
        "credentialrotation/k-orc-rotation",
        "roleassignment/k-orc-service-user-admin",
        "roleassignment/k-orc-service-user-service",
        "user/k-orc-service-user",
    ];
    assert_eq!(last, set(&own));
    let waves = ControlPlanes.teardown();
    let of =
        |kind: KindRef| waves.iter().enumerate().filter(move |(_, wave)| wave.contains(&kind)).map(|(index, _)| index);
    let rotations: Vec<usize> = of(KindRef::of::<CredentialRotation>()).collect();
    let users: Vec<usize> = of(KindRef::of::<User>()).collect();
    let [first, second] = rotations[..] else { panic!("{rotations:?}") };
    assert_eq!(users, [first + 1, second + 1], "users go after what was made in their names");
    assert!(second > users[0], "and the credential that the others are deleted with after them");
}
