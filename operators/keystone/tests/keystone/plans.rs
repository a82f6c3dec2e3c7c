//! Plans in full, for objects as people write them.

use c5c3_kit::Plan;
use serde_json::{Value, json};

use crate::world::{World, example, file, keystone, secret, with_keys, world};

const SMALL: &str = include_str!("../../../../examples/keystone/keystone-small.yaml");
const FULL: &str = include_str!("../../../../examples/keystone/keystone-full.yaml");
const BROWNFIELD: &str = include_str!("brownfield.yaml");

fn plan(text: &str) -> Plan {
    with_keys(world()).plan(&example(text)).unwrap()
}

#[test]
fn the_plan_of_a_small_keystone() {
    insta::assert_snapshot!(plan(SMALL).golden());
}

#[test]
fn the_plan_of_a_keystone_with_everything() {
    insta::assert_snapshot!(plan(FULL).golden());
}

#[test]
fn the_plan_of_a_keystone_on_external_servers() {
    insta::assert_snapshot!(plan(BROWNFIELD).golden());
}

#[test]
fn the_files_of_a_keystone_with_everything() {
    let plan = plan(FULL);
    let files = ["keystone.conf", "policy.yaml", "uwsgi.ini", "entry.json", "health.json"];
    let text: Vec<String> = files.map(|name| format!("== {name}\n{}", file(&plan, "gate-config", name))).into();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn no_secret_is_in_anything_but_a_secret() {
    let plan = plan(FULL);
    let text = plan.golden();
    for value in ["db$ecret", "db%24ecret", "adm1n", "d1rectory", "ZGIkZWNyZXQ", "YWRtMW4"] {
        assert!(!text.contains(value), "{value}");
    }
    assert!(file(&plan, "gate-config", "keystone.conf").contains("user=gatekeeper&password=db%24ecret%2F1\n"));
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let wrong = keystone(&json!({
        "fernet": {"rotationSchedule": "* * * * *"},
        "extraConfig": {"token": {"expirations": "1"}, "database": {"connection": "sqlite://"}},
        "policyOverrides": {"rules": {"identity:list_user": "role:admin", "identity:get_user": "admin"}},
        "middleware": [{"name": "audit", "filterFactory": "x:y", "position": {"after": "admin_service"}}],
    }));
    insta::assert_snapshot!(world().plan(&wrong).unwrap_err());
}

#[test]
fn what_is_missing_is_waited_for_by_name_and_the_keys_do_not_wait() {
    let world = world().without("keystone-db-credentials").without("keystone-admin-credentials").without("mariadb");
    let plan = world.plan(&keystone(&json!({}))).unwrap();
    let waits: Vec<String> = plan
        .steps
        .iter()
        .flat_map(|step| step.waits.iter().map(|wait| format!("{}: {}", step.condition, wait.message(Some("cloud")))))
        .collect();
    insta::assert_snapshot!(waits.join("\n"));
    let keys = plan.steps.iter().find(|step| step.node.as_ref().unwrap().name == "keys").unwrap();
    assert!(keys.waits.is_empty() && !keys.children.is_empty());
    let deployment = plan.steps.iter().rfind(|step| step.condition == "DeploymentReady").unwrap();
    assert!(deployment.children.is_empty());
}

#[test]
fn a_keystone_that_runs_does_not_wait_for_others_to_be_ready() {
    let mut object = keystone(&json!({"dependsOn": [{"kind": "MariaDB", "name": "mariadb"}]}));
    let mut world = world();
    for one in &mut world.objects {
        if one["kind"] == "MariaDB" {
            one["status"]["conditions"][0]["status"] = "False".into();
        }
    }
    let waits = |plan: &Plan| plan.steps.iter().map(|step| step.waits.len()).sum::<usize>();
    // Beside those for MariaDB, one for the API to answer.
    assert!(waits(&world.plan(&object).unwrap()) > 1);
    object["status"] = json!({"installedRelease": "28.0.0", "conditions": []});
    assert_eq!(waits(&world.plan(&object).unwrap()), 1);
}

#[test]
fn an_api_that_not_everybody_may_reach_and_that_does_not_answer_may_be_out_of_reach() {
    let serving = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "gate-api", "namespace": "cloud"},
                         "spec": {}, "status": {"availableReplicas": 1}});
    let world = world().with(serving).answering(Err("no answer within 10 s".into()));
    let said = |policy: Value| {
        let plan = world.plan(&keystone(&json!({"networkPolicy": policy}))).unwrap();
        let health = plan.steps.iter().find(|step| step.condition == "KeystoneAPIReady").unwrap();
        health.waits[0].message(Some("cloud"))
    };
    let restricted = said(json!({"ingress": [{"cidr": "192.0.2.0/24"}]}));
    assert!(
        restricted.contains("no answer within 10 s") && restricted.contains("spec.networkPolicy.ingress"),
        "{restricted}"
    );
    for open in [json!({}), json!({"enabled": false, "ingress": [{"cidr": "192.0.2.0/24"}]})] {
        assert!(!said(open).contains("networkPolicy"));
    }
}

