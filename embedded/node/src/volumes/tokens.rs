//! Tokens of service accounts for pods: asked for by name of the pod, renewed when four fifths of their life are over.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ServiceAccount, ServiceAccountTokenProjection};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::pod::Pod;

/// What a pod that does not say gets.
const LIFE: i64 = 3600;
/// However long it lives, a token is renewed each day.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);

/// The tokens of one pod.
#[derive(Default)]
pub(crate) struct Tokens {
    held: Mutex<HashMap<(String, String), Token>>,
}

#[derive(Clone)]
struct Token {
    text: String,
    issued_at: Timestamp,
    renewed_at: Timestamp,
}

impl Token {
    /// When it has to be renewed: at once if the clock was set back to before it was issued, since it is not valid yet by
    /// the clock of those who check it.
    fn due(&self, now: Timestamp) -> Timestamp {
        if now < self.issued_at { now } else { self.renewed_at }
    }
}

impl Tokens {
    /// The token for a file of a volume, new or still good.
    pub(super) async fn get(
        &self,
        client: &Client,
        pod: &Pod,
        volume: &str,
        source: &ServiceAccountTokenProjection,
    ) -> Result<String, kube::Error> {
        let key = (volume.to_owned(), source.path.clone());
        let now = Timestamp::now();
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(held) = held.as_ref().filter(|held| held.due(now) > now) {
            return Ok(held.text.clone());
        }
        let status = request(client, pod, source).await?.status;
        let Some(status) = status else { return Ok(String::new()) };
        let life = status.expiration_timestamp.0.duration_since(now);
        let renewed_at = now.checked_add((life * 4 / 5).min(LONGEST)).unwrap_or(now);
        let token = Token { text: status.token, issued_at: now, renewed_at };
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(key, token.clone());
        Ok(token.text)
    }

    /// When the first of them has to be renewed.
    pub(crate) fn next_renewal(&self) -> Option<Timestamp> {
        let (held, now) = (self.held.lock().unwrap_or_else(PoisonError::into_inner), Timestamp::now());
        held.values().map(|token| token.due(now)).min()
    }
}

async fn request(
    client: &Client,
    pod: &Pod,
    source: &ServiceAccountTokenProjection,
) -> Result<TokenRequest, kube::Error> {
    let account = pod.spec().service_account_name.as_deref().filter(|name| !name.is_empty()).unwrap_or("default");
    let spec = TokenRequestSpec {
        audiences: source.audience.clone().into_iter().filter(|audience| !audience.is_empty()).collect(),
        expiration_seconds: Some(source.expiration_seconds.unwrap_or(LIFE)),
        bound_object_ref: Some(BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(pod.name().to_owned()),
            uid: Some(pod.uid().to_owned()),
        }),
    };
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), pod.namespace());
    accounts.create_token_request(account, &PostParams::default(), &request).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::testing::at;

    #[test]
    fn a_token_from_before_the_clock_was_set_back_is_renewed_at_once() {
        let token = Token { text: String::new(), issued_at: at(7200), renewed_at: at(9000) };
        assert_eq!(token.due(at(7300)), at(9000));
        assert_eq!(token.due(at(3600)), at(3600));
    }
}
