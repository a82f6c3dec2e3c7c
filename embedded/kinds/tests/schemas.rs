//! The schemas and defaults of built-in kinds, against what a typical manifest holds.

use c5c3_kinds::{builtin, compiled, default, find, validate};
use serde_json::{Value, json};

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "oak", "namespace": "grove", "labels": {"app": "oak"}},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "oak"}},
            "template": {
                "metadata": {"labels": {"app": "oak"}},
                "spec": {
                    "containers": [{
                        "name": "main", "image": "registry.example/oak:1", "ports": [{"containerPort": 80}],
                        "resources": {"requests": {"cpu": 0.5, "memory": "64Mi"}},
                        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}},
                        "volumeMounts": [{"name": "config", "mountPath": "/etc/oak"}],
                    }],
                    "volumes": [{"name": "config", "configMap": {"name": "oak"}}],
                },
            },
        },
    })
}

#[test]
fn a_typical_deployment_is_known_complete_and_valid() {
    let resource = find("apps", "v1", "deployments").unwrap();
    let schema = compiled(resource).unwrap();
    let mut object = deployment();
    assert!(schema.unknown_fields(&object).is_empty());
    default(resource, &mut object);
    assert!(schema.validate(&object, None).is_empty(), "{}", schema.validate(&object, None));
    assert!(validate(resource, &object, None).is_empty(), "{}", validate(resource, &object, None));
    let unchanged = object.clone();
    default(resource, &mut object);
    assert_eq!(object, unchanged);
    assert!(validate(resource, &object, Some(&unchanged)).is_empty());
}

#[test]
fn a_misspelt_field_is_unknown_and_a_wrong_type_is_a_wrong_type() {
    let schema = compiled(find("apps", "v1", "deployments").unwrap()).unwrap();
    let mut object = deployment();
    object["spec"]["template"]["spec"]["containers"][0]["imagee"] = json!("x");
    assert_eq!(schema.unknown_fields(&object).as_slice()[0].path, "spec.template.spec.containers[0].imagee");
    object["spec"]["replicas"] = json!("two");
    assert_eq!(schema.validate(&object, None).as_slice()[0].path, "spec.replicas");
}

#[test]
fn what_kubectl_sends_with_nulls_in_it_is_accepted() {
    let resource = find("apps", "v1", "deployments").unwrap();
    let schema = compiled(resource).unwrap();
    let mut object = deployment();
    object["metadata"]["creationTimestamp"] = Value::Null;
    object["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    object["spec"]["strategy"] = json!({});
    object["status"] = json!({});
    default(resource, &mut object);
    assert!(object["spec"]["template"]["metadata"].get("creationTimestamp").is_none());
    assert!(schema.validate(&object, None).is_empty());
}

#[test]
fn every_kind_takes_an_object_of_nothing_but_its_identity_apart_from_what_it_requires() {
    for resource in builtin() {
        let schema = compiled(resource).unwrap();
        let object = json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": {"name": "oak"}});
        assert!(schema.unknown_fields(&object).is_empty(), "{}", resource.kind);
        assert!(schema.validate(&object, None).is_empty(), "{}", resource.kind);
    }
}
