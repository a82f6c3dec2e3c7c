//! ControllerRevisions: the templates that a DaemonSet or a StatefulSet has had, so that it can go back to one.

use std::collections::HashSet;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ObjectMeta, Selector};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::claims;
use crate::error::{Error, is_gone, is_taken};
use crate::hash;
use crate::owners::{self, controlled_by};
use crate::watched::Namespaced;

/// What is remembered of a template: the patch that brings it back, as `kubectl rollout undo` sends it. Clients compare
/// it byte for byte with the template as Go writes it, which names a creation time that templates never have.
pub(crate) fn patch(template: &PodTemplateSpec) -> Result<Value, serde_json::Error> {
    let mut template = serde_json::to_value(template)?;
    let metadata = &mut template["metadata"];
    if metadata["creationTimestamp"].is_null() {
        metadata["creationTimestamp"] = Value::Null;
    }
    template["$patch"] = "replace".into();
    Ok(json!({"spec": {"template": template}}))
}

/// The template that a revision remembers.
pub(crate) fn template(revision: &ControllerRevision) -> Result<PodTemplateSpec, serde_json::Error> {
    let mut template = data(revision)["spec"]["template"].clone();
    if let Some(fields) = template.as_object_mut() {
        fields.remove("$patch");
    }
    serde_json::from_value(template)
}

fn data(revision: &ControllerRevision) -> &Value {
    revision.data.as_ref().map_or(&Value::Null, |data| &data.0)
}

/// How the revision of a template is come by.
#[derive(Debug, PartialEq)]
pub(crate) enum Found {
    /// It is the newest.
    Newest(ControllerRevision),
    /// It was there before, and becomes the newest with this number.
    Renumber(ControllerRevision, i64),
    /// There is none, and one is made with this number.
    Missing(i64),
}

/// Finds the revision of a template among all, which are sorted.
pub(crate) fn find(revisions: &[ControllerRevision], patch: &Value) -> Found {
    let others = revisions.iter().filter(|revision| data(revision) != patch);
    let next = others.map(|revision| revision.revision).max().unwrap_or(0) + 1;
    match revisions.iter().rev().find(|revision| data(revision) == patch) {
        Some(found) if found.revision >= next => Found::Newest(found.clone()),
        Some(found) => Found::Renumber(found.clone(), next),
        None => Found::Missing(next),
    }
}

/// Those of the same template as the one that is kept.
pub(crate) fn duplicates<'r>(
    revisions: &'r [ControllerRevision],
    kept: &ControllerRevision,
) -> impl Iterator<Item = &'r ControllerRevision> {
    let (name, patch) = (kept.name_any(), data(kept).clone());
    revisions.iter().filter(move |revision| revision.name_any() != name && *data(revision) == patch)
}

/// Those that history need not keep: the oldest that nothing lives of, beyond the limit. Expects them sorted.
pub(crate) fn surplus(
    revisions: &[ControllerRevision],
    is_alive: impl Fn(&ControllerRevision) -> bool,
    limit: i32,
) -> Vec<ControllerRevision> {
    let dead: Vec<&ControllerRevision> = revisions.iter().filter(|revision| !is_alive(revision)).collect();
    let count = dead.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    dead.into_iter().take(count).cloned().collect()
}

/// The revisions of an owner, the oldest first, after adopting and releasing.
pub(crate) async fn list<O: Namespaced>(
    client: &Client,
    owner: &O,
    selector: &Selector,
) -> Result<Vec<ControllerRevision>, Error> {
    let found = api(client, owner).list(&ListParams::default().labels_from(selector)).await?.items;
    let mut mine = claims::settle(client, owner, claims::sort(owner.meta(), selector, found)).await?;
    mine.sort_by_key(|revision| {
        (revision.revision, revision.creation_timestamp().map(|time| time.0), revision.name_any())
    });
    Ok(mine)
}

fn api<O: Namespaced>(client: &Client, owner: &O) -> Api<ControllerRevision> {
    Api::namespaced(client.clone(), &owner.namespace().unwrap_or_default())
}

