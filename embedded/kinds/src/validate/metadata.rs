//! Validation of metadata, the same for every kind, custom ones included.

use c5c3_schema::Problems;
use serde_json::{Value, json};

use super::names;
use super::report::Report;
use crate::read::{bool_at, entries_at, is_empty_at, list_at, str_at, strings_at};
use crate::resource::NameRule;

/// All annotations of an object together.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;
/// A generated name is this long at most before its random suffix is added.
const GENERATED_BASE: usize = 58;

/// What is wrong with an object's metadata, given the metadata that it is to replace, if any.
pub fn validate_metadata(metadata: &Value, old: Option<&Value>, namespaced: bool, rule: NameRule) -> Problems {
    let mut report = Report::default();
    name(metadata, rule, &mut report);
    namespace(metadata, namespaced, &mut report);
    labels("metadata.labels", metadata, &mut report);
    annotations("metadata.annotations", metadata, &mut report);
    finalizers(metadata, old, &mut report);
    owners(metadata, &mut report);
    if let Some(old) = old {
        for field in
            ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
        {
            // What an update leaves out, the server fills in from what is stored.
            if !is_empty_at(metadata, field) {
                report.immutable(format!("metadata.{field}"), &metadata[field], &old[field]);
            }
        }
    }
    report.into_problems()
}

fn name(metadata: &Value, rule: NameRule, report: &mut Report) {
    let (name, base) = (str_at(metadata, "name"), str_at(metadata, "generateName"));
    if !base.is_empty() {
        // A trailing dash is what the random suffix makes valid.
        let cut = base.char_indices().map(|(at, _)| at).nth(GENERATED_BASE).unwrap_or(base.len());
        let mut prefix = base[..cut].to_owned();
        if prefix.ends_with(['-', '.']) {
            prefix.replace_range(prefix.len() - 1.., "a");
        }
        if let Some(why) = names::of(rule)(&prefix) {
            report.invalid("metadata.generateName", base, why);
        }
    }
    match (name.is_empty(), base.is_empty()) {
        (true, true) => report.required("metadata.name", "name or generateName is required"),
        (true, false) => {}
        (false, _) => report.name("metadata.name", name, names::of(rule)),
    }
}

fn namespace(metadata: &Value, namespaced: bool, report: &mut Report) {
    match (str_at(metadata, "namespace"), namespaced) {
        ("", true) => report.required("metadata.namespace", ""),
        (namespace, true) => report.name("metadata.namespace", namespace, names::label),
        ("", false) => {}
        (_, false) => report.forbidden("metadata.namespace", "not allowed on this type"),
    }
}

/// Labels of an object or of a template; `of` is its metadata.
pub(super) fn labels(path: &str, of: &Value, report: &mut Report) {
    for (key, value) in entries_at(of, "labels") {
        report.name(path, key, names::qualified);
        report.name(path, value.as_str().unwrap_or_default(), names::label_value);
    }
}

fn annotations(path: &str, of: &Value, report: &mut Report) {
    let mut size = 0;
    for (key, value) in entries_at(of, "annotations") {
        size += key.len() + value.as_str().map_or(0, str::len);
        if let Some(why) = names::qualified(&key.to_lowercase()) {
            report.invalid(path, key.clone(), why);
        }
    }
    if size > ANNOTATIONS_LIMIT {
        report.too_long(path, ANNOTATIONS_LIMIT);
    }
}

fn finalizers(metadata: &Value, old: Option<&Value>, report: &mut Report) {
    const PATH: &str = "metadata.finalizers";
    let finalizers = strings_at(metadata, "finalizers");
    for finalizer in &finalizers {
        report.name(PATH, finalizer, names::qualified);
    }
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        report.invalid(PATH, json!(finalizers), "finalizers orphan and foregroundDeletion cannot both be set");
    }
    let Some(old) = old.filter(|old| !is_empty_at(old, "deletionTimestamp")) else { return };
    let before = strings_at(old, "finalizers");
    let new: Vec<&String> = finalizers.iter().filter(|finalizer| !before.contains(finalizer)).collect();
    if !new.is_empty() {
        let why =
            format!("no new finalizers can be added if the object is being deleted, found new finalizers {new:?}");
        report.forbidden(PATH, &why);
    }
}

