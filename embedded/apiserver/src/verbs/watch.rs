//! Changes as they happen.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use c5c3_store::{Event, Watch};
use futures::stream;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::list::Selection;
use super::reading::Reading;
use crate::call::Call;
use crate::conversion;
use crate::object::bytes;
use crate::registry::Served;
use crate::reply::{Form, bytes_reply};
use crate::server::Server;
use crate::status::ApiError;

/// How often a client that asked for bookmarks hears that nothing happened.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);

/// The longest watch, unless the client asks for another; a real server takes a random time between this and twice it.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);

/// A watch that is being served.
struct Watching {
    server: Arc<Server>,
    served: Arc<Served>,
    selection: Selection,
    form: Form,
    bookmarks: bool,
    /// Whether all is told that happens, and as it is stored where that is how it is shown.
    as_stored: bool,
    /// What there was when the watch began, as far as it is not told yet.
    first: Option<Reading>,
    /// What is told when all of that is.
    end_of_first: Option<Bytes>,
    changes: Watch,
    ends: Instant,
    next_bookmark: Instant,
    over: bool,
    stopped: tokio::sync::watch::Receiver<u64>,
}

/// Answers with a stream of events.
pub(super) async fn watch(call: &Call<'_>, form: Form) -> Result<Response<Body>, ApiError> {
    let resource = &call.served.resource;
    let selection = Selection::parse(resource, &call.query, call.target.name.as_deref())?;
    let prefix = selection.prefix(call);
    let version = call.query.get("resourceVersion").unwrap_or("0");
    let revision: u64 =
        version.parse().map_err(|_| ApiError::bad_request(format!("invalid resource version {version:?}")))?;
    let bookmarks = call.query.is_on("allowWatchBookmarks");
    let initial = call.query.get("sendInitialEvents").map(|value| value == "true");
    if initial == Some(true) && call.query.get("resourceVersionMatch") != Some("NotOlderThan") {
        return Err(ApiError::bad_request(
            "sendInitialEvents is forbidden unless resourceVersionMatch is set to NotOlderThan",
        ));
    }
    call.server.not_in_the_future(revision)?;
    // Without a revision, or with 0, a watch begins with what is there.
    let from_start = initial.unwrap_or(revision == 0) && (initial == Some(true) || revision == 0);
    let as_stored = form == Form::Object && selection.is_everything();
    let (mut first, mut end_of_first) = (None, None);
    let after = if from_start {
        let mut reading = Reading::new(call.server.store().list(&prefix), "");
        let revision = reading.revision();
        // Of the first ones, a client hears by the answer's status that they cannot be converted.
        reading.take(call.server, resource, usize::MAX).await?;
        first = Some(reading);
        if initial == Some(true) && bookmarks {
            let mut bookmark = bookmark(&call.served, form, revision);
            bookmark["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
            end_of_first = Some(line("BOOKMARK", &bytes(&bookmark)));
        }
        revision
    } else if revision == 0 {
        call.server.store().revision()
    } else {
        revision
    };
    let timeout = call.query.number("timeoutSeconds").map_err(ApiError::bad_request)?;
    let timeout = timeout.filter(|seconds| *seconds > 0).map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    let changes = match call.server.store().watch(&prefix, after) {
        Ok(changes) => changes,
        Err(compacted) => {
            let message = format!("too old resource version: {after} ({})", compacted.oldest);
            return Ok(bytes_reply(StatusCode::OK, "application/json", failed(message)));
        }
    };
    let now = Instant::now();
    let watching = Watching {
        server: call.server.clone(),
        served: call.served.clone(),
        selection,
        form,
        bookmarks,
        as_stored,
        first,
        end_of_first,
        changes,
        ends: now + timeout,
        next_bookmark: now + BOOKMARK_INTERVAL,
        over: false,
        stopped: call.server.watch_breaker(),
    };
    let lines = stream::unfold(watching, |mut watching| async move {
        let line = watching.next().await?;
        Some((Ok::<_, Infallible>(line), watching))
    });
    Ok(bytes_reply(StatusCode::OK, "application/json", Body::from_stream(lines)))
}

impl Watching {
    /// The next line that the client is told.
    async fn next(&mut self) -> Option<Bytes> {
        while let Some(reading) = self.first.take() {
            match self.next_of_first(reading).await {
                Ok(Some(told)) => return Some(told),
                Ok(None) => {}
                Err(error) => {
                    self.over = true;
                    return Some(line("ERROR", &bytes(&error.to_value())));
                }
            }
        }
        if let Some(bookmark) = self.end_of_first.take() {
            return Some(bookmark);
        }
        while !self.over {
            let wake = if self.bookmarks { self.next_bookmark.min(self.ends) } else { self.ends };
            // Changes that are not selected may come faster than they are read; the watch ends in time nevertheless.
            if Instant::now() >= wake {
                return self.tick();
            }
            tokio::select! {
                biased;
                _ = self.stopped.changed() => return None,
                change = self.changes.next() => match change {
                    Some(Ok(event)) => {
                        if let Some(told) = self.told(&event).await {
                            return Some(told);
                        }
                    }
                    Some(Err(lagged)) => {
                        self.over = true;
                        let message = format!("too old resource version: the watch fell behind after {}", lagged.seen);
                        return Some(failed(message));
                    }
                    None => return None,
                },
                () = tokio::time::sleep_until(wake) => {}
            }
        }
        None
    }

    /// What is told when it is time for a bookmark, or to end. The last word of a watch says how far it got, so that the
    /// next one can go on from there.
    fn tick(&mut self) -> Option<Bytes> {
        self.over = Instant::now() >= self.ends;
        if !self.bookmarks {
            return None;
        }
        self.next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
        let bookmark = bookmark(&self.served, self.form, self.changes.progress());
        Some(line("BOOKMARK", &bytes(&bookmark)))
    }

    /// What is told of the next object that there was at the beginning: nothing if it is not meant, or was the last.
    async fn next_of_first(&mut self, mut reading: Reading) -> Result<Option<Bytes>, ApiError> {
        let resource = &self.served.resource;
        let Some(entry) = reading.next(&self.server, resource, usize::MAX).await? else { return Ok(None) };
        let told = if self.as_stored && self.served.is_shown_as_stored(&entry.value) {
            Some(line("ADDED", &entry.value))
        } else {
            let object = self.served.readable(reading.object(resource, &entry)?);
            let is_meant = self.selection.takes(resource, &object);
            is_meant.then(|| line("ADDED", &bytes(&self.form.object(resource, object))))
        };
        self.first = Some(reading);
        Ok(told)
    }

    /// What a change is to this watch: an object that comes to match is added, one that ceases to is deleted.
    async fn told(&self, event: &Event) -> Option<Bytes> {
        let resource = &self.served.resource;
        if let Some(value) =
            event.value.as_ref().filter(|value| self.as_stored && self.served.is_shown_as_stored(value))
        {
            return Some(line(if event.previous.is_none() { "ADDED" } else { "MODIFIED" }, value));
        }
        let takes =
            |object: &Option<Value>| object.as_ref().is_some_and(|object| self.selection.takes(resource, object));
        let (before, after) = (self.object(event.previous.as_ref()).await, self.object(event.value.as_ref()).await);
        let (what, mut told) = match (takes(&before), takes(&after)) {
            (false, true) => ("ADDED", after?),
            (true, true) => ("MODIFIED", after?),
            // What is told of a deleted object is how it was last, as of the revision that deleted it.
            (true, false) => ("DELETED", before?),
            (false, false) => return None,
        };
        told["metadata"]["resourceVersion"] = event.revision.to_string().into();
        Some(line(what, &bytes(&self.form.object(resource, told))))
    }

    /// An object as this watch shows it; nothing for one that cannot be read, or converted.
    async fn object(&self, value: Option<&Bytes>) -> Option<Value> {
        let read = conversion::read(&self.server, &self.served.resource, value?).await;
        Some(self.served.readable(read.ok()?))
    }
}

fn bookmark(served: &Served, form: Form, revision: u64) -> Value {
    let resource = &served.resource;
    let (kind, version) = match form {
        Form::Object => (resource.kind.clone(), resource.api_version()),
        Form::Metadata => ("PartialObjectMetadata".into(), "meta.k8s.io/v1".into()),
        Form::Table(_) => ("Table".into(), "meta.k8s.io/v1".into()),
    };
    let metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
    json!({"kind": kind, "apiVersion": version, "metadata": metadata})
}

/// A line that tells that the watch cannot go on.
fn failed(why: String) -> Bytes {
    line("ERROR", &bytes(&ApiError::expired(why).to_value()))
}

/// A line that tells what happened to an object.
fn line(what: &str, object: &[u8]) -> Bytes {
    [br#"{"type":""#, what.as_bytes(), br#"","object":"#, object, b"}\n"].concat().into()
}

#[cfg(test)]
mod tests {
    use c5c3_auth::UserInfo;
    use http::{Method, Request};
    use http_body_util::BodyExt;

    use super::*;
    use crate::{Config, Storage};

    const MAPS: &str = "/api/v1/namespaces/default/configmaps";

    async fn ask(server: &Arc<Server>, method: Method, path: &str, body: &Value) -> Response<Body> {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let user = UserInfo::new("gardener", ["system:masters", "system:authenticated"]);
        let body = if body.is_null() { Bytes::new() } else { bytes(body) };
        server.handle(request.body(()).unwrap().into_parts().0, body, user).await
    }

    #[tokio::test]
    async fn a_watch_ends_in_time_though_changes_that_it_does_not_select_never_end() {
        let server = Server::start(Config::new(Storage::Memory)).await.unwrap();
        let since = server.store().revision();
        let selection = "labelSelector=tree%3Doak&timeoutSeconds=60&allowWatchBookmarks=true";
        let path = format!("{MAPS}?watch=true&resourceVersion={since}&{selection}");
        let watch = ask(&server, Method::GET, &path, &Value::Null).await.into_body();
        for number in 0..100 {
            let map = json!({"metadata": {"name": format!("m{number}")}});
            assert_eq!(ask(&server, Method::POST, MAPS, &map).await.status(), StatusCode::CREATED);
        }
        // Its time is over, and there is always one more change to read.
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(61)).await;
        let told = watch.collect().await.unwrap().to_bytes();
        let told: Value = serde_json::from_slice(&told).unwrap();
        let bookmark = json!({"kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"resourceVersion": since.to_string(), "creationTimestamp": null}});
        assert_eq!(told, json!({"type": "BOOKMARK", "object": bookmark}), "it ends where it is, and reads no further");
        server.stop().await;
    }
}
