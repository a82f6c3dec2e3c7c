//! Watches: nothing missed, nothing twice, and an honest end for those who cannot keep up.
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use c5c3_store::{Compacted, Event, Expect, Lagged, Options, Store, Watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

async fn put(store: &Store, key: &str, value: &str) -> u64 {
    let value = Bytes::copy_from_slice(value.as_bytes());
    store.write(key, Expect::Any, move |_| Some(value)).await.unwrap().revision
}

async fn next(watch: &mut Watch) -> Event {
    timeout(Duration::from_secs(5), watch.next()).await.expect("an event").expect("not the end").expect("not lagged")
}

async fn is_idle(watch: &mut Watch) -> bool {
    timeout(Duration::from_millis(20), watch.next()).await.is_err()
}

#[tokio::test]
async fn an_event_says_what_was_and_what_is() {
    let store = Store::in_memory(Options::default());
    let mut watch = store.watch("/pods/", 0).unwrap();
    put(&store, "/pods/web", "one").await;
    put(&store, "/pods/web", "two").await;
    store.write("/pods/web", Expect::Revision(2), |_| None).await.unwrap();

    let (one, two) = (Some(Bytes::from("one")), Some(Bytes::from("two")));
    let key: Arc<str> = "/pods/web".into();
    let event = |revision, value: &Option<Bytes>, previous: &Option<Bytes>| Event {
        revision,
        key: Arc::clone(&key),
        value: value.clone(),
        previous: previous.clone(),
        created: previous.is_none(),
    };
    assert_eq!(next(&mut watch).await, event(1, &one, &None));
    assert_eq!(next(&mut watch).await, event(2, &two, &one));
    assert_eq!(next(&mut watch).await, event(3, &None, &two));
    assert!(is_idle(&mut watch).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writers_leave_no_gap_and_no_duplicate_for_any_watch() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    let mut watchers = JoinSet::new();
    for number in 0..20 {
        let prefix = if number % 2 == 0 { String::new() } else { format!("/{}/", number % 8) };
        let mut watch = store.watch(&prefix, 0).unwrap();
        watchers.spawn(async move {
            let mut revisions = Vec::new();
            while let Some(event) = watch.next().await {
                let event = event.unwrap();
                assert!(event.key.starts_with(&prefix));
                revisions.push(event.revision);
            }
            (prefix, revisions)
        });
    }
    let mut writers = JoinSet::new();
    for writer in 0..16 {
        let store = store.clone();
        writers.spawn(async move {
            let mut written = Vec::new();
            for count in 0..100 {
                let key = format!("/{}/{writer}", count % 8);
                let revision = put(&store, &key, "value").await;
                // A read after an acknowledged write sees it, and so does a list.
                assert_eq!(store.get(&key).unwrap().revision, revision);
                assert!(store.list(&key).revision >= revision);
                written.push((key, revision));
            }
            written
        });
    }
    let mut written: Vec<_> = writers.join_all().await.into_iter().flatten().collect();
    written.sort_by_key(|(_, revision)| *revision);
    store.close().await;
    assert!(written.iter().zip(1..).all(|((_, revision), expected)| *revision == expected), "revisions are dense");
    for (prefix, seen) in watchers.join_all().await {
        let matching = written.iter().filter(|(key, _)| key.starts_with(&prefix));
        assert_eq!(seen, matching.map(|(_, revision)| *revision).collect::<Vec<_>>(), "{prefix:?}");
    }
}

#[tokio::test]
async fn a_watch_from_before_the_history_is_told_what_there_is() {
    let store = Store::in_memory(Options { history: 10, ..Options::default() });
    for _ in 0..25 {
        put(&store, "/pods/web", "value").await;
    }
    assert_eq!(store.watch("/pods/", 14).unwrap_err(), Compacted { oldest: 15, current: 25 });
    assert_eq!(store.list_at("/pods/", 14).unwrap_err(), Compacted { oldest: 15, current: 25 });
    assert_eq!(store.list_at("/pods/", 15).unwrap().iter().next().unwrap().revision, 15);
    let mut watch = store.watch("/pods/", 15).unwrap();
    for revision in 16..=25 {
        assert_eq!(next(&mut watch).await.revision, revision);
    }
}

#[tokio::test]
async fn the_history_is_bounded_by_bytes_too() {
    let store = Store::in_memory(Options { history_bytes: 100_000, ..Options::default() });
    for _ in 0..100 {
        put(&store, "/pods/web", &"x".repeat(5000)).await;
    }
    assert_eq!(store.watch("/pods/", 0).unwrap_err(), Compacted { oldest: 91, current: 100 });
    // One that is larger than the bound is still seen by those who wait for it.
    let mut watch = store.watch("/pods/", 100).unwrap();
    put(&store, "/pods/web", &"x".repeat(500_000)).await;
    assert_eq!(next(&mut watch).await.revision, 101);
}

#[tokio::test]
async fn a_watch_that_falls_behind_the_history_ends() {
    let store = Store::in_memory(Options { history: 10, ..Options::default() });
    let mut watch = store.watch("/pods/", 0).unwrap();
    put(&store, "/pods/web", "value").await;
    assert_eq!(next(&mut watch).await.revision, 1);
    for _ in 0..11 {
        put(&store, "/pods/web", "value").await;
    }
    assert_eq!(watch.progress(), 1);
    assert_eq!(watch.next().await, Some(Err(Lagged { seen: 1 })));
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn a_watch_of_a_quiet_prefix_is_never_behind() {
    let store = Store::in_memory(Options { history: 10, ..Options::default() });
    let mut watch = store.watch("/quiet/", 0).unwrap();
    for _ in 0..100 {
        put(&store, "/busy/web", "value").await;
    }
    assert_eq!(watch.progress(), 100);
    put(&store, "/quiet/web", "value").await;
    assert_eq!(watch.progress(), 0, "it has not read the event yet");
    assert_eq!(next(&mut watch).await.revision, 101);
    assert_eq!(watch.progress(), 101);
}

#[tokio::test]
async fn watches_of_one_prefix_start_where_each_asked() {
    let store = Store::in_memory(Options::default());
    for _ in 0..3 {
        put(&store, "/pods/web", "value").await;
        put(&store, "/nodes/one", "value").await;
    }
    let mut late = store.watch("/pods/", 4).unwrap();
    let mut early = store.watch("/pods/", 0).unwrap();
    let mut ahead = store.watch("/pods/", 7).unwrap();
    put(&store, "/pods/web", "value").await;
    put(&store, "/pods/web", "value").await;
    for (watch, revisions) in [(&mut late, &[5, 7, 8][..]), (&mut early, &[1, 3, 5, 7, 8]), (&mut ahead, &[8])] {
        for revision in revisions {
            assert_eq!(next(watch).await.revision, *revision);
        }
        assert!(is_idle(watch).await);
    }
}

#[tokio::test]
async fn watches_end_when_the_store_closes_after_what_was_written() {
    let store = Store::in_memory(Options::default());
    let (mut reading, mut waiting) = (store.watch("", 0).unwrap(), store.watch("/other/", 0).unwrap());
    let waiter = tokio::spawn(async move { waiting.next().await });
    put(&store, "/pods/web", "value").await;
    tokio::task::yield_now().await;
    store.close().await;
    assert_eq!(next(&mut reading).await.revision, 1);
    assert_eq!(reading.next().await, None);
    assert_eq!(waiter.await.unwrap(), None);
}

#[tokio::test]
async fn a_snapshot_does_not_change_with_the_store() {
    let store = Store::in_memory(Options::default());
    put(&store, "/pods/web", "old").await;
    let snapshot = store.list("/pods/");
    put(&store, "/pods/web", "new").await;
    put(&store, "/pods/other", "new").await;
    assert_eq!((snapshot.revision, snapshot.len()), (1, 1));
    assert_eq!(snapshot.iter().next().unwrap().value, "old");
}
