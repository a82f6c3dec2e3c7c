//! Nova, as far as hosts are given up: questions and calls.

use c5c3_openstack::compute::evacuation::Migration;
use c5c3_openstack::{Access, Clients, Error};
use futures::future::BoxFuture;
use jiff::{Span, Timestamp, civil};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};

use crate::CLOUDS_SECRET;
use crate::decide::{Action, Host, NovaHost};
use crate::guests::NovaGuest;

/// The entry of the clouds.yaml, as a ControlPlane writes it.
const CLOUD: &str = "openstack";

/// How far Nova's clock may be behind ours.
const SKEW_MINUTES: i64 = 5;

/// Nova.
pub trait Compute: Send + Sync {
    /// What it knows of a host that was fenced then.
    fn ask<'a>(&'a self, host: &'a Host, fenced: Timestamp) -> BoxFuture<'a, Result<NovaHost, String>>;

    /// How it sees a guest; none if it has no such server.
    fn guest<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<NovaGuest>, String>>;

    /// Makes a call; what is no call to Nova is nothing.
    fn call<'a>(&'a self, action: &'a Action) -> BoxFuture<'a, Result<(), String>>;
}

/// Nova with a credential.
pub struct Nova(c5c3_openstack::Client);

impl Nova {
    /// Nova with this client.
    pub fn new(client: c5c3_openstack::Client) -> Self {
        Self(client)
    }

    /// Nova with the credential of the Secret.
    pub async fn read(clients: &Clients, client: Client, namespace: &str) -> Result<Self, String> {
        let name = format!("secret/{namespace}/{CLOUDS_SECRET}");
        let secret = Api::<Secret>::namespaced(client, namespace).get_opt(CLOUDS_SECRET).await;
        let secret = secret.map_err(|error| format!("{name} cannot be read: {error}"))?;
        let data = secret.and_then(|secret| secret.data).ok_or_else(|| format!("{name} does not exist"))?;
        let text = |key: &str| data.get(key).and_then(|value| String::from_utf8(value.0.clone()).ok());
        let clouds = text("clouds.yaml").ok_or_else(|| format!("{name} has no key clouds.yaml"))?;
        let access = Access::parse(&clouds, CLOUD, text("cacert").as_deref());
        access.and_then(|access| clients.client(&access)).map(Self).map_err(|error| format!("{name}: {error}"))
    }

    async fn known(&self, host: &Host, fenced: Timestamp) -> Result<NovaHost, Error> {
        let nova = self.0.evacuations();
        let service = nova.service(&host.name).await?;
        // Servers before evacuations: the other way round, one that begins in between would not be seen and begun once more.
        let here = nova.servers_on(&host.name).await?;
        let evacuations = nova.evacuations_from(&host.name).await?;
        let evacuations = evacuations.into_iter().filter(|one| is_since(one, fenced)).collect();
        let mut moved = Vec::new();
        let elsewhere = |id: &&String| !here.iter().any(|server| server.id == **id);
        for id in host.running.iter().flatten().filter(elsewhere) {
            // One that was deleted meanwhile is nobody's.
            moved.extend(nova.server(id).await?.filter(|server| server.host.as_ref() != Some(&host.name)));
        }
        Ok(NovaHost { service, here, moved, evacuations })
    }

    async fn seen(&self, id: &str) -> Result<Option<NovaGuest>, Error> {
        let nova = self.0.guests();
        let Some(guest) = nova.get(id).await? else { return Ok(None) };
        // Nova stops a server whose domain it finds ended, so that a server that crashed looks like one that a user stopped.
        let last = if guest.status == "SHUTOFF" { nova.last_power_action(id).await? } else { None };
        let stopped_by_user = last.is_some_and(|last| last.action == "stop" && last.user_id.is_some());
        Ok(Some(NovaGuest { guest, stopped_by_user }))
    }

    async fn make(&self, action: &Action) -> Result<(), Error> {
        let nova = self.0.evacuations();
        match action {
            Action::ForceDown(service) => nova.force_down(service, true).await,
            Action::LiftForceDown(service) => nova.force_down(service, false).await,
            Action::Disable(service, reason) => nova.disable(service, reason).await,
            Action::Enable(service) => nova.enable(service).await,
            Action::Evacuate(server) => nova.evacuate(server).await,
            Action::Start(server) => nova.start(server).await,
            Action::Restart(server) => self.0.guests().hard_reboot(server).await,
            Action::Fence(_) | Action::Record(_) | Action::Forget => Ok(()),
        }
    }
}

impl Compute for Nova {
    fn ask<'a>(&'a self, host: &'a Host, fenced: Timestamp) -> BoxFuture<'a, Result<NovaHost, String>> {
        Box::pin(async move { self.known(host, fenced).await.map_err(|error| error.to_string()) })
    }

    fn guest<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<NovaGuest>, String>> {
        Box::pin(async move { self.seen(id).await.map_err(|error| error.to_string()) })
    }

    fn call<'a>(&'a self, action: &'a Action) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move { self.make(action).await.map_err(|error| error.to_string()) })
    }
}

/// Whether an evacuation belongs to the failure for which the host was fenced then. One without a readable time does.
fn is_since(one: &Migration, fenced: Timestamp) -> bool {
    let time = one.created_at.as_deref().and_then(|text| text.trim_end_matches('Z').parse::<civil::DateTime>().ok());
    let created = time.and_then(|time| time.to_zoned(jiff::tz::TimeZone::UTC).ok()).map(|zoned| zoned.timestamp());
    let earliest = fenced.checked_sub(Span::new().minutes(SKEW_MINUTES)).unwrap_or(fenced);
    created.is_none_or(|created| created >= earliest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evacuations_of_an_earlier_failure_do_not_count() {
        let fenced: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        let one = |created: Option<&str>| Migration {
            instance_uuid: "a".into(),
            status: "failed".into(),
            source_compute: None,
            created_at: created.map(Into::into),
        };
        assert!(is_since(&one(Some("2026-01-31T12:00:07.000000")), fenced));
        assert!(is_since(&one(Some("2026-01-31T11:58:00Z")), fenced), "clocks differ");
        assert!(!is_since(&one(Some("2026-01-31T11:00:00.000000")), fenced));
        assert!(is_since(&one(None), fenced));
    }
}
