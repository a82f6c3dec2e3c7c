//! What a restart of a guest in place needs of Nova: how Nova sees it, who used its power switch last, and a hard reboot.

use serde::Deserialize;
use serde_json::json;

use super::evacuation::MICROVERSION;
use crate::client::Client;
use crate::error::Error;
use crate::request::Request;

/// The service in the catalog.
const COMPUTE: &str = "compute";

/// Nova's number of a domain that runs.
pub const RUNNING: i64 = 1;

/// What switches a server on or off, by Nova's names of actions.
const POWER: &[&str] = &[
    "create", "evacuate", "reboot", "rebuild", "restore", "resume", "start", "stop", "unpause", "unrescue", "unshelve",
];

/// A server, as far as its power is concerned.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Guest {
    /// Its id.
    pub id: String,
    /// `ACTIVE`, `SHUTOFF`, `ERROR` ...
    pub status: String,
    /// What Nova does with it just now.
    #[serde(default, rename = "OS-EXT-STS:task_state")]
    pub task_state: Option<String>,
    /// The state of its domain, as Nova's compute service saw it last: [`RUNNING`], 3 paused, 4 shut down ...
    #[serde(default, rename = "OS-EXT-STS:power_state")]
    pub power_state: Option<i64>,
    /// The host that it is on.
    #[serde(default, rename = "OS-EXT-SRV-ATTR:host")]
    pub host: Option<String>,
}

/// One entry of the log of a server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ServerAction {
    /// `stop`, `reboot`, `attach_volume` ...
    pub action: String,
    /// Who asked for it. Nova itself is no user: it stops a server whose domain it finds ended.
    #[serde(default)]
    pub user_id: Option<String>,
}

/// Nova's calls for guests.
#[derive(Clone, Debug)]
pub struct Guests<'a>(&'a Client);

impl Client {
    /// Nova's calls for guests.
    pub fn guests(&self) -> Guests<'_> {
        Guests(self)
    }
}

impl Guests<'_> {
    /// A server, unless it was deleted.
    pub async fn get(&self, id: &str) -> Result<Option<Guest>, Error> {
        match self.0.fetch(&get(&["servers", id]), "server").await {
            Ok(guest) => Ok(Some(guest)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The last action that switched a server on or off. Others, such as a volume that is attached, are left out.
    pub async fn last_power_action(&self, id: &str) -> Result<Option<ServerAction>, Error> {
        // Newest first.
        let request = get(&["servers", id, "os-instance-actions"]);
        let all: Vec<ServerAction> = self.0.fetch(&request, "instanceActions").await?;
        Ok(all.into_iter().find(|one| POWER.contains(&one.action.as_str())))
    }

    /// Ends the domain of a server, if it has one, and starts it again. Works for servers that run, stopped or are in error.
    pub async fn hard_reboot(&self, id: &str) -> Result<(), Error> {
        let body = json!({"reboot": {"type": "HARD"}});
        let request = Request::post(COMPUTE, ["servers", id, "action"]).microversion(MICROVERSION).json(body);
        self.0.send(&request).await.map(drop)
    }
}

fn get(path: &[&str]) -> Request {
    Request::get(COMPUTE, path).microversion(MICROVERSION)
}
