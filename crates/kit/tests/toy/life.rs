//! From creation on, as long as the object is wanted.

use serde_json::{Value, json};

use crate::bench::{Bench, deployment, key, lines, press};

#[tokio::test]
async fn a_new_object_gets_its_finalizer_and_says_what_it_waits_for() {
    let bench = Bench::start();
    bench.api.put(&press(3));
    bench.until_reason("WaitingForSecret").await;

    let writes = bench.writes();
    assert_eq!(
        lines(&writes),
        [
            "PATCH merge /apis/toy.example.org/v1/namespaces/orchard/presss/cider",
            "PATCH apply /apis/toy.example.org/v1/namespaces/orchard/presss/cider/status?force=true&fieldManager=press-operator",
        ]
    );
    let version = &writes[0].body["metadata"]["resourceVersion"];
    let finalizers = json!(["toy.example.org/press-cleanup"]);
    assert_eq!(writes[0].body, json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}}));
    assert!(
        writes[0].body["metadata"]["resourceVersion"].is_string(),
        "an unconditional patch could drop another's finalizer"
    );

    let waiting = "secret/cider-key does not exist; the press is locked with it";
    assert_eq!(
        timeless(&writes[1].body),
        json!({
            "apiVersion": "toy.example.org/v1", "kind": "Press",
            "metadata": {"name": "cider", "namespace": "orchard", "uid": uid(&bench)},
            "status": {
                "observedGeneration": 1,
                "waitingFor": [{"object": "secret/cider-key", "condition": "exists", "reason": "WaitingForSecret",
                                "because": "the press is locked with it (does not exist)"}],
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "WaitingForSecret", "message": waiting, "observedGeneration": 1},
                    {"type": "Progressing", "status": "True", "reason": "Installing", "message": waiting, "observedGeneration": 1},
                    {"type": "Degraded", "status": "False", "reason": "Installing", "message": "", "observedGeneration": 1},
                    {"type": "ConfigReady", "status": "Unknown", "reason": "NotObserved", "message": "not observed yet"},
                    {"type": "DeploymentReady", "status": "Unknown", "reason": "NotObserved", "message": "not observed yet"},
                ],
            },
        })
    );
    assert!(bench.metrics.text().contains(r#"c5c3_waits{controller="press",reason="WaitingForSecret"} 1"#));
}

#[tokio::test]
async fn children_are_applied_step_by_step_and_the_object_becomes_ready() {
    let bench = Bench::start();
    bench.api.put(&key());
    bench.api.put(&press(3));
    bench.until_reason("WaitingForDeployment").await;

    let writes = bench.writes();
    let applied: Vec<String> = lines(&writes).into_iter().filter(|line| !line.contains("presss")).collect();
    let config = config_name(&bench);
    assert_eq!(
        applied[..3],
        [
            format!("PATCH apply /api/v1/namespaces/orchard/secrets/{config}?force=true&fieldManager=press-operator"),
            "PATCH apply /api/v1/namespaces/cellar/configmaps/cider-note?force=true&fieldManager=press-operator".into(),
            "PATCH apply /apis/apps/v1/namespaces/orchard/deployments/cider?force=true&fieldManager=press-operator"
                .into(),
        ]
    );
    let uid = bench.api.get(&press(0)).unwrap()["metadata"]["uid"].clone();
    let sent = writes.iter().find(|write| write.path.contains("deployments/cider")).unwrap();
    assert_eq!(
        sent.body["metadata"],
        json!({
            "name": "cider", "namespace": "orchard",
            "labels": {"app.kubernetes.io/managed-by": "press-operator", "c5c3.io/owner-uid": uid},
            "annotations": {"c5c3.io/owner": "Press/orchard/cider"},
            "ownerReferences": [{"apiVersion": "toy.example.org/v1", "kind": "Press", "name": "cider", "uid": uid,
                                 "controller": true, "blockOwnerDeletion": true}],
        })
    );
    let config = writes.iter().find(|write| write.path.contains("/secrets/")).unwrap();
    assert_eq!(
        (&config.body["immutable"], &config.body["data"]),
        // "[press]\nkey = sesame\nspeed = 3\n"
        (&json!(true), &json!({"press.conf": "W3ByZXNzXQprZXkgPSBzZXNhbWUKc3BlZWQgPSAzCg=="}))
    );
    assert_eq!(config.body["metadata"]["labels"]["c5c3.io/base"], "cider-config");
    let note_sent = writes.iter().find(|write| write.path.contains("cider-note")).unwrap();
    // Without an owner reference, which cannot cross namespaces.
    assert_eq!(
        note_sent.body,
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"speed": "3"},
            "metadata": {
                "name": "cider-note", "namespace": "cellar",
                "labels": {"app.kubernetes.io/managed-by": "press-operator", "c5c3.io/owner-uid": uid},
                "annotations": {"c5c3.io/owner": "Press/orchard/cider"},
            },
        })
    );
    assert_eq!(
        sent.body["spec"],
        json!({
            "replicas": 1, "selector": {"matchLabels": {"press": "cider"}},
            "template": {
                "metadata": {"labels": {"press": "cider"}},
                "spec": {"containers": [{"name": "press", "image": "press:1"}],
                         "volumes": [{"name": "config", "secret": {"secretName": config_name(&bench)}}]},
            },
        })
    );

    bench.roll_out();
    bench.until_reason("Ready").await;
    let last = bench.writes().into_iter().rfind(|write| write.path.contains("/status")).unwrap();
    assert_eq!(
        timeless(&last.body),
        json!({
            "apiVersion": "toy.example.org/v1", "kind": "Press",
            "metadata": {"name": "cider", "namespace": "orchard", "uid": uid},
            "status": {
                "speed": 3,
                "observedGeneration": 1,
                "conditions": [
                    {"type": "Ready", "status": "True", "reason": "Ready", "message": "everything is ready", "observedGeneration": 1},
                    {"type": "Progressing", "status": "False", "reason": "Ready", "message": "everything is ready", "observedGeneration": 1},
                    {"type": "Degraded", "status": "False", "reason": "Ready", "message": "everything is ready", "observedGeneration": 1},
                    {"type": "ConfigReady", "status": "True", "reason": "Done", "message": "written", "observedGeneration": 1},
                    {"type": "DeploymentReady", "status": "True", "reason": "Done", "message": "running", "observedGeneration": 1},
                ],
            },
        })
    );
}

