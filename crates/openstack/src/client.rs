//! The client: authenticates, finds the endpoint, sends, retries.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use http_body_util::Full;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::catalog::versioned;
use crate::clock::{Clock, SystemClock};
use crate::cloud::{Cloud, Credential};
use crate::clouds::{CloudError, check_url};
use crate::error::{Error, Failure};
use crate::metrics::Metrics;
use crate::request::{Request, Response};
use crate::retry::Outcome;
use crate::token::{Session, Subject, Token, TokenBody};
use crate::transport::{Answer, Limits, Transport};
use crate::{message, pages, retry};

/// A catalog older than this is read again before a service is reported as missing or as unreachable: an operator that registers a
/// service calls it soon after, and an endpoint may have moved.
const STALE_CATALOG: Duration = Duration::from_secs(10);

/// What clients of a process share.
#[derive(Clone)]
pub struct Options {
    /// Time limits.
    pub limits: Limits,
    /// Where request times are recorded.
    pub metrics: Metrics,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The name of this program in the logs of the services.
    pub user_agent: HeaderValue,
}

impl Default for Options {
    fn default() -> Self {
        let user_agent = HeaderValue::from_static(concat!("c5c3/", env!("CARGO_PKG_VERSION")));
        Self { limits: Limits::default(), metrics: Metrics::default(), clock: Arc::new(SystemClock), user_agent }
    }
}

/// Calls the services of one cloud with one credential. Cheap to clone: clones share the token and the connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    cloud: Cloud,
    credential: Credential,
    options: Options,
    transport: Transport,
    session: Session,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { cloud, credential, .. } = &*self.inner;
        f.debug_struct("Client").field("cloud", cloud).field("credential", credential).finish_non_exhaustive()
    }
}

impl Client {
    /// A client. It authenticates at its first call.
    pub fn new(cloud: Cloud, credential: Credential, options: Options) -> Result<Self, CloudError> {
        check_url(&cloud.auth_url).map_err(|problem| CloudError::field("auth_url", problem))?;
        let transport = Transport::new(cloud.ca.as_deref(), options.limits)?;
        let session = Session::default();
        Ok(Self { inner: Arc::new(Inner { cloud, credential, options, transport, session }) })
    }

    /// The user and the project of the client's token.
    pub async fn subject(&self) -> Result<Subject, Error> {
        Ok(self.token(None).await?.subject.clone())
    }

    /// Sends a request. A status that is not a success is an error.
    pub async fn send(&self, request: &Request) -> Result<Response, Error> {
        request.check()?;
        let token = self.token(None).await?;
        let (url, token) = self.endpoint(request, token).await?;
        match self.call(request, &url, &token).await {
            // The token may have been revoked before its time, by a change of the user's roles or password.
            Err(Error::Unauthorized(_)) => {
                let token = self.token(Some(&token)).await?;
                let (url, token) = self.endpoint(request, token).await?;
                self.call(request, &url, &token).await
            }
            Err(Error::Unavailable(failure)) if failure.status.is_none() => {
                match self.moved(request, &url, &token).await {
                    Some((url, token)) => self.call(request, &url, &token).await,
                    None => Err(Error::Unavailable(failure)),
                }
            }
            result => result,
        }
    }

    /// Where a service is now that does not answer at `url`, if a new catalog has another URL for it. The next call uses that; this
    /// one is repeated there only if it may be.
    async fn moved(&self, request: &Request, url: &str, token: &Arc<Token>) -> Option<(String, Arc<Token>)> {
        let Inner { cloud, options, .. } = &*self.inner;
        if options.clock.now() < token.obtained + STALE_CATALOG {
            return None;
        }
        let token = self.token(Some(token)).await.ok()?;
        let now = token.catalog.url(&request.service, cloud).ok()?;
        (now != url && retry::repeatable(&request.method)).then_some((now, token))
    }

    /// Sends a request and reads the object under `key` of its answer, as in `{"user": {...}}`.
    pub async fn fetch<T: DeserializeOwned>(&self, request: &Request, key: &str) -> Result<T, Error> {
        let response = self.send(request).await?;
        extract(&response, &mut response.json()?, key)
    }

