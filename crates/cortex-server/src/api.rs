//! `POST /scheduler/{nova,cinder,manila}/external`.

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State as Extract};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use c5c3_cortex::{Decision, Domain, SchedulingError, wire};
use jiff::Timestamp;

use crate::state::State;
use crate::token::Refusal;

/// Ten thousand hosts with long names are about two MiB.
const LARGEST_BODY: usize = 16 * 1024 * 1024;

/// What is wrong, as a status and a line of text.
type Refused = (StatusCode, String);

/// The routes of the API, of the services whose requests are answered.
pub fn routes(state: State, domains: &[Domain]) -> Router {
    let add = |routes: Router<State>, domain: &Domain| match domain {
        Domain::Nova => routes.route("/scheduler/nova/external", post(nova)),
        Domain::Cinder => routes.route("/scheduler/cinder/external", post(cinder)),
        Domain::Manila => routes.route("/scheduler/manila/external", post(manila)),
    };
    domains.iter().fold(Router::new(), add).layer(DefaultBodyLimit::max(LARGEST_BODY)).with_state(state)
}

async fn nova(state: Extract<State>, headers: HeaderMap, body: Bytes) -> Response {
    answer(state.0, Domain::Nova, "/scheduler/nova/external", &headers, body).await
}

async fn cinder(state: Extract<State>, headers: HeaderMap, body: Bytes) -> Response {
    answer(state.0, Domain::Cinder, "/scheduler/cinder/external", &headers, body).await
}

async fn manila(state: Extract<State>, headers: HeaderMap, body: Bytes) -> Response {
    answer(state.0, Domain::Manila, "/scheduler/manila/external", &headers, body).await
}

async fn answer(state: State, domain: Domain, path: &'static str, headers: &HeaderMap, body: Bytes) -> Response {
    let begun = Instant::now();
    let metrics = state.metrics.clone();
    let answered = match allowed(&state, headers).await {
        Ok(()) => decide(state, domain, body).await,
        Err(refused) => Err(refused),
    };
    let (status, response) = match answered {
        Ok(json) => (StatusCode::OK, ([(header::CONTENT_TYPE, "application/json")], json).into_response()),
        Err((status, text)) => (status, (status, text).into_response()),
    };
    metrics.answered(path, status.as_u16(), begun.elapsed());
    response
}

async fn allowed(state: &State, headers: &HeaderMap) -> Result<(), Refused> {
    match state.tokens.check(headers).await {
        Ok(()) => {}
        Err(Refusal::Wrong) => {
            return Err((StatusCode::UNAUTHORIZED, "the request has no bearer token, or a wrong one\n".into()));
        }
        Err(Refusal::NoTokens) => {
            return Err((
                StatusCode::SERVICE_UNAVAILABLE,
                "the scheduler has no tokens, so that nobody is let in\n".into(),
            ));
        }
    }
    if state.leads() {
        return Ok(());
    }
    Err((StatusCode::SERVICE_UNAVAILABLE, "this scheduler is a standby; another one decides\n".into()))
}

/// Off the threads that serve connections: ten thousand hosts take milliseconds.
async fn decide(state: State, domain: Domain, body: Bytes) -> Result<String, Refused> {
    let turn = state.turns.clone().acquire_owned().await;
    let work = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let request = wire::read(domain, &body).map_err(|error| (StatusCode::BAD_REQUEST, format!("{error}\n")))?;
        let (at, begun) = (Timestamp::now(), Instant::now());
        // Who only asks shares the lock, and counts in no metric of decisions.
        if request.options.read_only {
            let decision = state.read().look(&request).map_err(|error| refused(&error))?;
            return Ok(wire::answer(&decision.names()).to_string());
        }
        let decision = state.decide(&request, at).map_err(|error| refused(&error))?;
        Ok(finish(&state, decision, at, begun.elapsed()))
    });
    work.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a decision panicked");
        Err((StatusCode::INTERNAL_SERVER_ERROR, "the decision failed; the scheduler's log says why\n".into()))
    })
}

fn finish(state: &State, decision: Decision, at: Timestamp, time: Duration) -> String {
    let in_flight = state.read().in_flight().len();
    state.metrics.decided(&decision, in_flight, time);
    let answer = wire::answer(&decision.names()).to_string();
    if decision.recorded {
        state.record(decision, at);
    }
    answer
}

fn refused(error: &SchedulingError) -> Refused {
    let status = match error {
        SchedulingError::NoPipeline(_) => StatusCode::BAD_REQUEST,
        SchedulingError::PipelineMissing { .. } | SchedulingError::StepFailed { .. } => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    };
    (status, format!("{error}\n"))
}
