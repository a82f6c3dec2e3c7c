//! Custom resources whose versions only a webhook can tell from each other.

use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::hook::{Cluster, Does, Hook};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn trees(version: &str) -> String {
    format!("/apis/wood.example/{version}/namespaces/orchard/trees")
}

/// Version 1 has a height in metres, version 2 in centimetres.
fn convert(request: &Value) -> Value {
    let version = &request["desiredAPIVersion"];
    let converted = request["objects"].as_array().unwrap().iter().map(|object| {
        let mut object = object.clone();
        let spec = match (object["spec"]["metres"].as_i64(), object["spec"]["centimetres"].as_i64()) {
            (Some(metres), _) => json!({"centimetres": metres * 100}),
            (_, Some(centimetres)) => json!({"metres": centimetres / 100}),
            _ => json!({}),
        };
        object["apiVersion"] = version.clone();
        object["spec"] = spec;
        object
    });
    json!({"result": {"status": "Success"}, "convertedObjects": converted.collect::<Vec<_>>()})
}

fn versions(stored: &str) -> Value {
    let version = |name: &str, field: &str| {
        let spec = json!({"type": "object", "properties": {field: {"type": "integer"}}});
        json!({"name": name, "served": true, "storage": name == stored, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": spec}}}})
    };
    json!([version("v1", "metres"), version("v2", "centimetres")])
}

async fn grown(does: Does) -> (Cluster, Hook) {
    let (cluster, hook) = (Cluster::start().await, Hook::start(does).await);
    let client = json!({"url": format!("https://127.0.0.1:{}/convert", hook.port), "caBundle": hook.ca});
    let conversion =
        json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}});
    let names = json!({"kind": "Tree", "plural": "trees", "singular": "tree", "listKind": "TreeList"});
    let definition = json!({"metadata": {"name": "trees.wood.example"}, "spec": {
        "group": "wood.example", "scope": "Namespaced", "names": names, "versions": versions("v1"), "conversion": conversion}});
    cluster.send(Method::POST, DEFINITIONS, definition).await.created();
    // A definition is served as soon as its names are accepted.
    while cluster.send(Method::GET, &trees("v1"), Value::Null).await.code != 200 {
        tokio::task::yield_now().await;
    }
    (cluster, hook)
}

fn tree(name: &str, field: &str, height: i64) -> Value {
    json!({"metadata": {"name": name}, "spec": {field: height}})
}

#[tokio::test]
async fn an_object_is_read_and_written_in_every_version() {
    let (cluster, _hook) = grown(Does::Decide(convert)).await;
    cluster.send(Method::POST, &trees("v1"), tree("oak", "metres", 3)).await.created();
    let oak = |version: &str| format!("{}/oak", trees(version));
    let read = cluster.send(Method::GET, &oak("v2"), Value::Null).await.body;
    assert_eq!((&read["apiVersion"], &read["spec"]), (&json!("wood.example/v2"), &json!({"centimetres": 300})));
    let patched = cluster.send(Method::PATCH, &oak("v2"), json!({"spec": {"centimetres": 500}})).await.body;
    assert_eq!(patched["spec"], json!({"centimetres": 500}));
    let read = cluster.send(Method::GET, &oak("v1"), Value::Null).await.body;
    assert_eq!((&read["apiVersion"], &read["spec"]), (&json!("wood.example/v1"), &json!({"metres": 5})));
}

#[tokio::test]
async fn a_list_of_objects_that_were_stored_in_different_versions_is_of_one() {
    let (cluster, hook) = grown(Does::Decide(convert)).await;
    cluster.send(Method::POST, &trees("v1"), tree("oak", "metres", 3)).await.created();
    let path = format!("{DEFINITIONS}/trees.wood.example");
    assert_eq!(cluster.send(Method::PATCH, &path, json!({"spec": {"versions": versions("v2")}})).await.code, 200);
    cluster.send(Method::POST, &trees("v2"), tree("yew", "centimetres", 700)).await.created();
    for (version, specs) in [
        ("v1", [json!({"metres": 3}), json!({"metres": 7})]),
        ("v2", [json!({"centimetres": 300}), json!({"centimetres": 700})]),
    ] {
        let asked = hook.asked().len();
        let list = cluster.send(Method::GET, &trees(version), Value::Null).await.body;
        let found: Vec<&Value> = list["items"].as_array().unwrap().iter().map(|item| &item["spec"]).collect();
        assert_eq!(found, specs.iter().collect::<Vec<_>>(), "{version}");
        assert_eq!(hook.asked().len(), asked + 1, "all at once, and only what is stored in another version");
    }
    assert_eq!(cluster.send(Method::DELETE, &trees("v1"), Value::Null).await.code, 200);
}

