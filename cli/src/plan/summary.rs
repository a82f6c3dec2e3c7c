//! What plans come to: how many objects, which pods restart, which migrations run, and where there is no way back.

use c5c3_kit::Ref;
use c5c3_kit::ownership::{JOB_GROUP, label};
use c5c3_kit::preview::{Change, Fate, FieldChange};
use kube::api::DynamicObject;
use serde_json::Value;

use super::follow::Planned;

/// The group of Jobs that change schemas.
const SCHEMA: &str = c5c3_service::migrations::GROUP;

/// A workload whose pods are replaced.
pub(super) struct Restart {
    pub(super) object: Ref,
    pub(super) pods: i64,
}

/// Migrations of a schema.
pub(super) struct Migration {
    /// Whose.
    pub(super) of: Ref,
    pub(super) job: Option<String>,
    /// What is done, in words or as commands.
    pub(super) what: Vec<String>,
    /// Whether something has to happen before it that this plan does not hold.
    pub(super) later: bool,
    pub(super) irreversible: bool,
}

/// What all plans come to.
#[derive(Default)]
pub(super) struct Summary {
    pub(super) created: usize,
    pub(super) changed: usize,
    pub(super) deleted: usize,
    pub(super) refused: usize,
    pub(super) calls: usize,
    pub(super) restarts: Vec<Restart>,
    pub(super) migrations: Vec<Migration>,
    /// Whether an operator would refuse an object, so that there is no plan.
    pub(super) is_refused: bool,
}

impl Summary {
    pub(super) fn of(plans: &[Planned]) -> Self {
        let mut summary = Self::default();
        for planned in plans {
            if !planned.exists {
                summary.created += 1;
            } else if !planned.fields.is_empty() {
                summary.changed += 1;
            }
            summary.add(planned);
        }
        summary
    }

    fn add(&mut self, planned: &Planned) {
        let Some(preview) = &planned.preview else { return };
        self.is_refused |= !preview.problems.is_empty();
        self.deleted += preview.deleted.len();
        for step in &preview.steps {
            self.calls += step.calls.len();
            for child in &step.children {
                self.count(&planned.object, child);
            }
        }
        for ahead in &preview.ahead {
            if ahead.job.is_some() || ahead.irreversible {
                let commands = ahead.job.as_ref().map(|job| commands(&job.object)).unwrap_or_default();
                self.migrations.push(Migration {
                    of: planned.object.clone(),
                    job: ahead.job.as_ref().map(|job| job.reference().short()),
                    what: if commands.is_empty() { vec![ahead.what.clone()] } else { commands },
                    later: true,
                    irreversible: ahead.irreversible,
                });
            }
        }
        planned.below.values().for_each(|below| self.add(below));
    }

    fn count(&mut self, of: &Ref, child: &Change) {
        match &child.fate {
            Fate::Unchanged => {}
            Fate::Refused(_) => self.refused += 1,
            Fate::Created => {
                self.created += 1;
                if label(&child.after.metadata, JOB_GROUP).is_some_and(|group| group == SCHEMA) {
                    self.migrations.push(Migration {
                        of: of.clone(),
                        job: Some(child.object.short()),
                        what: commands(&child.after),
                        later: false,
                        irreversible: false,
                    });
                }
            }
            Fate::Changed(fields) => {
                self.changed += 1;
                if let Some(pods) = restarts(child, fields) {
                    self.restarts.push(Restart { object: child.object.clone(), pods });
                }
            }
        }
    }

    /// Whether anything would change.
    pub(super) fn is_change(&self) -> bool {
        self.created + self.changed + self.deleted + self.refused + self.calls > 0
    }
}

/// How many pods a change replaces; none if they stay.
pub(super) fn restarts(child: &Change, fields: &[FieldChange]) -> Option<i64> {
    let resource = &child.object.resource;
    let is_workload =
        resource.group == "apps" && ["Deployment", "StatefulSet", "DaemonSet"].contains(&resource.kind.as_str());
    let is_replaced = fields.iter().any(|field| field.path.starts_with("spec.template."));
    if !is_workload || !is_replaced {
        return None;
    }
    let status = |field: &str| child.before.as_ref().and_then(|before| before.data["status"][field].as_i64());
    Some(status("replicas").or_else(|| status("currentNumberScheduled")).unwrap_or_default())
}

/// The commands of a Job, in order.
pub(super) fn commands(job: &DynamicObject) -> Vec<String> {
    let pod = &job.data["spec"]["template"]["spec"];
    let containers = ["initContainers", "containers"].map(|list| pod[list].as_array().cloned().unwrap_or_default());
    let words = |container: &Value, field: &str| -> Vec<String> {
        container[field].as_array().into_iter().flatten().filter_map(Value::as_str).map(ToOwned::to_owned).collect()
    };
    let command = |container: &Value| {
        let line = [words(container, "command"), words(container, "args")].concat().join(" ");
        crate::redact::text(&line).into_owned()
    };
    containers.concat().iter().map(command).filter(|line| !line.is_empty()).collect()
}
