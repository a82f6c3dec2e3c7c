//! Lists of Nova that answer for all hosts, so that ten thousand of them do not ask one by one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use c5c3_openstack::{Access, Client, Error, Request};
use jiff::Timestamp;

use super::nova::{Aggregate, COMPUTE, Compute, Service};

/// Lists may take this share of the time: one that took a second is read again after twenty.
const SHARE: u32 = 20;

/// A list, and how long it answers.
struct Kept<T> {
    value: T,
    until: Instant,
}

type Slot<T> = Arc<tokio::sync::Mutex<Option<Kept<T>>>>;

/// All aggregates, and when they were read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aggregates {
    pub(crate) all: Arc<Vec<Aggregate>>,
    pub(crate) read: Timestamp,
}

/// What is kept for one credential.
#[derive(Clone, Default)]
struct Site {
    services: Slot<HashMap<String, Service>>,
    computes: Slot<HashMap<String, Compute>>,
    aggregates: Slot<Aggregates>,
}

/// The lists of all credentials.
pub(super) struct Lists {
    sites: Mutex<HashMap<[u8; 32], Site>>,
    period: Duration,
}

impl Lists {
    pub(super) fn new(period: Duration) -> Self {
        Self { sites: Mutex::default(), period }
    }

    fn site(&self, access: &Access) -> Site {
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        if !sites.contains_key(&access.digest()) {
            // Another credential is a new one of the same cloud, or another cloud: the old lists are of no use.
            sites.clear();
        }
        sites.entry(access.digest()).or_default().clone()
    }

    /// Reads a list if there is none that is new enough, and answers from it.
    async fn with<T, A>(
        &self,
        slot: &Slot<T>,
        read: impl Future<Output = Result<T, Error>>,
        answer: impl FnOnce(&T) -> A,
    ) -> Result<A, Error> {
        let mut slot = slot.lock().await;
        if let Some(kept) = slot.as_ref().filter(|kept| Instant::now() < kept.until) {
            return Ok(answer(&kept.value));
        }
        let started = Instant::now();
        let value = read.await?;
        let answered = answer(&value);
        let period = self.period.max(started.elapsed() * SHARE);
        *slot = Some(Kept { value, until: Instant::now() + period });
        Ok(answered)
    }

    pub(super) async fn service(&self, access: &Access, client: &Client, host: &str) -> Result<Option<Service>, Error> {
        let site = self.site(access);
        self.with(&site.services, services(client), |all| all.get(host).cloned()).await
    }

    /// How many other hosts take servers.
    pub(super) async fn destinations(&self, access: &Access, client: &Client, host: &str) -> Result<usize, Error> {
        let site = self.site(access);
        let takes = |service: &&Service| service.host != host && service.is_enabled() && service.is_up();
        self.with(&site.services, services(client), |all| all.values().filter(takes).count()).await
    }

    pub(super) async fn compute(&self, access: &Access, client: &Client, host: &str) -> Result<Option<Compute>, Error> {
        let site = self.site(access);
        self.with(&site.computes, computes(client), |all| all.get(host).cloned()).await
    }

    pub(super) async fn aggregates(&self, access: &Access, client: &Client) -> Result<Aggregates, Error> {
        let site = self.site(access);
        self.with(&site.aggregates, aggregates(client), Aggregates::clone).await
    }

    /// Brings the list up to date with a change of ours, or with none drops it: it is not known what became of the change.
    pub(super) async fn note_service(&self, access: &Access, changed: Option<Service>) {
        let slot = self.site(access).services;
        let mut slot = slot.lock().await;
        match (slot.as_mut(), changed) {
            (Some(kept), Some(service)) => {
                kept.value.insert(service.host.clone(), service);
            }
            _ => *slot = None,
        }
    }

    /// Removes a host whose service was deleted.
    pub(super) async fn forget_host(&self, access: &Access, host: &str) {
        let site = self.site(access);
        if let Some(kept) = site.services.lock().await.as_mut() {
            kept.value.remove(host);
        }
        if let Some(kept) = site.computes.lock().await.as_mut() {
            kept.value.remove(host);
        }
    }

    /// Replaces an aggregate, or with none drops the list.
    pub(super) async fn note_aggregate(&self, access: &Access, changed: Option<Aggregate>) {
        let slot = self.site(access).aggregates;
        let mut slot = slot.lock().await;
        match (slot.as_mut(), changed) {
            (Some(kept), Some(aggregate)) => {
                let all = Arc::make_mut(&mut kept.value.all);
                all.retain(|one| one.id != aggregate.id);
                all.push(aggregate);
            }
            _ => *slot = None,
        }
    }
}

async fn services(client: &Client) -> Result<HashMap<String, Service>, Error> {
    let request = Request::get("compute", ["os-services"]).query("binary", "nova-compute").microversion(COMPUTE);
    let all: Vec<Service> = client.list(&request, "services").await?;
    Ok(all.into_iter().map(|service| (service.host.clone(), service)).collect())
}

async fn computes(client: &Client) -> Result<HashMap<String, Compute>, Error> {
    let request = Request::get("compute", ["os-hypervisors", "detail"]).microversion(COMPUTE);
    let all: Vec<Compute> = client.list(&request, "hypervisors").await?;
    Ok(all.into_iter().map(|compute| (compute.service.host.clone(), compute)).collect())
}

async fn aggregates(client: &Client) -> Result<Aggregates, Error> {
    let read = Timestamp::now();
    let request = Request::get("compute", ["os-aggregates"]).microversion(COMPUTE);
    Ok(Aggregates { all: Arc::new(client.list(&request, "aggregates").await?), read })
}