    /// Whether a resource exists: false for HTTP 404.
    pub async fn exists(&self, request: &Request) -> Result<bool, Error> {
        match self.send(request).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads a list from all of its pages.
    pub async fn list<T: DeserializeOwned>(&self, request: &Request, key: &str) -> Result<Vec<T>, Error> {
        let (mut request, mut items, mut seen) = (request.clone(), Vec::new(), Vec::new());
        loop {
            let response = self.send(&request).await?;
            let mut page: Value = response.json()?;
            let next = pages::next(&page, key).map_err(|problem| response.malformed(problem.into()))?;
            items.extend(extract::<Vec<T>>(&response, &mut page, key)?);
            let Some(query) = next else { return Ok(items) };
            if seen.contains(&query) {
                // Keystone links to a next page of its roles, and ignores the marker.
                let problem = "the links of the pages form a loop; raise the service's list_limit or use a filter";
                return Err(response.malformed(problem.into()));
            }
            seen.push(query.clone());
            request.page = Some(query);
        }
    }

    async fn token(&self, rejected: Option<&Arc<Token>>) -> Result<Arc<Token>, Error> {
        let clock = &self.inner.options.clock;
        self.inner.session.token(rejected, || clock.now(), || self.authenticate()).await
    }

    async fn authenticate(&self) -> Result<Token, Error> {
        #[derive(Deserialize)]
        struct Body {
            token: TokenBody,
        }
        let Inner { cloud, credential, options, .. } = &*self.inner;
        let request = Request::post("identity", ["auth", "tokens"]).json(credential.request());
        let url = versioned("identity", cloud.auth_url.trim_end_matches('/'));
        // A second token does no harm, so this POST may be repeated.
        let sent = self.exchange(&self.prepare(&request, &url, None)?, true).await;
        let response = sent.map_err(|error| match error {
            // A caller must not take an unknown application credential for an unknown resource.
            Error::NotFound(failure)
            | Error::Forbidden(failure)
            | Error::Conflict(failure)
            | Error::Invalid(failure) => Error::Unauthorized(failure),
            other => other,
        })?;
        let value = response.headers.get("x-subject-token").cloned();
        let value = value.ok_or_else(|| response.malformed("the answer has no X-Subject-Token".into()))?;
        let Body { token } = response.json()?;
        Ok(Token::new(value, token, options.clock.now()))
    }

    /// The service's URL, from a new catalog if the present one does not have it and is not new.
    async fn endpoint(&self, request: &Request, token: Arc<Token>) -> Result<(String, Arc<Token>), Error> {
        let Inner { cloud, options, .. } = &*self.inner;
        let problem = match token.catalog.url(&request.service, cloud) {
            Ok(url) => return Ok((url, token)),
            Err(problem) => problem,
        };
        let missing = |problem| Error::NoEndpoint(Box::new(request.failure(problem)));
        if options.clock.now() < token.obtained + STALE_CATALOG {
            return Err(missing(problem));
        }
        let token = self.token(Some(&token)).await?;
        let url = token.catalog.url(&request.service, cloud).map_err(missing)?;
        Ok((url, token))
    }

    async fn call(&self, request: &Request, url: &str, token: &Token) -> Result<Response, Error> {
        let call = self.prepare(request, url, Some(token))?;
        self.exchange(&call, retry::repeatable(&request.method)).await.map_err(|error| match error {
            Error::NotFound(failure) if self.is_about_the_token(&failure, token) => Error::Unauthorized(failure),
            other => other,
        })
    }

    /// Keystone answers every call with 404 when the token's application credential, user or project was deleted. A caller
    /// must not take that for the absence of the resource that it asked for.
    fn is_about_the_token(&self, failure: &Failure, token: &Token) -> bool {
        let credential = match &self.inner.credential {
            Credential::Application { id, .. } => Some(id),
            Credential::Password { .. } => None,
        };
        let Subject { user_id, project_id, .. } = &token.subject;
        let mut ids = credential.into_iter().chain([user_id]).chain(project_id);
        ids.any(|id| failure.message.contains(id.as_str()) && !failure.path.contains(id.as_str()))
    }

    fn prepare<'a>(&self, request: &'a Request, url: &str, token: Option<&Token>) -> Result<Prepared<'a>, Error> {
        let malformed = |message: &str| Error::Malformed(Box::new(request.failure(message.into())));
        let uri: Uri = format!("{url}{}", request.target())
            .parse()
            .ok()
            .filter(|uri: &Uri| uri.authority().is_some())
            .ok_or_else(|| malformed("the endpoint's URL in the catalog is not a URL"))?;
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, self.inner.options.user_agent.clone());
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        for (name, value) in request.version_headers() {
            let value = HeaderValue::try_from(value).map_err(|_| malformed("the microversion is not a version"))?;
            headers.insert(HeaderName::from_static(name), value);
        }
        let mut secrets = request.body.as_ref().map(message::secrets_in).unwrap_or_default();
        if let Some(token) = token {
            headers.insert(HeaderName::from_static("x-auth-token"), token.value.clone());
            secrets.extend(token.value.to_str().map(Into::into));
        }
        let body = request.body.as_ref().map_or_else(Bytes::new, |body| body.to_string().into());
        if request.body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        Ok(Prepared { service: &request.service, method: &request.method, uri, headers, body, secrets })
    }

    /// Sends until there is an answer that is not worth another try.
    async fn exchange(&self, call: &Prepared<'_>, repeatable: bool) -> Result<Response, Error> {
        let Inner { options: Options { limits, metrics, clock, .. }, transport, .. } = &*self.inner;
        let deadline = clock.now() + limits.whole;
        for tries in 1.. {
            let started = clock.now();
            let result = transport.send(call.request(), deadline.saturating_duration_since(started)).await;
            let status = result.as_ref().ok().map(|answer| answer.status);
            metrics.answered(call.service, call.method, status, clock.now().saturating_duration_since(started));
            let (outcome, error) = match result {
                Ok(answer) if answer.status.is_success() => return Ok(call.response(answer)),
                Ok(answer) => call.refused(&answer),
                Err(none) => (none.outcome, Error::Unavailable(Box::new(call.failure(None, none.message)))),
            };
            match retry::delay(tries, repeatable, outcome, rand::random()) {
                Some(wait) if clock.now() + wait < deadline => {
                    tracing::debug!(%error, ?wait, "the request is sent again");
                    clock.sleep(wait).await;
                }
                _ => return Err(error),
            }
        }
        unreachable!("the last try returns")
    }
}

