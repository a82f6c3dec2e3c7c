//! What Nova was doing with a server when its host died: whether the server ran, whether its evacuation is under way, and whether it
//! can be evacuated. A task of a dead host does not end, and Nova evacuates whatever the task is (since 2023.1).

use c5c3_openstack::compute::evacuation::{Migration, Server};

/// The statuses that Nova evacuates, and those that the same servers have during a task that concerns this host alone.
const EVACUATED: &[&str] = &["ACTIVE", "SHUTOFF", "ERROR", "REBOOT", "HARD_REBOOT", "PASSWORD"];

/// The statuses of servers that run. During a live migration a server runs on one of two hosts.
const RUNNING: &[&str] = &["ACTIVE", "REBOOT", "HARD_REBOOT", "PASSWORD", "MIGRATING"];

/// Whether the server ran, and was meant to go on.
pub(crate) fn ran(server: &Server) -> bool {
    RUNNING.contains(&server.status.as_str()) && server.task_state.as_deref() != Some("powering-off")
}

/// Whether a user deleted it. Nova does so when the host is back.
pub(crate) fn is_deleted(server: &Server) -> bool {
    matches!(server.task_state.as_deref(), Some("deleting" | "soft-deleting"))
}

/// An evacuation is a rebuild to Nova.
fn is_rebuilt(server: &Server) -> bool {
    server.task_state.as_deref().is_some_and(|task| task.starts_with("rebuild"))
}

/// Why a server is not evacuated, which a person has to decide about; none if it is.
pub(crate) fn keeps(server: &Server, failures: usize) -> Option<String> {
    let (id, status) = (&server.id, server.status.as_str());
    let then = format!("then `openstack server set --state error {id}`, and it is evacuated");
    match status {
        // One whose evacuation failed may be left with that task.
        _ if is_rebuilt(server) && failures > 0 => None,
        _ if is_rebuilt(server) => Some(format!("a user was rebuilding it; see whether its disk is good, {then}")),
        "MIGRATING" | "RESIZE" => {
            Some(format!("it was being moved ({status}) and may run on the other host; see that it does not, {then}"))
        }
        _ if EVACUATED.contains(&status) => None,
        _ => Some(format!("it is {status}, which Nova does not evacuate")),
    }
}

/// The evacuations of one server.
pub(crate) struct Tried {
    pub(crate) failures: usize,
    runs: bool,
    is_done: bool,
}

impl Tried {
    pub(crate) fn of(server: &Server, evacuations: &[Migration]) -> Self {
        let mut tried = Self { failures: 0, runs: false, is_done: false };
        for one in evacuations.iter().filter(|one| one.instance_uuid == server.id) {
            match one.status.as_str() {
                "failed" | "error" | "cancelled" => tried.failures += 1,
                "done" => tried.is_done = true,
                // The host came back after it and has removed its copy. The server may have been moved here again.
                "completed" => {}
                _ => tried.runs = true,
            }
        }
        tried
    }

    /// Whether one is under way. Servers are read before evacuations: one that ended in between is seen as a rebuild that is done.
    /// When the host is back, nova-compute ends all other rebuilds as it starts.
    pub(crate) fn is_under_way(&self, server: &Server, is_back: bool) -> bool {
        self.runs || (is_rebuilt(server) && (self.is_done || is_back))
    }
}
