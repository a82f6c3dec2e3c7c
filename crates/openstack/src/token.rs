//! A token, and the session that keeps one per credential: it is reused until half of its life has passed, and one
//! authentication at a time is in flight, whose outcome all callers share that waited for it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::HeaderValue;
use jiff::Timestamp;
use serde::Deserialize;
use tokio::sync::Mutex;

use crate::catalog::Catalog;
use crate::error::Error;

/// While Keystone is unavailable, a token in the second half of its life stays in use, and renewal is tried this often.
const RENEWAL_BACK_OFF: Duration = Duration::from_secs(30);

/// The user and the project of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The user's id.
    pub user_id: String,
    /// The user's name.
    pub user_name: String,
    /// The id of the project that the token is valid for, if it is one.
    pub project_id: Option<String>,
}

/// A token with its catalog.
pub(crate) struct Token {
    /// The value of `X-Auth-Token`, marked as sensitive.
    pub value: HeaderValue,
    pub catalog: Catalog,
    pub subject: Subject,
    pub obtained: Instant,
    life: Duration,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("subject", &self.subject).field("life", &self.life).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
pub(crate) struct TokenBody {
    issued_at: Timestamp,
    expires_at: Timestamp,
    user: Named,
    project: Option<Named>,
    #[serde(default)]
    catalog: Catalog,
}

#[derive(Deserialize)]
struct Named {
    id: String,
    #[serde(default)]
    name: String,
}

impl Token {
    /// Its life is counted from now, by Keystone's two times: the clocks of both machines may differ.
    pub fn new(mut value: HeaderValue, body: TokenBody, now: Instant) -> Self {
        value.set_sensitive(true);
        let life = body.issued_at.duration_until(body.expires_at).unsigned_abs();
        let life = if body.expires_at > body.issued_at { life } else { Duration::ZERO };
        let TokenBody { user, project, catalog, .. } = body;
        let subject = Subject { user_id: user.id, user_name: user.name, project_id: project.map(|project| project.id) };
        Self { value, catalog, subject, obtained: now, life }
    }

    fn is_expired(&self, now: Instant) -> bool {
        now >= self.obtained + self.life
    }
}

#[derive(Default)]
struct State {
    token: Option<Arc<Token>>,
    renew_at: Option<Instant>,
    /// How the last authentication failed, for those who waited for it.
    failed: Option<Error>,
}

impl State {
    fn usable(&self, rejected: Option<&Arc<Token>>) -> Option<&Arc<Token>> {
        self.token.as_ref().filter(|token| rejected.is_none_or(|rejected| !Arc::ptr_eq(token, rejected)))
    }
}

/// The token of one credential.
#[derive(Default)]
pub(crate) struct Session {
    state: Mutex<State>,
    /// How many authentications have ended: a caller that sees it grow while it waits takes their outcome.
    ended: AtomicU64,
}

impl Session {
    /// The present token, or a new one if it is due for renewal or is the one that a service `rejected`.
    pub async fn token<F>(
        &self,
        rejected: Option<&Arc<Token>>,
        now: impl Fn() -> Instant,
        authenticate: impl FnOnce() -> F,
    ) -> Result<Arc<Token>, Error>
    where
        F: Future<Output = Result<Token, Error>>,
    {
        let ended = self.ended.load(Ordering::Acquire);
        let mut state = self.state.lock().await;
        if let (Some(token), Some(renew_at)) = (state.usable(rejected), state.renew_at)
            && now() < renew_at
        {
            return Ok(Arc::clone(token));
        }
        if self.ended.load(Ordering::Acquire) > ended
            && let Some(error) = &state.failed
        {
            return Err(error.clone());
        }
        let result = authenticate().await;
        self.ended.fetch_add(1, Ordering::Release);
        match result {
            Ok(token) => {
                let token = Arc::new(token);
                let renew_at = Some(token.obtained + token.life / 2);
                *state = State { token: Some(Arc::clone(&token)), renew_at, failed: None };
                Ok(token)
            }
            Err(error) => {
                state.failed = Some(error.clone());
                let valid = state.usable(rejected).filter(|token| !token.is_expired(now())).cloned();
                if let Some(token) = valid.filter(|_| error.is_retryable()) {
                    tracing::warn!(%error, "the token is not renewed yet; the present one is still valid");
                    state.renew_at = Some(now() + RENEWAL_BACK_OFF);
                    return Ok(token);
                }
                Err(error)
            }
        }
    }
}
