//! With a registry, every image comes from it, and everything that names an image also has the Secrets to pull it with.

use c5c3_kit::Child;
use serde_json::{Value, json};

use crate::paper::{issuer, lab, plan};

const REGISTRY: &str = "registry.example.net/mirror";

/// A cloud of all parts, with TLS and metrics, from a registry of its own.
fn cloud() -> Value {
    lab(&json!({
        "infrastructure": {"mariadb": {}, "rabbitmq": {}, "valkey": {}, "memcached": {}},
        "services": {"keystone": {}, "glance": {}, "placement": {}, "nova": {}, "neutron": {}, "cinder": {}},
        "cortex": {"enabled": true},
        "tempest": {"enabled": true},
        "global": {
            "image": {"registry": REGISTRY, "pullSecrets": [{"name": "passport"}]},
            "tls": {"enabled": true, "issuerRef": {"name": "notary"}},
            "monitoring": {"enabled": true},
        },
    }))
}

/// Every image that is named below a value: as one text, or as a repository.
fn images(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| match value {
                Value::String(image) if ["image", "repository"].contains(&name.as_str()) => vec![image.clone()],
                _ => images(value),
            })
            .collect(),
        Value::Array(values) => values.iter().flat_map(images).collect(),
        _ => Vec::new(),
    }
}

/// Where a child has the Secrets that its images are pulled with; none if its kind has no place for them.
fn pull_secrets(child: &Child) -> Option<&'static str> {
    if child.resource.kind == "StatefulSet" {
        return Some("/spec/template/spec/imagePullSecrets");
    }
    let ours = c5c3_api::find(&child.resource.api_version, &child.resource.kind);
    let has_place = ours.is_none_or(|kind| kind.schema().has_field(&["spec", "imagePullSecrets"]));
    has_place.then_some("/spec/imagePullSecrets")
}

#[test]
fn every_image_comes_from_the_registry_and_is_pulled_with_its_secrets() {
    let plan = plan(&cloud(), &[issuer("notary")]).unwrap();
    let mut named = 0;
    for child in plan.children() {
        let images = images(&child.object.data);
        named += images.len();
        for image in &images {
            assert!(image.starts_with(&format!("{REGISTRY}/")), "{}: {image}", child.reference());
        }
        if let Some(place) = pull_secrets(child).filter(|_| !images.is_empty()) {
            let found = child.object.data.pointer(place);
            assert_eq!(found, Some(&json!([{"name": "passport"}])), "{}", child.reference());
        }
    }
    assert!(named >= 11, "{named} images are named");
    assert!(!plan.golden().contains("ghcr.io"), "an image comes from another registry");
}

#[test]
fn without_a_registry_operators_choose_the_images_of_their_servers() {
    let plan = plan(&lab(&json!({"services": {"keystone": {}}})), &[]).unwrap();
    let of = |kind: &str| {
        let child = plan.children().find(|child| child.resource.kind == kind).unwrap();
        images(&child.object.data)
    };
    assert_eq!(of("MariaDB"), Vec::<String>::new());
    assert_eq!(of("StatefulSet"), [c5c3_operator_controlplane::MEMCACHED_IMAGE]);
    assert_eq!(of("Keystone"), ["ghcr.io/c5c3/keystone"]);
}
