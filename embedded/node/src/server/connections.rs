//! Connections into containers and pods. The container runtime serves them itself; here they are joined with its own.

use std::net::SocketAddr;

use bytes::Bytes;
use c5c3_cri::{CallError, Runtime, v1};
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::query::Query;
use super::route::{Kind, Which};
use super::{Body, Broken, text};
use crate::directory::{Directory, NotFound, Run};
use crate::node::Node;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    /// The pod is not here.
    #[error("pod does not exist")]
    Pod,
    /// The container does not run.
    #[error("container not found (\"{0}\")")]
    Container(String),
    /// The pod does not run.
    #[error("pod not found (\"{0}\")")]
    Sandbox(String),
    /// Nothing would be connected.
    #[error("you must specify at least 1 of stdin, stdout, stderr")]
    NoStream,
    /// The runtime refuses.
    #[error(transparent)]
    Runtime(#[from] CallError),
    /// The runtime cannot be reached where it says.
    #[error("error dialing backend: {0}")]
    Unreachable(Broken),
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::Pod => StatusCode::NOT_FOUND,
            Self::NoStream => StatusCode::BAD_REQUEST,
            Self::Runtime(error) if error.is_not_found() => StatusCode::NOT_FOUND,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// Serves a connection, or says why not.
pub(super) async fn serve(
    node: &Node,
    kind: Kind<'_>,
    query: &Query,
    mut request: Request<Incoming>,
    stop: CancellationToken,
) -> Response<Body> {
    let joined = async {
        let url = prepare(&node.directory, &node.runtime, kind, query).await?;
        join(&url, &mut request, stop).await.map_err(Refusal::Unreachable)
    };
    match joined.await {
        Ok(response) => response,
        Err(refusal) => text(refusal.status(), refusal.to_string()),
    }
}

/// Tells the runtime what is wanted; the address at which it waits for the connection.
async fn prepare(directory: &Directory, runtime: &Runtime, kind: Kind<'_>, query: &Query) -> Result<String, Refusal> {
    match kind {
        Kind::Exec(which) => {
            let (container_id, streams) = (running(directory, which)?, Streams::of(query)?);
            let Streams { stdin, stdout, stderr, tty } = streams;
            let cmd = query.all("command").map(ToOwned::to_owned).collect();
            Ok(runtime.exec(v1::ExecRequest { container_id, cmd, tty, stdin, stdout, stderr }).await?)
        }
        Kind::Attach(which) => {
            let (container_id, streams) = (running(directory, which)?, Streams::of(query)?);
            let Streams { stdin, stdout, stderr, tty } = streams;
            Ok(runtime.attach(v1::AttachRequest { container_id, stdin, tty, stdout, stderr }).await?)
        }
        Kind::PortForward { namespace, pod } => {
            let pod_sandbox_id = directory.sandbox(namespace, pod).map_err(|why| match why {
                NotFound::Pod(_) => Refusal::Pod,
                _ => Refusal::Sandbox(format!("{pod}_{namespace}")),
            })?;
            let port =
                query.all("port").flat_map(|ports| ports.split(',')).filter_map(|port| port.parse().ok()).collect();
            Ok(runtime.port_forward(v1::PortForwardRequest { pod_sandbox_id, port }).await?)
        }
    }
}

/// The identifier of a container that runs.
fn running(directory: &Directory, which: Which<'_>) -> Result<String, Refusal> {
    let none = || Refusal::Container(which.container.to_owned());
    match directory.container(which.namespace, which.pod, which.container, Run::Latest) {
        Ok(found) if found.is_running => Ok(found.container),
        Err(NotFound::Pod(_)) => Err(Refusal::Pod),
        Ok(_) | Err(_) => Err(none()),
    }
}

/// What is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "four streams, each there or not")]
struct Streams {
    stdin: bool,
    stdout: bool,
    stderr: bool,
    tty: bool,
}

impl Streams {
    fn of(query: &Query) -> Result<Self, Refusal> {
        let tty = query.is_on("tty");
        // A terminal has one output.
        let (stdin, stdout, stderr) = (query.is_on("input"), query.is_on("output"), query.is_on("error") && !tty);
        if stdin || stdout || stderr { Ok(Self { stdin, stdout, stderr, tty }) } else { Err(Refusal::NoStream) }
    }
}

/// Passes the request on to the runtime's own server, and all that follows.
async fn join(url: &str, request: &mut Request<Incoming>, stop: CancellationToken) -> Result<Response<Body>, Broken> {
    let uri: Uri = url.parse()?;
    let authority = uri.authority().ok_or("the runtime's address has no host")?.as_str();
    let address: SocketAddr = authority.parse()?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut passed = Request::builder().method(request.method()).uri(path).body(Full::<Bytes>::default())?;
    *passed.headers_mut() = c5c3_relay::forwarded(request.headers(), &HeaderValue::from_str(authority)?);
    let stream = TcpStream::connect(address).await?;
    let _ = stream.set_nodelay(true);
    let client = request.extensions_mut().remove();
    let answer = c5c3_relay::forward(stream, passed, client, stop).await?;
    Ok(answer.map(|body| body.map_err(Broken::from).boxed_unsync()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_has_one_output_and_something_must_be_connected() {
        let streams = |text| Streams::of(&Query::parse(text));
        let terminal = Streams { stdin: true, stdout: true, stderr: false, tty: true };
        assert_eq!(streams("input=1&output=1&error=1&tty=1").unwrap(), terminal);
        let refusal = streams("tty=1").unwrap_err();
        assert_eq!(refusal.status(), StatusCode::BAD_REQUEST);
        assert_eq!(refusal.to_string(), "you must specify at least 1 of stdin, stdout, stderr");
    }
}
