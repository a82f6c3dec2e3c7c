//! The CRDs, as a real API server would judge them on installation.

use std::collections::BTreeSet;

use serde_json::{Value, json};

#[test]
fn every_schema_is_structural_and_its_rules_stay_within_the_servers_budget() {
    for kind in c5c3_api::all() {
        let problems = c5c3_schema::lint(&kind.open_api());
        assert!(problems.is_empty(), "{}:\n{problems}", kind.name());
    }
}

#[test]
fn every_crd_stays_small_enough_for_a_client_side_apply() {
    for kind in c5c3_api::all() {
        let size = serde_json::to_string(&kind.crd()).unwrap().len();
        // `kubectl apply` copies the object into an annotation, and annotations end at 256 KiB.
        assert!(size < 256 * 1024, "{} has {size} bytes", kind.name());
    }
}

#[test]
fn names_are_unique_and_every_kind_has_what_kubectl_users_expect() {
    let mut names = BTreeSet::new();
    for kind in c5c3_api::all() {
        let (spec, label) = (kind.crd().spec, kind.name());
        for short in spec.names.short_names.iter().flatten() {
            assert!(names.insert(short.clone()), "{label}: the short name {short} is taken");
        }
        let categories = spec.names.categories.clone().unwrap_or_default();
        assert!(categories.contains(&"c5c3".to_owned()), "{label} is not in `kubectl get c5c3`");
        let openstack = spec.group.ends_with(".openstack.c5c3.io") || spec.group == "openstack.k-orc.cloud";
        assert_eq!(categories.contains(&"openstack".to_owned()), openstack, "{label} in `kubectl get openstack`");
        let version = &spec.versions[0];
        assert!(version.subresources.as_ref().is_some_and(|s| s.status.is_some()), "{label} has a status");
        assert!(
            version.additional_printer_columns.as_ref().is_some_and(|columns| columns.len() >= 2),
            "{label} has columns"
        );
    }
}

#[test]
fn a_kind_with_replicas_can_be_scaled() {
    for kind in c5c3_api::all() {
        let schema = &kind.open_api();
        let has_replicas = schema["properties"]["spec"]["properties"]["replicas"]["type"] == "integer"
            && !kind.aliases.iter().any(|alias| alias.alias == "replicas");
        let definition = kind.crd();
        let scale = definition.spec.versions[0].subresources.as_ref().and_then(|s| s.scale.as_ref());
        assert_eq!(has_replicas, scale.is_some(), "{}", kind.name());
        if let Some(scale) = scale {
            for path in
                [Some(&scale.spec_replicas_path), Some(&scale.status_replicas_path), scale.label_selector_path.as_ref()]
            {
                let path = path.unwrap_or_else(|| panic!("{} has a selector for autoscalers", kind.name()));
                assert!(at(schema, path).is_object(), "{}: {path} is not in the schema", kind.name());
            }
        }
    }
}

#[test]
fn conditions_are_a_map_by_type_so_that_several_managers_can_write_them() {
    for kind in c5c3_api::all() {
        let conditions = &kind.open_api()["properties"]["status"]["properties"]["conditions"];
        assert_eq!(conditions["x-kubernetes-list-type"], "map", "{}", kind.name());
        assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]), "{}", kind.name());
    }
}

#[test]
fn every_field_is_described_for_kubectl_explain() {
    fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            if field["description"].as_str().is_none_or(str::is_empty) {
                found.push(path.clone());
            }
            undescribed(field, &path, found);
            undescribed(&field["items"], &format!("{path}[]"), found);
        }
    }
    let mut found = Vec::new();
    for kind in c5c3_api::all() {
        undescribed(&kind.open_api(), kind.name(), &mut found);
    }
    assert_eq!(found, [""; 0]);
}

fn at<'a>(schema: &'a Value, path: &str) -> &'a Value {
    path.trim_start_matches('.').split('.').fold(schema, |schema, field| &schema["properties"][field])
}
