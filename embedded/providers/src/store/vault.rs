//! What the server knows and how it answers: engines, policies, tokens and roles. A request comes in as data and an answer
//! goes out as data.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ask::{Answer, Ask, Verb};
use super::kv::{Engine, Refused};
use super::logins::{self, Roles};
use super::pki;
use super::policy::{self, ROOT, Rule};
use super::tokens::{New, Token, hashed};

/// Everything that the server knows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct State {
    /// KV engines by their paths.
    pub(super) engines: BTreeMap<String, Engine>,
    /// PKI engines by their paths.
    #[serde(default)]
    pub(super) authorities: BTreeMap<String, pki::Engine>,
    pub(super) policies: BTreeMap<String, Policy>,
    /// Logins with a service account by their paths, each with its roles.
    pub(super) logins: BTreeMap<String, Roles>,
    /// By the hash of the token: tokens themselves are known to those who have them.
    pub(super) tokens: BTreeMap<String, Token>,
    /// Tokens of logins, likewise. They are not kept: an hour's token is not worth a write of everything, and a client whose
    /// token is no longer known logs in again.
    #[serde(skip)]
    pub(super) sessions: BTreeMap<String, Token>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Policy {
    pub(super) text: String,
    pub(super) rules: Vec<Rule>,
}

impl State {
    /// A new store, with what a cloud's clusters need; and the token that may do everything.
    pub(super) fn new(now: Timestamp) -> (Self, String) {
        let mut state = Self::default();
        state.furnish(now);
        let root = New { name: "root", policies: &[ROOT.to_owned()], expires: None, limit: None };
        let root = state.issue(&root, now);
        (state, root)
    }

    /// Answers a request.
    pub(super) fn answer(&mut self, ask: &Ask<'_>, now: Timestamp) -> Answer {
        if let Some(answer) = public(ask).or_else(|| self.certificates(ask)) {
            return answer;
        }
        let Some(token) = ask.token else { return Answer::refusal(400, &["missing client token"]) };
        let id = hashed(token);
        let Some(known) = self.token_mut(&id).filter(|token| token.is_valid(now)).cloned() else {
            return Answer::denied();
        };
        if let Some(answer) = self.about_itself(ask, &id, &known, now) {
            return answer;
        }
        if !self.permits(&known, ask) {
            return Answer::denied();
        }
        let mut parts = ask.path.splitn(2, '/');
        match (parts.next().unwrap_or_default(), parts.next().unwrap_or_default()) {
            ("sys", rest) => self.system(ask, rest),
            ("auth", "token/create") => self.create_token(ask, &known, now),
            ("auth", rest) => logins::answer(&mut self.logins, ask, rest),
            _ => self.engine(ask, now),
        }
    }

    fn permits(&self, token: &Token, ask: &Ask<'_>) -> bool {
        if token.is_root() {
            return true;
        }
        let policies = token.policies.iter().filter_map(|name| self.policies.get(name));
        let trimmed = ask.path.trim_end_matches('/');
        let path = if ask.verb == Verb::List { format!("{trimmed}/") } else { trimmed.to_owned() };
        policy::permits(policies.flat_map(|policy| &policy.rules), &path, self.capability(ask))
    }

