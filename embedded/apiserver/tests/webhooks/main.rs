//! Admission webhooks, against a server in memory and webhooks that really listen.

mod conversion;
mod hook;
mod matching;

use std::time::{Duration, Instant};

use hook::{Cluster, Does, Hook, patched};
use http::Method;
use serde_json::{Value, json};

const TREE: &str = "/api/v1/namespaces/orchard/configmaps/tree";

#[tokio::test]
async fn a_mutating_webhook_changes_what_is_stored() {
    let (cluster, hook) = (
        Cluster::start().await,
        Hook::start(Does::Answer(patched(&json!([
            {"op": "add", "path": "/metadata/labels", "value": {"pruned": "yes"}},
            {"op": "replace", "path": "/metadata/uid", "value": "mine"},
            {"op": "add", "path": "/unknown", "value": 1},
        ]))))
        .await,
    );
    cluster.register("mutating", "m", &[hook.entry("a.example.com", json!({}))]).await;
    let created = cluster.plant("tree").await.created();
    assert_eq!(created["metadata"]["labels"], json!({"pruned": "yes"}));
    assert_ne!(created["metadata"]["uid"], "mine");
    assert_eq!(created.get("unknown"), None);
    assert_eq!(cluster.send(Method::GET, TREE, Value::Null).await.body, created);
    let asked = &hook.asked()[0];
    assert_eq!(asked["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert_eq!(asked["requestResource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
    assert_eq!((&asked["name"], &asked["namespace"]), (&json!("tree"), &json!("orchard")));
    assert_eq!((&asked["operation"], &asked["oldObject"]), (&json!("CREATE"), &Value::Null));
    assert_eq!((&asked["userInfo"]["username"], &asked["dryRun"]), (&json!("gardener"), &json!(false)));
    assert_eq!(asked["options"], json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}));
    assert_eq!(asked["object"]["kind"], "ConfigMap");
}

#[tokio::test]
async fn a_patch_may_be_a_list_of_numbers_as_kube_writes_it() {
    let patch = json!([{"op": "add", "path": "/metadata/labels", "value": {"pruned": "yes"}}]).to_string();
    let answer = json!({"allowed": true, "patchType": "JSONPatch", "patch": patch.as_bytes()});
    let (cluster, hook) = (Cluster::start().await, Hook::start(Does::Answer(answer)).await);
    cluster.register("mutating", "m", &[hook.entry("a.example.com", json!({}))]).await;
    assert_eq!(cluster.plant("tree").await.created()["metadata"]["labels"], json!({"pruned": "yes"}));
}

#[tokio::test]
async fn a_validating_webhook_refuses_in_its_own_words() {
    let cluster = Cluster::start().await;
    let status =
        json!({"code": 409, "reason": "Conflict", "message": "the season is over", "details": {"kind": "tree"}});
    let late =
        Hook::start(Does::Answer(json!({"allowed": false, "status": status, "warnings": ["it is winter"]}))).await;
    cluster.register("validating", "v", &[late.entry("late.example.com", json!({}))]).await;
    let refused = cluster.plant("tree").await;
    assert_eq!(
        (refused.code, &refused.body["reason"], &refused.body["details"]),
        (409, &json!("Conflict"), &json!({"kind": "tree"}))
    );
    assert_eq!(refused.message(), "admission webhook \"late.example.com\" denied the request: the season is over");
    assert_eq!(refused.warnings, ["299 - \"it is winter\""]);
    assert_eq!(cluster.send(Method::GET, TREE, Value::Null).await.code, 404);

    let mute = Hook::start(Does::Answer(json!({"allowed": false}))).await;
    cluster.register("validating", "w", &[mute.entry("mute.example.com", json!({}))]).await;
    let refused = cluster.plant("tree").await;
    let other = "admission webhook \"mute.example.com\" denied the request without explanation";
    assert!(
        refused.message().contains("the season is over") && refused.message().ends_with(other),
        "{}",
        refused.message()
    );
}

#[tokio::test]
async fn a_refusal_without_a_code_is_a_bad_request_and_a_validating_webhook_changes_nothing() {
    let cluster = Cluster::start().await;
    let mute = Hook::start(Does::Decide(|request| match request["name"].as_str() {
        Some("weed") => json!({"allowed": false}),
        Some("graft") => patched(&json!([{"op": "add", "path": "/metadata/labels", "value": {}}])),
        _ => json!({"allowed": true, "warnings": ["mind the bees", "mind the bees"]}),
    }))
    .await;
    cluster.register("validating", "v", &[mute.entry("mute.example.com", json!({}))]).await;
    let refused = cluster.plant("weed").await;
    assert_eq!((refused.code, refused.body.get("reason")), (400, None));
    let refused = cluster.plant("graft").await;
    assert_eq!(refused.code, 500);
    assert!(refused.message().ends_with("validating webhook may not return response.patch"), "{}", refused.message());
    let planted = cluster.plant("tree").await;
    assert_eq!((planted.code, planted.warnings), (201, vec!["299 - \"mind the bees\"".to_owned()]));
}

