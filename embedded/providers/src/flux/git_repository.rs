//! Looks after GitRepositories: fetches what their reference stands for, and says which commit that is.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Instant;

use c5c3_api::blocks::Condition;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::runtime::controller::Action;
use kube::{Client, ResourceExt};

use super::attempts::{Asked, Next, requested};
use super::git::{Commit, GitError, Mirror};
use super::kinds::{Artifact, GitRepository, GitRepositoryStatus};
use super::refusal::Refusal;
use super::report::{Conditions, FETCH_FAILED, FINALIZER, IN_STORAGE, READY, RECONCILING, RETRYING, STALLED};
use super::wanted::Fetch;
use super::{MANAGER, Shared};
use crate::failure::Error;
use crate::objects;
use crate::queue::RESYNC;

/// A commit that was fetched.
struct Fetched {
    commit: Commit,
    revision: String,
    digest: String,
}

/// Fetches a repository if it is time to, and says what came of it.
pub(super) async fn reconcile(repository: GitRepository, client: Client, shared: Arc<Shared>) -> Result<Action, Error> {
    let (meta, spec) = (&repository.metadata, &repository.spec);
    let mirror = shared.place.of(&repository.namespace().unwrap_or_default(), &repository.name_any());
    let held = repository.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
    if meta.deletion_timestamp.is_some() {
        if held {
            shared.attempts.forget(meta);
            remove(&mirror).await?;
            objects::hold(&client, &repository, FINALIZER, false).await?;
        }
        return Ok(Action::await_change());
    }
    if !held {
        // The change comes back through the watch and starts the next reconcile.
        objects::hold(&client, &repository, FINALIZER, true).await?;
        return Ok(Action::await_change());
    }
    if spec.suspend {
        return Ok(Action::await_change());
    }
    let now = Timestamp::now();
    let fetch = match Fetch::of(&repository) {
        Ok(fetch) => fetch,
        Err(refusal) => {
            let status = refused(&repository, &refusal, now);
            objects::report(&client, &repository, MANAGER, repository.status.as_ref(), &status).await?;
            return Ok(Action::await_change());
        }
    };
    let asked = Asked::by(meta, None);
    if let Next::Rest(rest) = shared.attempts.next(meta, &asked, Instant::now()) {
        return Ok(Action::requeue(rest.min(RESYNC)));
    }
    let fetched = fetched(&mirror, &fetch).await;
    let status = match &fetched {
        Ok(fetched) => stored(&repository, fetched, &mirror, now),
        Err(error) => failed(&repository, error, now),
    };
    objects::report(&client, &repository, MANAGER, repository.status.as_ref(), &status).await?;
    let fetched = fetched.map_err(|error| Error::Missing(error.to_string()))?;
    shared.attempts.tried(meta, asked, fetch.interval);
    let before = repository.status.as_ref().and_then(|status| status.artifact.as_ref());
    if before.is_some_and(|before| before.revision != fetched.revision)
        && let Err(error) = mirror.tidy().await
    {
        tracing::warn!(name = repository.name_any(), %error, "old commits are kept");
    }
    Ok(Action::requeue(fetch.interval.min(RESYNC)))
}

async fn fetched(mirror: &Mirror, fetch: &Fetch) -> Result<Fetched, GitError> {
    let commit = mirror.fetch(&fetch.url, &fetch.reference, fetch.timeout).await?;
    Ok(Fetched { revision: fetch.revision(&commit), digest: mirror.digest(&commit).await?, commit })
}

async fn remove(mirror: &Mirror) -> Result<(), Error> {
    match tokio::fs::remove_dir_all(mirror.folder()).await {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::Missing(format!("cannot remove the commits of the repository: {error}")))
        }
        _ => Ok(()),
    }
}

/// A status of this generation that is otherwise as before, with other conditions.
fn status<'a>(
    repository: &'a GitRepository,
    now: Timestamp,
    conditions: impl FnOnce(Conditions<'a>) -> Conditions<'a>,
) -> GitRepositoryStatus {
    let meta = &repository.metadata;
    let before: &[Condition] =
        repository.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    GitRepositoryStatus {
        observed_generation: meta.generation,
        last_handled_reconcile_at: requested(meta),
        conditions: conditions(Conditions::new(before, meta.generation, now)).done(),
        ..repository.status.clone().unwrap_or_default()
    }
}