fn owners(metadata: &Value, report: &mut Report) {
    const PATH: &str = "metadata.ownerReferences";
    let mut controller: Option<&Value> = None;
    for (at, owner) in list_at(metadata, "ownerReferences").iter().enumerate() {
        let path = format!("{PATH}[{at}]");
        for (field, called) in [("apiVersion", "version"), ("kind", "kind"), ("name", "name"), ("uid", "uid")] {
            if is_empty_at(owner, field) {
                report.invalid(format!("{path}.{field}"), str_at(owner, field), format!("{called} must not be empty"));
            }
        }
        if str_at(owner, "kind") == "Event" && matches!(str_at(owner, "apiVersion"), "v1" | "events.k8s.io/v1") {
            report.invalid(&path, owner.clone(), "an Event may not own anything");
        }
        if bool_at(owner, "controller") {
            if let Some(first) = controller {
                let (a, b) = (str_at(first, "name"), str_at(owner, "name"));
                let why = format!("only one reference can have controller set to true, found it in {a} and {b}");
                report.invalid(PATH, metadata["ownerReferences"].clone(), why);
            }
            controller = Some(owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::extend;
    use super::*;

    fn check(metadata: &Value, old: Option<&Value>) -> Vec<String> {
        let problems = validate_metadata(metadata, old, true, NameRule::DnsSubdomain);
        problems.iter().map(ToString::to_string).collect()
    }

    fn named(more: Value) -> Value {
        let mut metadata = json!({"name": "oak", "namespace": "grove"});
        extend(&mut metadata, more);
        metadata
    }

    #[test]
    fn a_name_is_there_or_generated_and_follows_the_rule_of_its_kind() {
        assert_eq!(
            check(&json!({"namespace": "n"}), None),
            ["metadata.name: Required value: name or generateName is required"]
        );
        assert!(check(&json!({"namespace": "n", "generateName": "oak-"}), None).is_empty());
        assert!(
            check(&json!({"namespace": "n", "name": "Oak"}), None)[0]
                .starts_with(r#"metadata.name: Invalid value: "Oak": "#)
        );
        let roles = validate_metadata(&json!({"name": "system:Node"}), None, false, NameRule::PathSegment);
        assert!(roles.is_empty());
        let long = json!({"namespace": "n", "generateName": "a".repeat(300)});
        assert!(check(&long, None).is_empty(), "the base of a generated name is cut");
    }

    #[test]
    fn a_namespace_belongs_to_namespaced_kinds_only() {
        assert_eq!(check(&json!({"name": "oak"}), None), ["metadata.namespace: Required value"]);
        let cluster = validate_metadata(&named(json!({})), None, false, NameRule::DnsSubdomain);
        assert_eq!(cluster.to_string(), "metadata.namespace: Forbidden: not allowed on this type");
    }

    #[test]
    fn labels_and_annotations_are_bounded_in_form_and_size() {
        assert!(
            check(&named(json!({"labels": {"a.b/C": "d_e"}, "annotations": {"a.b/C": "any thing"}})), None).is_empty()
        );
        assert_eq!(check(&named(json!({"labels": {"a b": "c", "d": "e f"}})), None).len(), 2);
        let large = named(json!({"annotations": {"a": "x".repeat(ANNOTATIONS_LIMIT)}}));
        assert_eq!(check(&large, None), ["metadata.annotations: Too long: may not be more than 262144 bytes"]);
    }

    #[test]
    fn one_owner_at_most_is_the_controller_and_each_is_fully_named() {
        let owner =
            |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "u", "controller": true});
        assert_eq!(check(&named(json!({"ownerReferences": [owner("a"), owner("b")]})), None).len(), 1);
        let nameless = named(json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a"}]}));
        assert_eq!(
            check(&nameless, None),
            [r#"metadata.ownerReferences[0].uid: Invalid value: "": uid must not be empty"#]
        );
    }

    #[test]
    fn identity_does_not_change_and_what_is_left_out_counts_as_unchanged() {
        let old = named(json!({"uid": "u1", "creationTimestamp": "2024-05-01T11:00:00Z"}));
        assert!(check(&named(json!({})), Some(&old)).is_empty());
        let new = named(json!({"uid": "u2"}));
        assert_eq!(check(&new, Some(&old)), [r#"metadata.uid: Invalid value: "u2": field is immutable"#]);
    }

    #[test]
    fn an_object_on_its_way_out_takes_no_new_finalizers() {
        let old = named(json!({"deletionTimestamp": "2024-05-01T11:00:00Z", "finalizers": ["a.b/c"]}));
        assert!(check(&named(json!({"finalizers": ["a.b/c"]})), Some(&old)).is_empty());
        assert_eq!(check(&named(json!({"finalizers": ["a.b/c", "a.b/d"]})), Some(&old)).len(), 1);
    }
}
