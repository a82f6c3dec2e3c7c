//! Connections into containers and pods: the client's is joined with the node's, whatever the two speak then.

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use http_body_util::Full;
use serde_json::Value;

use super::logs::unreachable;
use super::{Way, container, dial, pod};
use crate::call::Call;
use crate::object::meta;
use crate::path::Query;
use crate::status::ApiError;

/// What container runtimes speak over a WebSocket.
const SUBPROTOCOLS: [&str; 4] = [V4, "v4.base64.channel.k8s.io", "channel.k8s.io", "base64.channel.k8s.io"];
const V4: &str = "v4.channel.k8s.io";

/// The fourth version with one more message, by which a client says that standard input has ended. Runtimes do not know
/// that message, so this version is spoken where no client sends it: without standard input, and with a terminal, where
/// input ends by a character. Clients that are refused, as those that want SPDY within a WebSocket, go on with SPDY.
const V5: &str = "v5.channel.k8s.io";

/// What a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoken {
    /// Something that the runtime speaks, too.
    AsIs,
    /// The fifth version, which the runtime gets as the fourth.
    V5,
}

/// Serves `pods/exec`, `pods/attach` and `pods/portforward`.
pub(super) async fn serve(call: &Call<'_>, way: Way, method: &Method) -> Result<Response<Body>, ApiError> {
    let pod = pod(call)?;
    let path = path(&pod, way, &call.query, call.uri.query().unwrap_or_default())?;
    let node = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty());
    let node =
        node.ok_or_else(|| ApiError::bad_request(format!("pod {} does not have a host assigned", meta(&pod, "name"))))?;
    let node = dial::address(call.server, node)?;
    let client = call.connection.clone().filter(|_| c5c3_relay::is_upgrade(&call.headers));
    let client = client.ok_or_else(|| ApiError::bad_request("Upgrade request required"))?;
    let unknown = || {
        let message = format!("the WebSocket subprotocol is none of {}", SUBPROTOCOLS.join(", "));
        ApiError::bad_request(message)
    };
    let spoken = spoken(&call.headers, &call.query).ok_or_else(unknown)?;
    let wrong = |error: &dyn std::fmt::Display| ApiError::internal(error.to_string());
    let host = HeaderValue::from_str(&node.to_string()).map_err(|error| wrong(&error))?;
    let mut request =
        Request::builder().method(method).uri(path).body(Full::default()).map_err(|error| wrong(&error))?;
    *request.headers_mut() = c5c3_relay::forwarded(&call.headers, &host);
    if spoken == Spoken::V5 {
        request.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(V4));
    }
    let answer = dial::ask(call.server, node, request, Some(client)).await;
    // A refusal is passed on as it is, too: kubectl shows what the node says.
    let mut answer = answer.map_err(|why| unreachable(format!("error dialing backend: {why}")))?.map(Body::new);
    if spoken == Spoken::V5 && answer.headers().contains_key(header::SEC_WEBSOCKET_PROTOCOL) {
        answer.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(V5));
    }
    Ok(answer)
}

/// What a client speaks; none if that is not understood.
fn spoken(headers: &HeaderMap, query: &Query) -> Option<Spoken> {
    if !c5c3_relay::upgrades_to(headers, "websocket") {
        return Some(Spoken::AsIs);
    }
    let listed = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let offered: Vec<&str> = listed.flat_map(|value| value.split(',')).map(str::trim).collect();
    let never_ends_input = !query.is_on("stdin") || query.is_on("tty");
    if offered.is_empty() || offered.iter().any(|protocol| SUBPROTOCOLS.contains(protocol)) {
        return Some(Spoken::AsIs);
    }
    (offered.contains(&V5) && never_ends_input).then_some(Spoken::V5)
}

/// What is asked of the node.
fn path(pod: &Value, way: Way, query: &Query, raw: &str) -> Result<String, ApiError> {
    let (namespace, name) = (meta(pod, "namespace"), meta(pod, "name"));
    if way == Way::PortForward {
        let ports: Vec<&str> = given(raw, "ports").map(|(_, port)| port).collect();
        let ports = if ports.is_empty() { String::new() } else { format!("?port={}", ports.join(",")) };
        return Ok(format!("/portForward/{namespace}/{name}{ports}"));
    }
    let container = container::choose(pod, query.get("container"))?;
    let streams = [("stdin", "input=1"), ("stdout", "output=1"), ("stderr", "error=1"), ("tty", "tty=1")];
    let streams = streams.iter().filter(|(asked, _)| query.is_on(asked)).map(|(_, told)| (*told).to_owned());
    // As the client escaped it.
    let command = given(raw, "command").map(|(name, value)| format!("{name}={value}"));
    let (verb, command) = if way == Way::Exec { ("exec", Some(command)) } else { ("attach", None) };
    let told: Vec<String> = streams.chain(command.into_iter().flatten()).collect();
    Ok(format!("/{verb}/{namespace}/{name}/{container}?{}", told.join("&")))
}

/// All parameters of that name, in order, not decoded.
fn given<'a>(raw: &'a str, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let pairs = raw.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(move |(found, _)| *found == name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(way: Way, raw: &str) -> String {
        let pod = json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": {"containers": [{"name": "app"}]}});
        path(&pod, way, &Query::parse(raw), raw).unwrap()
    }

    #[test]
    fn options_become_those_of_nodes_and_a_command_stays_in_order() {
        let raw = "command=sh&command=-c&command=echo+a%26b&container=app&stdin=true&stdout=true&stderr=false&tty=true";
        let wanted = "/exec/shop/web/app?input=1&output=1&tty=1&command=sh&command=-c&command=echo+a%26b";
        assert_eq!(asked(Way::Exec, raw), wanted);
        assert_eq!(asked(Way::Attach, "stdout=true&stderr=1&command=no"), "/attach/shop/web/app?output=1&error=1");
        assert_eq!(asked(Way::PortForward, ""), "/portForward/shop/web");
        assert_eq!(asked(Way::PortForward, "ports=80&ports=443"), "/portForward/shop/web?port=80,443");
    }

    #[test]
    fn a_websocket_must_speak_what_runtimes_speak_or_what_can_be_told_them() {
        let spoken = |upgrade: &'static str, protocols: &[&'static str], query: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(header::UPGRADE, HeaderValue::from_static(upgrade));
            for protocol in protocols {
                headers.append(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
            }
            spoken(&headers, &Query::parse(query))
        };
        let as_is = Some(Spoken::AsIs);
        assert_eq!([spoken("SPDY/3.1", &[], ""), spoken("websocket", &[], "")], [as_is; 2]);
        assert_eq!(spoken("websocket", &[V4], "stdin=true"), as_is);
        assert_eq!(spoken("websocket", &["v5.channel.k8s.io, v4.channel.k8s.io"], "stdin=true"), as_is);
        assert_eq!(spoken("websocket", &[V5], "stdout=true"), Some(Spoken::V5));
        assert_eq!(spoken("websocket", &[V5], "stdin=true&stdout=true&tty=true"), Some(Spoken::V5));
        assert_eq!(spoken("websocket", &[V5], "stdin=true&stdout=true"), None, "its end could not be told");
        assert_eq!(spoken("websocket", &["SPDY/3.1+portforward.k8s.io"], ""), None);
    }
}
