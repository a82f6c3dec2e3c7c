//! Where a call goes and what it carries: endpoints, microversions, pages, TLS.

use std::time::Duration;

use c5c3_auth::Pki;
use c5c3_openstack::{Cloud, Error, Interface, Request};
use http::Method;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use crate::Stage;
use crate::keystone::{Keystone, Reply};

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Server {
    id: String,
}

fn servers() -> Request {
    Request::get("compute", ["servers"])
}

fn page(ids: &[&str]) -> serde_json::Value {
    json!({ "servers": ids.iter().map(|id| json!({ "id": id, "unknown": 1 })).collect::<Vec<_>>() })
}

#[tokio::test]
async fn the_endpoint_is_that_of_the_region_and_interface() {
    let keystone = Keystone::start().await;
    keystone.register("compute", "internal", "south").register("compute", "public", "north");
    keystone.on(Method::GET, "/public/north/servers", [Reply::new(200, page(&["n"]))]);
    let cloud = Cloud { region: Some("north".into()), interface: Interface::Public, ..Cloud::new(keystone.url()) };
    let stage = Stage::of(keystone, cloud);
    let found: Vec<Server> = stage.client.list(&servers(), "servers").await.unwrap();
    assert_eq!(found, [Server { id: "n".into() }]);
}

#[tokio::test]
async fn a_missing_endpoint_is_an_error_that_says_what_there_is() {
    let stage = Stage::start().await;
    let error = stage.client.send(&servers()).await.unwrap_err();
    assert!(matches!(error, Error::NoEndpoint(_)), "{error}");
    assert_eq!(
        error.to_string(),
        "no endpoint: GET /servers: the catalog has no service of type compute; it has identity"
    );
}

#[tokio::test]
async fn a_service_that_is_registered_later_is_found_in_a_new_catalog() {
    let stage = Stage::start().await;
    stage.client.send(&servers()).await.unwrap_err();
    stage.keystone.register("compute", "internal", "south");
    stage.keystone.on(Method::GET, "/internal/south/servers", [Reply::new(200, page(&[]))]);
    stage.client.send(&servers()).await.unwrap_err();
    assert_eq!(stage.authentications(), 1, "a new catalog is not read again at once");
    stage.clock.advance(Duration::from_secs(10));
    stage.client.send(&servers()).await.unwrap();
    assert_eq!(stage.authentications(), 2);
}

#[tokio::test]
async fn a_service_that_has_moved_is_found_in_a_new_catalog_when_it_no_longer_answers() {
    let stage = Stage::start().await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    stage.keystone.register_at("compute", "internal", "south", &format!("http://{closed}"));
    let error = stage.client.send(&servers()).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    stage.keystone.unregister("compute");
    stage.keystone.register("compute", "internal", "south");
    stage.keystone.on(Method::GET, "/internal/south/servers", [Reply::new(200, page(&[]))]);
    stage.clock.advance(Duration::from_secs(10));
    stage.client.send(&servers()).await.unwrap();
}

#[tokio::test]
async fn a_microversion_and_a_query_are_sent() {
    let stage = Stage::start().await;
    stage.keystone.register("compute", "internal", "south");
    stage.keystone.on(Method::GET, "/internal/south/servers", [Reply::new(200, page(&[]))]);
    stage.client.send(&servers().query("name", "a&b").microversion("2.95")).await.unwrap();
    let seen = &stage.keystone.requests("/internal/south/servers")[0];
    assert_eq!(seen.query, "name=a%26b");
    assert_eq!(seen.header("openstack-api-version"), "compute 2.95");
    assert_eq!(seen.header("x-openstack-nova-api-version"), "2.95");
    assert!(seen.header("user-agent").starts_with("c5c3/"));
}

#[tokio::test]
async fn a_list_is_read_from_all_pages_at_the_same_endpoint() {
    let stage = Stage::start().await;
    stage.keystone.register("compute", "internal", "south");
    let mut first = page(&["a", "b"]);
    first["servers_links"] = json!([{ "rel": "next", "href": "http://elsewhere/servers?limit=2&marker=b" }]);
    stage.keystone.on(Method::GET, "/internal/south/servers", [Reply::new(200, first), Reply::new(200, page(&["c"]))]);
    let found: Vec<Server> = stage.client.list(&servers().query("limit", "2"), "servers").await.unwrap();
    assert_eq!(found.iter().map(|server| server.id.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    let queries: Vec<String> =
        stage.keystone.requests("/internal/south/servers").into_iter().map(|seen| seen.query).collect();
    assert_eq!(queries, ["limit=2", "limit=2&marker=b"]);
}

#[tokio::test]
async fn pages_that_form_a_loop_are_an_error() {
    let stage = Stage::start().await;
    let body = json!({ "users": [], "links": { "next": "http://keystone/v3/users?marker=a" } });
    stage.keystone.on(Method::GET, "/v3/users", [Reply::new(200, body)]);
    let result = stage.client.list::<Server>(&Request::get("identity", ["users"]), "users").await;
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Malformed(_)) && error.to_string().contains("loop"), "{error}");
}

#[tokio::test]
async fn a_malformed_answer_names_the_place_and_quotes_nothing() {
    let stage = Stage::start().await;
    let path = Request::get("identity", ["users", "u1"]);
    let bodies = [
        (json!({ "user": { "id": 31_415 } }).to_string(), "at user.id"),
        (json!({ "other": 31_415 }).to_string(), "has no user"),
        ("31415, and more".to_owned(), "is not JSON"),
    ];
    for (body, problem) in bodies {
        stage.keystone.on(Method::GET, "/v3/users/u1", [Reply::new(200, body)]);
        let error = stage.client.fetch::<Server>(&path, "user").await.unwrap_err();
        assert!(matches!(error, Error::Malformed(_)) && error.to_string().contains(problem), "{error}");
        assert!(!error.to_string().contains("31415") && error.to_string().contains("req-7"), "{error}");
    }
}

#[tokio::test]
async fn an_empty_id_is_refused_before_anything_is_sent() {
    let stage = Stage::start().await;
    let error = stage.client.users().delete("").await.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error}");
    assert!(stage.keystone.seen().is_empty());
}

#[tokio::test]
async fn a_certificate_is_verified_with_the_clouds_ca() {
    let pki = Pki::in_memory(&[], Timestamp::now()).unwrap();
    let other = Pki::in_memory(&[], Timestamp::now()).unwrap();
    let keystone = Keystone::start_with_tls(pki.tls().unwrap()).await;
    let cloud = |ca: Option<&str>| Cloud { ca: ca.map(Into::into), ..Cloud::new(keystone.url()) };
    let (trusted, untrusted, system) = (cloud(Some(pki.ca_pem())), cloud(Some(other.ca_pem())), cloud(None));
    let stage = Stage::of(keystone, trusted);
    assert_eq!(stage.client.subject().await.unwrap().user_id, "u1");
    for cloud in [untrusted, system] {
        let error = Stage::of(Keystone::start().await, cloud).client.subject().await.unwrap_err();
        assert!(matches!(error, Error::Unavailable(_)) && error.to_string().contains("certificate"), "{error}");
    }
    assert_eq!(stage.authentications(), 1, "no credential is sent to a server that is not trusted");
}
