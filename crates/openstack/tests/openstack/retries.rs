//! Which calls are sent again, and what callers see of those that are not.

use std::time::Duration;

use c5c3_openstack::identity::{UserCreate, UserFilter};
use c5c3_openstack::{Client, Cloud, Error, Options, Request};
use http::{Method, StatusCode};
use serde_json::json;
use tokio::net::TcpListener;

use crate::keystone::{Keystone, Reply, TOKENS};
use crate::{SECRET, Stage, credential};

const USERS: &str = "/v3/users";

fn good() -> Reply {
    Reply::new(200, json!({ "users": [] }))
}

/// The URL of a port that nothing listens on.
async fn closed_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// Lists users with these answers. Returns the result with how often the call was sent.
async fn list(stage: &Stage, replies: impl IntoIterator<Item = Reply>) -> (Result<(), Error>, usize) {
    stage.keystone.on(Method::GET, USERS, replies);
    let result = stage.client.users().list(&UserFilter::default()).await.map(|_| ());
    (result, stage.keystone.requests(USERS).len())
}

async fn create(stage: &Stage, replies: impl IntoIterator<Item = Reply>) -> (Error, usize) {
    stage.keystone.on(Method::POST, USERS, replies);
    let user = UserCreate { name: "pruner".into(), password: Some("plum-secret".into()), ..UserCreate::default() };
    let error = stage.client.users().create(&user).await.unwrap_err();
    (error, stage.keystone.requests(USERS).len())
}

#[tokio::test]
async fn a_call_is_repeated_until_the_service_is_back() {
    let stage = Stage::start().await;
    let (result, sent) = list(&stage, [Reply::error(503, "busy"), Reply::error(502, "busy"), good()]).await;
    result.unwrap();
    assert_eq!(sent, 3);
    let waits = stage.clock.waits();
    assert!(waits[0] >= Duration::from_millis(125) && waits[1] >= Duration::from_millis(500), "{waits:?}");
}

#[tokio::test]
async fn the_third_failure_is_an_error() {
    let stage = Stage::start().await;
    let (result, sent) = list(&stage, [Reply::error(500, "An unexpected error prevented the server.")]).await;
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)) && error.is_retryable(), "{error}");
    assert_eq!(sent, 3);
}

#[tokio::test]
async fn a_rate_limit_is_waited_for_as_long_as_it_says() {
    let stage = Stage::start().await;
    let limited = Reply::error(429, "slow down").header("retry-after", "7");
    let (result, sent) = list(&stage, [limited, good()]).await;
    result.unwrap();
    assert_eq!(sent, 2);
    let [wait] = stage.clock.waits()[..] else { panic!("{:?}", stage.clock.waits()) };
    assert!(wait >= Duration::from_secs(7) && wait < Duration::from_secs(8), "{wait:?}");
}

#[tokio::test]
async fn a_rate_limit_beyond_the_time_limit_is_left_to_the_caller() {
    let stage = Stage::start().await;
    let limited = Reply::error(429, "slow down").header("retry-after", "60");
    let (result, sent) = list(&stage, [limited]).await;
    let error = result.unwrap_err();
    assert!(matches!(error, Error::TooManyRequests(_)), "{error}");
    assert_eq!((error.failure().retry_after, sent), (Some(Duration::from_mins(1)), 1));
}

#[tokio::test]
async fn a_conflict_is_an_answer() {
    let stage = Stage::start().await;
    let message = "Conflict occurred attempting to store user - Duplicate entry found with name pruner.";
    let (error, sent) = create(&stage, [Reply::error(409, message)]).await;
    assert_eq!(sent, 1);
    assert_eq!(error.to_string(), format!("conflict: POST /v3/users: {message} (HTTP 409, request id req-7)"));
    assert_eq!(error.failure().status, Some(StatusCode::CONFLICT));
}

#[tokio::test]
async fn a_creation_that_may_have_happened_is_not_repeated() {
    let stage = Stage::start().await;
    let (error, sent) = create(&stage, [Reply::error(504, "no answer from upstream")]).await;
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    assert_eq!(sent, 1);
}

#[tokio::test]
async fn a_connection_that_ends_without_an_answer_is_repeated_for_idempotent_methods_only() {
    let stage = Stage::start().await;
    let (result, sent) = list(&stage, [Reply::broken(), good()]).await;
    result.unwrap();
    assert_eq!(sent, 2);
    let (error, sent) = create(&stage, [Reply::broken()]).await;
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    assert_eq!(sent, 3);
}

