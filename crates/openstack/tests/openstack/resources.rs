//! Keystone's resources over the wire.

use c5c3_openstack::Error;
use c5c3_openstack::identity::{
    Actor, ApplicationCredentialCreate, AssignmentFilter, DomainUpdate, EndpointCreate, Grant, ProjectFilter, Target,
    UserCreate, UserUpdate,
};
use http::Method;
use secrecy::ExposeSecret;
use serde_json::json;

use crate::Stage;
use crate::keystone::Reply;

fn user() -> serde_json::Value {
    json!({ "id": "u2", "name": "pruner", "domain_id": "default", "enabled": true, "description": "prunes",
            "password_expires_at": null, "options": {}, "links": { "self": "http://keystone/v3/users/u2" } })
}

#[tokio::test]
async fn a_resource_is_created_read_changed_and_deleted() {
    let stage = Stage::start().await;
    let (one, all) = ("/v3/users/u2", "/v3/users");
    stage.keystone.on(Method::POST, all, [Reply::new(201, json!({ "user": user() }))]);
    stage.keystone.on(Method::GET, one, [Reply::new(200, json!({ "user": user() }))]);
    stage.keystone.on(Method::PATCH, one, [Reply::new(200, json!({ "user": user() }))]);
    stage.keystone.on(Method::DELETE, one, [Reply::new(204, ""), Reply::error(404, "Could not find user: u2.")]);
    let users = stage.client.users();
    let fields = UserCreate { name: "pruner".into(), password: Some("plum".into()), ..UserCreate::default() };
    let created = users.create(&fields).await.unwrap();
    assert_eq!(created, users.get("u2").await.unwrap());
    assert_eq!((created.name.as_str(), created.description.as_deref()), ("pruner", Some("prunes")));
    users.update("u2", &UserUpdate { enabled: Some(false), ..UserUpdate::default() }).await.unwrap();
    users.delete("u2").await.unwrap();
    assert!(users.delete("u2").await.unwrap_err().is_not_found());
    assert_eq!(stage.keystone.requests(all)[0].body, json!({ "user": { "name": "pruner", "password": "plum" } }));
    assert_eq!(stage.keystone.requests(one)[1].body, json!({ "user": { "enabled": false } }));
    assert_eq!(stage.keystone.requests(one)[1].header("content-type"), "application/json");
}

