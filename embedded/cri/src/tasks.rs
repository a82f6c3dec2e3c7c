//! Processes of containers that the CRI takes for ended, or for never started.
//!
//! containerd 1.6 makes the task of a container, then asks for its process. If the client of `StartContainer` has gone in
//! between, the start has failed (`StartError`) and the task stays: the CRI has nothing to stop then, and refuses to remove
//! a container that has a task. containerd's own calls end it.

use crate::runtime::{Answer, Call, CallError, Runtime, gone_is_done};

const SIGKILL: u32 = 9;

#[derive(Clone, PartialEq, prost::Message)]
struct KillRequest {
    #[prost(string, tag = "1")]
    container_id: String,
    #[prost(uint32, tag = "3")]
    signal: u32,
    /// Every process of the container.
    #[prost(bool, tag = "4")]
    all: bool,
}

/// The question of `Wait` and of `Delete`.
#[derive(Clone, PartialEq, prost::Message)]
struct TaskRequest {
    #[prost(string, tag = "1")]
    container_id: String,
}

/// An answer of which nothing is read.
#[derive(Clone, PartialEq, prost::Message)]
struct Done {}

/// Whether a container was not removed because it has a task.
pub(crate) fn is_in_the_way(error: &CallError) -> bool {
    error.reason.contains("cannot delete running task")
}

impl Runtime {
    /// Kills what runs of a container, and deletes its task.
    pub(crate) async fn end_task(&self, id: &str) -> Answer<()> {
        let kill = KillRequest { container_id: id.to_owned(), signal: SIGKILL, all: true };
        self.of_task("Kill", id, kill).await?;
        self.of_task("Wait", id, TaskRequest { container_id: id.to_owned() }).await?;
        self.of_task("Delete", id, TaskRequest { container_id: id.to_owned() }).await
    }

    async fn of_task(&self, name: &'static str, id: &str, question: impl prost::Message + 'static) -> Answer<()> {
        gone_is_done(self.send(&Call::task(name, id), question).await.map(|_: Done| ()))
    }
}
