//! Installations by operators that die on the way.

use std::time::Instant;

use c5c3_kit::Controller;
use c5c3_kit::ownership::MANAGED_BY;
use c5c3_service::{Service, ServiceController};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DynamicObject, ListParams};
use kube::runtime::wait::Condition;
use kube::{Api, Resource, ResourceExt};
use serde_json::Value;

use crate::mortal::Mortal;
use crate::{PATIENCE, Stage, ready_is};

/// More changes than any installation or upgrade makes.
pub(crate) const LIVES: usize = 300;

/// No installation makes fewer changes.
const LEAST_DEATHS: usize = 20;

impl<S: Service> Stage<S>
where
    S::Kind: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
{
    /// Installs an object by operators that are killed after each change that they make.
    ///
    /// # Panics
    /// If the object does not get ready; if a Job runs twice; or if there are other objects and Jobs at the end than on the stage
    /// `undisturbed`, where one operator installs the same.
    pub async fn survives_an_installation(&self, undisturbed: &Self, object: &Value) {
        self.create(object).await;
        let mut deaths = 0;
        while !self.live_until_a_change(ready_is("True", "Ready")).await {
            deaths += 1;
            assert!(deaths < LIVES, "the installation does not end: {:?}", self.jobs.ended());
        }
        assert!(deaths >= LEAST_DEATHS, "killed {deaths} times only");
        undisturbed.create(object).await;
        let _running = [self.operate(), undisturbed.operate()];
        undisturbed.until_ready().await;
        self.until_ready().await;
        // What is left over is deleted once everything is ready.
        let begun = Instant::now();
        loop {
            let (made, wanted) = (self.made().await, undisturbed.made().await);
            if made == wanted {
                break;
            }
            assert!(begun.elapsed() < PATIENCE / 4, "by mortals: {made:#?}\nby one operator: {wanted:#?}");
            tokio::task::yield_now().await;
        }
        let mut ran = self.jobs.ended();
        ran.sort();
        assert!(ran.windows(2).all(|pair| pair[0] != pair[1]), "a Job ran twice: {ran:?}");
    }

    /// Runs an operator until it has changed something, or until something is so of the object `gate`: then it says so.
    pub(crate) async fn live_until_a_change(&self, over: impl Condition<S::Kind>) -> bool {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), "cloud");
        let newest = maps.list(&ListParams::default()).await.expect("a list").metadata.resource_version;
        let newest = newest.and_then(|version| version.parse().ok()).expect("a list has a version");
        let mortal = Mortal::new(self.client.clone(), newest);
        let _running = self.operate_as(mortal.client, None);
        tokio::select! {
            () = mortal.died.notified() => false,
            _ = self.until(over) => true,
        }
    }

    /// What the operator has made, and which Jobs have run: kinds, and names without the hashes of contents, some of which are random.
    async fn made(&self) -> Vec<String> {
        let mut made: Vec<String> = self.jobs.ended().iter().map(|job| format!("ran {}", unhashed(job))).collect();
        let own = ListParams::default().labels(&format!("{MANAGED_BY}={}", S::MANAGER));
        for kind in ServiceController::<S>::default().children() {
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), "cloud", &kind.resource);
            // Kinds that are not installed have no objects.
            let found = api.list(&own).await.map(|list| list.items).unwrap_or_default();
            made.extend(found.iter().map(|one| format!("{} {}", kind.resource.kind, unhashed(&one.name_any()))));
        }
        made.sort();
        made
    }
}

/// A name without the hash at its end.
fn unhashed(name: &str) -> &str {
    let is_hash = |end: &str| end.len() == 10 && end.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.rsplit_once('-').filter(|(_, end)| is_hash(end)).map_or(name, |(base, _)| base)
}
