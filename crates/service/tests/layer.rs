//! What the layer makes of a description: several databases and brokers, components of every kind, migrations in order. The
//! service is made up; its kind is Nova's, which has most of what a service can have.

use c5c3_api::openstack::Nova;
use c5c3_kit::ini::{Ini, IniError};
use c5c3_kit::{Operator, Plan};
use c5c3_service::component::{Component, Kind};
use c5c3_service::database::Server;
use c5c3_service::identity::Identity;
use c5c3_service::job::Command;
use c5c3_service::messaging::Bus;
use c5c3_service::migrations::Migrations;
use c5c3_service::pod::Mount;
use c5c3_service::wsgi::Wsgi;
use c5c3_service::{BackingServices, Description, Instance, Service, ServiceController};
use c5c3_stage::{World, file, secret};
use serde_json::{Value, json};

/// Birds, and who feeds them.
#[derive(Clone, Copy, Debug)]
struct Aviary;

impl Service for Aviary {
    type Kind = Nova;
    const NAME: &'static str = "aviary";
    const MANAGER: &'static str = "aviary-operator";
    const CONDITIONS: &'static [&'static str] = &[
        "DependenciesReady",
        "SecretsReady",
        "DatabaseReady",
        "MessagingReady",
        "ConfigReady",
        "DeploymentReady",
        "FeederReady",
        "KeystoneAuthReady",
        "APIReady",
    ];
    const FINALIZER: &'static str = "c5c3.io/aviary-cleanup";
    const CONF: &'static str = "aviary.conf";
    const FOLDER: &'static str = "/etc/aviary";

    fn describe(nova: &Nova, instance: &Instance) -> Description {
        let main = Server::new(instance, None).schema("aviary_cell0");
        let far: c5c3_api::blocks::Database = serde_json::from_value(
            json!({"host": "db.example.net", "database": "birds", "secretRef": {"name": "birds-db"}}),
        )
        .unwrap();
        let cells = nova.spec.cells.iter().map(|cell| {
            let (name, command) = (format!("conductor-{}", cell.name), ["/opt/aviary/bin/aviary-conductor"]);
            Component::worker(name, &command).condition("FeederReady")
        });
        let manage = |what: &str| Command::new(&["/opt/aviary/bin/aviary-manage", "db", what]);
        Description {
            databases: vec![main, Server::new(instance, Some(&far)).named("birds", "spec.birds.database")],
            messaging: vec![Bus::new(instance, nova.spec.messaging.as_ref())],
            identity: Some(Identity::new(instance, nova.spec.keystone.as_ref())),
            components: vec![
                Component::worker("feeder", &["/opt/aviary/bin/aviary-feeder"]).condition("FeederReady"),
                Component::api(Wsgi::new("aviary", "aviary.wsgi:application", 8444)).replicas(2),
                Component::worker("nest", &["/opt/aviary/bin/aviary-nest"])
                    .kind(Kind::StatefulSet { claims: Vec::new() })
                    .mount(Mount::claim("eggs", "eggs", "/var/lib/aviary")),
                Component::worker("perch", &["/opt/aviary/bin/aviary-perch"])
                    .kind(Kind::DaemonSet)
                    .mount(Mount::host_path("sockets", "/run/aviary", "/run/aviary")),
            ]
            .into_iter()
            .chain(cells)
            .collect(),
            migrations: Migrations {
                install: vec![manage("sync")],
                before: vec![manage("expand")],
                after: vec![manage("online")],
                sections: &["database", "birds_database"],
                ..Migrations::default()
            },
            ..Description::default()
        }
    }

    fn configure(_: &Nova, backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError> {
        backing.database_section(conf, "database", "aviary")?;
        backing.database_section(conf, "birds_database", "birds")?;
        backing.buses.iter().try_for_each(|bus| bus.configure(conf))?;
        backing.authtoken(conf)
    }
}

