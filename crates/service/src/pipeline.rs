//! WSGI pipelines as data: a service's own filters in the order that a request passes them, and users' filters beside them.
//!
//! A service whose pipeline is code takes the order ([`Pipeline::insert`]); one whose pipeline is a paste file takes the file
//! ([`PasteFile::render`]).

use c5c3_api::blocks::{Middleware, Position};
use c5c3_api::{Problem, problem};
use c5c3_kit::ini::{Ini, IniError, OsloValue};
use secrecy::{ExposeSecret, SecretString};

/// A service's own pipeline.
#[derive(Clone, Copy, Debug)]
pub struct Pipeline {
    /// The service, as messages name it: `Keystone`.
    pub service: &'static str,
    /// Its own filters, in the order that a request passes them.
    pub filters: &'static [&'static str],
}

/// One position in a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter<'a> {
    /// A filter of the service.
    Own(&'static str),
    /// A filter that a user adds.
    Added(&'a Middleware),
}

impl Filter<'_> {
    /// The filter's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Own(name) => name,
            Self::Added(middleware) => &middleware.name,
        }
    }
}

impl Pipeline {
    /// The pipeline with users' filters at their positions, one after the other; or every position and name that is wrong.
    pub fn insert<'a>(&self, middleware: &'a [Middleware]) -> Result<Vec<Filter<'a>>, Vec<Problem>> {
        let mut all: Vec<Filter<'a>> = self.filters.iter().copied().map(Filter::Own).collect();
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
                all.insert(place + usize::from(after.is_some()), Filter::Added(one));
            } else {
                let names: Vec<&str> = all.iter().map(Filter::name).collect();
                let what = format!("names {beside:?}, which is not in the pipeline of {}", self.service);
                problems.push(problem(format!("{path}.position"), what, format!("name one of {}", names.join(", "))));
            }
        }
        if problems.is_empty() { Ok(all) } else { Err(problems) }
    }

    /// Everything that is wrong with positions and names.
    pub fn problems(&self, middleware: &[Middleware]) -> Vec<Problem> {
        self.insert(middleware).err().unwrap_or_default()
    }
}

/// A part of a paste file: its name, and the options of its section.
pub type Part = (&'static str, &'static [(&'static str, &'static str)]);

/// A pipeline that is described by a paste file, such as `glance-api-paste.ini`.
#[derive(Clone, Copy, Debug)]
pub struct PasteFile {
    /// The pipeline, and the order of its filters.
    pub pipeline: Pipeline,
    /// What the service loads: the name after `pipeline:`.
    pub name: &'static str,
    /// The options of each filter of the pipeline, `paste.filter_factory` among them.
    pub filters: &'static [Part],
    /// The application at the end of the pipeline, which is among the rest.
    pub app: &'static str,
    /// The other sections: applications, and which path leads to which, as they stand in the file.
    pub rest: &'static str,
}

impl PasteFile {
    /// The file, with users' filters in the pipeline. Their positions were checked before ([`Pipeline::problems`]); without
    /// that check a wrong position leaves the service's own pipeline.
    pub fn render(&self, middleware: &[Middleware]) -> Result<SecretString, IniError> {
        let mut file = Ini::new();
        let own = || self.pipeline.filters.iter().copied().map(Filter::Own).collect();
        let order = self.pipeline.insert(middleware).unwrap_or_else(|_| own());
        let names: Vec<&str> = order.iter().map(Filter::name).chain([self.app]).collect();
        file.set(&format!("pipeline:{}", self.name), "pipeline", text(&names.join(" ")))?;
        for (name, options) in self.filters {
            file.section(&format!("filter:{name}"), options.iter().map(|(key, value)| (*key, text(value))))?;
        }
        for filter in &order {
            let Filter::Added(one) = filter else { continue };
            let section = format!("filter:{}", one.name);
            file.section(&section, one.config.iter().map(|(key, value)| (key.as_str(), text(value))))?;
            // Last, so that an option of that name cannot load something else.
            file.set(&section, "paste.filter_factory", text(&one.filter_factory))?;
        }
        Ok(format!("{}{}", file.render().expose_secret(), self.rest).into())
    }
}

/// The text as paste reads it back: `%` would begin an interpolation, and `$` means nothing.
fn text(text: &str) -> OsloValue {
    OsloValue::interpolated(text.replace('%', "%%"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const PIPELINE: Pipeline = Pipeline { service: "Orchard", filters: &["gate", "path", "door"] };

    fn filter(name: &str, position: &Value) -> Middleware {
        let config = json!({"share": "100%", "price": "$5", "paste.filter_factory": "other:thing"});
        let config = if name == "audit" { config } else { json!({}) };
        serde_json::from_value(json!({"name": name, "filterFactory": "x:y", "position": position, "config": config}))
            .unwrap()
    }

    #[test]
    fn filters_are_put_where_they_are_told_one_after_the_other() {
        let given = [
            filter("audit", &json!({"after": "door"})),
            filter("bell", &json!({"before": "gate"})),
            filter("second", &json!({"after": "bell"})),
            filter("third", &json!({"before": "door"})),
        ];
        let all = PIPELINE.insert(&given).unwrap();
        let names: Vec<&str> = all.iter().map(Filter::name).collect();
        assert_eq!(names.join(" "), "bell second gate path third door audit");
    }

    #[test]
    fn an_unknown_position_and_a_name_that_is_taken_are_refused_together() {
        let given = [filter("audit", &json!({"after": "well"})), filter("gate", &json!({"after": "path"}))];
        let found = PIPELINE.problems(&given);
        assert!(found[0].what.contains("Orchard") && found[0].fix.contains("gate, path, door"), "{found:?}");
        assert!(found[1].path.ends_with("[1].name"), "{found:?}");
        assert!(PIPELINE.problems(&[]).is_empty());
    }

    #[test]
    fn a_paste_file_has_the_pipeline_its_filters_and_the_application() {
        let file = PasteFile {
            pipeline: PIPELINE,
            name: "orchard-api",
            filters: &[
                ("gate", &[("paste.filter_factory", "orchard.gate:factory")]),
                ("path", &[("paste.filter_factory", "orchard.path:factory"), ("width", "2")]),
                ("door", &[("paste.filter_factory", "orchard.door:factory")]),
            ],
            app: "trees",
            rest: "\n[app:trees]\npaste.app_factory = orchard.api:factory\n",
        };
        let given = [filter("audit", &json!({"after": "gate"}))];
        let text = file.render(&given).unwrap();
        assert_eq!(
            text.expose_secret(),
            "[filter:audit]\npaste.filter_factory = x:y\nprice = $5\nshare = 100%%\n\n\
             [filter:door]\npaste.filter_factory = orchard.door:factory\n\n\
             [filter:gate]\npaste.filter_factory = orchard.gate:factory\n\n\
             [filter:path]\npaste.filter_factory = orchard.path:factory\nwidth = 2\n\n\
             [pipeline:orchard-api]\npipeline = gate audit path door trees\n\n\
             [app:trees]\npaste.app_factory = orchard.api:factory\n"
        );
    }
}
