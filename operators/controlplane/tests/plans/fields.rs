//! Every field of the infrastructure: a change takes effect in an object, or is refused with the reason.

use c5c3_kit::Plan;
use serde_json::{Value, json};

use crate::paper::{lab, plan};

/// What becomes of a change.
enum Change {
    /// It shows in this child, at this place, as this value.
    Takes(&'static str, &'static str, Value),
    /// It is refused, and this is part of the reason.
    Refused(&'static str),
    /// It takes effect as something that is no longer there.
    Removes(&'static str),
}
use Change::{Refused, Removes, Takes};

/// Field, value before, value after, what becomes of it. An absent value is null.
fn changes() -> Vec<(&'static str, Value, Value, Change)> {
    let spec = |rest: &str| -> &'static str { Box::leak(format!("/spec/{rest}").into_boxed_str()) };
    let cpu = |cpu: &str| json!({"requests": {"cpu": cpu}});
    vec![
        ("mariadb/replicas", json!(3), json!(5), Takes("mariadb/mariadb", spec("replicas"), json!(5))),
        ("mariadb/replicas", json!(3), json!(2), Refused("is even")),
        (
            "mariadb/storageSize",
            json!("10Gi"),
            json!("20Gi"),
            Takes("mariadb/mariadb", spec("storage/size"), json!("20Gi")),
        ),
        ("mariadb/storageSize", json!("10Gi"), json!("5Gi"), Refused("no volume can become")),
        ("mariadb/storageSize", Value::Null, json!("50Gi"), Refused("100Gi when absent")),
        ("mariadb/storageClass", json!("a"), json!("b"), Refused("a volume keeps for life")),
        ("mariadb/resources", cpu("1"), cpu("2"), Takes("mariadb/mariadb", spec("resources/requests/cpu"), json!("2"))),
        ("mariadb/clusterRef", json!({"name": "a"}), Value::Null, Refused("all data would stay on the old one")),
        (
            "mariadb/clusterRef",
            json!({"name": "a"}),
            json!({"name": "b"}),
            Takes("keystone/keystone", spec("database/clusterRef/name"), json!("b")),
        ),
        ("mariadb/host", Value::Null, json!("db"), Refused("all data would stay on the old one")),
        ("mariadb/host", json!("a"), json!("b"), Takes("keystone/keystone", spec("database/host"), json!("b"))),
        ("mariadb/port", Value::Null, json!(3307), Refused("sets port without host")),
        ("mariadb/tls", Value::Null, json!({"caSecretRef": {"name": "x"}}), Refused("set spec.global.tls")),
        ("rabbitmq/replicas", json!(3), json!(1), Takes("rabbitmqcluster/rabbitmq", spec("replicas"), json!(1))),
        ("rabbitmq/replicas", json!(3), json!(4), Refused("is even")),
        (
            "rabbitmq/storageSize",
            json!("10Gi"),
            json!("20Gi"),
            Takes("rabbitmqcluster/rabbitmq", spec("persistence/storage"), json!("20Gi")),
        ),
        ("rabbitmq/storageSize", json!("10Gi"), json!("5Gi"), Refused("no volume can become")),
        ("rabbitmq/storageClass", json!("a"), json!("b"), Refused("a volume keeps for life")),
        (
            "rabbitmq/resources",
            cpu("1"),
            cpu("2"),
            Takes("rabbitmqcluster/rabbitmq", spec("resources/requests/cpu"), json!("2")),
        ),
        (
            "rabbitmq/clusterRef",
            Value::Null,
            json!({"name": "b"}),
            Takes("neutron/neutron", spec("messaging/clusterRef/name"), json!("b")),
        ),
        (
            "rabbitmq/hosts",
            Value::Null,
            json!(["mq:5672"]),
            Takes("neutron/neutron", spec("messaging/hosts/0"), json!("mq:5672")),
        ),
        ("rabbitmq/hosts", Value::Null, json!(["mq:5672"]), Removes("rabbitmqcluster/rabbitmq")),
        ("valkey/replicas", json!(3), json!(5), Takes("valkey/valkey", spec("replicas"), json!(5))),
        ("valkey/sentinel", json!({"enabled": true}), json!({"enabled": false}), Refused("cannot be changed")),
        ("valkey/resources", Value::Null, cpu("2"), Takes("valkey/valkey", spec("resources/requests/cpu"), json!("2"))),
        ("valkey", json!({}), Value::Null, Removes("valkey/valkey")),
        ("memcached/replicas", json!(3), json!(1), Takes("statefulset/memcached", spec("replicas"), json!(1))),
        ("memcached/replicas", json!(3), json!(1), Removes("poddisruptionbudget/memcached")),
        (
            "memcached/memory",
            json!("64Mi"),
            json!("128Mi"),
            Takes("statefulset/memcached", spec("template/spec/containers/0/args/2"), json!("128")),
        ),
        (
            "memcached/resources",
            Value::Null,
            cpu("2"),
            Takes("statefulset/memcached", spec("template/spec/containers/0/resources/requests/cpu"), json!("2")),
        ),
        (
            "memcached/servers",
            Value::Null,
            json!(["c:11211"]),
            Takes("keystone/keystone", spec("cache/servers/0"), json!("c:11211")),
        ),
        ("memcached/servers", Value::Null, json!(["c:11211"]), Removes("statefulset/memcached")),
    ]
}

/// A ControlPlane with one field of its infrastructure set.
fn with(field: &str, value: &Value) -> Value {
    let mut infrastructure = json!({});
    if !value.is_null() {
        let mut at = &mut infrastructure;
        for part in field.split('/') {
            at = &mut at[part];
        }
        *at = value.clone();
    }
    lab(&json!({"infrastructure": infrastructure, "services": {"keystone": {}, "neutron": {}}}))
}

fn find<'a>(plan: &'a Plan, child: &str) -> Option<&'a Value> {
    plan.children().find(|found| found.reference().short() == child).map(|found| &found.object.data)
}

