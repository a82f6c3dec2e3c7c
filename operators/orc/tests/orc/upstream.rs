//! Flags that upstream's controller has too, and the takeover from upstream.

use std::time::Duration;

use c5c3_operator_orc::{Settings, UPSTREAM};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::site::Site;

const CERTIFICATE: &str = include_str!("authority.pem");

/// Changes a role behind the operator's back.
fn change(site: &Site, name: &str) {
    let mut role = site.keystone.all("roles").into_iter().find(|role| role["name"] == name).unwrap();
    role["description"] = "weeds".into();
    site.keystone.put("roles", role);
}

fn description(site: &Site, name: &str) -> Value {
    site.keystone.all("roles").into_iter().find(|role| role["name"] == name).unwrap()["description"].clone()
}

#[tokio::test]
async fn the_default_period_holds_for_objects_without_their_own() {
    let site = Site::open_with(Settings { resync: Some(Duration::from_millis(50)), ..Settings::default() }).await;
    site.create("Role", "never", json!({"resource": {}, "resyncPeriod": "0s"})).await.unwrap();
    site.managed("Role", "often", json!({})).await;
    for name in ["never", "often"] {
        site.done("Role", name).await;
        change(&site, name);
    }
    // Three times, so that the other one would have been looked at by now.
    for _ in 0..3 {
        site.eventually("it is put back", || description(&site, "often") == "").await;
        change(&site, "often");
    }
    assert_eq!(description(&site, "never"), "weeds");
}

#[tokio::test]
async fn with_a_default_period_of_zero_only_objects_with_their_own_are_looked_at() {
    let site = Site::open_with(Settings { resync: Some(Duration::ZERO), ..Settings::default() }).await;
    site.create("Role", "often", json!({"resource": {}, "resyncPeriod": "50ms"})).await.unwrap();
    site.managed("Role", "never", json!({})).await;
    for name in ["never", "often"] {
        site.done("Role", name).await;
        change(&site, name);
    }
    for _ in 0..3 {
        site.eventually("it is put back", || description(&site, "often") == "").await;
        change(&site, "often");
    }
    assert_eq!(description(&site, "never"), "weeds");
}

#[tokio::test]
async fn default_certificates_are_trusted_where_the_credential_has_none() {
    let site = Site::open_with(Settings { authority: Some("nothing".into()), ..Settings::default() }).await;
    site.managed("Role", "reader", json!({})).await;
    let message = "cacert has no certificate";
    let is_told = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.data["status"].to_string().contains(message))
    };
    site.until("Role", "reader", "says what is wrong with them", is_told).await;
    site.secret("clouds", "cacert", CERTIFICATE).await;
    site.done("Role", "reader").await;

    let site = Site::open_with(Settings { authority: Some(CERTIFICATE.into()), ..Settings::default() }).await;
    site.managed("Role", "reader", json!({})).await;
    site.done("Role", "reader").await;
    site.secret("clouds", "cacert", "nothing").await;
    site.managed("Role", "writer", json!({})).await;
    site.until("Role", "writer", "says what is wrong with its own", is_told).await;
}

#[test]
fn upstreams_deployment_is_a_rival_unless_it_is_taken_over() {
    let asks_for_it = |takes_over| {
        let clients = c5c3_openstack::Clients::new(c5c3_openstack::Options::default());
        let settings = Settings { takes_over, ..Settings::default() };
        let operator = c5c3_operator_orc::with_settings(clients, Duration::ZERO, settings);
        json!(operator.access().in_cluster()).to_string().contains(UPSTREAM.1)
    };
    assert_eq!([asks_for_it(false), asks_for_it(true)], [true, false]);
}

/// Upstream's Deployment, as its manifests have it. On a cluster that tests share it would keep the operators of all others from
/// starting.
async fn deploy_upstream(site: &Site) {
    if std::env::var_os(c5c3_harness::KUBECONFIG).is_some() {
        return;
    }
    let (namespace, name) = UPSTREAM;
    let namespaces: Api<Namespace> = Api::all(site.cluster.client());
    let home = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
    namespaces.create(&PostParams::default(), &home).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(site.cluster.client(), namespace);
    let labels = json!({"control-plane": "controller-manager"});
    let container = json!({"name": "manager", "image": "quay.io/orc/openstack-resource-controller:v2"});
    let deployment = json!({"metadata": {"name": name}, "spec": {"replicas": 1, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}});
    deployments.create(&PostParams::default(), &serde_json::from_value(deployment).unwrap()).await.unwrap();
}

