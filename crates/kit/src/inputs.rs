//! Everything that a decision is made from: the object, what it refers to, what a service or a remote answered, the time,
//! and randomness.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Resource;
use kube::api::DynamicObject;
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::object::Ref;
use crate::probe::{Answer, Probe};
use crate::remote::{self, Failure, Question, Remote, Reply};
use crate::wait::Wait;

/// What was found under a reference.
#[derive(Clone)]
pub enum Found {
    /// The object.
    Object(Box<DynamicObject>),
    /// Nothing.
    Missing,
    /// Nothing: the cluster does not know the kind.
    UnknownKind,
}

/// The object of a reconcile, and everything that it refers to, as it was read.
#[derive(Clone)]
pub struct Inputs<K> {
    /// The object, with second spellings of fields already moved to the canonical ones.
    pub object: K,
    /// When it was read. A plan takes the time from here and from nowhere else.
    pub now: Timestamp,
    found: HashMap<Ref, Found>,
    answers: HashMap<Probe, Answer>,
    replies: HashMap<Question, Reply>,
    own: BTreeMap<OwnKey, Arc<DynamicObject>>,
    entropy: [u8; 32],
}

/// `apiVersion`, `kind`, namespace and name of a child.
type OwnKey = (String, String, Option<String>, String);

impl<K: Resource> Inputs<K> {
    /// The inputs before anything else is read.
    pub fn new(object: K, now: Timestamp) -> Self {
        let (found, answers, replies, own) = (HashMap::new(), HashMap::new(), HashMap::new(), BTreeMap::new());
        Self { object, now, found, answers, replies, own, entropy: [0; 32] }
    }

    /// Takes this as the source of all randomness. Without it every plan has the same secrets, as tests want.
    pub fn with_entropy(self, entropy: [u8; 32]) -> Self {
        Self { entropy, ..self }
    }

    /// Unpredictable random bytes, the same for the same `purpose` within one reconcile. A plan takes randomness
    /// from here and from nowhere else, so that it stays a function of its inputs.
    pub fn random(&self, purpose: &str) -> [u8; 32] {
        Sha256::new().chain_update(self.entropy).chain_update(purpose).finalize().into()
    }

    /// Adds what came of a probe.
    pub fn insert_answer(&mut self, probe: Probe, answer: Answer) {
        self.answers.insert(probe, answer);
    }

    /// What came of a probe; none if it was not made.
    pub fn answer(&self, probe: &Probe) -> Option<&Answer> {
        self.answers.get(probe)
    }

    /// Adds what came of a question to a remote.
    pub fn insert_reply<R: Remote>(&mut self, question: R::Question, reply: Result<R::Answer, Failure>) {
        let reply = reply.map(|answer| Arc::new(answer) as Arc<dyn Any + Send + Sync>);
        self.insert_any_reply(Question::to::<R>(question), reply);
    }

    pub(crate) fn insert_any_reply(&mut self, question: Question, reply: Reply) {
        self.replies.insert(question, reply);
    }

    pub(crate) fn has_asked(&self, question: &Question) -> bool {
        self.replies.contains_key(question)
    }

    /// What came of a question that [`crate::Controller::questions`] named; none if it was not asked.
    pub fn reply<R: Remote>(&self, question: &R::Question) -> Option<Result<&R::Answer, &Failure>> {
        match self.replies.get(&Question::to::<R>(question.clone()))? {
            Ok(answer) => answer.downcast_ref().map(Ok),
            Err(failure) => Some(Err(failure)),
        }
    }

