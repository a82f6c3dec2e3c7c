//! Faults: which requests they strike, and what becomes of those.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use c5c3_apiserver::ApiError;
use http::{Response, StatusCode};

/// Something that goes wrong with requests on their way between a client and its server.
///
/// ```
/// # use c5c3_harness::Fault;
/// # use std::time::Duration;
/// // The third patch of a ConfigMap and the one after it conflict.
/// Fault::answer(409).to("patch", "/configmaps").after(2).times(2);
/// // The next creation happens, but who asked for it never hears of it.
/// Fault::lose_answer().to("create", "/secrets");
/// // Everything takes its time.
/// Fault::delay(Duration::from_millis(5)).always();
/// ```
#[derive(Clone, Debug)]
pub struct Fault {
    verb: Option<&'static str>,
    path: String,
    skip: usize,
    times: usize,
    delay: Duration,
    effect: Effect,
}

/// What becomes of a request that is struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It is served.
    Serve,
    /// It is answered with this status, and never reaches the server.
    Answer(u16),
    /// It is served, and its answer is lost.
    LoseAnswer,
    /// It never reaches the server, and is not answered.
    Disconnect,
}

/// A request that is struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strike {
    pub(crate) delay: Duration,
    pub(crate) effect: Effect,
}

/// What clients ask for.
const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

impl Fault {
    /// A request is answered with a status such as 409, 410, 429 or 500, and never reaches the server.
    pub fn answer(code: u16) -> Self {
        Self::new(Effect::Answer(code))
    }

    /// A request waits before it goes on.
    pub fn delay(time: Duration) -> Self {
        Self::new(Effect::Serve).late_by(time)
    }

    /// A request is served, but the connection breaks before the answer is there.
    pub fn lose_answer() -> Self {
        Self::new(Effect::LoseAnswer)
    }

    /// The connection breaks before a request reaches the server.
    pub fn disconnect() -> Self {
        Self::new(Effect::Disconnect)
    }

    fn new(effect: Effect) -> Self {
        Self { verb: None, path: String::new(), skip: 0, times: 1, delay: Duration::ZERO, effect }
    }

    /// Strikes requests of this verb (`get`, `list`, `watch`, `create`, `update`, `patch`, `delete`,
    /// `deletecollection`) whose path contains this text; without it, any request.
    ///
    /// # Panics
    /// If it is no such verb: the fault would never strike.
    pub fn to(self, verb: &'static str, path: impl Into<String>) -> Self {
        assert!(VERBS.contains(&verb), "{verb} is none of {VERBS:?}");
        Self { verb: Some(verb), ..self.to_path(path) }
    }

    /// Strikes requests whose path contains this text, whatever their verb.
    pub fn to_path(self, path: impl Into<String>) -> Self {
        Self { path: path.into(), ..self }
    }

    /// Lets this many matching requests pass first.
    pub fn after(self, count: usize) -> Self {
        Self { skip: count, ..self }
    }

    /// Strikes this many requests instead of one.
    pub fn times(self, count: usize) -> Self {
        Self { times: count, ..self }
    }

    /// Strikes until it is healed.
    pub fn always(self) -> Self {
        self.times(usize::MAX)
    }

    /// Lets a request wait before anything else happens to it.
    pub fn late_by(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    fn matches(&self, verb: &str, path: &str) -> bool {
        self.verb.is_none_or(|wanted| wanted == verb) && path.contains(&self.path)
    }
}

/// The faults that are still to come.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Vec<Fault>>);

impl Faults {
    pub(crate) fn add(&self, fault: Fault) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
    }

    pub(crate) fn left(&self) -> Vec<Fault> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What is to happen to this request. Every fault that it matches counts it; the first that is due strikes.
    pub(crate) fn strike(&self, verb: &str, path: &str) -> Option<Strike> {
        let mut faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut strike = None;
        for fault in faults.iter_mut().filter(|fault| fault.matches(verb, path)) {
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if strike.is_none() {
                strike = Some(Strike { delay: fault.delay, effect: fault.effect });
                fault.times = fault.times.saturating_sub(1);
            }
        }
        faults.retain(|fault| fault.times > 0);
        strike
    }
}

/// The answer to a request that is to fail, as a server would give it.
pub(crate) fn refusal(code: u16) -> Response<Body> {
    let reason = match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    ApiError { retry_after: (code == 429).then_some(1), ..ApiError::new(status, reason, "fault injected") }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "/api/v1/namespaces/orchard/configmaps";

    fn effects(faults: &Faults, requests: usize) -> Vec<Option<Effect>> {
        (0..requests).map(|_| faults.strike("get", MAPS).map(|strike| strike.effect)).collect()
    }

    #[test]
    fn the_nth_request_that_matches_is_struck() {
        let faults = Faults::default();
        faults.add(Fault::answer(409).to("get", "/configmaps").after(1).times(2));
        assert_eq!(faults.strike("list", MAPS), None);
        assert_eq!(faults.strike("get", "/api/v1/namespaces/orchard/secrets"), None);
        let conflict = Some(Effect::Answer(409));
        assert_eq!(faults.left().len(), 1);
        assert_eq!(effects(&faults, 4), [None, conflict, conflict, None]);
        assert!(faults.left().is_empty(), "all of it has struck");
    }

    #[test]
    fn faults_count_requests_independently() {
        let faults = Faults::default();
        faults.add(Fault::answer(409).to_path("/configmaps").after(1));
        faults.add(Fault::answer(500).to_path("/configmaps").after(3));
        let struck = effects(&faults, 5);
        assert_eq!(struck, [None, Some(Effect::Answer(409)), None, Some(Effect::Answer(500)), None]);
    }

    #[test]
    fn faults_last_until_they_are_healed() {
        let faults = Faults::default();
        faults.add(Fault::disconnect().always());
        assert_eq!(effects(&faults, 3), [Some(Effect::Disconnect); 3]);
        faults.clear();
        assert_eq!(effects(&faults, 1), [None]);
    }
}
