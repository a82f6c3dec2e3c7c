//! Policies: which paths a token may do what with.
//!
//! What a policy says and this cannot enforce (parameters that are allowed or denied, life of wrapped answers) is
//! refused: a rule that was dropped could be the one that closes what another opens.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A policy that permits everything.
pub(super) const ROOT: &str = "root";

const CAPABILITIES: &[&str] = &["create", "delete", "deny", "list", "patch", "read", "scan", "sudo", "update"];

/// What may be done with the paths that a pattern matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rule {
    pattern: String,
    capabilities: Vec<String>,
}

impl Rule {
    fn new(pattern: String, capabilities: Vec<String>) -> Result<Self, String> {
        if let Some(unknown) = capabilities.iter().find(|name| !CAPABILITIES.contains(&name.as_str())) {
            return Err(format!("path {pattern:?}: invalid capability {unknown:?}"));
        }
        if pattern.strip_suffix('*').unwrap_or(&pattern).contains('*') {
            return Err(format!("path {pattern:?}: '*' is only known at the end"));
        }
        if pattern.contains("+*") {
            return Err(format!("path {pattern:?}: '+*' is forbidden"));
        }
        Ok(Self { pattern, capabilities })
    }

    /// Whether it is about a path. That of a list ends with a slash, which a pattern without wildcards may leave out.
    fn covers(&self, path: &str) -> bool {
        let is_exact = !self.pattern.ends_with('*') && self.pattern.split('/').all(|part| part != "+");
        matches(&self.pattern, path) || is_exact && path.strip_suffix('/') == Some(self.pattern.as_str())
    }
}

/// Reads a policy, in the language of policies or as JSON. The error says what cannot be read.
pub(super) fn parse(text: &str) -> Result<Vec<Rule>, String> {
    let rules = match serde_json::from_str::<Value>(text) {
        Ok(json) => from_json(&json)?,
        Err(_) => from_language(text)?,
    };
    if rules.is_empty() { Err("there is no rule in it".to_owned()) } else { Ok(rules) }
}

fn from_json(json: &Value) -> Result<Vec<Rule>, String> {
    let object = |value: &Value| value.as_object().cloned().ok_or("an object is expected");
    let top = object(json)?;
    if let Some(unknown) = top.keys().find(|key| *key != "path") {
        return Err(format!("{unknown:?} is not supported"));
    }
    let mut rules = Vec::new();
    for (pattern, rule) in object(&json["path"])? {
        let rule = object(&rule)?;
        if let Some(unknown) = rule.keys().find(|key| *key != "capabilities") {
            return Err(format!("path {pattern:?}: {unknown:?} is not supported"));
        }
        let list = rule.get("capabilities").and_then(Value::as_array);
        let words = list.and_then(|list| list.iter().map(|word| word.as_str().map(str::to_owned)).collect());
        rules.push(Rule::new(pattern.clone(), words.ok_or(format!("path {pattern:?}: capabilities are a list"))?)?);
    }
    Ok(rules)
}

/// One piece of a policy's text.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Word(String),
    Text(String),
    Sign(char),
}

/// Splits a policy into its pieces, without comments.
fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            _ if c.is_whitespace() => {}
            '#' => while rest.next_if(|c| *c != '\n').is_some() {},
            '/' if rest.peek() == Some(&'/') => while rest.next_if(|c| *c != '\n').is_some() {},
            '/' if rest.peek() == Some(&'*') => {
                rest.next();
                let mut before = ' ';
                while !rest.next().is_some_and(|c| std::mem::replace(&mut before, c) == '*' && c == '/') {
                    if rest.peek().is_none() {
                        return Err("a comment does not end".to_owned());
                    }
                }
            }
            '"' => {
                let mut text = String::new();
                loop {
                    match rest.next() {
                        Some('"') => break,
                        Some('\\' | '\n') | None => return Err(format!("the text after {text:?} cannot be read")),
                        Some(c) => text.push(c),
                    }
                }
                pieces.push(Piece::Text(text));
            }
            '{' | '}' | '[' | ']' | '=' | ',' => pieces.push(Piece::Sign(c)),
            _ if c.is_ascii_alphanumeric() || c == '_' => {
                let mut word = c.to_string();
                while let Some(c) = rest.next_if(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')) {
                    word.push(c);
                }
                pieces.push(Piece::Word(word));
            }
            _ => return Err(format!("{c:?} is not expected")),
        }
    }
    Ok(pieces)
}

