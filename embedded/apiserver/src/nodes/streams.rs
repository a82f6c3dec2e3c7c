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

/// What container runtimes speak over a WebSocket. Newer clients ask for more (`v5.channel.k8s.io`, SPDY within a
/// WebSocket) first; refused at once, they go on with SPDY, as with older servers.
const SUBPROTOCOLS: [&str; 4] =
    ["v4.channel.k8s.io", "v4.base64.channel.k8s.io", "channel.k8s.io", "base64.channel.k8s.io"];

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
    if !is_spoken(&call.headers) {
        let message = format!("the WebSocket subprotocol is none of {}", SUBPROTOCOLS.join(", "));
        return Err(ApiError::bad_request(message));
    }
    let wrong = |error: &dyn std::fmt::Display| ApiError::internal(error.to_string());
    let host = HeaderValue::from_str(&node.to_string()).map_err(|error| wrong(&error))?;
    let mut request =
        Request::builder().method(method).uri(path).body(Full::default()).map_err(|error| wrong(&error))?;
    *request.headers_mut() = c5c3_relay::forwarded(&call.headers, &host);
    let answer = dial::ask(call.server, node, request, Some(client)).await;
    // A refusal is passed on as it is, too: kubectl shows what the node says.
    Ok(answer.map_err(|why| unreachable(format!("error dialing backend: {why}")))?.map(Body::new))
}

/// Whether a client that speaks WebSocket speaks a kind that is understood.
fn is_spoken(headers: &HeaderMap) -> bool {
    if !c5c3_relay::upgrades_to(headers, "websocket") {
        return true;
    }
    let listed = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let mut offered = listed.flat_map(|value| value.split(',')).map(str::trim).peekable();
    offered.peek().is_none() || offered.any(|protocol| SUBPROTOCOLS.contains(&protocol))
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
    fn a_websocket_must_speak_what_runtimes_speak() {
        let spoken = |upgrade: &'static str, protocols: &[&'static str]| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(header::UPGRADE, HeaderValue::from_static(upgrade));
            for protocol in protocols {
                headers.append(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
            }
            is_spoken(&headers)
        };
        assert!(spoken("SPDY/3.1", &[]) && spoken("websocket", &[]));
        assert!(
            spoken("websocket", &["v4.channel.k8s.io"])
                && spoken("websocket", &["v5.channel.k8s.io, v4.channel.k8s.io"])
        );
        assert!(!spoken("websocket", &["v5.channel.k8s.io"]) && !spoken("websocket", &["SPDY/3.1+portforward.k8s.io"]));
    }
}