fn world() -> World<Aviary> {
    World::with_all(vec![
        secret("birds-db", &[("username", "birds"), ("password", "w0rms")]),
        secret("aviary-rabbitmq-credentials", &[("username", "aviary"), ("password", "chirp")]),
    ])
}

fn aviary(status: &Value) -> Value {
    let mut object = World::<Aviary>::object(&json!({"image": {"repository": "example.net/aviary", "tag": "2.0.0"}}));
    object["status"] = status.clone();
    object
}

fn plan(world: &World<Aviary>, status: &Value) -> Plan {
    world.plan(&aviary(status)).unwrap()
}

/// Every step with what it needs, and its children.
fn outline(plan: &Plan) -> String {
    let mut lines = Vec::new();
    for step in &plan.steps {
        lines.push(format!("{}: {}", step.condition, step.node.as_ref().unwrap()));
        lines.extend(step.children.iter().map(|child| format!("  {}", child.reference().short())));
    }
    lines.join("\n")
}

#[test]
fn a_service_with_several_databases_a_broker_and_components_of_every_kind() {
    insta::assert_snapshot!(outline(&plan(&world(), &json!({}))));
}

#[test]
fn every_database_and_broker_is_in_the_configuration_and_decides_about_readiness() {
    let plan = plan(&world(), &json!({}));
    let conf = file(&plan, "gate-config", "aviary.conf");
    for line in [
        "connection = mysql+pymysql://gatekeeper:db%24$ecret%2F1@mariadb-primary",
        "connection = mysql+pymysql://birds:w0rms@db.example.net:3306/birds?charset=utf8",
        "transport_url = rabbit://aviary:chirp@rabbitmq-server-0.rabbitmq-nodes.cloud.svc.cluster.local:5672/gate",
    ] {
        assert!(conf.contains(&line.replace("$ecret", "ecret")), "{line}\n{conf}");
    }
    let checks = |name: &str| {
        let health: Value = serde_json::from_str(&file(&plan, "gate-config", name)).unwrap();
        health["checks"].as_array().unwrap().len()
    };
    assert_eq!(
        (checks("health.json"), checks("health-feeder.json")),
        (2, 3),
        "an API can do without a broker for a while"
    );
}

#[test]
fn jobs_that_change_schemas_are_of_one_group_and_connect_to_external_servers_first() {
    let plan = plan(&world(), &json!({}));
    let job = plan.children().find(|child| child.reference().name.starts_with("gate-db-sync")).unwrap();
    assert_eq!(job.object.metadata.labels.as_ref().unwrap()["c5c3.io/job-group"], "schema");
    let pod = &job.object.data["spec"]["template"]["spec"];
    assert_eq!(pod["initContainers"][0]["name"], "reach-birds");
    let policy = plan.children().find(|child| child.reference().name == "gate-jobs").unwrap();
    let ports = policy.object.data["spec"]["egress"].to_string();
    assert!(ports.contains("3306") && ports.contains("5672") && ports.contains("5000"), "{ports}");
}

#[test]
fn a_component_for_each_cell_has_a_step_of_its_own() {
    let mut object = aviary(&json!({}));
    object["spec"]["cells"] = json!([{"name": "east"}, {"name": "west"}]);
    let plan = world().plan(&object).unwrap();
    let of_step = |name: &str| {
        let step = plan.steps.iter().find(|step| step.node.as_ref().is_some_and(|node| node.name == name)).unwrap();
        step.children.iter().map(|child| child.reference().short()).collect::<Vec<_>>()
    };
    assert!(of_step("conductor-east").contains(&"deployment/gate-conductor-east".to_owned()), "{}", outline(&plan));
    assert!(!of_step("conductor-west").contains(&"deployment/gate-conductor-east".to_owned()), "{}", outline(&plan));
}