#[tokio::test]
async fn the_failure_policy_decides_about_webhooks_that_cannot_be_asked() {
    let cluster = Cluster::start().await;
    let hook = Hook::start(Does::Answer(json!({"allowed": true}))).await;
    let nowhere = json!({"url": "https://127.0.0.1:1/review", "caBundle": hook.ca});
    let entry = |policy| hook.entry("dead.example.com", json!({"clientConfig": nowhere, "failurePolicy": policy}));
    cluster.register("mutating", "m", &[entry("Ignore")]).await;
    cluster.register("validating", "v", &[entry("Ignore")]).await;
    cluster.plant("tree").await.created();
    cluster.register("validating", "w", &[entry("Fail")]).await;
    let failed = cluster.plant("bush").await;
    assert_eq!((failed.code, &failed.body["reason"]), (500, &json!("InternalError")));
    let expected = "Internal error occurred: failed calling webhook \"dead.example.com\": failed to call webhook: Post \"https://127.0.0.1:1/review?timeout=10s\": dial tcp 127.0.0.1:1: ";
    assert!(failed.message().starts_with(expected), "{}", failed.message());
}

#[tokio::test]
async fn a_webhook_is_trusted_by_its_bundle_and_by_nothing_else() {
    let (cluster, hook, other) = (
        Cluster::start().await,
        Hook::start(Does::Answer(json!({"allowed": true}))).await,
        Hook::start(Does::Answer(json!({"allowed": true}))).await,
    );
    let url = format!("https://127.0.0.1:{}", hook.port);
    for (namespace, config, why) in [
        ("foreign", json!({"url": url, "caBundle": other.ca}), "tls: "),
        ("bare", json!({"url": url}), "no caBundle"),
        ("broken", json!({"url": url, "caBundle": "bm90IHBlbQ=="}), "caBundle has no certificate"),
    ] {
        let labels = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
        let metadata = json!({"name": namespace, "labels": {"kubernetes.io/metadata.name": namespace}});
        cluster.send(Method::POST, "/api/v1/namespaces", json!({"metadata": metadata})).await.created();
        let entry = hook.entry("a.example.com", json!({"clientConfig": config, "namespaceSelector": labels}));
        cluster.register("validating", namespace, &[entry]).await;
        let failed = cluster.plant_in(namespace, json!({"name": "tree"})).await;
        assert_eq!(failed.code, 500);
        assert!(failed.message().contains(why), "{}", failed.message());
    }
    assert!(hook.asked().is_empty());
}

