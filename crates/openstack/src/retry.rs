//! Whether and when a request is sent again. Pure: the client waits and sends.

use std::time::Duration;

use http::{Method, StatusCode};

/// How often a request is sent at most.
pub(crate) const TRIES: u32 = 3;

/// The first back-off; each further one is four times as long.
const FIRST: Duration = Duration::from_millis(250);

/// How a try ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The service answered, and may have said when to come back.
    Answered(StatusCode, Option<Duration>),
    /// No connection was made, so the service has not seen the request.
    NotConnected,
    /// The connection ended before the answer, so the service may have done the work.
    Broken,
    /// The time limit of the call has passed.
    TimedOut,
}

/// Whether a method may be repeated although the service may have done the work already. A repeated POST would be
/// answered with a conflict for the very resource that the first one created.
pub(crate) fn repeatable(method: &Method) -> bool {
    method.is_idempotent()
}

/// How long to wait before the next try; `None` if there is none. `jitter` is in 0..1.
pub(crate) fn delay(tries: u32, repeatable: bool, outcome: Outcome, jitter: f64) -> Option<Duration> {
    let (again, after) = match outcome {
        Outcome::Answered(StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, after) => (true, after),
        Outcome::Answered(
            StatusCode::INTERNAL_SERVER_ERROR | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT,
            after,
        ) => (repeatable, after),
        Outcome::Answered(..) | Outcome::TimedOut => (false, None),
        Outcome::NotConnected => (true, None),
        Outcome::Broken => (repeatable, None),
    };
    if !again || tries >= TRIES {
        return None;
    }
    let back_off = FIRST * 4_u32.pow(tries.saturating_sub(1));
    Some(match after {
        // Never earlier than asked for; the jitter keeps clients apart that were told the same.
        Some(after) => after + FIRST.mul_f64(jitter),
        None => back_off.mul_f64(0.5 + jitter / 2.0),
    })
}

/// The seconds of a `Retry-After` header. OpenStack's services send no dates in it.
pub(crate) fn retry_after(header: Option<&http::HeaderValue>) -> Option<Duration> {
    header?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16) -> Outcome {
        Outcome::Answered(StatusCode::from_u16(status).unwrap(), None)
    }

    fn retried(method: &Method) -> Vec<u16> {
        (200..600).filter(|status| delay(1, repeatable(method), answered(*status), 0.0).is_some()).collect()
    }

    #[test]
    fn idempotent_methods_are_retried_after_every_outage() {
        assert_eq!(retried(&Method::GET), [429, 500, 502, 503, 504]);
        assert_eq!(retried(&Method::DELETE), [429, 500, 502, 503, 504]);
        assert!(delay(1, true, Outcome::Broken, 0.0).is_some());
    }

    #[test]
    fn a_post_is_retried_only_if_the_service_has_not_worked_on_it() {
        assert_eq!(retried(&Method::POST), [429, 503]);
        assert!(delay(1, false, Outcome::NotConnected, 0.0).is_some());
        assert_eq!(delay(1, false, Outcome::Broken, 0.0), None);
    }

    #[test]
    fn the_third_try_is_the_last() {
        assert!(delay(2, true, answered(503), 0.0).is_some());
        assert_eq!(delay(3, true, answered(503), 0.0), None);
        assert_eq!(delay(1, true, Outcome::TimedOut, 0.0), None);
    }

    #[test]
    fn the_back_off_grows_and_has_jitter() {
        let ms = |tries, jitter| delay(tries, true, answered(503), jitter).unwrap().as_millis();
        assert_eq!((ms(1, 0.0), ms(1, 1.0)), (125, 250));
        assert_eq!((ms(2, 0.0), ms(2, 1.0)), (500, 1000));
    }

    #[test]
    fn retry_after_is_waited_for_in_full() {
        let after = retry_after(Some(&http::HeaderValue::from_static("7")));
        let outcome = Outcome::Answered(StatusCode::TOO_MANY_REQUESTS, after);
        assert_eq!(delay(1, false, outcome, 0.0), Some(Duration::from_secs(7)));
        assert_eq!(retry_after(Some(&http::HeaderValue::from_static("soon"))), None);
    }
}
