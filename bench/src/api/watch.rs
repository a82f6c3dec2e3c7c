//! How long it takes from a change until every watcher knows of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::measure::{Amount, Row, count, percentiles};

/// The one object that is changed.
const WATCHED: &str = "watched";

/// Each change's number and when it arrived.
type Arrivals = BTreeMap<usize, Instant>;

pub(super) async fn fan_out(
    client: &Client,
    namespace: &str,
    watchers: usize,
    changes: usize,
) -> Result<Vec<Row>, kube::Error> {
    eprintln!("  changes to {watchers} watchers: {changes}");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let metadata = ObjectMeta { name: Some(WATCHED.into()), ..ObjectMeta::default() };
    let made = maps.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await?;
    let from = made.metadata.resource_version.unwrap_or_default();
    let ready = Arc::new(Barrier::new(watchers + 1));
    let mut watching = JoinSet::new();
    for _ in 0..watchers {
        watching.spawn(watch(maps.clone(), from.clone(), changes, ready.clone()));
    }
    ready.wait().await;
    let begun = Instant::now();
    let mut sent = Vec::with_capacity(changes);
    for change in 1..=changes {
        sent.push(Instant::now());
        let patch = Patch::Merge(json!({"data": {"change": change.to_string()}}));
        maps.patch(WATCHED, &PatchParams::default(), &patch).await?;
    }
    let mut delays = Vec::new();
    while let Some(arrivals) = watching.join_next().await {
        let arrivals = arrivals.map_err(|error| kube::Error::Service(Box::new(error)))??;
        delays.extend(arrivals.iter().map(|(change, arrived)| arrived.duration_since(sent[change - 1])));
    }
    let delivered = Amount::Rate(count(delays.len()) / begun.elapsed().as_secs_f64());
    let latency = percentiles(delays);
    Ok(vec![
        Row { what: "events delivered".into(), amount: delivered, latency: None },
        Row { latency: Some(latency), ..Row::time("a change known to a watcher", latency[0]) },
    ])
}

/// Watches until the last change has arrived.
async fn watch(
    maps: Api<ConfigMap>,
    from: String,
    changes: usize,
    ready: Arc<Barrier>,
) -> Result<Arrivals, kube::Error> {
    let params = WatchParams::default().fields(&format!("metadata.name={WATCHED}")).timeout(280);
    let mut events = std::pin::pin!(maps.watch(&params, &from).await?);
    ready.wait().await;
    let mut arrivals = Arrivals::new();
    while let Some(event) = events.try_next().await? {
        let WatchEvent::Modified(map) = event else { continue };
        let change = map.data.and_then(|data| data.get("change")?.parse().ok()).unwrap_or(0);
        arrivals.insert(change, Instant::now());
        if change == changes {
            break;
        }
    }
    Ok(arrivals)
}
