//! What libvirt's job statistics become in a Migration's status. Pure.

use c5c3_api::blocks::{Condition, Duration, Quantity};
use c5c3_api::hypervisor::{MigrationOperation, MigrationStatus, MigrationType};
use c5c3_kit::condition::{ConditionState, find};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::protocol::Statistics;

/// libvirt's number of the job that sends a domain to another host.
pub const MIGRATION_OUT: u64 = 5;

/// How a migration goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is under way; libvirt may foretell its end.
    Running { is_bounded: bool },
    /// The instance runs at the destination.
    Succeeded,
    /// The instance still runs at the origin.
    Failed(String),
}

/// Whether a Migration has ended.
pub fn is_over(status: Option<&MigrationStatus>) -> bool {
    use MigrationType::{Cancelled, Completed, Failed, Success};
    status.is_some_and(|status| matches!(status.r#type, Some(Cancelled | Completed | Failed | Success)))
}

/// The status that the agent at the origin publishes.
pub fn status(
    origin: &str,
    started: Timestamp,
    stage: &Stage,
    statistics: &Statistics,
    before: &[Condition],
    now: Timestamp,
) -> MigrationStatus {
    let bytes = |field: &str| statistics.number(field).and_then(|number| Quantity::new(number.to_string()).ok());
    let count = |field: &str| statistics.number(field).and_then(|number| i64::try_from(number).ok());
    let time = |field: &str| statistics.number(field).and_then(|millis| Duration::new(format!("{millis}ms")).ok());
    let (r#type, completed, err_msg) = match stage {
        Stage::Running { is_bounded } => (
            if *is_bounded { MigrationType::Bounded } else { MigrationType::Unbounded },
            ConditionState::unmet("Completed", "Running", "the instance is being migrated"),
            None,
        ),
        Stage::Succeeded => (
            MigrationType::Success,
            ConditionState::met("Completed", "Succeeded", "the instance runs at the destination"),
            None,
        ),
        Stage::Failed(why) => (
            MigrationType::Failed,
            ConditionState::unmet("Completed", "Failed", why.clone()),
            Some(statistics.text("errmsg").unwrap_or(why).chars().take(1024).collect()),
        ),
    };
    MigrationStatus {
        conditions: vec![completed.to_condition(find(before, "Completed"), None, now)],
        origin: Some(origin.to_owned()),
        r#type: Some(r#type),
        started: Some(Time(started)),
        operation: statistics.number("operation").map(operation),
        time_elapsed: time("time_elapsed"),
        time_remaining: time("time_remaining"),
        setup_time: time("setup_time"),
        downtime: time("downtime"),
        data_total: bytes("data_total"),
        data_processed: bytes("data_processed"),
        data_remaining: bytes("data_remaining"),
        mem_total: bytes("memory_total"),
        mem_processed: bytes("memory_processed"),
        mem_remaining: bytes("memory_remaining"),
        mem_bps: bytes("memory_bps"),
        mem_dirty_rate: bytes("memory_dirty_rate"),
        mem_iteration: count("memory_iteration"),
        mem_page_size: bytes("memory_page_size"),
        mem_normal: count("memory_normal"),
        mem_normal_bytes: bytes("memory_normal_bytes"),
        mem_constant: count("memory_constant"),
        mem_postcopy_requests: count("memory_postcopy_requests"),
        disk_total: bytes("disk_total"),
        disk_processed: bytes("disk_processed"),
        disk_remaining: bytes("disk_remaining"),
        disk_bps: bytes("disk_bps"),
        auto_converge_throttle: statistics.number("auto_converge_throttle").map(|percent| format!("{percent}%")),
        err_msg,
        ..MigrationStatus::default()
    }
}

fn operation(number: u64) -> MigrationOperation {
    match number {
        1 => MigrationOperation::Start,
        2 => MigrationOperation::Save,
        3 => MigrationOperation::Restore,
        4 => MigrationOperation::MigrationIn,
        MIGRATION_OUT => MigrationOperation::MigrationOut,
        6 => MigrationOperation::Snapshot,
        7 => MigrationOperation::SnapshotRevert,
        8 => MigrationOperation::Dump,
        9 => MigrationOperation::Backup,
        10 => MigrationOperation::SnapshotDelete,
        _ => MigrationOperation::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::{Reader, Writer};

    fn statistics() -> Statistics {
        let bytes = Writer::default().u32(4).string("operation").i32(1).i32(5).string("downtime").i32(4).u32(0).u32(20);
        let bytes = bytes.string("memory_total").i32(4).u32(0).u32(134_750_208);
        let bytes = bytes.string("memory_iteration").i32(4).u32(0).u32(2).into_bytes();
        Statistics::read(&mut Reader::new(&bytes)).unwrap()
    }

    #[test]
    fn numbers_are_bytes_and_milliseconds_and_what_was_not_sent_is_absent() {
        let now = Timestamp::UNIX_EPOCH;
        let found = status("pear", now, &Stage::Succeeded, &statistics(), &[], now);
        assert_eq!(found.origin.as_deref(), Some("pear"));
        assert_eq!(found.destination, None, "the destination says that itself");
        assert_eq!(
            (found.r#type, found.operation),
            (Some(MigrationType::Success), Some(MigrationOperation::MigrationOut))
        );
        assert_eq!(found.downtime.unwrap().as_str(), "20ms");
        assert_eq!(found.mem_total.unwrap().as_str(), "134750208");
        assert_eq!((found.mem_iteration, found.disk_bps, found.time_remaining), (Some(2), None, None));
    }

    #[test]
    fn a_migration_is_over_when_it_ended_and_not_before() {
        let now = Timestamp::UNIX_EPOCH;
        let at = |stage| status("pear", now, &stage, &Statistics::default(), &[], now);
        assert!(!is_over(None));
        assert!(!is_over(Some(&at(Stage::Running { is_bounded: false }))));
        assert!(is_over(Some(&at(Stage::Failed("no".into())))) && is_over(Some(&at(Stage::Succeeded))));
    }
}
