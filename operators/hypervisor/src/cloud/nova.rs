//! What Nova and Placement say, as far as it is used here.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::Deserialize;

/// Nova's API as of this version names hosts, UUIDs and flavors as they are read here.
pub(crate) const COMPUTE: &str = "2.90";
/// Placement's API as of this version has generations in all answers.
pub(crate) const PLACEMENT: &str = "1.39";

/// A compute service.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Service {
    pub(crate) id: String,
    pub(crate) host: String,
    /// `enabled` or `disabled`.
    pub(crate) status: String,
    /// `up` or `down`.
    #[serde(default)]
    pub(crate) state: String,
    #[serde(default)]
    pub(crate) forced_down: bool,
    #[serde(default)]
    pub(crate) disabled_reason: Option<String>,
}

impl Service {
    pub(crate) fn is_enabled(&self) -> bool {
        self.status == "enabled"
    }

    pub(crate) fn is_up(&self) -> bool {
        self.state == "up" && !self.forced_down
    }
}

/// A hypervisor, which is a resource provider of the same id in Placement.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Compute {
    pub(crate) id: String,
    pub(crate) service: ServiceOf,
}

/// The service of a hypervisor.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct ServiceOf {
    pub(crate) host: String,
}

/// An aggregate of hosts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Aggregate {
    pub(crate) id: i64,
    #[serde(default)]
    pub(crate) uuid: Option<String>,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) hosts: HashSet<String>,
    #[serde(default)]
    pub(crate) metadata: BTreeMap<String, String>,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Server {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) status: String,
    #[serde(rename = "OS-EXT-STS:task_state", default)]
    pub(crate) task_state: Option<String>,
    /// The host that it is on. It is compared as it is: a host name may have dots.
    #[serde(rename = "OS-EXT-SRV-ATTR:host", default)]
    pub(crate) host: Option<String>,
    #[serde(default)]
    pub(crate) flavor: Flavor,
    #[serde(default)]
    pub(crate) fault: Option<Fault>,
    #[serde(default)]
    pub(crate) created: Option<Timestamp>,
}

/// The size of a server.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct Flavor {
    /// Memory in MiB.
    #[serde(default)]
    pub(crate) ram: i64,
}

/// Why a server failed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Fault {
    #[serde(default)]
    pub(crate) message: String,
}

/// A migration that Nova accepted.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Migration {
    pub(crate) id: i64,
    /// The consumer in Placement that holds the resources on the source.
    #[serde(default)]
    pub(crate) uuid: Option<String>,
    pub(crate) instance_uuid: String,
    #[serde(default)]
    pub(crate) source_compute: Option<String>,
    #[serde(default)]
    pub(crate) dest_compute: Option<String>,
    pub(crate) status: String,
    /// `live-migration`, `migration`, `resize` or `evacuation`.
    #[serde(rename = "migration_type", default)]
    pub(crate) kind: Option<String>,
    created_at: String,
    #[serde(default)]
    updated_at: Option<String>,
}

impl Migration {
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.status.as_str(), "error" | "failed" | "cancelled" | "reverted")
    }

    /// Whether it has moved the instance and waits for nobody.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.status.as_str(), "completed" | "confirmed" | "done")
    }

    /// Whether the instance is at its destination, and the move has to be confirmed.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.status == "finished" && self.kind.as_deref() == Some("migration")
    }

    pub(crate) fn is_active(&self) -> bool {
        !self.has_failed() && !self.is_done() && self.status != "finished"
    }

    pub(crate) fn is_live(&self) -> bool {
        self.kind.as_deref() == Some("live-migration")
    }

    pub(crate) fn created(&self) -> Timestamp {
        time(&self.created_at)
    }

    pub(crate) fn updated(&self) -> Timestamp {
        self.updated_at.as_deref().map_or_else(|| self.created(), time)
    }
}

/// A time of Nova, which is UTC and in older APIs does not say so.
fn time(text: &str) -> Timestamp {
    let zoned = || text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok();
    text.parse().ok().or_else(|| Some(zoned()?.timestamp())).unwrap_or_default()
}

/// The traits of a resource provider.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Traits {
    #[serde(rename = "resource_provider_generation")]
    pub(crate) generation: i64,
    pub(crate) traits: Vec<String>,
}

/// An image, a flavor or a network that was found by its name.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Named {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) name: Option<String>,
}

/// An action on a server, and what became of it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct InstanceAction {
    #[serde(default)]
    pub(crate) request_id: Option<String>,
    #[serde(default)]
    pub(crate) action: String,
    #[serde(default)]
    pub(crate) message: Option<String>,
    #[serde(default)]
    pub(crate) events: Vec<ActionEvent>,
}

/// A step of an action.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ActionEvent {
    #[serde(default)]
    pub(crate) result: Option<String>,
    #[serde(default)]
    pub(crate) details: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_without_a_zone_are_utc() {
        assert_eq!(time("2026-01-01T10:00:00.000000").to_string(), "2026-01-01T10:00:00Z");
        assert_eq!(time("2026-01-01T10:00:00Z").to_string(), "2026-01-01T10:00:00Z");
    }
}
