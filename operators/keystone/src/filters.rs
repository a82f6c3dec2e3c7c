//! Filters around Keystone's application: where in its pipeline they go.

use c5c3_api::blocks::{Middleware, Position};
use c5c3_api::{Problem, problem};
use serde_json::{Value, json};

/// Keystone's own pipeline, in the order that a request passes it. The second part is closer to the application, and never
/// before the first.
const OUTER: &[&str] = &["cors", "sizelimit", "http_proxy_to_wsgi", "osprofiler", "request_id"];
const INNER: &[&str] = &["url_normalize", "authtoken"];

/// One place in the pipeline.
#[derive(Clone, Debug, PartialEq)]
enum Filter<'a> {
    Own(&'a str),
    Given(&'a Middleware),
}

impl Filter<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Own(name) => name,
            Self::Given(middleware) => &middleware.name,
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Own(name) => json!(name),
            Self::Given(Middleware { name, filter_factory, config, .. }) => {
                json!({"name": name, "factory": filter_factory, "config": config})
            }
        }
    }
}

/// The pipeline with filters in it: what comes before `url_normalize`, and the rest; or what is wrong with a position.
fn pipeline(middleware: &[Middleware]) -> Result<[Vec<Filter<'_>>; 2], Vec<Problem>> {
    let mut all: Vec<Filter<'_>> = OUTER.iter().chain(INNER).map(|name| Filter::Own(name)).collect();
    let mut problems = Vec::new();
    for (index, one) in middleware.iter().enumerate() {
        let path = format!("spec.middleware[{index}]");
        if all.iter().any(|filter| filter.name() == one.name) {
            problems.push(problem(format!("{path}.name"), "is the name of another filter", "choose another name"));
            continue;
        }
        let Position { before, after } = &one.position;
        let beside = before.as_ref().or(after.as_ref()).map_or("", String::as_str);
        if let Some(place) = all.iter().position(|filter| filter.name() == beside) {
            all.insert(place + usize::from(after.is_some()), Filter::Given(one));
        } else {
            let names: Vec<&str> = all.iter().map(Filter::name).collect();
            let what = format!("names {beside:?}, which is not in Keystone's pipeline");
            problems.push(problem(format!("{path}.position"), what, format!("name one of {}", names.join(", "))));
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let inner = all.iter().position(|filter| filter.name() == INNER[0]).unwrap_or(all.len());
    let inner = all.split_off(inner);
    Ok([all, inner])
}

/// Everything that is wrong with positions and names.
pub fn problems(middleware: &[Middleware]) -> Vec<Problem> {
    pipeline(middleware).err().unwrap_or_default()
}

/// What the entry point calls before it loads Keystone; nothing without filters.
pub fn hooks(middleware: &[Middleware]) -> Vec<Value> {
    match pipeline(middleware) {
        Ok(parts) if !middleware.is_empty() => {
            let parts = parts.map(|part| part.iter().map(Filter::json).collect::<Vec<_>>());
            vec![json!({"call": "filters:insert", "args": parts})]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(name: &str, position: &Value) -> Middleware {
        serde_json::from_value(json!({"name": name, "filterFactory": "x:y", "position": position})).unwrap()
    }

    fn names(middleware: &[Middleware]) -> [String; 2] {
        pipeline(middleware).unwrap().map(|part| part.iter().map(Filter::name).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn filters_go_where_they_are_told_one_after_the_other() {
        let given = [
            filter("audit", &json!({"after": "authtoken"})),
            filter("gate", &json!({"before": "cors"})),
            filter("second", &json!({"after": "gate"})),
            filter("third", &json!({"before": "url_normalize"})),
        ];
        assert_eq!(
            names(&given),
            [
                "gate second cors sizelimit http_proxy_to_wsgi osprofiler request_id third",
                "url_normalize authtoken audit"
            ]
        );
    }

    #[test]
    fn a_place_that_is_not_there_is_refused_with_those_that_are() {
        let found =
            problems(&[filter("audit", &json!({"after": "admin_service"})), filter("cors", &json!({"after": "cors"}))]);
        assert!(found[0].fix.contains("authtoken") && found[1].path.ends_with("[1].name"));
    }
}
