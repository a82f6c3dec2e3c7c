//! What the server knows and how it answers: engines, policies, tokens and roles. A request comes in as data and an answer
//! goes out as data.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::ask::{Answer, Ask, Verb};
use super::kv::{Engine, Refused};
use super::policy::{self, ROOT, Rule};
use super::tokens::{New, Token, hashed};

/// Everything that the server knows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct State {
    /// KV engines by their paths.
    engines: BTreeMap<String, Engine>,
    policies: BTreeMap<String, Policy>,
    /// Logins with a service account by their paths, each with its roles.
    logins: BTreeMap<String, BTreeMap<String, Role>>,
    /// By the hash of the token: tokens themselves are known to those who have them.
    pub(super) tokens: BTreeMap<String, Token>,
    /// Tokens of logins, likewise. They are not kept: an hour's token is not worth a write of everything, and a client whose
    /// token is no longer known logs in again.
    #[serde(skip)]
    pub(super) sessions: BTreeMap<String, Token>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Policy {
    text: String,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Role {
    names: Vec<String>,
    namespaces: Vec<String>,
    policies: Vec<String>,
}

impl State {
    /// A new store, with what a cluster's External Secrets need; and the token that may do everything.
    pub(super) fn new(now: Timestamp) -> (Self, String) {
        let mut state = Self::default();
        state.engines.insert("kv-v2".into(), Engine::default());
        let text = r#"path "kv-v2/*" { capabilities = ["create", "read", "update", "patch", "delete", "list"] }"#;
        let rules = policy::parse(text).unwrap_or_default();
        state.policies.insert(super::ROLE.into(), Policy { text: text.into(), rules });
        let role = Role {
            names: vec![super::ACCOUNT.into()],
            namespaces: vec![super::ACCOUNT.into()],
            policies: vec![super::ROLE.into()],
        };
        state.logins.insert(super::LOGIN.into(), [(super::ROLE.to_owned(), role)].into());
        let root = New { name: "root", policies: &[ROOT.to_owned()], expires: None, limit: None };
        let root = state.issue(&root, now);
        (state, root)
    }

    /// Lets a service account in that has proved itself, if a role is for it.
    pub(super) fn log_in(&mut self, login: &str, role: &str, namespace: &str, name: &str, now: Timestamp) -> Answer {
        let Some(found) = self.logins.get(login).and_then(|roles| roles.get(role)).cloned() else {
            return Answer::refusal(400, &["invalid role name"]);
        };
        let bound = |names: &[String], name: &str| names.iter().any(|bound| bound == "*" || bound == name);
        if !bound(&found.names, name) || !bound(&found.namespaces, namespace) {
            return Answer::refusal(403, &["service account not authorized"]);
        }
        self.issue_login(&format!("{login}-{namespace}-{name}"), &found.policies, now)
    }

    /// Whether a path is a login with a service account: which one.
    pub(super) fn login<'a>(&self, path: &'a str) -> Option<&'a str> {
        let login = path.strip_prefix("auth/")?.strip_suffix("/login")?;
        self.logins.contains_key(login).then_some(login)
    }

    /// Answers a request.
    pub(super) fn answer(&mut self, ask: &Ask<'_>, now: Timestamp) -> Answer {
        if let Some(answer) = public(ask) {
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
            ("auth", rest) => self.roles(ask, rest),
            _ => self.engine(ask, now),
        }
    }

    fn permits(&self, token: &Token, ask: &Ask<'_>) -> bool {
        if token.is_root() {
            return true;
        }
        let policies = token.policies.iter().filter_map(|name| self.policies.get(name));
        let path = ask.path.trim_end_matches('/');
        policy::permits(policies.flat_map(|policy| &policy.rules), path, ask.verb.capabilities())
    }

    fn system(&mut self, ask: &Ask<'_>, path: &str) -> Answer {
        let path = path.trim_end_matches('/');
        let kv = json!({"type": "kv", "description": "", "local": false, "options": {"version": "2"}});
        match (ask.verb, path.split_once('/').unwrap_or((path, ""))) {
            (Verb::Read, ("mounts", "")) => Answer::data(
                self.engines.keys().map(|path| (format!("{path}/"), kv.clone())).collect::<Map<_, _>>().into(),
            ),
            (Verb::Write, ("mounts", mount)) => self.mount(mount, &ask.body),
            (Verb::Delete, ("mounts", mount)) => {
                self.engines.remove(mount);
                Answer::done()
            }
            (Verb::Read, ("auth", "")) => {
                let method = json!({"type": "kubernetes", "description": ""});
                Answer::data(
                    self.logins.keys().map(|path| (format!("{path}/"), method.clone())).collect::<Map<_, _>>().into(),
                )
            }
            (Verb::Write, ("auth", login)) if ask.body["type"] == "kubernetes" => {
                self.logins.entry(login.to_owned()).or_default();
                Answer::done()
            }
            (Verb::Delete, ("auth", login)) => {
                self.logins.remove(login);
                Answer::done()
            }
            (verb, ("policies", path)) => {
                self.policies(verb, path.strip_prefix("acl").unwrap_or(path).trim_matches('/'), &ask.body)
            }
            _ => Answer::unsupported(),
        }
    }

    fn mount(&mut self, path: &str, body: &Value) -> Answer {
        let version = &body["options"]["version"];
        let second = body["type"] == "kv-v2" || (body["type"] == "kv" && (version == "2" || version == 2));
        if !second {
            return Answer::refusal(400, &["only KV engines of version 2 can be mounted here"]);
        }
        if self.engines.contains_key(path) {
            return Answer::refusal(400, &[&format!("path is already in use at {path}/")]);
        }
        self.engines.insert(path.to_owned(), Engine::default());
        Answer::done()
    }

    fn policies(&mut self, verb: Verb, name: &str, body: &Value) -> Answer {
        match verb {
            Verb::List => Answer::data(json!({"keys": self.policies.keys().collect::<Vec<_>>()})),
            Verb::Read => match self.policies.get(name) {
                Some(policy) => Answer::data(json!({"name": name, "policy": policy.text})),
                None => Answer::missing(),
            },
            Verb::Write => {
                let text = body["policy"].as_str().unwrap_or_default();
                if name == ROOT {
                    return Answer::refusal(400, &["cannot update \"root\" policy"]);
                }
                let rules = match policy::parse(text) {
                    Ok(rules) => rules,
                    Err(why) => return Answer::refusal(400, &[&format!("failed to parse policy: {why}")]),
                };
                self.policies.insert(name.to_owned(), Policy { text: text.to_owned(), rules });
                Answer::done()
            }
            Verb::Delete => {
                self.policies.remove(name);
                Answer::done()
            }
            Verb::Patch => Answer::unsupported(),
        }
    }

    /// Roles of logins. How to reach the cluster they are of is known here, and accepted without being used.
    fn roles(&mut self, ask: &Ask<'_>, path: &str) -> Answer {
        let Some(login) = mount_of(self.logins.keys(), path) else { return Answer::missing() };
        let rest = &path[login.len() + 1..];
        let roles = self.logins.entry(login).or_default();
        match (ask.verb, rest.split_once('/').unwrap_or((rest, ""))) {
            (Verb::Write, ("config", _)) => Answer::done(),
            (Verb::List, ("role", "")) => Answer::data(json!({"keys": roles.keys().collect::<Vec<_>>()})),
            (Verb::Write, ("role", name)) => {
                let body = &ask.body;
                let policies = [words(&body["token_policies"]), words(&body["policies"])].concat();
                let role = Role {
                    names: words(&body["bound_service_account_names"]),
                    namespaces: words(&body["bound_service_account_namespaces"]),
                    policies,
                };
                roles.insert(name.to_owned(), role);
                Answer::done()
            }
            (Verb::Read, ("role", name)) => match roles.get(name) {
                Some(role) => Answer::data(json!({
                    "bound_service_account_names": role.names, "bound_service_account_namespaces": role.namespaces,
                    "token_policies": role.policies,
                })),
                None => Answer::missing(),
            },
            (Verb::Delete, ("role", name)) => {
                roles.remove(name);
                Answer::done()
            }
            _ => Answer::unsupported(),
        }
    }

    fn engine(&mut self, ask: &Ask<'_>, now: Timestamp) -> Answer {
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
        (Verb::Read, "sys/health" | "sys/seal-status") => Some(Answer { status: 200, body: health }),
        (Verb::Read, "sys/init") => Some(Answer { status: 200, body: json!({"initialized": true}) }),
        _ => None,
    }
}