fn refused(repository: &GitRepository, refusal: &Refusal, now: Timestamp) -> GitRepositoryStatus {
    let (reason, message) = (refusal.reason, refusal.message.as_str());
    status(repository, now, |conditions| {
        conditions.fails(READY, reason, message).holds(STALLED, reason, message).keep(IN_STORAGE)
    })
}

fn failed(repository: &GitRepository, error: &GitError, now: Timestamp) -> GitRepositoryStatus {
    let (reason, message) = ("GitOperationFailed", format!("failed to checkout and determine revision: {error}"));
    status(repository, now, |conditions| {
        let conditions = conditions.fails(READY, reason, &message).holds(FETCH_FAILED, reason, &message);
        conditions.holds(RECONCILING, RETRYING, &message).keep(IN_STORAGE)
    })
}

fn stored(repository: &GitRepository, fetched: &Fetched, mirror: &Mirror, now: Timestamp) -> GitRepositoryStatus {
    let message = format!("stored artifact for revision '{}'", fetched.revision);
    let before = repository.status.as_ref().and_then(|status| status.artifact.as_ref());
    let same = before.filter(|before| before.revision == fetched.revision);
    let (namespace, name) = (repository.namespace().unwrap_or_default(), repository.name_any());
    let artifact = Artifact {
        revision: fetched.revision.clone(),
        digest: fetched.digest.clone(),
        path: format!("gitrepository/{namespace}/{name}/{}", fetched.commit.hash()),
        url: format!("file://{}", mirror.folder().display()),
        last_update_time: same.map_or(Time(now), |same| same.last_update_time.clone()),
    };
    let status = status(repository, now, |conditions| {
        conditions.holds(READY, "Succeeded", &message).holds(IN_STORAGE, "Succeeded", &message)
    });
    GitRepositoryStatus { artifact: Some(artifact), ..status }
}

#[cfg(test)]
mod tests {
    use c5c3_kit::condition::find;
    use serde_json::json;

    use super::super::git::Place;
    use super::*;
    use crate::testing::object;

    fn said(status: &GitRepositoryStatus) -> Vec<String> {
        let word =
            |one: &Condition| format!("{}={:?} {}", one.r#type, one.status, one.reason.as_deref().unwrap_or_default());
        status.conditions.iter().map(word).collect()
    }

    #[test]
    fn a_failure_keeps_the_artifact_and_says_what_git_said() {
        let folder = tempfile::tempdir().unwrap();
        let mirror = Place::new(folder.path()).unwrap().of("marsh", "cloud");
        let (early, late): (Timestamp, Timestamp) =
            ("2026-01-01T00:00:00Z".parse().unwrap(), "2026-01-01T01:00:00Z".parse().unwrap());
        let mut repository: GitRepository = object("cloud", "marsh", json!({"interval": "1m", "url": "/srv/cloud"}));
        let commit = Commit::parse("0123456789abcdef0123456789abcdef01234567").unwrap();
        let revision = format!("main@{}", commit.digest());
        let fetched = Fetched { revision: revision.clone(), digest: "sha256:00".into(), commit };
        let first = stored(&repository, &fetched, &mirror, early);
        assert_eq!(said(&first), ["Ready=True Succeeded", "ArtifactInStorage=True Succeeded"]);
        repository.status = Some(first.clone());
        assert_eq!(stored(&repository, &fetched, &mirror, late), first, "what is the same is not written again");

        let broken = failed(&repository, &GitError::NotInstalled, late);
        let expected = [
            "Ready=False GitOperationFailed",
            "FetchFailed=True GitOperationFailed",
            "Reconciling=True ProgressingWithRetry",
            "ArtifactInStorage=True Succeeded",
        ];
        assert_eq!(said(&broken), expected);
        assert_eq!(broken.artifact.as_ref().unwrap().revision, revision);
        assert!(find(&broken.conditions, READY).unwrap().message.as_ref().unwrap().contains("apt install git"));
        let refused = refused(&repository, &Refusal::field("spec.url: no"), late);
        let expected = ["Ready=False InvalidField", "Stalled=True InvalidField", "ArtifactInStorage=True Succeeded"];
        assert_eq!((said(&refused), refused.artifact), (expected.map(String::from).to_vec(), first.artifact));
    }
}
