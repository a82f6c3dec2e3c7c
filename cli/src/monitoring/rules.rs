//! The PrometheusRule of the alerts.

use serde_json::{Value, json};

use super::alerts::{Alert, GROUPS, Group};

/// The rules as an object for the Prometheus operator.
pub(super) fn object() -> Value {
    let mut object = super::object("monitoring.coreos.com/v1", "PrometheusRule", "openstack-alerts");
    object["spec"] = json!({"groups": GROUPS.iter().map(group).collect::<Vec<_>>()});
    object
}

fn group(group: &Group) -> Value {
    json!({"name": group.name, "rules": group.alerts.iter().map(rule).collect::<Vec<_>>()})
}

fn rule(alert: &Alert) -> Value {
    json!({
        "alert": alert.name,
        "expr": alert.expr.replace("JOBS", &super::jobs().join("|")),
        "for": alert.wait,
        "labels": {"severity": alert.severity.name()},
        "annotations": {"summary": alert.summary, "description": alert.description},
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;
    use std::process::Command;

    use super::*;

    /// What promtool says of files in a folder; they are good if it succeeds.
    fn promtool(folder: &Path, args: &[&str]) {
        let output = Command::new("promtool")
            .args(args)
            .current_dir(folder)
            .output()
            .unwrap_or_else(|error| panic!("promtool: {error}; `make promtool` unpacks it"));
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    }

    /// A text of an alert with the labels that it has.
    fn filled(text: &str, labels: &BTreeMap<&str, &str>) -> String {
        labels
            .iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{{ $labels.{name} }}}}"), value))
    }

    /// A test for promtool: quiet at first, then the alert fires, then it clears.
    fn test(alert: &Alert) -> Value {
        let proof = &alert.proof;
        let labels: BTreeMap<&str, &str> = proof.labels.iter().copied().collect();
        let mut expected = labels.clone();
        expected.insert("severity", alert.severity.name());
        let fired = json!([{"exp_labels": expected, "exp_annotations": {
            "summary": filled(alert.summary, &labels), "description": filled(alert.description, &labels)}}]);
        let at = |time: &str, alerts: Value| json!({"eval_time": time, "alertname": alert.name, "exp_alerts": alerts});
        let series: Vec<Value> =
            proof.series.iter().map(|(series, values)| json!({"series": series, "values": values})).collect();
        json!({
            "name": alert.name, "interval": "1m", "input_series": series,
            "alert_rule_test": [at("3m", json!([])), at(proof.fires, fired), at(proof.clears, json!([]))],
        })
    }

    #[test]
    fn each_alert_fires_by_its_cause_and_clears() {
        let folder = tempfile::tempdir().unwrap();
        // promtool reads JSON, which is YAML.
        std::fs::write(folder.path().join("rules.json"), object()["spec"].to_string()).unwrap();
        let tests: Vec<Value> = GROUPS.iter().flat_map(|group| group.alerts).map(test).collect();
        assert!(tests.len() > 15);
        let tests = json!({"rule_files": ["rules.json"], "evaluation_interval": "1m", "tests": tests});
        std::fs::write(folder.path().join("tests.json"), tests.to_string()).unwrap();
        promtool(folder.path(), &["check", "rules", "--lint=all", "--lint-fatal", "rules.json"]);
        promtool(folder.path(), &["test", "rules", "tests.json"]);
    }

    /// The words of a text that begin so.
    fn words<'a>(text: &'a str, prefixes: &[&str]) -> Vec<&'a str> {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        words.filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix))).collect()
    }

    #[test]
    fn rules_and_dashboards_use_only_metrics_that_exist() {
        let (kit, client) = (
            include_str!("../../../crates/kit/src/metrics.rs"),
            include_str!("../../../crates/openstack/src/metrics.rs"),
        );
        let is_there = |metric: &str| {
            let base = ["_total", "_bucket", "_sum", "_count"].iter().find_map(|suffix| metric.strip_suffix(suffix));
            [Some(metric), base].into_iter().flatten().any(|name| match name.strip_prefix("c5c3_") {
                Some(own) => kit.contains(&format!("\"{own}\",")),
                None => client.contains(&format!("\"{name}\"")),
            })
        };
        let mut expressions: Vec<String> =
            GROUPS.iter().flat_map(|group| group.alerts).map(|alert| alert.expr.to_owned()).collect();
        expressions.extend(super::super::dashboards::expressions());
        let used: BTreeSet<&str> =
            expressions.iter().flat_map(|text| words(text, &["c5c3_", "openstack_api"])).collect();
        assert!(used.len() > 8, "{used:?}");
        for metric in used {
            assert!(is_there(metric), "{metric} is exported by no operator");
        }
    }

    /// The code of all operators, of the kit and of the layer of services.
    fn sources() -> String {
        fn read(folder: &Path, text: &mut String) {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                match entry.path() {
                    path if path.is_dir() => read(&path, text),
                    path if path.extension().is_some_and(|extension| extension == "rs") => {
                        *text += &std::fs::read_to_string(path).unwrap();
                    }
                    _ => {}
                }
            }
        }
        let (top, mut text) = (Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), String::new());
        for folder in ["operators", "crates/kit/src", "crates/service/src"] {
            read(&top.join(folder), &mut text);
        }
        text
    }

    #[test]
    fn conditions_and_reasons_of_rules_are_those_of_operators() {
        let sources = sources();
        let values = |expr: &str, label: &str| -> Vec<String> {
            let parts =
                expr.split(label).skip(1).filter_map(|rest| rest.trim_start_matches(['=', '~']).split('"').nth(1));
            parts.flat_map(|value| value.split('|')).map(ToOwned::to_owned).collect()
        };
        let mut seen = 0;
        for alert in GROUPS.iter().flat_map(|group| group.alerts) {
            for value in values(alert.expr, "type").into_iter().chain(values(alert.expr, "reason=")) {
                assert!(sources.contains(&format!("\"{value}\"")), "{}: no operator says {value}", alert.name);
                seen += 1;
            }
        }
        assert!(seen > 10, "{seen}");
    }

    #[test]
    fn the_objects_are_accepted_by_the_genuine_definitions() {
        if !c5c3_contracts::compared_with_genuine("monitors and rules against the CRDs of the Prometheus operator") {
            return;
        }
        for (object, plural) in super::super::monitors()
            .into_iter()
            .map(|monitor| (monitor, "servicemonitors"))
            .chain([(object(), "prometheusrules")])
        {
            let genuine = c5c3_contracts::Genuine::find("monitoring.coreos.com", plural).unwrap();
            let schema = c5c3_schema::Schema::compile(genuine.schema("v1").unwrap()).unwrap();
            assert_eq!(schema.check(&object, None).to_string(), "", "{plural}");
        }
    }
}
