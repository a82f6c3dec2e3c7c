//! Whether an object of a child's name is there, and whose it is. A foreign object is never taken over, except where a child
//! is adoptable and the object is unclaimed.

use std::sync::Arc;

use kube::api::DynamicObject;
use kube::core::ObjectMeta;

use crate::apply::Executor;
use crate::error::Error;
use crate::job_order::is_job;
use crate::object::{Ref, is_not_found, is_unknown_kind};
use crate::ownership::{MANAGED_BY, OWNER, annotation, is_claimed, label, owner_of};
use crate::plan::Child;
use crate::wait::Wait;

/// What is there under the name of a child.
pub(crate) enum Presence {
    /// Our object, as its metadata was known last.
    Ours(Box<ObjectMeta>),
    /// Nothing.
    Absent,
    /// Something that keeps the child from being applied: a foreign object, or a kind that is not installed.
    Refused(Box<Wait>),
}

impl Executor<'_> {
    /// What is there under the name of a child.
    pub(crate) async fn presence(&self, child: &Child) -> Result<Presence, Error> {
        let reference = child.reference();
        let explained = |wait: Wait| match &child.because {
            Some(because) => wait.because(because.clone()),
            None => wait,
        };
        if let Some((_, meta)) = self.existing.iter().find(|(ours, _)| *ours == reference) {
            return Ok(Presence::Ours(Box::new(meta.clone())));
        }
        // The watches do not know it as ours: it is not there, or not ours, or so new that they have not heard, or kept, and
        // then it has no owner reference.
        let found = match reference.api(self.client.clone()).get_metadata(&reference.name).await {
            Ok(found) => found.metadata,
            Err(error) if is_unknown_kind(&error) => {
                let now = format!("cannot be created: the cluster has no kind {}", reference.resource.kind);
                let look_at = format!("install the operator that serves {}", reference.resource.api_version);
                let wait = Wait::on(&reference).condition("can be created").now(now).look_at(look_at);
                return Ok(Presence::Refused(Box::new(explained(wait.failed("KindNotInstalled")))));
            }
            Err(error) if is_not_found(&error) => return Ok(Presence::Absent),
            Err(source) => return Err(Error::ReadFailed { object: Box::new(reference), source: Box::new(source) }),
        };
        let is_inherited = child.kept.is_some() && self.owner.created(&found);
        let may_adopt = child.adoptable && !is_claimed(&found);
        // A Secret with generated values is used as it is, whatever created it.
        let is_ours = self.owner.owns(&found) || self.owner.has_lost(&found);
        if is_ours || is_inherited || may_adopt || !child.random_keys.is_empty() {
            return Ok(Presence::Ours(Box::new(found)));
        }
        let wait = Wait::on(&reference)
            .condition("is not managed by another owner")
            .now(format!("already exists and is {}", managed_by(&found)))
            .look_at(child.on_conflict.clone().unwrap_or_else(|| self.way_out(&found)))
            .failed("ForeignObject");
        Ok(Presence::Refused(Box::new(explained(wait))))
    }

    /// What to do about a foreign object. One that another object of ours owns holds that one's data, so it must stay.
    fn way_out(&self, found: &ObjectMeta) -> String {
        let Ref { resource, namespace, .. } = &self.owner.reference;
        match owner_of(found, resource).filter(|other| *other != self.owner.reference) {
            Some(other) => {
                let (own, other) = (self.owner.reference.short(), other.relative_to(namespace.as_deref()));
                format!("keep it, for {other} needs it: delete {own}, or create it in another namespace")
            }
            None => "give one of the two another name, or delete it if nothing uses it".into(),
        }
    }

    /// A child with its status, from memory if it has not changed since; none if it is gone.
    pub(crate) async fn live(&self, reference: &Ref, meta: &ObjectMeta) -> Result<Option<Arc<DynamicObject>>, Error> {
        let version = meta.resource_version.as_deref().unwrap_or_default();
        if let Some(live) = self.apply_cache.and_then(|cache| cache.live(&self.owner.reference, reference, version)) {
            return Ok(Some(live));
        }
        let Some(live) = self.read(reference).await? else { return Ok(None) };
        Ok(Some(match self.apply_cache {
            Some(cache) => cache.observe(&self.owner.reference, reference, live),
            None => Arc::new(live),
        }))
    }

    /// A Job that exists. It is not applied again, since its template cannot be changed.
    pub(crate) async fn job(
        &self,
        reference: &Ref,
        meta: Option<&ObjectMeta>,
    ) -> Result<Option<Arc<DynamicObject>>, Error> {
        match meta.filter(|_| is_job(reference)) {
            Some(meta) => self.live(reference, meta).await,
            None => Ok(None),
        }
    }
}

/// Who manages an object, in words.
fn managed_by(meta: &ObjectMeta) -> String {
    let controller = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    match (annotation(meta, OWNER).or_else(|| label(meta, MANAGED_BY)), controller) {
        (Some(manager), _) => format!("managed by {manager}"),
        (None, Some(owner)) => format!("controlled by {}/{}", owner.kind.to_lowercase(), owner.name),
        (None, None) => "not managed by this operator".into(),
    }
}