/// What upstream's controller of a kind writes on its object, with its field managers, when it has created the resource.
async fn reconciled_by_upstream(site: &Site, kind: &str, name: &str, id: &str) {
    let controller = format!("openstack.k-orc.cloud/{}controller", kind.to_lowercase());
    let apply = |manager: &str| PatchParams::apply(&format!("{controller}/{manager}")).force();
    let object = site.api(kind).get(name).await.unwrap();
    let head = |metadata: Value, status: Value| {
        let mut object = json!({"apiVersion": "openstack.k-orc.cloud/v1alpha1", "kind": kind, "metadata": metadata});
        if !status.is_null() {
            object["status"] = status;
        }
        Patch::Apply(object)
    };
    let held = json!({"name": name, "uid": object.metadata.uid,
        "finalizers": [format!("openstack.k-orc.cloud/{}", kind.to_lowercase())]});
    site.api(kind).patch(name, &apply("finalizer"), &head(held, Value::Null)).await.unwrap();
    let with_id = json!({"status": {"id": id}});
    site.api(kind).patch_status(name, &PatchParams::default(), &Patch::Merge(with_id)).await.unwrap();
    let condition = |kind: &str, status: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": "Success", "message": message, "observedGeneration": 1,
            "lastTransitionTime": "2030-01-02T03:04:05Z"})
    };
    let status = json!({
        "conditions": [condition("Available", "True", "OpenStack resource is available"),
            condition("Progressing", "False", "OpenStack resource is up to date")],
        "resource": {"name": name, "description": "trees"}, "lastSyncTime": "2030-01-02T03:04:05Z",
    });
    let about = json!({"name": name, "uid": object.metadata.uid});
    site.api(kind).patch_status(name, &apply("status"), &head(about, status)).await.unwrap();
    // The guard of the credential.
    let guard = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "clouds", "finalizers": [format!("openstack.k-orc.cloud/{}", kind.to_lowercase())]}});
    let manager = PatchParams::apply(&controller).force();
    site.secrets().patch("clouds", &manager, &Patch::Apply(guard)).await.unwrap();
}

#[tokio::test]
async fn objects_of_upstream_are_kept_changed_and_deleted_by_the_operator_that_takes_over() {
    let mut site = Site::open_with(Settings { takes_over: true, ..Settings::default() }).await;
    site.kill().await;
    deploy_upstream(&site).await;
    let domain = json!({"id": "f1", "name": "east", "description": "trees", "enabled": false});
    let group = json!({"id": "f2", "name": "staff", "description": "trees", "domain_id": "default"});
    let rows = [("Domain", "domains", domain), ("Group", "groups", group)];
    for (kind, plural, resource) in rows.clone() {
        let (id, name) = (resource["id"].as_str().unwrap().to_owned(), resource["name"].as_str().unwrap().to_owned());
        let mut spec = json!({"description": "trees"});
        if kind == "Domain" {
            spec["enabled"] = false.into();
        }
        site.keystone.put(plural, resource);
        site.managed(kind, &name, spec).await;
        reconciled_by_upstream(&site, kind, &name, &id).await;
    }
    site.restart();
    for (kind, plural, resource) in rows {
        let name = resource["name"].as_str().unwrap();
        site.patch(kind, name, json!({"spec": {"resource": {"description": null}}})).await.unwrap();
        let status = site.done(kind, name).await;
        assert_eq!(status["id"], resource["id"], "{kind}");
        assert_eq!(site.keystone.all(plural)[0]["description"], "", "{kind}");
        site.delete(kind, name).await;
        site.gone(kind, name).await;
        assert!(site.keystone.all(plural).is_empty(), "{kind}");
    }
    assert_eq!(site.keystone.count("POST /domains") + site.keystone.count("POST /groups"), 0);
    let secret = site.secrets().get("clouds").await.unwrap();
    assert_eq!(secret.metadata.finalizers.unwrap_or_default(), Vec::<String>::new());
}
