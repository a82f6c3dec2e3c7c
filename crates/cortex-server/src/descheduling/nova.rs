//! Nova, as far as live migrations need it: servers, records of migrations, and the call itself.

use std::collections::BTreeSet;

use c5c3_cortex::{Domain, Group, Request as Question, wire};
use c5c3_openstack::{Access, Client, Clients, Error, Request};
use jiff::{Timestamp, civil};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde::Deserialize;
use serde_json::{Value, json};

/// The service in the catalog.
const COMPUTE: &str = "compute";

/// Servers have their flavor in them, and a target is verified by Nova's own scheduler.
const MICROVERSION: &str = "2.95";

/// The entry of the clouds.yaml, as a ControlPlane writes it.
const CLOUD: &str = "openstack";

/// A server.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Server {
    pub id: String,
    #[serde(default)]
    pub name: String,
    /// `ACTIVE`, `SHUTOFF`, `ERROR` ...
    pub status: String,
    /// What Nova does with it just now.
    #[serde(default, rename = "OS-EXT-STS:task_state")]
    pub task: Option<String>,
    #[serde(default, rename = "OS-EXT-SRV-ATTR:host")]
    pub host: Option<String>,
    #[serde(default)]
    tenant_id: String,
    #[serde(default)]
    flavor: Value,
    /// Empty for a server that boots from a volume.
    #[serde(default)]
    image: Value,
    /// Ids of its groups; lists do not have them.
    #[serde(default, rename = "server_groups")]
    groups: Vec<String>,
}

impl Server {
    /// Whether it runs, and can so be moved live.
    pub(crate) fn runs(&self) -> bool {
        ["ACTIVE", "PAUSED"].contains(&self.status.as_str())
    }

    /// The question where it goes, as Nova would ask it.
    pub(crate) fn question(&self, group: Option<&Value>) -> Result<Question, String> {
        let flavor = &self.flavor;
        let spec = json!({"nova_object.data": {
            "instance_uuid": self.id, "project_id": self.tenant_id, "is_bfv": self.image == "", "instance_group": group,
            "flavor": {
                "name": flavor["original_name"], "vcpus": flavor["vcpus"], "memory_mb": flavor["ram"],
                "root_gb": flavor["disk"], "ephemeral_gb": flavor["ephemeral"], "swap": flavor["swap"],
                "extra_specs": flavor["extra_specs"],
            },
        }});
        let body = json!({"spec": spec, "hosts": [], "weights": {}}).to_string();
        wire::read(Domain::Nova, body.as_bytes())
            .map_err(|error| format!("the server {} is not understood: {error}", self.id))
    }
}

/// The record of a migration.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Migration {
    #[serde(default)]
    pub id: i64,
    #[serde(rename = "instance_uuid")]
    pub server: String,
    /// `accepted`, `running`, `completed`, `error` ...
    pub status: String,
    #[serde(default, rename = "source_compute")]
    pub source: Option<String>,
    #[serde(default)]
    created_at: Option<String>,
    #[serde(default)]
    updated_at: Option<String>,
}

impl Migration {
    /// Whether the server has left its host.
    pub(crate) fn moved(&self) -> bool {
        ["completed", "done", "finished", "confirmed"].contains(&self.status.as_str())
    }

    /// Whether it ended, and the server is where it was.
    pub(crate) fn failed(&self) -> bool {
        ["error", "failed", "cancelled", "reverted"].contains(&self.status.as_str())
    }

    pub(crate) fn created(&self) -> Option<Timestamp> {
        time(self.created_at.as_deref())
    }

    /// When it was last heard of.
    pub(crate) fn updated(&self) -> Option<Timestamp> {
        time(self.updated_at.as_deref()).or_else(|| self.created())
    }
}

/// Nova's times are in UTC, without saying so.
fn time(text: Option<&str>) -> Option<Timestamp> {
    let time: civil::DateTime = text?.trim_end_matches('Z').parse().ok()?;
    time.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

/// Nova with a credential.
pub(crate) struct Nova(Client);

impl Nova {
    /// With the credential of a Secret; or what is wrong with that.
    pub(crate) async fn read(clients: &Clients, secrets: &Api<Secret>, secret: &str) -> Result<Self, String> {
        let found =
            secrets.get_opt(secret).await.map_err(|error| format!("secret/{secret} cannot be read: {error}"))?;
        let data = found.and_then(|secret| secret.data).ok_or_else(|| format!("secret/{secret} does not exist"))?;
        let text = |key: &str| data.get(key).and_then(|value| String::from_utf8(value.0.clone()).ok());
        let clouds = text("clouds.yaml").ok_or_else(|| format!("secret/{secret} has no key clouds.yaml"))?;
        let access = Access::parse(&clouds, CLOUD, text("cacert").as_deref());
        access.and_then(|access| clients.client(&access)).map(Self).map_err(|error| format!("secret/{secret}: {error}"))
    }

    /// A server with its groups, unless it was deleted.
    pub(crate) async fn server(&self, id: &str) -> Result<Option<Server>, Error> {
        match self.0.fetch(&get(["servers", id]), "server").await {
            Ok(server) => Ok(Some(server)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The servers on a host, of all projects.
    pub(crate) async fn servers_on(&self, host: &str) -> Result<Vec<Server>, Error> {
        let request = get(["servers", "detail"]).query("all_tenants", "1").query("host", host);
        let found: Vec<Server> = self.0.list(&request, "servers").await?;
        Ok(found.into_iter().filter(|server| server.host.as_deref() == Some(host)).collect())
    }

    /// All migrations that changed since then.
    pub(crate) async fn migrations(&self, since: Timestamp) -> Result<Vec<Migration>, Error> {
        let since = since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        self.0.list(&get(["os-migrations"]).query("changes-since", since), "migrations").await
    }

    /// The question where a server goes, with its group.
    pub(crate) async fn question(&self, server: &Server) -> Result<Question, String> {
        let mut group = None;
        if let Some(id) = server.groups.first() {
            let found: Result<Value, Error> =
                self.0.fetch(&get(["os-server-groups", id.as_str()]), "server_group").await;
            group = match found {
                Ok(found) => Some(found),
                Err(error) if error.is_not_found() => None,
                Err(error) => return Err(said(&error)),
            };
        }
        let mut question = server.question(group.as_ref())?;
        // Which hosts its members are on is known better here than in the group's own list.
        question.group = question.group.map(|group| Group { hosts: BTreeSet::new(), ..group });
        Ok(question)
    }

    /// Has Nova move a server, if its own filters let it go there.
    pub(crate) async fn migrate(&self, server: &str, target: &str) -> Result<(), Error> {
        let body = json!({"os-migrateLive": {"host": target, "block_migration": "auto"}});
        let request = Request::post(COMPUTE, ["servers", server, "action"]).microversion(MICROVERSION).json(body);
        self.0.send(&request).await.map(drop)
    }
}

fn get<const N: usize>(path: [&str; N]) -> Request {
    Request::get(COMPUTE, path).microversion(MICROVERSION)
}

/// What Nova answers, without the request id: that is new each time, and a status that has it would be written in each round.
pub(crate) fn said(error: &Error) -> String {
    format!("{}: {}", error.reason(), error.failure().message)
}
