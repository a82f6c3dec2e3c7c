//! kube's own machinery over a server that fails: watchers, stores, controllers, leases.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use c5c3_harness::Fault;
use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use serde_json::json;

use crate::fixtures::{PATIENCE, Tested, basket, cluster, labelled, of, refusal};

const MAPS: &str = "/configmaps";

#[tokio::test]
async fn a_watcher_survives_dropped_watches() -> Tested {
    let (cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let config = watcher::Config::default().labels("mine");
    let mut seen = watcher(api.clone(), config).default_backoff().applied_objects().boxed();
    for name in ["a", "b", "c"] {
        api.create(&PostParams::default(), &labelled(name, ("mine", "yes"))).await?;
        let object = tokio::time::timeout(PATIENCE, seen.next()).await?.expect("goes on")?;
        assert_eq!(object.name_any(), name, "each is told once, without a list in between");
        cluster.drop_watches();
    }
    Ok(())
}

#[tokio::test]
async fn a_streaming_watcher_fills_a_store() -> Tested {
    let (cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    api.create(&PostParams::default(), &labelled("a", ("mine", "yes"))).await?;
    let (store, writer) = reflector::store();
    let config = watcher::Config::default().labels("mine").streaming_lists();
    let stream = reflector(writer, watcher(api.clone(), config)).default_backoff().touched_objects();
    tokio::spawn(stream.for_each(|_| std::future::ready(())));
    tokio::time::timeout(PATIENCE, store.wait_until_ready()).await??;
    assert!(store.get(&ObjectRef::new("a").within(cluster.namespace())).is_some());
    Ok(())
}

#[tokio::test]
async fn a_controller_reconciles_over_faults_and_dropped_watches() -> Tested {
    let (cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client.clone());
    cluster.inject(Fault::answer(500).to("list", MAPS));
    cluster.inject(Fault::answer(429).to("watch", MAPS));
    cluster.inject(Fault::answer(409).to("patch", MAPS).after(1).times(2));
    let runs = Arc::new(AtomicUsize::new(0));
    let patches = api.clone();
    let mut controller = Controller::new(api.clone(), watcher::Config::default().labels("mine"))
        .run(
            move |map: Arc<ConfigMap>, runs: Arc<AtomicUsize>| {
                let api = patches.clone();
                async move {
                    runs.fetch_add(1, Ordering::Relaxed);
                    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"done": "yes"}});
                    api.patch(&map.name_any(), &PatchParams::apply("c").force(), &Patch::Apply(object)).await?;
                    Ok::<_, kube::Error>(Action::await_change())
                }
            },
            |_, _, _| Action::requeue(Duration::from_millis(1)),
            runs.clone(),
        )
        .boxed();
    for name in ["a", "b", "c"] {
        api.create(&PostParams::default(), &labelled(name, ("mine", "yes"))).await?;
        let done = async { while !matches!(controller.next().await, Some(Ok((object, _))) if object.name == name) {} };
        tokio::time::timeout(PATIENCE, done).await?;
        assert!(api.get(name).await?.data.is_some_and(|data| data.contains_key("done")));
        cluster.drop_watches();
    }
    assert!(runs.load(Ordering::Relaxed) >= 5, "two reconciliations failed and were made good");
    Ok(())
}

#[tokio::test]
async fn faults_strike_what_they_match_and_no_more() -> Tested {
    let (cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    for code in [409, 410, 429, 500] {
        cluster.inject(Fault::answer(code).to("get", MAPS).after(1));
        api.get_opt("a").await?;
        let struck = refusal(api.get("kube-root-ca.crt").await);
        assert_eq!(struck.code, code);
        api.get_opt("a").await?;
    }
    cluster.inject(Fault::answer(500).to("create", MAPS).always());
    assert_eq!(refusal(api.create(&PostParams::default(), &basket("a")).await).code, 500);
    cluster.heal();
    api.create(&PostParams::default(), &basket("a")).await?;
    Ok(())
}

#[tokio::test]
async fn an_answer_that_is_lost_was_given_all_the_same() -> Tested {
    let (cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    cluster.inject(Fault::disconnect().to("create", MAPS));
    assert!(matches!(api.create(&PostParams::default(), &basket("a")).await, Err(kube::Error::Service(_))));
    assert!(api.get_opt("a").await?.is_none());
    cluster.inject(Fault::lose_answer().to("create", MAPS));
    assert!(matches!(api.create(&PostParams::default(), &basket("a")).await, Err(kube::Error::Service(_))));
    assert!(api.get_opt("a").await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_delay_delays() -> Tested {
    let (cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    cluster.inject(Fault::delay(Duration::from_millis(50)).to("get", MAPS));
    let began = std::time::Instant::now();
    api.get_opt("a").await?;
    assert!(began.elapsed() >= Duration::from_millis(50));
    Ok(())
}

#[tokio::test]
async fn a_lease_has_one_holder() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<Lease>::default_namespaced(client);
    let lease: Lease = of(json!({
        "metadata": {"name": "leader"},
        "spec": {"holderIdentity": "one", "leaseDurationSeconds": 15, "renewTime": "2026-01-31T12:00:00.000000Z"}}));
    let free = api.create(&PostParams::default(), &lease).await?;
    let take = |who: &str| {
        let mut lease = free.clone();
        lease.spec.get_or_insert_default().holder_identity = Some(who.into());
        let api = api.clone();
        async move { api.replace("leader", &PostParams::default(), &lease).await }
    };
    let (two, three) = futures::future::join(take("two"), take("three")).await;
    assert_eq!([two.is_ok(), three.is_ok()].iter().filter(|won| **won).count(), 1, "only one of two wins");
    let renewed = api.get("leader").await?.spec.and_then(|spec| spec.renew_time);
    assert!(renewed.is_some());
    Ok(())
}