#[test]
fn an_upgrade_replaces_components_one_after_the_other() {
    let upgrading =
        json!({"installedRelease": "1.0.0", "targetRelease": "2.0.0", "upgradePhase": "Expanding", "conditions": []});
    let needs = |status: &Value, name: &str| {
        let plan = plan(&world(), status);
        let step = plan.steps.iter().find(|step| step.node.as_ref().unwrap().name == name).unwrap().clone();
        step.node.unwrap().needs.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert!(needs(&upgrading, "api").contains("feeder") && needs(&upgrading, "nest").contains("api"));
    assert!(!needs(&json!({}), "api").contains("feeder"), "they start together");
}

#[test]
fn what_is_missing_of_one_part_keeps_all_others_as_they_are() {
    let plan = plan(&world().without("rabbitmq"), &json!({}));
    let step = |name: &str| plan.steps.iter().find(|step| step.node.as_ref().unwrap().name == name).unwrap();
    assert_eq!(step("messaging").waits[0].reason(), "WaitingForRabbitMQ");
    assert_eq!(step("database").children.len(), 5, "the database waits for no broker");
    for name in ["config", "schema", "feeder", "api", "nest", "perch"] {
        assert_eq!(step(name).decision, c5c3_kit::plan::Decision::Undecided, "{name}");
    }
}

#[test]
fn a_release_that_was_recorded_outlives_a_lost_status() {
    let record = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gate-release", "namespace": "cloud"},
                        "data": {"installed": "3.0.0"}});
    let refused = world().with(record).plan(&aviary(&json!({}))).unwrap_err();
    assert!(refused.contains("is older than 3.x"), "{refused}");
    assert!(world().plan(&aviary(&json!({}))).is_ok());
}

#[test]
fn the_layer_is_a_controller() {
    let operator = Operator::new(Aviary::MANAGER).controller(ServiceController::<Aviary>::default);
    assert_eq!(operator.kinds().len(), 1);
}

/// The Secret of an account that a CredentialRotation has made.
fn account(name: &str, username: &str) -> Value {
    secret(name, &[("username", username), ("password", &format!("{username}-word"))])
}

/// The Secret that the service reads while its accounts are rotated: the one in use, all that have to exist, those revoked.
fn rotated(name: &str, username: &str, kept: &str, revoked: &str) -> Value {
    let mut target = account(name, username);
    target["metadata"]["annotations"] = json!({"c5c3.io/accounts": kept, "c5c3.io/revoked-accounts": revoked});
    target
}

/// A world in which the accounts of the database and of the broker are rotated, with these objects on the servers.
fn rotating(active: &str, kept: [&str; 2], revoked: &str, objects: &[&Value]) -> World<Aviary> {
    let of = |prefix: &str, which: &str| {
        let names = which.split_whitespace().map(|one| format!("{prefix}-{one}"));
        names.collect::<Vec<_>>().join(",")
    };
    let kept = kept.join(" ");
    let mut world = world();
    for (prefix, target, first) in
        [("db", "aviary-db-credentials", "heron"), ("mq", "aviary-rabbitmq-credentials", "egret")]
    {
        let username = |which: &str| if which == "v1" { first.to_owned() } else { format!("{first}-b") };
        world = world.with(rotated(target, &username(active), &of(prefix, &kept), &of(prefix, revoked)));
        for which in ["v1", "v2"] {
            world = world.with(account(&format!("{prefix}-{which}"), &username(which)));
        }
    }
    objects.iter().fold(world, |world, object| world.with((*object).clone()))
}

fn on_servers(plan: &Plan) -> Vec<String> {
    let kinds = ["User", "Grant", "Permission"];
    let all = plan.children().filter(|child| kinds.contains(&child.resource.kind.as_str()));
    let mut all: Vec<String> =
        all.map(|child| format!("{} {}", child.resource.group, child.reference().short())).collect();
    all.sort();
    all
}

fn states(plan: &Plan) -> Vec<String> {
    let all = plan.status.get("accounts").and_then(Value::as_array).cloned().unwrap_or_default();
    all.iter().map(|one| format!("{}={}", one["secret"].as_str().unwrap(), one["state"].as_str().unwrap())).collect()
}

