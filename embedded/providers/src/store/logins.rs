//! Logins with service accounts: mounts, one for each cluster, and their roles.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ask::{Answer, Ask, Verb};
use super::tokens::life;
use super::vault::{State, mount_of, words};

/// The roles of a mount.
pub(super) type Roles = BTreeMap<String, Role>;

/// Which service accounts get a token, what it may do, and how long it holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Role {
    names: Vec<String>,
    namespaces: Vec<String>,
    pub(super) policies: Vec<String>,
    /// Seconds.
    #[serde(default)]
    pub(super) ttl: Option<i64>,
    /// Seconds, however often a token is prolonged.
    #[serde(default)]
    pub(super) max_ttl: Option<i64>,
}

impl Role {
    /// From the body of a request.
    pub(super) fn read(body: &Value) -> Result<Self, &'static str> {
        // `ttl` and `policies` are older names of the same.
        let seconds = |new: &str, old: &str| {
            let said = if body[new].is_null() { &body[old] } else { &body[new] };
            life(said).map(|life| life.map(|life| life.as_secs()))
        };
        let wrong = |()| "failed to parse a ttl: a number of seconds, or such as 30m, 1h or 2d";
        let (ttl, max_ttl) =
            (seconds("token_ttl", "ttl").map_err(wrong)?, seconds("token_max_ttl", "max_ttl").map_err(wrong)?);
        let role = Self {
            names: words(&body["bound_service_account_names"]),
            namespaces: words(&body["bound_service_account_namespaces"]),
            policies: [words(&body["token_policies"]), words(&body["policies"])].concat(),
            ttl,
            max_ttl,
        };
        match () {
            () if role.names.is_empty() => Err("\"bound_service_account_names\" can not be empty"),
            () if role.namespaces.is_empty() => Err("\"bound_service_account_namespaces\" can not be empty"),
            () if max_ttl.is_some_and(|most| ttl.is_some_and(|ttl| ttl > most)) => {
                Err("\"token_ttl\" cannot be greater than \"token_max_ttl\"")
            }
            () => Ok(role),
        }
    }

    fn describe(&self) -> Value {
        json!({
            "bound_service_account_names": self.names, "bound_service_account_namespaces": self.namespaces,
            "token_policies": self.policies, "token_ttl": self.ttl.unwrap_or(0),
            "token_max_ttl": self.max_ttl.unwrap_or(0),
        })
    }

    fn is_for(&self, namespace: &str, name: &str) -> bool {
        let bound = |names: &[String], name: &str| names.iter().any(|bound| bound == "*" || bound == name);
        bound(&self.names, name) && bound(&self.namespaces, namespace)
    }
}

impl State {
    /// Lets a service account in that has proved itself, if a role is for it.
    pub(super) fn log_in(&mut self, login: &str, role: &str, namespace: &str, name: &str, now: Timestamp) -> Answer {
        let Some(found) = self.logins.get(login).and_then(|roles| roles.get(role)).cloned() else {
            return Answer::refusal(400, &["invalid role name"]);
        };
        if !found.is_for(namespace, name) {
            return Answer::refusal(403, &["service account not authorized"]);
        }
        self.issue_login(&format!("{login}-{namespace}-{name}"), &found, now)
    }

    /// Whether a path is a login with a service account: which one.
    pub(super) fn login<'a>(&self, path: &'a str) -> Option<&'a str> {
        let login = path.strip_prefix("auth/")?.strip_suffix("/login")?;
        self.logins.contains_key(login).then_some(login)
    }
}

/// Whether a path, behind `auth/`, is that of a role that is not there.
pub(super) fn lacks(logins: &BTreeMap<String, Roles>, path: &str) -> bool {
    let Some(login) = mount_of(logins.keys(), path) else { return false };
    let role = path[login.len() + 1..].strip_prefix("role/");
    role.is_some_and(|role| !logins[&login].contains_key(role))
}

/// Answers about the roles of a mount. How to reach the cluster that it is for is known here, and accepted without being used.
pub(super) fn answer(logins: &mut BTreeMap<String, Roles>, ask: &Ask<'_>, path: &str) -> Answer {
    let Some(login) = mount_of(logins.keys(), path) else { return Answer::missing() };
    let rest = &path[login.len() + 1..];
    let roles = logins.entry(login).or_default();
    match (ask.verb, rest.split_once('/').unwrap_or((rest, ""))) {
        (Verb::Write, ("config", _)) => Answer::done(),
        (Verb::List, ("role", "")) => Answer::data(json!({"keys": roles.keys().collect::<Vec<_>>()})),
        (Verb::Write, ("role", name)) => match Role::read(&ask.body) {
            Ok(role) => {
                roles.insert(name.to_owned(), role);
                Answer::done()
            }
            Err(why) => Answer::refusal(400, &[why]),
        },
        (Verb::Read, ("role", name)) => match roles.get(name) {
            Some(role) => Answer::data(role.describe()),
            None => Answer::missing(),
        },
        (Verb::Delete, ("role", name)) => {
            roles.remove(name);
            Answer::done()
        }
        _ => Answer::unsupported(),
    }
}
