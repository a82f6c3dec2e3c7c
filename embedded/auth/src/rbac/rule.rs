//! One rule of a role: what it allows, and whether it allows all that another one does.

use serde::{Deserialize, Deserializer, Serialize};

use super::Attributes;
use crate::wording::quoted_list;

const ALL: &str = "*";

/// Verbs on resources, or verbs on paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// What may be done; `*` for everything.
    #[serde(deserialize_with = "null_is_empty")]
    pub verbs: Vec<String>,
    /// API groups; empty text is the core group.
    #[serde(deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// `pods`, `pods/log`, `*/scale` for that subresource of anything, `*` for everything.
    #[serde(deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Only objects of these names; none listed means all.
    #[serde(deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Paths, with `*` at the end for everything below.
    #[serde(rename = "nonResourceURLs", deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

/// Go writes a nil slice as `null`, and clients send that back.
pub(super) fn null_is_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(value: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_default())
}

impl Rule {
    /// Whether the rule allows what `wanted` describes.
    pub fn allows(&self, wanted: &Attributes<'_>) -> bool {
        if !has_or_all(&self.verbs, wanted.verb) {
            return false;
        }
        if wanted.is_resource() {
            has_or_all(&self.api_groups, wanted.group)
                && self.resources.iter().any(|resource| resource_matches(resource, wanted))
                && (self.resource_names.is_empty() || has(&self.resource_names, wanted.name))
        } else {
            self.non_resource_urls.iter().any(|url| url == ALL || url_covers(url, wanted.path))
        }
    }

    /// Whether this rule alone allows everything that `other` allows.
    pub(super) fn covers(&self, other: &Rule) -> bool {
        let names = match (self.resource_names.is_empty(), other.resource_names.is_empty()) {
            (true, _) => true,
            (false, true) => false,
            (false, false) => has_all(&self.resource_names, &other.resource_names),
        };
        names
            && (has(&self.verbs, ALL) || has_all(&self.verbs, &other.verbs))
            && (has(&self.api_groups, ALL) || has_all(&self.api_groups, &other.api_groups))
            && other.resources.iter().all(|resource| self.covers_resource(resource))
            && other
                .non_resource_urls
                .iter()
                .all(|url| self.non_resource_urls.iter().any(|own| own == ALL || url_covers(own, url)))
    }

    fn covers_resource(&self, resource: &str) -> bool {
        self.resources.iter().any(|own| own == ALL || own == resource)
            || resource
                .split_once('/')
                .is_some_and(|(_, sub)| self.resources.iter().any(|own| own.strip_prefix("*/") == Some(sub)))
    }

    /// How many single permissions the rule is made of.
    pub(super) fn size(&self) -> usize {
        let names = self.resource_names.len().max(1);
        let resources = [self.api_groups.len(), self.resources.len(), self.verbs.len(), names];
        let on_resources = resources.into_iter().fold(1, usize::saturating_mul);
        on_resources.saturating_add(self.non_resource_urls.len().saturating_mul(self.verbs.len()))
    }

    /// Single permissions: one verb on one resource of one group and, if named, one object; or one verb on one path.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Rule> + '_ {
        let names: Vec<Option<&String>> = match self.resource_names.as_slice() {
            [] => vec![None],
            names => names.iter().map(Some).collect(),
        };
        let on_resources = self.api_groups.iter().flat_map(move |group| {
            let names = names.clone();
            self.resources.iter().flat_map(move |resource| {
                let names = names.clone();
                self.verbs.iter().flat_map(move |verb| {
                    names.clone().into_iter().map(move |name| Rule {
                        verbs: vec![verb.clone()],
                        api_groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        resource_names: name.into_iter().cloned().collect(),
                        non_resource_urls: Vec::new(),
                    })
                })
            })
        });
        let on_paths = self.non_resource_urls.iter().flat_map(|url| {
            self.verbs.iter().map(|verb| Rule {
                verbs: vec![verb.clone()],
                non_resource_urls: vec![url.clone()],
                ..Rule::default()
            })
        });
        on_resources.chain(on_paths)
    }

    /// The rule in one line, as refusals list it.
    pub(super) fn line(&self) -> String {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let shown: Vec<_> = parts
            .iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(label, values)| format!("{label}:{}", quoted_list(values)))
            .collect();
        format!("{{{}}}", shown.join(", "))
    }
}

fn resource_matches(rule: &str, wanted: &Attributes<'_>) -> bool {
    if rule == ALL {
        return true;
    }
    match rule.split_once('/') {
        None => rule == wanted.resource && wanted.subresource.is_empty(),
        Some((resource, sub)) => {
            !wanted.subresource.is_empty()
                && sub == wanted.subresource
                && (resource == ALL || resource == wanted.resource)
        }
    }
}

/// `/logs/*` covers what begins with `/logs/`, but not `/logs`.
fn url_covers(rule: &str, url: &str) -> bool {
    rule == url || (rule.ends_with('*') && url.starts_with(rule.trim_end_matches('*')))
}

fn has(set: &[String], value: &str) -> bool {
    set.iter().any(|own| own == value)
}

fn has_or_all(set: &[String], value: &str) -> bool {
    set.iter().any(|own| own == ALL || own == value)
}

fn has_all(set: &[String], values: &[String]) -> bool {
    values.iter().all(|value| has(set, value))
}
