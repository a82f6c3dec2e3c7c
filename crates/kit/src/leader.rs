//! Leader election by Lease: one process works, the others wait and take over.
//!
//! The rules are those of client-go, so that both can share a Lease. A holder is trusted for as long as its last sign of
//! life is recent by *our* clock: clocks of other machines are never compared. Every write carries the resource version
//! that was read, so two processes cannot both believe that they won. On a clean stop the Lease is handed back, and the
//! others, who watch it, take over at once.
//!
//! At rest the holder sends one request for each renewal, and the others none: the holder knows the Lease that it wrote, the
//! others know it from their watch. It is read again only after a conflict or a failure.
//!
//! In a cluster the Lease belongs to the pod of its holder, so that a holder that was killed is replaced before its Lease expires: the
//! next process of the same container takes it over at once, and when the pod is deleted, Kubernetes deletes the Lease with it.

use std::future::Future;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use kube::api::{Api, PostParams};
use kube::core::ObjectMeta;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource, ResourceExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long the others wait after a Lease was deleted with the pod of its holder: API servers go on accepting the token of a deleted
/// pod for up to ten seconds, which is how long they remember that it was good.
const TOKEN_OUTLIVES_POD: Duration = Duration::from_secs(10);

/// The pod that a candidate runs in, as the first process of its container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// How a Lease is held.
#[derive(Clone, Debug)]
pub struct Election {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub lease: String,
    /// Who we are: unique to this process.
    pub identity: String,
    /// How long a holder is trusted after its last sign of life.
    pub lease_duration: Duration,
    /// How long a holder that cannot renew goes on before it stops: shorter than `lease_duration`, so that it has
    /// stopped before another starts.
    pub renew_deadline: Duration,
    /// How often the holder renews.
    pub renew_period: Duration,
    /// How soon an attempt that failed is repeated.
    pub retry_period: Duration,
    /// Who owns the Lease while we hold it.
    owner: Option<OwnerReference>,
}

impl Election {
    /// An election with the usual times. They are longer than client-go's (15 s, 10 s, 2 s): a clean stop does not wait for them,
    /// and a dozen operators that renew every two seconds are most of the writes of a cluster at rest.
    pub fn new(namespace: impl Into<String>, lease: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            lease: lease.into(),
            identity: identity.into(),
            lease_duration: Duration::from_mins(1),
            renew_deadline: Duration::from_secs(50),
            renew_period: Duration::from_secs(30),
            retry_period: Duration::from_secs(2),
            owner: None,
        }
    }

    /// The same, held by the pod that we run in. A pod of another namespace cannot own the Lease: it would be deleted at once.
    #[must_use]
    pub fn in_pod(mut self, pod: Option<OwnPod>) -> Self {
        self.owner = pod.filter(|pod| pod.namespace == self.namespace).map(|pod| OwnerReference {
            api_version: Pod::api_version(&()).into_owned(),
            kind: Pod::kind(&()).into_owned(),
            name: pod.name,
            uid: pod.uid,
            ..OwnerReference::default()
        });
        self
    }
}

/// The Lease as we last saw it change, and when that was by our clock.
struct Observed {
    holder: String,
    renewed: Option<Timestamp>,
    at: Instant,
}

/// One candidate.
pub struct Candidate {
    api: Api<Lease>,
    election: Election,
    observed: Option<Observed>,
    /// The Lease as it was last written or heard of; absent when it has to be read.
    known: Option<Lease>,
}

impl Candidate {
    /// A candidate that has not seen the Lease yet.
    pub fn new(client: Client, election: Election) -> Self {
        Self { api: Api::namespaced(client, &election.namespace), election, observed: None, known: None }
    }

    /// Waits for leadership, runs `work` while it lasts, and starts over when it is lost. Returns after `stop`, with the
    /// Lease handed back. `work` is dropped on a loss, and is given a token to stop by itself on a clean stop.
    pub async fn lead<F: Future<Output = ()>>(
        mut self,
        stop: CancellationToken,
        mut turned: impl FnMut(bool),
        mut work: impl FnMut(CancellationToken) -> F,
    ) {
        while self.acquire(&stop).await {
            tracing::info!(lease = self.election.lease, identity = self.election.identity, "leading");
            turned(true);
            let mut lost = false;
            {
                let mut work = std::pin::pin!(work(stop.clone()));
                tokio::select! {
                    () = &mut work => {}
                    () = self.renew_until_lost() => lost = true,
                }
            }
            turned(false);
            if lost {
                tracing::warn!(lease = self.election.lease, "leadership lost; work stopped");
                continue;
            }
            self.release().await;
            if stop.is_cancelled() {
                return;
            }
        }
    }

