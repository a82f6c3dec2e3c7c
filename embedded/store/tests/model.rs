//! The store against the simplest thing that behaves like it, over long random histories with fixed seeds.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use c5c3_store::{Entry, Event, Expect, Options, Store, Watch, WriteError};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// key -> (value, revision, created)
type Data = BTreeMap<String, (Vec<u8>, u64, u64)>;

/// Remembers everything, at every revision.
#[derive(Default)]
struct Model {
    data: Data,
    revision: u64,
    past: Vec<Data>,
    events: Vec<Event>,
}

impl Model {
    fn new() -> Self {
        Self { past: vec![Data::new()], ..Self::default() }
    }

    /// The revision that the write gets, or `None` for a conflict.
    fn write(&mut self, key: &str, expect: Expect, value: Option<Vec<u8>>) -> Option<u64> {
        let current = self.data.get(key).cloned();
        let expected = match expect {
            Expect::Any => true,
            Expect::Absent => current.is_none(),
            Expect::Present => current.is_some(),
            Expect::Revision(revision) => current.as_ref().is_some_and(|current| current.1 == revision),
        };
        if !expected {
            return None;
        }
        if value.is_none() && current.is_none() {
            return Some(self.revision);
        }
        self.revision += 1;
        self.events.push(Event {
            revision: self.revision,
            key: key.into(),
            value: value.clone().map(Bytes::from),
            previous: current.as_ref().map(|current| Bytes::from(current.0.clone())),
            created: current.is_none(),
        });
        match value {
            Some(value) => {
                let created = current.map_or(self.revision, |current| current.2);
                self.data.insert(key.to_owned(), (value, self.revision, created));
            }
            None => drop(self.data.remove(key)),
        }
        self.past.push(self.data.clone());
        Some(self.revision)
    }

    fn list(&self, prefix: &str, revision: u64) -> Vec<Entry> {
        let past = &self.past[usize::try_from(revision).unwrap()];
        past.iter().filter(|(key, _)| key.starts_with(prefix)).map(|(key, value)| entry(key, value)).collect()
    }
}

fn entry(key: &str, (value, revision, created): &(Vec<u8>, u64, u64)) -> Entry {
    Entry { key: key.into(), value: Bytes::from(value.clone()), revision: *revision, created: *created }
}

const PREFIXES: [&str; 6] = ["", "/a/", "/a/1", "/b/", "/b/é", "/none/"];

fn any_key(rng: &mut StdRng) -> String {
    let group = ["a", "b", "bé"][rng.random_range(0..3)];
    format!("/{group}/{}", rng.random_range(0..20))
}

async fn step(store: &Store, model: &mut Model, rng: &mut StdRng) {
    let key = any_key(rng);
    let current = model.data.get(&key).map_or(0, |current| current.1);
    let expect = match rng.random_range(0..8) {
        0 => Expect::Absent,
        1 => Expect::Present,
        2 | 3 => Expect::Revision(current),
        4 => Expect::Revision(rng.random_range(0..=model.revision + 1)),
        _ => Expect::Any,
    };
    let value = (rng.random_range(0..4) > 0).then(|| vec![rng.random(); rng.random_range(0..200)]);
    let before = model.data.get(&key).map(|current| entry(&key, current));
    let next = model.revision + 1;
    let made = value.clone().map(Bytes::from);
    let written = store.write(&key, expect, move |revision| {
        assert_eq!(revision, next);
        made
    });
    match (written.await, model.write(&key, expect, value)) {
        (Ok(written), Some(revision)) => assert_eq!((written.revision, written.previous), (revision, before)),
        (Err(WriteError::Conflict { current }), None) => assert_eq!(current, before),
        (got, wanted) => panic!("{got:?} instead of {wanted:?}"),
    }
    assert_eq!(store.get(&key), model.data.get(&key).map(|current| entry(&key, current)));
}