/// `path "..." { capabilities = [...] }`, as often as there are rules.
fn from_language(text: &str) -> Result<Vec<Rule>, String> {
    let mut pieces = pieces(text)?.into_iter().peekable();
    let mut rules = Vec::new();
    while let Some(piece) = pieces.next() {
        if piece != Piece::Word("path".to_owned()) {
            return Err(format!("{piece:?} is not supported where a path is expected"));
        }
        let Some(Piece::Text(pattern)) = pieces.next() else {
            return Err("a path has its pattern in quotes".to_owned());
        };
        let mut expect = |wanted: char| match pieces.next() {
            Some(Piece::Sign(sign)) if sign == wanted => Ok(()),
            other => Err(format!("path {pattern:?}: {wanted:?} is expected, not {other:?}")),
        };
        expect('{')?;
        let mut capabilities = None;
        loop {
            match pieces.next() {
                Some(Piece::Sign('}')) => break,
                Some(Piece::Word(word)) if word == "capabilities" && capabilities.is_none() => {
                    capabilities = Some(list(&pattern, &mut pieces)?);
                }
                Some(Piece::Word(word)) => return Err(format!("path {pattern:?}: {word:?} is not supported")),
                other => return Err(format!("path {pattern:?}: {other:?} is not expected")),
            }
        }
        let capabilities = capabilities.ok_or(format!("path {pattern:?}: capabilities are missing"))?;
        rules.push(Rule::new(pattern, capabilities)?);
    }
    Ok(rules)
}

/// `= ["a", "b"]`.
fn list(pattern: &str, pieces: &mut impl Iterator<Item = Piece>) -> Result<Vec<String>, String> {
    let wrong = |piece: Option<Piece>| format!("path {pattern:?}: capabilities: {piece:?} is not expected");
    for sign in ['=', '['] {
        match pieces.next() {
            Some(Piece::Sign(found)) if found == sign => {}
            other => return Err(wrong(other)),
        }
    }
    let (mut words, mut may_follow) = (Vec::new(), true);
    loop {
        match pieces.next() {
            Some(Piece::Sign(']')) => return Ok(words),
            Some(Piece::Text(word)) if may_follow => {
                words.push(word);
                may_follow = false;
            }
            Some(Piece::Sign(',')) if !may_follow => may_follow = true,
            other => return Err(wrong(other)),
        }
    }
}

/// Whether rules permit a capability for a path.
///
/// Of the patterns that match, the one decides that is the most specific. Several rules of one pattern count as one, with
/// the capabilities of all of them; `deny` among them denies everything.
pub(super) fn permits<'a>(rules: impl Iterator<Item = &'a Rule>, path: &str, capability: &str) -> bool {
    let matching: Vec<&Rule> = rules.filter(|rule| rule.covers(path)).collect();
    let Some(decisive) = matching
        .iter()
        .map(|rule| rule.pattern.as_str())
        .max_by(|one, other| specificity(one).cmp(&specificity(other)))
    else {
        return false;
    };
    let words = || matching.iter().filter(|rule| rule.pattern == decisive).flat_map(|rule| &rule.capabilities);
    !words().any(|word| word == "deny") && words().any(|word| word == capability)
}

