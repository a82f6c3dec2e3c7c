//! The chart of all operators: each as a dependency that can be left out, in the namespace where it belongs.

use c5c3_kit::Operator;
use serde_json::{Map, Value, json};

use super::values::{global, object};
use super::{Files, SOURCE, VERSION};
use crate::manifests::{self, Installation};

/// The name of the chart.
const NAME: &str = "c5c3";

pub(super) fn files(operators: &[(&'static str, Operator)]) -> Result<Files, String> {
    let installed = |(name, operator): &(&'static str, Operator)| Installation::new(name, operator, None);
    let installations: Vec<Installation> = operators.iter().map(installed).collect();
    let text = |value: &Value| manifests::text(std::slice::from_ref(value));
    let files = [
        ("Chart.yaml", text(&metadata(&installations))?),
        ("values.yaml", text(&values(&installations))?),
        ("values.schema.json", format!("{:#}\n", schema(&installations))),
        ("templates/namespaces.yaml", namespaces(&installations)),
    ];
    Ok(files.into_iter().map(|(path, text)| (format!("{NAME}/{path}"), text)).collect())
}

fn metadata(installations: &[Installation]) -> Value {
    let dependency = |installation: &Installation| {
        let own = &installation.own;
        json!({"name": own, "version": VERSION, "repository": format!("file://../{own}"),
            "condition": format!("{own}.enabled")})
    };
    json!({
        "apiVersion": "v2", "type": "application", "name": NAME, "version": VERSION, "appVersion": VERSION,
        "description": "All operators of CobaltCore",
        "kubeVersion": ">=1.32.0-0",
        "sources": [SOURCE],
        "dependencies": installations.iter().map(dependency).collect::<Vec<_>>(),
    })
}

fn values(installations: &[Installation]) -> Value {
    let mut values = Map::from_iter([
        ("createNamespaces".to_owned(), json!(true)),
        ("global".to_owned(), json!({"image": {"registry": "", "pullSecrets": []}})),
    ]);
    for Installation { own, home, .. } in installations {
        values.insert(own.clone(), json!({"enabled": true, "namespaceOverride": home}));
    }
    values.into()
}

/// The values of each operator are checked by the schema of its own chart.
fn schema(installations: &[Installation]) -> Value {
    let mut properties =
        Map::from_iter([("createNamespaces".to_owned(), json!({"type": "boolean"})), ("global".to_owned(), global())]);
    for Installation { own, .. } in installations {
        properties.insert(own.clone(), json!({"type": "object"}));
    }
    let mut schema = object(&properties.into());
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = "Values of the chart of all operators".into();
    schema
}

/// The namespaces that operators run in and look after. Those that others made are left to them, and none is deleted with the
/// release: there may be clouds in them.
fn namespaces(installations: &[Installation]) -> String {
    let names =
        installations.iter().map(|installation| format!("{:?}", installation.own)).collect::<Vec<_>>().join(" ");
    NAMESPACES.replace("CHARTS", &names)
}

const NAMESPACES: &str = include_str!("namespaces.tpl");
