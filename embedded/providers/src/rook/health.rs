//! How a Ceph cluster stands, in Rook's words. Pure.

use c5c3_api::ext::rook::{CephCapacity, CephClusterHealth, CephClusterStatus, CephHealthMessage};
use c5c3_kit::condition::{ConditionState, find};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use std::collections::BTreeMap;

/// How old `lastChecked` may be before it is written although nothing else changed: as often as Rook looks.
const CHECKED: SignedDuration = SignedDuration::from_secs(60);

/// What `ceph status` says, as far as it is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    pub(super) fsid: String,
    health: Health,
    pub(super) quorum_names: Vec<String>,
    pub(super) osdmap: OsdMap,
    pgmap: PgMap,
    mgrmap: MgrMap,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Health {
    status: String,
    checks: BTreeMap<String, Check>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Check {
    severity: String,
    summary: Summary,
    muted: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Summary {
    message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OsdMap {
    pub(super) num_osds: usize,
    pub(super) num_up_osds: usize,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PgMap {
    #[serde(rename = "bytes_total")]
    total: i64,
    #[serde(rename = "bytes_used")]
    used: i64,
    #[serde(rename = "bytes_avail")]
    available: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct MgrMap {
    available: bool,
}

/// Checks about modules of the manager. None of the modules can run here, and nothing of ours uses one.
const MODULES: [&str; 2] = ["MGR_MODULE_DEPENDENCY", "MGR_MODULE_ERROR"];

impl Status {
    /// Checks that are always true here and say nothing: they are muted, so that the health tells of what matters.
    pub(super) fn to_mute(&self) -> Vec<&'static str> {
        let is_loud = |name: &&str| self.health.checks.get(*name).is_some_and(|check| !check.muted);
        MODULES.into_iter().filter(is_loud).collect()
    }
}

/// What a cluster still lacks that was never complete.
pub(super) fn lacks(status: &Status, mons: &[String], osds: usize) -> Option<String> {
    let missing: Vec<&str> = mons.iter().filter(|mon| !status.quorum_names.contains(mon)).map(String::as_str).collect();
    if !missing.is_empty() {
        return Some(format!("Configuring Ceph Mons: {} not in quorum yet", missing.join(", ")));
    }
    if !status.mgrmap.available {
        return Some("Configuring Ceph Mgr(s)".into());
    }
    let up = status.osdmap.num_up_osds;
    (up < osds).then(|| format!("Configuring Ceph OSDs: {up} of {osds} up"))
}

/// What Ceph says of itself; or, if it does not answer, that.
pub(super) fn health(
    before: Option<&CephClusterHealth>,
    said: Result<&Status, &str>,
    now: Timestamp,
) -> CephClusterHealth {
    let old = before.cloned().unwrap_or_default();
    let (health, details) = match said {
        Ok(status) => (status.health.status.clone(), details(status)),
        Err(why) => {
            let message = CephHealthMessage { message: why.to_owned(), severity: "Urgent".into() };
            ("HEALTH_ERR".to_owned(), [("error".to_owned(), message)].into())
        }
    };
    let changed = old.health.as_ref() != Some(&health);
    let is_old = |time: &String| {
        let time: Option<Timestamp> = time.parse().ok();
        time.is_none_or(|time| now.duration_since(time) >= CHECKED)
    };
    let capacity = |pgs: &PgMap| {
        let figures = CephCapacity {
            bytes_total: Some(pgs.total),
            bytes_used: Some(pgs.used),
            bytes_available: Some(pgs.available),
            last_updated: old.capacity.as_ref().and_then(|capacity| capacity.last_updated.clone()),
        };
        // Bytes change all the time: they are written with another change, or once a minute.
        let stale = figures.last_updated.as_ref().is_none_or(is_old);
        let known = old.capacity.clone().filter(|_| !stale && !changed);
        known.unwrap_or(CephCapacity { last_updated: Some(text(now)), ..figures })
    };
    CephClusterHealth {
        previous_health: if changed { old.health.clone() } else { old.previous_health.clone() },
        last_changed: if changed { Some(text(now)) } else { old.last_changed.clone() },
        last_checked: match &old.last_checked {
            Some(time) if !is_old(time) && !changed && old.details == details => Some(time.clone()),
            _ => Some(text(now)),
        },
        fsid: said.ok().map(|status| status.fsid.clone()).or(old.fsid.clone()),
        capacity: said.ok().map(|status| capacity(&status.pgmap)).or(old.capacity.clone()),
        health: Some(health),
        details,
    }
}

fn details(status: &Status) -> BTreeMap<String, CephHealthMessage> {
    let checks = status.health.checks.iter().filter(|(_, check)| !check.muted);
    let message =
        |check: &Check| CephHealthMessage { message: check.summary.message.clone(), severity: check.severity.clone() };
    checks.map(|(name, check)| (name.clone(), message(check))).collect()
}

/// A time as Rook writes it: to the second.
fn text(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// Where a cluster is on its way, in Rook's words: the phase, the state, and the reason of its condition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Phase {
    Progressing,
    Ready,
    Failure,
    Deleting,
}

/// The status with a phase.
pub(super) fn in_phase(
    before: Option<&CephClusterStatus>,
    phase: Phase,
    message: &str,
    generation: Option<i64>,
    now: Timestamp,
) -> CephClusterStatus {
    let old = before.cloned().unwrap_or_default();
    let ready = |reason: &str| ConditionState::unmet("Ready", reason, message);
    let progressing = |reason: &str| ConditionState::met("Progressing", reason, message);
    let done = ConditionState::unmet("Progressing", "ClusterCreated", "Cluster created successfully");
    let (name, state, conditions) = match phase {
        Phase::Progressing => {
            ("Progressing", "Creating", [progressing("ClusterProgressing"), ready("ClusterProgressing")])
        }
        Phase::Ready => ("Ready", "Created", [done, ConditionState::met("Ready", "ClusterCreated", message)]),
        Phase::Failure => ("Failure", "Error", [done, ready("ClusterFailed")]),
        Phase::Deleting => ("Deleting", "Deleting", [done, ready("ClusterDeleting")]),
    };
    CephClusterStatus {
        phase: Some(name.into()),
        state: Some(state.into()),
        message: Some(message.to_owned()),
        observed_generation: generation,
        conditions: conditions.map(|said| said.to_condition(find(&old.conditions, &said.condition), None, now)).into(),
        ..old
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(health: &str, up: usize) -> Status {
        serde_json::from_value(json!({
            "fsid": "0b5c", "health": {"status": health, "checks": {
                "OSD_DOWN": {"severity": "HEALTH_WARN", "summary": {"message": "1 osds down", "count": 1}, "muted": false},
                "OLD": {"severity": "HEALTH_WARN", "summary": {"message": "muted"}, "muted": true}}},
            "quorum_names": ["a", "b"], "osdmap": {"num_osds": 3, "num_up_osds": up},
            "pgmap": {"bytes_total": 10, "bytes_used": 1, "bytes_avail": 9}, "mgrmap": {"available": true}, "new": 1,
        }))
        .unwrap()
    }

    #[test]
    fn a_cluster_is_complete_with_all_monitors_a_manager_and_all_disks() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let said = status("HEALTH_OK", 2);
        assert_eq!(lacks(&said, &names(&["a", "b"]), 2), None);
        assert_eq!(lacks(&said, &names(&["a", "b"]), 3).unwrap(), "Configuring Ceph OSDs: 2 of 3 up");
        assert_eq!(lacks(&said, &names(&["a", "b", "c"]), 2).unwrap(), "Configuring Ceph Mons: c not in quorum yet");
    }

    #[test]
    fn checks_of_modules_are_muted_once() {
        let said = |muted: bool| -> Vec<&str> {
            let check = json!({"severity": "HEALTH_ERR", "summary": {"message": "10 have failed"}, "muted": muted});
            let checks = json!({"MGR_MODULE_ERROR": check, "OSD_DOWN": {"severity": "HEALTH_WARN", "muted": false}});
            let status: Status = serde_json::from_value(json!({"health": {"checks": checks}})).unwrap();
            status.to_mute()
        };
        assert_eq!(said(false), ["MGR_MODULE_ERROR"]);
        assert!(said(true).is_empty());
    }

    #[test]
    fn a_health_is_told_with_its_reasons_and_when_it_changed() {
        let begun = Timestamp::UNIX_EPOCH;
        let well = health(None, Ok(&status("HEALTH_OK", 3)), begun);
        let soon = health(Some(&well), Ok(&status("HEALTH_OK", 3)), begun + SignedDuration::from_secs(5));
        assert_eq!(soon, well, "nothing changed, so nothing is written");
        let later = begun + SignedDuration::from_secs(7);
        let bad = health(Some(&well), Ok(&status("HEALTH_WARN", 2)), later);
        assert_eq!((bad.health.as_deref(), bad.previous_health.as_deref()), (Some("HEALTH_WARN"), Some("HEALTH_OK")));
        assert_eq!(bad.last_changed.as_deref(), Some("1970-01-01T00:00:07Z"));
        assert_eq!(bad.details.keys().collect::<Vec<_>>(), ["OSD_DOWN"]);
        let silent = health(Some(&bad), Err("no answer"), later);
        assert_eq!((silent.health.as_deref(), silent.fsid.as_deref()), (Some("HEALTH_ERR"), Some("0b5c")));
        assert_eq!(silent.details["error"].message, "no answer");
    }
}
