//! The programs that act in Nova have users of their own, with one role and a credential that cannot make further ones.

use std::collections::BTreeSet;

use c5c3_kit::{Child, Plan, Step};
use serde_json::{Value, json};

use crate::paper::{lab, made, plan, plan_with, secret, waits};

/// The users of programs, and the Secrets that their credentials are delivered in.
const HYPERVISOR: (&str, &str) = ("hypervisor-operator", "hypervisor-operator-clouds-yaml");
const HA: (&str, &str) = ("ha-operator", "ha-operator-clouds-yaml");
const CORTEX: (&str, &str) = ("cortex", "cortex-clouds-yaml");
const ALL: [(&str, &str); 3] = [HYPERVISOR, HA, CORTEX];

/// What a cloud with Nova and Cortex has, with changes to it.
fn compute(change: &Value) -> Value {
    let mut spec = json!({
        "services": {"keystone": {}, "glance": {}, "placement": {}, "nova": {}, "neutron": {}},
        "cortex": {"enabled": true},
    });
    for (field, value) in change.as_object().unwrap() {
        if value.is_null() {
            spec.as_object_mut().unwrap().remove(field);
        } else {
            spec[field] = value.clone();
        }
    }
    lab(&spec)
}

fn of<'a>(plan: &'a Plan, kind: &str) -> Vec<&'a Child> {
    plan.children().filter(|child| child.resource.kind == kind).collect()
}

fn find<'a>(plan: &'a Plan, kind: &str, name: &str) -> Option<&'a Value> {
    let found = of(plan, kind).into_iter().find(|child| child.reference().name == name);
    found.map(|child| &child.object.data["spec"])
}

fn step<'a>(plan: &'a Plan, name: &str) -> &'a Step {
    plan.steps.iter().find(|step| step.node.as_ref().is_some_and(|node| node.name.as_str() == name)).unwrap()
}

/// The programs that have a rotation in a plan.
fn programs(plan: &Plan) -> Vec<&'static str> {
    let has = |user: &str| find(plan, "CredentialRotation", &format!("{user}-rotation")).is_some();
    ALL.iter().map(|(user, _)| *user).filter(|user| has(user)).collect()
}

#[test]
fn each_program_has_a_user_with_the_role_admin_alone_and_a_restricted_credential_in_a_secret_of_its_own() {
    let plan = plan(&compute(&json!({})), &[]).unwrap();
    for (user, secret) in ALL {
        let object = format!("{user}-service-user");
        let made = find(&plan, "User", &object).unwrap_or_else(|| panic!("{user} has no user"));
        assert_eq!(made["resource"]["name"], user);
        assert_eq!(made["resource"]["defaultProjectRef"], "service-project");
        assert_eq!(made["resource"]["passwordRef"], format!("{user}-service-password"));

        let roles: Vec<(&Value, &Value)> = of(&plan, "RoleAssignment")
            .into_iter()
            .map(|child| &child.object.data["spec"]["resource"])
            .filter(|resource| resource["userRef"] == object.as_str())
            .map(|resource| (&resource["roleRef"], &resource["projectRef"]))
            .collect();
        assert_eq!(roles, [(&json!("admin-role"), &json!("service-project"))], "{user}");

        let rotation = find(&plan, "CredentialRotation", &format!("{user}-rotation")).unwrap();
        assert_eq!(rotation["targetServiceUser"], object.as_str());
        assert_eq!(rotation["targetSecretRef"], json!({ "name": secret }));
        assert_eq!(rotation["rotationType"], "applicationCredential");
        assert_eq!(rotation["roles"], json!(["admin-role"]), "{user}: one that is assigned later would be missing");
        assert_eq!(rotation["unrestricted"], Value::Null, "{user} could make credentials that outlive a rotation");
    }
}

#[test]
fn each_credential_is_a_node_of_its_own_that_holds_up_no_service() {
    let plan = plan(&compute(&json!({})), &[]).unwrap();
    for (user, _) in ALL {
        let name = format!("credentials-{user}");
        let step = step(&plan, &name);
        assert_eq!(step.condition, "CredentialsReady");
        assert_eq!(step.node.as_ref().unwrap().needs, ["keystone", "korc"]);
        let kinds: BTreeSet<&str> = step.children.iter().map(|child| child.resource.kind.as_str()).collect();
        assert_eq!(kinds, BTreeSet::from(["CredentialRotation", "RoleAssignment", "Secret", "User"]), "{user}");
        let needs = plan.steps.iter().filter_map(|step| step.node.as_ref()).flat_map(|node| &node.needs);
        assert!(!needs.into_iter().any(|need| need.as_str() == name), "something waits for {name}");
    }
}

#[test]
fn they_come_with_what_they_act_on_and_go_with_it() {
    let made = |change: Value| programs(&plan(&compute(&change), &[]).unwrap());
    assert_eq!(made(json!({})), ["hypervisor-operator", "ha-operator", "cortex"]);
    assert_eq!(made(json!({"cortex": null})), ["hypervisor-operator", "ha-operator"]);
    let without_nova = json!({"services": {"keystone": {}, "placement": {}}, "cortex": null});
    assert_eq!(made(without_nova), Vec::<&str>::new());
}

/// Not every cloud runs these programs, and without K-ORC's kinds the ControlPlane makes no credential for anything.
#[test]
fn without_korc_none_is_made_and_none_is_waited_for() {
    let own = ["glance", "placement", "nova", "neutron"].map(|service| format!("{service}-keystone-credentials"));
    let keys = ["application_credential_id", "application_credential_secret"];
    let there: Vec<Value> = own.iter().map(|name| secret(name, &keys)).collect();
    let plan = plan(&compute(&json!({"korc": {"enabled": false}})), &there).unwrap();
    assert_eq!(programs(&plan), Vec::<&str>::new());
    let said = waits(&plan);
    assert!(!said.iter().any(|wait| wait.starts_with("credentials-")), "{said:?}");
}

