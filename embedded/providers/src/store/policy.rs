//! Policies: which paths a token may do what with.

use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A policy that permits everything.
pub(super) const ROOT: &str = "root";

/// `path "..." { ... capabilities = [...] }`, as people write it.
static RULE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?s)path\s+"([^"]+)"\s*\{[^}]*?capabilities\s*=\s*\[([^\]]*)\]"#).expect("it is well formed")
});

/// What may be done with the paths that a pattern matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rule {
    pattern: String,
    capabilities: Vec<String>,
}

/// Reads a policy, in the language of policies or as JSON. None if there is no rule in it, which is a mistake.
pub(super) fn parse(text: &str) -> Option<Vec<Rule>> {
    let rules = serde_json::from_str::<Value>(text).map_or_else(|_| from_language(text), |json| from_json(&json));
    (!rules.is_empty()).then_some(rules)
}

fn from_language(text: &str) -> Vec<Rule> {
    // Comments may hold anything.
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n");
    let words = |list: &str| -> Vec<String> {
        let words = list.split(',').map(|word| word.trim().trim_matches('"').to_owned());
        words.filter(|word| !word.is_empty()).collect()
    };
    let found = RULE.captures_iter(&lines);
    found.map(|found| Rule { pattern: found[1].to_owned(), capabilities: words(&found[2]) }).collect()
}

fn from_json(json: &Value) -> Vec<Rule> {
    let rules = json["path"].as_object().into_iter().flatten();
    rules
        .map(|(pattern, rule)| {
            let words = rule["capabilities"].as_array().into_iter().flatten();
            let capabilities = words.filter_map(|word| word.as_str().map(str::to_owned)).collect();
            Rule { pattern: pattern.clone(), capabilities }
        })
        .collect()
}

/// Whether rules permit one of the capabilities for a path. Of several patterns that match, the longest decides.
pub(super) fn permits<'a>(rules: impl Iterator<Item = &'a Rule>, path: &str, capabilities: &[&str]) -> bool {
    let matching: Vec<&Rule> = rules.filter(|rule| matches(&rule.pattern, path)).collect();
    let longest = matching.iter().map(|rule| rule.pattern.trim_end_matches('*').len()).max().unwrap_or(0);
    let words = || {
        let decisive = matching.iter().filter(|rule| rule.pattern.trim_end_matches('*').len() == longest);
        decisive.flat_map(|rule| &rule.capabilities)
    };
    !words().any(|word| word == "deny") && words().any(|word| capabilities.contains(&word.as_str()))
}

/// Whether a pattern matches: `+` stands for one part of a path, `*` at the end for whatever follows.
fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, open) = pattern.strip_suffix('*').map_or((pattern, false), |pattern| (pattern, true));
    let (wanted, parts): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), path.split('/').collect());
    let Some((last, before)) = wanted.split_last() else { return false };
    if parts.len() < wanted.len() || (!open && parts.len() != wanted.len()) {
        return false;
    }
    let same = |wanted: &str, part: &str| wanted == "+" || wanted == part;
    let end = parts[before.len()];
    before.iter().zip(&parts).all(|(wanted, part)| same(wanted, part))
        && if open { *last == "+" || end.starts_with(last) } else { same(last, end) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_parts_and_ends() {
        for (pattern, path, wanted) in [
            ("kv/data/a", "kv/data/a", true),
            ("kv/data/a", "kv/data/ab", false),
            ("kv/data/a*", "kv/data/ab/c", true),
            ("kv/data/*", "kv/data", false),
            ("kv/data/+/db", "kv/data/nova/db", true),
            ("kv/data/+/db", "kv/data/nova/x/db", false),
            ("*", "anything/at/all", true),
        ] {
            assert_eq!(matches(pattern, path), wanted, "{pattern} {path}");
        }
    }

    #[test]
    fn a_policy_is_read_as_people_write_it_and_as_json() {
        let text = r#"
            # path "commented/*" { capabilities = ["read"] }
            path "kv-v2/data/openstack/*" {
              capabilities = ["create", "read"]
            }
            path "kv-v2/data/openstack/secret" { capabilities = ["deny"] }
        "#;
        let rules = parse(text).unwrap();
        let may = |path: &str, what: &str| permits(rules.iter(), path, &[what]);
        assert!(may("kv-v2/data/openstack/nova", "read") && !may("kv-v2/data/openstack/nova", "delete"));
        assert!(!may("kv-v2/data/openstack/secret", "read") && !may("commented/x", "read"));
        let json = r#"{"path": {"a/*": {"capabilities": ["list"]}}}"#;
        assert!(permits(parse(json).unwrap().iter(), "a/b", &["list"]));
        assert_eq!(parse("let everybody in"), None);
    }
}