fn compare_lists(store: &Store, model: &Model, rng: &mut StdRng) {
    assert_eq!(store.revision(), model.revision);
    let prefix = PREFIXES[rng.random_range(0..PREFIXES.len())];
    let snapshot = store.list(prefix);
    let expected = model.list(prefix, model.revision);
    assert_eq!(snapshot.iter().cloned().collect::<Vec<_>>(), expected);
    assert_eq!((snapshot.len(), snapshot.is_empty()), (expected.len(), expected.is_empty()));
    let from = any_key(rng);
    let page: Vec<_> = snapshot.starting_after(&from).cloned().collect();
    assert_eq!(page, expected.into_iter().filter(|entry| *entry.key > *from).collect::<Vec<_>>());

    let revision = rng.random_range(0..=model.revision);
    match store.list_at(prefix, revision) {
        Ok(snapshot) => {
            assert_eq!(snapshot.revision, revision);
            assert_eq!(snapshot.iter().cloned().collect::<Vec<_>>(), model.list(prefix, revision));
        }
        Err(compacted) => assert!(revision < compacted.oldest, "{revision} {compacted}"),
    }
    assert!(store.list_at(prefix, model.revision + 1).is_err());
}

/// Reads all that a watch has; nothing is written meanwhile, so it is up to date when it would wait.
async fn drain(watch: &mut Watch) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        tokio::select! {
            biased;
            event = watch.next() => events.push(event.unwrap().unwrap()),
            () = std::future::ready(()) => return events,
        }
    }
}

async fn compare_watch(store: &Store, model: &Model, rng: &mut StdRng) {
    let prefix = PREFIXES[rng.random_range(0..PREFIXES.len())];
    let after = rng.random_range(0..=model.revision);
    match store.watch(prefix, after) {
        Ok(mut watch) => {
            let expected = model.events.iter().filter(|event| event.revision > after && event.key.starts_with(prefix));
            assert_eq!(drain(&mut watch).await, expected.cloned().collect::<Vec<_>>());
            assert_eq!(watch.progress(), model.revision);
        }
        Err(compacted) => assert!(after < compacted.oldest && compacted.current == model.revision),
    }
}

#[tokio::test]
async fn in_memory_it_behaves_like_the_model() {
    for seed in 0..20 {
        let mut rng = StdRng::seed_from_u64(seed);
        let (store, mut model) = (Store::in_memory(Options { history: 150, ..Options::default() }), Model::new());
        let mut watch = store.watch("/b/", 0).unwrap();
        let mut events = Vec::new();
        for _ in 0..500 {
            step(&store, &mut model, &mut rng).await;
            compare_lists(&store, &model, &mut rng);
            compare_watch(&store, &model, &mut rng).await;
            if rng.random_range(0..10) == 0 {
                events.extend(drain(&mut watch).await);
            }
        }
        events.extend(drain(&mut watch).await);
        let expected = model.events.iter().filter(|event| event.key.starts_with("/b/"));
        assert_eq!(events, expected.cloned().collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn on_disk_it_behaves_like_the_model_through_checkpoints_and_restarts() {
    for seed in 0..4 {
        let dir = tempfile::tempdir().unwrap();
        // A checkpoint every few dozen writes.
        let options = Options { checkpoint_bytes: 4096, ..Options::default() };
        let open = |dir: &Path| Store::open(dir, options).unwrap();
        let mut rng = StdRng::seed_from_u64(seed);
        let (mut store, mut model) = (open(dir.path()), Model::new());
        for _ in 0..400 {
            step(&store, &mut model, &mut rng).await;
            compare_lists(&store, &model, &mut rng);
            if rng.random_range(0..20) == 0 {
                if rng.random() {
                    store.close().await;
                } else {
                    drop(store);
                }
                store = open(dir.path());
                compare_lists(&store, &model, &mut rng);
                compare_watch(&store, &model, &mut rng).await;
            }
        }
    }
}
