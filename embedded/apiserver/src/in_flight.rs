//! How many requests are served at once: as many that read and as many that write as upstream serves by default.
//!
//! Watches, logs and connections into pods last for as long as their clients want, and do not count. Members of
//! `system:masters` are served when others are refused, so that a person can see what is wrong.

use std::sync::Arc;

use c5c3_auth::{MASTERS, UserInfo};
use c5c3_kinds::Verb;
use http::{Method, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::path::Target;
use crate::status::{ApiError, Reason};

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

/// What a request is to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    Reads,
    Writes,
    /// For as long as its client wants.
    Lasts,
}

impl Load {
    /// Of a request for a resource.
    pub(crate) fn of_resource(verb: Option<Verb>, target: &Target) -> Self {
        let below = target.subresource.as_deref();
        match verb {
            _ if matches!(below, Some("attach" | "exec" | "log" | "portforward" | "proxy")) => Self::Lasts,
            Some(Verb::Watch) => Self::Lasts,
            Some(Verb::Get | Verb::List) => Self::Reads,
            Some(Verb::Create | Verb::Delete | Verb::DeleteCollection | Verb::Patch | Verb::Update) | None => {
                Self::Writes
            }
        }
    }

    /// Of a request for anything else: discovery, health, documents.
    pub(crate) fn of_path(method: &Method) -> Self {
        if matches!(*method, Method::GET | Method::HEAD) { Self::Reads } else { Self::Writes }
    }
}

impl InFlight {
    /// Admits a request until what this returns is dropped, or refuses it. What does not count gets nothing.
    pub(crate) fn enter(&self, load: Load, user: &UserInfo) -> Result<Option<OwnedSemaphorePermit>, ApiError> {
        let permits = match load {
            Load::Lasts => return Ok(None),
            Load::Reads => &self.reading,
            Load::Writes => &self.writing,
        };
        match permits.clone().try_acquire_owned() {
            Ok(permit) => Ok(Some(permit)),
            Err(_) if user.groups.iter().any(|group| group == MASTERS) => Ok(None),
            Err(_) => {
                let message = "Too many requests, please try again later.";
                let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, Reason::TooManyRequests, message);
                Err(ApiError { retry_after: Some(1), ..error })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Asked;

    fn load(verb: Verb, path: &str) -> Load {
        match Asked::parse(path) {
            Asked::Resource(target) => Load::of_resource(Some(verb), &target),
            Asked::Path => panic!("{path} is no resource"),
        }
    }

    #[test]
    fn as_many_requests_as_may_be_are_served_and_the_next_is_told_to_come_again() {
        let (limits, user) = (InFlight::default(), UserInfo::new("gardener", ["system:authenticated"]));
        let enter = |load: Load| limits.enter(load, &user);
        let writes: Vec<_> = (0..WRITING).map(|_| enter(Load::Writes).unwrap().unwrap()).collect();
        let refused = enter(Load::Writes).unwrap_err();
        assert_eq!((refused.code.as_u16(), refused.retry_after), (429, Some(1)));
        let reads: Vec<_> = (0..READING).map(|_| enter(Load::Reads).unwrap().unwrap()).collect();
        assert!(enter(Load::Reads).is_err());
        assert!(enter(Load::Lasts).unwrap().is_none());
        assert!(limits.enter(Load::Reads, &UserInfo::new("admin", [MASTERS])).is_ok());
        drop((writes, reads));
        assert!(enter(Load::Writes).is_ok() && enter(Load::Reads).is_ok());
    }

    #[test]
    fn watches_logs_and_connections_do_not_count() {
        assert_eq!(load(Verb::Watch, "/api/v1/pods"), Load::Lasts);
        assert_eq!(load(Verb::Get, "/api/v1/namespaces/a/pods/b/log"), Load::Lasts);
        assert_eq!(load(Verb::Create, "/api/v1/namespaces/a/pods/b/exec"), Load::Lasts);
        assert_eq!(load(Verb::Get, "/api/v1/namespaces/a/services/b/proxy/c"), Load::Lasts);
        assert_eq!(load(Verb::List, "/api/v1/pods"), Load::Reads);
        assert_eq!(load(Verb::Patch, "/api/v1/namespaces/a/pods/b/status"), Load::Writes);
        assert_eq!((Load::of_path(&Method::GET), Load::of_path(&Method::POST)), (Load::Reads, Load::Writes));
    }
}
