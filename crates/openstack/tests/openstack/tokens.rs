//! When a client authenticates, and when it does not.

use std::time::Duration;

use c5c3_openstack::identity::UserFilter;
use c5c3_openstack::{Access, Clients, Cloud, Credential, Error, Options};
use http::Method;
use serde_json::json;
use tokio::task::JoinSet;

use crate::keystone::{Reply, TOKENS};
use crate::{SECRET, Stage, credential};

const USERS: &str = "/v3/users";

async fn stage() -> Stage {
    let stage = Stage::start().await;
    stage.keystone.on(Method::GET, USERS, [Reply::new(200, json!({ "users": [] }))]);
    stage
}

async fn list(stage: &Stage) -> Result<(), Error> {
    stage.client.users().list(&UserFilter::default()).await.map(|_| ())
}

#[tokio::test]
async fn a_token_is_reused() {
    let stage = stage().await;
    for _ in 0..3 {
        list(&stage).await.unwrap();
    }
    assert_eq!(stage.authentications(), 1);
    let tokens: Vec<String> =
        stage.keystone.requests(USERS).iter().map(|seen| seen.header("x-auth-token").into()).collect();
    assert_eq!(tokens, ["token-1"; 3]);
    let sent = &stage.keystone.requests(TOKENS)[0].body["auth"]["identity"];
    assert_eq!(sent["application_credential"], json!({ "id": "a1", "secret": SECRET }));
}

#[tokio::test]
async fn a_token_is_renewed_at_half_of_its_life_whatever_keystones_clock_says() {
    let stage = stage().await;
    list(&stage).await.unwrap();
    stage.clock.advance(Duration::from_mins(29));
    list(&stage).await.unwrap();
    assert_eq!(stage.authentications(), 1);
    stage.clock.advance(Duration::from_mins(1));
    list(&stage).await.unwrap();
    assert_eq!(stage.authentications(), 2);
}

#[tokio::test]
async fn a_valid_token_stays_in_use_while_keystone_cannot_renew_it() {
    let stage = stage().await;
    list(&stage).await.unwrap();
    stage.keystone.on(Method::POST, TOKENS, [Reply::error(503, "maintenance")]);
    stage.clock.advance(Duration::from_mins(31));
    list(&stage).await.unwrap();
    let tried = stage.authentications();
    list(&stage).await.unwrap();
    assert_eq!(stage.authentications(), tried, "renewal has a back-off");
    stage.clock.advance(Duration::from_mins(30));
    assert!(matches!(list(&stage).await, Err(Error::Unavailable(_))), "the token has expired");
}

/// Starts 50 calls, and lets Keystone answer when all of them have begun.
async fn fifty(stage: &Stage) -> Vec<Result<(), Error>> {
    stage.keystone.hold();
    let mut calls = JoinSet::new();
    for _ in 0..50 {
        let users = stage.client.users();
        calls.spawn(async move { users.list(&UserFilter::default()).await.map(|_| ()) });
    }
    stage.keystone.reached(1).await;
    stage.keystone.release();
    calls.join_all().await
}

#[tokio::test]
async fn fifty_calls_share_one_authentication() {
    let stage = stage().await;
    let results = fifty(&stage).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(stage.authentications(), 1);
    assert_eq!(stage.keystone.requests(USERS).len(), 50);
}

#[tokio::test]
async fn fifty_calls_share_one_failed_authentication() {
    let stage = stage().await;
    stage.keystone.on(Method::POST, TOKENS, [Reply::error(401, "Wrong secret.")]);
    let results = fifty(&stage).await;
    assert!(results.iter().all(|result| matches!(result, Err(Error::Unauthorized(_)))), "{results:?}");
    assert_eq!(stage.authentications(), 1);
    list(&stage).await.unwrap_err();
    assert_eq!(stage.authentications(), 2, "a later call tries again");
}

#[tokio::test]
async fn an_authentication_that_its_caller_drops_is_done_by_the_next() {
    let stage = stage().await;
    stage.keystone.hold();
    let users = stage.client.users();
    let dropped = tokio::spawn(async move { users.list(&UserFilter::default()).await.map(|_| ()) });
    stage.keystone.reached(1).await;
    dropped.abort();
    stage.keystone.release();
    list(&stage).await.unwrap();
    assert_eq!(stage.authentications(), 2);
}

