//! Watches: where they begin, what they tell, how they end.

use futures::{Stream, StreamExt, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::core::WatchEvent;
use serde_json::json;

use crate::fixtures::{PATIENCE, Tested, basket, cluster, embedded, labelled, orchard, read, refusal, told, tree};

type Event = Result<WatchEvent<ConfigMap>, kube::Error>;

fn quiet() -> WatchParams {
    WatchParams::default().disable_bookmarks()
}

async fn next(events: &mut (impl Stream<Item = Event> + Unpin)) -> WatchEvent<ConfigMap> {
    let event = tokio::time::timeout(PATIENCE, events.next()).await.expect("an event in time");
    event.expect("the watch goes on").expect("an event")
}

#[tokio::test]
async fn a_watch_goes_on_where_a_list_ended() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    api.create(&PostParams::default(), &basket("before")).await?;
    let version = api.list(&ListParams::default()).await?.metadata.resource_version.expect("a version");
    api.create(&PostParams::default(), &basket("a")).await?;
    api.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": {"x": "1"}}))).await?;
    api.delete("a", &DeleteParams::default()).await?;
    let events = api.watch(&quiet(), &version).await?.boxed();
    pin_mut!(events);
    let mut seen = Vec::new();
    let mut last = String::new();
    for _ in 0..3 {
        let event = next(&mut events).await;
        seen.push(told(&event));
        if let WatchEvent::Deleted(map) = &event {
            last = map.resource_version().unwrap_or_default();
            assert_eq!(map.data.as_ref().and_then(|data| data.get("x")).map(String::as_str), Some("1"));
        }
    }
    assert_eq!(seen, ["ADDED a", "MODIFIED a", "DELETED a"]);
    assert!(last.parse::<u64>()? > version.parse::<u64>()? + 2, "a deletion has a version of its own");
    Ok(())
}

#[tokio::test]
async fn watches_that_run_together_tell_the_same_in_the_same_order() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let version = api.list(&ListParams::default()).await?.metadata.resource_version.expect("a version");
    let mut watches = Vec::new();
    for _ in 0..5 {
        watches.push(api.watch(&quiet(), &version).await?.boxed());
    }
    for number in 0..10 {
        api.create(&PostParams::default(), &basket(&format!("b{number}"))).await?;
        api.delete(&format!("b{}", number / 2), &DeleteParams::default()).await.ok();
    }
    let mut stories = Vec::new();
    for watch in &mut watches {
        let mut story = Vec::new();
        for _ in 0..15 {
            story.push(told(&next(watch).await));
        }
        stories.push(story);
    }
    assert!(stories.iter().all(|story| *story == stories[0]), "{stories:?}");
    Ok(())
}

#[tokio::test]
async fn an_object_enters_and_leaves_a_selector() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let version = api.create(&PostParams::default(), &labelled("a", ("colour", "green"))).await?.resource_version();
    let mut events = api.watch(&quiet().labels("colour=red"), &version.expect("a version")).await?.boxed();
    let paint = async |colour: &str| {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"colour": colour}}}));
        api.patch("a", &PatchParams::default(), &patch).await
    };
    paint("red").await?;
    api.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": {"x": "1"}}))).await?;
    paint("blue").await?;
    paint("red").await?;
    api.delete("a", &DeleteParams::default()).await?;
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(told(&next(&mut events).await));
    }
    assert_eq!(seen, ["ADDED a", "MODIFIED a", "DELETED a", "ADDED a", "DELETED a"]);
    Ok(())
}

#[tokio::test]
async fn a_watch_without_version_begins_with_what_is_there() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    api.create(&PostParams::default(), &labelled("a", ("mine", "yes"))).await?;
    let mut events = api.watch(&quiet().labels("mine"), "0").await?.boxed();
    assert_eq!(told(&next(&mut events).await), "ADDED a");
    api.create(&PostParams::default(), &labelled("b", ("mine", "yes"))).await?;
    assert_eq!(told(&next(&mut events).await), "ADDED b");
    Ok(())
}

