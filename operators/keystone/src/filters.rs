//! Filters around Keystone's application: its pipeline, and what the entry point puts into it.

use c5c3_api::Problem;
use c5c3_api::blocks::Middleware;
use c5c3_service::pipeline::{Filter, Pipeline};
use serde_json::{Value, json};

/// Keystone's own pipeline.
const PIPELINE: Pipeline = Pipeline {
    service: "Keystone",
    filters: &["cors", "sizelimit", "http_proxy_to_wsgi", "osprofiler", "request_id", INNER, "authtoken"],
};

/// The first filter of the part that is closer to the application, which Keystone loads apart from the others.
const INNER: &str = "url_normalize";

/// Everything that is wrong with positions and names.
pub fn problems(middleware: &[Middleware]) -> Vec<Problem> {
    PIPELINE.problems(middleware)
}

/// What the entry point calls before it loads Keystone; nothing without filters.
pub fn hooks(middleware: &[Middleware]) -> Vec<Value> {
    match PIPELINE.insert(middleware) {
        Ok(mut outer) if !middleware.is_empty() => {
            let inner = outer.iter().position(|filter| filter.name() == INNER).unwrap_or(outer.len());
            let inner = outer.split_off(inner);
            let parts = [outer, inner].map(|part| part.iter().map(hook).collect::<Vec<_>>());
            vec![json!({"call": "filters:insert", "args": parts})]
        }
        _ => Vec::new(),
    }
}

fn hook(filter: &Filter<'_>) -> Value {
    match filter {
        Filter::Own(name) => json!(name),
        Filter::Added(Middleware { name, filter_factory, config, .. }) => {
            json!({"name": name, "factory": filter_factory, "config": config})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(name: &str, position: &Value) -> Middleware {
        serde_json::from_value(json!({"name": name, "filterFactory": "x:y", "position": position})).unwrap()
    }

    #[test]
    fn filters_are_given_in_the_two_parts_that_keystone_loads() {
        let added = |name: &str| json!({"name": name, "factory": "x:y", "config": {}});
        let given = [filter("audit", &json!({"after": "authtoken"})), filter("third", &json!({"before": INNER}))];
        let outer = json!(["cors", "sizelimit", "http_proxy_to_wsgi", "osprofiler", "request_id", added("third")]);
        let inner = json!([INNER, "authtoken", added("audit")]);
        assert_eq!(hooks(&given), [json!({"call": "filters:insert", "args": [outer, inner]})]);
        assert!(hooks(&[]).is_empty());
    }

    #[test]
    fn a_position_beside_an_unknown_filter_is_refused() {
        let found = problems(&[filter("audit", &json!({"after": "admin_service"}))]);
        assert!(found[0].what.contains("Keystone") && found[0].fix.contains("authtoken"), "{found:?}");
    }
}