    /// What a policy calls a request. Writing to what is not there yet is to create it, where that can be told.
    fn capability(&self, ask: &Ask<'_>) -> &'static str {
        match ask.verb {
            Verb::Read => "read",
            Verb::List => "list",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::Write if self.lacks(ask.path) => "create",
            Verb::Write => "update",
        }
    }

    /// Whether a path is that of a secret or a role that is not there.
    fn lacks(&self, path: &str) -> bool {
        if let Some(path) = path.strip_prefix("auth/") {
            return logins::lacks(&self.logins, path);
        }
        let Some(mount) = mount_of(self.engines.keys(), path) else { return false };
        match path[mount.len() + 1..].split_once('/') {
            Some(("data" | "metadata", secret)) => !self.engines[&mount].knows(secret),
            _ => false,
        }
    }

    /// Certificates of authorities, which need no token.
    fn certificates(&self, ask: &Ask<'_>) -> Option<Answer> {
        let mount = mount_of(self.authorities.keys(), ask.path)?;
        self.authorities[&mount].public(ask.verb, &ask.path[mount.len() + 1..])
    }

    fn engine(&mut self, ask: &Ask<'_>, now: Timestamp) -> Answer {
        if let Some(mount) = mount_of(self.authorities.keys(), ask.path)
            && let Some(authority) = self.authorities.get_mut(&mount)
        {
            return authority.answer(ask, &ask.path[mount.len() + 1..], now);
        }
        let mount = mount_of(self.engines.keys(), ask.path);
        let Some((mount, engine)) = mount.and_then(|mount| self.engines.get_mut(&mount).map(|engine| (mount, engine)))
        else {
            return Answer::refusal(404, &["no handler for route"]);
        };
        let rest = &ask.path[mount.len() + 1..];
        let (part, path) = rest.split_once('/').unwrap_or((rest, ""));
        answer_kv(engine, ask, part, path, now).unwrap_or_else(Answer::from)
    }
}

fn answer_kv(engine: &mut Engine, ask: &Ask<'_>, part: &str, path: &str, now: Timestamp) -> Result<Answer, Refused> {
    let cas = ask.body["options"]["cas"].as_u64();
    let numbers: Vec<u64> = ask.body["versions"].as_array().into_iter().flatten().filter_map(number).collect();
    let content = || ask.body["data"].as_object().cloned().ok_or(Refused::Bad("no data provided"));
    match (ask.verb, part) {
        (Verb::Read, "config") => return Ok(Answer::data(engine.settings())),
        (Verb::Write, "config") => engine.set(&ask.body),
        (Verb::List, "metadata") => return engine.list(path).map(Answer::data),
        _ if path.is_empty() => return Ok(Answer::unsupported()),
        (Verb::Read, "data") => return engine.read(path, ask.version).map(Answer::data),
        (Verb::Write, "data") => return engine.write(path, content()?, cas, now).map(Answer::data),
        (Verb::Patch, "data") => return engine.patch(path, content()?, cas, now).map(Answer::data),
        (Verb::Delete, "data") => engine.mark(path, &[], Some(now)),
        (Verb::Write, "delete") => engine.mark(path, &numbers, Some(now)),
        (Verb::Write, "undelete") => engine.mark(path, &numbers, None),
        (Verb::Write, "destroy") => engine.destroy(path, &numbers),
        (Verb::Read, "metadata") => return engine.metadata(path).map(Answer::data),
        (Verb::Write | Verb::Patch, "metadata") => engine.describe(path, &ask.body, now),
        (Verb::Delete, "metadata") => engine.forget(path),
        _ => return Ok(Answer::unsupported()),
    }
    Ok(Answer::done())
}

fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// What is told to everybody.
fn public(ask: &Ask<'_>) -> Option<Answer> {
    let health = json!({
        "initialized": true, "sealed": false, "standby": false, "performance_standby": false, "type": "shamir",
        "version": "2.6.2", "cluster_name": "c5c3", "t": 1, "n": 1, "progress": 0,
    });
    match (ask.verb, ask.path) {
        (Verb::Read, "sys/health" | "sys/seal-status") => Some(Answer::plain(health)),
        (Verb::Read, "sys/init") => Some(Answer::plain(json!({"initialized": true}))),
        _ => None,
    }
}

/// Which of several mounts a path is in: of those that are within each other, the innermost.
pub(super) fn mount_of<'a>(mounts: impl Iterator<Item = &'a String>, path: &str) -> Option<String> {
    let is_in = |mount: &&String| path.strip_prefix(mount.as_str()).is_some_and(|rest| rest.starts_with('/'));
    mounts.filter(is_in).max_by_key(|mount| mount.len()).cloned()
}

