//! Tokens: what they may do, and for how long. No token does more or lives longer than the one that made it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use c5c3_kit::hash;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::ask::{Answer, Ask};
use super::logins::Role;
use super::policy::ROOT;
use super::vault::{State, words};
use crate::generated;

/// How long a token holds that someone got by logging in, and by how much one is prolonged.
pub(super) const LOGIN_LIFE: SignedDuration = SignedDuration::from_hours(1);

/// How long a token lives at most, however often it is prolonged: OpenBao's own default.
pub(super) const LONGEST_LIFE: SignedDuration = SignedDuration::from_hours(768);

/// The policy that every token has beside its own.
const DEFAULT: &str = "default";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Token {
    name: String,
    pub(super) policies: Vec<String>,
    created: Timestamp,
    expires: Option<Timestamp>,
    /// Until when it can be prolonged. Those of older stores have none, and their longest life counts from their start.
    #[serde(default)]
    limit: Option<Timestamp>,
    /// By how many seconds it is prolonged, if that is not an hour.
    #[serde(default)]
    step: Option<i64>,
}

impl Token {
    pub(super) fn is_valid(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|end| end > now)
    }

    pub(super) fn is_root(&self) -> bool {
        self.policies.iter().any(|policy| policy == ROOT)
    }

    /// Until when it can live; none if it has no end.
    fn limit(&self) -> Option<Timestamp> {
        self.expires.map(|_| self.limit.unwrap_or_else(|| later(self.created, LONGEST_LIFE)))
    }
}

/// What a new token is.
pub(super) struct New<'a> {
    pub(super) name: &'a str,
    pub(super) policies: &'a [String],
    /// None: it has no end.
    pub(super) expires: Option<Timestamp>,
    pub(super) limit: Option<Timestamp>,
}

impl New<'_> {
    /// The token itself, and what is remembered of it.
    fn token(&self, now: Timestamp) -> (String, Token) {
        let known = Token {
            name: self.name.to_owned(),
            policies: self.policies.to_vec(),
            created: now,
            expires: self.expires,
            limit: self.limit,
            step: None,
        };
        (format!("s.{}", generated::password()), known)
    }
}

fn later(time: Timestamp, life: SignedDuration) -> Timestamp {
    time.checked_add(life).unwrap_or(time)
}

/// Stands for a token that only its owner knows. Tokens are long and random, so that a plain hash gives nothing away.
pub(super) fn hashed(token: &str) -> String {
    STANDARD.encode(Sha256::digest(token.as_bytes()))
}

/// Seconds that are left.
fn left(expires: Option<Timestamp>, now: Timestamp) -> i64 {
    expires.map_or(0, |end| end.duration_since(now).as_secs())
}

impl State {
    pub(super) fn issue(&mut self, new: &New<'_>, now: Timestamp) -> String {
        self.tokens.retain(|_, token| token.is_valid(now));
        let (token, known) = new.token(now);
        self.tokens.insert(hashed(&token), known);
        token
    }

    /// A token by its hash, whether it is kept or that of a login.
    pub(super) fn token_mut(&mut self, id: &str) -> Option<&mut Token> {
        self.tokens.get_mut(id).or_else(|| self.sessions.get_mut(id))
    }

    /// A token for a login that succeeded, which holds as long as the role says.
    pub(super) fn issue_login(&mut self, name: &str, role: &Role, now: Timestamp) -> Answer {
        let most = role.max_ttl.map_or(LONGEST_LIFE, SignedDuration::from_secs).min(LONGEST_LIFE);
        let life = role.ttl.map_or(LOGIN_LIFE, SignedDuration::from_secs).min(most);
        let (expires, limit) = (Some(later(now, life)), Some(later(now, most)));
        self.sessions.retain(|_, token| token.is_valid(now));
        let (token, mut known) = New { name, policies: &role.policies, expires, limit }.token(now);
        known.step = Some(life.as_secs());
        self.sessions.insert(hashed(&token), known);
        Answer::wrapped("auth", auth(&token, &role.policies, life.as_secs()))
    }

