//! Plans as a tree for people, and as a value for programs. Values of Secrets are in neither.

use c5c3_kit::Wait;
use c5c3_kit::preview::{Change, Fate, FieldChange, Preview, StepPreview};
use serde_json::{Value, json};

use super::follow::Planned;
use super::summary::{Migration, Summary, commands, restarts};
use crate::redact;
use crate::status::Tree;

/// How much of a value is shown.
const LONGEST: usize = 60;

/// All plans, and what they come to.
pub(super) fn text(plans: &[Planned], summary: &Summary) -> String {
    let trees: Vec<String> = plans.iter().map(|planned| tree(planned).render()).collect();
    format!("{}\n{}", trees.join("\n"), totals(summary))
}

fn tree(planned: &Planned) -> Tree {
    let (sign, says) = match (planned.exists, planned.fields.is_empty()) {
        (false, _) => ("+ ", "is created".to_owned()),
        (true, true) => ("", "stays as it is".to_owned()),
        (true, false) => ("~ ", counted(planned.fields.len())),
    };
    let mut children: Vec<Tree> = planned.fields.iter().map(field).collect();
    children.extend(below(planned));
    Tree::new(format!("{sign}{}", planned.object.short()), says).children(children)
}

fn counted(fields: usize) -> String {
    if fields == 1 { "1 field changes".to_owned() } else { format!("{fields} fields change") }
}

fn field(field: &FieldChange) -> Tree {
    if field.confidential {
        return Tree::new(field.path.clone(), "changes; its value is not shown");
    }
    let says = match (&field.before, &field.after) {
        (None, None) => "other order".to_owned(),
        (before, after) => format!("{} → {}", value(before.as_ref()), value(after.as_ref())),
    };
    Tree::new(field.path.clone(), says)
}

