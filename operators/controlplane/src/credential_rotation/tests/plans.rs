//! What a plan holds in each phase, with and without a store.

use c5c3_api::c5c3::CredentialRotation;
use c5c3_kit::inputs::Found;
use c5c3_kit::{Controller, Inputs, Plan, Verdict};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::super::account::Account;
use super::super::keystone::{SignIn, SignIns};
use super::super::state::State;
use super::super::{CredentialRotations, view};

const NOW: &str = "2030-01-02T00:00:00Z";

fn secret(name: &str, data: &[(&str, &str)]) -> Value {
    let data: serde_json::Map<String, Value> =
        data.iter().map(|(key, value)| ((*key).to_owned(), json!(ByteString(value.as_bytes().to_vec())))).collect();
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "cloud"}, "data": data})
}

fn orc(kind: &str, name: &str, resource: &Value, id: Option<&str>) -> Value {
    let available = json!([
        {"type": "Available", "status": if id.is_some() { "True" } else { "False" }, "reason": "Success",
         "message": "as told", "lastTransitionTime": NOW},
        {"type": "Progressing", "status": "False", "reason": "Success", "message": "", "lastTransitionTime": NOW},
    ]);
    json!({"apiVersion": "openstack.k-orc.cloud/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": "cloud"},
        "spec": {"cloudCredentialsRef": {"secretName": "clouds", "cloudName": "sky"}, "resource": resource},
        "status": {"id": id, "conditions": available}})
}

/// The user heron, and how it signs in.
fn user() -> Vec<Value> {
    let clouds = "clouds: {sky: {region_name: north, auth: {auth_url: 'http://keystone:5000/v3', username: admin, \
                  password: owl-feather, project_name: admin}}}";
    let heron = json!({"name": "heron", "passwordRef": "heron-service-password", "defaultProjectRef": "service-project",
        "domainRef": "default-domain"});
    vec![
        secret("clouds", &[("clouds.yaml", clouds)]),
        secret("heron-service-password", &[("password", "reed-bed")]),
        orc("User", "heron-service-user", &heron, Some("u7")),
        orc("Project", "service-project", &json!({}), Some("p7")),
    ]
}

fn credential(version: i64, id: Option<&str>) -> Vec<Value> {
    let name = format!("heron-app-credential-v{version}");
    let resource = json!({"userRef": "heron-service-user", "secretRef": name, "expiresAt": "2030-04-02T00:00:00Z"});
    vec![secret(&name, &[("value", "still-water")]), orc("ApplicationCredential", &name, &resource, id)]
}

fn consumer(id: &str, verified: bool) -> Value {
    json!({"apiVersion": "nova.openstack.c5c3.io/v1alpha1", "kind": "Nova",
        "metadata": {"name": "nova", "namespace": "cloud"},
        "status": {"identity": {"credentialID": id, "verified": verified},
                   "waitingFor": [{"object": "job/nova-auth", "because": "the credential is tried"}]}})
}

fn recorded(version: i64, id: Option<&str>) -> Value {
    json!({"version": version, "id": id, "createdAt": "2030-01-01T00:00:00Z", "expiresAt": "2030-04-02T00:00:00Z"})
}

pub(super) struct Case {
    pub(super) spec: Value,
    pub(super) status: Value,
    pub(super) objects: Vec<Value>,
    pub(super) answer: Option<bool>,
}

impl Case {
    fn new(status: Value, objects: impl IntoIterator<Item = Value>) -> Self {
        let spec = json!({"targetServiceUser": "heron-service-user", "rotationType": "applicationCredential",
            "schedule": {"intervalDays": 90, "preRotationDays": 7},
            "consumers": [{"apiVersion": "nova.openstack.c5c3.io/v1alpha1", "kind": "Nova", "name": "nova"}]});
        let objects = user().into_iter().chain(objects).collect();
        Self { spec, status, objects, answer: None }
    }

