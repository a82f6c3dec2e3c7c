//! Objects that only read what others have created.

use std::time::Duration;

use c5c3_operator_orc::Settings;
use serde_json::{Value, json};

use crate::kinds::{KINDS, fields, identity, import, prepared, prepared_with, references, referring};
use crate::site::Site;

const ID: &str = "0123456789abcdef0123456789abcdef";

/// The role of this id is in a domain. It has the name of another one, which is not.
const OF_DOMAIN: &str = "fedcba9876543210fedcba9876543210";

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
    let by_domain = json!({"domainRef": "home"});
    let not_this = json!({"id": "f2", "name": "pear-not-this", "domain_id": "elsewhere"});
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
            named(json!({"id": "f2", "name": "pear-not-this", "tags": ["b", "c"], "domain_id": "elsewhere"})),
            vec![
                by_name.clone(),
                by_domain.clone(),
                in_domain.clone(),
                json!({"tags": ["a", "b"]}),
                json!({"tagsAny": ["a"]}),
                json!({"notTags": ["b", "c"]}),
                json!({"notTagsAny": ["c"]}),
            ],
        ),
        ("Role", "roles", role, other_role, vec![by_name.clone()]),
        (
            "Role",
            "roles",
            named(json!({"id": OF_DOMAIN})),
            named(json!({"id": "f3", "name": "pear", "domain_id": "elsewhere"})),
            vec![by_domain.clone(), in_domain.clone()],
        ),
        (
            "Group",
            "groups",
            named(json!({})),
            named(not_this.clone()),
            vec![by_name.clone(), by_domain.clone(), in_domain.clone()],
        ),
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
        ("User", "users", named(json!({})), named(not_this), vec![by_name, by_domain, in_domain]),
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
        let id = resource["id"].as_str().unwrap();
        // An Endpoint's filter refers to the Service that is imported before it.
        let by_id = if id == ID { "by-id" } else { "of-domain-by-id" };
        site.import(kind, by_id, json!({"id": id})).await;
        assert_eq!(site.done(kind, by_id).await["id"], id, "{kind}");
        for (number, filter) in filters.into_iter().enumerate() {
            let name = format!("{by_id}-or-filter-{number}");
            site.import(kind, &name, json!({"filter": filter})).await;
            assert_eq!(site.done(kind, &name).await["id"], id, "{kind} {filter}");
        }
        assert!(site.keystone.all(plural).contains(&resource), "{kind}");
        assert_eq!(site.keystone.count(&format!("POST /{plural}")), 0);
        assert_eq!(site.keystone.count("PATCH"), 0);
    }
}

#[tokio::test]
async fn an_application_credential_is_imported_by_its_id_too() {
    let site = prepared().await;
    let user = site.status("User", "ada").await["id"].clone();
    let resource = json!({"id": ID, "name": "pruner", "user_id": user, "description": "cuts", "unrestricted": false});
    site.keystone.put("application_credentials", resource);
    site.import("ApplicationCredential", "by-id", json!({"id": ID})).await;
    assert_eq!(site.done("ApplicationCredential", "by-id").await["id"], ID);
    site.import("ApplicationCredential", "none", json!({"id": OF_DOMAIN})).await;
    let message = "referenced resource does not exist in OpenStack";
    site.said("ApplicationCredential", "none", "Progressing", "False", "UnrecoverableError", message).await;
}

/// Every reference of an assignment finds it, alone and with others, also what many refer to.
#[tokio::test]
async fn an_assignment_is_imported_by_each_of_its_parts_and_several_are_terminal() {
    let site = prepared().await;
    for (kind, name) in [("Role", "writer"), ("User", "bob"), ("Group", "staff"), ("Domain", "east")] {
        site.managed(kind, name, json!({})).await;
        site.done(kind, name).await;
    }
    let of_user = json!({"roleRef": "reader", "userRef": "ada", "projectRef": "acre"});
    let of_group = json!({"roleRef": "writer", "groupRef": "staff", "domainRef": "east"});
    for (whose, spec) in [("of-user", &of_user), ("of-group", &of_group)] {
        site.managed("RoleAssignment", whose, spec.clone()).await;
        let made = site.done("RoleAssignment", whose).await["resource"].clone();
        let all = spec.as_object().unwrap();
        let alone = all.iter().map(|(field, name)| json!({field: name}));
        let pairs = all.iter().filter(|(field, _)| *field != "roleRef");
        let pairs = pairs.map(|(field, name)| json!({field: name, "roleRef": spec["roleRef"]}));
        for (number, filter) in alone.chain(pairs).chain([spec.clone()]).enumerate() {
            let name = format!("{whose}-{number}");
            site.import("RoleAssignment", &name, json!({"filter": filter})).await;
            assert_eq!(site.done("RoleAssignment", &name).await["resource"], made, "{filter}");
        }
    }
    let more = json!({"roleRef": "writer", "userRef": "ada", "projectRef": "acre"});
    site.managed("RoleAssignment", "more", more).await;
    site.done("RoleAssignment", "more").await;
    for (field, name) in [("roleRef", "writer"), ("userRef", "ada"), ("projectRef", "acre")] {
        let object = format!("several-{}", field.to_lowercase());
        site.import("RoleAssignment", &object, json!({"filter": {field: name}})).await;
        let message = "found more than one matching OpenStack resource during import";
        site.said("RoleAssignment", &object, "Progressing", "False", "InvalidConfiguration", message).await;
    }
    // What was found when there was one stays what was found.
    let before = site.status("RoleAssignment", "of-user").await["resource"].clone();
    for number in 0..5 {
        let name = format!("of-user-{number}");
        site.patch("RoleAssignment", &name, json!({"spec": {"resyncPeriod": "1h"}})).await.unwrap();
        assert_eq!(site.done("RoleAssignment", &name).await["resource"], before, "{name}");
    }
}

