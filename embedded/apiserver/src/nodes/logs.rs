//! The log of a container, from its node.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use jiff::Timestamp;

use super::{container, dial, pod, websocket};
use crate::call::Call;
use crate::object::{meta, timestamp};
use crate::path::Query;
use crate::reply::bytes_reply;
use crate::status::{ApiError, Reason};

/// How much is read of a node's complaint.
const LONGEST_COMPLAINT: usize = 10_000;

/// Serves `pods/log`.
pub(super) async fn serve(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let question = question(&call.query).map_err(|problems| invalid(call, &problems))?;
    let pod = pod(call)?;
    let container = container::choose(&pod, call.query.get("container"))?;
    let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) else {
        // No node, no log: not an error, there may be one soon.
        return Ok(bytes_reply(StatusCode::OK, "text/plain", ""));
    };
    let node = dial::address(call.server, node)?;
    let (namespace, name) = (meta(&pod, "namespace"), meta(&pod, "name"));
    let path = format!("/containerLogs/{namespace}/{name}/{container}?{question}");
    let request = Request::get(&path).header(header::HOST, node.to_string()).body(Full::default());
    let request = request.map_err(|error| ApiError::internal(error.to_string()))?;
    let answer = dial::ask(call.server, node, request, None).await;
    let answer = answer.map_err(|why| unreachable(format!("Get \"https://{node}{path}\": {why}")))?;
    if !answer.status().is_success() {
        return Err(complaint(answer).await);
    }
    let client = call.connection.clone().filter(|_| c5c3_relay::upgrades_to(&call.headers, "websocket"));
    if let Some(client) = client {
        return websocket::tell(&call.headers, client, answer.into_body(), call.server.stopped());
    }
    let mut response = Response::new(Body::new(answer.into_body()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    Ok(response)
}

/// A node that cannot be reached. Clients know the case by a reason that is none.
pub(super) fn unreachable(message: String) -> ApiError {
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, Reason::Unknown, message)
}

/// What a node says that has no log to give.
async fn complaint(answer: Response<c5c3_relay::Body>) -> ApiError {
    let status = answer.status();
    let body = Limited::new(answer.into_body(), LONGEST_COMPLAINT).collect().await;
    let body: Bytes = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let text = String::from_utf8_lossy(&body).trim().to_owned();
    match status {
        StatusCode::BAD_REQUEST => ApiError::bad_request(text),
        StatusCode::NOT_FOUND => ApiError::new(status, Reason::NotFound, text),
        StatusCode::INTERNAL_SERVER_ERROR => ApiError::internal(text),
        other => ApiError::new(other, Reason::Unknown, text),
    }
}

fn invalid(call: &Call<'_>, problems: &[String]) -> ApiError {
    let text = if let [only] = problems { only.clone() } else { format!("[{}]", problems.join(", ")) };
    let name = call.target.name.as_deref().unwrap_or_default();
    let message = format!("PodLogOptions \"{name}\" is invalid: {text}");
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, Reason::Invalid, message)
}

/// The question to the node, or all that is wrong with the one of the client.
fn question(query: &Query) -> Result<String, Vec<String>> {
    let (mut asked, mut problems) = (Vec::new(), Vec::new());
    for switch in ["follow", "previous", "timestamps"] {
        if query.is_on(switch) {
            asked.push(format!("{switch}=true"));
        }
    }
    let least = [
        ("tailLines", 0, "must be greater than or equal to 0"),
        ("limitBytes", 1, "must be greater than 0"),
        ("sinceSeconds", 1, "must be greater than 0"),
    ];
    for (name, least, must) in least {
        match query.get(name).map(|value| (value, value.parse::<i64>())) {
            None => {}
            Some((_, Ok(number))) if number >= least => asked.push(format!("{name}={number}")),
            Some((value, _)) => problems.push(format!("{name}: Invalid value: {value}: {must}")),
        }
    }
    match query.get("sinceTime").map(|value| (value, value.parse::<Timestamp>())) {
        None => {}
        Some(_) if query.get("sinceSeconds").is_some() => {
            problems.push("Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified".to_owned());
        }
        Some((_, Ok(time))) => asked.push(format!("sinceTime={}", timestamp(time))),
        Some((value, Err(_))) => problems.push(format!("sinceTime: Invalid value: {value:?}: must be a time")),
    }
    if problems.is_empty() { Ok(asked.join("&")) } else { Err(problems) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_passed_on_in_the_words_of_nodes() {
        let said = |text: &str| question(&Query::parse(text));
        let all =
            "follow=1&previous=true&timestamps=True&tailLines=0&limitBytes=9&sinceSeconds=3600&container=app&pretty=1";
        let wanted = "follow=true&previous=true&timestamps=true&tailLines=0&limitBytes=9&sinceSeconds=3600";
        assert_eq!(said(all).unwrap(), wanted);
        assert_eq!(said("follow=false&tailLines=").unwrap(), "");
        assert_eq!(said("sinceTime=2026-01-01T01%3A00%3A00%2B01%3A00").unwrap(), "sinceTime=2026-01-01T00:00:00Z");
    }

    #[test]
    fn a_question_that_makes_no_sense_is_refused_with_all_reasons() {
        let said = |text: &str| question(&Query::parse(text)).unwrap_err();
        let both = said("tailLines=-1&limitBytes=0");
        assert_eq!(both[0], "tailLines: Invalid value: -1: must be greater than or equal to 0");
        assert_eq!(both[1], "limitBytes: Invalid value: 0: must be greater than 0");
        let twice = said("sinceSeconds=5&sinceTime=2026-01-01T00:00:00Z");
        assert_eq!(twice, ["Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"]);
    }
}
