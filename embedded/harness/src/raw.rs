//! Requests by path, for kinds that are not known beforehand.

use http::{Method, Request, StatusCode, header};
use kube::Client;
use serde_json::Value;

use crate::error::Error;

/// Sends a request. A refusal is an answer, not an error.
pub(crate) async fn send(
    client: &Client,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> Result<(StatusCode, Value), Error> {
    let content = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, content);
    let request = request.body(body.into()).map_err(kube::Error::HttpError)?;
    let (parts, body) = client.send(request).await?.into_parts();
    Ok((parts.status, serde_json::from_slice(&body.collect_bytes().await?).unwrap_or_default()))
}