#[tokio::test]
async fn a_role_of_a_domain_is_not_taken_for_one_of_no_domain_by_a_list_that_all_share() {
    let mut site = prepared().await;
    site.kill().await;
    site.restart_sharing(c5c3_operator_orc::SHARED);
    site.managed("Domain", "east", json!({})).await;
    site.done("Domain", "east").await;
    // After several single requests one list is read for all.
    for number in 0..8 {
        site.managed("Role", &format!("r{number}"), json!({})).await;
        site.done("Role", &format!("r{number}")).await;
    }
    site.managed("Role", "of-domain", json!({"name": "pear", "domainRef": "east"})).await;
    let of_domain = site.done("Role", "of-domain").await["id"].clone();
    site.managed("Role", "pear", json!({})).await;
    let status = site.done("Role", "pear").await;
    assert_ne!(status["id"], of_domain);
    assert_eq!(status["resource"]["domainID"], "");
    site.import("Role", "copy", json!({"filter": {"name": "pear"}})).await;
    assert_eq!(site.done("Role", "copy").await["id"], status["id"]);
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
async fn an_import_without_a_match_finds_what_is_created_later_for_each_kind() {
    let soon = Settings { import_interval: Some(Duration::from_millis(50)), ..Settings::default() };
    let site = prepared_with(soon).await;
    for (kind, _) in KINDS {
        site.import(kind, "copy", import(kind)).await;
        let message = "Waiting for OpenStack resource to be created externally";
        site.said(kind, "copy", "Progressing", "True", "Progressing", message).await;
        site.said(kind, "copy", "Available", "False", "Progressing", message).await;
        site.managed(kind, "pear", fields(kind)).await;
        let made = identity(&site.done(kind, "pear").await);
        // Nothing happens to the import itself.
        assert_eq!(identity(&site.done(kind, "copy").await), made, "{kind}");
        assert_eq!(site.api(kind).get("copy").await.unwrap().metadata.generation, Some(1), "{kind}");
    }
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

/// Upstream reads the resource by the id in the status, or by the parts of the assignment, and does not look at the filter again.
#[tokio::test]
async fn a_resolved_import_stays_resolved_when_what_its_filter_refers_to_is_deleted() {
    let site = prepared().await;
    let sets = KINDS.iter().flat_map(|(kind, _)| references(kind).into_iter().map(|set| (*kind, set)));
    for (number, (kind, set)) in sets.enumerate() {
        let named = |prefix: &str| -> Vec<(&'static str, &'static str, String)> {
            let name = |field: &str| format!("{prefix}-{number}-{}", field.to_lowercase());
            set.iter().map(|(field, of)| (*field, *of, name(field))).collect()
        };
        let (pear, copy, real) = (format!("pear-{number}"), format!("copy-of-pear-{number}"), named("real"));
        for (_, of, name) in &real {
            site.managed(of, name, fields(of)).await;
        }
        let spec: Vec<(&str, String)> = real.iter().map(|(field, _, name)| (*field, name.clone())).collect();
        site.managed(kind, &pear, referring(kind, &spec)).await;
        let made = identity(&site.done(kind, &pear).await);

        // The filter refers to imports, so that only objects are deleted and nothing in Keystone.
        let mut filter = if kind == "ApplicationCredential" { json!({ "name": pear }) } else { json!({}) };
        let mut looked_up = named("copy");
        looked_up.retain(|(field, ..)| !["defaultProjectRef", "roleRefs", "accessRules"].contains(field));
        for ((field, of, name), (.., original)) in looked_up.iter().zip(&real) {
            site.import(of, name, json!({"filter": {"name": original}})).await;
            filter[*field] = json!(name);
        }
        site.import(kind, &copy, json!({ "filter": filter })).await;
        assert_eq!(identity(&site.done(kind, &copy).await), made, "{kind}");
        for (_, of, name) in &looked_up {
            site.delete(of, name).await;
            site.gone(of, name).await;
        }
        // A new generation is looked at, whatever has been said of the one before.
        site.patch(kind, &copy, json!({"spec": {"resyncPeriod": "1h"}})).await.unwrap();
        assert_eq!(identity(&site.done(kind, &copy).await), made, "{kind}");
    }
}

/// Keystone shows application credentials by user, and the status of one does not say whose it is.
#[tokio::test]
async fn a_resolved_import_of_another_users_credential_waits_for_the_user_and_is_not_taken_for_deleted() {
    let site = prepared().await;
    let id = site.status("User", "ada").await["id"].clone();
    site.import("User", "copy", json!({"filter": {"name": "ada"}})).await;
    site.managed("ApplicationCredential", "pear", fields("ApplicationCredential")).await;
    site.done("ApplicationCredential", "pear").await;
    let filter = json!({"userRef": "copy", "name": "pear"});
    site.import("ApplicationCredential", "found", json!({ "filter": filter })).await;
    let made = identity(&site.done("ApplicationCredential", "found").await);
    site.delete("User", "copy").await;
    site.gone("User", "copy").await;
    // The user that signs in has no such credential.
    site.keystone.fail("GET /users/u0/application_credentials/", 404, usize::MAX);
    site.patch("ApplicationCredential", "found", json!({"spec": {"resyncPeriod": "1h"}})).await.unwrap();
    let message = "Waiting for User/copy to be created";
    site.said("ApplicationCredential", "found", "Progressing", "True", "Progressing", message).await;
    assert_eq!(identity(&site.status("ApplicationCredential", "found").await), made);
    site.import("User", "copy", json!({ "id": id })).await;
    assert_eq!(identity(&site.done("ApplicationCredential", "found").await), made);
}
