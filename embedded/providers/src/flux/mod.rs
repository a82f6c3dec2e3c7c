//! What stands in for Flux: git repositories of this machine, and folders of them that are applied.
//!
//! ```text
//! GitRepository ─► git fetch ─► status.artifact ─► Kustomization ─► build ─► dry run ─► apply ─► prune ─► health
//! ```
//!
//! Provided are GitRepositories with a `file://` URL or an absolute path, and Kustomizations of them. Fields that are not
//! provided are refused by name, and nothing is done then. Objects are applied with the rights of the cluster itself:
//! whoever may commit to such a repository may change everything. A commit with a mistake changes nothing, since all of it
//! is tried by a dry run before the first write.

mod apply;
mod attempts;
mod build;
mod checks;
mod definitions;
mod git;
mod git_repository;
mod health;
mod inventory;
mod items;
mod kinds;
mod kustomization;
mod patch;
mod refusal;
mod report;
mod round;
mod wanted;

use std::sync::Arc;

use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::queue;
use attempts::Attempts;
use git::Place;

pub(crate) use definitions::definitions;
pub use kinds::{
    Artifact, Dependency, Entry, GitReference, GitRepository, GitRepositorySpec, GitRepositoryStatus, HealthCheck,
    HealthExpression, Inventory, Kustomization, KustomizationSpec, KustomizationStatus, Other, PatchSpec, SourceRef,
    Target,
};

/// The field manager of status. Objects of a commit have that of Flux.
const MANAGER: &str = "c5c3-flux";

/// What both controllers know.
struct Shared {
    place: Place,
    attempts: Attempts,
}

/// Looks after every GitRepository and Kustomization until `stop`.
pub(crate) async fn run(client: Client, stop: CancellationToken) {
    // For its owner alone, and gone with the process: whatever is missing is fetched again.
    let folder = match tempfile::Builder::new().prefix("c5c3-flux-").tempdir() {
        Ok(folder) => folder,
        Err(error) => return tracing::error!(%error, "there is no temporary folder for commits"),
    };
    let place = match Place::new(folder.path()) {
        Ok(place) => place,
        Err(error) => return tracing::error!(%error, "there is no place for commits"),
    };
    let shared = Arc::new(Shared { place, attempts: Attempts::default() });
    tokio::join!(git_repositories(client.clone(), stop.clone(), shared.clone()), kustomizations(client, stop, shared),);
}

async fn git_repositories(client: Client, stop: CancellationToken, shared: Arc<Shared>) {
    let controller = queue::controller::<GitRepository>(&client);
    let reconcile = move |repository, client| git_repository::reconcile(repository, client, shared.clone());
    queue::run(controller, client, stop, reconcile).await;
}

/// Looks at a Kustomization again when its repository has a new commit, or when one that it depends on changes.
async fn kustomizations(client: Client, stop: CancellationToken, shared: Arc<Shared>) {
    let controller = queue::controller::<Kustomization>(&client);
    let (by_source, by_dependency) = (controller.store(), controller.store());
    let config = watcher::Config::default;
    let controller = controller
        .watches(Api::<GitRepository>::all(client.clone()), config(), move |repository| {
            let at = (repository.namespace().unwrap_or_default(), repository.name_any());
            queue::concerned(&by_source, |one: &Kustomization| one.source() == at)
        })
        .watches(Api::<Kustomization>::all(client.clone()), config(), move |other| {
            let at = (other.namespace().unwrap_or_default(), other.name_any());
            queue::concerned(&by_dependency, |one: &Kustomization| {
                one.dependencies().any(|dependency| dependency == at)
            })
        });
    let reconcile = move |object, client| kustomization::reconcile(object, client, shared.clone());
    queue::run(controller, client, stop, reconcile).await;
}
