//! What becomes of the children of a plan: each is applied in a dry run, and compared with the one that is there.

use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::ObjectMeta;

use crate::apply::Executor;
use crate::controller::Controller;
use crate::error::Error;
use crate::job_order::is_job;
use crate::object::{Ref, is_not_found};
use crate::ownership::{MANAGED_BY, OWNER_UID};
use crate::plan::{Child, Decision, Step, StepName};
use crate::presence::Presence;
use crate::preview::difference::differing;
use crate::preview::{Change, Fate, StepPreview};
use crate::reconcile::Reconcile;

impl<C: Controller> Reconcile<'_, C> {
    /// The children that are there, as the watches of an operator would know them.
    pub(super) async fn existing_children(&self) -> Result<Vec<(Ref, ObjectMeta)>, Error> {
        let mut children = Vec::new();
        if self.owner.uid.is_empty() {
            return Ok(children);
        }
        let labels = format!("{MANAGED_BY}={},{OWNER_UID}={}", self.owner.manager, self.owner.uid);
        let params = ListParams::default().labels(&labels);
        let namespace = self.about.namespace.as_deref().filter(|_| !C::CROSS_NAMESPACE);
        for kind in self.context.controller.children() {
            let api = kind.metadata_api(self.context.client.clone(), namespace);
            match api.list_metadata(&params).await {
                Ok(listed) => children.extend(
                    listed.items.into_iter().map(|item| (Ref::of(&kind.resource, &item.metadata), item.metadata)),
                ),
                // The kind is not installed, so that there are none.
                Err(error) if is_not_found(&error) => {}
                Err(source) => {
                    let object =
                        Ref { resource: kind.resource, namespace: self.about.namespace.clone(), name: "*".into() };
                    return Err(Error::ReadFailed { object: Box::new(object), source: Box::new(source) });
                }
            }
        }
        children.retain(|(_, meta)| self.owner.owns(meta));
        children.sort_by_cached_key(|(child, _)| child.to_string());
        Ok(children)
    }

    pub(super) async fn preview_step(&self, step: &Step, existing: &[(Ref, ObjectMeta)]) -> Result<StepPreview, Error> {
        let executor = Executor { apply_cache: None, write_limit: None, ..self.executor(existing) };
        let mut children = Vec::new();
        for child in &step.children {
            children.push(executor.preview(child, step).await?);
        }
        let needs = step.node.iter().flat_map(|node| &node.needs);
        Ok(StepPreview {
            name: step.title().to_owned(),
            needs: needs.map(StepName::to_string).collect(),
            undecided: step.decision == Decision::Undecided,
            waits: step.waits.clone(),
            children,
            calls: step.calls.iter().map(ToString::to_string).collect(),
        })
    }
}

impl Executor<'_> {
    async fn preview(&self, child: &Child, step: &Step) -> Result<Change, Error> {
        let (object, wanted) = (child.reference(), self.marked(child, step));
        let change = |fate| Change { object: object.clone(), fate, wait: None, after: wanted.clone(), before: None };
        let presence = match self.presence(child).await {
            Ok(presence) => presence,
            Err(error) => return refused(error).map(change),
        };
        let before = match presence {
            Presence::Refused(wait) => return Ok(change(Fate::Refused(wait))),
            Presence::Ours(_) => self.read(&object).await?,
            Presence::Absent => None,
        };
        let is_used_as_it_is = !child.random_keys.is_empty() || is_job(&object);
        match before {
            Some(live) if is_used_as_it_is => {
                let wait = child.wait(&live).filter(|_| child.random_keys.is_empty());
                Ok(Change { wait, after: live.clone(), before: Some(Box::new(live)), ..change(Fate::Unchanged) })
            }
            Some(live) => match self.dry_run(&object, &wanted).await {
                Ok(after) => {
                    let changes = differing(&object, &live, &after);
                    let wait = child.wait(&live).filter(|_| changes.is_empty() && !child.readiness_optional);
                    let fate = if changes.is_empty() { Fate::Unchanged } else { Fate::Changed(changes) };
                    Ok(Change { object: object.clone(), fate, wait, after, before: Some(Box::new(live)) })
                }
                Err(error) => refused(error).map(change),
            },
            None => match self.dry_run(&object, &wanted).await {
                Ok(after) => Ok(Change { after, ..change(Fate::Created) }),
                // What it is created in, such as its namespace, is not there yet.
                Err(Error::ApplyFailed { source, .. }) if is_not_found(&source) => Ok(change(Fate::Created)),
                Err(error) => refused(error).map(change),
            },
        }
    }

    async fn dry_run(&self, object: &Ref, wanted: &DynamicObject) -> Result<DynamicObject, Error> {
        let params = PatchParams { dry_run: true, ..PatchParams::apply(self.owner.manager).force() };
        let applied = object.api(self.client.clone()).patch(&object.name, &params, &Patch::Apply(wanted)).await;
        applied.map_err(|source| Error::ApplyFailed { object: Box::new(object.clone()), source: Box::new(source) })
    }
}

/// What the API refuses is the fate of a child. That the person who asks may not apply it is none.
fn refused(error: Error) -> Result<Fate, Error> {
    let is_about_the_person = |source: &kube::Error| {
        matches!(source, kube::Error::Api(status)
        if status.code == 403 && status.message.contains(" cannot "))
    };
    match &error {
        Error::ApplyFailed { source, .. } | Error::ReadFailed { source, .. } if is_about_the_person(source) => {
            Err(error)
        }
        _ => error.refused().map(|wait| Fate::Refused(Box::new(wait))),
    }
}
