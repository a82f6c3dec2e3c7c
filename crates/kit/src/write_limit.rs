//! A limit on writes that another client reverts: an operator, a person, a webhook, a policy engine that deletes. Each of them
//! would be answered by the next write, and that by the next undoing, as fast as both can.
//!
//! Whether an apply changed an object is told by its entry in the managed fields, which the API server dates only then. A
//! status that others write, and fields of theirs, make no difference.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::core::ObjectMeta;

use crate::object::Ref;
use crate::ownership::Owner;
use crate::wait::Wait;

/// How often the same may be written within the window: more often than a person who tries things out by hand reverts it.
const MOST: usize = 10;
const WINDOW: Duration = Duration::from_mins(10);

/// What was written to one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Record {
    /// What was asked for, as a hash, of which object.
    intent: String,
    uid: Option<String>,
    /// When the API server changed the object for it last.
    changed: Option<Timestamp>,
    /// When that was found to have happened again though the same was asked for.
    again: Vec<Undone>,
    /// The other field managers of it, before or after the apply. A field manager that we overwrite loses its fields.
    others: BTreeSet<String>,
}

/// A write that had to be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Undone {
    at: Timestamp,
    /// Whether the object had been deleted, or else changed.
    deleted: bool,
}

impl Undone {
    /// What is said of a child that another client has changed or deleted: whoever did so learns why it did not last.
    pub(crate) fn corrected(self, child: &Ref) -> String {
        let child = child.short();
        if self.deleted {
            return format!("{child} was deleted by another client, and was created again");
        }
        format!("{child} was changed by another client, and its managed fields were set back")
    }
}

/// Why a child is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    /// For how long.
    pub(crate) left: Duration,
    /// Whether it was deleted so often that it is not created again.
    pub(crate) deleted: bool,
    /// Who may have undone what was written.
    others: BTreeSet<String>,
}

impl Record {
    /// Notes what an apply came back with: the write that it repeats, if the same was written before.
    fn note(
        &mut self,
        intent: &str,
        before: Option<&ObjectMeta>,
        live: &ObjectMeta,
        manager: &str,
        now: Timestamp,
    ) -> Option<Undone> {
        let changed = changed(live, manager);
        let deleted = self.uid != live.uid;
        let mut undone = None;
        if self.intent != intent {
            *self = Self { intent: intent.to_owned(), uid: live.uid.clone(), changed, ..Self::default() };
        } else if deleted || self.changed != changed {
            self.changed = changed;
            self.uid.clone_from(&live.uid);
            undone = Some(Undone { at: now, deleted });
            self.again.extend(undone);
            self.others.extend(before.into_iter().chain([live]).flat_map(|meta| others(meta, manager)));
        }
        self.again.retain(|undone| age(undone.at, now) < WINDOW);
        undone
    }

    /// How long the same is not to be written again; none if it may be.
    fn pause(&self, intent: &str, now: Timestamp) -> Option<Pause> {
        let recent: Vec<Undone> = self.again.iter().filter(|undone| age(undone.at, now) < WINDOW).copied().collect();
        let oldest = recent.iter().map(|undone| age(undone.at, now)).max();
        let oldest = oldest.filter(|_| recent.len() >= MOST && self.intent == intent)?;
        let deleted = recent.iter().filter(|undone| undone.deleted).count() >= MOST;
        Some(Pause { left: WINDOW.saturating_sub(oldest), deleted, others: self.others.clone() })
    }
}

/// What was written lately, owner by owner.
#[derive(Debug, Default)]
pub struct WriteLimit {
    records: Mutex<HashMap<Ref, HashMap<Ref, Record>>>,
}

impl WriteLimit {
    /// How long a child is to be left as it is; none if it may be written.
    pub(crate) fn pause(&self, owner: &Owner, child: &Ref, intent: &str, now: Timestamp) -> Option<Pause> {
        self.records().get(&owner.reference)?.get(child)?.pause(intent, now)
    }

    /// Notes what an apply came back with, of a child that was like this `before`, as far as is known.
    pub(crate) fn note(
        &self,
        owner: &Owner,
        child: &Ref,
        intent: &str,
        before: Option<&ObjectMeta>,
        live: &ObjectMeta,
        now: Timestamp,
    ) -> Option<Undone> {
        let mut records = self.records();
        let record = records.entry(owner.reference.clone()).or_default().entry(child.clone()).or_default();
        record.note(intent, before, live, owner.manager, now)
    }

