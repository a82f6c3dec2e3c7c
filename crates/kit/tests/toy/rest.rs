//! What is read and watched, and what an object costs that is at rest.
//!
//! Where the clock is paused, it moves on by itself when everybody waits for it.

use std::time::Duration;

use c5c3_kit::testing::FakeApi;
use serde_json::json;

use crate::vat::{Brewery, deployment, is_ready, scaler, service, vat};

/// The requests of reconciles: neither watches with their lists nor probes.
fn reads(api: &FakeApi) -> Vec<String> {
    let ours = |read: &String| read.starts_with("GET ") && !read.contains("/proxy") && !read.contains('?');
    api.take_reads().into_iter().filter(ours).collect()
}

#[tokio::test(start_paused = true)]
async fn an_object_at_rest_costs_one_probe_a_minute_and_nothing_else() {
    let brewery = Brewery::ready(&["feed"]).await;
    tokio::time::sleep(Duration::from_secs(90)).await;
    let (reconciles, version) = (brewery.reconciles(), brewery.api.version());
    brewery.api.take_reads();
    tokio::time::sleep(Duration::from_mins(30)).await;
    let all = brewery.api.take_reads();
    let probes = all.iter().filter(|read| read.contains("/proxy")).count();
    assert!((27..=34).contains(&probes), "{probes} probes in half an hour");
    let others: Vec<&String> =
        all.iter().filter(|read| !read.contains("/proxy") && !read.starts_with("WATCH ")).collect();
    assert!(others.is_empty(), "{others:#?}");
    assert_eq!((brewery.reconciles(), brewery.api.version()), (reconciles, version));
}

#[tokio::test]
async fn the_live_child_of_an_observed_kind_is_an_input_and_read_again_only_when_it_changed() {
    let brewery = Brewery::ready(&[]).await;
    brewery.roll_out(0);
    brewery.until("the status is seen", |status| status["running"] == 0 && !is_ready(status)).await;
    brewery.roll_out(1);
    brewery.until("the status is seen", |status| status["running"] == 1 && is_ready(status)).await;
    // Of two reconciles, the second began when nothing else was under way any more.
    brewery.reconcile("green").await;
    brewery.reconcile("red").await;
    reads(&brewery.api);
    brewery.reconcile("blue").await;
    let gets: Vec<String> = reads(&brewery.api).into_iter().filter(|read| read.contains("deployments")).collect();
    assert!(gets.is_empty(), "it is as it was read last: {gets:?}");
}

#[tokio::test]
async fn what_is_referred_to_is_watched_by_name_until_the_reference_is_removed() {
    let brewery = Brewery::ready(&["feed"]).await;
    let watches: Vec<String> = brewery.api.take_reads().into_iter().filter(|read| read.starts_with("WATCH ")).collect();
    let of_feed = "WATCH /apis/apps/v1/namespaces/valley/deployments?fieldSelector=metadata.name%3Dfeed";
    assert!(watches.iter().any(|watch| watch == of_feed), "{watches:#?}");
    let whole: Vec<&String> =
        watches.iter().filter(|watch| watch.contains("deployments") && !watch.contains("Selector")).collect();
    assert!(whole.is_empty(), "{whole:?}");
    let before = brewery.reconciles();
    brewery.api.put(&deployment("feed"));
    brewery.api.wait_until("its change starts a reconcile", |_| brewery.reconciles() > before).await;
    brewery.api.put(&vat(&[]));
    brewery.until("the reference is removed", |status| status["observedGeneration"] == 2 && is_ready(status)).await;
    brewery.reconcile("green").await;
    brewery.reconcile("red").await;
    let before = brewery.reconciles();
    brewery.api.delete(&deployment("feed"));
    brewery.reconcile("blue").await;
    assert_eq!(brewery.reconciles(), before + 1, "its deletion started none");
}

#[tokio::test]
async fn an_own_child_that_is_referred_to_has_no_watch_of_its_own() {
    let brewery = Brewery::ready(&["north"]).await;
    brewery.reconcile("green").await;
    brewery.reconcile("red").await;
    brewery.api.take_reads();
    brewery.api.drop_watches();
    brewery.roll_out(0);
    brewery.until("its watch by label tells", |status| status["running"] == 0).await;
    let named: Vec<String> =
        brewery.api.take_reads().into_iter().filter(|read| read.contains("fieldSelector")).collect();
    assert!(named.is_empty(), "{named:?}");
}

#[tokio::test]
async fn the_status_of_a_child_that_is_ready_by_existence_starts_no_reconcile() {
    let brewery = Brewery::ready(&[]).await;
    brewery.reconcile("green").await;
    brewery.reconcile("red").await;
    let before = brewery.reconciles();
    for replicas in 1..5 {
        let mut found = brewery.api.get(&scaler()).unwrap();
        found["status"] = json!({"currentReplicas": replicas});
        brewery.api.put(&found);
    }
    brewery.reconcile("blue").await;
    assert_eq!(brewery.reconciles(), before + 1);
    brewery.api.delete(&scaler());
    brewery.api.wait_until("it is made again", |api| api.get(&scaler()).is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_stops_answering_is_told_by_its_probe() {
    let brewery = Brewery::ready(&[]).await;
    brewery.until("it answers", |status| status["answers"] == true).await;
    brewery.api.delete(&service());
    tokio::time::sleep(Duration::from_mins(1)).await;
    brewery.until("it does not answer", |status| status["answers"] == false).await;
    brewery.api.put(&service());
    brewery.until("it answers again", |status| status["answers"] == true).await;
}
