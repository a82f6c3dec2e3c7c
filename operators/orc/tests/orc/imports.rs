//! Objects that only read what others have created.

use serde_json::{Value, json};

use crate::site::Site;

const ID: &str = "0123456789abcdef0123456789abcdef";

/// Each kind with a resource that is searched for, one that differs, and all filters that find only the first.
fn rows() -> Vec<(&'static str, &'static str, Value, Value, Vec<Value>)> {
    let named = |fields: Value| {
        let mut resource =
            json!({"id": ID, "name": "pear", "description": "", "enabled": true, "domain_id": "default"});
        resource.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        resource
    };
    let by_name = json!({"name": "pear"});
    let in_domain = json!({"name": "pear", "domainRef": "home"});
    let not_this = json!({"id": "f2", "name": "pear-not-this"});
    let mut role = named(json!({}));
    role["domain_id"] = Value::Null;
    let mut other_role = named(not_this.clone());
    other_role["domain_id"] = Value::Null;
    vec![
        (
            "Domain",
            "domains",
            named(json!({"enabled": false})),
            named(not_this.clone()),
            vec![by_name.clone(), json!({"enabled": false})],
        ),
        (
            "Project",
            "projects",
            named(json!({"tags": ["a", "b"]})),
            named(json!({"id": "f2", "name": "pear-not-this", "tags": ["b", "c"], "domain_id": "default"})),
            vec![
                by_name.clone(),
                in_domain.clone(),
                json!({"tags": ["a", "b"]}),
                json!({"tagsAny": ["a"]}),
                json!({"notTags": ["b", "c"]}),
                json!({"notTagsAny": ["c"]}),
            ],
        ),
        ("Role", "roles", role, other_role, vec![by_name.clone()]),
        ("Group", "groups", named(json!({})), named(not_this.clone()), vec![by_name.clone(), in_domain.clone()]),
        (
            "Service",
            "services",
            named(json!({"type": "fruit"})),
            named(json!({"id": "f2", "name": "pear-not-this", "type": "nuts"})),
            vec![by_name.clone(), json!({"type": "fruit"})],
        ),
        (
            "Endpoint",
            "endpoints",
            json!({"id": ID, "interface": "public", "url": "http://a", "service_id": ID, "enabled": true}),
            json!({"id": "f2", "interface": "internal", "url": "http://b", "service_id": "f2", "enabled": true}),
            vec![json!({"interface": "public"}), json!({"url": "http://a"}), json!({"serviceRef": "by-id"})],
        ),
        ("User", "users", named(json!({})), named(not_this), vec![by_name, in_domain]),
    ]
}

#[tokio::test]
async fn each_kind_is_imported_by_id_and_by_each_filter_and_nothing_is_changed() {
    let site = Site::open().await;
    site.import("Domain", "home", json!({"filter": {"name": "Default"}})).await;
    assert_eq!(site.done("Domain", "home").await["id"], "default");
    for (kind, plural, resource, other, filters) in rows() {
        site.keystone.put(plural, resource.clone());
        site.keystone.put(plural, other);
        site.import(kind, "by-id", json!({"id": ID})).await;
        assert_eq!(site.done(kind, "by-id").await["id"], ID, "{kind}");
        for (number, filter) in filters.into_iter().enumerate() {
            let name = format!("by-filter-{number}");
            site.import(kind, &name, json!({"filter": filter})).await;
            assert_eq!(site.done(kind, &name).await["id"], ID, "{kind} {filter}");
        }
        assert!(site.keystone.all(plural).contains(&resource), "{kind}");
        assert_eq!(site.keystone.count(&format!("POST /{plural}")), 0);
        assert_eq!(site.keystone.count("PATCH"), 0);
    }
}

#[tokio::test]
async fn an_import_without_a_match_waits_and_with_several_is_terminal() {
    let site = Site::open().await;
    for kind in ["Domain", "Project", "Role", "Group", "Service", "User"] {
        site.import(kind, "none", json!({"filter": {"name": "nobody"}})).await;
        let message = "Waiting for OpenStack resource to be created externally";
        site.said(kind, "none", "Progressing", "True", "Progressing", message).await;
        site.said(kind, "none", "Available", "False", "Progressing", message).await;
        site.import(kind, "gone", json!({"id": ID})).await;
        let message = "referenced resource does not exist in OpenStack";
        site.said(kind, "gone", "Progressing", "False", "UnrecoverableError", message).await;
        site.said(kind, "gone", "Available", "False", "UnrecoverableError", message).await;
    }
    for id in ["f1", "f2"] {
        let shop = json!({"id": id, "name": "shop", "type": id, "enabled": true});
        site.keystone.put("services", shop);
    }
    site.import("Service", "several", json!({"filter": {"name": "shop"}})).await;
    let message = "found more than one matching OpenStack resource during import";
    site.said("Service", "several", "Progressing", "False", "InvalidConfiguration", message).await;
}

#[tokio::test]
async fn an_imported_resource_that_is_deleted_is_reported_and_not_created() {
    let site = Site::open().await;
    site.keystone.put("roles", json!({"id": ID, "name": "reader", "domain_id": null, "description": ""}));
    let spec = json!({"managementPolicy": "unmanaged", "import": {"id": ID}, "resyncPeriod": "50ms"});
    site.create("Role", "reader", spec).await.unwrap();
    site.done("Role", "reader").await;
    site.keystone.remove("roles", ID);
    let message = "resource has been deleted from OpenStack";
    site.said("Role", "reader", "Progressing", "False", "UnrecoverableError", message).await;
    assert_eq!(site.keystone.count("POST /roles"), 0);
}
