//! Requests to what pods, Services and nodes serve, through the API.

mod place;
mod rewrite;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};

use self::place::{Place, Scheme};
use super::dial;
use crate::call::Call;
use crate::status::{ApiError, Reason};

/// The largest page whose links are rewritten.
const LARGEST_PAGE: usize = 16 * 1024 * 1024;

/// Serves `proxy` below a pod, a Service or a node.
pub(super) async fn serve(call: &Call<'_>, method: &Method) -> Result<Response<Body>, ApiError> {
    let (prefix, rest) = split(call.uri.path(), call.served.resource.namespaced);
    let is_upgrade = c5c3_relay::is_upgrade(&call.headers) && call.connection.is_some();
    let place = Place::find(call)?;
    if rest.is_none() && !is_upgrade && matches!(*method, Method::GET | Method::HEAD) {
        return redirect(prefix, call.uri.query());
    }
    let query = call.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let path = format!("/{}{query}", rest.unwrap_or_default());
    let request = request(call, method, &path, &place)?;
    let client = call.connection.clone().filter(|_| is_upgrade);
    let answer = send(call, &place, request, client).await;
    let answer = answer.map_err(|why| {
        let message = format!("error trying to reach service: {why}");
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, Reason::ServiceUnavailable, message)
    })?;
    rewritten(answer, prefix, &place).await
}

/// The path up to `proxy`, and what comes after; a path that ends there has nothing after, not even a root.
fn split(path: &str, is_namespaced: bool) -> (&str, Option<&str>) {
    let slashes = if is_namespaced { 8 } else { 6 };
    match path.match_indices('/').nth(slashes - 1) {
        Some((at, _)) => (&path[..at], Some(&path[at + 1..])),
        None => (path, None),
    }
}

fn redirect(prefix: &str, query: Option<&str>) -> Result<Response<Body>, ApiError> {
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let moved = Response::builder().status(StatusCode::MOVED_PERMANENTLY);
    let moved = moved.header(header::LOCATION, format!("{prefix}/{query}")).body(Body::empty());
    moved.map_err(|error| ApiError::internal(error.to_string()))
}

fn request(call: &Call<'_>, method: &Method, path: &str, place: &Place) -> Result<Request<Full<Bytes>>, ApiError> {
    let wrong = |error: &dyn std::fmt::Display| ApiError::bad_request(error.to_string());
    let host = HeaderValue::from_str(&place.address.to_string()).map_err(|error| wrong(&error))?;
    let request = Request::builder().method(method).uri(path).body(Full::new(call.body.clone()));
    let mut request = request.map_err(|error| wrong(&error))?;
    *request.headers_mut() = c5c3_relay::forwarded(&call.headers, &host);
    // Links can only be found in pages that are not compressed.
    request.headers_mut().remove(header::ACCEPT_ENCODING);
    Ok(request)
}

async fn send(
    call: &Call<'_>,
    place: &Place,
    request: Request<Full<Bytes>>,
    client: Option<hyper::upgrade::OnUpgrade>,
) -> Result<Response<c5c3_relay::Body>, String> {
    let stop = call.server.stopped();
    let answer = match place.scheme {
        Scheme::Node => return dial::ask(call.server, place.address, request, client).await,
        Scheme::Http => c5c3_relay::forward(dial::plain(place.address).await?, request, client, stop).await,
        Scheme::Https => {
            let tls = c5c3_auth::trusting_anybody().map_err(|error| error.to_string())?;
            c5c3_relay::forward(dial::with_tls(place.address, tls).await?, request, client, stop).await
        }
    };
    answer.map_err(|error| error.to_string())
}

/// Links of what was fetched lead through the API as well.
async fn rewritten(
    answer: Response<c5c3_relay::Body>,
    prefix: &str,
    place: &Place,
) -> Result<Response<Body>, ApiError> {
    let (mut parts, body) = answer.into_parts();
    let text = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let location = text(header::LOCATION).and_then(|to| rewrite::location(to, prefix, &place.address.to_string()));
    let is_page = text(header::CONTENT_TYPE).is_some_and(|media| media.starts_with("text/html"));
    if let Some(location) = location.and_then(|location| HeaderValue::from_str(&location).ok()) {
        parts.headers.insert(header::LOCATION, location);
    }
    if !is_page || parts.headers.contains_key(header::CONTENT_ENCODING) {
        return Ok(Response::from_parts(parts, Body::new(body)));
    }
    let page = Limited::new(body, LARGEST_PAGE).collect().await;
    let page = page.map_err(|error| ApiError::internal(format!("the page cannot be read: {error}")))?.to_bytes();
    let page = match std::str::from_utf8(&page) {
        Ok(text) => Bytes::from(rewrite::page(text, prefix)),
        Err(_) => page,
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    Ok(Response::from_parts(parts, Body::from(page)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_split_behind_the_word_that_proxies() {
        let pod = "/api/v1/namespaces/shop/pods/web:80/proxy";
        assert_eq!(split(pod, true), (pod, None));
        assert_eq!(split(&format!("{pod}/"), true), (pod, Some("")));
        assert_eq!(split(&format!("{pod}/a//b%20c/"), true), (pod, Some("a//b%20c/")));
        assert_eq!(split("/api/v1/nodes/oak/proxy/healthz", false), ("/api/v1/nodes/oak/proxy", Some("healthz")));
    }
}