/// A value in one line, cut where it is long.
fn value(value: Option<&Value>) -> String {
    let text = match value {
        None => return "(none)".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let text = redact::text(&text).into_owned();
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// What an operator makes of an object.
fn below(planned: &Planned) -> Vec<Tree> {
    let Some(preview) = &planned.preview else { return Vec::new() };
    let namespace = preview.about.namespace.as_deref();
    let mut trees = Vec::new();
    if preview.paused {
        trees.push(Tree::new("paused", "nothing is applied until its annotation c5c3.io/paused is removed"));
    }
    trees.extend(preview.problems.iter().map(|problem| Tree::new("! refused", problem.to_string())));
    for step in &preview.steps {
        trees.extend(step_trees(planned, preview, step));
    }
    trees.extend(preview.waits.iter().map(|wait| waiting(wait, namespace)));
    for gone in &preview.deleted {
        let says = "is deleted, with all that belongs to it, when nothing stands on it any more";
        trees.push(Tree::new(format!("- {}", gone.relative_to(namespace)), says));
    }
    let mut is_past = false;
    for ahead in &preview.ahead {
        if ahead.irreversible && !is_past {
            trees.push(Tree::new("! point of no return", "after this there is no way back to the older release"));
            is_past = true;
        }
        let label =
            ahead.job.as_ref().map_or_else(|| "later".to_owned(), |job| format!("+ {}", job.reference().short()));
        let commands = ahead.job.as_ref().map(|job| commands(&job.object)).unwrap_or_default();
        trees.push(
            Tree::new(label, format!("later: {}", ahead.what))
                .children(commands.into_iter().map(|command| Tree::new("runs", command)).collect()),
        );
    }
    trees
}

fn step_trees(planned: &Planned, preview: &Preview, step: &StepPreview) -> Vec<Tree> {
    let namespace = preview.about.namespace.as_deref();
    let mut trees = Vec::new();
    if step.undecided {
        let says = "cannot be planned yet; what it has stays as it is";
        let waits = step.waits.iter().map(|wait| waiting(wait, namespace)).collect();
        trees.push(Tree::new(format!("? {}", step.name), says).children(waits));
        return trees;
    }
    let after = if step.needs.is_empty() { String::new() } else { format!(", after {}", step.needs.join(", ")) };
    for child in &step.children {
        let name = child.object.relative_to(namespace);
        let inner = planned.below.get(&child.object.to_string()).map(below).unwrap_or_default();
        match &child.fate {
            Fate::Unchanged => trees.extend(child.wait.iter().map(|wait| waiting(wait, namespace))),
            Fate::Refused(wait) => trees.push(Tree::new(format!("! {name}"), wait.message(namespace))),
            Fate::Created => {
                let runs = commands(&child.after).into_iter().map(|command| Tree::new("runs", command));
                let is_job = child.object.resource.kind == "Job";
                let children = runs.filter(|_| is_job).chain(inner).collect();
                trees.push(Tree::new(format!("+ {name}"), format!("is created{after}")).children(children));
            }
            Fate::Changed(fields) => {
                let says = match restarts(child, fields) {
                    Some(pods) => format!("{} {} replaced{after}", pods, if pods == 1 { "pod is" } else { "pods are" }),
                    None => format!("{}{after}", counted(fields.len())),
                };
                let children = fields.iter().map(field).chain(inner).collect();
                trees.push(Tree::new(format!("~ {name}"), says).children(children));
            }
        }
    }
    trees.extend(step.waits.iter().map(|wait| waiting(wait, namespace)));
    trees.extend(step.calls.iter().map(|call| Tree::new("> call", redact::text(call))));
    trees
}

fn waiting(wait: &Wait, namespace: Option<&str>) -> Tree {
    Tree::new("… waits", wait.message(namespace))
}

/// What all plans come to, in lines.
fn totals(summary: &Summary) -> String {
    if !summary.is_change() && !summary.is_refused {
        return "nothing changes\n".to_owned();
    }
    let Summary { created, changed, deleted, refused, calls, .. } = summary;
    let mut lines = vec![format!("objects: {created} created, {changed} changed, {deleted} deleted")];
    if *refused > 0 {
        lines.push(format!("refused: {refused}; what is marked ! stays undone until it is corrected"));
    }
    if *calls > 0 {
        lines.push(format!("calls: {calls} to OpenStack"));
    }
    if !summary.restarts.is_empty() {
        let each = summary.restarts.iter().map(|restart| format!("{} ({})", restart.object, restart.pods));
        lines.push(format!("pods replaced: {}", each.collect::<Vec<_>>().join(", ")));
    }
    for migration in &summary.migrations {
        let mark = if migration.irreversible { "; NO WAY BACK from here" } else { "" };
        let job = migration.job.as_deref().unwrap_or("no Job");
        let when = if migration.later { "later" } else { "first" };
        lines.push(format!("migration of {}: {when} {job}{mark}", migration.of));
    }
    if summary.is_refused {
        lines.push("an operator refuses an object, so that there is no plan for it: see !".to_owned());
    }
    lines.join("\n") + "\n"
}

/// All plans as a value.
pub(super) fn json(plans: &[Planned], summary: &Summary) -> Value {
    let restarts: Vec<Value> = summary
        .restarts
        .iter()
        .map(|restart| json!({"object": restart.object.to_string(), "pods": restart.pods}))
        .collect();
    let migrations: Vec<Value> = summary.migrations.iter().map(migration).collect();
    json!({
        "changes": summary.is_change(),
        "refused": summary.is_refused,
        "summary": {
            "created": summary.created, "changed": summary.changed, "deleted": summary.deleted,
            "refused": summary.refused, "calls": summary.calls, "restarts": restarts, "migrations": migrations,
        },
        "items": plans.iter().map(item).collect::<Vec<_>>(),
    })
}

fn migration(migration: &Migration) -> Value {
    let Migration { of, job, what, later, irreversible } = migration;
    json!({"object": of.to_string(), "job": job, "runs": what, "later": later, "pointOfNoReturn": irreversible})
}

fn item(planned: &Planned) -> Value {
    let fields: Vec<Value> = planned.fields.iter().map(field_json).collect();
    let fate = match (planned.exists, fields.is_empty()) {
        (false, _) => "created",
        (true, true) => "unchanged",
        (true, false) => "changed",
    };
    json!({"object": planned.object.to_string(), "fate": fate, "fields": fields, "plan": plan_json(planned)})
}

fn plan_json(planned: &Planned) -> Value {
    let Some(preview) = &planned.preview else { return Value::Null };
    let waits = |waits: &[Wait]| waits.iter().map(|wait| wait.message(None)).collect::<Vec<_>>();
    let steps: Vec<Value> = preview
        .steps
        .iter()
        .map(|step| {
            json!({"name": step.name, "after": step.needs, "undecided": step.undecided, "waits": waits(&step.waits),
                   "calls": step.calls.iter().map(|call| redact::text(call)).collect::<Vec<_>>(),
                   "children": step.children.iter().map(|child| child_json(planned, child)).collect::<Vec<_>>()})
        })
        .collect();
    let ahead: Vec<Value> = preview
        .ahead
        .iter()
        .map(|ahead| {
            let job = ahead.job.as_ref().map(|job| job.reference().to_string());
            json!({"what": ahead.what, "job": job, "pointOfNoReturn": ahead.irreversible})
        })
        .collect();
    json!({"paused": preview.paused, "waits": waits(&preview.waits), "steps": steps, "ahead": ahead,
           "problems": preview.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
           "deleted": preview.deleted.iter().map(ToString::to_string).collect::<Vec<_>>()})
}

fn child_json(planned: &Planned, child: &Change) -> Value {
    let name = child.object.to_string();
    let mut value = json!({"object": name, "waits": child.wait.as_ref().map(|wait| wait.message(None))});
    match &child.fate {
        Fate::Unchanged => value["fate"] = "unchanged".into(),
        Fate::Created => value["fate"] = "created".into(),
        Fate::Refused(wait) => {
            value["fate"] = "refused".into();
            value["waits"] = wait.message(None).into();
        }
        Fate::Changed(fields) => {
            value["fate"] = "changed".into();
            value["fields"] = fields.iter().map(field_json).collect();
            value["podsReplaced"] = restarts(child, fields).into();
        }
    }
    if let Some(below) = planned.below.get(&name) {
        value["plan"] = plan_json(below);
    }
    value
}

fn field_json(field: &FieldChange) -> Value {
    let clean = |value: Option<&Value>| match value {
        Some(Value::String(text)) => redact::text(text).into(),
        Some(other) => serde_json::from_str(&redact::text(&other.to_string())).unwrap_or(Value::Null),
        None => Value::Null,
    };
    json!({"path": field.path, "before": clean(field.before.as_ref()), "after": clean(field.after.as_ref()),
           "confidential": field.confidential})
}
