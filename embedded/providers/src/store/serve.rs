//! The store's HTTP server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::api::PostParams;
use kube::{Api, Client};
use percent_encoding::percent_decode_str;
use rustls::ServerConfig;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::ask::{Answer, Ask, Form, Verb};
use super::{AUDIENCE, Store};

/// The largest request: OpenBao takes 32 MiB, which no one needs for a secret.
const LARGEST: usize = 1 << 20;

/// How long a client may take to agree on how to talk.
const HANDSHAKE: Duration = Duration::from_secs(10);

impl Store {
    /// Serves the store until `stop`. Service accounts that log in are those of the cluster of `client`.
    pub async fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        tls: Option<ServerConfig>,
        client: Client,
        stop: CancellationToken,
    ) {
        let tls = tls.map(|tls| TlsAcceptor::from(Arc::new(tls)));
        while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
            let Ok((stream, _)) = accepted else {
                // Too many open files, most likely: trying at once again would only burn time.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let (store, client, tls) = (self.clone(), client.clone(), tls.clone());
            let connection = connection(store, client, tls, stream);
            tokio::spawn(stop.clone().run_until_cancelled_owned(connection));
        }
    }
}

async fn connection(store: Arc<Store>, client: Client, tls: Option<TlsAcceptor>, stream: TcpStream) {
    let service = service_fn(move |request| {
        let (store, client) = (store.clone(), client.clone());
        async move { Ok::<_, std::convert::Infallible>(respond(store, client, request).await) }
    });
    let builder = Builder::new(TokioExecutor::new());
    // A connection that breaks is its client's concern.
    match tls {
        None => drop(builder.serve_connection(TokioIo::new(stream), service).await),
        Some(tls) => {
            if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                drop(builder.serve_connection(TokioIo::new(stream), service).await);
            }
        }
    }
}

async fn respond(store: Arc<Store>, client: Client, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let answer = answer(store, client, request).await.unwrap_or_else(|refusal| refusal);
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let (kind, body) = match (answer.form, answer.body) {
        (Form::Pem, Value::String(text)) => ("application/pem-certificate-chain", Bytes::from(text)),
        (_, Value::Null) => ("application/json", Bytes::new()),
        (_, body) => ("application/json", Bytes::from(body.to_string())),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}

async fn answer(store: Arc<Store>, client: Client, request: Request<Incoming>) -> Result<Answer, Answer> {
    let (parts, body) = request.into_parts();
    let query: BTreeMap<_, _> = form(parts.uri.query().unwrap_or_default());
    let verb = match parts.method.as_str() {
        "LIST" => Verb::List,
        "GET" if query.get("list").is_some_and(|list| list == "true") => Verb::List,
        _ => match parts.method {
            Method::GET | Method::HEAD => Verb::Read,
            Method::POST | Method::PUT => Verb::Write,
            Method::PATCH => Verb::Patch,
            Method::DELETE => Verb::Delete,
            _ => return Err(Answer::refusal(405, &["unsupported operation"])),
        },
    };
    let body = Limited::new(body, LARGEST).collect().await;
    let body = body.map_err(|_| Answer::refusal(413, &["the request is too large, or broke off"]))?.to_bytes();
    let body: Value = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(&body).map_err(|_| Answer::refusal(400, &["error parsing JSON"]))?
    };
    let path = decoded(parts.uri.path());
    let path = path.strip_prefix("/v1/").ok_or_else(|| Answer::refusal(404, &[]))?.trim_start_matches('/').to_owned();
    let login = store.login(&path);
    if let Some(login) = login.filter(|_| verb == Verb::Write) {
        return Ok(log_in(store, client, &login, &body).await);
    }
    let token = parts.headers.get("x-vault-token").and_then(|token| token.to_str().ok()).map(str::to_owned);
    let version = query.get("version").and_then(|version| version.parse().ok()).unwrap_or(0);
    let answered = tokio::task::spawn_blocking(move || {
        store.answer(&Ask { verb, path: &path, version, body, token: token.as_deref() })
    });
    answered.await.map_err(|_| Answer::refusal(500, &["internal error"]))
}

/// Lets a service account in if the cluster says that its token is good.
async fn log_in(store: Arc<Store>, client: Client, login: &str, body: &Value) -> Answer {
    let (Some(role), Some(token)) = (body["role"].as_str(), body["jwt"].as_str()) else {
        return Answer::refusal(400, &["missing role or jwt"]);
    };
    let status = match review(client, token).await {
        Ok(status) => status,
        Err(error) => {
            tracing::warn!(%error, "a service account's token cannot be reviewed");
            return Answer::refusal(500, &["the cluster does not answer"]);
        }
    };
    let user = status.user.and_then(|user| user.username).unwrap_or_default();
    let Some((namespace, name)) = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'))
    else {
        return Answer::refusal(403, &["permission denied"]);
    };
    if status.authenticated != Some(true) {
        return Answer::refusal(403, &["permission denied"]);
    }
    let (login, role, namespace, name) = (login.to_owned(), role.to_owned(), namespace.to_owned(), name.to_owned());
    let answered = tokio::task::spawn_blocking(move || store.log_in(&login, &role, &namespace, &name));
    answered.await.unwrap_or_else(|_| Answer::refusal(500, &["internal error"]))
}

/// Whose token it is. Of its audiences one must be that of stores, or that of the API.
async fn review(client: Client, token: &str) -> kube::Result<TokenReviewStatus> {
    let reviews = Api::<TokenReview>::all(client);
    let ask = async |audiences: Option<Vec<String>>| {
        let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences };
        let review = TokenReview { spec, ..TokenReview::default() };
        reviews.create(&PostParams::default(), &review).await.map(|review| review.status.unwrap_or_default())
    };
    let for_stores = ask(Some(vec![AUDIENCE.to_owned()])).await?;
    if for_stores.authenticated == Some(true) { Ok(for_stores) } else { ask(None).await }
}

fn form(query: &str) -> BTreeMap<String, String> {
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

/// A path with its percent signs resolved.
fn decoded(path: &str) -> String {
    percent_decode_str(path).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_signs_of_a_path_are_resolved() {
        assert_eq!(decoded("/v1/kv/data/a%20b%2Fc"), "/v1/kv/data/a b/c");
        assert_eq!(decoded("/100%"), "/100%");
        assert_eq!(decoded("/%zz"), "/%zz");
    }
}
