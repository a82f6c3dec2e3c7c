//! What is not a resource: health, version, discovery, OpenAPI, keys.

use std::sync::Arc;

use axum::body::Body;
use c5c3_kinds::{Resource, discovery};
use http::{HeaderMap, Method, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::openapi;
use crate::path::Query;
use crate::reply::{bytes_reply, json_reply};
use crate::server::Server;
use crate::status::ApiError;

/// The Kubernetes version whose API this is.
const VERSION: (&str, &str) = ("1", "33");

/// Serves a path.
pub(crate) fn serve(
    server: &Arc<Server>,
    method: &Method,
    path: &str,
    query: &Query,
    headers: &HeaderMap,
) -> Result<Response<Body>, ApiError> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(ApiError::not_allowed());
    }
    let registry = server.registry();
    let all = registry.all();
    let resources: Vec<&Resource> = all.iter().map(|served| &served.resource).collect();
    let aggregated = wants_aggregated(headers);
    let ok = |value: &Value| json_reply(StatusCode::OK, value);
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    Ok(match parts.as_slice() {
        [check @ ("healthz" | "readyz"), ..] => health(server, check),
        // A new process would do no better with the same disk.
        ["livez", ..] => bytes_reply(StatusCode::OK, "text/plain; charset=utf-8", "ok"),
        ["version"] => ok(&version()),
        ["metrics"] => {
            let text = server.metrics().text(server).map_err(|error| ApiError::internal(error.to_string()))?;
            bytes_reply(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
        }
        ["api"] if aggregated => bytes_reply(
            StatusCode::OK,
            discovery::AGGREGATED_CONTENT_TYPE,
            discovery::aggregated_core(&resources).to_string(),
        ),
        ["apis"] if aggregated => bytes_reply(
            StatusCode::OK,
            discovery::AGGREGATED_CONTENT_TYPE,
            discovery::aggregated_groups(&resources).to_string(),
        ),
        ["api"] => ok(&discovery::api_versions(host(headers))),
        ["apis"] => ok(&discovery::api_group_list(&resources)),
        ["api", version] => {
            ok(&discovery::api_resource_list(&resources, "", version).ok_or_else(ApiError::no_such_path)?)
        }
        ["apis", group] => ok(&discovery::api_group(&resources, group).ok_or_else(ApiError::no_such_path)?),
        ["apis", group, version] => {
            ok(&discovery::api_resource_list(&resources, group, version).ok_or_else(ApiError::no_such_path)?)
        }
        ["openapi", rest @ ..] => openapi::serve(&registry, rest, query, headers, &git_version())?,
        [".well-known", "openid-configuration"] => {
            // Whoever verifies tokens may not reach the server by the name that this client used.
            let host = server.published().map_or_else(|| host(headers).to_owned(), |address| address.to_string());
            ok(&server.authenticator().service_accounts().discovery(&format!("https://{host}")))
        }
        ["openid", "v1", "jwks"] => ok(&server.authenticator().service_accounts().jwks()),
        [""] => {
            let mut paths = vec![
                "/api",
                "/api/v1",
                "/apis",
                "/healthz",
                "/livez",
                "/metrics",
                "/openapi/v2",
                "/openapi/v3",
                "/readyz",
                "/version",
            ];
            paths.sort_unstable();
            ok(&json!({"paths": paths}))
        }
        _ => return Err(ApiError::no_such_path()),
    })
}

/// Whether writes are taken: a server whose disk is full or failing answers reads only, and says why.
fn health(server: &Server, check: &str) -> Response<Body> {
    let text = "text/plain; charset=utf-8";
    match server.store().failure() {
        None => bytes_reply(StatusCode::OK, text, "ok"),
        Some(error) => {
            let why = format!("[-]store failed: the log cannot be written: {error}\n{check} check failed\n");
            bytes_reply(StatusCode::INTERNAL_SERVER_ERROR, text, why)
        }
    }
}

fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let wanted = |range: &str| {
        range.contains("as=APIGroupDiscoveryList") && range.contains("v=v2") && !range.contains("v2beta1")
    };
    accept.split(',').any(wanted)
}

fn host(headers: &HeaderMap) -> &str {
    headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or("localhost")
}

fn git_version() -> String {
    let (major, minor) = VERSION;
    format!("v{major}.{minor}.0+c5c3.{}", env!("CARGO_PKG_VERSION"))
}

fn version() -> Value {
    let (major, minor) = VERSION;
    json!({
        "major": major, "minor": minor, "gitVersion": git_version(),
        "gitCommit": "", "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}
