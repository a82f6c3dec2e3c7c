//! What a user adds to the object of a service: it is merged below what the ControlPlane decides, and judged by the rules of
//! the service's own kind.

use serde_json::{Value, json};

use crate::paper::{lab, plan};

/// The spec of Glance's object, with a template.
fn glance(template: &Value) -> Result<Value, String> {
    let services = json!({"keystone": {}, "glance": {"replicas": 2, "template": template}});
    let plan = plan(&lab(&json!({"services": services})), &[])?;
    let glance = plan.children().find(|child| child.resource.kind == "Glance").unwrap();
    Ok(glance.object.data["spec"].clone())
}

#[test]
fn a_template_adds_fields_and_leaves_the_others_as_the_control_plane_decides() {
    let template =
        json!({"resources": {"limits": {"memory": "1Gi"}}, "keystone": {"appCredentialRef": {"secretName": "x"}}});
    let spec = glance(&template).unwrap();
    let mut expected = glance(&json!({})).unwrap();
    expected["resources"] = template["resources"].clone();
    expected["keystone"]["appCredentialRef"] = json!({"secretName": "x"});
    assert_eq!(spec, expected);
}

#[test]
fn a_second_spelling_in_a_template_is_the_same_field() {
    let second = json!({"keystoneAuth": {"applicationCredentialRef": {"name": "x"}}});
    let first = json!({"keystone": {"appCredentialRef": {"secretName": "x"}}});
    assert_eq!(glance(&second).unwrap(), glance(&first).unwrap());
}

#[test]
fn storage_in_ceph_that_a_template_has_otherwise_is_refused_and_never_dropped() {
    let said = |service: &str, written: Value| {
        let services = json!({"keystone": {}, service: written});
        plan(&lab(&json!({"services": services})), &[]).map(drop).unwrap_err()
    };
    let keyless = json!([{"name": "fast", "type": "rbd"}]);
    let other = json!({"backends": [{"name": "slow", "rbd": {"cephSecretRef": {"name": "keys"}}}]});
    let cinder = said("cinder", json!({"backends": keyless, "template": other}));
    assert!(cinder.starts_with("spec.services.cinder.template.backends: is [{"), "{cinder}");
    assert!(cinder.ends_with("; remove it; spec.services.cinder.backends decides it"), "{cinder}");
    for backend in [json!({"type": "rbd"}), json!({"type": "rbd", "pool": "pictures"})] {
        let template = json!({"storage": {"backend": "file"}});
        assert_eq!(
            said("glance", json!({"replicas": 1, "backend": backend, "template": template})),
            "spec.services.glance.template.storage.backend: is \"file\", and the ControlPlane sets it to \"rbd\" from \
             spec.services.glance.backend; remove it; spec.services.glance.backend decides it"
        );
    }
}

/// The spec of Nova's object of a cloud whose images have a mirror, with a template.
fn nova(compute: &Value, template: &Value) -> Result<Value, String> {
    let services = json!({"keystone": {}, "placement": {}, "glance": {}, "nova": {"template": template}});
    let global = json!({"image": {"registry": "mirror.example.net"}});
    let plan = plan(&lab(&json!({"compute": compute, "global": global, "services": services})), &[])?;
    let nova = plan.children().find(|child| child.resource.kind == "Nova").unwrap();
    Ok(nova.object.data["spec"].clone())
}

#[test]
fn fake_hypervisors_of_a_template_take_the_place_of_nodes() {
    let on_nodes = nova(&json!({}), &json!({})).unwrap();
    assert!(on_nodes["compute"]["libvirtImage"].is_object(), "{on_nodes}");
    let fake = json!({"fake": {"replicas": 3}});
    assert_eq!(nova(&json!({}), &json!({"compute": fake})).unwrap()["compute"], fake);
}

#[test]
fn cells_are_named_after_clusters_unless_a_template_names_a_cell_of_each() {
    let clusters = json!({"hypervisorClusters": ["plum", "quince"]});
    let cell = |name: &str, cluster: &str| json!({"name": name, "computeRef": {"name": cluster}});
    let usual = nova(&clusters, &json!({})).unwrap();
    assert_eq!(usual["cells"], json!([cell("plum", "plum"), cell("quince", "quince")]));
    let own = json!([cell("cell2", "quince"), cell("cell1", "plum")]);
    assert_eq!(nova(&clusters, &json!({"cells": own})).unwrap()["cells"], own);
    let refused = nova(&clusters, &json!({"cells": [cell("cell1", "plum")]})).unwrap_err();
    assert!(refused.ends_with("; remove it; spec.compute.hypervisorClusters decides it"), "{refused}");
}

#[test]
fn a_field_that_the_control_plane_decides_is_refused_with_both_places() {
    let said = |template: Value| glance(&template).unwrap_err();
    assert_eq!(
        said(json!({"replicas": 5})),
        "spec.services.glance.template.replicas: is 5, and the ControlPlane sets it to 2 from spec.services.glance.replicas; \
         remove it; spec.services.glance.replicas decides it"
    );
    let image = said(json!({"image": {"repository": "example.net/glance", "tag": "1.0.0"}}));
    assert!(image.contains("spec.services.glance.template.image.tag: is \"1.0.0\""), "{image}");
    assert!(image.contains("from spec.openStackRelease; remove it"), "{image}");
    assert!(image.contains("from spec.global.image.registry; remove it"), "{image}");
    let database = said(json!({"database": {"clusterRef": {"name": "other"}}}));
    assert!(database.contains("from spec.infrastructure.mariadb.clusterRef"), "{database}");
}

#[test]
fn unknown_and_wrong_fields_are_refused_by_their_names() {
    let unknown = glance(&json!({"resorces": {}})).unwrap_err();
    assert!(unknown.starts_with("spec.services.glance.template.resorces: "), "{unknown}");
    let wrong = glance(&json!({"tls": {"enabled": true}})).unwrap_err();
    assert!(wrong.starts_with("spec.services.glance.template.tls: is enabled without a certificate"), "{wrong}");
    let volume = glance(&json!({"storage": {"backend": "file"}})).unwrap_err();
    assert!(volume.starts_with("spec.services.glance.template"), "with what the ControlPlane decides: {volume}");
}

#[test]
fn an_object_that_is_to_be_adopted_is_held_to_what_it_is_already() {
    let keystone = |annotations: Value| {
        json!({"apiVersion": "keystone.openstack.c5c3.io/v1alpha1", "kind": "Keystone",
            "metadata": {"name": "keystone", "annotations": annotations},
            "spec": {"database": {"clusterRef": {"name": "elsewhere"}}}})
    };
    let plan = |there: Value| plan(&lab(&json!({"services": {"keystone": {}}})), &[there]).map(|_| ());
    assert_eq!(plan(keystone(json!({}))), Ok(()), "a foreign object is reported when it is in the way");
    let refused = plan(keystone(json!({"c5c3.io/adopt": "true"}))).unwrap_err();
    assert!(refused.contains("all data would stay on the old one"), "{refused}");
}