#[tokio::test]
async fn fields_and_conditions_that_others_write_stay_theirs() {
    let bench = Bench::ready().await;
    let mut press_now = bench.api.get(&press(0)).unwrap();
    press_now["status"]["theirs"] = json!("kept");
    press_now["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "DependenciesReady", "status": "True"}));
    bench.api.put(&press_now);
    bench.api.put(&press(-1));
    bench.until_reason("InvalidSpec").await;
    bench.api.put(&press(4));
    bench.until_reason("WaitingForDeployment").await;
    assert_eq!(bench.status()["theirs"], "kept");
    assert_eq!(bench.condition("DependenciesReady")["status"], "True");
    for write in bench.writes() {
        assert!(write.body["status"].get("theirs").is_none(), "we never write what is not ours");
    }
}

#[tokio::test]
async fn nothing_is_written_when_nothing_changed() {
    let bench = Bench::ready().await;
    // Of two reconciles, the second began when nothing else was under way any more.
    repaint(&bench, "green").await;
    repaint(&bench, "red").await;
    let before = bench.api.version();
    bench.writes();
    repaint(&bench, "blue").await;
    repaint(&bench, "white").await;
    assert_eq!(bench.api.version(), before + 2, "the two labels and nothing else: no status, no event, no child");
    assert_eq!(lines(&bench.writes()), Vec::<String>::new(), "unchanged children are not applied again");
}

/// Gives the Press a label that means nothing to the controller, and waits for the reconcile that it starts all the same.
async fn repaint(bench: &Bench, colour: &str) {
    let before = bench.reconciles();
    let mut painted = press(0);
    painted["metadata"]["labels"] = json!({"colour": colour});
    bench.api.put(&painted);
    bench.api.wait_until("the press is looked at again", |_| bench.reconciles() > before).await;
}

#[tokio::test]
async fn a_changed_spec_makes_a_new_configuration_and_keeps_the_old_one_for_a_rollback() {
    let bench = Bench::ready().await;
    let old = config_name(&bench);
    bench.api.put(&press(5));
    bench.until_reason("WaitingForDeployment").await;
    bench.roll_out();
    bench.until_reason("Ready").await;
    let new = config_name(&bench);
    assert_ne!(old, new);
    for name in [old, new] {
        assert!(bench.api.get(&secret(&name)).is_some(), "{name} is kept");
    }
    assert_eq!(bench.condition("Ready")["observedGeneration"], 2);
}

#[tokio::test]
async fn only_the_last_few_configurations_are_kept() {
    let bench = Bench::ready().await;
    let mut names = vec![config_name(&bench)];
    for speed in 10..16 {
        bench.api.put(&press(speed));
        bench.until_reason("WaitingForDeployment").await;
        bench.roll_out();
        bench.until_reason("Ready").await;
        names.push(config_name(&bench));
    }
    bench
        .api
        .wait_until("older ones are gone", |api| {
            names.iter().filter(|name| api.get(&secret(name)).is_some()).count() <= 4
        })
        .await;
    assert!(bench.api.get(&secret(names.last().unwrap())).is_some());
}

#[tokio::test]
async fn an_invalid_spec_is_reported_once_and_leaves_the_children_alone() {
    let bench = Bench::ready().await;
    let before = bench.api.get(&deployment());
    bench.api.put(&press(-1));
    bench.until_reason("InvalidSpec").await;
    assert_eq!(bench.condition("Ready")["message"], "spec.speed: -1 is too slow; use 1 or more");
    assert_eq!(bench.condition("DeploymentReady")["status"], "True", "the last good configuration keeps running");
    assert_eq!(bench.status()["speed"], 3);
    let writes = bench.writes();
    assert_eq!(writes.len(), 1, "only the status is written: {:?}", lines(&writes));
    assert_eq!(
        timeless(&writes[0].body),
        json!({
            "apiVersion": "toy.example.org/v1", "kind": "Press",
            "metadata": {"name": "cider", "namespace": "orchard", "uid": uid(&bench)},
            "status": {
                "speed": 3,
                "observedGeneration": 2,
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "InvalidSpec",
                     "message": "spec.speed: -1 is too slow; use 1 or more", "observedGeneration": 2},
                    {"type": "Progressing", "status": "False", "reason": "Ready", "message": "everything is ready", "observedGeneration": 1},
                    {"type": "Degraded", "status": "False", "reason": "Ready", "message": "everything is ready", "observedGeneration": 1},
                    {"type": "ConfigReady", "status": "True", "reason": "Done", "message": "written", "observedGeneration": 1},
                    {"type": "DeploymentReady", "status": "True", "reason": "Done", "message": "running", "observedGeneration": 1},
                ],
            },
        })
    );
    assert_eq!(bench.api.get(&deployment()), before);
}

