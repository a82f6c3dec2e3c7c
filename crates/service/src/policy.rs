//! Policies that replace a service's own: whether they can be understood, and the file of them.
//!
//! oslo.policy logs a rule that it cannot parse and then denies what it is about, and takes a rule that names an unknown
//! one the same way. Both are found here, before a pod reads them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use c5c3_api::blocks::PolicyOverrides;
use c5c3_api::{Problem, problem};
use c5c3_kit::{Inputs, Ref, Wait};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Resource;

use crate::release_options::ReleaseOptions;

/// The key of the ConfigMap that holds rules.
const KEY: &str = "policy.yaml";

/// Rules by the name of the policy.
pub type Rules = BTreeMap<String, String>;

/// Why there are no rules.
#[derive(Debug)]
pub enum PolicyError {
    /// Something has to come first.
    Wait(Box<Wait>),
    /// They are wrong.
    Problems(Vec<Problem>),
}

/// The ConfigMap that overrides name.
pub fn reference(overrides: Option<&PolicyOverrides>, namespace: &str) -> Option<Ref> {
    let name = &overrides?.config_map_ref.as_ref()?.name;
    Some(Ref::namespaced::<ConfigMap>(namespace, name.to_string()))
}

/// The rules of the ConfigMap and, over them, those of the spec; or everything that is wrong with them.
pub fn rules<K: Resource>(
    overrides: Option<&PolicyOverrides>,
    inputs: &Inputs<K>,
    namespace: &str,
    release_options: Option<&ReleaseOptions>,
) -> Result<Rules, PolicyError> {
    let mut rules = Rules::new();
    let Some(own) = overrides else { return Ok(rules) };
    if let Some(reference) = reference(overrides, namespace) {
        rules = read(inputs, &reference)?;
    }
    rules.extend(own.rules.clone());
    let place = |name: &str| match (own.rules.contains_key(name), &own.config_map_ref) {
        (false, Some(map)) => format!("spec.policyOverrides.configMapRef({}).{name}", map.name),
        _ => format!("spec.policyOverrides.rules.{name}"),
    };
    let problems: Vec<Problem> =
        rules.iter().flat_map(|(name, rule)| wrong(&place(name), name, rule, &rules, release_options)).collect();
    if problems.is_empty() { Ok(rules) } else { Err(PolicyError::Problems(problems)) }
}

/// The rules of a ConfigMap, or what is missing or wrong.
pub fn read<K: Resource>(inputs: &Inputs<K>, reference: &Ref) -> Result<Rules, PolicyError> {
    let namespace = reference.namespace.as_deref().unwrap_or_default();
    let create = format!("create it: kubectl create configmap {} -n {namespace} --from-file={KEY}", reference.name);
    let unusable = |wait: Wait| {
        let wait = wait.because("spec.policyOverrides.configMapRef names it").look_at(create.clone());
        PolicyError::Wait(wait.with_reason("PolicyConfigMapMissing").into())
    };
    let map: ConfigMap = inputs.typed(reference).map_err(unusable)?;
    let text = map.data.unwrap_or_default().remove(KEY).ok_or_else(|| {
        let wait = Wait::on(reference).condition(format!("has the key {KEY}"));
        unusable(wait.now(format!("has no key {KEY}")))
    })?;
    serde_saphyr::from_str(&text).map_err(|error| {
        let path = format!("spec.policyOverrides.configMapRef({}).{KEY}", reference.name);
        let what = format!("is not a flat map of policies: {}", error.to_string().lines().next().unwrap_or_default());
        PolicyError::Problems(vec![problem(
            path,
            what,
            "write one line for each policy: \"identity:list_users\": \"role:admin\"",
        )])
    })
}

fn wrong(path: &str, name: &str, rule: &str, rules: &Rules, release_options: Option<&ReleaseOptions>) -> Vec<Problem> {
    let mut found = Vec::new();
    let names = match parse(rule) {
        Ok(names) => names,
        Err(what) => {
            found.push(problem(path, what, "write checks such as role:admin, joined by and, or, not and parentheses"));
            Vec::new()
        }
    };
    let Some(release_options) = release_options else { return found };
    // What the release does not have is a rule for other rules to use, or nothing at all.
    let is_used = || rules.values().filter_map(|rule| parse(rule).ok()).flatten().any(|used| used == name);
    if !release_options.has_policy(name) && (name.contains(':') || !is_used()) {
        found.push(release_options.no_policy(path, name));
    }
    for used in names {
        if !release_options.has_policy(&used) && !rules.contains_key(&used) {
            found.push(release_options.no_policy(path, &used));
        }
    }
    found
}

