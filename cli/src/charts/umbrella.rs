//! The chart of all operators and agents: each as a dependency that can be left out, in the namespace where it belongs.

use c5c3_kit::Operator;
use serde_json::{Map, Value, json};

use super::values::{global, object};
use super::{Files, SOURCE, VERSION};
use crate::manifests::{self, Installation};

/// A chart that this one is made of, and the namespace where it belongs.
struct Part {
    own: String,
    home: String,
}

/// The name of the chart.
const NAME: &str = "c5c3";

pub(super) fn files(operators: &[(&'static str, Operator)]) -> Result<Files, String> {
    let installed = |(name, operator): &(&'static str, Operator)| {
        let Installation { own, home, .. } = Installation::new(name, operator, None);
        Part { own, home }
    };
    let agents =
        manifests::agents("").into_iter().map(|agent| Part { own: agent.own(), home: agent.home().to_owned() });
    let parts: Vec<Part> = operators.iter().map(installed).chain(agents).collect();
    let text = |value: &Value| manifests::text(std::slice::from_ref(value));
    let files = [
        ("Chart.yaml", text(&metadata(&parts))?),
        ("values.yaml", text(&values(&parts))?),
        ("values.schema.json", format!("{:#}\n", schema(&parts))),
        ("templates/namespaces.yaml", namespaces(&parts)),
    ];
    Ok(files.into_iter().map(|(path, text)| (format!("{NAME}/{path}"), text)).collect())
}

fn metadata(parts: &[Part]) -> Value {
    let dependency = |Part { own, .. }: &Part| {
        json!({"name": own, "version": VERSION, "repository": format!("file://../{own}"),
            "condition": format!("{own}.enabled")})
    };
    json!({
        "apiVersion": "v2", "type": "application", "name": NAME, "version": VERSION, "appVersion": VERSION,
        "description": "All operators and agents of CobaltCore",
        "kubeVersion": ">=1.32.0-0",
        "sources": [SOURCE],
        "dependencies": parts.iter().map(dependency).collect::<Vec<_>>(),
    })
}

fn values(parts: &[Part]) -> Value {
    let mut values = Map::from_iter([
        ("createNamespaces".to_owned(), json!(true)),
        ("global".to_owned(), json!({"image": {"registry": "", "pullSecrets": []}})),
    ]);
    for Part { own, home } in parts {
        values.insert(own.clone(), json!({"enabled": true, "namespaceOverride": home}));
    }
    values.into()
}

/// The values of each operator are checked by the schema of its own chart.
fn schema(parts: &[Part]) -> Value {
    let mut properties =
        Map::from_iter([("createNamespaces".to_owned(), json!({"type": "boolean"})), ("global".to_owned(), global())]);
    for Part { own, .. } in parts {
        properties.insert(own.clone(), json!({"type": "object"}));
    }
    let mut schema = object(&properties.into());
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = "Values of the chart of all operators and agents".into();
    schema
}

/// The namespaces that operators run in and look after. Those that others made are left to them, and none is deleted with the
/// release: there may be clouds in them.
fn namespaces(parts: &[Part]) -> String {
    let names = parts.iter().map(|part| format!("{:?}", part.own)).collect::<Vec<_>>().join(" ");
    NAMESPACES.replace("CHARTS", &names)
}

const NAMESPACES: &str = include_str!("namespaces.tpl");