    /// What every token may do: look itself up, renew and revoke itself.
    pub(super) fn about_itself(&mut self, ask: &Ask<'_>, id: &str, token: &Token, now: Timestamp) -> Option<Answer> {
        match ask.path {
            "auth/token/lookup-self" => Some(Answer::data(json!({
                "accessor": hash::short(id.as_bytes()), "creation_time": token.created.as_second(), "creation_ttl": 0,
                "display_name": token.name, "expire_time": token.expires, "explicit_max_ttl": 0, "id": ask.token,
                "meta": null, "num_uses": 0, "orphan": true, "path": "auth/token/create", "policies": token.policies,
                "renewable": token.expires.is_some(), "ttl": left(token.expires, now), "type": "service",
            }))),
            "auth/token/renew-self" => {
                // Prolonged, never shortened, and never beyond its limit.
                let step = token.step.map_or(LOGIN_LIFE, SignedDuration::from_secs);
                let end = token.expires.map(|end| end.max(later(now, step)));
                let end = end.zip(token.limit()).map(|(end, limit)| end.min(limit));
                if let Some(token) = self.token_mut(id) {
                    token.expires = end;
                }
                let token_text = ask.token.unwrap_or_default();
                Some(Answer::wrapped("auth", auth(token_text, &token.policies, left(end, now))))
            }
            "auth/token/revoke-self" => {
                self.tokens.remove(id);
                self.sessions.remove(id);
                Some(Answer::done())
            }
            _ => None,
        }
    }

    /// Makes a token for whoever has `parent`, which may do everything that the new one may.
    pub(super) fn create_token(&mut self, ask: &Ask<'_>, parent: &Token, now: Timestamp) -> Answer {
        let asked = words(&ask.body["policies"]);
        let policies = if asked.is_empty() { parent.policies.clone() } else { asked };
        let has = |policy: &String| policy == DEFAULT || parent.policies.contains(policy);
        if !parent.is_root() && !policies.iter().all(has) {
            return Answer::refusal(400, &["child policies must be subset of parent"]);
        }
        let Ok(life) = life(&ask.body["ttl"]) else {
            return Answer::refusal(400, &["failed to parse ttl: a number of seconds, or such as 30m, 1h or 2d"]);
        };
        let is_root = policies.iter().any(|policy| policy == ROOT);
        // Only a token that may do everything anyway lives for ever.
        let life = life.or((!is_root).then_some(LONGEST_LIFE)).map(|life| life.min(LONGEST_LIFE));
        let limit = life.map(|_| later(now, LONGEST_LIFE)).into_iter().chain(parent.expires).min();
        let expires = life.map(|life| later(now, life)).into_iter().chain(limit).min();
        let name = ask.body["display_name"].as_str().unwrap_or("token");
        let token = self.issue(&New { name, policies: &policies, expires, limit }, now);
        Answer::wrapped("auth", auth(&token, &policies, left(expires, now)))
    }
}

/// How long something is to last, if that is said. An error if it is said and cannot be read.
pub(super) fn life(ttl: &Value) -> Result<Option<SignedDuration>, ()> {
    let seconds = match ttl {
        Value::Null => return Ok(None),
        Value::Number(number) => number.as_i64(),
        Value::String(text) if text.is_empty() => return Ok(None),
        Value::String(text) => {
            let days = text.strip_suffix('d').and_then(|days| days.parse::<i64>().ok());
            let days = days.and_then(|days| days.checked_mul(24 * 60 * 60));
            let duration = || text.parse::<SignedDuration>().ok().map(|life| life.as_secs());
            text.parse::<i64>().ok().or(days).or_else(duration)
        }
        _ => None,
    };
    match seconds {
        Some(0) => Ok(None),
        Some(seconds) if seconds > 0 => Ok(Some(SignedDuration::from_secs(seconds))),
        _ => Err(()),
    }
}

fn auth(token: &str, policies: &[String], life: i64) -> Value {
    json!({
        "client_token": token, "accessor": hash::short(hashed(token).as_bytes()), "policies": policies,
        "token_policies": policies, "metadata": {}, "lease_duration": life, "renewable": life > 0,
        "entity_id": "", "token_type": "service", "orphan": true,
    })
}

#[cfg(test)]
mod tests {
    use super::super::ask::Verb;
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn at(state: &mut State, time: Timestamp, token: &str, path: &str, body: Value) -> Answer {
        state.answer(&Ask { verb: Verb::Write, path, version: 0, body, token: Some(token) }, time)
    }