#[test]
fn every_change_takes_effect_or_is_refused_with_the_reason() {
    let kind = c5c3_api::find("c5c3.io/v1alpha1", "ControlPlane").unwrap();
    for (field, before, after, change) in changes() {
        let what = format!("{field}: {before} -> {after}");
        // A block that comes or goes is no change of it: it is there before and after, if only empty.
        let block = |object: Value| {
            let mut object = object;
            if let Some((block, _)) = field.split_once('/') {
                let infrastructure = object["spec"]["infrastructure"].as_object_mut().unwrap();
                infrastructure.entry(block).or_insert_with(|| json!({}));
            }
            object
        };
        let (old, new) = (block(with(field, &before)), block(with(field, &after)));
        let problems = kind.check(&new, Some(&old)).to_string();
        match change {
            Refused(reason) => assert!(problems.contains(reason), "{what}: {problems}"),
            Takes(child, place, expected) => {
                assert_eq!(problems, "", "{what}");
                let (old, new) = (plan(&old, &[]).unwrap(), plan(&new, &[]).unwrap());
                assert_eq!(find(&new, child).and_then(|data| data.pointer(place)), Some(&expected), "{what}");
                assert_ne!(find(&old, child).and_then(|data| data.pointer(place)), Some(&expected), "{what}");
            }
            Removes(child) => {
                assert_eq!(problems, "", "{what}");
                assert!(find(&plan(&old, &[]).unwrap(), child).is_some(), "{what}");
                assert!(find(&plan(&new, &[]).unwrap(), child).is_none(), "{what}");
            }
        }
    }
}

#[test]
fn no_field_is_forgotten() {
    let kind = c5c3_api::find("c5c3.io/v1alpha1", "ControlPlane").unwrap();
    let schema = &kind.schema().json()["properties"]["spec"]["properties"]["infrastructure"]["properties"];
    let tried: Vec<String> = changes().into_iter().map(|(field, ..)| field.to_owned()).collect();
    for part in ["mariadb", "rabbitmq", "valkey", "memcached"] {
        for field in schema[part]["properties"].as_object().unwrap().keys() {
            assert!(tried.contains(&format!("{part}/{field}")), "what becomes of a change of {part}.{field}?");
        }
    }
}