    /// Forgets children that are no longer written.
    pub(crate) fn keep_only(&self, owner: &Owner, wanted: &HashSet<Ref>) {
        if let Some(children) = self.records().get_mut(&owner.reference) {
            children.retain(|child, _| wanted.contains(child));
        }
    }

    /// Forgets a child that we delete ourselves: creating it again is not a fight with another client.
    pub(crate) fn release(&self, owner: &Owner, child: &Ref) {
        if let Some(children) = self.records().get_mut(&owner.reference) {
            children.remove(child);
        }
    }

    /// Forgets an owner that is gone.
    pub(crate) fn forget(&self, owner: &Ref) {
        self.records().remove(owner);
    }

    fn records(&self) -> MutexGuard<'_, HashMap<Ref, HashMap<Ref, Record>>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The wait for others to leave a child alone, which names the other field managers.
pub(crate) fn write_conflict(reference: &Ref, pause: &Pause, manager: &str) -> Wait {
    let others: Vec<&str> = pause.others.iter().map(String::as_str).collect();
    let minutes = WINDOW.as_secs() / 60;
    let now = match others.as_slice() {
        _ if pause.deleted => {
            format!("was deleted {MOST} times in {minutes} minutes by another client, such as a policy engine")
        }
        [] => {
            format!(
                "was reverted {MOST} times in {minutes} minutes by a mutating webhook: it has no other field manager"
            )
        }
        others => format!(
            "was reverted {MOST} times in {minutes} minutes; its other field managers are {}, or a mutating webhook \
             changes it",
            others.join(", ")
        ),
    };
    let namespace = reference.namespace.as_deref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    let (plural, group) = (&reference.resource.plural, &reference.resource.group);
    let kind = if group.is_empty() { plural.clone() } else { format!("{plural}.{group}") };
    Wait::on(reference)
        .condition(format!("stays as {manager} writes it"))
        .now(now)
        .because("it is left as it is for some minutes, so that two managers do not overwrite each other without end")
        .look_at(format!("kubectl get {kind} {}{namespace} -o yaml --show-managed-fields", reference.name))
        .failed("WritesUndone")
}

/// Who else has fields of an object, but for its status.
fn others(meta: &ObjectMeta, manager: &str) -> Vec<String> {
    let entries = meta.managed_fields.iter().flatten().filter(|entry| entry.subresource.is_none());
    entries.filter_map(|entry| entry.manager.clone()).filter(|other| other != manager).collect()
}

/// When an apply of ours last changed an object.
fn changed(live: &ObjectMeta, manager: &str) -> Option<Timestamp> {
    let ours = live.managed_fields.iter().flatten().find(|entry| {
        entry.manager.as_deref() == Some(manager)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.is_none()
    });
    ours.and_then(|entry| entry.time.as_ref()).map(|time| time.0)
}

fn age(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(at)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    /// An object that our apply changed at that second, and another manager at every other.
    fn changed_at(seconds: i64) -> ObjectMeta {
        let entry = |manager: &str, operation: &str, time: i64| json!({"manager": manager, "operation": operation, "time": at(time)});
        let fields =
            [entry("gardener", "Apply", seconds), entry("gardener", "Update", 9999), entry("mole", "Update", 1)];
        serde_json::from_value(json!({"uid": "1", "managedFields": fields})).unwrap()
    }

    /// A record after applies that changed something at these seconds.
    fn after(seconds: impl IntoIterator<Item = i64>) -> Record {
        let mut record = Record::default();
        for second in seconds {
            record.note("apples", None, &changed_at(second), "gardener", at(second));
        }
        record
    }

    #[test]
    fn what_is_undone_again_and_again_is_written_no_more_until_the_first_time_is_long_ago() {
        assert_eq!(after(0..10).pause("apples", at(10)), None);
        let mut record = after(0..=10);
        let left = |record: &Record, at: Timestamp| record.pause("apples", at).map(|pause| pause.left.as_secs());
        assert_eq!(left(&record, at(61)), Some(540));
        assert_eq!(record.pause("apples", at(61)).unwrap().others, ["mole".to_owned()].into());
        assert_eq!(record.pause("pears", at(61)), None, "something else may be written at once");
        assert_eq!(left(&record, at(601)), None);
        record.note("apples", None, &changed_at(601), "gardener", at(601));
        assert_eq!(left(&record, at(601)), Some(1), "it is one at a time from then on");
    }

    #[test]
    fn applies_that_change_nothing_and_those_that_ask_for_something_else_do_not_count() {
        let mut record = after([1]);
        for second in 2..40 {
            record.note("apples", None, &changed_at(1), "gardener", at(second));
        }
        assert!(record.again.is_empty());
        for second in 2..40 {
            record.note(&format!("{second} apples"), None, &changed_at(second), "gardener", at(second));
        }
        assert!(record.again.is_empty());
    }

    #[test]
    fn deletions_count_as_changes_do_and_a_new_uid_resets_nothing() {
        let mut record = after(0..=5);
        for second in 6..=10 {
            let another = ObjectMeta { uid: Some(format!("new-{second}")), ..changed_at(second) };
            record.note("apples", None, &another, "gardener", at(second));
        }
        let pause = record.pause("apples", at(11)).expect("five changes and five deletions are ten");
        assert!(!pause.deleted, "it is left as it is, and created again if it is deleted");
        let mut record = after([0]);
        for second in 1..=10 {
            // All within one second of the API server's clock.
            let another = ObjectMeta { uid: Some(format!("new-{second}")), ..changed_at(0) };
            record.note("apples", None, &another, "gardener", at(second));
        }
        assert!(record.pause("apples", at(11)).is_some_and(|pause| pause.deleted));
        assert_eq!(record.pause("apples", at(602)), None);
    }

    #[test]
    fn only_our_apply_of_the_object_itself_dates_a_change() {
        let entry = |manager: &str, operation: &str, subresource: Option<&str>, time: i64| json!({"manager": manager, "operation": operation, "subresource": subresource, "time": at(time)});
        let fields = [
            entry("mole", "Apply", None, 5),
            entry("gardener", "Update", None, 6),
            entry("gardener", "Apply", Some("status"), 7),
            entry("snail", "Update", Some("status"), 7),
            entry("gardener", "Apply", None, 8),
        ];
        let live: ObjectMeta = serde_json::from_value(json!({"managedFields": fields})).unwrap();
        assert_eq!(changed(&live, "gardener"), Some(at(8)));
        assert_eq!(changed(&live, "snail"), None);
        assert_eq!(others(&live, "gardener"), ["mole"]);
    }

    fn child(name: &str) -> Ref {
        Ref::namespaced::<k8s_openapi::api::core::v1::ConfigMap>("orchard", name)
    }

    /// A limit that holds a child back, because it was deleted as often as it was created.
    fn held() -> (WriteLimit, Owner) {
        let owner = Owner { reference: child("tree"), uid: "1".into(), manager: "gardener" };
        let limit = WriteLimit::default();
        for second in 0..=10 {
            let live = ObjectMeta { uid: Some(format!("new-{second}")), ..changed_at(second) };
            limit.note(&owner, &child("apple"), "apples", None, &live, at(second));
        }
        assert!(limit.pause(&owner, &child("apple"), "apples", at(11)).is_some());
        (limit, owner)
    }

    #[test]
    fn a_child_that_we_delete_one_that_left_the_plan_and_those_of_an_owner_that_is_gone_are_forgotten() {
        let is_held =
            |limit: &WriteLimit, owner: &Owner| limit.pause(owner, &child("apple"), "apples", at(11)).is_some();
        let (limit, owner) = held();
        limit.release(&owner, &child("pear"));
        limit.keep_only(&owner, &[child("apple")].into());
        limit.forget(&child("bush"));
        assert!(is_held(&limit, &owner), "that concerned others");
        limit.release(&owner, &child("apple"));
        assert!(!is_held(&limit, &owner));
        let (limit, owner) = held();
        limit.keep_only(&owner, &HashSet::new());
        assert!(!is_held(&limit, &owner));
        let (limit, owner) = held();
        limit.forget(&owner.reference);
        assert!(!is_held(&limit, &owner));
    }

    #[test]
    fn a_wait_tells_deletions_other_managers_and_webhooks_apart() {
        let now = |deleted: bool, others: &[&str]| {
            let others = others.iter().map(|other| (*other).to_owned()).collect();
            write_conflict(&child("apple"), &Pause { left: WINDOW, deleted, others }, "gardener").now.unwrap()
        };
        assert!(now(true, &["mole"]).contains("deleted"));
        let changed = now(false, &["mole", "snail"]);
        assert!(changed.contains("mole, snail") && !changed.contains("deleted"), "{changed}");
        let webhook = now(false, &[]);
        assert!(webhook.contains("webhook") && !webhook.contains("managers"), "{webhook}");
    }
}
