//! A request to a service and its answer, independent of where the service is.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, Failure};

/// What need not be encoded in a segment of a path.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A call to a service: its type in the catalog, the method and the path below its endpoint.
#[derive(Clone)]
pub struct Request {
    pub(crate) service: String,
    pub(crate) method: Method,
    pub(crate) segments: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    /// A query that a page's link gave, in place of `query`.
    pub(crate) page: Option<String>,
    pub(crate) microversion: Option<String>,
    pub(crate) body: Option<Value>,
}

impl Request {
    /// A request for the path of these segments. They are encoded here, so an id cannot change the path.
    pub fn new<S: AsRef<str>>(method: Method, service: &str, path: impl IntoIterator<Item = S>) -> Self {
        let segments = path.into_iter().map(|segment| segment.as_ref().into()).collect();
        let (service, query, page) = (service.into(), Vec::new(), None);
        Self { service, method, segments, query, page, microversion: None, body: None }
    }

    /// A GET request.
    pub fn get<S: AsRef<str>>(service: &str, path: impl IntoIterator<Item = S>) -> Self {
        Self::new(Method::GET, service, path)
    }

    /// A POST request.
    pub fn post<S: AsRef<str>>(service: &str, path: impl IntoIterator<Item = S>) -> Self {
        Self::new(Method::POST, service, path)
    }

    /// A PUT request.
    pub fn put<S: AsRef<str>>(service: &str, path: impl IntoIterator<Item = S>) -> Self {
        Self::new(Method::PUT, service, path)
    }

    /// A PATCH request.
    pub fn patch<S: AsRef<str>>(service: &str, path: impl IntoIterator<Item = S>) -> Self {
        Self::new(Method::PATCH, service, path)
    }

    /// A DELETE request.
    pub fn delete<S: AsRef<str>>(service: &str, path: impl IntoIterator<Item = S>) -> Self {
        Self::new(Method::DELETE, service, path)
    }

    /// A HEAD request.
    pub fn head<S: AsRef<str>>(service: &str, path: impl IntoIterator<Item = S>) -> Self {
        Self::new(Method::HEAD, service, path)
    }

    /// Adds a query parameter.
    pub fn query(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.query.push((key.into(), value.into()));
        self
    }

    /// Asks for a microversion of the service's API.
    pub fn microversion(mut self, version: impl Into<String>) -> Self {
        self.microversion = Some(version.into());
        self
    }

    /// Sends this JSON.
    pub fn json(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// The path below the endpoint, with its leading slash.
    pub(crate) fn path(&self) -> String {
        let encoded = self.segments.iter().map(|segment| utf8_percent_encode(segment, UNRESERVED));
        encoded.flat_map(|segment| std::iter::once("/").chain(segment)).collect()
    }

    /// The path with the query.
    pub(crate) fn target(&self) -> String {
        let query = self.page.clone().unwrap_or_else(|| {
            form_urlencoded::Serializer::new(String::new()).extend_pairs(self.query.iter()).finish()
        });
        if query.is_empty() { self.path() } else { format!("{}?{query}", self.path()) }
    }

    /// Refuses a path that a server would read as another one: `DELETE /users/` is not the deletion of a user.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.segments.iter().any(|segment| matches!(segment.as_str(), "" | "." | "..")) {
            let message = "a segment of the path is empty or consists of dots".into();
            return Err(Error::Invalid(Box::new(self.failure(message))));
        }
        Ok(())
    }

    /// A failure before the request is sent.
    pub(crate) fn failure(&self, message: String) -> Failure {
        let (method, path) = (self.method.clone(), self.path());
        Failure { method, path, status: None, message, request_id: None, retry_after: None }
    }

    /// The headers that ask for the microversion.
    pub(crate) fn version_headers(&self) -> Vec<(&'static str, String)> {
        let Some(version) = &self.microversion else { return Vec::new() };
        // Cinder's name in this header is older than its types in the catalog.
        let name = match self.service.as_str() {
            "volumev3" | "block-storage" => "volume",
            other => other,
        };
        let mut headers = vec![("openstack-api-version", format!("{name} {version}"))];
        if self.service == "compute" {
            headers.push(("x-openstack-nova-api-version", version.clone()));
        }
        headers
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} of {}", self.method, self.path(), self.service)
    }
}

/// The answer to a request that succeeded.
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The id that the service logs the request with.
    pub request_id: Option<String>,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Bytes,
}

impl Response {
    /// The body as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let mut reader = serde_json::Deserializer::from_slice(&self.body);
        // The parser's own message quotes values of the body, which may be secret.
        let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let problem = if error.inner().is_data() { "has another shape than expected" } else { "is not JSON" };
            self.malformed(format!("the body {problem} at {}", error.path()))
        })?;
        reader.end().map_err(|_| self.malformed("the body is not JSON: it goes on after the value".into()))?;
        Ok(value)
    }

    pub(crate) fn malformed(&self, message: String) -> Error {
        let (method, path, status) = (self.method.clone(), self.path.clone(), Some(self.status));
        let request_id = self.request_id.clone();
        Error::Malformed(Box::new(Failure { method, path, status, message, request_id, retry_after: None }))
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} {}", self.status, self.method, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_cannot_change_the_path() {
        let request = Request::get("identity", ["users", "a/../b?c"]).query("name", "two words");
        assert_eq!(request.target(), "/users/a%2F..%2Fb%3Fc?name=two+words");
        assert!(Request::delete("identity", ["users", ""]).check().is_err());
        assert!(Request::delete("identity", ["users", ".."]).check().is_err());
    }

    #[test]
    fn a_microversion_has_the_header_of_its_service() {
        let headers = |service| Request::get(service, ["x"]).microversion("2.95").version_headers();
        assert_eq!(
            headers("compute"),
            [("openstack-api-version", "compute 2.95".into()), ("x-openstack-nova-api-version", "2.95".to_owned())]
        );
        assert_eq!(headers("placement"), [("openstack-api-version", "placement 2.95".to_owned())]);
        assert_eq!(headers("volumev3"), [("openstack-api-version", "volume 2.95".to_owned())]);
        assert!(Request::get("compute", ["x"]).version_headers().is_empty());
    }

    #[test]
    fn debug_shows_neither_body_nor_query() {
        let request = Request::post("identity", ["users"]).query("q", "plum").json("cherry".into());
        assert_eq!(format!("{request:?}"), "POST /users of identity");
    }
}