/// A request with everything that is sent.
struct Prepared<'a> {
    service: &'a str,
    method: &'a Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    /// What must not be in a message, although the service may echo it.
    secrets: Vec<String>,
}

impl Prepared<'_> {
    fn request(&self) -> http::Request<Full<Bytes>> {
        let mut request = http::Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }

    fn response(&self, answer: Answer) -> Response {
        let (method, path) = (self.method.clone(), self.uri.path().into());
        let Answer { status, headers, body } = answer;
        Response { status, request_id: request_id(&headers), headers, method, path, body }
    }

    fn refused(&self, answer: &Answer) -> (Outcome, Error) {
        let after = retry::retry_after(answer.headers.get(RETRY_AFTER));
        let message = message::of(answer.status, &answer.body, &self.secrets);
        let failure = Failure {
            request_id: request_id(&answer.headers),
            retry_after: after,
            ..self.failure(Some(answer.status), message)
        };
        let error =
            if is_foreign_404(answer) { Error::Unavailable(Box::new(failure)) } else { Error::from_answer(failure) };
        (Outcome::Answered(answer.status, after), error)
    }

    fn failure(&self, status: Option<StatusCode>, message: String) -> Failure {
        let (method, path) = (self.method.clone(), self.uri.path().into());
        Failure { method, path, status, message, request_id: None, retry_after: None }
    }
}

/// A proxy without a route to the service answers 404 as well. A caller that takes it for the service's answer would
/// believe that its resources were deleted.
fn is_foreign_404(answer: &Answer) -> bool {
    answer.status == StatusCode::NOT_FOUND
        && request_id(&answer.headers).is_none()
        && serde_json::from_slice::<Value>(&answer.body).is_err()
}

fn request_id(headers: &HeaderMap) -> Option<String> {
    let header = headers.get("x-openstack-request-id").or_else(|| headers.get("x-compute-request-id"))?;
    header.to_str().ok().map(Into::into)
}

fn extract<T: DeserializeOwned>(response: &Response, body: &mut Value, key: &str) -> Result<T, Error> {
    let value = body.get_mut(key).map(Value::take);
    let value = value.ok_or_else(|| response.malformed(format!("the body has no {key}")))?;
    serde_path_to_error::deserialize(value).map_err(|error| {
        response.malformed(format!("the body has another shape than expected at {key}.{}", error.path()))
    })
}
