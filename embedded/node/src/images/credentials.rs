//! Credentials for registries, as `imagePullSecrets` hold them.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use c5c3_cri::v1;
use serde::Deserialize;

use super::name::split_registry;
use crate::references::Payload;

/// The registry of names without one.
const DOCKER: &str = "docker.io";

/// What a pod has for the registries that it names.
#[derive(Default)]
pub(crate) struct Credentials {
    /// A registry, possibly with a path, and who to be there.
    entries: Vec<(String, v1::AuthConfig)>,
}

impl Credentials {
    /// Those for an image, the most specific first.
    pub(crate) fn of(&self, image: &str) -> Vec<v1::AuthConfig> {
        let (registry, rest) = split_registry(image);
        let full = format!("{}/{rest}", registry.unwrap_or(DOCKER));
        let mut fitting: Vec<_> = self.entries.iter().filter(|(place, _)| covers(place, &full)).collect();
        fitting.sort_by_key(|(place, _)| std::cmp::Reverse(place.len()));
        fitting.into_iter().map(|(_, auth)| auth.clone()).collect()
    }
}

fn covers(place: &str, image: &str) -> bool {
    let (host, path) = place.split_once('/').unwrap_or((place, ""));
    let Some((image_host, image_path)) = image.split_once('/') else { return false };
    let is_host = match host.strip_prefix("*.") {
        Some(domain) => image_host.split_once('.').is_some_and(|(_, rest)| rest == domain),
        None => host == image_host,
    };
    let path = path.trim_end_matches('/');
    is_host && (path.is_empty() || image_path.strip_prefix(path).is_some_and(|rest| rest.starts_with(['/', ':', '@'])))
}

/// `.dockerconfigjson`
#[derive(Deserialize)]
struct Docker {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Entry {
    username: String,
    password: String,
    auth: String,
    identitytoken: String,
}

/// What is in some Secrets. One that does not hold credentials is passed over.
pub(crate) fn credentials(secrets: &[Payload]) -> Credentials {
    let mut entries = Vec::new();
    for secret in secrets {
        let modern = secret.get(".dockerconfigjson").and_then(|json| serde_json::from_slice::<Docker>(json).ok());
        let old = secret.get(".dockercfg").and_then(|json| serde_json::from_slice(json).ok());
        let auths = modern.map(|docker| docker.auths).or(old).unwrap_or_default();
        entries.extend(auths.into_iter().map(|(place, entry)| (normal(&place), auth(entry))));
    }
    Credentials { entries }
}

/// `https://index.docker.io/v1/` is `docker.io`.
fn normal(place: &str) -> String {
    let place = place.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/');
    let place = place.trim_end_matches("/v1").trim_end_matches("/v2");
    match place {
        "index.docker.io" | "registry-1.docker.io" => DOCKER.to_owned(),
        other => other.to_owned(),
    }
}

fn auth(entry: Entry) -> v1::AuthConfig {
    let decoded = STANDARD.decode(entry.auth.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let pair = decoded.as_deref().and_then(|text| text.split_once(':')).unwrap_or_default();
    let or = |given: String, other: &str| if given.is_empty() { other.to_owned() } else { given };
    v1::AuthConfig {
        username: or(entry.username, pair.0),
        password: or(entry.password, pair.1),
        identity_token: entry.identitytoken,
        ..v1::AuthConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_gets_the_credentials_of_its_registry() {
        let encoded = STANDARD.encode("anna:secret");
        let json = format!(
            r#"{{"auths": {{"https://index.docker.io/v1/": {{"auth": "{encoded}"}},
            "registry.test:5000": {{"username": "bert", "password": "x"}},
            "registry.test:5000/team": {{"username": "cora", "password": "y"}},
            "*.example.test": {{"username": "dora", "password": "z"}}}}}}"#
        );
        let all = credentials(&[Payload::of([(".dockerconfigjson", &json)]), Payload::of([("other", "x")])]);
        let users = |image: &str| all.of(image).into_iter().map(|auth| auth.username).collect::<Vec<_>>().join(" ");
        assert_eq!(users("busybox"), "anna");
        assert_eq!(all.of("busybox")[0].password, "secret");
        assert_eq!(users("registry.test:5000/app:1"), "bert");
        assert_eq!(users("registry.test:5000/team/app:1"), "cora bert");
        assert_eq!(users("registry.test:5000/teams/app:1"), "bert");
        assert_eq!(users("eu.example.test/app"), "dora");
        assert_eq!(users("elsewhere.test/app"), "");
    }
}
