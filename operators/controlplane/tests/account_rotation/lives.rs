//! Accounts from their first day to their end.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::Value;

use crate::site::{Site, names};

#[tokio::test(flavor = "multi_thread")]
async fn two_accounts_alternate_and_the_old_one_leaves_the_server() {
    let site = Site::with_a_database().await;
    let operators = site.operate(&site.stage.client);
    site.idle_with(1).await;
    site.stage.until_ready().await;
    assert_eq!(names(&site.accounts().await), "placement");
    let first = site.delivered().await.unwrap();
    for (version, username) in [(2, "placement-b"), (3, "placement")] {
        site.request(&version.to_string()).await;
        site.idle_with(version).await;
        let now = site.delivered().await.unwrap();
        assert_eq!(now.0, username);
        assert_ne!(now.1, first.1);
        let secret = format!("placement-db-account-v{version}");
        let own = site.pair(&secret, ["username", "password"]).await.unwrap();
        assert_eq!(site.accounts().await, [own]);
        site.is_valid().await;
    }
    let left = async {
        loop {
            let secrets = site.api::<Secret>().list(&ListParams::default()).await.unwrap();
            let names = secrets.iter().map(ResourceExt::name_any).filter(|name| name.contains("db-account"));
            if names.eq(["placement-db-account-v3"]) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(c5c3_stage::PATIENCE, left).await.expect("the Secrets of old accounts go");
    let status = site.status().await;
    assert_eq!(status["currentCredential"]["id"], "placement");
    assert_eq!(status["currentCredential"]["expiresAt"], Value::Null, "an account does not expire");
    for task in operators {
        task.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_secret_of_the_account_in_use_is_restored_with_the_same_password() {
    let site = Site::with_a_database().await;
    let operators = site.operate(&site.stage.client);
    site.idle_with(1).await;
    let before = site.delivered().await;
    site.api::<Secret>().delete("placement-db-account-v1", &DeleteParams::default()).await.unwrap();
    let own = async || site.pair("placement-db-account-v1", ["username", "password"]).await;
    let restored = async {
        while own().await.is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(c5c3_stage::PATIENCE, restored).await.unwrap();
    assert_eq!(own().await, before);
    for task in operators {
        task.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_user_of_ceph_takes_the_place_of_the_old_one_which_goes() {
    let site = Site::with_ceph().await;
    let operators = site.operate(&site.stage.client);
    site.idle_with(1).await;
    for (version, user) in [(2, "glance-b"), (3, "glance")] {
        site.request(&version.to_string()).await;
        site.idle_with(version).await;
        assert_eq!(names(&site.accounts().await), user);
        site.is_valid().await;
    }
    for task in operators {
        task.abort();
    }
}
