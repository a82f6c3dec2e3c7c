//! Watches that never end, and say what is gone also when they had to start over.

use std::collections::HashMap;
use std::fmt::Debug;

use futures::stream::{self, Stream, StreamExt};
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::model::Key;

/// What a watch has seen.
#[derive(Debug)]
pub(crate) enum Seen<K> {
    /// An object is there, and so.
    Is(Box<K>),
    /// An object is gone.
    Gone {
        /// Its namespace and name.
        key: Key,
        /// Its uid.
        uid: String,
    },
    /// All that was there at the beginning has been seen. Once only.
    Listed,
}

/// Follows all objects of a kind.
pub(crate) fn follow<K>(api: Api<K>) -> impl Stream<Item = Seen<K>> + Send
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut known = Known::default();
    let events = watcher(api, watcher::Config::default()).default_backoff();
    events.flat_map(move |event| {
        stream::iter(match event {
            Ok(event) => known.on(event),
            Err(error) => {
                tracing::warn!(kind = %K::kind(&()), %error, "a watch has failed, and is tried again");
                Vec::new()
            }
        })
    })
}

/// Who is there, by uid.
#[derive(Default)]
struct Known {
    there: HashMap<Key, String>,
    /// Objects that have not been seen since the watch started over.
    unseen: HashMap<Key, String>,
    is_listed: bool,
}

impl Known {
    fn on<K: Resource<DynamicType = ()>>(&mut self, event: Event<K>) -> Vec<Seen<K>> {
        match event {
            Event::Init => {
                self.unseen = self.there.clone();
                Vec::new()
            }
            Event::InitApply(object) | Event::Apply(object) => self.is(object),
            Event::Delete(object) => self.gone(key(&object)).into_iter().collect(),
            Event::InitDone => {
                let unseen: Vec<Key> = std::mem::take(&mut self.unseen).into_keys().collect();
                let mut seen: Vec<Seen<K>> = unseen.into_iter().filter_map(|key| self.gone(key)).collect();
                if !std::mem::replace(&mut self.is_listed, true) {
                    seen.push(Seen::Listed);
                }
                seen
            }
        }
    }

    /// An object of another uid is another object: the one before is gone, though no one saw it go.
    fn is<K: Resource<DynamicType = ()>>(&mut self, mut object: K) -> Vec<Seen<K>> {
        // Half of an object is who wrote which field, which decides nothing here.
        object.meta_mut().managed_fields = None;
        let (key, uid) = (key(&object), object.uid().unwrap_or_default());
        self.unseen.remove(&key);
        let before = self.there.insert(key.clone(), uid.clone()).filter(|before| *before != uid);
        let gone = before.map(|uid| Seen::Gone { key, uid });
        gone.into_iter().chain([Seen::Is(Box::new(object))]).collect()
    }

    fn gone<K>(&mut self, key: Key) -> Option<Seen<K>> {
        let uid = self.there.remove(&key)?;
        Some(Seen::Gone { key, uid })
    }
}

fn key<K: Resource<DynamicType = ()>>(object: &K) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    fn pod(name: &str, uid: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {"namespace": "grove", "name": name, "uid": uid}})).unwrap()
    }

    fn told(known: &mut Known, event: Event<Pod>) -> Vec<String> {
        let tell = |seen: Seen<Pod>| match seen {
            Seen::Is(pod) => format!("{} is", pod.uid().unwrap()),
            Seen::Gone { uid, .. } => format!("{uid} gone"),
            Seen::Listed => "listed".into(),
        };
        known.on(event).into_iter().map(tell).collect()
    }

    #[test]
    fn what_went_while_the_watch_was_down_is_gone() {
        let mut known = Known::default();
        for event in [Event::Init, Event::InitApply(pod("a", "1")), Event::InitApply(pod("b", "2"))] {
            told(&mut known, event);
        }
        assert_eq!(told(&mut known, Event::InitDone), ["listed"]);
        told(&mut known, Event::Init);
        assert_eq!(told(&mut known, Event::InitApply(pod("b", "2"))), ["2 is"]);
        assert_eq!(told(&mut known, Event::InitDone), ["1 gone"]);
    }

    #[test]
    fn who_takes_a_name_over_is_somebody_else() {
        let mut known = Known::default();
        told(&mut known, Event::Apply(pod("a", "1")));
        assert_eq!(told(&mut known, Event::Apply(pod("a", "2"))), ["1 gone", "2 is"]);
        assert_eq!(told(&mut known, Event::Delete(pod("a", "2"))), ["2 gone"]);
        assert_eq!(told(&mut known, Event::Delete(pod("a", "2"))), Vec::<String>::new());
    }
}