    pub(super) fn inputs(&self) -> (CredentialRotations, Inputs<CredentialRotation>) {
        let rotation = serde_json::from_value(json!({
            "apiVersion": "c5c3.io/v1alpha1", "kind": "CredentialRotation",
            "metadata": {"name": "heron-rotation", "namespace": "cloud", "uid": "0a1b2c3d-0000"},
            "spec": self.spec, "status": self.status,
        }));
        let controller = CredentialRotations::new(c5c3_openstack::Options::default());
        let mut inputs = Inputs::new(rotation.unwrap(), NOW.parse().unwrap());
        while let Some(reference) = controller.needs(&inputs).into_iter().find(|needed| !inputs.has_read(needed)) {
            let found = self.objects.iter().find(|object| {
                object["kind"] == reference.resource.kind.as_str()
                    && object["metadata"]["name"] == reference.name.as_str()
            });
            let found = found.map(|object| serde_json::from_value(object.clone()).unwrap());
            inputs.insert(reference, found.map_or(Found::Missing, |object| Found::Object(Box::new(object))));
        }
        for object in self.objects.iter().filter(|object| object["kind"] == "ApplicationCredential") {
            let object: kube::api::DynamicObject = serde_json::from_value(object.clone()).unwrap();
            inputs.insert_own(object);
        }
        if let (Some(answer), Some(question)) = (self.answer, question(&inputs)) {
            inputs.insert_reply::<SignIns>(question, Ok(answer));
        }
        (controller, inputs)
    }

    pub(super) fn plan(&self) -> Plan {
        let (controller, inputs) = self.inputs();
        match controller.validate(&inputs) {
            Verdict::Valid(valid) => controller.plan(&valid, &inputs),
            Verdict::Wait(waits) => panic!("{:?}", waits.iter().map(|wait| wait.message(None)).collect::<Vec<_>>()),
            Verdict::Invalid(problems) => panic!("{problems}"),
        }
    }

    /// What the step of the phase waits for.
    fn says(&self) -> String {
        let status = self.plan().status;
        let steps = status["steps"].as_array().unwrap();
        steps.last().unwrap()["message"].as_str().unwrap_or_default().to_owned()
    }

    fn phase(&self) -> String {
        self.plan().status["phase"].as_str().unwrap().to_owned()
    }
}

fn question(inputs: &Inputs<CredentialRotation>) -> Option<SignIn> {
    let state = State::recorded(inputs.object.status.as_ref())?;
    view::View::new(inputs, &Account::find(inputs).ok()?, &state).question()
}

fn status(phase: &str, rest: &Value) -> Value {
    let mut status = json!({"phase": phase, "reason": "Scheduled", "steps": [{"name": phase, "since": NOW}]});
    status.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    status
}

