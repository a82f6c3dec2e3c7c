//! The first step of a reconcile: own children, everything that the object refers to, and what probes answered.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use futures::future::try_join_all;
use kube::api::{DynamicObject, ListParams};
use kube::core::{ObjectMeta, TypeMeta};

use crate::controller::Controller;
use crate::error::{Error, Stage};
use crate::inputs::{Found, Inputs};
use crate::object::{KindRef, Ref, api, is_not_found, is_unknown_kind};
use crate::ownership::OWNER_UID;
use crate::reconcile::{Reconcile, broken};

/// How often a reference may lead to another before it is taken for a circle.
const DEEPEST_REFERENCE: usize = 8;

impl<C: Controller> Reconcile<'_, C> {
    /// Fetches the observed children, everything that the object refers to, and what that refers to in turn, and watches it
    /// from now on, together with what was read before.
    pub(crate) async fn read_inputs(
        &self,
        object: C::Kind,
        existing: &[(Ref, ObjectMeta)],
    ) -> Result<Inputs<C::Kind>, Error> {
        let started = Instant::now();
        let mut inputs = Inputs::new(object, self.now).with_entropy(rand::random());
        for live in self.read_observed(existing).await? {
            inputs.insert_own(live);
        }
        for live in self.read_descendants().await? {
            inputs.insert_own(live);
        }
        self.read_references(&mut inputs, existing).await?;
        self.read_answers(&mut inputs).await?;
        self.ask(&mut inputs).await?;
        self.context.metrics.observe_duration(C::NAME, Stage::Read, started.elapsed());
        Ok(inputs)
    }

    /// The live children of observed kinds. One is read only if the watch tells of another version than the last one read.
    async fn read_observed(&self, existing: &[(Ref, ObjectMeta)]) -> Result<Vec<Arc<DynamicObject>>, Error> {
        let observed = self.context.controller.observes();
        if observed.iter().any(|kind| kind.resource.kind == "Secret" && kind.resource.group.is_empty()) {
            return Err(broken::<C>("observes() names Secrets, which are not kept in memory".to_owned()));
        }
        let is_observed = |child: &Ref| observed.iter().any(|kind| kind.resource == child.resource);
        let reads = existing.iter().filter(|(child, _)| is_observed(child)).map(|(child, meta)| async move {
            let version = meta.resource_version.as_deref().unwrap_or_default();
            match self.context.apply_cache.live(self.about, child, version) {
                Some(live) => Ok(Some(live)),
                None => {
                    Ok(self.get(child).await?.map(|live| self.context.apply_cache.observe(self.about, child, live)))
                }
            }
        });
        Ok(try_join_all(reads).await?.into_iter().flatten().collect())
    }

    /// What other controllers made of children, in the namespace of the object.
    async fn read_descendants(&self) -> Result<Vec<DynamicObject>, Error> {
        let params = ListParams::default().labels(&format!("{OWNER_UID}={}", self.owner.uid));
        let lists = self.context.controller.descendants().into_iter().map(|kind| {
            let params = params.clone();
            async move {
                let objects = api(self.context.client.clone(), &kind.resource, self.about.namespace.as_deref());
                let listed = objects.list(&params).await.map_err(|source| Error::ReadFailed {
                    object: Box::new(self.about.clone()),
                    source: Box::new(source),
                })?;
                // Items of a list do not say of what kind they are.
                let types = TypeMeta { api_version: kind.resource.api_version, kind: kind.resource.kind };
                let typed = listed.items.into_iter().map(|item| DynamicObject { types: Some(types.clone()), ..item });
                Ok(typed.collect::<Vec<_>>())
            }
        });
        Ok(try_join_all(lists).await?.into_iter().flatten().collect())
    }

    /// The object as it would be, if that is what is asked for.
    fn assumed(&self, reference: &Ref) -> Option<DynamicObject> {
        self.context.assumed.as_ref()?.get(reference).cloned()
    }

    async fn get(&self, reference: &Ref) -> Result<Option<DynamicObject>, Error> {
        if let Some(assumed) = self.assumed(reference) {
            return Ok(Some(assumed));
        }
        match reference.api(self.context.client.clone()).get(&reference.name).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(source) => Err(Error::ReadFailed { object: Box::new(reference.clone()), source: Box::new(source) }),
        }
    }

    async fn read_references(&self, inputs: &mut Inputs<C::Kind>, existing: &[(Ref, ObjectMeta)]) -> Result<(), Error> {
        for _ in 0..DEEPEST_REFERENCE {
            let named: HashSet<Ref> = self.context.controller.needs(inputs).into_iter().collect();
            let new: Vec<Ref> = named.into_iter().filter(|reference| !inputs.has_read(reference)).collect();
            if new.is_empty() {
                return Ok(());
            }
            for reference in &new {
                self.may_read(reference)?;
                if self.context.assumed.is_none() && !self.is_told(reference, existing) {
                    self.context.watches.add(self.about, reference);
                }
            }
            let found = try_join_all(new.into_iter().map(|reference| self.find(reference))).await?;
            for (reference, found) in found {
                inputs.insert(reference, found);
            }
        }
        Err(broken::<C>(format!("needs() goes deeper than {DEEPEST_REFERENCE} references")))
    }

    /// Watches from now on what these inputs refer to, and nothing else. Called once for each reconcile: a watch that ended and
    /// began again would tell of its object, and start the next one.
    pub(crate) fn watch_only(&self, all: &[&Inputs<C::Kind>], existing: &[(Ref, ObjectMeta)]) {
        let references = all.iter().flat_map(|inputs| inputs.references());
        let watched = references.filter(|reference| !self.is_told(reference, existing)).cloned().collect();
        self.context.watches.keep_only(self.about, &watched);
    }

    /// Whether the watches on children tell of an object already.
    fn is_told(&self, reference: &Ref, existing: &[(Ref, ObjectMeta)]) -> bool {
        let child = existing.iter().find(|(child, _)| child == reference);
        child.is_some_and(|(child, meta)| self.context.children.tells_every_change(child, meta))
    }

    async fn find(&self, reference: Ref) -> Result<(Ref, Found), Error> {
        if let Some(assumed) = self.assumed(&reference) {
            return Ok((reference, Found::Object(Box::new(assumed))));
        }
        let found = match reference.api(self.context.client.clone()).get(&reference.name).await {
            Ok(found) => Found::Object(Box::new(found)),
            Err(error) if is_unknown_kind(&error) => Found::UnknownKind,
            Err(error) if is_not_found(&error) => Found::Missing,
            Err(source) => return Err(Error::ReadFailed { object: Box::new(reference), source: Box::new(source) }),
        };
        Ok((reference, found))
    }

    async fn read_answers(&self, inputs: &mut Inputs<C::Kind>) -> Result<(), Error> {
        let probes = self.context.controller.probes(inputs);
        if !C::PROBES && !probes.is_empty() {
            return Err(broken::<C>("there are probes, and PROBES says that there are none".to_owned()));
        }
        self.context.probes.keep_only(self.about, &probes);
        for probe in probes {
            let answer = self.context.probes.answer(self.about, &probe, &self.context.client).await;
            inputs.insert_answer(probe, answer);
        }
        Ok(())
    }

    /// What only a bug in the operator can get wrong: it would be refused where it has no more rights than it says it needs.
    fn may_read(&self, reference: &Ref) -> Result<(), Error> {
        let controller = &self.context.controller;
        let is_it = |kind: &KindRef| kind.resource == reference.resource;
        if controller.reads().iter().any(is_it) || controller.children().iter().any(is_it) {
            return Ok(());
        }
        Err(broken::<C>(format!("{reference} is of a kind that is not in reads()")))
    }
}
