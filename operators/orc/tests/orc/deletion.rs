//! What goes with an object, and what stays.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::site::{KINDS, Site};

fn spec(kind: &str) -> Value {
    match kind {
        "Service" => json!({"type": "fruit"}),
        "Endpoint" => json!({"serviceRef": "shop", "interface": "public", "url": "http://a"}),
        "Domain" => json!({"enabled": false}),
        _ => json!({}),
    }
}

#[tokio::test]
async fn a_resource_goes_with_its_object_unless_it_is_detached() {
    let site = Site::open().await;
    site.managed("Service", "shop", json!({"type": "shop"})).await;
    site.done("Service", "shop").await;
    for kind in KINDS {
        let plural = format!("{}s", kind.to_lowercase());
        let before = site.keystone.all(&plural).len();
        site.managed(kind, "pear", spec(kind)).await;
        site.done(kind, "pear").await;
        let object = site.api(kind).get("pear").await.unwrap();
        assert_eq!(
            object.metadata.finalizers,
            Some(vec![format!("openstack.k-orc.cloud/{}", kind.to_lowercase())]),
            "{kind}"
        );
        site.api(kind).delete("pear", &DeleteParams::default()).await.unwrap();
        site.gone(kind, "pear").await;
        assert_eq!(site.keystone.all(&plural).len(), before, "{kind}");
        let detached = json!({"resource": spec(kind), "managedOptions": {"onDelete": "detach"}});
        site.create(kind, "pear", detached).await.unwrap();
        site.done(kind, "pear").await;
        site.api(kind).delete("pear", &DeleteParams::default()).await.unwrap();
        site.gone(kind, "pear").await;
        assert_eq!(site.keystone.all(&plural).len(), before + 1, "{kind}");
    }
}

#[tokio::test]
async fn an_import_goes_without_credentials_and_leaves_the_resource() {
    let site = Site::open().await;
    site.import("Domain", "home", json!({"filter": {"name": "Default"}})).await;
    site.done("Domain", "home").await;
    let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> = kube::Api::default_namespaced(site.cluster.client());
    secrets.delete("clouds", &DeleteParams::default()).await.unwrap();
    site.api("Domain").delete("home", &DeleteParams::default()).await.unwrap();
    site.gone("Domain", "home").await;
    assert_eq!(site.keystone.count("DELETE"), 0);
}

#[tokio::test]
async fn an_enabled_domain_says_that_it_has_to_be_disabled_first() {
    let site = Site::open().await;
    site.managed("Domain", "east", json!({})).await;
    site.done("Domain", "east").await;
    site.api("Domain").delete("east", &DeleteParams::default()).await.unwrap();
    let is_told = |object: Option<&kube::api::DynamicObject>| {
        object.is_some_and(|object| object.data["status"].to_string().contains("please disable it first"))
    };
    site.until("Domain", "east", "says why it stays", is_told).await;
    assert!(site.event("east", "RemoteDeleteFailed").await.contains("please disable it first"));
    site.keystone.all("domains").into_iter().for_each(|mut domain| {
        domain["enabled"] = false.into();
        site.keystone.put("domains", domain);
    });
    site.gone("Domain", "east").await;
}

#[tokio::test]
async fn a_deletion_waits_for_the_finalizers_of_others_and_for_keystone() {
    let site = Site::open().await;
    site.managed("Role", "reader", json!({})).await;
    site.done("Role", "reader").await;
    let held = json!(["openstack.k-orc.cloud/role", "example.org/held"]);
    site.patch("Role", "reader", json!({"metadata": {"finalizers": held}})).await.unwrap();
    site.api("Role").delete("reader", &DeleteParams::default()).await.unwrap();
    let message = "Waiting for finalizer example.org/held to be removed";
    site.said("Role", "reader", "Progressing", "True", "Progressing", message).await;
    assert_eq!(site.keystone.all("roles").len(), 1);
    site.keystone.fail("DELETE /roles", 503, usize::MAX);
    site.patch("Role", "reader", json!({"metadata": {"finalizers": ["openstack.k-orc.cloud/role"]}})).await.unwrap();
    site.said("Role", "reader", "Progressing", "True", "TransientError", "the service is unavailable").await;
    site.keystone.heal();
    site.gone("Role", "reader").await;
    assert!(site.keystone.all("roles").is_empty());
}

#[tokio::test]
async fn a_deletion_that_is_skipped_names_the_resource_that_stays() {
    let site = Site::open().await;
    site.managed("Role", "reader", json!({})).await;
    let id = site.done("Role", "reader").await["id"].as_str().unwrap().to_owned();
    site.keystone.fail("DELETE", 500, usize::MAX);
    site.keystone.fail("GET", 500, usize::MAX);
    site.patch("Role", "reader", json!({"metadata": {"annotations": {"c5c3.io/skip-cleanup": "true"}}})).await.unwrap();
    site.api("Role").delete("reader", &DeleteParams::default()).await.unwrap();
    site.gone("Role", "reader").await;
    let note = site.event("reader", "CleanupAbandoned").await;
    assert_eq!(note, format!("left behind at the remote, delete by hand: role {id}"));
}

#[tokio::test]
async fn what_is_referred_to_goes_after_the_last_that_refers_to_it() {
    let site = Site::open().await;
    site.managed("Domain", "east", json!({"enabled": false})).await;
    site.done("Domain", "east").await;
    let projects = ["acre", "field"];
    for name in projects {
        site.managed("Project", name, json!({"domainRef": "east"})).await;
    }
    for name in projects {
        site.done("Project", name).await;
    }
    let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> = kube::Api::default_namespaced(site.cluster.client());
    secrets.delete("clouds", &DeleteParams::default()).await.unwrap();
    site.api("Domain").delete("east", &DeleteParams::default()).await.unwrap();
    let message = "Waiting for finalizer openstack.k-orc.cloud/project to be removed";
    site.said("Domain", "east", "Progressing", "True", "Progressing", message).await;
    assert_eq!(site.keystone.all("domains").len(), 1);
    for name in projects {
        site.api("Project").delete(name, &DeleteParams::default()).await.unwrap();
    }
    for name in projects {
        site.gone("Project", name).await;
    }
    site.gone("Domain", "east").await;
    let is_gone = |secret: Option<&k8s_openapi::api::core::v1::Secret>| secret.is_none();
    kube::runtime::wait::await_condition(secrets, "clouds", is_gone).await.unwrap();
    assert!(site.keystone.all("domains").is_empty() && site.keystone.all("projects").is_empty());
}
