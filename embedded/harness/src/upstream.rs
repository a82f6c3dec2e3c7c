//! Where requests go: to a server in this process, or to another cluster.

use std::sync::Arc;

use axum::body::Body;
use c5c3_auth::UserInfo;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Request, Response};
use kube::Client;

use crate::in_process::InProcess;

/// Why a request has no answer.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// An API, as one user sees it.
#[derive(Clone)]
pub(crate) enum Upstream {
    /// The embedded server.
    InProcess(Arc<InProcess>, UserInfo),
    /// Another cluster: as the user of its kubeconfig, who acts as someone else if one is named.
    Another(Client, Option<UserInfo>),
}

impl Upstream {
    pub(crate) async fn send(&self, mut request: Request<kube::client::Body>) -> Result<Response<Body>, Failure> {
        match self {
            Self::InProcess(server, user) => server.send(request, user.clone()).await,
            Self::Another(client, user) => {
                if let Some(user) = user {
                    act_as(request.headers_mut(), user)?;
                }
                Ok(client.send(request).await?.map(Body::new))
            }
        }
    }
}

/// Asks to be served as someone else. Who does so already stays who they want to be.
fn act_as(headers: &mut HeaderMap, user: &UserInfo) -> Result<(), Failure> {
    if headers.contains_key("impersonate-user") {
        return Ok(());
    }
    headers.insert("impersonate-user", HeaderValue::from_str(&user.name)?);
    if !user.uid.is_empty() {
        headers.insert("impersonate-uid", HeaderValue::from_str(&user.uid)?);
    }
    for group in &user.groups {
        headers.append("impersonate-group", HeaderValue::from_str(group)?);
    }
    for (key, values) in &user.extra {
        let name = HeaderName::try_from(format!("impersonate-extra-{}", escaped(key)))?;
        for value in values {
            headers.append(name.clone(), HeaderValue::from_str(value)?);
        }
    }
    Ok(())
}

/// A key as part of a header's name, where a slash may not stand.
fn escaped(key: &str) -> String {
    key.replace('%', "%25").replace('/', "%2f")
}
