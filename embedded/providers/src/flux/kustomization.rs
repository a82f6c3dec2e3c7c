//! Looks after Kustomizations: when a round is due, and what is left of one that is deleted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::runtime::controller::Action;
use kube::{Client, ResourceExt};

use super::attempts::{Asked, Next};
use super::kinds::{Inventory, Kustomization};
use super::report::{FINALIZER, HEALTHY, READY, STALLED};
use super::round::{self, Failure, PRUNE_FAILED, Round, Source};
use super::wanted::Wanted;
use super::{Shared, apply};
use crate::failure::Error;
use crate::objects;
use crate::queue::RESYNC;

/// How soon is looked again at objects that are to become healthy.
const LOOK: Duration = Duration::from_secs(2);

/// How soon is looked again for what has to come first. Most of it is told by a watch before.
const SOON: Duration = Duration::from_secs(15);

/// Brings a Kustomization one round further, if it is time to.
pub(super) async fn reconcile(object: Kustomization, client: Client, shared: Arc<Shared>) -> Result<Action, Error> {
    let meta = &object.metadata;
    let held = object.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
    if meta.deletion_timestamp.is_some() {
        if held {
            delete(&client, &object).await?;
            shared.attempts.forget(meta);
            objects::hold(&client, &object, FINALIZER, false).await?;
        }
        return Ok(Action::await_change());
    }
    if !held {
        // The change comes back through the watch and starts the next reconcile.
        objects::hold(&client, &object, FINALIZER, true).await?;
        return Ok(Action::await_change());
    }
    if object.spec.suspend {
        return Ok(Action::await_change());
    }
    let mut round = Round::new(&client, &object);
    let wanted = match Wanted::of(&object) {
        Ok(wanted) => wanted,
        Err(refusal) => {
            let (reason, message) = (refusal.reason, refusal.message);
            let said = round.report(|conditions| {
                conditions.fails(READY, reason, &message).holds(STALLED, reason, &message).keep(HEALTHY)
            });
            said.await?;
            return Ok(Action::await_change());
        }
    };
    match go(&mut round, &object, &wanted, &shared).await {
        Ok(again) => Ok(Action::requeue(again.min(RESYNC))),
        Err(Failure::Error(error)) => Err(error),
        Err(Failure::Waits(reason, message)) => {
            round.fail(reason, &message).await?;
            Ok(Action::requeue(SOON))
        }
        Err(Failure::Wrong(reason, message)) => {
            round.fail(reason, &message).await?;
            Ok(Action::requeue(wanted.retry.min(RESYNC)))
        }
    }
}

/// One round, as far as it goes now. Says when to look again.
async fn go(
    round: &mut Round<'_>,
    object: &Kustomization,
    wanted: &Wanted,
    shared: &Shared,
) -> Result<Duration, Failure> {
    let (meta, attempts) = (&object.metadata, &shared.attempts);
    let source = round::source(round.client(), object, &shared.place).await?;
    let asked = Asked::by(meta, Some(&source.revision));
    let is_due = match attempts.next(meta, &asked, Instant::now()) {
        Next::Rest(rest) => return Ok(rest),
        Next::Look => false,
        Next::Try => true,
    };
    match go_on(round, is_due, wanted, &source).await {
        Ok(true) => {
            attempts.tried(meta, asked, wanted.interval);
            Ok(wanted.interval)
        }
        Ok(false) => {
            attempts.applied(meta, asked);
            Ok(LOOK)
        }
        Err(failure) => {
            if let Failure::Wrong(..) = failure {
                attempts.tried(meta, asked, wanted.retry);
            }
            Err(failure)
        }
    }
}

/// Applies a commit if that is due, and looks whether it is healthy.
async fn go_on(round: &mut Round<'_>, is_due: bool, wanted: &Wanted, source: &Source) -> Result<bool, Failure> {
    if is_due {
        round.apply(wanted, source).await?;
    }
    round.look(wanted, source).await
}

/// Deletes what was applied, if that goes with the Kustomization. One that is suspended leaves everything as it is, as with Flux.
async fn delete(client: &Client, object: &Kustomization) -> Result<(), Error> {
    let goes = match object.spec.deletion_policy.as_deref() {
        Some("Delete") => true,
        Some("Orphan") => false,
        _ => object.spec.prune,
    };
    if !goes || object.spec.suspend {
        return Ok(());
    }
    let mut round = Round::new(client, object);
    let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
    let (left, said) = apply::prune(client, &name, &namespace, round.applied()).await;
    if said.is_empty() {
        return Ok(());
    }
    let message = format!("{}; set spec.deletionPolicy: Orphan to leave it behind", said.join("; "));
    round.note(Inventory { entries: left });
    round.fail(PRUNE_FAILED, &message).await?;
    Err(Error::Missing(message))
}
