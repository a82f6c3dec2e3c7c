//! What a test sees of a cluster that others use too: lists and watches across all namespaces tell of its own
//! namespaces only. A controller under test would otherwise act on the objects of every test that runs beside it.

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use c5c3_apiserver::Asked;
use futures::stream;
use http::{Response, header};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::ledger::Ledger;
use crate::upstream::Failure;
use crate::wire::Wanted;

/// Narrows an answer to what concerns the test.
pub(crate) async fn narrow(
    wanted: &Wanted,
    answer: Response<Body>,
    ledger: &std::sync::Arc<Ledger>,
) -> Result<Response<Body>, Failure> {
    let across =
        matches!(&wanted.asked, Asked::Resource(target) if target.namespace.is_none() && target.name.is_none());
    let content = answer.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !across || !answer.status().is_success() || !content.starts_with("application/json") {
        return Ok(answer);
    }
    match wanted.verb {
        "list" => {
            let (mut parts, body) = answer.into_parts();
            let body = narrow_list(&body.collect().await?.to_bytes(), &|namespace| ledger.owns(namespace));
            parts.headers.remove(header::CONTENT_LENGTH);
            Ok(Response::from_parts(parts, Body::from(body)))
        }
        "watch" => {
            let ledger = ledger.clone();
            Ok(answer.map(|body| narrow_watch(body, move |namespace| ledger.owns(namespace))))
        }
        _ => Ok(answer),
    }
}

/// Whether an object, or the row of a table that stands for one, is in no namespace or in one of the test's.
fn concerns(object: &Value, owns: &dyn Fn(&str) -> bool) -> bool {
    let namespace = |object: &Value| object["metadata"]["namespace"].as_str().map(ToOwned::to_owned);
    namespace(object).or_else(|| namespace(&object["object"])).is_none_or(|namespace| owns(&namespace))
}

fn narrow_list(body: &Bytes, owns: &dyn Fn(&str) -> bool) -> Bytes {
    let Ok(mut list) = serde_json::from_slice::<Value>(body) else { return body.clone() };
    for items in ["items", "rows"] {
        if let Some(items) = list.get_mut(items).and_then(Value::as_array_mut) {
            items.retain(|item| concerns(item, owns));
        }
    }
    list.to_string().into()
}

/// An event stays if it tells of an object that concerns the test; errors and bookmarks always do.
fn stays(line: &[u8], owns: &dyn Fn(&str) -> bool) -> bool {
    serde_json::from_slice::<Value>(line).is_ok_and(|event| concerns(&event["object"], owns))
}

fn narrow_watch(body: Body, owns: impl Fn(&str) -> bool + Send + 'static) -> Body {
    let lines = stream::unfold((body, BytesMut::new(), owns), |(mut body, mut rest, owns)| async move {
        loop {
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = rest.split_to(end + 1).freeze();
                if stays(&line, &owns) {
                    return Some((Ok(line), (body, rest, owns)));
                }
                continue;
            }
            match body.frame().await? {
                Ok(frame) => rest.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
                Err(error) => return Some((Err(error), (Body::empty(), BytesMut::new(), owns))),
            }
        }
    });
    Body::from_stream(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mine(namespace: &str) -> bool {
        namespace == "mine"
    }

    #[test]
    fn lists_and_tables_are_narrowed() {
        let in_namespace = |namespace: &str| json!({"metadata": {"name": "a", "namespace": namespace}});
        let list = json!({"items": [in_namespace("mine"), in_namespace("theirs"), {"metadata": {"name": "node"}}]});
        let narrowed: Value = serde_json::from_slice(&narrow_list(&list.to_string().into(), &mine)).unwrap();
        assert_eq!(narrowed["items"].as_array().unwrap().len(), 2);
        let table = json!({"rows": [{"cells": ["a"], "object": in_namespace("theirs")}]});
        let narrowed: Value = serde_json::from_slice(&narrow_list(&table.to_string().into(), &mine)).unwrap();
        assert_eq!(narrowed["rows"], json!([]));
    }

    #[tokio::test]
    async fn watches_are_narrowed_however_their_bytes_arrive() {
        let event = |namespace: &str| {
            format!("{}\n", json!({"type": "ADDED", "object": {"metadata": {"namespace": namespace}}}))
        };
        let bookmark = "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\"}}}\n";
        let text = [event("theirs"), event("mine"), event("theirs"), bookmark.to_owned()].concat();
        let pieces: Vec<_> =
            text.as_bytes().chunks(7).map(|piece| Ok::<_, Failure>(Bytes::copy_from_slice(piece))).collect();
        let narrowed = narrow_watch(Body::from_stream(stream::iter(pieces)), mine);
        let told = narrowed.collect().await.unwrap().to_bytes();
        assert_eq!(String::from_utf8_lossy(&told), event("mine") + bookmark);
    }
}