/// OpenBao's order of patterns: later wildcards win, then an end without `*`, then fewer `+`, then length, then the letters.
fn specificity(pattern: &str) -> (usize, bool, Reverse<usize>, usize, &str) {
    let ends = pattern.ends_with('*');
    let mut at = 0;
    let mut plus = None;
    for part in pattern.split('/') {
        if part == "+" && plus.is_none() {
            plus = Some(at);
        }
        at += part.len() + 1;
    }
    let first = plus.or(ends.then(|| pattern.len() - 1)).unwrap_or(usize::MAX);
    let wildcards = pattern.split('/').filter(|part| *part == "+").count();
    (first, !ends, Reverse(wildcards), pattern.len(), pattern)
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
              // for nova
              capabilities = ["create", "read",]
            }
            /* and } not this */
            path "kv-v2/data/openstack/secret" { capabilities = ["deny"] } # path "commented/*" {
        "#;
        let rules = parse(text).unwrap();
        let may = |path: &str, what: &str| permits(rules.iter(), path, what);
        assert!(may("kv-v2/data/openstack/nova", "read") && !may("kv-v2/data/openstack/nova", "delete"));
        assert!(!may("kv-v2/data/openstack/secret", "read") && !may("commented/x", "read"));
        let json = r#"{"path": {"a/*": {"capabilities": ["list"]}}}"#;
        assert!(permits(parse(json).unwrap().iter(), "a/b", "list"));
    }

    #[test]
    fn the_most_specific_pattern_decides_and_deny_wins_within_one() {
        let rules = |text: &str| parse(text).unwrap();
        let rule = |pattern: &str, word: &str| format!("path \"{pattern}\" {{ capabilities = [\"{word}\"] }}\n");
        for (weaker, stronger, path) in [
            ("kv/*", "kv/a/*", "kv/a/b"),
            ("kv/+/b", "kv/a/*", "kv/a/b"),
            ("kv/+/b", "kv/a*", "kv/ab/b"),
            ("kv/a/*", "kv/a/+", "kv/a/b"),
            ("kv/+/+/c", "kv/+/b/c", "kv/a/b/c"),
            ("kv/a/b*", "kv/a/b", "kv/a/b"),
        ] {
            let text = rule(weaker, "deny") + &rule(stronger, "read");
            assert!(permits(rules(&text).iter(), path, "read"), "{stronger} over {weaker}");
            let text = rule(weaker, "read") + &rule(stronger, "deny");
            assert!(!permits(rules(&text).iter(), path, "read"), "{stronger} over {weaker}");
        }
        let both = rules(&(rule("kv/a", "read") + &rule("kv/a", "list")));
        assert!(permits(both.iter(), "kv/a", "read") && permits(both.iter(), "kv/a", "list"));
        let denied = rules(&(rule("kv/a", "read") + &rule("kv/a", "deny")));
        assert!(!permits(denied.iter(), "kv/a", "read"));
    }

    #[test]
    fn a_list_is_of_the_path_with_a_slash() {
        let may = |pattern: &str, path: &str| {
            let text = format!("path \"{pattern}\" {{ capabilities = [\"list\"] }}");
            permits(parse(&text).unwrap().iter(), path, "list")
        };
        assert!(may("kv/metadata/*", "kv/metadata/") && may("kv/metadata", "kv/metadata/"));
        assert!(may("kv/metadata/", "kv/metadata/") && !may("kv/metadata/a", "kv/metadata/"));
    }

    #[test]
    fn a_policy_of_which_anything_cannot_be_read_is_refused() {
        let open = r#"path "a/*" { capabilities = ["read"] }"#;
        for (rest, why) in [
            (r#"path "a/b" { denied_parameters = {"x" = []} capabilities = ["deny"] }"#, "denied_parameters"),
            (r#"path "a/b" { capabilities = ["deny"] min_wrapping_ttl = "1s" }"#, "min_wrapping_ttl"),
            (r#"path "a/b" { capabilities = ["forbid"] }"#, "invalid capability \"forbid\""),
            (r#"path "a/b" { policy = "deny" }"#, "\"policy\" is not supported"),
            (r#"path "a/b" { }"#, "capabilities are missing"),
            (r#"path "a/b" { capabilities = ["deny" }"#, "is not expected"),
            (r#"path "a/+*" { capabilities = ["deny"] }"#, "forbidden"),
            (r#"path "a/*/b" { capabilities = ["deny"] }"#, "only known at the end"),
            (r#"path ab { capabilities = ["deny"] }"#, "in quotes"),
            (r#"name = "x""#, "where a path is expected"),
            ("/* path", "does not end"),
        ] {
            let refused = parse(&format!("{open}\n{rest}")).unwrap_err();
            assert!(refused.contains(why), "{rest}: {refused}");
        }
        for json in [
            r#"{"path": {"a/*": {"capabilities": ["read"]}, "a/b": {"denied_parameters": {}, "capabilities": ["deny"]}}}"#,
            r#"{"path": {"a/*": {"capabilities": "read"}}}"#,
            r#"{"path": {"a/*": {}}}"#,
            r#"{"paths": {}, "path": {"a": {"capabilities": ["read"]}}}"#,
            "[]",
            "",
            "let everybody in",
        ] {
            assert!(parse(json).is_err(), "{json}");
        }
    }
}
