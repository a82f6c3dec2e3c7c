//! What this server cannot answer itself, and fetches: logs and connections from nodes, and whatever pods and Services
//! serve to those who reach them through the API.

mod container;
mod dial;
mod logs;
mod options;
mod proxy;
mod streams;
mod websocket;

use axum::body::Body;
use c5c3_kinds::Verb;
use http::{Method, Response};
use serde_json::Value;

use crate::admission;
use crate::call::Call;
use crate::object::of_entry;
use crate::server::Server;
use crate::status::ApiError;

/// A subresource that leads to a node or into a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Log,
    Exec,
    Attach,
    PortForward,
    Proxy,
}

impl Way {
    /// By the name of the subresource.
    pub(crate) fn of(subresource: &str) -> Option<Self> {
        Some(match subresource {
            "log" => Self::Log,
            "exec" => Self::Exec,
            "attach" => Self::Attach,
            "portforward" => Self::PortForward,
            "proxy" => Self::Proxy,
            _ => return None,
        })
    }
}

/// Serves a request whose user may do what it asks for.
pub(crate) async fn serve(
    call: &Call<'_>,
    way: Way,
    method: &Method,
    verb: Option<Verb>,
) -> Result<Response<Body>, ApiError> {
    let name = call.target.subresource.as_deref().unwrap_or_default();
    let known = call.served.resource.subresource(name).ok_or_else(ApiError::no_such_path)?;
    // What OPTIONS means is up to whoever is proxied to.
    let is_options = way == Way::Proxy && method == Method::OPTIONS;
    if !verb.is_some_and(|verb| known.verbs.contains(&verb)) && !is_options {
        return Err(ApiError::not_allowed());
    }
    if way != Way::Log {
        admission::connect(call, &options::of(call, known)).await?;
    }
    match way {
        Way::Log => logs::serve(call).await,
        Way::Exec | Way::Attach | Way::PortForward => streams::serve(call, way, method).await,
        Way::Proxy => proxy::serve(call, method).await,
    }
}

/// An object of the core group, as it is stored.
fn find(server: &Server, plural: &str, namespace: Option<&str>, name: &str) -> Result<Value, ApiError> {
    let served = server.registry().find("", "v1", plural).ok_or_else(ApiError::no_such_path)?;
    let entry = server.store().get(&served.key(namespace, name));
    of_entry(&served.resource, &entry.ok_or_else(|| ApiError::not_found(&served.resource, name))?)
}

/// The pod that a request is about.
fn pod(call: &Call<'_>) -> Result<Value, ApiError> {
    find(call.server, "pods", call.namespace(), call.name()?)
}
