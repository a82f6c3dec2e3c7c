//! What is under `sys/`: engines, logins and policies.

use serde_json::{Map, Value, json};

use super::ask::{Answer, Ask, Verb};
use super::kv;
use super::policy::{self, ROOT};
use super::vault::{Policy, State};

impl State {
    pub(super) fn system(&mut self, ask: &Ask<'_>, path: &str) -> Answer {
        let path = path.trim_end_matches('/');
        match (ask.verb, path.split_once('/').unwrap_or((path, ""))) {
            (Verb::Read, ("mounts", "")) => self.mounts(),
            (_, ("mounts", path)) if path.ends_with("/tune") => {
                self.tune(ask, path.strip_suffix("/tune").unwrap_or(path))
            }
            (Verb::Write, ("mounts", mount)) => self.mount(mount, &ask.body),
            (Verb::Delete, ("mounts", mount)) => {
                self.engines.remove(mount);
                self.authorities.remove(mount);
                Answer::done()
            }
            (Verb::Read, ("auth", "")) => {
                let method = json!({"type": "kubernetes", "description": ""});
                let logins = self.logins.keys().map(|path| (format!("{path}/"), method.clone()));
                Answer::data(logins.collect::<Map<_, _>>().into())
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

    fn mounts(&self) -> Answer {
        let kv = json!({"type": "kv", "description": "", "local": false, "options": {"version": "2"}});
        let pki = json!({"type": "pki", "description": "", "local": false, "options": null});
        let engines = self.engines.keys().map(|path| (format!("{path}/"), kv.clone()));
        let authorities = self.authorities.keys().map(|path| (format!("{path}/"), pki.clone()));
        Answer::data(engines.chain(authorities).collect::<Map<_, _>>().into())
    }

    fn mount(&mut self, path: &str, body: &Value) -> Answer {
        let version = &body["options"]["version"];
        if self.engines.contains_key(path) || self.authorities.contains_key(path) {
            return Answer::refusal(400, &[&format!("path is already in use at {path}/")]);
        }
        match body["type"].as_str() {
            Some("kv-v2") => {}
            Some("kv") if version == "2" || version == 2 => {}
            Some("pki") => {
                let engine = self.authorities.entry(path.to_owned()).or_default();
                return engine.tune(&body["config"]);
            }
            _ => return Answer::refusal(400, &["only KV engines of version 2 and PKI engines can be mounted here"]),
        }
        self.engines.insert(path.to_owned(), kv::Engine::default());
        Answer::done()
    }

    /// How long what an engine gives out may last. Only certificates do not last for ever.
    fn tune(&mut self, ask: &Ask<'_>, mount: &str) -> Answer {
        match (ask.verb, self.authorities.get_mut(mount)) {
            (Verb::Read, Some(engine)) => Answer::data(engine.tuned()),
            (Verb::Write, Some(engine)) => engine.tune(&ask.body),
            _ => Answer::unsupported(),
        }
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
}
