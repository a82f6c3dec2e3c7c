//! JSON Web Tokens with one algorithm, ES256, and one key. Whatever else a header asks for is refused.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::pki::{P256, PkiError};
use crate::wording::quoted_list;

/// Longer bearer tokens are refused unread; a token of ours has about 1 KiB.
pub const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// Why a token is not accepted. The wording is the real server's where clients may see it, in a TokenReview.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// More than [`MAX_TOKEN_BYTES`].
    #[error("bearer token is too long")]
    TooLong,
    /// Not three parts of base64 that hold what they should.
    #[error("token is malformed")]
    Malformed,
    /// `none`, a symmetric algorithm, or one that we do not sign with.
    #[error("token is signed with an algorithm that is not accepted")]
    Algorithm,
    /// Names a key that is not ours.
    #[error("token is signed with an unknown key")]
    UnknownKey,
    /// Changed after signing, or signed by someone else.
    #[error("token signature does not hold")]
    Signature,
    /// Issued elsewhere.
    #[error("token is from another issuer")]
    Issuer,
    /// Meant for someone else.
    #[error("token audiences {} is invalid for the target audiences {}", quoted_list(token), quoted_list(target))]
    Audience {
        /// Whom the token is meant for.
        token: Vec<String>,
        /// Who is asking.
        target: Vec<String>,
    },
    /// Over.
    #[error("service account token has expired")]
    Expired,
    /// Before its time.
    #[error("service account token is not valid yet")]
    NotYetValid,
    /// From the future.
    #[error("service account token is issued in the future")]
    FromTheFuture,
    /// The service account does not exist.
    #[error("serviceaccounts {0:?} not found")]
    NoServiceAccount(String),
    /// The service account is being deleted.
    #[error("service account {0} has been deleted")]
    Deleted(String),
    /// The service account was replaced by another of the same name.
    #[error("service account UID ({found}) does not match claim ({claimed})")]
    Replaced {
        /// What is there now.
        found: String,
        /// What the token says.
        claimed: String,
    },
    /// The pod, secret or node that the token is bound to is gone or another.
    #[error("service account token has been invalidated")]
    Unbound,
}

#[derive(Serialize)]
struct Header<'a> {
    alg: &'a str,
    kid: &'a str,
}

/// What a header may say. `crit` asks for an extension that must be understood, and we know none.
#[derive(Deserialize)]
struct Presented {
    alg: String,
    kid: Option<String>,
    crit: Option<serde_json::Value>,
}

pub(super) fn sign(key: &P256, key_id: &str, claims: &impl Serialize) -> Result<SecretString, PkiError> {
    let part = |json: Result<Vec<u8>, serde_json::Error>| json.map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
    let header = part(serde_json::to_vec(&Header { alg: "ES256", kid: key_id })).map_err(|_| PkiError::Key)?;
    let payload = part(serde_json::to_vec(claims)).map_err(|_| PkiError::Key)?;
    let mut token = format!("{header}.{payload}");
    let signature = key.sign_fixed(token.as_bytes())?;
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut token);
    Ok(token.into())
}

pub(super) fn verify<T: DeserializeOwned>(key: &P256, key_id: &str, token: &str) -> Result<T, TokenError> {
    let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
    let (header, payload) = signed.split_once('.').ok_or(TokenError::Malformed)?;
    let header: Presented = parse(header)?;
    if header.alg != "ES256" || header.crit.is_some() {
        return Err(TokenError::Algorithm);
    }
    if header.kid.as_deref() != Some(key_id) {
        return Err(TokenError::UnknownKey);
    }
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenError::Malformed)?;
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.public())
        .verify(signed.as_bytes(), &signature)
        .map_err(|_| TokenError::Signature)?;
    parse(payload)
}

fn parse<T: DeserializeOwned>(part: &str) -> Result<T, TokenError> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)?;
    serde_json::from_slice(&bytes).map_err(|_| TokenError::Malformed)
}