#[tokio::test]
async fn a_list_is_filtered_by_keystone_and_read_from_all_pages() {
    let stage = Stage::start().await;
    let project = |id: &str| json!({ "id": id, "name": id, "domain_id": "d", "enabled": true, "tags": ["apple"] });
    let next = "https://public/v3/projects?tags=apple&marker=a";
    let pages = [
        Reply::new(200, json!({ "projects": [project("a")], "links": { "next": next } })),
        Reply::new(200, json!({ "projects": [project("b")], "links": { "next": null } })),
    ];
    stage.keystone.on(Method::GET, "/v3/projects", pages);
    let filter = ProjectFilter { tags: Some(vec!["apple".into()]), ..ProjectFilter::default() };
    let found = stage.client.projects().list(&filter).await.unwrap();
    assert_eq!(found.iter().map(|project| project.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let queries: Vec<String> = stage.keystone.requests("/v3/projects").into_iter().map(|seen| seen.query).collect();
    assert_eq!(queries, ["tags=apple", "tags=apple&marker=a"]);
}

#[tokio::test]
async fn a_truncated_list_is_not_taken_for_the_whole() {
    let stage = Stage::start().await;
    let body = json!({ "projects": [], "links": { "next": null }, "truncated": true });
    stage.keystone.on(Method::GET, "/v3/projects", [Reply::new(200, body)]);
    let error = stage.client.projects().list(&ProjectFilter::default()).await.unwrap_err();
    assert!(matches!(error, Error::Malformed(_)) && error.to_string().contains("list_limit"), "{error}");
}

#[tokio::test]
async fn an_enabled_domain_is_disabled_before_it_is_deleted() {
    let stage = Stage::start().await;
    let forbidden = "Cannot delete a domain that is enabled, please disable it first.";
    let domain = json!({ "domain": { "id": "d1", "name": "Orchard", "enabled": false, "description": "" } });
    stage.keystone.on(Method::DELETE, "/v3/domains/d1", [Reply::error(403, forbidden), Reply::new(204, "")]);
    stage.keystone.on(Method::PATCH, "/v3/domains/d1", [Reply::new(200, domain)]);
    let domains = stage.client.domains();
    let error = domains.delete("d1").await.unwrap_err();
    assert!(matches!(error, Error::Forbidden(_)) && error.failure().message == forbidden, "{error}");
    domains.update("d1", &DomainUpdate { enabled: Some(false), ..DomainUpdate::default() }).await.unwrap();
    domains.delete("d1").await.unwrap();
}

#[tokio::test]
async fn an_endpoint_is_registered_with_its_region() {
    let stage = Stage::start().await;
    let endpoint = json!({ "id": "e9", "service_id": "s9", "interface": "internal", "region": "south",
        "region_id": "south", "url": "http://nova:8774/v2.1", "enabled": true });
    stage.keystone.on(Method::POST, "/v3/endpoints", [Reply::new(201, json!({ "endpoint": endpoint }))]);
    let fields = EndpointCreate {
        service_id: "s9".into(),
        url: "http://nova:8774/v2.1".into(),
        region_id: Some("south".into()),
        ..EndpointCreate::default()
    };
    let created = stage.client.endpoints().create(&fields).await.unwrap();
    assert_eq!(created.region_id.as_deref(), Some("south"));
    assert_eq!(stage.keystone.requests("/v3/endpoints")[0].body["endpoint"]["interface"], "internal");
}

#[tokio::test]
async fn a_new_application_credential_has_its_secret() {
    let stage = Stage::start().await;
    let path = "/v3/users/u1/application_credentials";
    let answer = json!({ "application_credential": { "id": "a9", "name": "nova", "project_id": "p1", "secret": "cherry",
        "roles": [{ "id": "r1", "name": "service", "domain_id": null }], "unrestricted": false, "expires_at": null,
        "access_rules": [{ "id": "x", "path": "/v2.1/**", "method": "GET", "service": "compute" }] } });
    stage.keystone.on(Method::POST, path, [Reply::new(201, answer)]);
    let subject = stage.client.subject().await.unwrap();
    let credentials = stage.client.application_credentials(&subject.user_id);
    let fields = ApplicationCredentialCreate { name: "nova".into(), ..ApplicationCredentialCreate::default() };
    let created = credentials.create(&fields).await.unwrap();
    assert_eq!(created.secret.as_ref().unwrap().expose_secret(), "cherry");
    assert_eq!(created.access_rules[0].service.as_deref(), Some("compute"));
    assert!(!format!("{created:?}").contains("cherry"));
}

#[tokio::test]
async fn a_role_is_granted_checked_listed_and_revoked() {
    let stage = Stage::start().await;
    let path = "/v3/projects/p1/users/u2/roles/r1";
    let listed = json!({ "role_assignments": [{ "role": { "id": "r1" }, "user": { "id": "u2" },
        "scope": { "project": { "id": "p1" } }, "links": {} }], "links": { "next": null } });
    stage.keystone.on(Method::PUT, path, [Reply::new(204, "")]);
    stage.keystone.on(Method::DELETE, path, [Reply::new(204, "")]);
    stage.keystone.on(Method::HEAD, path, [Reply::new(404, ""), Reply::new(204, "")]);
    stage.keystone.on(Method::GET, "/v3/role_assignments", [Reply::new(200, listed)]);
    let grant = Grant { role: "r1".into(), actor: Actor::User("u2".into()), target: Target::Project("p1".into()) };
    assert!(!stage.client.is_granted(&grant).await.unwrap());
    stage.client.grant(&grant).await.unwrap();
    assert!(stage.client.is_granted(&grant).await.unwrap());
    let found = stage.client.role_assignments(&AssignmentFilter::from(&grant)).await.unwrap();
    assert!(found.len() == 1 && found[0].grant == grant, "{found:?}");
    stage.client.revoke(&grant).await.unwrap();
    let query = &stage.keystone.requests("/v3/role_assignments")[0].query;
    assert_eq!(query, "role.id=r1&user.id=u2&scope.project.id=p1");
}
