//! Watch events folded into changes, also across a list that starts over: what is no longer in it is gone, though no
//! event says so.

use std::collections::{HashMap, HashSet};

use kube::Resource;
use kube::core::ApiResource;
use kube::runtime::watcher::Event;

use crate::object::Ref;

/// What an event says.
#[derive(Debug, PartialEq)]
pub(crate) enum Change<K, T> {
    /// An object is there, new or changed; this was known of it before.
    Applied(Ref, K, Option<T>),
    /// An object is gone; this was known of it.
    Gone(Ref, T),
}

/// The objects that a watch has told of, with what is to be known of each.
pub(crate) struct Fold<T> {
    resource: ApiResource,
    known: HashMap<Ref, T>,
    listed: HashSet<Ref>,
}

impl<T> Fold<T> {
    pub(crate) fn new(resource: ApiResource) -> Self {
        Self { resource, known: HashMap::new(), listed: HashSet::new() }
    }

    /// What is known of an object now.
    pub(crate) fn known(&self, object: &Ref) -> Option<&T> {
        self.known.get(object)
    }

    pub(crate) fn on<K: Resource>(&mut self, event: Event<K>, know: impl Fn(&K) -> T) -> Vec<Change<K, T>> {
        match event {
            Event::Init => {
                self.listed.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                self.listed.insert(Ref::of(&self.resource, object.meta()));
                vec![self.applied(object, know)]
            }
            Event::InitDone => {
                let gone: Vec<Ref> = self.known.keys().filter(|known| !self.listed.contains(known)).cloned().collect();
                self.listed.clear();
                gone.into_iter().filter_map(|reference| self.gone(reference)).collect()
            }
            Event::Apply(object) => vec![self.applied(object, know)],
            Event::Delete(object) => {
                let reference = Ref::of(&self.resource, object.meta());
                self.known.entry(reference.clone()).or_insert_with(|| know(&object));
                self.gone(reference).into_iter().collect()
            }
        }
    }

    fn applied<K: Resource>(&mut self, object: K, know: impl Fn(&K) -> T) -> Change<K, T> {
        let reference = Ref::of(&self.resource, object.meta());
        let before = self.known.insert(reference.clone(), know(&object));
        Change::Applied(reference, object, before)
    }

    fn gone<K>(&mut self, reference: Ref) -> Option<Change<K, T>> {
        self.known.remove(&reference).map(|known| Change::Gone(reference, known))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ObjectMeta;

    use super::*;

    fn map(name: &str) -> ConfigMap {
        ConfigMap { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, ..ConfigMap::default() }
    }

    #[test]
    fn what_vanished_between_two_lists_is_told_as_gone() {
        let mut fold = Fold::<()>::new(ApiResource::erase::<ConfigMap>(&()));
        let mut gone = Vec::new();
        let first = [Event::Init, Event::InitApply(map("stays")), Event::InitApply(map("goes")), Event::InitDone];
        let second = [Event::Init, Event::InitApply(map("stays")), Event::InitDone, Event::Delete(map("stays"))];
        for event in first.into_iter().chain(second) {
            for change in fold.on(event, |_| ()) {
                if let Change::Gone(reference, ()) = change {
                    gone.push(reference.name);
                }
            }
        }
        assert_eq!(gone, ["goes", "stays"]);
    }
}
