//! The names of servers, by which people look for Decisions. Nova's questions have ids only, so the leader asks Nova for the names
//! afterwards, and writes them to the Decisions as an annotation.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use c5c3_api::cortex::Decision;
use c5c3_openstack::Clients;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::descheduling::Settings;
use crate::descheduling::nova::{Nova, said};

/// The annotation of a Decision with the name that its workload had when it was decided on.
pub const NAME: &str = "cortex.c5c3.io/resource-name";

/// The field manager of the annotation: what the recorder applies leaves it in place.
const MANAGER: &str = "cortex-names";

/// Decisions whose server's name is still to be asked for, the oldest first. Cheap to clone; all clones are the same queue.
#[derive(Clone, Default)]
pub(crate) struct Unnamed(Arc<Mutex<VecDeque<One>>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct One {
    decision: String,
    server: String,
}

impl Unnamed {
    /// Adds a Decision. When there are more than `most`, the oldest stays without a name.
    pub(crate) fn push(&self, decision: &str, server: &str, most: usize) {
        let mut all = self.all();
        all.retain(|one| one.decision != decision);
        all.push_back(One { decision: decision.to_owned(), server: server.to_owned() });
        while all.len() > most {
            all.pop_front();
        }
    }

    fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    fn len(&self) -> usize {
        self.all().len()
    }

    fn pop(&self) -> Option<One> {
        self.all().pop_front()
    }

    /// One that could not be asked about is asked about again after all others.
    fn again(&self, one: One) {
        let mut all = self.all();
        if !all.iter().any(|other| other.decision == one.decision) {
            all.push_back(one);
        }
    }

    fn all(&self) -> MutexGuard<'_, VecDeque<One>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What asks for names.
#[derive(Clone)]
pub(crate) struct Names {
    unnamed: Unnamed,
    decisions: Api<Decision>,
    secrets: Api<Secret>,
    clients: Arc<Clients>,
    interval: Duration,
    clouds_secret: String,
}

impl Names {
    pub(crate) fn new(client: &Client, namespace: &str, unnamed: &Unnamed, settings: &Settings) -> Self {
        Self {
            unnamed: unnamed.clone(),
            decisions: Api::namespaced(client.clone(), namespace),
            secrets: Api::namespaced(client.clone(), namespace),
            clients: Arc::new(Clients::new(c5c3_openstack::Options::default())),
            interval: settings.interval,
            clouds_secret: settings.clouds_secret.clone(),
        }
    }

    /// Works until `stop`.
    pub(crate) async fn work(self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let rounds = async {
            let mut last = String::new();
            loop {
                ticks.tick().await;
                let problem = self.round().await.err().unwrap_or_default();
                if !problem.is_empty() && problem != last {
                    tracing::warn!(problem, "cannot ask Nova for the names of servers; trying again");
                }
                last = problem;
            }
        };
        tokio::select! {
            () = rounds => {}
            () = stop.cancelled() => {}
        }
    }

    /// Asks once about each that waits. Without one, neither the credential is read nor Nova called.
    async fn round(&self) -> Result<(), String> {
        if self.unnamed.is_empty() {
            return Ok(());
        }
        let nova = Nova::read(&self.clients, &self.secrets, &self.clouds_secret).await?;
        for _ in 0..self.unnamed.len() {
            let Some(one) = self.unnamed.pop() else { break };
            let server = match nova.server(&one.server).await {
                Ok(Some(server)) => server,
                // It was deleted.
                Ok(None) => continue,
                Err(error) => {
                    self.unnamed.again(one);
                    return Err(said(&error));
                }
            };
            if let Err(error) = self.write(&one.decision, &server.name).await {
                self.unnamed.again(one);
                return Err(error.to_string());
            }
        }
        Ok(())
    }

    /// A merge creates nothing: a Decision that was removed meanwhile stays removed.
    async fn write(&self, decision: &str, name: &str) -> kube::Result<()> {
        let patch = json!({"metadata": {"annotations": {NAME: name}}});
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        match self.decisions.patch(decision, &params, &Patch::Merge(&patch)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            written => written.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_first_and_stays_without_a_name_when_too_many_wait() {
        let unnamed = Unnamed::default();
        for (decision, server) in [("nova-a", "a"), ("nova-b", "b"), ("nova-a", "a"), ("nova-c", "c")] {
            unnamed.push(decision, server, 2);
        }
        let first = unnamed.pop().unwrap();
        assert_eq!(first.server, "a", "b waited longest and is one too many, since a was decided on again");
        unnamed.again(first);
        let order: Vec<String> = std::iter::from_fn(|| unnamed.pop()).map(|one| one.server).collect();
        assert_eq!(order, ["c", "a"]);
    }
}
