//! What pods are given after they are created, and what their RuntimeClass gives them.

use serde_json::{Value, json};

use super::Api;

const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(name: &str) -> Value {
    let container = json!({"name": "app", "image": "app:1"});
    json!({"metadata": {"name": name}, "spec": {"automountServiceAccountToken": false, "containers": [container]}})
}

async fn start() -> Api {
    let api = Api::start().await;
    api.until("/api/v1/namespaces/default/serviceaccounts/default", |(code, _)| *code == 200).await;
    api
}

#[tokio::test]
async fn an_ephemeral_container_is_added_by_its_subresource_alone() {
    let api = start().await;
    assert_eq!(api.post(PODS, &pod("web")).await.0, 201);
    let path = format!("{PODS}/web/ephemeralcontainers");
    let debugger =
        json!({"name": "debugger", "image": "busybox", "stdin": true, "tty": true, "targetContainerName": "app"});
    let patch = json!({"spec": {"ephemeralContainers": [debugger]}, "metadata": {"labels": {"no": "business"}}});

    let (code, refused) = api.patch(&format!("{PODS}/web"), &patch).await;
    assert_eq!(code, 422, "{refused}");
    let (code, patched) = api.patch(&path, &patch).await;
    assert_eq!(code, 200, "{patched}");
    let added = &patched["spec"]["ephemeralContainers"][0];
    assert_eq!((&added["name"], &added["terminationMessagePolicy"]), (&json!("debugger"), &json!("File")));
    assert_eq!((&patched["metadata"]["labels"], &patched["metadata"]["generation"]), (&Value::Null, &json!(2)));

    let (_, mut read) = api.get(&path).await;
    read["spec"]["ephemeralContainers"].as_array_mut().unwrap().push(json!({"name": "second", "image": "busybox"}));
    read["spec"]["containers"][0]["image"] = json!("another:1");
    let (code, updated) = api.put(&path, &read).await;
    assert_eq!((code, &updated["spec"]["containers"][0]["image"]), (200, &json!("app:1")), "{updated}");
    assert_eq!(updated["spec"]["ephemeralContainers"].as_array().unwrap().len(), 2);

    let mut fewer = updated.clone();
    fewer["spec"]["ephemeralContainers"].as_array_mut().unwrap().remove(0);
    let (code, refused) = api.put(&path, &fewer).await;
    let why = "existing ephemeral containers \"debugger\" may not be removed";
    assert!(code == 422 && refused["message"].as_str().unwrap().contains(why), "{refused}");
    api.0.stop().await;
}

#[tokio::test]
async fn a_pods_generation_counts_the_changes_of_its_specification_and_its_status_says_which_it_is_about() {
    let api = start().await;
    let mut asked = pod("web");
    asked["metadata"]["generation"] = json!(100);
    assert_eq!(api.post(PODS, &asked).await.1["metadata"]["generation"], 1);
    let path = format!("{PODS}/web");
    let binding = json!({"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "oak"}});
    assert_eq!(api.post(&format!("{path}/binding"), &binding).await.0, 201);
    let bound = api.get(&path).await.1;
    assert_eq!(bound["metadata"]["generation"], 1, "a node is given, not asked for");
    let scheduled = &bound["status"]["conditions"][0];
    assert_eq!((&scheduled["type"], &scheduled["observedGeneration"]), (&json!("PodScheduled"), &json!(1)));

    let labelled = api.patch(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await.1;
    assert_eq!(labelled["metadata"]["generation"], 1);
    let changed = api.patch(&path, &json!({"spec": {"activeDeadlineSeconds": 600}})).await.1;
    assert_eq!(
        (&changed["metadata"]["generation"], &changed["status"]["observedGeneration"]),
        (&json!(2), &Value::Null)
    );
    let conditions = json!([{"type": "Ready", "status": "True", "observedGeneration": 2}]);
    let seen = json!({"status": {"observedGeneration": 2, "conditions": conditions}});
    let (code, seen) = api.patch(&format!("{path}/status?fieldValidation=Strict"), &seen).await;
    assert_eq!((code, &seen["metadata"]["generation"]), (200, &json!(2)), "{seen}");
    let kept = api.get(&path).await.1;
    let ready = kept["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Ready").unwrap();
    assert_eq!((&kept["status"]["observedGeneration"], &ready["observedGeneration"]), (&json!(2), &json!(2)));

    assert_eq!(api.delete(&path).await, 200);
    let going = api.get(&path).await.1;
    assert_eq!(
        (&going["metadata"]["generation"], &going["metadata"]["deletionGracePeriodSeconds"]),
        (&json!(3), &json!(30))
    );
    api.0.stop().await;
}

#[tokio::test]
async fn an_ephemeral_container_is_held_to_the_standard_of_its_namespace() {
    let api = start().await;
    assert_eq!(api.post(PODS, &pod("web")).await.0, 201);
    let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}});
    assert_eq!(api.patch("/api/v1/namespaces/default", &labels).await.0, 200);
    let add = |privileged: bool| {
        let context = json!({"privileged": privileged});
        json!({"spec": {"ephemeralContainers": [{"name": "debugger", "image": "busybox", "securityContext": context}]}})
    };
    let path = format!("{PODS}/web/ephemeralcontainers");
    let (code, refused) = api.patch(&path, &add(true)).await;
    assert!(code == 403 && refused["message"].as_str().unwrap().contains("violates PodSecurity"), "{refused}");
    assert_eq!(api.patch(&path, &add(false)).await.0, 200);
    api.0.stop().await;
}

#[tokio::test]
async fn a_pod_follows_its_runtime_class_and_one_that_does_not_exist_is_refused() {
    let api = start().await;
    let named = |name: &str| {
        let mut pod = pod(name);
        pod["spec"]["runtimeClassName"] = json!("kata");
        pod
    };
    let (code, refused) = api.post(PODS, &named("early")).await;
    assert_eq!(code, 403);
    assert_eq!(refused["message"], r#"pods "early" is forbidden: pod rejected: RuntimeClass "kata" not found"#);
    let class = json!({
        "metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"runtime": "kata"}},
    });
    assert_eq!(api.post("/apis/node.k8s.io/v1/runtimeclasses", &class).await.0, 201);
    let (code, made) = api.post(PODS, &named("late")).await;
    assert_eq!((code, &made["spec"]["overhead"]), (201, &json!({"cpu": "250m"})), "{made}");
    assert_eq!(made["spec"]["nodeSelector"], json!({"runtime": "kata"}));
    api.0.stop().await;
}
