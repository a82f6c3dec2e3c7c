//! Fencing: having a host switched off, and knowing that it is. The contract is in `docs/hypervisors.md`.

use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::config::AuthInfo;
use kube::{Api, Client, Config};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use crate::FENCING_SECRET;

/// For how long an answer is waited for. A management controller takes its time; one that needs longer answers `pending`.
const PATIENCE: Duration = Duration::from_mins(1);

/// The version of the contract.
const API_VERSION: &str = "fencing.c5c3.io/v1";

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FenceRequest {
    /// The version of the contract.
    pub api_version: String,
    /// The identity of the failure: the same for every request about it, so that the host is switched off once.
    pub id: String,
    /// The node that is to be off.
    pub node: String,
    /// Since when it is lost.
    pub lost_since: Timestamp,
    /// Why, for people.
    pub reason: String,
}

impl FenceRequest {
    /// A request about the failure of this node that began then. `uid` is that of its Hypervisor.
    pub fn new(node: &str, uid: &str, lost_since: Timestamp) -> Self {
        let id = format!("{uid}-{}", lost_since.as_second());
        let reason = format!("node {node} is not ready since {lost_since}; its servers are to start elsewhere");
        Self { api_version: API_VERSION.into(), id, node: node.into(), lost_since, reason }
    }
}

