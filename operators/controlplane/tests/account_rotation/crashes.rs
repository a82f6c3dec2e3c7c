//! The operators are killed after their first write, after their second and so on, in each phase, and go on from what the cluster
//! holds.

use std::time::Duration;

use c5c3_service::Service;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::Resource;
use kube::api::ListParams;

use crate::mortal::Mortal;
use crate::site::{Site, is_idle_with, names};

#[tokio::test(flavor = "multi_thread")]
async fn accounts_on_a_database_are_exactly_one_and_valid_after_kills_between_any_two_writes() {
    survives(&Site::with_a_database().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_on_a_message_broker_are_exactly_one_and_valid_after_kills_between_any_two_writes() {
    survives(&Site::with_a_broker().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_of_ceph_are_exactly_one_and_valid_after_kills_between_any_two_writes() {
    survives(&Site::with_ceph().await).await;
}

/// Rotates until the operators were killed fifty times.
async fn survives<S: Service>(site: &Site<S>)
where
    S::Kind: Resource<Scope = NamespaceResourceScope>,
{
    let (mut kills, mut version) = (0, 0);
    while kills < 50 {
        version += 1;
        if version > 1 {
            site.request(&version.to_string()).await;
        }
        let (mut writes, mut phase) = (1, None);
        loop {
            kills += usize::from(live(site, writes).await);
            site.is_valid().await;
            let status = site.status().await;
            if is_idle_with(&status, version) {
                break;
            }
            site.let_the_grace_pass().await;
            // A new process applies everything again, so it has to live longer to get further.
            let now = Some(status["phase"].clone());
            writes = if now == phase { writes + 3 } else { writes.div_ceil(2) };
            phase = now;
            assert!(writes < 200, "{status:#}");
        }
    }
    assert!(version > 1, "an account was replaced");
    eprintln!("{kills} kills in {version} rotations");
    let operators = site.operate(&site.stage.client);
    site.request("last").await;
    site.idle_with(version + 1).await;
    let accounts = site.accounts().await;
    assert_eq!(accounts, [site.delivered().await.unwrap()], "{}", names(&accounts));
    for task in operators {
        task.abort();
    }
    nothing_secret_is_said(site).await;
}

/// Lets the operators live for so many writes. They are killed when one is about to make another, or nothing is left to do.
async fn live<S: Service>(site: &Site<S>, writes: usize) -> bool
where
    S::Kind: Resource<Scope = NamespaceResourceScope>,
{
    let mortal = Mortal::new(site.stage.client.clone(), "cloud", writes);
    let operators = site.operate(&mortal.client);
    let died = tokio::time::timeout(Duration::from_secs(2), mortal.died.notified()).await.is_ok();
    for operator in operators {
        operator.abort();
        let _ = operator.await;
    }
    died
}

async fn nothing_secret_is_said<S: Service>(site: &Site<S>)
where
    S::Kind: Resource<Scope = NamespaceResourceScope>,
{
    let all = ListParams::default();
    let mut said = site.status().await.to_string();
    said += &serde_json::to_string(&site.api::<Event>().list(&all).await.unwrap().items).unwrap();
    said += &serde_json::to_string(&site.api::<ConfigMap>().list(&all).await.unwrap().items).unwrap();
    said += &serde_json::to_string(&site.api::<Job>().list(&all).await.unwrap().items).unwrap();
    let (_, password) = site.delivered().await.unwrap();
    assert!(!said.contains(&password), "a password is said");
}