#[test]
fn a_service_user_of_the_spec_changes_the_one_of_a_program() {
    let users = |user: Value| json!({"identity": {"keystone": {"bootstrap": {"serviceUsers": [user]}}}});
    let changed = users(json!({"name": "ha-operator", "project": "watch", "roles": ["manager", "reader"]}));
    let plan_of = |change: &Value| plan(&compute(change), &[]).unwrap();
    let changed = plan_of(&changed);
    let names: Vec<String> = of(&changed, "User").iter().map(|user| user.reference().name).collect();
    assert_eq!(names.iter().filter(|name| *name == "ha-operator-service-user").count(), 1, "{names:?}");
    let roles: Vec<&Value> = of(&changed, "RoleAssignment")
        .into_iter()
        .map(|child| &child.object.data["spec"]["resource"])
        .filter(|resource| resource["userRef"] == "ha-operator-service-user")
        .collect();
    assert_eq!(roles.iter().map(|role| &role["roleRef"]).collect::<Vec<_>>(), ["manager-role", "reader-role"]);
    assert!(roles.iter().all(|role| role["projectRef"] == "watch-project"), "{roles:?}");

    let off = users(json!({"name": "ha-operator", "applicationCredential": {"enabled": false}}));
    let off = plan_of(&off);
    assert_eq!(programs(&off), ["hypervisor-operator", "cortex"]);
    let said = waits(&off);
    let wait = said.iter().find(|wait| wait.starts_with("credentials-ha-operator: ")).unwrap();
    assert!(wait.contains("applicationCredential.enabled of its user is false"), "{wait}");
    assert!(wait.contains("create secret generic ha-operator-clouds-yaml -n cellar --from-file=clouds.yaml"), "{wait}");
}

/// A user of that name that no program signs in as is a user like any other.
#[test]
fn a_service_user_with_the_name_of_a_program_that_is_switched_off_is_made_all_the_same() {
    let users = json!([{"name": "cortex"}, {"name": "tempest"}]);
    let spec = json!({"cortex": null, "identity": {"keystone": {"bootstrap": {"serviceUsers": users}}}});
    let plan = plan(&compute(&spec), &[]).unwrap();
    let names = step(&plan, "credentials-others")
        .children
        .iter()
        .filter(|child| child.resource.kind == "User")
        .map(|user| user.reference().name);
    assert_eq!(names.collect::<Vec<_>>(), ["cortex-service-user", "tempest-service-user"]);
    let rotation = find(&plan, "CredentialRotation", "cortex-rotation").unwrap();
    assert_eq!(rotation["targetSecretRef"], Value::Null, "nothing reads the Secret of the program");
}

#[test]
fn the_user_of_a_program_goes_after_what_it_acts_in_and_after_its_credential() {
    let without_nova = json!({"services": {"keystone": {}, "placement": {}}, "cortex": null});
    let nova = made("nova.openstack.c5c3.io/v1alpha1", "Nova", "nova");
    let cortex = made("cortex.c5c3.io/v1alpha1", "Cortex", "cortex");
    let rows = [
        ("hypervisor-operator", &nova, &without_nova),
        ("ha-operator", &nova, &without_nova),
        ("cortex", &cortex, &json!({"cortex": null})),
    ];
    for (user, acts_in, off) in rows {
        let own = [
            made("openstack.k-orc.cloud/v1alpha1", "User", &format!("{user}-service-user")),
            made("c5c3.io/v1alpha1", "CredentialRotation", &format!("{user}-rotation")),
        ];
        let name = format!("credentials-{user}");
        let leaving = |there: &[Value], own: &[Value]| plan_with(&compute(off), there, own).unwrap();
        let said =
            |plan: &Plan| step(plan, &name).waits.iter().map(|wait| wait.message(Some("cellar"))).collect::<String>();

        let used = leaving(std::slice::from_ref(acts_in), &own);
        let object = acts_in["metadata"]["name"].as_str().unwrap();
        assert!(said(&used).starts_with(&format!("{object}/{object} is still being deleted; ")), "{}", said(&used));
        assert!(step(&used, &name).released.is_empty() && step(&used, &name).children.is_empty(), "{user}");

        let unused = leaving(&[], &own);
        let released: Vec<String> = step(&unused, &name).released.iter().map(c5c3_kit::Ref::short).collect();
        assert_eq!(released, [format!("credentialrotation/{user}-rotation")]);
        assert!(said(&unused).contains("the user goes after its credential"), "{}", said(&unused));

        let revoked = leaving(&[], &own[..1]);
        assert!(revoked.removed_steps.iter().any(|removed| *removed == *name), "{user} stays for ever");
    }
}

/// A user that the ControlPlane names is kept, whatever its program does.
#[test]
fn the_user_of_a_program_that_is_switched_off_stays_where_it_is_named() {
    let users = json!([{"name": "cortex"}]);
    let spec = json!({"cortex": null, "identity": {"keystone": {"bootstrap": {"serviceUsers": users}}}});
    let own = [
        made("openstack.k-orc.cloud/v1alpha1", "User", "cortex-service-user"),
        made("c5c3.io/v1alpha1", "CredentialRotation", "cortex-rotation"),
    ];
    let plan = plan_with(&compute(&spec), &[], &own).unwrap();
    assert!(plan.removed_steps.iter().any(|removed| *removed == "credentials-cortex"));
    assert!(find(&plan, "CredentialRotation", "cortex-rotation").is_some(), "under another step");
}
