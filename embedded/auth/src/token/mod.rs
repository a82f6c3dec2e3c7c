//! Service account tokens: issued, verified, bound to objects that can go away, and described to other verifiers.

mod claims;
mod jwt;
mod request;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use serde_json::{Value, json};

pub use claims::{Binding, Claims, Reference};
pub use jwt::{MAX_TOKEN_BYTES, TokenError};

use crate::pki::{P256, Pki, PkiError};

/// Who signs tokens, and the audience of tokens for the API itself.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Clocks that differ by less are taken for the same, as everywhere in Kubernetes.
const LEEWAY_SECONDS: i64 = 60;

/// Signatures remembered. One costs 100 µs to check and a client shows the same token with every request.
const REMEMBERED: usize = 4096;

/// What a token may be bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The service account itself.
    ServiceAccount,
    /// The pod that holds the token.
    Pod,
    /// A secret whose deletion revokes the token.
    Secret,
    /// A node.
    Node,
}

/// What the server knows of an object that a token names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.deletionTimestamp`.
    pub deleted_at: Option<Timestamp>,
    /// `spec.serviceAccountName` of a pod.
    pub service_account: Option<String>,
    /// `spec.nodeName` of a pod.
    pub node: Option<String>,
}

/// Where the objects are. The API server implements it on its store.
pub trait Lookup {
    /// The object of that kind and name; the namespace is empty for nodes.
    fn find(&self, kind: Kind, namespace: &str, name: &str) -> Option<Found>;
}

/// Issues and verifies the tokens of one cluster.
#[derive(Debug)]
pub struct ServiceAccountTokens {
    key: Arc<P256>,
    key_id: String,
    issuer: String,
    audiences: Vec<String>,
    verified: Mutex<HashMap<[u8; SHA256_OUTPUT_LEN], Arc<Claims>>>,
}

impl ServiceAccountTokens {
    /// Tokens signed with the cluster's key, for its own API unless asked otherwise.
    pub fn new(pki: &Pki) -> Self {
        let key = pki.token_key();
        Self {
            key_id: URL_SAFE_NO_PAD.encode(digest(&SHA256, &key.spki())),
            key,
            issuer: ISSUER.to_owned(),
            audiences: vec![ISSUER.to_owned()],
            verified: Mutex::default(),
        }
    }

    /// The audiences that the API itself accepts.
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// Signs claims as they are. TokenRequests go through [`Self::token_request`], which decides what to claim.
    pub fn sign(&self, claims: &Claims) -> Result<secrecy::SecretString, PkiError> {
        jwt::sign(&self.key, &self.key_id, claims)
    }

    /// Whether the token is ours, in force, meant for one of `audiences`, and its objects still there.
    ///
    /// Gives the claims and those of the audiences that the token has.
    pub fn verify(
        &self,
        token: &str,
        audiences: &[String],
        lookup: &dyn Lookup,
        now: Timestamp,
    ) -> Result<(Arc<Claims>, Vec<String>), TokenError> {
        let claims = self.signed_claims(token)?;
        let shared: Vec<_> = audiences.iter().filter(|a| claims.aud.contains(a)).cloned().collect();
        if shared.is_empty() {
            return Err(TokenError::Audience { token: claims.aud.clone(), target: audiences.to_vec() });
        }
        claims.in_force(now)?;
        claims.still_bound(lookup, now)?;
        Ok((claims, shared))
    }

    /// What the token says, once its signature holds: remembered, because unlike time and bindings it cannot change.
    fn signed_claims(&self, token: &str) -> Result<Arc<Claims>, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::TooLong);
        }
        let mut fingerprint = [0; SHA256_OUTPUT_LEN];
        fingerprint.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        let remembered = || self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(claims) = remembered().get(&fingerprint) {
            return Ok(Arc::clone(claims));
        }
        let claims: Claims = jwt::verify(&self.key, &self.key_id, token)?;
        if claims.iss != self.issuer {
            return Err(TokenError::Issuer);
        }
        let claims = Arc::new(claims);
        let mut cache = remembered();
        if cache.len() >= REMEMBERED {
            cache.clear();
        }
        cache.insert(fingerprint, Arc::clone(&claims));
        Ok(claims)
    }

    /// `/.well-known/openid-configuration`: where other verifiers find the keys.
    pub fn discovery(&self, server_url: &str) -> Value {
        json!({
            "issuer": self.issuer,
            "jwks_uri": format!("{}/openid/v1/jwks", server_url.trim_end_matches('/')),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }

    /// `/openid/v1/jwks`: the public key.
    pub fn jwks(&self) -> Value {
        let (x, y) = self.key.public()[1..].split_at(32);
        json!({"keys": [{
            "use": "sig", "kty": "EC", "kid": self.key_id, "crv": "P-256", "alg": "ES256",
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        }]})
    }
}

#[cfg(test)]
pub(crate) mod tests;
