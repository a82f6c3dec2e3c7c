//! SecretAggregates against an API in memory.

use std::time::Duration;

use c5c3_kit::Settings;
use c5c3_kit::http::Readiness;
use c5c3_kit::metrics::Metrics;
use c5c3_kit::run::RunOptions;
use c5c3_kit::testing::FakeApi;
use c5c3_operator_controlplane::operator;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

struct Running {
    api: FakeApi,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn start(cross_namespace: bool) -> Running {
    let api = FakeApi::default();
    let client = api.client();
    let options =
        RunOptions { debounce: Duration::ZERO, first_retry: Duration::from_millis(2), ..RunOptions::default() };
    let task = tokio::spawn(async move {
        let settings = Settings { options, election: None };
        operator(cross_namespace)
            .run(client, settings, Metrics::default(), Readiness::default(), CancellationToken::new())
            .await;
    });
    Running { api, task }
}

fn aggregate(spec: &Value) -> Value {
    json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "SecretAggregate",
           "metadata": {"name": "bundle", "namespace": "cloud"}, "spec": spec})
}

fn secret(namespace: &str, name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "data": data})
}

async fn until_reason(api: &FakeApi, reason: &str) -> Value {
    let mut found = Value::Null;
    api.wait_until(&format!("Ready has reason {reason}"), |api| {
        let Some(object) = api.get(&aggregate(&Value::Null)) else { return false };
        let ready = object["status"]["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == "Ready");
        let Some(ready) = ready else { return false };
        found = ready.clone();
        ready["reason"] == reason && ready["observedGeneration"] == object["metadata"]["generation"]
    })
    .await;
    found
}

const SPEC: &str = r#"{"sources": [
    {"name": "db", "secretRef": {"name": "db-root"}, "keys": [{"sourceKey": "password", "targetKey": "DB_PASSWORD"}]},
    {"secretRef": {"name": "queue-user"}, "keys": ["username"]}],
  "target": {"name": "all-credentials"}}"#;

fn spec() -> Value {
    serde_json::from_str(SPEC).unwrap()
}

#[tokio::test]
async fn keys_of_several_secrets_become_one_and_follow_their_sources() {
    let running = start(false);
    let api = &running.api;
    api.put(&secret("cloud", "db-root", &json!({"password": "b25l", "unwanted": "eHh4"})));
    api.put(&secret("cloud", "queue-user", &json!({"username": "dHdv"})));
    api.put(&aggregate(&spec()));
    until_reason(api, "AllSourcesAvailable").await;
    let target = secret("cloud", "all-credentials", &Value::Null);
    assert_eq!(api.get(&target).unwrap()["data"], json!({"DB_PASSWORD": "b25l", "username": "dHdv"}));

    api.put(&secret("cloud", "db-root", &json!({"password": "dGhyZWU="})));
    api.wait_until("the target follows", |api| api.get(&target).unwrap()["data"]["DB_PASSWORD"] == "dGhyZWU=").await;
    assert!(api.get(&aggregate(&Value::Null)).unwrap()["status"]["lastAggregated"].is_string());
}

#[tokio::test]
async fn a_missing_source_is_named_and_the_old_target_stays() {
    let running = start(false);
    let api = &running.api;
    api.put(&secret("cloud", "db-root", &json!({"password": "b25l"})));
    api.put(&aggregate(&spec()));
    let ready = until_reason(api, "SourceMissing").await;
    assert_eq!(
        ready["message"],
        "secret/queue-user does not exist; spec.sources[1].secretRef names it; create it, or correct spec.sources[1]"
    );

    api.put(&secret("cloud", "queue-user", &json!({"username": "dHdv"})));
    until_reason(api, "AllSourcesAvailable").await;
    api.delete(&secret("cloud", "db-root", &Value::Null));
    let ready = until_reason(api, "SourceMissing").await;
    assert_eq!(
        ready["message"],
        "secret/db-root does not exist; spec.sources[0].secretRef names it; create it, or correct spec.sources[0]"
    );
    let target = api.get(&secret("cloud", "all-credentials", &Value::Null)).unwrap();
    assert_eq!(target["data"]["DB_PASSWORD"], "b25l");
}

#[tokio::test]
async fn a_missing_key_is_named() {
    let running = start(false);
    let api = &running.api;
    api.put(&secret("cloud", "db-root", &json!({"passwort": "b25l"})));
    api.put(&secret("cloud", "queue-user", &json!({"username": "dHdv"})));
    api.put(&aggregate(&spec()));
    let ready = until_reason(api, "KeyMissing").await;
    assert_eq!(
        ready["message"],
        "secret/db-root has no key password; spec.sources[0].keys names it; add the key to it, or correct spec.sources[0].keys"
    );
    assert_eq!(api.get(&secret("cloud", "all-credentials", &Value::Null)), None);
}

#[tokio::test]
async fn the_second_spelling_of_the_target_means_the_same() {
    let running = start(false);
    let api = &running.api;
    api.put(&secret("cloud", "queue-user", &json!({"username": "dHdv", "password": "Zm91cg=="})));
    api.put(&aggregate(&json!({"sources": [{"secretRef": {"name": "queue-user"}}], "target": {"secretName": "copy"}})));
    until_reason(api, "AllSourcesAvailable").await;
    let copy = api.get(&secret("cloud", "copy", &Value::Null)).unwrap();
    assert_eq!(copy["data"], json!({"username": "dHdv", "password": "Zm91cg=="}));
}

#[tokio::test]
async fn another_namespace_is_refused_unless_allowed_and_cleaned_up_when_it_was() {
    let spec = json!({"sources": [{"secretRef": {"name": "queue-user"}}], "target": {"name": "copy", "namespace": "elsewhere"}});
    let refused = start(false);
    refused.api.put(&aggregate(&spec));
    let ready = until_reason(&refused.api, "InvalidSpec").await;
    let message = ready["message"].as_str().unwrap();
    assert!(
        message.starts_with("spec.target.namespace: ") && message.ends_with("--allow-cross-namespace"),
        "{message}"
    );

    let allowed = start(true);
    let api = &allowed.api;
    api.put(&secret("cloud", "queue-user", &json!({"username": "dHdv"})));
    api.put(&aggregate(&spec));
    until_reason(api, "AllSourcesAvailable").await;
    let copy = secret("elsewhere", "copy", &Value::Null);
    assert!(api.get(&copy).is_some());
    api.delete(&aggregate(&Value::Null));
    api.wait_until("both are gone", |api| api.get(&copy).is_none() && api.get(&aggregate(&Value::Null)).is_none())
        .await;
}