    fn made(answer: &Answer) -> String {
        answer.body["auth"]["client_token"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()
    }

    /// A token that may make others and nothing else.
    fn maker(state: &mut State, root: &str, ttl: &str) -> String {
        let policy = json!({"policy": r#"path "auth/token/create" { capabilities = ["update"] }"#});
        assert!(at(state, now(), root, "sys/policies/acl/maker", policy).is_good());
        made(&at(state, now(), root, "auth/token/create", json!({"policies": ["maker"], "ttl": ttl})))
    }

    #[test]
    fn a_token_makes_no_token_that_may_do_more() {
        let (mut state, root) = State::new(now());
        let maker = maker(&mut state, &root, "1h");
        for policies in [json!(["root"]), json!(["eso-control-plane"]), json!(["maker", "root"]), json!("root")] {
            let refused = at(&mut state, now(), &maker, "auth/token/create", json!({"policies": policies}));
            assert_eq!(
                (refused.status, &refused.body["errors"][0]),
                (400, &json!("child policies must be subset of parent"))
            );
        }
        let same = at(&mut state, now(), &maker, "auth/token/create", json!({}));
        assert_eq!(same.body["auth"]["policies"], json!(["maker"]));
        assert!(
            at(&mut state, now(), &root, "auth/token/create", json!({"policies": ["eso-control-plane"]})).is_good()
        );
    }

    #[test]
    fn a_life_that_cannot_be_read_is_refused_and_one_that_is_not_said_ends() {
        let (mut state, root) = State::new(now());
        let mut lease = |ttl: Value| {
            let body = json!({"policies": ["eso-control-plane"], "ttl": ttl});
            let answer = at(&mut state, now(), &root, "auth/token/create", body);
            if answer.is_good() {
                Ok(answer.body["auth"]["lease_duration"].as_i64().unwrap())
            } else {
                Err(answer.status)
            }
        };
        for (ttl, seconds) in [(json!(3600), 3600), (json!("3600"), 3600), (json!("1h"), 3600), (json!("2d"), 172_800)]
        {
            assert_eq!(lease(ttl.clone()), Ok(seconds), "{ttl}");
        }
        for ttl in [json!("soon"), json!("-1h"), json!(-1), json!(1.5), json!(["1h"]), json!(true)] {
            assert_eq!(lease(ttl.clone()), Err(400), "{ttl}");
        }
        for ttl in [Value::Null, json!(0), json!("9999h")] {
            assert_eq!(lease(ttl.clone()), Ok(LONGEST_LIFE.as_secs()), "{ttl}");
        }
    }

    #[test]
    fn a_token_lives_no_longer_than_the_one_that_made_it() {
        let (mut state, root) = State::new(now());
        let maker = maker(&mut state, &root, "48h");
        let child = made(&at(&mut state, now(), &maker, "auth/token/create", json!({"ttl": "9999h"})));
        let mut status = |hours| {
            at(&mut state, now() + SignedDuration::from_hours(hours), &child, "auth/token/create", json!({})).status
        };
        assert_eq!((status(47), status(48)), (200, 403));
    }

    #[test]
    fn a_token_can_be_prolonged_for_a_while_and_not_for_ever() {
        let (mut state, root) = State::new(now());
        let role = json!({"bound_service_account_names": "*", "bound_service_account_namespaces": "*"});
        assert!(at(&mut state, now(), &root, "auth/kubernetes/management/role/patient", role).is_good());
        let login = state.log_in("kubernetes/management", "patient", "web", "spider", now());
        let token = made(&login);
        let mut time = now();
        let step = SignedDuration::from_mins(50);
        let mut times = 0;
        while at(&mut state, time, &token, "auth/token/renew-self", json!({})).is_good() {
            (time, times) = (time + step, times + 1);
            assert!(times < 2000, "it is prolonged for ever");
        }
        assert!(times > 900, "prolonged {times} times only");
        assert!(time <= now() + LONGEST_LIFE + step);
    }

    #[test]
    fn a_role_says_how_long_its_tokens_hold() {
        let (mut state, root) = State::new(now());
        let role = json!({"bound_service_account_names": "*", "bound_service_account_namespaces": "*",
            "token_ttl": "10m", "token_max_ttl": 1500});
        assert!(at(&mut state, now(), &root, "auth/kubernetes/management/role/brief", role).is_good());
        let login = state.log_in("kubernetes/management", "brief", "web", "spider", now());
        assert_eq!(login.body["auth"]["lease_duration"], 600);
        let token = made(&login);
        let after = |minutes| now() + SignedDuration::from_mins(minutes);
        for (minutes, left) in [(9, 600), (18, 420)] {
            let renewed = at(&mut state, after(minutes), &token, "auth/token/renew-self", json!({}));
            assert_eq!(renewed.body["auth"]["lease_duration"], left, "after {minutes} minutes");
        }
        assert_eq!(at(&mut state, after(25), &token, "auth/token/renew-self", json!({})).status, 403);
    }
}