#[tokio::test]
async fn a_revoked_token_is_renewed_once() {
    let stage = stage().await;
    list(&stage).await.unwrap();
    stage.keystone.revoke("token-1");
    list(&stage).await.unwrap();
    assert_eq!(stage.authentications(), 2);
}

#[tokio::test]
async fn a_new_token_that_is_refused_is_an_error() {
    let stage = stage().await;
    stage.keystone.revoke("token-1");
    stage.keystone.revoke("token-2");
    let error = list(&stage).await.unwrap_err();
    assert!(matches!(error, Error::Unauthorized(_)), "{error}");
    assert!(!error.is_retryable());
    assert_eq!((stage.authentications(), stage.keystone.requests(USERS).len()), (2, 2));
}

#[tokio::test]
async fn an_unknown_application_credential_is_not_an_unknown_resource() {
    let stage = stage().await;
    let unknown = Reply::error(404, "Could not find Application Credential: a1.");
    stage.keystone.on(Method::POST, TOKENS, [unknown]);
    let error = stage.client.users().get("u9").await.unwrap_err();
    assert!(matches!(error, Error::Unauthorized(_)), "{error}");
}

#[tokio::test]
async fn a_deleted_application_credential_is_not_an_unknown_resource() {
    let stage = stage().await;
    let deleted = || Reply::error(404, "Could not find Application Credential: a1.");
    stage.keystone.on(Method::GET, "/v3/users/u9", [deleted()]);
    stage.client.subject().await.unwrap();
    stage.keystone.on(Method::POST, TOKENS, [deleted()]);
    let error = stage.client.users().get("u9").await.unwrap_err();
    assert!(matches!(error, Error::Unauthorized(_)), "{error}");
    assert_eq!(stage.authentications(), 2, "the token is renewed once");
}

#[tokio::test]
async fn the_absence_of_ones_own_user_is_an_answer_if_it_was_asked_for() {
    let stage = stage().await;
    stage.keystone.on(Method::GET, "/v3/users/u1", [Reply::error(404, "Could not find user: u1.")]);
    assert!(stage.client.users().get("u1").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn equal_credentials_share_a_client_and_its_token() {
    let stage = stage().await;
    let clients = Clients::new(Options { clock: stage.clock.clone(), ..Options::default() });
    let access = |credential| Access::new(Cloud::new(stage.keystone.url()), credential);
    for _ in 0..3 {
        clients.client(&access(credential())).unwrap().users().list(&UserFilter::default()).await.unwrap();
    }
    assert_eq!(stage.authentications(), 1);
    let rotated = Credential::Application { id: "a2".into(), secret: SECRET.into() };
    clients.client(&access(rotated)).unwrap().subject().await.unwrap();
    assert_eq!(stage.authentications(), 2);
}

#[tokio::test]
async fn a_client_that_was_not_asked_for_within_an_hour_is_dropped() {
    let stage = stage().await;
    let clients = Clients::new(Options { clock: stage.clock.clone(), ..Options::default() });
    let access = Access::new(Cloud::new(stage.keystone.url()), credential());
    let first = clients.client(&access).unwrap();
    for _ in 0..3 {
        stage.clock.advance(Duration::from_mins(59));
        clients.client(&access).unwrap();
    }
    first.subject().await.unwrap();
    clients.client(&access).unwrap().subject().await.unwrap();
    assert_eq!(stage.authentications(), 1, "it is asked for all the time");
    stage.clock.advance(Duration::from_hours(1));
    clients.client(&access).unwrap().subject().await.unwrap();
    first.subject().await.unwrap();
    assert_eq!(stage.authentications(), 3, "the two clients have a token each");
}

#[tokio::test]
async fn the_subject_of_a_token_is_known() {
    let subject = stage().await.client.subject().await.unwrap();
    assert_eq!((subject.user_id.as_str(), subject.user_name.as_str()), ("u1", "gardener"));
    assert_eq!(subject.project_id.as_deref(), Some("p1"));
}