#[test]
fn accounts_that_are_rotated_exist_side_by_side_each_with_a_password_of_its_own() {
    let world = rotating("v1", ["v1", "v2"], "", &[]);
    let plan = plan(&world, &json!({}));
    let made = on_servers(&plan);
    assert_eq!(made.iter().filter(|name| name.contains("k8s.mariadb.com user/")).count(), 2, "{made:#?}");
    assert_eq!(made.iter().filter(|name| name.contains("k8s.mariadb.com grant/")).count(), 4, "{made:#?}");
    assert_eq!(made.iter().filter(|name| name.contains("rabbitmq.com user/")).count(), 2, "{made:#?}");
    assert_eq!(made.iter().filter(|name| name.contains("rabbitmq.com permission/")).count(), 2, "{made:#?}");
    let passwords = plan.children().filter(|child| child.resource.kind == "User").map(|child| {
        let spec = &child.object.data["spec"];
        let secret = [&spec["passwordSecretKeyRef"]["name"], &spec["importCredentialsSecret"]["name"]];
        secret.iter().find_map(|name| name.as_str()).unwrap().to_owned()
    });
    assert_eq!(passwords.collect::<Vec<_>>(), ["db-v1", "db-v2", "mq-v1", "mq-v2"]);
    assert_eq!(states(&plan), ["db-v1=Pending", "db-v2=Pending", "mq-v1=Pending", "mq-v2=Pending"]);
}

#[test]
fn an_account_that_is_revoked_leaves_its_server_and_is_tried_when_it_is_gone() {
    let both = plan(&rotating("v2", ["v1", "v2"], "", &[]), &json!({}));
    let live: Vec<Value> = both
        .children()
        .filter(|child| ["User", "Grant", "Permission"].contains(&child.resource.kind.as_str()))
        .map(|child| {
            let mut live = serde_json::to_value(&child.object).unwrap();
            live["apiVersion"] = child.resource.api_version.clone().into();
            live["kind"] = child.resource.kind.clone().into();
            live["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
            live
        })
        .collect();
    let is_of = |object: &Value, user: &str| {
        let names = both.children().find(|child| {
            child.resource.kind == object["kind"].as_str().unwrap()
                && child.reference().name == object["metadata"]["name"]
        });
        names.unwrap().object.data["spec"].to_string().contains(user)
    };
    let all: Vec<&Value> = live.iter().collect();
    let available = plan(&rotating("v2", ["v1", "v2"], "", &all), &json!({}));
    assert_eq!(states(&available)[..2], ["db-v1=Available", "db-v2=Available"], "pods have not rolled");
    let tried = |plan: &Plan| {
        let settings = file(plan, "gate-accounts", "accounts.json");
        let settings: Vec<Value> = serde_json::from_str(&settings).unwrap();
        let one = |one: &Value| format!("{} {}", one["secret"].as_str().unwrap(), one["accepted"]);
        settings.iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!(tried(&available), ["db-v2 true", "mq-v2 true"]);

    let leaving = plan(&rotating("v2", ["v2", ""], "v1", &all), &json!({}));
    assert_eq!(on_servers(&leaving).len(), 5, "{:#?}", on_servers(&leaving));
    assert_eq!(states(&leaving), ["db-v2=Available", "db-v1=Revoking", "mq-v2=Available", "mq-v1=Revoking"]);
    assert!(!leaving.children().any(|child| child.reference().name.starts_with("gate-accounts")));

    let newer = |object: &&&Value| is_of(object, "heron-b") || is_of(object, "mq-v2");
    let kept: Vec<&Value> = all.iter().filter(newer).copied().collect();
    let deleted = plan(&rotating("v2", ["v2", ""], "v1", &kept), &json!({}));
    assert_eq!(states(&deleted)[1], "db-v1=Revoked", "{:?}", states(&deleted));
    assert!(tried(&deleted).contains(&"db-v1 false".to_owned()), "{:?}", tried(&deleted));
    let says = format!("{} {:?}", Value::Object(deleted.status.clone()), deleted.events);
    assert!(!says.contains("heron-b-word"), "{says}");
}
