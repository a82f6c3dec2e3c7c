//! `c5c3 monitoring`: monitors for the Prometheus operator, alert rules, and Grafana dashboards, about the metrics that the operators
//! export.

mod alerts;
mod dashboards;
mod rules;

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::args::FolderArgs;
use crate::manifests::{self, Extras, Installation};
use crate::{Done, crds, operator};

/// The namespace of rules and dashboards.
const HOME: &str = "c5c3-system";

pub(crate) fn run(args: &FolderArgs) -> Done {
    crds::replace(&args.output, &files()?)?;
    Ok(ExitCode::SUCCESS)
}

fn files() -> Result<BTreeMap<String, String>, String> {
    let mut files = BTreeMap::from([
        ("monitors.yaml".to_owned(), manifests::text(&monitors())?),
        ("rules.yaml".to_owned(), manifests::text(&[rules::object()])?),
    ]);
    for (name, object) in dashboards::objects() {
        files.insert(format!("dashboard-{name}.yaml"), manifests::text(&[object])?);
    }
    Ok(files)
}

/// The operators' names, which are the values of the label `job`.
fn jobs() -> Vec<String> {
    operator::named().map(|(name, operator)| manifests::account_name(name, &operator)).collect()
}

/// The ServiceMonitors of `c5c3 manifests --monitoring`, by themselves.
fn monitors() -> Vec<Value> {
    let extras = Extras { webhooks: false, monitor: true };
    let all = operator::named()
        .flat_map(|(name, operator)| manifests::objects(&Installation::new(name, &operator, None), &operator, extras));
    all.filter(|object| object["kind"] == "ServiceMonitor").collect()
}

/// An object of ours for monitoring.
fn object(version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": version, "kind": kind, "metadata": {
        "name": name, "namespace": HOME, "labels": {"app.kubernetes.io/part-of": "c5c3"},
    }})
}
