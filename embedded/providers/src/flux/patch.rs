//! Patches of a Kustomization, or of a folder's description.

use json_patch::PatchOperation;
use regex::Regex;
use serde_json::Value;

use super::build::{Built, documents};
use super::kinds::{PatchSpec, Target};

/// A patch that can be applied.
#[derive(Clone, Debug)]
pub(super) struct Patch {
    /// Where it is written, for messages.
    at: String,
    target: Matcher,
    change: Change,
}

#[derive(Clone, Debug)]
enum Change {
    /// By RFC 6902.
    Operations(Vec<PatchOperation>),
    /// Fields to merge.
    Merge(Value),
}

/// Which objects; what is absent matches all.
#[derive(Clone, Debug, Default)]
struct Matcher {
    group: Option<Regex>,
    version: Option<Regex>,
    kind: Option<Regex>,
    name: Option<Regex>,
    namespace: Option<Regex>,
    /// Whether it is wrong that nothing matches.
    has_to_match: bool,
}

impl Patch {
    /// Reads a patch that is written at `at`.
    pub(super) fn read(at: &str, spec: &PatchSpec) -> Result<Self, String> {
        if let Some(field) = spec.other.keys().next() {
            return Err(format!("{at}.{field}: is not provided"));
        }
        let text = spec.patch.as_deref().unwrap_or_default();
        let mut documents = documents(at, text)?;
        let (Some(patch), true) = (documents.pop(), documents.is_empty()) else {
            return Err(format!("{at}: is not one list of operations or one object"));
        };
        let own = Target {
            group: patch["apiVersion"]
                .as_str()
                .map(|version| version.split_once('/').map_or("", |(group, _)| group).to_owned()),
            kind: patch["kind"].as_str().map(str::to_owned),
            name: patch["metadata"]["name"].as_str().map(str::to_owned),
            ..Target::default()
        };
        let is_list = patch.is_array();
        let target = match &spec.target {
            Some(target) => Matcher::of(at, target)?,
            None if is_list => return Err(format!("{at}: a list of operations needs a target")),
            None => Matcher { has_to_match: true, ..Matcher::of(at, &own)? },
        };
        let change = if is_list {
            Change::Operations(serde_json::from_value(patch).map_err(|error| format!("{at}: {error}"))?)
        } else if patch.is_object() {
            Change::Merge(patch)
        } else {
            return Err(format!("{at}: is neither a list of operations nor an object"));
        };
        Ok(Self { at: at.to_owned(), target, change })
    }

    /// Changes the objects that it is for.
    pub(super) fn apply(&self, objects: &mut [Built]) -> Result<(), String> {
        let mut matched = false;
        for built in objects.iter_mut().filter(|built| self.target.matches(built)) {
            matched = true;
            let about = format!("{}: {} {}", self.at, built.kind(), built.name());
            let before = (built.api_version().to_owned(), built.kind().to_owned(), built.name().to_owned());
            match &self.change {
                Change::Operations(operations) => {
                    json_patch::patch(&mut built.object, operations).map_err(|error| format!("{about}: {error}"))?;
                }
                Change::Merge(patch) => {
                    if !is_merged_as_json(built.api_version(), patch) {
                        return Err(format!(
                            "{about}: lists of this kind are merged by rules that are not provided; write operations of RFC 6902"
                        ));
                    }
                    json_patch::merge(&mut built.object, patch);
                }
            }
            let after = (built.api_version().to_owned(), built.kind().to_owned(), built.name().to_owned());
            if before != after {
                return Err(format!("{about}: a patch changes neither apiVersion nor kind nor name"));
            }
        }
        if !matched && self.target.has_to_match {
            return Err(format!("{}: no object has its apiVersion, kind and name", self.at));
        }
        Ok(())
    }
}

/// Whether merging fields one by one comes to what kustomize does: it does for kinds that are not of Kubernetes itself, and
/// wherever there is no list.
fn is_merged_as_json(api_version: &str, patch: &Value) -> bool {
    fn has(value: &Value, is_odd: &dyn Fn(&str, &Value) -> bool) -> bool {
        let Some(fields) = value.as_object() else { return false };
        fields.iter().any(|(name, value)| is_odd(name, value) || has(value, is_odd))
    }
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let is_custom = group.contains('.') && !group.ends_with(".k8s.io");
    !has(patch, &|name, value| name.starts_with("$patch") || (!is_custom && value.is_array()))
}