/// Which of several mounts a path is in: of those that are within each other, the innermost.
fn mount_of<'a>(mounts: impl Iterator<Item = &'a String>, path: &str) -> Option<String> {
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
        let read = |token| Ask { verb: Verb::Read, path: "kv-v2/data/a", version: 0, body: Value::Null, token };
        assert_eq!(state.answer(&read(None), now()).status, 400);
        assert_eq!(state.answer(&read(Some("s.wrong")), now()).status, 403);
        assert_eq!(state.answer(&read(Some(&root)), now()).status, 404);
        let logged_in = state.log_in("kubernetes", "eso-control-plane", "external-secrets", "external-secrets", now());
        let token = logged_in.body["auth"]["client_token"].as_str().unwrap().to_owned();
        assert_eq!(state.answer(&read(Some(&token)), now()).status, 404);
        let later = now() + SignedDuration::from_hours(2);
        assert_eq!(state.answer(&read(Some(&token)), later).status, 403);
    }

    #[test]
    fn a_role_is_for_the_service_accounts_that_it_names() {
        let (mut state, _) = State::new(now());
        let mut log_in =
            |role: &str, namespace: &str| state.log_in("kubernetes", role, namespace, "external-secrets", now()).status;
        assert_eq!(log_in("eso-control-plane", "external-secrets"), 200);
        assert_eq!(log_in("eso-control-plane", "elsewhere"), 403);
        assert_eq!(log_in("nobody", "external-secrets"), 400);
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
        assert_eq!(ask(&mut state, &root, Verb::Read, "pki/issue/x", Value::Null).status, 404);
        assert_eq!(ask(&mut state, &root, Verb::Write, "sys/mounts/pki", json!({"type": "pki"})).status, 400);
    }
}