/// Words in a list, or with commas between them.
pub(super) fn words(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect(),
        Value::String(text) => {
            text.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn ask(state: &mut State, token: &str, verb: Verb, path: &str, body: Value) -> Answer {
        state.answer(&Ask { verb, path, version: 0, body, token: Some(token) }, now())
    }

    #[test]
    fn who_has_no_token_or_a_wrong_or_an_old_one_is_told_nothing() {
        let (mut state, root) = State::new(now());
        let read =
            |token| Ask { verb: Verb::Read, path: "kv-v2/data/openstack/a", version: 0, body: Value::Null, token };
        assert_eq!(state.answer(&read(None), now()).status, 400);
        assert_eq!(state.answer(&read(Some("s.wrong")), now()).status, 403);
        assert_eq!(state.answer(&read(Some(&root)), now()).status, 404);
        let logged_in =
            state.log_in(super::super::LOGIN, super::super::ROLE, "external-secrets", "external-secrets", now());
        let token = logged_in.body["auth"]["client_token"].as_str().unwrap().to_owned();
        assert_eq!(state.answer(&read(Some(&token)), now()).status, 404);
        let later = now() + SignedDuration::from_hours(2);
        assert_eq!(state.answer(&read(Some(&token)), later).status, 403);
    }

    #[test]
    fn a_role_is_for_the_service_accounts_that_it_names() {
        let (mut state, _) = State::new(now());
        let mut log_in = |role: &str, namespace: &str| {
            state.log_in("kubernetes/control-plane", role, namespace, "external-secrets", now()).status
        };
        assert_eq!(log_in("eso-control-plane", "external-secrets"), 200);
        assert_eq!(log_in("eso-control-plane", "elsewhere"), 403);
        assert_eq!(log_in("eso-hypervisor", "external-secrets"), 400, "it is a role of another mount");
    }

    #[test]
    fn a_token_may_do_what_its_policies_say() {
        let (mut state, root) = State::new(now());
        let policy = json!({"policy": r#"path "kv-v2/data/mine/*" { capabilities = ["read"] }"#});
        assert!(ask(&mut state, &root, Verb::Write, "sys/policies/acl/mine", policy).is_good());
        let made = ask(&mut state, &root, Verb::Write, "auth/token/create", json!({"policies": ["mine"]}));
        let token = made.body["auth"]["client_token"].as_str().unwrap().to_owned();
        let write = json!({"data": {"a": "b"}});
        assert_eq!(ask(&mut state, &token, Verb::Write, "kv-v2/data/mine/x", write.clone()).status, 403);
        assert_eq!(ask(&mut state, &root, Verb::Write, "kv-v2/data/mine/x", write).status, 200);
        let read = ask(&mut state, &token, Verb::Read, "kv-v2/data/mine/x", Value::Null);
        assert_eq!(read.body["data"]["data"], json!({"a": "b"}));
        assert_eq!(ask(&mut state, &token, Verb::Read, "sys/mounts", Value::Null).status, 403);
        assert!(ask(&mut state, &token, Verb::Write, "auth/token/revoke-self", Value::Null).is_good());
        assert_eq!(ask(&mut state, &token, Verb::Read, "kv-v2/data/mine/x", Value::Null).status, 403);
    }

    #[test]
    fn creating_and_updating_are_two_rights() {
        let (mut state, root) = State::new(now());
        let policy = json!({"policy": r#"path "kv-v2/data/new/*" { capabilities = ["create"] }
            path "kv-v2/data/old/*" { capabilities = ["update"] }"#});
        assert!(ask(&mut state, &root, Verb::Write, "sys/policies/acl/half", policy).is_good());
        let made = ask(&mut state, &root, Verb::Write, "auth/token/create", json!({"policies": ["half"]}));
        let token = made.body["auth"]["client_token"].as_str().unwrap().to_owned();
        let mut write = |token: &str, path: &str| {
            ask(&mut state, token, Verb::Write, &format!("kv-v2/data/{path}"), json!({"data": {"a": "b"}})).status
        };
        assert_eq!((write(&token, "new/x"), write(&token, "new/x")), (200, 403));
        assert_eq!((write(&token, "old/x"), write(&root, "old/x"), write(&token, "old/x")), (403, 200, 200));
    }

    #[test]
    fn of_engines_within_each_other_the_innermost_answers() {
        let (mut state, root) = State::new(now());
        let kv = || json!({"type": "kv-v2"});
        for mount in ["team", "team/kv"] {
            assert!(ask(&mut state, &root, Verb::Write, &format!("sys/mounts/{mount}"), kv()).is_good());
        }
        let secret = json!({"data": {"a": "b"}});
        assert_eq!(ask(&mut state, &root, Verb::Write, "team/kv/data/x", secret).status, 200);
        let listed = ask(&mut state, &root, Verb::List, "team/kv/metadata", Value::Null);
        assert_eq!(listed.body["data"]["keys"], json!(["x"]));
        assert_eq!(ask(&mut state, &root, Verb::List, "team/metadata", Value::Null).status, 404);
    }

    #[test]
    fn a_policy_that_cannot_be_enforced_is_refused_by_what_it_asks_for() {
        let (mut state, root) = State::new(now());
        let text = r#"path "kv-v2/*" { denied_parameters = {"x" = []} capabilities = ["deny"] }"#;
        let refused = ask(&mut state, &root, Verb::Write, "sys/policies/acl/p", json!({"policy": text}));
        assert_eq!(refused.status, 400);
        assert!(refused.body["errors"][0].as_str().unwrap().contains("\"denied_parameters\" is not supported"));
    }

    #[test]
    fn what_is_kept_holds_no_token() {
        let (state, root) = State::new(now());
        assert!(!serde_json::to_string(&state).unwrap().contains(&root));
    }

    #[test]
    fn what_is_not_there_is_said_to_be_unsupported() {
        let (mut state, root) = State::new(now());
        assert_eq!(ask(&mut state, &root, Verb::Read, "sys/leases/lookup", Value::Null).status, 405);
        assert_eq!(ask(&mut state, &root, Verb::Read, "transit/keys/x", Value::Null).status, 404);
        let transit = json!({"type": "transit"});
        assert_eq!(ask(&mut state, &root, Verb::Write, "sys/mounts/transit", transit).status, 400);
    }
}