impl Matcher {
    fn of(at: &str, target: &Target) -> Result<Self, String> {
        if let Some(field) = target.other.keys().next() {
            return Err(format!("{at}.target.{field}: is not provided"));
        }
        let whole = |field: &Option<String>| match field {
            Some(pattern) => {
                let whole = Regex::new(&format!("^(?:{pattern})$"));
                whole.map(Some).map_err(|error| format!("{at}.target: {pattern}: {error}"))
            }
            None => Ok(None),
        };
        Ok(Self {
            group: whole(&target.group)?,
            version: whole(&target.version)?,
            kind: whole(&target.kind)?,
            name: whole(&target.name)?,
            namespace: whole(&target.namespace)?,
            has_to_match: false,
        })
    }

    fn matches(&self, built: &Built) -> bool {
        let (group, version) = built.api_version().split_once('/').unwrap_or(("", built.api_version()));
        let is = |pattern: &Option<Regex>, value: &str| pattern.as_ref().is_none_or(|pattern| pattern.is_match(value));
        is(&self.group, group)
            && is(&self.version, version)
            && is(&self.kind, built.kind())
            && is(&self.name, built.name())
            && is(&self.namespace, built.namespace().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patch(spec: Value) -> Result<Patch, String> {
        Patch::read("spec.patches[0]", &serde_json::from_value(spec).unwrap())
    }

    fn object(api_version: &str, kind: &str, name: &str) -> Built {
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name},
            "spec": {"kubeConfig": {"secretRef": {"name": "hub"}}, "replicas": 1}});
        Built { file: "a.yaml".into(), namespace: None, object }
    }

    #[test]
    fn operations_change_the_objects_that_the_target_names() {
        let remove = json!({"patch": "- op: remove\n  path: /spec/kubeConfig\n", "target": {"kind": "HelmRelease", "name": "nova-.*"}});
        let remove = patch(remove).unwrap();
        let mut objects =
            ["nova-operator", "glance-operator"].map(|name| object("helm.toolkit.fluxcd.io/v2", "HelmRelease", name));
        remove.apply(&mut objects).unwrap();
        assert!(
            objects[0].object["spec"]["kubeConfig"].is_null() && objects[1].object["spec"]["kubeConfig"].is_object()
        );
        let again = remove.apply(&mut objects).unwrap_err();
        assert!(again.starts_with("spec.patches[0]: HelmRelease nova-operator: "), "{again}");
    }

    #[test]
    fn fields_are_merged_where_that_is_what_kustomize_does() {
        let more = "apiVersion: c5c3.io/v1alpha1\nkind: ControlPlane\nmetadata: {name: lab}\nspec: {replicas: 3, hosts: [a]}\n";
        let mut objects = [object("c5c3.io/v1alpha1", "ControlPlane", "lab")];
        patch(json!({"patch": more})).unwrap().apply(&mut objects).unwrap();
        assert_eq!(
            (&objects[0].object["spec"]["replicas"], &objects[0].object["spec"]["hosts"]),
            (&json!(3), &json!(["a"]))
        );
        let nowhere = patch(json!({"patch": more})).unwrap().apply(&mut [object("v1", "Secret", "lab")]).unwrap_err();
        assert!(nowhere.contains("no object has"), "{nowhere}");
        let list =
            json!({"patch": "spec: {template: {spec: {containers: [{name: a}]}}}", "target": {"kind": "Deployment"}});
        let refused = patch(list).unwrap().apply(&mut [object("apps/v1", "Deployment", "web")]).unwrap_err();
        assert!(refused.contains("lists of this kind"), "{refused}");
    }

    #[test]
    fn a_patch_that_cannot_be_understood_is_refused() {
        for (spec, expected) in [
            (json!({"patch": "- {op: remove, path: /a}"}), "needs a target"),
            (json!({"patch": "- {op: mend, path: /a}", "target": {}}), "spec.patches[0]: "),
            (json!({"patch": "word"}), "neither"),
            (json!({"patch": "a: 1", "target": {"labelSelector": "x=y"}}), "target.labelSelector: is not provided"),
            (json!({"patch": "a: 1", "target": {"name": "("}}), "spec.patches[0].target: (: "),
            (json!({"patch": "a: 1", "options": {"allowNameChange": true}}), "options: is not provided"),
        ] {
            let said = patch(spec).unwrap_err();
            assert!(said.contains(expected), "{said}");
        }
    }
}