#[tokio::test]
async fn a_creation_that_did_not_reach_the_service_is_repeated() {
    let stage = Stage::start().await;
    stage.keystone.register_at("compute", "internal", "south", &closed_port().await);
    let error = stage.client.send(&Request::post("compute", ["servers"])).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    assert_eq!(stage.clock.waits().len(), 2);
}

#[tokio::test]
async fn an_authentication_is_repeated_after_every_outage() {
    let stage = Stage::start().await;
    stage.keystone.on(Method::POST, TOKENS, [Reply::error(500, "oops"), Reply::broken(), Reply::error(401, "no")]);
    let error = stage.client.subject().await.unwrap_err();
    assert!(matches!(error, Error::Unauthorized(_)), "{error}");
    assert_eq!(stage.authentications(), 3);
}

#[tokio::test]
async fn secrets_that_a_service_echoes_are_not_in_the_error() {
    let stage = Stage::start().await;
    let echo = "Invalid input for field 'password': 'plum-secret' is too short, token-1";
    let (error, _) = create(&stage, [Reply::error(400, echo)]).await;
    assert!(matches!(error, Error::Invalid(_)), "{error}");
    assert!(error.to_string().contains("'***' is too short, ***"), "{error}");
    let refused = Reply::error(401, &format!("{SECRET} is wrong"));
    let other = Stage::start().await;
    other.keystone.on(Method::POST, TOKENS, [refused]);
    let error = other.client.subject().await.unwrap_err();
    for text in [error.to_string(), format!("{error:?}"), format!("{:?}", stage.client), format!("{:?}", other.client)]
    {
        assert!(!text.contains(SECRET) && !text.contains("plum") && !text.contains("token-1"), "{text}");
    }
}

#[tokio::test]
async fn a_404_of_a_proxy_does_not_mean_that_the_resource_is_gone() {
    let stage = Stage::start().await;
    let page = Reply::new(404, "<html>default backend</html>").without_headers();
    stage.keystone.on(Method::GET, "/v3/users/u1", [page, Reply::error(404, "Could not find user: u1.")]);
    let proxy = stage.client.users().get("u1").await.unwrap_err();
    assert!(matches!(proxy, Error::Unavailable(_)), "{proxy}");
    let gone = stage.client.users().get("u1").await.unwrap_err();
    assert!(gone.is_not_found(), "{gone}");
}

#[tokio::test]
async fn a_port_without_a_listener_is_tried_three_times() {
    let stage = Stage::of(Keystone::start().await, Cloud::new(closed_port().await));
    let error = stage.client.subject().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)) && error.to_string().contains("refused"), "{error}");
    assert_eq!(stage.clock.waits().len(), 2);
}

#[tokio::test]
async fn a_service_that_does_not_answer_is_given_up_after_the_time_limit() {
    let stage = Stage::start().await;
    stage.keystone.hold();
    let client = Client::new(Cloud::new(stage.keystone.url()), credential(), Options::default()).unwrap();
    let call = tokio::spawn(async move { client.subject().await });
    stage.keystone.reached(1).await;
    // From here on nothing happens but the passing of time.
    tokio::time::pause();
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)) && error.to_string().contains("no answer within 30 s"), "{error}");
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_a_failed_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cloud = Cloud::new(format!("https://{}", listener.local_addr().unwrap()));
    let stage = Stage::of(Keystone::start().await, cloud);
    let client = stage.client.clone();
    let call = tokio::spawn(async move { client.subject().await });
    let _silent = listener.accept().await.unwrap();
    tokio::time::pause();
    let before = tokio::time::Instant::now();
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    assert_eq!(stage.clock.waits().len(), 2, "{error}");
    assert!(before.elapsed() < Duration::from_secs(16), "three connections of 5 s: {:?}", before.elapsed());
}

#[tokio::test]
async fn every_request_is_measured() {
    let stage = Stage::start().await;
    list(&stage, [Reply::error(503, "busy"), good()]).await.0.unwrap();
    let text = stage.metrics_text();
    let count = "openstack_api_request_duration_seconds_count";
    for (method, code) in [("POST", "201"), ("GET", "503"), ("GET", "200")] {
        let line = format!(r#"{count}{{service="identity",method="{method}",code="{code}"}} 1"#);
        assert!(text.contains(&line), "{line} is not in {text}");
    }
}
