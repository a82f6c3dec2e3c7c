//! RabbitmqCluster, Vhost, User and Permission.

use c5c3_api::ext::rabbitmq::{IMPORT_LABEL, Permission, RabbitmqCluster, User, Vhost};
use c5c3_harness::Fault;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::management::Management;
use crate::stage::Stage;

#[expect(clippy::needless_pass_by_value, reason = "a test writes it down where it is used")]
fn cluster(spec: Value) -> Value {
    json!({"apiVersion": "rabbitmq.com/v1beta1", "kind": "RabbitmqCluster", "metadata": {"name": "burrow"}, "spec": spec})
}

fn topology(kind: &str, name: &str, mut spec: Value) -> Value {
    spec["rabbitmqClusterReference"] = json!({"connectionSecret": {"name": "elsewhere"}});
    json!({"apiVersion": "rabbitmq.com/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// A stage with a broker that is known by a Secret.
async fn with_broker() -> (Stage, Management) {
    let (stage, broker) = (Stage::set().await, Management::start().await);
    stage
        .create::<Secret>(json!({
            "metadata": {"name": "elsewhere"},
            "stringData": {"uri": broker.url, "username": "bugs", "password": "bunny"},
        }))
        .await;
    (stage, broker)
}

#[tokio::test]
async fn a_cluster_has_the_objects_secrets_and_status_of_the_genuine_operator() {
    let stage = Stage::set().await;
    stage.create::<RabbitmqCluster>(cluster(json!({"replicas": 3}))).await;
    let ready: RabbitmqCluster = stage.ready("burrow").await;
    let status = ready.status.expect("a status");
    assert_eq!(status.binding.expect("a binding").name, "burrow-default-user");
    assert_eq!(status.quorum_status.as_deref(), Some("ok"));

    let user = stage.secret("burrow-default-user").await;
    let (name, password) = (&user["username"], &user["password"]);
    assert!(name.starts_with("default_user_") && password.len() >= 24);
    assert_eq!((user["host"].as_str(), user["port"].as_str()), ("burrow.default.svc", "5672"));
    assert_eq!((user["provider"].as_str(), user["type"].as_str()), ("rabbitmq", "rabbitmq"));
    assert_eq!(user["connection_string"], format!("amqp://{name}:{password}@burrow.default.svc:5672/"));
    assert_eq!(user["default_user.conf"], format!("default_user = {name}\ndefault_pass = {password}\n"));
    assert!(stage.secret("burrow-erlang-cookie").await[".erlang.cookie"].len() >= 20);

    let services = stage.api::<Service>().list(&ListParams::default()).await.unwrap();
    let names: Vec<_> = services.iter().map(ResourceExt::name_any).filter(|name| name.starts_with("burrow")).collect();
    assert_eq!(names, ["burrow", "burrow-nodes"]);
    let brokers = stage.api::<StatefulSet>().get("burrow-server").await.unwrap();
    assert_eq!(brokers.spec.unwrap().replicas, Some(3));
}

#[tokio::test]
async fn passwords_are_made_once_whatever_goes_wrong_and_go_with_the_cluster() {
    let stage = Stage::set().await;
    stage.cluster.inject(Fault::lose_answer().to("patch", "/secrets/burrow-default-user"));
    stage.cluster.inject(Fault::answer(500).to("patch", "/statefulsets").times(2));
    stage.cluster.inject(Fault::answer(409).to("patch", "/rabbitmqclusters").times(2));
    stage.create::<RabbitmqCluster>(cluster(json!({}))).await;
    stage.ready::<RabbitmqCluster>("burrow").await;
    let before = stage.secret("burrow-default-user").await;
    stage.cluster.drop_watches();
    stage
        .change::<RabbitmqCluster>("burrow", json!({"spec": {"rabbitmq": {"additionalConfig": "channel_max = 7"}}}))
        .await;
    let told = |map: Option<&ConfigMap>| map.is_some_and(|map| format!("{:?}", map.data).contains("channel_max = 7"));
    stage.eventually::<ConfigMap>("burrow-server-conf", told).await;
    stage.ready::<RabbitmqCluster>("burrow").await;
    assert_eq!(stage.secret("burrow-default-user").await, before);

    stage.delete::<RabbitmqCluster>("burrow").await;
    stage.eventually::<StatefulSet>("burrow-server", |set: Option<&StatefulSet>| set.is_none()).await;
    stage.eventually::<Secret>("burrow-default-user", |secret: Option<&Secret>| secret.is_none()).await;
}

#[tokio::test]
async fn a_cluster_grows_and_is_never_shrunk() {
    let stage = Stage::set().await;
    stage.create::<RabbitmqCluster>(cluster(json!({"replicas": 1}))).await;
    stage.ready::<RabbitmqCluster>("burrow").await;
    let template = |set: StatefulSet| set.spec.map(|spec| spec.template);
    let before = template(stage.api::<StatefulSet>().get("burrow-server").await.unwrap());
    stage.change::<RabbitmqCluster>("burrow", json!({"spec": {"replicas": 3}})).await;
    stage.ready::<RabbitmqCluster>("burrow").await;
    let after = stage.api::<StatefulSet>().get("burrow-server").await.unwrap();
    assert_eq!(template(after), before, "the first member is not restarted");
    stage.change::<RabbitmqCluster>("burrow", json!({"spec": {"replicas": 1}})).await;
    stage.not_ready::<RabbitmqCluster>("burrow", "UnsupportedOperation").await;
    let after = stage.api::<StatefulSet>().get("burrow-server").await.unwrap();
    assert_eq!(after.spec.unwrap().replicas, Some(3));
}

#[tokio::test]
async fn an_object_of_somebody_else_is_left_alone_and_named() {
    let stage = Stage::set().await;
    let theirs = json!({"metadata": {"name": "burrow-server-conf"}, "data": {"a": "b"}});
    stage.create::<ConfigMap>(theirs).await;
    stage.create::<RabbitmqCluster>(cluster(json!({}))).await;
    let why = stage.not_ready::<RabbitmqCluster>("burrow", "ForeignObject").await;
    assert!(why.contains("configmap/burrow-server-conf"), "{why}");
    let map = stage.api::<ConfigMap>().get("burrow-server-conf").await.unwrap();
    assert_eq!(map.data.unwrap().into_keys().collect::<Vec<_>>(), ["a"]);
}

#[tokio::test]
async fn virtual_hosts_users_and_permissions_are_made_in_the_broker_and_taken_away_again() {
    let (stage, broker) = with_broker().await;
    stage
        .create::<Permission>(topology(
            "Permission",
            "may",
            json!({
                "vhost": "/carrots", "userReference": {"name": "hare"},
                "permissions": {"configure": ".*", "write": ".*", "read": ".*"},
            }),
        ))
        .await;
    stage.not_ready::<Permission>("may", "FailedCreateOrUpdate").await;
    let vhost = json!({"name": "/carrots", "defaultQueueType": "quorum"});
    stage.create::<Vhost>(topology("Vhost", "carrots", vhost)).await;
    stage.create::<User>(topology("User", "hare", json!({"tags": ["monitoring"]}))).await;
    stage.ready::<Vhost>("carrots").await;
    let user: User = stage.ready("hare").await;
    stage.ready::<Permission>("may").await;

    let status = user.status.unwrap();
    assert_eq!(status.credentials.unwrap().name, "hare-user-credentials");
    let own = stage.secret("hare-user-credentials").await;
    assert_eq!(own["username"], status.username);
    let (name, password) = (&own["username"], &own["password"]);
    broker.was_asked(r#"PUT /api/vhosts/%2Fcarrots {"default_queue_type":"quorum"}"#).await;
    broker.was_asked(&format!(r#"PUT /api/users/{name} {{"password":"{password}","tags":"monitoring"}}"#)).await;
    broker
        .was_asked(&format!(r#"PUT /api/permissions/%2Fcarrots/{name} {{"configure":".*","read":".*","write":".*"}}"#))
        .await;

    stage.delete::<Permission>("may").await;
    stage.delete::<User>("hare").await;
    stage.delete::<Vhost>("carrots").await;
    let deleted: Vec<_> = broker.asked().into_iter().filter(|asked| asked.starts_with("DELETE")).collect();
    let expected = [
        format!("DELETE /api/permissions/%2Fcarrots/{name}"),
        format!("DELETE /api/users/{name}"),
        "DELETE /api/vhosts/%2Fcarrots".to_owned(),
    ];
    assert_eq!(deleted, expected);
}

#[tokio::test]
async fn a_password_that_is_given_is_followed_when_it_changes() {
    let (stage, broker) = with_broker().await;
    let given = json!({"metadata": {"name": "given"}, "stringData": {"username": "nova", "password": "first"}});
    stage.create::<Secret>(given).await;
    let user = topology("User", "nova", json!({"importCredentialsSecret": {"name": "given"}}));
    stage.create::<User>(user).await;
    let why = stage.not_ready::<User>("nova", "FailedCreateOrUpdate").await;
    assert!(why.contains(IMPORT_LABEL.0), "{why}");
    stage.change::<Secret>("given", json!({"metadata": {"labels": {IMPORT_LABEL.0: IMPORT_LABEL.1}}})).await;
    let user: User = stage.ready("nova").await;
    assert_eq!(user.status.unwrap().username, "nova");
    broker.was_asked(r#"PUT /api/users/nova {"password":"first","tags":""}"#).await;
    stage.change::<Secret>("given", json!({"stringData": {"password": "second"}})).await;
    broker.was_asked(r#"PUT /api/users/nova {"password":"second","tags":""}"#).await;
    let copies = stage.api::<Secret>().get_opt("nova-user-credentials").await.unwrap();
    assert!(copies.is_none(), "what is given is not copied");
}

#[tokio::test]
async fn what_is_to_be_kept_stays_and_a_broker_that_is_gone_holds_nothing_up() {
    let (stage, broker) = with_broker().await;
    let kept = json!({"name": "kept", "deletionPolicy": "retain"});
    stage.create::<Vhost>(topology("Vhost", "kept", kept)).await;
    stage.ready::<Vhost>("kept").await;
    stage.delete::<Vhost>("kept").await;
    assert!(!broker.asked().iter().any(|asked| asked.starts_with("DELETE")), "{:#?}", broker.asked());

    let mut nowhere = topology("Vhost", "nowhere", json!({"name": "x"}));
    nowhere["spec"]["rabbitmqClusterReference"] = json!({"name": "nobody"});
    stage.create::<Vhost>(nowhere).await;
    let why = stage.not_ready::<Vhost>("nowhere", "FailedCreateOrUpdate").await;
    assert!(why.contains("nobody is not there"), "{why}");
    stage.delete::<Vhost>("nowhere").await;
}