/// How a host is after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FenceState {
    /// It is off: seen, not only asked for.
    Off,
    /// It is being switched off; the same request asks again.
    Pending,
    /// It could not be switched off.
    Failed,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FenceAnswer {
    /// The identity that was asked about.
    pub id: String,
    /// How the host is.
    pub state: FenceState,
    /// What happened, for people.
    #[serde(default)]
    pub message: String,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fence {
    /// The host is off; with the record of it.
    Confirmed(String),
    /// It is not known to be off; with the reason.
    Open(String),
}

impl Fence {
    /// An answer is a confirmation only if it is about this failure and says that the host is off.
    pub fn judge(request: &FenceRequest, answer: Result<FenceAnswer, String>) -> Self {
        match answer {
            Err(why) => Self::Open(format!("the fencing webhook failed: {why}")),
            Ok(answer) if answer.id != request.id => {
                Self::Open(format!("the fencing webhook answered about {} and not about {}", answer.id, request.id))
            }
            Ok(FenceAnswer { state: FenceState::Off, id, message }) => {
                Self::Confirmed(format!("record {id}: {message}"))
            }
            Ok(FenceAnswer { state: FenceState::Pending, message, .. }) => {
                Self::Open(format!("the host is being switched off: {message}"))
            }
            Ok(FenceAnswer { state: FenceState::Failed, message, .. }) => {
                Self::Open(format!("the host could not be switched off: {message}"))
            }
        }
    }
}

/// Switches hosts off.
pub trait Fencer: Send + Sync {
    /// Has a host switched off. The same request again has no further effect.
    fn fence<'a>(&'a self, request: &'a FenceRequest) -> BoxFuture<'a, Result<FenceAnswer, String>>;
}

/// A webhook that switches hosts off, such as one that speaks to their management controllers.
pub struct Webhook {
    client: Client,
    path: String,
}

impl Webhook {
    /// The webhook that the Secret names.
    pub async fn read(client: Client, namespace: &str) -> Result<Self, String> {
        let name = format!("secret/{namespace}/{FENCING_SECRET}");
        let secret = Api::<Secret>::namespaced(client, namespace).get_opt(FENCING_SECRET).await;
        let secret = secret.map_err(|error| format!("{name} cannot be read: {error}"))?;
        let secret = secret.ok_or_else(|| format!("{name} does not exist, which names the fencing webhook"))?;
        let data = secret.data.unwrap_or_default();
        let text = |key: &str| data.get(key).and_then(|value| String::from_utf8(value.0.clone()).ok());
        let required = |key: &str| text(key).ok_or_else(|| format!("{name} has no key {key}"));
        let (url, token) = (required("url")?, required("token")?);
        Self::new(url.trim(), token.trim().to_owned().into(), text("ca.crt").as_deref())
            .map_err(|problem| format!("{name}: {problem}"))
    }

    /// A webhook at this URL, which is told the token, and whose certificate is verified.
    pub fn new(url: &str, token: SecretString, ca: Option<&str>) -> Result<Self, String> {
        let uri: http::Uri = url.parse().map_err(|_| "url is not a URL")?;
        if uri.scheme_str() != Some("https") {
            return Err("url has to begin with https://: the token must not be read on the way".into());
        }
        let authority = uri.authority().ok_or("url has no host")?;
        let path = uri.path_and_query().map_or_else(|| "/".into(), ToString::to_string);
        let base = format!("https://{authority}").parse().map_err(|_| "url is not a URL")?;
        let mut config = Config::new(base);
        config.auth_info = AuthInfo { token: Some(token), ..AuthInfo::default() };
        config.connect_timeout = Some(Duration::from_secs(5));
        config.proxy_url = None;
        config.root_cert = ca.map(certificates).transpose()?;
        let client = Client::try_from(config).map_err(|error| error.to_string())?;
        Ok(Self { client, path })
    }

    async fn ask(&self, request: &FenceRequest) -> Result<FenceAnswer, String> {
        let body = serde_json::to_vec(request).map_err(|error| error.to_string())?;
        let call = http::Request::post(&self.path).header("content-type", "application/json").body(body);
        let call = call.map_err(|error| error.to_string())?;
        let asked = tokio::time::timeout(PATIENCE, self.client.request::<FenceAnswer>(call)).await;
        let answered = asked.map_err(|_| format!("no answer within {} s", PATIENCE.as_secs()))?;
        answered.map_err(|error| error.to_string())
    }
}

impl Fencer for Webhook {
    fn fence<'a>(&'a self, request: &'a FenceRequest) -> BoxFuture<'a, Result<FenceAnswer, String>> {
        Box::pin(self.ask(request))
    }
}

fn certificates(text: &str) -> Result<Vec<Vec<u8>>, String> {
    let found = pem::parse_many(text).map_err(|_| "ca.crt is not PEM")?;
    if found.is_empty() {
        return Err("ca.crt has no certificate".into());
    }
    Ok(found.into_iter().map(pem::Pem::into_contents).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> FenceRequest {
        FenceRequest::new("pear", "7", "2026-01-31T12:00:00Z".parse().unwrap())
    }

    #[test]
    fn only_an_answer_that_says_off_about_this_failure_confirms() {
        let answer = |id: &str, state| Ok(FenceAnswer { id: id.into(), state, message: "m".into() });
        let judged = |answer| matches!(Fence::judge(&request(), answer), Fence::Confirmed(_));
        let own = request().id;
        assert!(judged(answer(&own, FenceState::Off)));
        assert!(!judged(answer("another", FenceState::Off)));
        assert!(!judged(answer(&own, FenceState::Pending)) && !judged(answer(&own, FenceState::Failed)));
        assert!(!judged(Err("no route".into())));
    }

    #[test]
    fn a_request_about_the_same_failure_has_the_same_id() {
        assert_eq!(request().id, "7-1769860800");
        assert_ne!(request().id, FenceRequest::new("pear", "7", "2026-01-31T12:00:01Z".parse().unwrap()).id);
        let wire = serde_json::to_value(request()).unwrap();
        assert_eq!((&wire["apiVersion"], &wire["node"]), (&API_VERSION.into(), &"pear".into()));
        assert_eq!(wire["lostSince"], "2026-01-31T12:00:00Z");
    }

    #[test]
    fn a_webhook_without_tls_is_refused() {
        let refused = |url: &str, ca| Webhook::new(url, "t".to_owned().into(), ca).err().unwrap();
        assert!(refused("http://bmc.example/fence", None).contains("https://"));
        assert!(refused("https://bmc.example/fence", Some("nothing")).contains("no certificate"));
    }
}
