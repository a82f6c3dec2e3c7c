//! What the evacuation of a dead host needs of Nova: its compute service, its servers, and the records of their evacuations.
//!
//! Evacuation is for a host that does not run: Nova starts the servers elsewhere from their disks. From microversion 2.95 on they
//! land stopped, so that the caller decides when they start.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::Client;
use crate::error::Error;
use crate::request::Request;

/// The service in the catalog.
const COMPUTE: &str = "compute";

/// The first microversion with which evacuated servers land stopped. Nova 2023.1 and later have it.
pub const MICROVERSION: &str = "2.95";

/// The compute service of a host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ComputeService {
    /// Its id.
    pub id: String,
    /// The host.
    pub host: String,
    /// `enabled` or `disabled`.
    pub status: String,
    /// Whether it was declared down, whatever it says itself.
    #[serde(default)]
    pub forced_down: bool,
    /// Why it is disabled.
    #[serde(default)]
    pub disabled_reason: Option<String>,
}

/// A server, as far as an evacuation is concerned.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Server {
    /// Its id.
    pub id: String,
    /// `ACTIVE`, `SHUTOFF`, `ERROR` ...
    pub status: String,
    /// What Nova does with it just now.
    #[serde(default, rename = "OS-EXT-STS:task_state")]
    pub task_state: Option<String>,
    /// The host that it is on.
    #[serde(default, rename = "OS-EXT-SRV-ATTR:host")]
    pub host: Option<String>,
}

/// The record of one evacuation of a server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Migration {
    /// The server.
    pub instance_uuid: String,
    /// `accepted`, `pre-migrating`, `done`, `failed`, `error` ...
    pub status: String,
    /// The host that it was on.
    #[serde(default)]
    pub source_compute: Option<String>,
    /// When it was asked for, in UTC without a zone: `2026-01-31T12:00:00.000000`.
    #[serde(default)]
    pub created_at: Option<String>,
}

/// Nova's calls for evacuations.
#[derive(Clone, Debug)]
pub struct Evacuations<'a>(&'a Client);

impl Client {
    /// Nova's calls for evacuations.
    pub fn evacuations(&self) -> Evacuations<'_> {
        Evacuations(self)
    }
}

impl Evacuations<'_> {
    /// The compute service of a host, if Nova knows one.
    pub async fn service(&self, host: &str) -> Result<Option<ComputeService>, Error> {
        let request = get(["os-services"]).query("binary", "nova-compute").query("host", host);
        let found: Vec<ComputeService> = self.0.list(&request, "services").await?;
        Ok(found.into_iter().find(|service| service.host == host))
    }

    /// The servers on a host, of all projects.
    pub async fn servers_on(&self, host: &str) -> Result<Vec<Server>, Error> {
        let request = get(["servers", "detail"]).query("all_tenants", "1").query("host", host);
        let found: Vec<Server> = self.0.list(&request, "servers").await?;
        Ok(found.into_iter().filter(|server| server.host.as_deref() == Some(host)).collect())
    }

    /// A server, unless it was deleted.
    pub async fn server(&self, id: &str) -> Result<Option<Server>, Error> {
        match self.0.fetch(&get(["servers", id]), "server").await {
            Ok(server) => Ok(Some(server)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The evacuations from a host.
    pub async fn evacuations_from(&self, host: &str) -> Result<Vec<Migration>, Error> {
        let request = get(["os-migrations"]).query("migration_type", "evacuation").query("source_compute", host);
        let found: Vec<Migration> = self.0.list(&request, "migrations").await?;
        Ok(found.into_iter().filter(|one| one.source_compute.as_deref() == Some(host)).collect())
    }

    /// Declares a compute service down, or takes that back.
    pub async fn force_down(&self, service: &str, down: bool) -> Result<(), Error> {
        self.change(service, json!({"forced_down": down})).await
    }

    /// Disables a compute service, or changes the reason for which it is disabled.
    pub async fn disable(&self, service: &str, reason: &str) -> Result<(), Error> {
        self.change(service, json!({"status": "disabled", "disabled_reason": reason})).await
    }

    /// Enables a compute service.
    pub async fn enable(&self, service: &str) -> Result<(), Error> {
        self.change(service, json!({"status": "enabled"})).await
    }

    /// Has Nova's scheduler choose another host for a server and starts it there from its disk, stopped.
    pub async fn evacuate(&self, server: &str) -> Result<(), Error> {
        self.act(server, json!({"evacuate": {}})).await
    }

    /// Starts a server.
    pub async fn start(&self, server: &str) -> Result<(), Error> {
        self.act(server, json!({"os-start": null})).await
    }

    async fn change(&self, service: &str, body: Value) -> Result<(), Error> {
        let request = Request::put(COMPUTE, ["os-services", service]).microversion(MICROVERSION).json(body);
        self.0.send(&request).await.map(drop)
    }

    async fn act(&self, server: &str, body: Value) -> Result<(), Error> {
        let request = Request::post(COMPUTE, ["servers", server, "action"]).microversion(MICROVERSION).json(body);
        self.0.send(&request).await.map(drop)
    }
}

fn get<const N: usize>(path: [&str; N]) -> Request {
    Request::get(COMPUTE, path).microversion(MICROVERSION)
}
