//! A client of the API server in the same process: function calls instead of a connection.

use std::convert::Infallible;
use std::sync::Arc;

use c5c3_apiserver::Server;
use c5c3_auth::UserInfo;
use http::Request;
use http_body_util::BodyExt;
use kube::Client;

/// A client that is one of the cluster's own parts, which may do everything.
pub(crate) fn client(server: &Arc<Server>, part: &str) -> Client {
    client_as(server, UserInfo::new(format!("system:c5c3:{part}"), ["system:masters", "system:authenticated"]))
}

/// A client of a user, who may do what roles allow.
pub(crate) fn client_as(server: &Arc<Server>, user: UserInfo) -> Client {
    let server = server.clone();
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (server, user) = (server.clone(), user.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            Ok::<_, Infallible>(server.handle(parts, body, user).await)
        }
    });
    Client::new(service, "default")
}