#[tokio::test]
async fn an_object_that_does_not_parse_is_reported_on_and_stalls_nothing() {
    let bench = Bench::ready().await;
    bench.api.put(&json!({"apiVersion": "toy.example.org/v1", "kind": "Press",
        "metadata": {"name": "broken", "namespace": "orchard"}, "spec": {"speed": "fast"}}));
    let broken = json!({"apiVersion": "toy.example.org/v1", "kind": "Press", "metadata": {"name": "broken", "namespace": "orchard"}});
    bench
        .api
        .wait_until("the broken one says so", |api| {
            api.get(&broken).is_some_and(|press| press["status"]["conditions"][0]["reason"] == "InvalidSpec")
        })
        .await;
    bench.api.put(&press(7));
    bench.until_reason("WaitingForDeployment").await;
}

#[tokio::test]
async fn a_lost_dependency_is_told_and_leaves_the_children_alone() {
    let bench = Bench::ready().await;
    bench.api.delete(&key());
    bench.until_reason("WaitingForSecret").await;
    assert!(bench.api.get(&deployment()).is_some());
    assert_eq!(bench.condition("DeploymentReady")["status"], "True");
    bench.api.put(&key());
    bench.until_reason("Ready").await;
}

#[tokio::test]
async fn a_foreign_object_of_the_same_name_is_never_taken_over() {
    let bench = Bench::start();
    let mut foreign = deployment();
    foreign["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "helm"});
    bench.api.put(&foreign);
    bench.api.put(&key());
    bench.api.put(&press(3));
    bench.until_reason("ForeignObject").await;
    let message = bench.condition("Ready")["message"].clone();
    assert_eq!(
        message,
        "deployment/cider already exists and is managed by helm; \
         give one of the two another name, or delete it if nothing uses it"
    );
    let untouched = bench.api.get(&deployment()).unwrap();
    assert_eq!(untouched["metadata"]["labels"], json!({"app.kubernetes.io/managed-by": "helm"}));
    assert!(untouched.get("spec").is_none());
}

#[tokio::test]
async fn what_happens_again_is_counted_in_the_event_that_told_of_it_first() {
    let bench = Bench::ready().await;
    for _ in 0..3 {
        bench.api.put(&press(-1));
        bench.until_reason("InvalidSpec").await;
        bench.api.put(&press(3));
        bench.until_reason("Ready").await;
    }
    let events = bench.events("InvalidSpec", |events| events.iter().any(|event| event["series"]["count"] == 3)).await;
    assert_eq!(events.len(), 1, "{events:#?}");
    assert_eq!(events[0]["note"], "spec.speed: -1 is too slow; use 1 or more");
    assert_eq!((&events[0]["type"], &events[0]["regarding"]["name"]), (&json!("Warning"), &json!("cider")));
    assert!(events[0]["series"]["lastObservedTime"].is_string());
}

#[tokio::test]
async fn no_secret_is_in_an_event_or_a_status() {
    let bench = Bench::start();
    bench.api.put(&key());
    bench.api.put(&press(3));
    bench.until_reason("WaitingForDeployment").await;
    bench.roll_out();
    bench.until_reason("Ready").await;
    for write in bench.api.take_writes().into_iter().filter(|write| !write.path.contains("/secrets/")) {
        let text = write.body.to_string();
        assert!(!text.contains("sesame") && !text.contains("c2VzYW1l"), "{}: {text}", write.path);
    }
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "orchard"}})
}

fn config_name(bench: &Bench) -> String {
    let deployment = bench.api.get(&deployment()).unwrap();
    let volumes = &deployment["spec"]["template"]["spec"]["volumes"];
    volumes[0]["secret"]["secretName"].as_str().unwrap().to_owned()
}

fn uid(bench: &Bench) -> Value {
    bench.api.get(&press(0)).unwrap()["metadata"]["uid"].clone()
}

/// A body without its times, which must be there.
fn timeless(body: &Value) -> Value {
    let mut body = body.clone();
    for condition in body["status"]["conditions"].as_array_mut().unwrap() {
        assert!(condition.as_object_mut().unwrap().remove("lastTransitionTime").is_some());
    }
    for wait in body["status"].get_mut("waitingFor").and_then(Value::as_array_mut).into_iter().flatten() {
        assert!(wait.as_object_mut().unwrap().remove("since").is_some());
    }
    body
}