fn store(ready: &str) -> Value {
    json!({"apiVersion": "external-secrets.io/v1", "kind": "ClusterSecretStore",
        "metadata": {"name": "openbao-cluster-store"}, "spec": {"provider": {}},
        "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "Sealed", "message": "the vault is sealed"}]}})
}

fn link(version: &str, kind: &str, name: &str, ready: &str) -> Value {
    json!({"apiVersion": format!("external-secrets.io/{version}"), "kind": kind,
        "metadata": {"name": name, "namespace": "cloud"}, "spec": {"secretStoreRefs": [], "selector": {}},
        "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "Synced", "message": "as told"}]}})
}

#[test]
fn nothing_is_made_before_it_is_written_down() {
    let plan = Case::new(Value::Null, []).plan();
    assert_eq!(plan.children().count(), 0);
    insta::assert_snapshot!(plan.golden());
}

#[test]
fn the_plan_of_a_first_credential_without_a_store() {
    let case =
        Case::new(status("Delivering", &json!({"nextCredential": recorded(1, Some("c1"))})), credential(1, Some("c1")));
    insta::assert_snapshot!(case.plan().golden());
}

#[test]
fn the_plan_of_a_rotation_that_is_verified_through_a_store() {
    let case = verifying(consumer("c1", true));
    insta::assert_snapshot!(case.plan().golden());
}

fn verifying(nova: Value) -> Case {
    let objects = [credential(1, Some("c1")), credential(2, Some("c2")), vec![store("True"), nova]].concat();
    let both = json!({"currentCredential": recorded(1, Some("c1")), "nextCredential": recorded(2, Some("c2"))});
    let mut case = Case::new(status("Verifying", &both), objects);
    let target =
        case.plan().children().find(|child| child.reference().name == "heron-app-credential").cloned().unwrap();
    let mut target = serde_json::to_value(target.object).unwrap();
    target["metadata"]["name"] = "heron-keystone-credentials".into();
    target["apiVersion"] = "v1".into();
    target["kind"] = "Secret".into();
    case.objects.push(target);
    case.objects.push(link("v1alpha1", "PushSecret", "heron-app-credential", "True"));
    case.objects.push(link("v1", "ExternalSecret", "heron-keystone-credentials", "True"));
    case.answer = Some(true);
    case
}

#[test]
fn a_consumer_that_does_not_come_to_use_the_new_credential_holds_the_switch_and_is_named() {
    let old = verifying(consumer("c1", true));
    assert_eq!(old.phase(), "Verifying");
    assert_eq!(
        old.says(),
        "nova/nova runs with c1; it waits for job/nova-auth: the credential is tried; the credential of before is revoked \
         only when every consumer uses the new one; c5c3 why nova/nova"
    );
    let untried = verifying(consumer("c2", false));
    assert!(untried.says().starts_with("nova/nova runs with c2 and has not got a token with it"), "{}", untried.says());
    let mut wrong = consumer("c1", true);
    wrong["status"]["waitingFor"] = json!([]);
    wrong["status"]["conditions"] = json!([{"type": "Ready", "status": "False", "message": "spec.replicas is wrong"}]);
    let said = verifying(wrong).says();
    assert!(said.starts_with("nova/nova runs with c1; it is not Ready: spec.replicas is wrong"), "{said}");
    assert_eq!(verifying(consumer("c2", true)).phase(), "Grace");
    let mut refused = verifying(consumer("c2", true));
    refused.answer = Some(false);
    assert_eq!(refused.phase(), "Verifying", "Keystone does not accept it");
    let mut alone = verifying(consumer("c2", true));
    alone.objects.retain(|object| object["kind"] != "Nova");
    assert_eq!(alone.phase(), "Grace", "a service that does not exist uses no credential");
}

#[test]
fn a_wait_names_the_link_that_fails() {
    let delivering = |links: Vec<Value>| {
        let objects = [credential(1, Some("c1")), credential(2, Some("c2")), links].concat();
        let both = json!({"currentCredential": recorded(1, Some("c1")), "nextCredential": recorded(2, Some("c2"))});
        Case::new(status("Delivering", &both), objects).says()
    };
    let push = |ready: &str| link("v1alpha1", "PushSecret", "heron-app-credential", ready);
    let external = |ready: &str| link("v1", "ExternalSecret", "heron-keystone-credentials", ready);
    assert!(delivering(vec![]).starts_with("secret/heron-keystone-credentials does not have it yet"));
    let sealed = delivering(vec![store("False"), push("False"), external("False")]);
    assert!(
        sealed.starts_with("clustersecretstore/openbao-cluster-store is not Ready: Sealed: the vault is sealed"),
        "{sealed}"
    );
    assert!(delivering(vec![store("True")]).starts_with("pushsecret/heron-app-credential does not exist"));
    assert!(delivering(vec![store("True"), push("False")]).starts_with("pushsecret/heron-app-credential is not Ready"));
    let unread = delivering(vec![store("True"), push("True"), external("False")]);
    assert!(unread.starts_with("externalsecret/heron-keystone-credentials is not Ready"), "{unread}");
    let late = delivering(vec![store("True"), push("True"), external("True")]);
    assert!(
        late.starts_with("externalsecret/heron-keystone-credentials has not read the new credential yet"),
        "{late}"
    );
    let objects = [credential(1, Some("c1")), credential(2, None)].concat();
    let both = json!({"currentCredential": recorded(1, Some("c1")), "nextCredential": recorded(2, None)});
    let unmade = Case::new(status("Creating", &both), objects).says();
    assert!(unmade.starts_with("applicationcredential/heron-app-credential-v2 is not Available"), "{unmade}");
}

#[test]
fn a_revoked_credential_keeps_its_secret_until_keystone_refuses_it() {
    let old = json!({"currentCredential": recorded(2, Some("c2")), "previousCredential": recorded(1, Some("c1"))});
    let planned = |phase: &str, answer: Option<bool>| {
        let objects = [credential(1, Some("c1")), credential(2, Some("c2"))].concat();
        let mut case = Case::new(status(phase, &old), objects);
        case.answer = answer;
        let plan = case.plan();
        let of_v1 = plan.children().map(c5c3_kit::Child::reference).filter(|child| child.name.ends_with("-v1"));
        let kinds: Vec<String> = of_v1.map(|child| child.resource.kind).collect();
        (kinds.join(" "), plan.status["phase"].as_str().unwrap().to_owned())
    };
    assert_eq!(planned("Grace", None).0, "Secret ApplicationCredential");
    assert_eq!(planned("Revoking", None), ("Secret".into(), "Revoking".into()));
    assert_eq!(planned("VerifyingRevoked", Some(true)), ("Secret".into(), "VerifyingRevoked".into()));
    assert_eq!(planned("VerifyingRevoked", Some(false)), ("Secret".into(), "Idle".into()));
}

#[test]
fn a_lost_status_goes_on_with_both_credentials() {
    let objects = [credential(1, Some("c1")), credential(2, Some("c2"))].concat();
    let plan = Case::new(Value::Null, objects).plan();
    assert_eq!((&plan.status["phase"], &plan.status["nextCredential"]["version"]), (&json!("Delivering"), &json!(2)));
    assert_eq!(plan.status["currentCredential"]["version"], 1);
}

#[test]
fn changed_roles_and_a_lost_secret_ask_for_another_credential() {
    let idle = json!({"currentCredential": recorded(1, Some("c1"))});
    let mut case = Case::new(status("Idle", &idle), credential(1, Some("c1")));
    assert_eq!(case.phase(), "Idle");
    case.spec["roles"] = json!(["service-role"]);
    assert_eq!((case.phase(), &case.plan().status["reason"]), ("Creating".into(), &json!("Outdated")));
    let kept = case.plan().children().any(|child| child.object.data["spec"]["resource"]["roleRefs"].is_array());
    assert!(!kept, "the one that exists cannot be changed");
    case.spec["roles"] = json!([]);
    case.objects.retain(|object| object["metadata"]["name"] != "heron-app-credential-v1" || object["kind"] != "Secret");
    assert_eq!(case.phase(), "Creating");
}

#[test]
fn no_plan_says_a_secret_in_its_status_or_events() {
    for case in [verifying(consumer("c2", true)), verifying(consumer("c1", false))] {
        let plan = case.plan();
        let said = format!("{} {:?} {}", Value::Object(plan.status.clone()), plan.events, plan.golden());
        for hidden in ["still-water", "reed-bed", "owl-feather"] {
            assert!(!said.contains(hidden), "{hidden}");
        }
    }
}

#[test]
fn a_user_that_cannot_sign_in_is_said() {
    let mut case = Case::new(Value::Null, []);
    case.objects.retain(|object| object["metadata"]["name"] != "heron-service-password");
    let (controller, inputs) = case.inputs();
    let Verdict::Wait(waits) = controller.validate(&inputs) else { panic!() };
    let said: Vec<String> = waits.iter().map(|wait| wait.message(Some("cloud"))).collect();
    assert_eq!(
        said,
        [
            "secret/heron-service-password does not exist; application credentials are made by the user itself, with its password"
        ]
    );
}
