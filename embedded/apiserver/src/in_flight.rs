//! How many requests are served at once: as many that read and as many that write as upstream serves by default.
//!
//! Watches, logs and connections into pods last for as long as their clients want, and do not count. Members of
//! `system:masters` are served when others are refused, so that a person can see what is wrong.

use std::sync::Arc;

use c5c3_auth::{MASTERS, UserInfo};
use http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::path::Target;
use crate::status::ApiError;

/// The most requests that only read.
const READING: usize = 400;
/// The most requests that write.
const WRITING: usize = 200;

/// Requests that are being served.
#[derive(Debug)]
pub(crate) struct InFlight {
    reading: Arc<Semaphore>,
    writing: Arc<Semaphore>,
}

impl Default for InFlight {
    fn default() -> Self {
        Self { reading: Arc::new(Semaphore::new(READING)), writing: Arc::new(Semaphore::new(WRITING)) }
    }
}

impl InFlight {
    /// Admits a request until what this returns is dropped, or refuses it. What does not count gets nothing.
    pub(crate) fn enter(
        &self,
        verb: &str,
        target: Option<&Target>,
        user: &UserInfo,
    ) -> Result<Option<OwnedSemaphorePermit>, ApiError> {
        if is_long_running(verb, target) {
            return Ok(None);
        }
        let reads = matches!(verb, "get" | "list" | "head");
        let permit = if reads { &self.reading } else { &self.writing }.clone().try_acquire_owned();
        match permit {
            Ok(permit) => Ok(Some(permit)),
            Err(_) if user.groups.iter().any(|group| group == MASTERS) => Ok(None),
            Err(_) => {
                let message = "Too many requests, please try again later.";
                let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
                Err(ApiError { retry_after: Some(1), ..error })
            }
        }
    }
}

fn is_long_running(verb: &str, target: Option<&Target>) -> bool {
    let below = target.and_then(|target| target.subresource.as_deref());
    verb == "watch" || matches!(below, Some("attach" | "exec" | "log" | "portforward" | "proxy"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Asked;

    fn target(path: &str) -> Option<Target> {
        match Asked::parse(path) {
            Asked::Resource(target) => Some(target),
            Asked::Path => None,
        }
    }

    #[test]
    fn as_many_requests_as_may_be_are_served_and_the_next_is_told_to_come_again() {
        let (limits, user) = (InFlight::default(), UserInfo::new("gardener", ["system:authenticated"]));
        let pods = target("/api/v1/pods");
        let enter = |verb: &str| limits.enter(verb, pods.as_ref(), &user);
        let writes: Vec<_> = (0..WRITING).map(|_| enter("create").unwrap().unwrap()).collect();
        let refused = enter("delete").unwrap_err();
        assert_eq!((refused.code.as_u16(), refused.retry_after), (429, Some(1)));
        let reads: Vec<_> = (0..READING).map(|_| enter("list").unwrap().unwrap()).collect();
        assert!(enter("get").is_err());
        let administrator = UserInfo::new("admin", [MASTERS]);
        assert!(limits.enter("get", pods.as_ref(), &administrator).is_ok());
        drop((writes, reads));
        assert!(enter("delete").is_ok() && enter("get").is_ok());
    }

    #[test]
    fn what_lasts_does_not_count() {
        let (limits, user) = (InFlight::default(), UserInfo::new("gardener", ["system:authenticated"]));
        for (verb, path) in [
            ("watch", "/api/v1/pods"),
            ("get", "/api/v1/namespaces/a/pods/b/log"),
            ("create", "/api/v1/namespaces/a/pods/b/exec"),
            ("get", "/api/v1/namespaces/a/services/b/proxy/c"),
        ] {
            assert!(limits.enter(verb, target(path).as_ref(), &user).unwrap().is_none(), "{verb} {path}");
        }
        assert!(limits.enter("get", None, &user).unwrap().is_some());
    }
}