/// The revision of a template, renumbered or made if need be. `label` is where its hash is kept; `collisions` counts the
/// names that turned out to be taken.
pub(crate) async fn ensure<O: Namespaced>(
    client: &Client,
    owner: &O,
    template: &PodTemplateSpec,
    label: &str,
    revisions: &[ControllerRevision],
    collisions: &mut Option<i32>,
) -> Result<ControllerRevision, Error> {
    let patch = patch(template)?;
    let number = match find(revisions, &patch) {
        Found::Newest(revision) => return Ok(revision),
        Found::Renumber(revision, number) => {
            let change = Patch::Merge(json!({"revision": number}));
            return Ok(api(client, owner).patch(&revision.name_any(), &PatchParams::default(), &change).await?);
        }
        Found::Missing(number) => number,
    };
    loop {
        let revision = fresh(owner, template, &patch, label, number, *collisions)?;
        let error = match api(client, owner).create(&PostParams::default(), &revision).await {
            Ok(made) => return Ok(made),
            Err(error) if is_taken(&error) => error,
            Err(error) => return Err(error.into()),
        };
        let uid = owner.uid().unwrap_or_default();
        match api(client, owner).get_opt(&revision.name_any()).await? {
            Some(found) if *data(&found) == patch && controlled_by(&found.metadata, &uid) => return Ok(found),
            Some(_) => *collisions = Some(collisions.unwrap_or(0) + 1),
            None => return Err(error.into()),
        }
    }
}

fn fresh<O: Namespaced>(
    owner: &O,
    template: &PodTemplateSpec,
    patch: &Value,
    label: &str,
    number: i64,
    collisions: Option<i32>,
) -> Result<ControllerRevision, serde_json::Error> {
    let hash = hash::of(patch, collisions)?;
    let mut labels = template.metadata.as_ref().and_then(|meta| meta.labels.clone()).unwrap_or_default();
    labels.insert(label.into(), hash.clone());
    // A name has 253 characters, of which the hash takes ten and its dash one.
    let prefix: String = owner.name_any().chars().take(223).collect();
    Ok(ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{prefix}-{hash}")),
            namespace: owner.namespace(),
            labels: Some(labels),
            annotations: owner.meta().annotations.clone(),
            owner_references: Some(vec![owners::reference(owner)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(patch.clone())),
        revision: number,
    })
}

/// Deletes revisions. That one is gone already is fine.
pub(crate) async fn delete<O: Namespaced>(
    client: &Client,
    owner: &O,
    names: HashSet<String>,
) -> Result<(), kube::Error> {
    for name in names {
        match api(client, owner).delete(&name, &DeleteParams::default()).await {
            Err(error) if !is_gone(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(name: &str, number: i64, image: &str) -> ControllerRevision {
        ControllerRevision {
            metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
            data: Some(RawExtension(json!({"spec": {"template": {"image": image}}}))),
            revision: number,
        }
    }

    #[test]
    fn a_template_that_was_there_before_becomes_the_newest_again() {
        let revisions = [revision("a", 1, "pear"), revision("b", 2, "plum")];
        let found = |image: &str| find(&revisions, &json!({"spec": {"template": {"image": image}}}));
        assert_eq!(found("plum"), Found::Newest(revisions[1].clone()));
        assert_eq!(found("pear"), Found::Renumber(revisions[0].clone(), 3));
        assert_eq!(found("fig"), Found::Missing(3));
        assert_eq!(find(&[], &Value::Null), Found::Missing(1));
    }

    #[test]
    fn of_two_revisions_of_one_template_the_newer_one_is_kept() {
        let revisions = [revision("a", 1, "pear"), revision("b", 2, "pear"), revision("c", 3, "plum")];
        let Found::Renumber(kept, 4) = find(&revisions, data(&revisions[0])) else { panic!("not the newer one") };
        assert_eq!(kept.name_any(), "b");
        assert_eq!(duplicates(&revisions, &kept).map(ResourceExt::name_any).collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn history_keeps_what_lives_and_the_newest_of_the_rest() {
        let revisions = ["a", "b", "c", "d"].map(|name| revision(name, 1, name));
        let names = |limit| {
            let surplus = surplus(&revisions, |revision| revision.name_any() == "a", limit);
            surplus.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
        };
        assert_eq!(names(2), ["b"]);
        assert_eq!(names(0), ["b", "c", "d"]);
        assert!(names(10).is_empty());
    }

    #[test]
    fn a_patch_brings_its_template_back() {
        let wanted: PodTemplateSpec =
            serde_json::from_value(json!({"metadata": {"labels": {"app": "pear"}}, "spec": {"containers": []}}))
                .unwrap();
        let patch = patch(&wanted).unwrap();
        let text = r#"{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"pear"}},"spec":{"containers":[]}}}}"#;
        assert_eq!(patch.to_string(), text);
        let revision = ControllerRevision { data: Some(RawExtension(patch)), ..ControllerRevision::default() };
        assert_eq!(template(&revision).unwrap(), wanted);
    }
}