#[tokio::test]
async fn a_streaming_list_ends_with_a_bookmark_that_says_so() -> Tested {
    let (_cluster, client) = cluster().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    for name in ["a", "b"] {
        api.create(&PostParams::default(), &labelled(name, ("mine", "yes"))).await?;
    }
    let mut events = api.watch(&WatchParams::streaming_lists().labels("mine"), "0").await?.boxed();
    assert_eq!(told(&next(&mut events).await), "ADDED a");
    assert_eq!(told(&next(&mut events).await), "ADDED b");
    let WatchEvent::Bookmark(bookmark) = next(&mut events).await else { panic!("no bookmark") };
    let ended = bookmark.metadata.annotations.get("k8s.io/initial-events-end");
    assert_eq!(ended.map(String::as_str), Some("true"));
    api.create(&PostParams::default(), &labelled("c", ("mine", "yes"))).await?;
    assert_eq!(told(&next(&mut events).await), "ADDED c");
    Ok(())
}

#[tokio::test]
async fn a_watch_ends_in_time_with_a_bookmark_if_one_may_be_sent() -> Tested {
    let Some((_cluster, client)) = embedded("another server may send its last bookmark long before the end").await
    else {
        return Ok(());
    };
    let api = Api::<ConfigMap>::default_namespaced(client);
    let version = api.create(&PostParams::default(), &basket("a")).await?.resource_version().expect("a version");
    let (loud, silent) = (WatchParams::default().timeout(1), quiet().timeout(1));
    let (loud, silent) = (api.watch(&loud, &version).await?, api.watch(&silent, &version).await?);
    let both = futures::future::join(loud.collect::<Vec<_>>(), silent.collect::<Vec<_>>());
    let (loud, silent) = tokio::time::timeout(PATIENCE, both).await?;
    assert_eq!(loud.iter().flatten().map(told).collect::<Vec<_>>(), ["BOOKMARK"]);
    assert!(silent.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_watch_from_the_future_is_refused_as_clients_expect() -> Tested {
    let (_cluster, client) = cluster().await;
    let answer = read(&client, "/api/v1/configmaps?watch=1&resourceVersion=999999999999", "application/json").await;
    let status = if answer.body["kind"] == "Status" { &answer.body } else { &answer.body["object"] };
    assert_eq!((status["code"].as_u64(), &status["reason"]), (Some(504), &json!("Timeout")), "{}", answer.body);
    Ok(())
}

#[tokio::test]
async fn a_version_that_is_no_longer_known_is_gone() -> Tested {
    let Some((cluster, client)) = embedded("its history is bounded by bytes, of which a test can write enough").await
    else {
        return Ok(());
    };
    let trees = orchard(&cluster).await;
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    for name in ["a", "b", "c"] {
        maps.create(&PostParams::default(), &labelled(name, ("mine", "yes"))).await?;
    }
    let page = ListParams::default().labels("mine").limit(1);
    let token = maps.list(&page).await?.metadata.continue_.expect("more");
    // History is bounded by bytes: a few dozen large writes push out what was before.
    let mut large = tree("large");
    large.data["spec"]["sort"] = "x".repeat(2_800_000).into();
    for _ in 0..13 {
        trees.create(&PostParams::default(), &large).await?;
        trees.delete("large", &DeleteParams::default()).await?;
    }
    let mut events = maps.watch(&quiet(), "1").await?.boxed();
    match tokio::time::timeout(PATIENCE, events.next()).await?.expect("an event") {
        Ok(WatchEvent::Error(status)) => assert_eq!((status.code, status.reason.as_str()), (410, "Expired")),
        other => panic!("{other:?}"),
    }
    let expired = refusal(maps.list(&page.clone().continue_token(&token)).await);
    assert_eq!((expired.code, expired.reason.as_str()), (410, "Expired"));
    let rest = expired.metadata.and_then(|metadata| metadata.continue_).expect("a way to go on");
    let rest = maps.list(&page.limit(5).continue_token(&rest)).await?;
    assert_eq!(rest.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["b", "c"]);
    Ok(())
}

#[tokio::test]
async fn custom_resources_are_watched_by_field() -> Tested {
    let (cluster, _) = cluster().await;
    let api = orchard(&cluster).await;
    let mut events = api.watch(&quiet().fields("spec.sort=plum"), "0").await?.boxed();
    let mut plum = tree("p");
    plum.data["spec"]["sort"] = "plum".into();
    api.create(&PostParams::default(), &tree("q")).await?;
    api.create(&PostParams::default(), &plum).await?;
    let event = tokio::time::timeout(PATIENCE, events.next()).await?.expect("an event")?;
    assert_eq!(told(&event), "ADDED p");
    Ok(())
}
