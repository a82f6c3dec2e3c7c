//! Agents that are killed in the middle of a migration.

use c5c3_api::hypervisor::MigrationStatus;

use super::*;

/// A migration away from the host, as far as its first progress, and the object then.
async fn under_way() -> Result<(Stand, Migration), Box<dyn std::error::Error>> {
    let stand = Stand::set().await?;
    stand.until(ConditionStatus::True, "Connected").await;
    *stand.libvirt.script.job.lock().unwrap() = 2;
    stand.libvirt.event(Procedure::MigrationIterationEvent, plum().write(Writer::default().i32(7)).i32(1));
    eventually("it is followed", async || {
        let status = stand.migration().await.and_then(|found| found.status);
        status.is_some_and(|status| status.mem_total.is_some())
    })
    .await;
    let found = stand.migration().await.unwrap();
    Ok((stand, found))
}

impl Stand {
    /// Waits until the migration has ended like that.
    async fn until_over(&self, end: MigrationType) -> Migration {
        eventually("it has ended", async || {
            self.migration().await.and_then(|found| found.status).is_some_and(|status| status.r#type == Some(end))
        })
        .await;
        self.migration().await.unwrap()
    }
}

/// It is the same object, about the same migration.
fn assert_same(before: &Migration, after: &Migration) -> MigrationStatus {
    assert_eq!(after.metadata.uid, before.metadata.uid, "it was not created again");
    let (before, after) = (before.status.clone().unwrap(), after.status.clone().unwrap());
    assert_eq!((&after.started, &after.origin), (&before.started, &before.origin));
    after
}

#[tokio::test]
async fn an_agent_that_is_killed_during_a_migration_goes_on_and_writes_nothing_twice() -> Tested {
    let (mut stand, before) = under_way().await?;
    stand.kill().await;
    let jobs = stand.libvirt.script.jobs.load(Ordering::SeqCst);
    stand.start();
    eventually("it asks for progress again", async || stand.libvirt.script.jobs.load(Ordering::SeqCst) >= jobs + 2)
        .await;
    let adopted = stand.migration().await.unwrap();
    assert_eq!(adopted.metadata.resource_version, before.metadata.resource_version, "nothing has changed");

    let statistics = plum().write(Writer::default().i32(7)).u32(1).string("operation").i32(1).i32(5);
    stand.libvirt.script.domains.lock().unwrap().clear();
    stand.libvirt.event(Procedure::JobCompletedEvent, statistics);
    assert_same(&before, &stand.until_over(MigrationType::Success).await);
    Ok(())
}

#[tokio::test]
async fn a_migration_that_ended_while_its_agent_was_killed_is_told_with_its_last_numbers() -> Tested {
    let (mut stand, before) = under_way().await?;
    stand.kill().await;
    stand.libvirt.script.domains.lock().unwrap().clear();
    stand.start();
    let after = stand.until_over(MigrationType::Success).await;
    assert_eq!(assert_same(&before, &after).mem_total.unwrap().as_str(), "128");
    // The next agent has nothing to do about it.
    stand.kill().await;
    stand.start();
    eventually("it has published", async || stand.metrics.writes() > 0).await;
    stand.until(ConditionStatus::True, "Connected").await;
    assert_eq!(stand.migration().await.unwrap().metadata.resource_version, after.metadata.resource_version);
    Ok(())
}

#[tokio::test]
async fn a_migration_that_failed_while_its_agent_was_killed_is_told() -> Tested {
    let (mut stand, before) = under_way().await?;
    stand.kill().await;
    *stand.libvirt.script.job.lock().unwrap() = 0;
    stand.start();
    let status = assert_same(&before, &stand.until_over(MigrationType::Failed).await);
    assert!(status.err_msg.unwrap().contains("the instance is still at the origin"));
    Ok(())
}

#[tokio::test]
async fn an_object_that_a_killed_agent_left_without_a_status_is_taken_up() -> Tested {
    let stand = Stand::set().await?;
    let object = json!({"metadata": {"name": PLUM.to_string()}, "spec": {}});
    let migrations = Api::<Migration>::default_namespaced(stand.cluster.client());
    let left = migrations.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    stand.until(ConditionStatus::True, "Connected").await;
    *stand.libvirt.script.job.lock().unwrap() = 2;
    stand.libvirt.event(Procedure::MigrationIterationEvent, plum().write(Writer::default().i32(7)).i32(2));
    let found = stand.until_over(MigrationType::Unbounded).await;
    assert_eq!(found.metadata.uid, left.metadata.uid);
    assert_eq!(found.status.unwrap().origin, Some(stand.cluster.name("pear")));
    Ok(())
}

#[tokio::test]
async fn a_destination_whose_agent_was_killed_says_so_later() -> Tested {
    let mut stand = Stand::set().await?;
    stand.until(ConditionStatus::True, "Connected").await;
    stand.kill().await;
    // The instance arrives from another host, whose agent has begun; another one failed to leave there.
    let migrations = Api::<Migration>::default_namespaced(stand.cluster.client());
    let failed = Uuid::from_u128(9);
    stand.libvirt.script.domains.lock().unwrap().push(Domain { name: "fig".into(), uuid: failed, id: 2 });
    for (uuid, stage) in [(PLUM, "unbounded"), (failed, "failed")] {
        let object = json!({"metadata": {"name": uuid.to_string()}, "spec": {}});
        migrations.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        let status = json!({"status": {"origin": "quince", "type": stage}});
        migrations.patch_status(&uuid.to_string(), &PatchParams::default(), &Patch::Merge(status)).await?;
    }
    stand.start();
    let pear = stand.cluster.name("pear");
    eventually("the destination is told", async || {
        stand.migration().await.and_then(|found| found.status?.destination).as_ref() == Some(&pear)
    })
    .await;
    assert_eq!(migrations.get(&failed.to_string()).await?.status.unwrap().destination, None);
    Ok(())
}