    /// The answer to a question that [`crate::Controller::questions`] named, or the wait for it.
    pub fn answered<R: Remote>(&self, question: &R::Question) -> Result<&R::Answer, Wait> {
        let remote = remote::reference(R::NAME);
        match self.reply::<R>(question) {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(failure)) => Err(failure.unanswered(&remote, &Question::to::<R>(question.clone()))),
            None => Err(Wait::on(&remote).condition(format!("answers: {question}")).now("not asked yet")),
        }
    }

    /// The questions without an answer, and why.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = (&Question, &Failure)> {
        self.replies.iter().filter_map(|(question, reply)| Some((question, reply.as_ref().err()?)))
    }

    /// Adds a live child of an observed kind.
    ///
    /// # Panics
    ///
    /// If the object does not say of what kind it is, as every one from an API does.
    pub fn insert_own(&mut self, object: impl Into<Arc<DynamicObject>>) {
        let object = object.into();
        let types = object.types.as_ref().expect("an object has an apiVersion and a kind");
        let (namespace, name) = (object.metadata.namespace.clone(), object.metadata.name.clone().unwrap_or_default());
        self.own.insert((types.api_version.clone(), types.kind.clone(), namespace, name), object);
    }

    /// The live children of a kind that [`crate::Controller::observes`] names, with their status, by namespace and name; and
    /// of a kind that [`crate::Controller::descendants`] names, what other controllers made of children.
    pub fn own<T: Resource<DynamicType = ()>>(&self) -> impl Iterator<Item = &DynamicObject> {
        let (version, kind) = (T::api_version(&()), T::kind(&()));
        let is_it = move |key: &OwnKey| key.0 == version && key.1 == kind;
        self.own.iter().filter(move |(key, _)| is_it(key)).map(|(_, object)| &**object)
    }

    /// The live child of that kind and name.
    pub fn own_named<T: Resource<DynamicType = ()>>(&self, name: &str) -> Option<&DynamicObject> {
        self.own::<T>().find(|object| object.metadata.name.as_deref() == Some(name))
    }

    /// Adds what was found under a reference.
    pub fn insert(&mut self, reference: Ref, found: Found) {
        self.found.insert(reference, found);
    }

    /// Whether a reference has been looked up.
    pub fn has_read(&self, reference: &Ref) -> bool {
        self.found.contains_key(reference)
    }

    /// A number that changes with the object's generation and with the content of everything that was looked up.
    pub(crate) fn fingerprint(&self) -> u64 {
        // Not the resourceVersion: a finalizer or a label is no change that could help.
        let content = |found: &Found| match found {
            Found::Object(object) => Some(object.data.to_string()),
            Found::Missing | Found::UnknownKind => None,
        };
        let mut found: Vec<(String, Option<String>)> =
            self.found.iter().map(|(reference, found)| (reference.to_string(), content(found))).collect();
        found.sort();
        let mut hasher = DefaultHasher::new();
        (self.object.meta().generation, found).hash(&mut hasher);
        hasher.finish()
    }

    /// Everything that has been looked up.
    pub fn references(&self) -> impl Iterator<Item = &Ref> {
        self.found.keys()
    }

    /// The object under a reference that [`crate::Controller::needs`] named, if it exists.
    pub fn get(&self, reference: &Ref) -> Option<&DynamicObject> {
        match self.found.get(reference) {
            Some(Found::Object(object)) => Some(object),
            _ => None,
        }
    }

    /// The object under a reference as its type, or the wait for it. An object that does not parse is waited for too, until a
    /// user corrects it.
    pub fn typed<T: DeserializeOwned>(&self, reference: &Ref) -> Result<T, Wait> {
        let object = self.get(reference).ok_or_else(|| self.missing(reference))?;
        let value = serde_json::to_value(object).unwrap_or_default();
        serde_json::from_value(value).map_err(|error| {
            Wait::on(reference).condition("is well formed").now(format!("is malformed: {error}")).failed("Malformed")
        })
    }

    /// The wait for an object that is not there.
    pub fn missing(&self, reference: &Ref) -> Wait {
        match self.found.get(reference) {
            Some(Found::UnknownKind) => Wait::on(reference)
                .now(format!("does not exist: the cluster has no {}", reference.resource.plural))
                .look_at(format!("install the operator that serves {}", reference.resource.api_version))
                .with_reason("KindNotInstalled"),
            _ => Wait::on(reference).absent(),
        }
    }

    /// One key of a Secret, or the wait for it.
    pub fn secret(&self, reference: &Ref, key: &str) -> Result<SecretString, Wait> {
        let secret: Secret = self.typed(reference)?;
        let missing = |now: String| Wait::on(reference).condition(format!("has the key {key}")).now(now);
        let bytes = secret.data.unwrap_or_default().remove(key).ok_or_else(|| missing(format!("has no key {key}")))?;
        let text = String::from_utf8(bytes.0).map_err(|_| missing(format!("has a key {key} that is not text")))?;
        if text.is_empty() { Err(missing(format!("has a key {key} that is empty"))) } else { Ok(text.into()) }
    }
}

/// Names what was read, never what it says: there are Secrets among it.
impl<K: Resource> fmt::Debug for Inputs<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut found: Vec<String> = self
            .found
            .iter()
            .map(|(reference, found)| match found {
                Found::Object(_) => reference.to_string(),
                Found::Missing | Found::UnknownKind => format!("{reference} (missing)"),
            })
            .collect();
        found.sort();
        f.debug_struct("Inputs").field("now", &self.now).field("found", &found).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn own_children_are_told_apart_by_kind_and_name() {
        let mut inputs = Inputs::new(ConfigMap::default(), Timestamp::UNIX_EPOCH);
        for name in ["pear", "apple"] {
            let resource = kube::core::ApiResource::erase::<ConfigMap>(&());
            inputs.insert_own(DynamicObject::new(name, &resource).within("orchard"));
        }
        let names: Vec<_> = inputs.own::<ConfigMap>().filter_map(|object| object.metadata.name.as_deref()).collect();
        assert_eq!(names, ["apple", "pear"]);
        assert!(inputs.own_named::<ConfigMap>("pear").is_some() && inputs.own_named::<Secret>("pear").is_none());
    }

    #[test]
    fn randomness_is_the_same_for_the_same_purpose_and_no_other() {
        let inputs = |entropy: u8| Inputs::new(ConfigMap::default(), Timestamp::UNIX_EPOCH).with_entropy([entropy; 32]);
        assert_eq!(inputs(1).random("salt"), inputs(1).random("salt"));
        assert_ne!(inputs(1).random("salt"), inputs(1).random("pepper"));
        assert_ne!(inputs(1).random("salt"), inputs(2).random("salt"));
    }
}
