//! Validation of jobs and cron jobs.

use serde_json::Value;

use super::pod;
use super::report::Report;
use crate::read::{bool_at, is_empty_at, str_at};
use crate::selector::selects;

/// A cron job's name leaves room for the suffix that makes a job's name of it.
const CRON_JOB_NAME: usize = 52;

pub(super) fn job(object: &Value, old: Option<&Value>, report: &mut Report) {
    job_spec("spec", &object["spec"], report);
    let (selector, labels) = (&object["spec"]["selector"], &object["spec"]["template"]["metadata"]["labels"]);
    if !selector.is_null() && !selects(selector, labels) {
        report.invalid("spec.template.metadata.labels", labels.clone(), "`selector` does not match template `labels`");
    }
    if let Some(old) = old {
        job_update(&object["spec"], &old["spec"], report);
    }
}

fn job_spec(path: &str, spec: &Value, report: &mut Report) {
    for field in ["parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished"] {
        report.not_negative(format!("{path}.{field}"), &spec[field]);
    }
    if spec["activeDeadlineSeconds"].as_i64().is_some_and(|deadline| deadline < 1) {
        let path = format!("{path}.activeDeadlineSeconds");
        report.invalid(path, spec["activeDeadlineSeconds"].clone(), "must be greater than or equal to 1");
    }
    if str_at(spec, "completionMode") == "Indexed" && spec["completions"].is_null() {
        report.required(format!("{path}.completions"), "when completion mode is Indexed");
    }
    pod::template(&format!("{path}.template"), &spec["template"], report);
    if str_at(&spec["template"]["spec"], "restartPolicy") == "Always" {
        let path = format!("{path}.template.spec.restartPolicy");
        report.unsupported(path, "Always", &["OnFailure", "Never"]);
    }
}

/// While a job is suspended and has not started, where its pods may run can still be changed.
fn job_update(new: &Value, old: &Value, report: &mut Report) {
    const SCHEDULING: [&str; 4] = ["nodeSelector", "affinity", "tolerations", "schedulingGates"];
    for field in
        ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        report.immutable(format!("spec.{field}"), &new[field], &old[field]);
    }
    let elastic = str_at(new, "completionMode") == "Indexed" && new["completions"] == new["parallelism"];
    if !elastic {
        report.immutable("spec.completions", &new["completions"], &old["completions"]);
    }
    let (mut after, mut before) = (new["template"].clone(), old["template"].clone());
    if bool_at(old, "suspend") {
        for template in [&mut after, &mut before] {
            if let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) {
                spec.retain(|key, _| !SCHEDULING.contains(&key.as_str()));
            }
        }
    }
    if !pod::same(&after, &before) {
        report.invalid("spec.template", new["template"].clone(), super::report::IMMUTABLE);
    }
}

pub(super) fn cron_job(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    let name = str_at(&object["metadata"], "name");
    if name.len() > CRON_JOB_NAME {
        report.invalid("metadata.name", name, format!("must be no more than {CRON_JOB_NAME} characters"));
    }
    let schedule = str_at(spec, "schedule");
    if schedule.contains("TZ=") {
        report.invalid("spec.schedule", schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    } else if !schedule.is_empty() && !is_schedule(schedule) {
        report.invalid("spec.schedule", schedule, "must be five fields of a cron schedule, or one of its @ forms");
    }
    if spec.get("timeZone").is_some() && is_empty_at(spec, "timeZone") {
        report.invalid("spec.timeZone", "", "timeZone must be nil or non-empty string");
    }
    for field in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        report.not_negative(format!("spec.{field}"), &spec[field]);
    }
    job_spec("spec.jobTemplate.spec", &spec["jobTemplate"]["spec"], report);
}

/// Whether it has the shape of a schedule; whether it names a time at all is for the controller to find out.
fn is_schedule(schedule: &str) -> bool {
    if let Some(word) = schedule.strip_prefix('@') {
        let words = ["yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"];
        return words.contains(&word) || word.starts_with("every ");
    }
    let of_a_field = |c: char| c.is_ascii_alphanumeric() || matches!(c, '*' | '/' | ',' | '-' | '?' | '#');
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    fields.len() == 5 && fields.iter().all(|field| field.chars().all(of_a_field))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{assert_has, extend, problems};
    use super::*;

    fn job(more: Value) -> Value {
        let mut spec =
            json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}}});
        extend(&mut spec, more);
        json!({"spec": spec})
    }

    #[test]
    fn a_job_ends_so_its_pods_do_not_always_restart() {
        assert!(problems("batch", "jobs", &job(json!({})), None).is_empty());
        let forever = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        assert_eq!(
            problems("batch", "jobs", &forever, None),
            [
                r#"spec.template.spec.restartPolicy: Unsupported value: "Always": supported values: "OnFailure", "Never""#
            ]
        );
    }

    #[test]
    fn the_template_of_a_job_does_not_change() {
        let mut new = job(json!({"parallelism": 2, "completions": 1}));
        let old = job(json!({"completions": 1}));
        assert!(problems("batch", "jobs", &new, Some(&old)).is_empty());
        new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("i:2");
        let found = problems("batch", "jobs", &new, Some(&old));
        assert!(found[0].starts_with("spec.template: Invalid value: ") && found[0].ends_with(": field is immutable"));
    }

    #[test]
    fn a_suspended_job_may_still_be_sent_elsewhere() {
        let old = job(json!({"suspend": true}));
        let mut new = job(json!({"suspend": false}));
        new["spec"]["template"]["spec"]["nodeSelector"] = json!({"zone": "a"});
        assert!(problems("batch", "jobs", &new, Some(&old)).is_empty());
        assert_eq!(problems("batch", "jobs", &new, Some(&job(json!({})))).len(), 1);
    }

    #[test]
    fn a_schedule_has_the_shape_of_one() {
        let cron = |schedule: &str| {
            problems("batch", "cronjobs", &json!({"spec": {"schedule": schedule, "jobTemplate": job(json!({}))}}), None)
        };
        for schedule in ["*/5 * * * *", "@hourly", "0 0 1 JAN MON-FRI", "@every 1h"] {
            assert!(cron(schedule).is_empty(), "{schedule}");
        }
        for schedule in ["* * * *", "@sometimes", "a.b * * * *", "TZ=UTC * * * * *"] {
            assert_eq!(cron(schedule).len(), 1, "{schedule}");
        }
        assert_has(&cron(""), "spec.schedule: Required value");
    }
}
