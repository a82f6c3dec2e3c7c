//! What a client wants to be connected to and how, as the object that admission is shown.

use c5c3_kinds::Subresource;
use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::path::{Query, every};

/// The options of a request for that subresource.
pub(super) fn of(call: &Call<'_>, below: &Subresource) -> Value {
    read(&below.kind, call.uri.query().unwrap_or_default(), call.uri.path())
}

fn read(kind: &str, query: &str, path: &str) -> Value {
    let given = Query::parse(query);
    let mut options = Map::from_iter([("kind".to_owned(), json!(kind)), ("apiVersion".to_owned(), json!("v1"))]);
    match kind {
        "PodExecOptions" | "PodAttachOptions" => {
            let streams = ["stdin", "stdout", "stderr", "tty"].into_iter().filter(|stream| given.is_on(stream));
            options.extend(streams.map(|stream| (stream.to_owned(), json!(true))));
            options.extend(given.get("container").map(|container| ("container".to_owned(), json!(container))));
            // An attach has no command; one that is given all the same says nothing.
            let command = every(query, "command");
            if kind == "PodExecOptions" && !command.is_empty() {
                options.insert("command".to_owned(), json!(command));
            }
        }
        "PodPortForwardOptions" => {
            let ports: Vec<u16> = every(query, "ports").iter().filter_map(|port| port.parse().ok()).collect();
            if !ports.is_empty() {
                options.insert("ports".to_owned(), json!(ports));
            }
        }
        _ => {
            let (_, rest) = path.split_once("/proxy").unwrap_or_default();
            options.insert("path".to_owned(), json!(rest));
        }
    }
    Value::Object(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_becomes_the_object_that_it_stands_for() {
        for (kind, query, path, wanted) in [
            (
                "PodExecOptions",
                "command=echo&command=a%26b&stdin=true&tty=0&container=app",
                "/",
                json!({"stdin": true, "container": "app", "command": ["echo", "a&b"]}),
            ),
            ("PodAttachOptions", "stdout=1&command=no", "/", json!({"stdout": true})),
            ("PodPortForwardOptions", "ports=80&ports=443", "/", json!({"ports": [80, 443]})),
            ("ServiceProxyOptions", "", "/api/v1/namespaces/a/services/b/proxy/c/d", json!({"path": "/c/d"})),
        ] {
            let mut wanted = wanted;
            wanted["kind"] = json!(kind);
            wanted["apiVersion"] = json!("v1");
            assert_eq!(read(kind, query, path), wanted);
        }
    }
}