/// The names of the rules that a rule uses, or why it cannot be understood.
fn parse(rule: &str) -> Result<Vec<String>, String> {
    if rule.chars().any(char::is_control) {
        return Err("has a line break or a control character".into());
    }
    let mut parser = Parser { tokens: tokens(rule), used: Vec::new() };
    parser.tokens.reverse();
    if parser.tokens.is_empty() {
        return Ok(Vec::new());
    }
    parser.alternatives()?;
    match parser.tokens.pop() {
        None => Ok(parser.used),
        Some(left) => Err(format!("has {left:?} where and, or, or its end should be")),
    }
}

/// Words and parentheses. A parenthesis in the midst of a word, as in `%(project_id)s`, belongs to the word.
fn tokens(rule: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    for word in rule.split_whitespace() {
        let opened = word.trim_start_matches('(');
        tokens.extend(std::iter::repeat_n("(".to_owned(), word.len() - opened.len()));
        let closed = opened.trim_end_matches(')');
        if !closed.is_empty() {
            tokens.push(closed.to_owned());
        }
        tokens.extend(std::iter::repeat_n(")".to_owned(), opened.len() - closed.len()));
    }
    tokens
}

/// Reads tokens from the end of its list.
struct Parser {
    tokens: Vec<String>,
    used: Vec<String>,
}

impl Parser {
    fn next_is(&mut self, word: &str) -> bool {
        let is = self.tokens.last().is_some_and(|token| token.eq_ignore_ascii_case(word));
        if is {
            self.tokens.pop();
        }
        is
    }

    fn alternatives(&mut self) -> Result<(), String> {
        self.conjunction()?;
        while self.next_is("or") {
            self.conjunction()?;
        }
        Ok(())
    }

    fn conjunction(&mut self) -> Result<(), String> {
        self.check()?;
        while self.next_is("and") {
            self.check()?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), String> {
        if self.next_is("not") {
            return self.check();
        }
        if self.next_is("(") {
            self.alternatives()?;
            return if self.next_is(")") { Ok(()) } else { Err("has a parenthesis that is not closed".into()) };
        }
        let Some(token) = self.tokens.pop() else { return Err("ends where a check should be".into()) };
        match token.split_once(':') {
            _ if token == "@" || token == "!" => {}
            Some((kind, value)) if !kind.is_empty() && !value.is_empty() => {
                if kind == "rule" {
                    self.used.push(value.to_owned());
                }
            }
            _ => return Err(format!("has {token:?}, which is no check")),
        }
        Ok(())
    }
}

/// The file: YAML, for which JSON's strings will do.
pub fn render(rules: &Rules) -> String {
    let mut text = String::new();
    for (name, rule) in rules {
        let _ =
            writeln!(text, "{}: {}", serde_json::Value::from(name.as_str()), serde_json::Value::from(rule.as_str()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str, rule: &str) -> String {
        let rules: Rules =
            [(name.to_owned(), rule.to_owned()), ("gardener".to_owned(), "role:gardener".to_owned())].into();
        let found = wrong("here", name, rule, &rules, ReleaseOptions::of("keystone", "2025.2"));
        found.into_iter().map(|problem| format!("{} {}", problem.what, problem.fix)).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn rules_as_oslo_reads_them_are_taken() {
        for rule in [
            "",
            "@",
            "!",
            "role:admin",
            "rule:admin_required or (role:reader and domain_id:%(target.user.domain_id)s)",
            "not role:guest and (rule:gardener OR user_id:%(user_id)s)",
            "'admin':%(target.role.name)s",
            "((role:a))",
        ] {
            assert_eq!(said("identity:list_users", rule), "", "{rule}");
        }
    }

    #[test]
    fn rules_that_oslo_would_turn_into_a_refusal_are_named() {
        for (rule, word) in [
            ("admin", "\"admin\""),
            ("role:admin role:reader", "where and, or"),
            ("(role:admin", "not closed"),
            ("role:admin or", "ends"),
            ("role:", "no check"),
            ("role:a\nx: y", "line break"),
        ] {
            assert!(said("identity:list_users", rule).contains(word), "{rule}: {}", said("identity:list_users", rule));
        }
    }

    #[test]
    fn a_mistyped_policy_or_rule_is_refused_with_what_was_meant() {
        assert!(said("identity:list_user", "role:admin").contains("did you mean identity:list_users?"));
        assert!(said("identity:list_users", "rule:admin_requird").contains("did you mean admin_required?"));
        assert!(said("gardner", "role:admin").contains("gardner"));
        let rules: Rules =
            [("own".to_owned(), "role:a".to_owned()), ("identity:list_users".to_owned(), "rule:own".to_owned())].into();
        assert!(wrong("here", "own", "role:a", &rules, ReleaseOptions::of("keystone", "2025.2")).is_empty());
    }

    #[test]
    fn the_file_quotes_whatever_it_holds() {
        let rules = [("identity:get_user".to_owned(), "role:\"a\" or @".to_owned())].into();
        assert_eq!(render(&rules), "\"identity:get_user\": \"role:\\\"a\\\" or @\"\n");
    }
}