#[tokio::test]
async fn a_webhook_has_as_long_as_its_timeout_says() {
    let (cluster, slow) = (Cluster::start().await, Hook::start(Does::Dawdle(Duration::from_secs(30))).await);
    cluster.register("validating", "v", &[slow.entry("slow.example.com", json!({"timeoutSeconds": 1}))]).await;
    let began = Instant::now();
    let failed = cluster.plant("tree").await;
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(failed.code, 500);
    assert!(failed.message().ends_with("?timeout=1s\": context deadline exceeded"), "{}", failed.message());
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_is_a_failure() {
    for (does, why) in [
        (Does::Say("<html>"), "the answer is not JSON"),
        (Does::Say("{}"), "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview"),
        (
            Does::Say("{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1beta1\"}"),
            "got admission.k8s.io/v1beta1",
        ),
        (
            Does::Say("{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\"}"),
            "webhook response was absent",
        ),
        (Does::Answer(json!({"allowed": true, "uid": "another"})), "got \"another\""),
        (Does::Answer(json!({"allowed": "yes"})), "must be true or false"),
        (Does::Answer(json!({"allowed": true, "patch": "W10="})), "response.patch but not response.patchType"),
        (Does::Answer(json!({"allowed": true, "patch": "!", "patchType": "JSONPatch"})), "is not base64"),
        (Does::Answer(json!({"allowed": true, "patch": "W10=", "patchType": "Merge"})), "unsupported patch type"),
        (Does::Answer(patched(&json!([{"op": "remove", "path": "/absent"}]))), "Internal error occurred: "),
        (
            Does::Answer(patched(&json!([{"op": "replace", "path": "/metadata/namespace", "value": "other"}]))),
            "does not match",
        ),
    ] {
        let (cluster, hook) = (Cluster::start().await, Hook::start(does).await);
        cluster.register("mutating", "m", &[hook.entry("odd.example.com", json!({}))]).await;
        let failed = cluster.plant("tree").await;
        assert!(failed.code >= 400 && failed.message().contains(why), "{} {}", failed.code, failed.message());
    }
}

#[tokio::test]
async fn mutating_webhooks_see_what_those_before_them_did_and_some_look_again() {
    fn sees(request: &Value, mark: &str) -> Value {
        let seen = request["object"]["metadata"]["annotations"]["seen"].as_str().unwrap_or_default();
        patched(&json!([{"op": "add", "path": "/metadata/annotations", "value": {"seen": format!("{seen}{mark}")}}]))
    }
    let cluster = Cluster::start().await;
    let first = Hook::start(Does::Decide(|request| sees(request, "1"))).await;
    let second = Hook::start(Does::Decide(|request| sees(request, "2"))).await;
    let third = Hook::start(Does::Decide(|request| sees(request, "3"))).await;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    cluster.register("mutating", "b", &[third.entry("third.example.com", again.clone())]).await;
    let entries = [first.entry("first.example.com", again), second.entry("second.example.com", json!({}))];
    cluster.register("mutating", "a", &entries).await;
    let last = Hook::start(Does::Answer(json!({"allowed": true}))).await;
    cluster.register("validating", "v", &[last.entry("last.example.com", json!({}))]).await;
    let planted = cluster.plant("tree").await.created();
    assert_eq!(planted["metadata"]["annotations"]["seen"], "1231");
    assert_eq!(last.asked()[0]["object"]["metadata"]["annotations"]["seen"], "1231");
}

#[tokio::test]
async fn a_validating_webhook_is_not_asked_about_what_is_invalid() {
    let (cluster, hook) = (Cluster::start().await, Hook::start(Does::Answer(json!({"allowed": true}))).await);
    cluster.register("validating", "v", &[hook.entry("a.example.com", json!({}))]).await;
    assert_eq!(cluster.plant("Not A Name").await.code, 422);
    assert!(hook.asked().is_empty());
}

#[tokio::test]
async fn a_dry_run_is_announced_and_stores_nothing() {
    let (cluster, hook) = (Cluster::start().await, Hook::start(Does::Answer(json!({"allowed": true}))).await);
    cluster.register("validating", "v", &[hook.entry("a.example.com", json!({"sideEffects": "NoneOnDryRun"}))]).await;
    let path = "/api/v1/namespaces/orchard/configmaps?dryRun=All";
    cluster.send(Method::POST, path, json!({"metadata": {"name": "tree"}})).await.created();
    assert_eq!((&hook.asked()[0]["dryRun"], &hook.asked()[0]["options"]["dryRun"]), (&json!(true), &json!(["All"])));
    assert_eq!(cluster.send(Method::GET, TREE, Value::Null).await.code, 404);
}

#[tokio::test]
async fn a_deletion_can_be_refused_but_not_changed() {
    let cluster = Cluster::start().await;
    let guard =
        Hook::start(Does::Answer(json!({"allowed": false, "status": {"code": 403, "message": "it bears"}}))).await;
    cluster.plant("tree").await.created();
    let rules = |operation: &str| json!([{"operations": [operation], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]);
    cluster.register("validating", "v", &[guard.entry("guard.example.com", json!({"rules": rules("DELETE")}))]).await;
    for path in [TREE, "/api/v1/namespaces/orchard/configmaps"] {
        let refused = cluster.send(Method::DELETE, path, json!({"propagationPolicy": "Orphan"})).await;
        assert_eq!(refused.code, 403, "{path}");
    }
    let asked = &guard.asked()[0];
    assert_eq!((&asked["object"], &asked["oldObject"]["metadata"]["name"]), (&Value::Null, &json!("tree")));
    assert_eq!(
        (&asked["options"]["kind"], &asked["options"]["propagationPolicy"]),
        (&json!("DeleteOptions"), &json!("Orphan"))
    );
    assert_eq!(cluster.send(Method::GET, TREE, Value::Null).await.code, 200);
    let painter = Hook::start(Does::Answer(patched(&json!([{"op": "add", "path": "/data", "value": {}}])))).await;
    cluster.register("mutating", "m", &[painter.entry("painter.example.com", json!({"rules": rules("DELETE")}))]).await;
    let failed = cluster.send(Method::DELETE, TREE, Value::Null).await;
    assert_eq!(failed.code, 500);
    assert!(failed.message().contains("attempted to modify the object"), "{}", failed.message());
}

#[tokio::test]
async fn a_connection_can_be_refused() {
    let cluster = Cluster::start().await;
    let guard = Hook::start(Does::Answer(json!({"allowed": false, "status": {"message": "keep out"}}))).await;
    let rules =
        json!([{"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/attach"]}]);
    cluster.register("validating", "v", &[guard.entry("guard.example.com", json!({"rules": rules}))]).await;
    let path = |below: &str| format!("/api/v1/namespaces/orchard/pods/tree/{below}?container=bark&stdin=true");
    let refused = cluster.send(Method::POST, &path("attach"), Value::Null).await;
    assert_eq!(
        (refused.code, refused.message()),
        (400, "admission webhook \"guard.example.com\" denied the request: keep out")
    );
    let asked = &guard.asked()[0];
    let options = json!({"kind": "PodAttachOptions", "apiVersion": "v1", "container": "bark", "stdin": true});
    assert_eq!((&asked["object"], &asked["options"], &asked["oldObject"]), (&options, &Value::Null, &Value::Null));
    assert_eq!((&asked["kind"]["kind"], &asked["resource"]["resource"]), (&json!("PodAttachOptions"), &json!("pods")));
    assert_eq!((&asked["subResource"], &asked["name"]), (&json!("attach"), &json!("tree")));
    // Others are not asked about, and fail for what they lack.
    assert_eq!(cluster.send(Method::POST, &path("exec"), Value::Null).await.code, 404);
    assert_eq!(guard.asked().len(), 1);
}

#[tokio::test]
async fn what_the_server_itself_deletes_is_asked_about_and_tried_again_when_it_is_refused() {
    let cluster = Cluster::start().await;
    let hook = Hook::start(Does::Answer(json!({"allowed": false}))).await;
    let rules =
        json!([{"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"]}]);
    let maps = "/api/v1/namespaces/orchard/configmaps";
    cluster.register("validating", "v", &[hook.entry("a.example.com", json!({"rules": rules}))]).await;
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "no-one"}]);
    cluster.plant_in("orchard", json!({"name": "orphan", "ownerReferences": reference})).await.created();
    let deadline = Instant::now() + Duration::from_mins(1);
    while hook.names().len() < 3 {
        assert!(Instant::now() < deadline, "the collector asks again and again: {:?}", hook.names());
        tokio::task::yield_now().await;
    }
    let asked = &hook.asked()[0];
    assert_eq!(asked["userInfo"]["username"], "system:serviceaccount:kube-system:generic-garbage-collector");
    assert_eq!(cluster.send(Method::GET, &format!("{maps}/orphan"), Value::Null).await.code, 200);
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/v";
    cluster.send(Method::DELETE, path, Value::Null).await;
    while cluster.send(Method::GET, &format!("{maps}/orphan"), Value::Null).await.code == 200 {
        assert!(Instant::now() < deadline, "nothing changes, and it is deleted all the same");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn two_applies_that_find_an_object_missing_are_merged() {
    let (cluster, slow) = (Cluster::start().await, Hook::start(Does::Dawdle(Duration::from_millis(300))).await);
    cluster.register("mutating", "m", &[slow.entry("slow.example.com", json!({}))]).await;
    // Both wait for the webhook when they have found nothing.
    let (one, other) =
        tokio::join!(cluster.apply("a", "tree", json!({"a": "1"})), cluster.apply("b", "tree", json!({"b": "2"})));
    let mut codes = [one.code, other.code];
    codes.sort_unstable();
    assert_eq!(codes, [200, 201], "{} {}", one.body, other.body);
    assert_eq!(cluster.send(Method::GET, TREE, Value::Null).await.body["data"], json!({"a": "1", "b": "2"}));
}

#[tokio::test]
async fn nothing_outlives_a_namespace_that_goes_while_a_webhook_is_asked() {
    let (cluster, slow) = (Cluster::start().await, Hook::start(Does::Dawdle(Duration::from_millis(500))).await);
    cluster
        .register(
            "validating",
            "v",
            &[slow.entry(
                "slow.example.com",
                json!({"rules": [
        {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]}),
            )],
        )
        .await;
    let goes = async {
        while slow.asked().is_empty() {
            tokio::task::yield_now().await;
        }
        cluster.send(Method::DELETE, "/api/v1/namespaces/orchard", Value::Null).await.code
    };
    let (planted, deleted) = tokio::join!(cluster.plant("tree"), goes);
    assert_eq!(deleted, 200);
    assert!(matches!(planted.code, 403 | 404), "{}", planted.body);
    assert_eq!(cluster.send(Method::GET, TREE, Value::Null).await.code, 404);
}