#[tokio::test]
async fn what_cannot_be_converted_is_an_error_that_says_why() {
    let refuse = json!({"result": {"status": "Failure", "message": "no idea"}});
    let (cluster, _hook) = grown(Does::Answer(refuse)).await;
    cluster.send(Method::POST, &trees("v1"), tree("oak", "metres", 3)).await.created();
    let failed = cluster.send(Method::GET, &trees("v2"), Value::Null).await;
    assert_eq!(failed.code, 500);
    assert!(failed.message().ends_with("conversion webhook for wood.example/v2, Kind=Tree failed: no idea"));
    assert_eq!(cluster.send(Method::GET, &trees("v1"), Value::Null).await.code, 200);
}

/// How many objects the webhook was sent.
fn sent(hook: &Hook) -> Vec<usize> {
    hook.asked().iter().map(|request| request["objects"].as_array().map_or(0, Vec::len)).collect()
}

#[tokio::test]
async fn only_the_objects_of_a_page_are_converted() {
    let (cluster, hook) = grown(Does::Decide(convert)).await;
    for number in 0..9 {
        cluster.send(Method::POST, &trees("v1"), tree(&format!("t{number}"), "metres", number)).await.created();
    }
    let (mut page, mut names) = (format!("{}?limit=4", trees("v2")), Vec::new());
    loop {
        let list = cluster.send(Method::GET, &page, Value::Null).await.body;
        let items = list["items"].as_array().unwrap().iter();
        names.extend(items.map(|item| (item["metadata"]["name"].clone(), item["spec"]["centimetres"].clone())));
        let Some(token) = list["metadata"]["continue"].as_str() else { break };
        page = format!("{}?limit=4&continue={token}", trees("v2"));
    }
    assert_eq!(names, (0..9).map(|n| (json!(format!("t{n}")), json!(n * 100))).collect::<Vec<_>>());
    assert_eq!(sent(&hook), [4, 4, 1]);
}

#[tokio::test]
async fn a_list_is_converted_in_parts_whose_answers_are_not_too_large() {
    let (cluster, hook) = grown(Does::Decide(convert)).await;
    for number in 0..16 {
        let mut tree = tree(&format!("t{number}"), "metres", number);
        tree["metadata"]["annotations"] = json!({"bark": "x".repeat(250_000)});
        cluster.send(Method::POST, &trees("v1"), tree).await.created();
    }
    let list = cluster.send(Method::GET, &trees("v2"), Value::Null).await;
    assert_eq!((list.code, list.body["items"].as_array().map_or(0, Vec::len)), (200, 16));
    assert_eq!(sent(&hook), [4, 4, 4, 4]);
}

#[tokio::test]
async fn a_watch_from_the_start_holds_a_few_objects_at_a_time() {
    let (cluster, hook) = grown(Does::Decide(convert)).await;
    for number in 0..600 {
        cluster.send(Method::POST, &trees("v1"), tree(&format!("t{number:03}"), "metres", 1)).await.created();
    }
    let told = cluster.watch(&trees("v2")).await;
    assert_eq!(sent(&hook), [256], "the rest waits until the client has read these");
    cluster.send(Method::DELETE, &format!("{}/t599", trees("v1")), Value::Null).await;
    let told = told.collect().await.unwrap().to_bytes();
    let events: Vec<Value> = serde_json::Deserializer::from_slice(&told).into_iter().map(Result::unwrap).collect();
    let added = events.iter().filter(|event| event["type"] == "ADDED");
    assert_eq!(added.filter(|event| event["object"]["spec"]["centimetres"] == 100).count(), 600);
    assert_eq!(events.last().map(|event| &event["type"]), Some(&json!("DELETED")), "as it was when the watch began");
}