    /// Tries until it holds the Lease, or until `stop`: then it returns false.
    async fn acquire(&mut self, stop: &CancellationToken) -> bool {
        let name = format!("metadata.name={}", self.election.lease);
        let changes = watcher(self.api.clone(), watcher::Config::default().fields(&name)).default_backoff();
        let mut changes = std::pin::pin!(changes);
        let mut not_before = Instant::now();
        loop {
            let mut pause = not_before.saturating_duration_since(Instant::now());
            if pause.is_zero() {
                match self.attempt(stop).await {
                    Some(Held::Ours) => return true,
                    Some(Held::Theirs { expires_in }) => pause = expires_in,
                    None if stop.is_cancelled() => return false,
                    Some(Held::Changed) | None => {}
                }
                pause = pause.max(self.election.retry_period.mul_f64(rand::random_range(1.0..=1.2)));
            }
            tokio::select! {
                () = stop.cancelled() => return false,
                () = tokio::time::sleep(pause) => {}
                // Each renewal of the holder is heard of here, and that it hands the Lease back.
                Some(event) = changes.next() => match event {
                    Ok(Event::Apply(lease) | Event::InitApply(lease)) => self.known = Some(lease),
                    Ok(Event::Delete(lease)) => {
                        self.known = None;
                        if is_held(&lease) {
                            not_before = Instant::now() + TOKEN_OUTLIVES_POD;
                        }
                    }
                    Ok(Event::Init | Event::InitDone) | Err(_) => {}
                },
            }
        }
    }

    /// Tries once to hold the Lease. `None` after a failure, which is logged, and on `stop`.
    async fn attempt(&mut self, stop: &CancellationToken) -> Option<Held> {
        let deadline = self.election.renew_deadline;
        let tried = tokio::select! {
            () = stop.cancelled() => return None,
            tried = tokio::time::timeout(deadline, self.try_hold()) => tried,
        };
        match tried {
            Ok(Ok(held)) => return Some(held),
            Ok(Err(error)) => {
                tracing::warn!(lease = self.election.lease, %error, "cannot read the lease; trying again");
            }
            Err(_) => tracing::warn!(lease = self.election.lease, "the API does not answer; trying again"),
        }
        None
    }

    /// Renews, and returns when the Lease was lost or could not be renewed in time.
    async fn renew_until_lost(&mut self) {
        let mut deadline = Instant::now() + self.election.renew_deadline;
        let mut pause = self.election.renew_period;
        loop {
            tokio::time::sleep(pause).await;
            // Counted from before the request: others count from when it was written, not from when we hear of it.
            let asked = Instant::now();
            // A request that is never answered must leave time for another.
            let limit = deadline.min(asked + self.election.renew_deadline / 4);
            pause = self.election.retry_period;
            match tokio::time::timeout_at(limit, self.try_hold()).await {
                Ok(Ok(Held::Ours)) => {
                    deadline = asked + self.election.renew_deadline;
                    pause = self.election.renew_period;
                }
                // Another client wrote the Lease between our read and our write, which is not a lost election yet.
                Ok(Ok(Held::Changed)) | Err(_) if Instant::now() < deadline => {}
                Ok(Err(error)) if Instant::now() < deadline => {
                    tracing::warn!(lease = self.election.lease, %error, "cannot renew the lease; trying again");
                }
                // Another holds it, or it could not be renewed in time.
                Ok(Ok(Held::Theirs { .. } | Held::Changed) | Err(_)) | Err(_) => return,
            }
        }
    }

