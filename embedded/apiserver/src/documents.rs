//! What is not a resource: health, version, discovery, OpenAPI, keys.

use std::sync::Arc;

use axum::body::Body;
use c5c3_kinds::{Resource, discovery};
use http::{HeaderMap, Method, Response, StatusCode, header};
use serde_json::{Value, json};

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
        ["healthz" | "livez" | "readyz", ..] => bytes_reply(StatusCode::OK, "text/plain; charset=utf-8", "ok"),
        ["version"] => ok(&version()),
        ["metrics"] => bytes_reply(StatusCode::OK, "text/plain; version=0.0.4", metrics(server)),
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
        ["openapi", "v2"] => ok(&c5c3_kinds::openapi_v2(&resources, &git_version())),
        ["openapi", "v3"] => ok(&c5c3_kinds::openapi_v3_index(&resources)),
        ["openapi", "v3", "api", version] => {
            ok(&c5c3_kinds::openapi_v3(&resources, "", version, &git_version()).ok_or_else(ApiError::no_such_path)?)
        }
        ["openapi", "v3", "apis", group, version] => {
            ok(&c5c3_kinds::openapi_v3(&resources, group, version, &git_version())
                .ok_or_else(ApiError::no_such_path)?)
        }
        [".well-known", "openid-configuration"] => {
            ok(&server.authenticator().service_accounts().discovery(&format!("https://{}", host(headers))))
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

fn metrics(server: &Server) -> String {
    format!(
        "# HELP c5c3_apiserver_revision The revision of the last write\n# TYPE c5c3_apiserver_revision counter\n\
         c5c3_apiserver_revision {}\n# HELP c5c3_apiserver_objects Objects in the store\n# TYPE c5c3_apiserver_objects gauge\n\
         c5c3_apiserver_objects {}\n",
        server.store().revision(),
        server.store().list("").len()
    )
}
