//! Guests that fail, as their Hypervisor tells it.

use c5c3_api::hypervisor::GuestFailureKind::{Crashed, NoSpace};
use c5c3_api::hypervisor::GuestState::{Paused, Running, Stopped};
use c5c3_api::hypervisor::{GuestFailure, GuestFailureKind, GuestState};

use super::*;

impl Stand {
    async fn failures(&self) -> Vec<GuestFailure> {
        self.hypervisor().await.status.unwrap_or_default().guest_failures
    }

    /// Waits until these failures of the one guest are told, and nothing else.
    async fn until_told(&self, expected: &[(GuestFailureKind, GuestState)]) -> Vec<GuestFailure> {
        eventually("the failures are told", async || {
            let told: Vec<_> = self.failures().await.iter().map(|one| (one.kind, one.state)).collect();
            told == expected
        })
        .await;
        self.failures().await
    }
}

#[tokio::test]
async fn a_guest_that_crashes_is_told_until_it_runs_again_and_written_once() -> Tested {
    let stand = Stand::set().await?;
    stand.until(ConditionStatus::True, "Connected").await;
    assert_eq!(*stand.libvirt.script.registered.lock().unwrap(), [0, 1, 3, 6, 20, 21]);
    // QEMU ended by itself.
    stand.lifecycle(-1, (5, 5));
    let told = stand.until_told(&[(Crashed, Stopped)]).await;
    assert_eq!(told[0].instance, PLUM.to_string());
    eventually("it does not run", async || !stand.hypervisor().await.status.unwrap().instances[0].active).await;

    // Told twice, and listed again: nothing is written.
    let (writes, lists) = (stand.metrics.writes(), stand.libvirt.script.lists.load(Ordering::SeqCst));
    stand.lifecycle(-1, (5, 5));
    eventually("domains are listed", async || stand.libvirt.script.lists.load(Ordering::SeqCst) > lists).await;
    stand.lifecycle(-1, (5, 5));
    eventually("and again", async || stand.libvirt.script.lists.load(Ordering::SeqCst) > lists + 1).await;
    assert_eq!(stand.metrics.writes(), writes);

    stand.lifecycle(2, (2, 0));
    let again = stand.until_told(&[(Crashed, Running)]).await;
    assert_eq!(again[0].time, told[0].time);
    Ok(())
}

#[tokio::test]
async fn a_disk_without_space_is_told_with_its_name_until_the_guest_goes_on() -> Tested {
    let stand = Stand::set().await?;
    stand.until(ConditionStatus::True, "Connected").await;
    let event =
        plum().write(Writer::default().i32(7)).string("/disks/plum").string("virtio-disk0").i32(1).string("enospc");
    stand.libvirt.event(Procedure::IoErrorEvent, event);
    stand.lifecycle(1, (3, 2));
    let told = stand.until_told(&[(NoSpace, Paused)]).await;
    assert_eq!(told[0].message.as_deref(), Some("virtio-disk0 (/disks/plum): enospc; QEMU paused it"));
    stand.lifecycle(1, (4, 0));
    stand.until_told(&[(NoSpace, Running)]).await;
    Ok(())
}

#[tokio::test]
async fn a_crash_while_the_agent_was_away_is_told_once() -> Tested {
    let mut stand = Stand::set().await?;
    stand.until(ConditionStatus::True, "Connected").await;
    eventually("it runs", async || {
        stand.hypervisor().await.status.unwrap().instances.first().is_some_and(|instance| instance.active)
    })
    .await;
    stand.kill().await;
    stand.libvirt.script.domains.lock().unwrap()[0].id = -1;
    stand.libvirt.script.states.lock().unwrap().insert(PLUM, (5, 3));
    stand.start();
    let told = stand.until_told(&[(Crashed, Stopped)]).await;
    assert!(told[0].message.as_ref().unwrap().ends_with("while the agent was away"), "{told:?}");

    // Another agent takes over what was told: it is the same crash.
    stand.kill().await;
    stand.start();
    eventually("it has published", async || stand.metrics.writes() > 0).await;
    stand.until(ConditionStatus::True, "Connected").await;
    assert_eq!(stand.failures().await, told);
    // One that was started meanwhile runs.
    stand.kill().await;
    stand.libvirt.script.domains.lock().unwrap()[0].id = 2;
    stand.libvirt.script.states.lock().unwrap().clear();
    stand.start();
    let again = stand.until_told(&[(Crashed, Running)]).await;
    assert_eq!(again[0].time, told[0].time);
    Ok(())
}

#[tokio::test]
async fn a_guest_that_crashes_while_libvirt_is_away_is_found_when_it_is_back() -> Tested {
    let stand = Stand::set().await?;
    stand.until(ConditionStatus::True, "Connected").await;
    stand.libvirt.task.abort();
    stand.until(ConditionStatus::False, "Disconnected").await;
    stand.libvirt.script.domains.lock().unwrap()[0].id = -1;
    stand.libvirt.script.states.lock().unwrap().insert(PLUM, (5, 6));
    let _again = Libvirt::start(&stand.folder.path().join("sock"), stand.libvirt.script.clone());
    stand.until_told(&[(Crashed, Stopped)]).await;
    Ok(())
}
