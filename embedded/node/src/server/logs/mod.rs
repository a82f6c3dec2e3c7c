//! The logs of containers, from the files that the container runtime writes.

mod files;
mod line;
mod options;
mod reader;
mod render;

use std::io::ErrorKind;

use futures::{StreamExt, stream};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use jiff::Timestamp;

use super::query::Query;
use super::route::Which;
use super::{Body, Broken, text, with_type};
use crate::directory::{Directory, Found, NotFound, Run};
use options::Options;
use reader::Reader;

/// Serves a container's log: what there is, and with `follow` what comes until the container ends.
pub(super) async fn serve(directory: &Directory, which: Which<'_>, query: &Query) -> Response<Body> {
    let options = match Options::of(query, Timestamp::now()) {
        Ok(options) => options,
        Err(problem) => return text(StatusCode::UNPROCESSABLE_ENTITY, problem),
    };
    let Which { namespace, pod, container } = which;
    let run = if options.previous { Run::Previous } else { Run::Latest };
    let found = match directory.container(namespace, pod, container, run) {
        Ok(found) => found,
        Err(why) => return refused(&why),
    };
    match Reader::open(&found.log, options).await {
        Ok(reader) => stream(reader, follower(directory, which, found)),
        // The file is made with the start of the container.
        Err(error) if error.kind() == ErrorKind::NotFound && !found.is_running => {
            let reason = "ContainerCreating".to_owned();
            refused(&NotFound::Waiting { pod: pod.to_owned(), container: container.to_owned(), reason })
        }
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{}: {error}", found.log.display())),
    }
}

fn refused(why: &NotFound) -> Response<Body> {
    let status = match why {
        NotFound::Pod(_) | NotFound::Container { .. } => StatusCode::NOT_FOUND,
        _ => StatusCode::BAD_REQUEST,
    };
    text(status, why.to_string())
}

/// Whether there may be more to come: the container still runs.
fn follower(directory: &Directory, which: Which<'_>, found: Found) -> impl Fn() -> bool + Send + Sync + 'static {
    let directory = directory.clone();
    let (namespace, pod) = (which.namespace.to_owned(), which.pod.to_owned());
    let container = which.container.to_owned();
    move || {
        let now = directory.container(&namespace, &pod, &container, Run::Latest);
        now.is_ok_and(|now| now.container == found.container && now.is_running)
    }
}

/// The answer that is read while it is sent.
fn stream(reader: Reader, goes_on: impl Fn() -> bool + Send + Sync + 'static) -> Response<Body> {
    let chunks = stream::unfold((reader, goes_on), |(mut reader, goes_on)| async move {
        let chunk = reader.next(&goes_on).await.transpose()?;
        Some((chunk, (reader, goes_on)))
    });
    let frames = chunks.map(|chunk| chunk.map(Frame::data).map_err(Broken::from));
    with_type(Response::new(BodyExt::boxed_unsync(StreamBody::new(frames))), "text/plain")
}
