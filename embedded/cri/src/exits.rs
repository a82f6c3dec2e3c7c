//! What ends, as containerd's own events tell it: the CRI of version 1.6 has no such call.

use futures::{Stream, StreamExt};
use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use crate::runtime::{CallError, Runtime};

const CALL: &str = "Subscribe";
/// Of the namespace that the CRI uses, the ends of processes.
const FILTER: &str = r#"namespace==k8s.io,topic=="/tasks/exit""#;

#[derive(Clone, PartialEq, prost::Message)]
struct SubscribeRequest {
    #[prost(string, repeated, tag = "1")]
    filters: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Envelope {
    #[prost(message, optional, tag = "4")]
    event: Option<Any>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Any {
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TaskExit {
    #[prost(string, tag = "1")]
    container_id: String,
    /// The process: the same for a container's own, another for a command that was run in it.
    #[prost(string, tag = "2")]
    id: String,
}

impl Runtime {
    /// The identifiers of containers and sandboxes whose process ends from now on. The CRI may show them as running for
    /// a moment longer.
    pub async fn exits(&self) -> Result<impl Stream<Item = Result<String, CallError>> + Send + Unpin, CallError> {
        let failed = |status: &Status| CallError::new(CALL, "", status);
        let mut client = Grpc::new(self.channel.clone());
        client.ready().await.map_err(|error| failed(&Status::from_error(error.into())))?;
        let question = Request::new(SubscribeRequest { filters: vec![FILTER.to_owned()] });
        let path = PathAndQuery::from_static("/containerd.services.events.v1.Events/Subscribe");
        let answer = client.server_streaming(question, path, ProstCodec::<_, Envelope>::default()).await;
        let events = answer.map_err(|status| failed(&status))?.into_inner();
        let ended = events.filter_map(|event| {
            let id = event.map(own_end).map_err(|status| CallError::new(CALL, "", &status)).transpose();
            std::future::ready(id)
        });
        Ok(ended)
    }
}

/// The container, if it was its own process that ended.
fn own_end(envelope: Envelope) -> Option<String> {
    let exit = TaskExit::decode(envelope.event?.value.as_slice()).ok()?;
    (exit.id == exit.container_id).then_some(exit.container_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_command_is_not_the_end_of_its_container() {
        let end = |id: &str| {
            let exit = TaskExit { container_id: "web".to_owned(), id: id.to_owned() };
            own_end(Envelope { event: Some(Any { value: exit.encode_to_vec() }) })
        };
        assert_eq!(end("web").as_deref(), Some("web"));
        assert_eq!(end("exec-1"), None);
    }
}
