//! From a bearer token to a user: static tokens held in memory, and service account tokens.

use jiff::Timestamp;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use secrecy::{ExposeSecret, SecretString};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use zeroize::Zeroizing;

use crate::pki::{Pki, PkiError, random};
use crate::token::{Lookup, MAX_TOKEN_BYTES, ServiceAccountTokens, TokenError};
use crate::user::{AUTHENTICATED, UserInfo};
use crate::wording::hex;

/// Decides whom a bearer token belongs to.
#[derive(Debug)]
pub struct Authenticator {
    static_tokens: Vec<StaticToken>,
    service_accounts: ServiceAccountTokens,
}

/// Only the hash is kept: memory that leaks gives no one a token.
#[derive(Debug)]
struct StaticToken {
    hash: [u8; SHA256_OUTPUT_LEN],
    user: UserInfo,
}

/// A token that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    /// Whose it is.
    pub user: UserInfo,
    /// For which of the audiences asked it is meant.
    pub audiences: Vec<String>,
}

impl Authenticator {
    /// Accepts the service account tokens of this cluster, and no static token yet.
    pub fn new(pki: &Pki) -> Self {
        Self { static_tokens: Vec::new(), service_accounts: ServiceAccountTokens::new(pki) }
    }

    /// Accepts `token` for `user`, who is made a member of `system:authenticated`.
    pub fn with_token(mut self, token: &SecretString, mut user: UserInfo) -> Self {
        if !user.is_in(AUTHENTICATED) {
            user.groups.push(AUTHENTICATED.to_owned());
        }
        self.static_tokens.push(StaticToken { hash: hash(token.expose_secret()), user });
        self
    }

    /// The service account tokens, to issue some and to publish their key.
    pub fn service_accounts(&self) -> &ServiceAccountTokens {
        &self.service_accounts
    }

    /// Whose token this is, asked by the API server for its own audiences.
    pub fn bearer(&self, token: &str, lookup: &dyn Lookup, now: Timestamp) -> Result<Authenticated, TokenError> {
        self.bearer_for(token, self.service_accounts.audiences(), lookup, now)
    }

    /// Whose token this is, asked by someone for audiences of their own (TokenReview).
    pub fn bearer_for(
        &self,
        token: &str,
        audiences: &[String],
        lookup: &dyn Lookup,
        now: Timestamp,
    ) -> Result<Authenticated, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::TooLong);
        }
        let Some(user) = self.static_user(token) else {
            let (claims, audiences) = self.service_accounts.verify(token, audiences, lookup, now)?;
            return Ok(Authenticated { user: claims.user(), audiences });
        };
        // A static token says nothing of audiences: it is for the API, and for no one else.
        let ours = self.service_accounts.audiences();
        let shared: Vec<_> = audiences.iter().filter(|a| ours.contains(a)).cloned().collect();
        if shared.is_empty() {
            return Err(TokenError::Audience { token: ours.to_vec(), target: audiences.to_vec() });
        }
        Ok(Authenticated { user: user.clone(), audiences: shared })
    }

    /// Looks at every token to its end, so that the time taken says nothing about any.
    fn static_user(&self, token: &str) -> Option<&UserInfo> {
        let presented = hash(token);
        let mut found = u32::MAX;
        for (index, known) in (0..).zip(&self.static_tokens) {
            let same: Choice = known.hash.ct_eq(&presented);
            found.conditional_assign(&index, same);
        }
        self.static_tokens.get(usize::try_from(found).ok()?).map(|known| &known.user)
    }
}

/// A new static token: 256 bits, hexadecimal.
pub fn generate_token() -> Result<SecretString, PkiError> {
    let bytes = Zeroizing::new(random::<32>()?);
    Ok(Zeroizing::new(hex(bytes.as_slice())).as_str().into())
}

fn hash(token: &str) -> [u8; SHA256_OUTPUT_LEN] {
    let mut bytes = [0; SHA256_OUTPUT_LEN];
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::tests::{Objects, now};

    #[test]
    fn a_static_token_gives_its_user_and_any_other_gives_none() {
        let (admin, guest) = (generate_token().unwrap(), generate_token().unwrap());
        let authenticator = Authenticator::new(&Pki::in_memory(&[], now()).unwrap())
            .with_token(&admin, UserInfo::new("root", ["system:masters"]))
            .with_token(&guest, UserInfo::new("guest", ["visitors"]));
        let bearer = |token: &str| authenticator.bearer(token, &Objects::default(), now());
        let root = bearer(admin.expose_secret()).unwrap().user;
        assert_eq!(root, UserInfo::new("root", ["system:masters", AUTHENTICATED]));
        assert_eq!(bearer(guest.expose_secret()).unwrap().user.name, "guest");
        let almost = format!("{}-", &admin.expose_secret()[..63]);
        for wrong in ["", "root", &almost, &"x".repeat(MAX_TOKEN_BYTES + 1)] {
            assert!(bearer(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_static_token_is_for_the_api_only() {
        let token = generate_token().unwrap();
        let authenticator = Authenticator::new(&Pki::in_memory(&[], now()).unwrap())
            .with_token(&token, UserInfo::new("root", ["system:masters"]));
        let vault = ["vault".to_owned()];
        let answer = authenticator.bearer_for(token.expose_secret(), &vault, &Objects::default(), now());
        assert!(matches!(answer, Err(TokenError::Audience { .. })));
    }

    #[test]
    fn debug_output_shows_no_token() {
        let token: SecretString = "very-secret-text".into();
        let authenticator = Authenticator::new(&Pki::in_memory(&[], now()).unwrap())
            .with_token(&token, UserInfo::new("root", ["system:masters"]));
        assert!(!format!("{authenticator:?}").contains("very-secret-text"));
    }
}
