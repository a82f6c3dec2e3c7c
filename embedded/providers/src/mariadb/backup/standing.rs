//! How a Backup or Restore stands, in the words of mariadb-operator. Pure.

use c5c3_api::blocks::Condition;
use c5c3_api::ext::mariadb::JOB_FAILED;
use c5c3_kit::condition::ConditionState;
use k8s_openapi::api::batch::v1::{CronJob, Job};

/// The condition.
pub(super) const COMPLETE: &str = "Complete";

const JOB_COMPLETE: &str = "JobComplete";

/// What a Job says. One that has failed is complete, too: only the reason tells.
pub(super) fn of_job(job: &Job) -> ConditionState {
    let mut said = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let said =
        said.find(|said| said.status == "True" && ["Complete", "Failed", "Suspended"].contains(&said.type_.as_str()));
    let Some(said) = said else { return ConditionState::unmet(COMPLETE, "JobRunning", "Running") };
    match said.type_.as_str() {
        "Complete" => ConditionState::met(COMPLETE, JOB_COMPLETE, "Success"),
        "Failed" => {
            let name = job.metadata.name.as_deref().unwrap_or_default();
            let why = said.message.as_deref().unwrap_or_default();
            ConditionState::met(COMPLETE, JOB_FAILED, format!("Failed: {why}; see `kubectl logs job/{name}`"))
        }
        _ => ConditionState::unmet(COMPLETE, "JobSuspended", "Suspended"),
    }
}

/// What the CronJob of a schedule says about its last run.
pub(super) fn of_cron_job(jobs: Option<&CronJob>) -> ConditionState {
    let status = jobs.and_then(|jobs| jobs.status.as_ref());
    let times =
        status.and_then(|status| Some((status.last_schedule_time.as_ref()?, status.last_successful_time.as_ref()?)));
    let Some((scheduled, succeeded)) = times else {
        return ConditionState::unmet(COMPLETE, "CronJobScheduled", "Scheduled");
    };
    if succeeded.0 >= scheduled.0 {
        return ConditionState::met(COMPLETE, "CronJobSuccess", "Success");
    }
    if status.and_then(|status| status.active.as_ref()).is_some_and(|active| !active.is_empty()) {
        return ConditionState::unmet(COMPLETE, "CronJobRunning", "Running");
    }
    ConditionState::unmet(COMPLETE, "CronJobFailed", "Failed")
}

/// What was said of a Job that has ended, if it has.
pub(super) fn final_state(said: &Condition) -> Option<ConditionState> {
    let reason = said.reason.as_deref().filter(|reason| [JOB_COMPLETE, JOB_FAILED].contains(reason))?;
    Some(ConditionState::met(COMPLETE, reason, said.message.clone().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of_job_with(condition: &str, is_so: &str) -> (String, String) {
        let condition = json!({"type": condition, "status": is_so, "message": "five pods failed"});
        let job: Job =
            serde_json::from_value(json!({"metadata": {"name": "once"}, "status": {"conditions": [condition]}}))
                .unwrap();
        let said = of_job(&job);
        (format!("{:?} {}", said.status, said.reason), said.message)
    }

    #[test]
    fn a_job_that_failed_is_complete_as_mariadb_operator_says_it() {
        let (said, message) = of_job_with("Failed", "True");
        assert_eq!(said, "True JobFailed");
        assert_eq!(message, "Failed: five pods failed; see `kubectl logs job/once`");
        // It has failed once all of its pods have ended, and not before.
        assert_eq!(of_job_with("FailureTarget", "True").0, "False JobRunning");
        assert_eq!(of_job_with("Failed", "False").0, "False JobRunning");
        assert_eq!(of_job_with("Suspended", "True").0, "False JobSuspended");
        assert_eq!(of_job_with("Complete", "True"), ("True JobComplete".into(), "Success".into()));
    }

    #[test]
    fn a_schedule_is_as_complete_as_its_last_run() {
        let said = |status: Value| {
            let jobs: CronJob = serde_json::from_value(json!({"metadata": {}, "status": status})).unwrap();
            of_cron_job(Some(&jobs)).reason
        };
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        assert_eq!(of_cron_job(None).reason, "CronJobScheduled");
        assert_eq!(said(json!({"lastScheduleTime": late})), "CronJobScheduled");
        assert_eq!(said(json!({"lastScheduleTime": early, "lastSuccessfulTime": late})), "CronJobSuccess");
        assert_eq!(said(json!({"lastScheduleTime": late, "lastSuccessfulTime": early})), "CronJobFailed");
        let running = json!({"lastScheduleTime": late, "lastSuccessfulTime": early, "active": [{"name": "x"}]});
        assert_eq!(said(running), "CronJobRunning");
    }
}