#[test]
fn addresses_are_let_in_beside_pods() {
    let pods = json!({"namespaceSelector": {"matchLabels": {"team": "identity"}}});
    let spec = json!({"networkPolicy": {"ingress": [pods, {"cidr": "192.0.2.0/24"}]}});
    let plan = world().plan(&keystone(&spec)).unwrap();
    let policies = plan.children().filter(|child| child.resource.kind == "NetworkPolicy");
    let policy = policies.into_iter().find(|child| child.reference().name == "gate-api").unwrap();
    assert_eq!(policy.object.data["spec"]["ingress"][0]["from"], json!([pods, {"ipBlock": {"cidr": "192.0.2.0/24"}}]));
}

#[test]
fn keys_that_cannot_be_read_are_left_for_a_user_to_correct() {
    let world = world().with(secret("gate-fernet-keys", &[("0", "torn")]));
    let plan = world.plan(&keystone(&json!({}))).unwrap();
    let keys = plan.steps.iter().find(|step| step.node.as_ref().unwrap().name == "keys").unwrap();
    assert!(keys.waits[0].failed, "{:?}", keys.waits);
    assert!(plan.children().all(|child| child.reference().name != "gate-fernet-keys"));
}

#[test]
fn keys_that_are_rotated_are_pushed_at_once() {
    const SINCE: &str = "keystone.openstack.c5c3.io/primary-since";
    let version = |since: &str| {
        let mut world = with_keys(world());
        for keys in world.objects.iter_mut().filter(|object| object["metadata"]["name"] == "gate-fernet-keys") {
            keys["metadata"]["annotations"] = json!({ SINCE: since });
        }
        let plan = world.plan(&keystone(&json!({"secretStoreRef": {"name": "vault"}}))).unwrap();
        let push = plan.children().find(|child| child.reference().name == "gate-fernet-keys-backup").unwrap();
        let annotations = push.object.metadata.annotations.clone().unwrap();
        annotations["c5c3.io/content-version"].clone()
    };
    let before = version("1=2025-12-01T00:00:00Z");
    assert_eq!(before, "1=2025-12-01T00:00:00Z");
    assert_ne!(version("1=2025-12-08T00:00:00Z"), before);
}

#[test]
fn a_backup_that_fails_is_said_beside_the_keys() {
    let said = |status: &str| {
        let ready = json!({"type": "Ready", "status": status, "reason": "Errored", "message": "permission denied"});
        let push = |purpose: &str| {
            json!({"apiVersion": "external-secrets.io/v1alpha1", "kind": "PushSecret",
            "metadata": {"name": format!("gate-{purpose}-keys-backup"), "namespace": "cloud", "generation": 1},
            "spec": {"secretStoreRefs": [], "selector": {}},
            "status": {"syncedResourceVersion": "1-0a", "conditions": [ready]}})
        };
        let world = with_keys(world()).with(push("fernet")).with(push("credential"));
        let plan = world.plan(&keystone(&json!({"secretStoreRef": {"name": "vault"}}))).unwrap();
        plan.steps.iter().find(|step| step.node.as_ref().unwrap().name == "keys").unwrap().done.clone()
    };
    let asked = with_keys(world()).plan(&keystone(&json!({"secretStoreRef": {"name": "vault"}}))).unwrap();
    let keys = asked.steps.iter().find(|step| step.node.as_ref().unwrap().name == "keys").unwrap();
    assert!(keys.done.contains("is External Secrets installed?"), "{}", keys.done);
    let failed = said("False");
    assert!(
        failed.contains("fernet: 2 keys, the primary is 1; they are not backed up: Errored: permission denied"),
        "{failed}"
    );
    assert!(!said("True").contains("backed up"));
}

#[test]
fn what_is_missing_for_the_configuration_holds_up_no_database_and_nothing_is_called_done_for_it() {
    let spec = json!({"policyOverrides": {"configMapRef": {"name": "lost"}}});
    let plan = with_keys(world()).plan(&keystone(&spec)).unwrap();
    let step = |name: &str| plan.steps.iter().find(|step| step.node.as_ref().unwrap().name == name).unwrap();
    assert_eq!(step("config").waits.len(), 1);
    assert_eq!(step("database").children.len(), 3);
    for name in ["schema", "bootstrap", "api"] {
        assert!(
            step(name).children.is_empty()
                && step(name).node.as_ref().unwrap().needs.iter().any(|need| *need == "config"),
            "{name}"
        );
    }
}

#[test]
fn keys_are_pushed_to_a_store_that_is_there() {
    let pushes = |world: &World, spec: &Value| {
        let plan = world.plan(&keystone(spec)).unwrap();
        plan.children()
            .filter(|child| child.resource.kind == "PushSecret")
            .map(|child| child.object.data["spec"].clone())
            .collect::<Vec<_>>()
    };
    let world = with_keys(world());
    assert!(pushes(&world, &json!({})).is_empty());
    let store = json!({"apiVersion": "external-secrets.io/v1", "kind": "ClusterSecretStore",
                       "metadata": {"name": "openbao-cluster-store"}, "spec": {"provider": {}}});
    let found = pushes(&world.clone().with(store), &json!({}));
    assert_eq!(found.len(), 2);
    assert_eq!(found[0]["data"][0]["match"]["remoteRef"]["remoteKey"], "openstack/keystone/cloud/gate/fernet-keys");
    let asked = pushes(&world, &json!({"secretStoreRef": {"name": "vault", "kind": "SecretStore"}}));
    assert_eq!(asked[0]["secretStoreRefs"][0], json!({"name": "vault", "kind": "SecretStore"}));
}