    /// Takes or renews the Lease.
    async fn try_hold(&mut self) -> Result<Held, kube::Error> {
        let found = match self.known.take() {
            Some(lease) => Some(lease),
            None => self.api.get_opt(&self.election.lease).await?,
        };
        let Some(found) = found else {
            let lease = Lease { spec: Some(self.spec(None)), ..self.named() };
            return self.written(self.api.create(&PostParams::default(), &lease).await);
        };
        let spec = found.spec.clone().unwrap_or_default();
        self.observe(&spec);
        let expires_in = self.expires_in(&spec);
        let is_others = is_held(&found) && spec.holder_identity.as_ref() != Some(&self.election.identity);
        if is_others && !self.is_of_our_pod(&found) && !expires_in.is_zero() {
            self.known = Some(found);
            return Ok(Held::Theirs { expires_in });
        }
        let metadata = ObjectMeta { owner_references: self.owners(), ..found.metadata };
        let lease = Lease { spec: Some(self.spec(Some(&spec))), metadata };
        self.written(self.api.replace(&self.election.lease, &PostParams::default(), &lease).await)
    }

    /// Whether our pod owns the Lease. Another holder was then the process before us in our container, which has ended.
    fn is_of_our_pod(&self, lease: &Lease) -> bool {
        let own = self.election.owner.as_ref();
        own.is_some_and(|own| lease.owner_references().iter().any(|owner| owner.uid == own.uid))
    }

    fn owners(&self) -> Option<Vec<OwnerReference>> {
        self.election.owner.clone().map(|own| vec![own])
    }

    /// What came of a write. What was written is known; after a conflict the Lease is read again.
    fn written(&mut self, result: Result<Lease, kube::Error>) -> Result<Held, kube::Error> {
        match result {
            Ok(lease) => {
                self.known = Some(lease);
                Ok(Held::Ours)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Held::Changed),
            Err(error) => Err(error),
        }
    }

    fn observe(&mut self, spec: &LeaseSpec) {
        let holder = spec.holder_identity.clone().unwrap_or_default();
        let renewed = spec.renew_time.as_ref().map(|time| time.0);
        let same = self.observed.as_ref().is_some_and(|seen| seen.holder == holder && seen.renewed == renewed);
        if !same {
            self.observed = Some(Observed { holder, renewed, at: Instant::now() });
        }
    }

    /// For how long the holder is still trusted, by our clock.
    fn expires_in(&self, spec: &LeaseSpec) -> Duration {
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let duration = seconds.map_or(self.election.lease_duration, Duration::from_secs);
        self.observed.as_ref().map_or(Duration::ZERO, |seen| duration.saturating_sub(seen.at.elapsed()))
    }

    fn spec(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let ours = before.is_some_and(|before| before.holder_identity.as_ref() == Some(&self.election.identity));
        let transitions = before.and_then(|before| before.lease_transitions).unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.election.identity.clone()),
            lease_duration_seconds: i32::try_from(self.election.lease_duration.as_secs()).ok(),
            acquire_time: before.filter(|_| ours).and_then(|before| before.acquire_time.clone()).or(Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if ours || before.is_none() { transitions } else { transitions + 1 }),
            ..LeaseSpec::default()
        }
    }

    fn named(&self) -> Lease {
        let metadata = ObjectMeta {
            name: Some(self.election.lease.clone()),
            namespace: Some(self.election.namespace.clone()),
            owner_references: self.owners(),
            ..ObjectMeta::default()
        };
        Lease { metadata, ..Lease::default() }
    }

    /// Hands the Lease back, if it is ours.
    async fn release(&mut self) {
        self.known = None;
        let released = async {
            let Some(mut lease) = self.api.get_opt(&self.election.lease).await? else { return Ok(()) };
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_ref() != Some(&self.election.identity) {
                return Ok(());
            }
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            spec.renew_time = Some(MicroTime(Timestamp::now()));
            // It would be deleted with us.
            lease.metadata.owner_references = None;
            match self.api.replace(&self.election.lease, &PostParams::default(), &lease).await {
                // Another has taken it meanwhile.
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
                done => done.map(drop),
            }
        };
        match tokio::time::timeout(self.election.retry_period, released).await {
            Ok(Ok(())) => tracing::info!(lease = self.election.lease, "lease handed back"),
            Ok(Err(error)) => tracing::warn!(%error, "cannot release the lease; others wait until it expires"),
            Err(_) => tracing::warn!("cannot release the lease in time; others wait until it expires"),
        }
    }
}

fn is_held(lease: &Lease) -> bool {
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
    holder.is_some_and(|holder| !holder.is_empty())
}

/// The holder of the Lease, after an attempt to acquire it.
enum Held {
    /// We have.
    Ours,
    /// Another has, and is trusted for that long if it does not renew.
    Theirs { expires_in: Duration },
    /// It changed while we looked.
    Changed,
}
