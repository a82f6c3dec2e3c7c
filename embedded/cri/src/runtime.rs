//! The client of a container runtime: a method for each call, and an error that says which call failed on what.
//!
//! `GetContainerEvents` is missing: containerd has it from version 1.7 on, and Debian 12 ships 1.6. What ends is told by
//! containerd's own events instead ([`Runtime::exits`]).

use std::fmt;
use std::path::Path;
use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use crate::{tasks, v1};

/// How long a call may take, as in the kubelet. Stopping and running a command have their own time on top.
const LIMIT: Duration = Duration::from_mins(2);
/// As in the kubelet: a sandbox waits for the network plugins, too.
const SANDBOX_LIMIT: Duration = Duration::from_mins(4);
/// The largest answer that is read: the kubelet's limit, which the output of a command can reach.
const LARGEST_ANSWER: usize = 16 << 20;

/// A container runtime behind a unix socket. Clones share one connection, which is made on the first call and again
/// after it broke.
#[derive(Clone, Debug)]
pub struct Runtime {
    pub(crate) channel: Channel,
}

/// A call that failed: which one, on what, and the runtime's reason.
#[derive(Clone, Debug)]
pub struct CallError {
    /// The call's name in the CRI, such as `RunPodSandbox`.
    pub call: &'static str,
    /// What the call was about: the identifier of a sandbox or container, or an image's name. Empty for calls about all.
    pub subject: String,
    /// The kind of failure. containerd says `Unknown` for much that has a better name.
    pub code: Code,
    /// The runtime's own words.
    pub reason: String,
}

impl CallError {
    pub(crate) fn new(call: &'static str, subject: &str, status: &Status) -> Self {
        // A connection that was refused says so only in its causes.
        let causes = std::iter::successors(std::error::Error::source(status), |&cause| cause.source());
        let reason = causes.fold(status.message().to_owned(), |reason, cause| {
            let cause = cause.to_string();
            if reason.contains(&cause) { reason } else { format!("{reason}: {cause}") }
        });
        Self { call, subject: subject.to_owned(), code: status.code(), reason }
    }

    /// Is the thing that the call was about gone, or has it never been there?
    pub fn is_not_found(&self) -> bool {
        self.code == Code::NotFound
    }

    /// Did the call, or the command that it ran, take longer than it was given?
    pub fn is_timeout(&self) -> bool {
        // The first is the runtime's word, the second that of the client which stopped waiting.
        self.code == Code::DeadlineExceeded || (self.code == Code::Cancelled && self.reason.contains("Timeout expired"))
    }

    /// Does no one answer on the runtime's socket?
    pub fn is_unreachable(&self) -> bool {
        self.code == Code::Unavailable
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.call)?;
        if !self.subject.is_empty() {
            write!(f, " of {}", self.subject)?;
        }
        match self.code {
            Code::Unknown => write!(f, ": {}", self.reason),
            code => write!(f, ": {} ({code:?})", self.reason),
        }
    }
}

impl std::error::Error for CallError {}

pub(crate) type Answer<T> = Result<T, CallError>;

/// The namespace of containerd that the CRI uses. Calls of the CRI imply it; containerd's own have to name it.
const NAMESPACE: (&str, &str) = ("containerd-namespace", "k8s.io");

/// One call: its service and name, what it is about, and how long it may take.
pub(crate) struct Call<'a> {
    service: &'static str,
    name: &'static str,
    subject: &'a str,
    limit: Option<Duration>,
}

impl<'a> Call<'a> {
    fn runtime(name: &'static str, subject: &'a str) -> Self {
        Self { service: "runtime.v1.RuntimeService", name, subject, limit: Some(LIMIT) }
    }

    /// A call of containerd itself.
    pub(crate) fn task(name: &'static str, subject: &'a str) -> Self {
        Self { service: "containerd.services.tasks.v1.Tasks", ..Self::runtime(name, subject) }
    }

    fn image(name: &'static str, subject: &'a str) -> Self {
        Self { service: "runtime.v1.ImageService", ..Self::runtime(name, subject) }
    }

    fn limit(self, limit: Option<Duration>) -> Self {
        Self { limit, ..self }
    }

    /// The answer's part that the protocol marks as optional and the runtime always sets.
    fn part<T>(&self, part: Option<T>) -> Answer<T> {
        part.ok_or_else(|| CallError::new(self.name, self.subject, &Status::internal("the answer is empty")))
    }
}

impl Runtime {
    /// The runtime that listens, or will listen, on a socket.
    pub fn at(socket: &Path) -> Self {
        let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display()))
            .expect("what follows unix: is taken as a path, whatever it is");
        Self { channel: endpoint.connect_lazy() }
    }

    pub(crate) async fn send<Q, A>(&self, call: &Call<'_>, question: Q) -> Answer<A>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let failed = |status: &Status| CallError::new(call.name, call.subject, status);
        let path =
            PathAndQuery::try_from(format!("/{}/{}", call.service, call.name)).expect("the name of a call is a path");
        let mut request = Request::new(question);
        request.metadata_mut().insert(NAMESPACE.0, MetadataValue::from_static(NAMESPACE.1));
        if let Some(limit) = call.limit {
            request.set_timeout(limit);
        }
        let mut client = Grpc::new(self.channel.clone()).max_decoding_message_size(LARGEST_ANSWER);
        client.ready().await.map_err(|error| failed(&Status::from_error(error.into())))?;
        // Boxed, because it holds the message several times over, and would grow every future that calls.
        let answer = Box::pin(client.unary(request, path, ProstCodec::default())).await;
        answer.map(tonic::Response::into_inner).map_err(|status| failed(&status))
    }
}

/// The runtime itself.
impl Runtime {
    /// The runtime's name and version.
    pub async fn version(&self) -> Answer<v1::VersionResponse> {
        self.send(&Call::runtime("Version", ""), v1::VersionRequest::default()).await
    }

    /// Whether the runtime and its network are ready. With `verbose`, also its configuration.
    pub async fn status(&self, verbose: bool) -> Answer<v1::StatusResponse> {
        self.send(&Call::runtime("Status", ""), v1::StatusRequest { verbose }).await
    }
}

/// Sandboxes.
impl Runtime {
    /// Makes and starts a sandbox, with its network; its identifier. An empty `handler` is the default one.
    pub async fn run_pod_sandbox(&self, config: v1::PodSandboxConfig, handler: &str) -> Answer<String> {
        let subject = config.metadata.as_ref().map(|pod| format!("{}/{}", pod.namespace, pod.name)).unwrap_or_default();
        let call = Call::runtime("RunPodSandbox", &subject).limit(Some(SANDBOX_LIMIT));
        let question = v1::RunPodSandboxRequest { config: Some(config), runtime_handler: handler.to_owned() };
        let answer: v1::RunPodSandboxResponse = self.send(&call, question).await?;
        Ok(answer.pod_sandbox_id)
    }

    /// Stops what runs in a sandbox and gives its network back. Can be repeated.
    pub async fn stop_pod_sandbox(&self, id: &str) -> Answer<()> {
        let question = v1::StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        let call = Call::runtime("StopPodSandbox", id);
        gone_is_done(self.send(&call, question).await.map(|_: v1::StopPodSandboxResponse| ()))
    }

    /// Removes a sandbox and its containers. Can be repeated.
    pub async fn remove_pod_sandbox(&self, id: &str) -> Answer<()> {
        let question = v1::RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        let _: v1::RemovePodSandboxResponse = self.send(&Call::runtime("RemovePodSandbox", id), question).await?;
        Ok(())
    }

    /// A sandbox's state, and its addresses.
    pub async fn pod_sandbox_status(&self, id: &str) -> Answer<v1::PodSandboxStatus> {
        let call = Call::runtime("PodSandboxStatus", id);
        let question = v1::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
        let answer: v1::PodSandboxStatusResponse = self.send(&call, question).await?;
        call.part(answer.status)
    }

    /// The sandboxes that a filter selects, or all.
    pub async fn list_pod_sandbox(&self, filter: Option<v1::PodSandboxFilter>) -> Answer<Vec<v1::PodSandbox>> {
        let question = v1::ListPodSandboxRequest { filter };
        let answer: v1::ListPodSandboxResponse = self.send(&Call::runtime("ListPodSandbox", ""), question).await?;
        Ok(answer.items)
    }

    /// What sandboxes use, with their containers.
    pub async fn list_pod_sandbox_stats(
        &self,
        filter: Option<v1::PodSandboxStatsFilter>,
    ) -> Answer<Vec<v1::PodSandboxStats>> {
        let question = v1::ListPodSandboxStatsRequest { filter };
        let call = Call::runtime("ListPodSandboxStats", "");
        let answer: v1::ListPodSandboxStatsResponse = self.send(&call, question).await?;
        Ok(answer.stats)
    }
}

/// Containers.
impl Runtime {
    /// Makes a container in a sandbox, from an image that is there; its identifier. `sandbox_config` is what the
    /// sandbox was run with.
    pub async fn create_container(
        &self,
        sandbox: &str,
        config: v1::ContainerConfig,
        sandbox_config: v1::PodSandboxConfig,
    ) -> Answer<String> {
        let name = config.metadata.as_ref().map_or("", |container| container.name.as_str());
        let subject = format!("{name} in {sandbox}");
        let question = v1::CreateContainerRequest {
            pod_sandbox_id: sandbox.to_owned(),
            config: Some(config),
            sandbox_config: Some(sandbox_config),
        };
        let call = Call::runtime("CreateContainer", &subject);
        let answer: v1::CreateContainerResponse = self.send(&call, question).await?;
        Ok(answer.container_id)
    }

    /// Starts a container that was made.
    pub async fn start_container(&self, id: &str) -> Answer<()> {
        let question = v1::StartContainerRequest { container_id: id.to_owned() };
        let _: v1::StartContainerResponse = self.send(&Call::runtime("StartContainer", id), question).await?;
        Ok(())
    }

    /// Sends a container its stop signal, and kills it when `grace` has passed. Can be repeated.
    pub async fn stop_container(&self, id: &str, grace: Duration) -> Answer<()> {
        let call = Call::runtime("StopContainer", id).limit(Some(LIMIT.saturating_add(grace)));
        let question = v1::StopContainerRequest { container_id: id.to_owned(), timeout: whole_seconds(grace) };
        gone_is_done(self.send(&call, question).await.map(|_: v1::StopContainerResponse| ()))
    }

    /// Removes a container, running or not. Can be repeated.
    pub async fn remove_container(&self, id: &str) -> Answer<()> {
        match self.ask_to_remove(id).await {
            Err(refused) if tasks::is_in_the_way(&refused) => {
                tracing::warn!(container = id, error = %refused, "a start that failed left a process, which is killed");
                self.end_task(id).await?;
                self.ask_to_remove(id).await
            }
            removed => removed,
        }
    }

    async fn ask_to_remove(&self, id: &str) -> Answer<()> {
        let question = v1::RemoveContainerRequest { container_id: id.to_owned() };
        let _: v1::RemoveContainerResponse = self.send(&Call::runtime("RemoveContainer", id), question).await?;
        Ok(())
    }

    /// The containers that a filter selects, or all.
    pub async fn list_containers(&self, filter: Option<v1::ContainerFilter>) -> Answer<Vec<v1::Container>> {
        let question = v1::ListContainersRequest { filter };
        let answer: v1::ListContainersResponse = self.send(&Call::runtime("ListContainers", ""), question).await?;
        Ok(answer.containers)
    }

    /// A container's state, with its exit code and reason.
    pub async fn container_status(&self, id: &str) -> Answer<v1::ContainerStatus> {
        let call = Call::runtime("ContainerStatus", id);
        let question = v1::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        let answer: v1::ContainerStatusResponse = self.send(&call, question).await?;
        call.part(answer.status)
    }

    /// Changes the limits of a running container.
    pub async fn update_container_resources(&self, id: &str, linux: v1::LinuxContainerResources) -> Answer<()> {
        let question = v1::UpdateContainerResourcesRequest {
            container_id: id.to_owned(),
            linux: Some(linux),
            ..v1::UpdateContainerResourcesRequest::default()
        };
        let call = Call::runtime("UpdateContainerResources", id);
        let _: v1::UpdateContainerResourcesResponse = self.send(&call, question).await?;
        Ok(())
    }

    /// Opens a container's log file again, after it was moved away.
    pub async fn reopen_container_log(&self, id: &str) -> Answer<()> {
        let question = v1::ReopenContainerLogRequest { container_id: id.to_owned() };
        let _: v1::ReopenContainerLogResponse = self.send(&Call::runtime("ReopenContainerLog", id), question).await?;
        Ok(())
    }

    /// What a container uses.
    pub async fn container_stats(&self, id: &str) -> Answer<v1::ContainerStats> {
        let call = Call::runtime("ContainerStats", id);
        let question = v1::ContainerStatsRequest { container_id: id.to_owned() };
        let answer: v1::ContainerStatsResponse = self.send(&call, question).await?;
        call.part(answer.stats)
    }

    /// What the containers use that a filter selects, or all.
    pub async fn list_container_stats(
        &self,
        filter: Option<v1::ContainerStatsFilter>,
    ) -> Answer<Vec<v1::ContainerStats>> {
        let question = v1::ListContainerStatsRequest { filter };
        let call = Call::runtime("ListContainerStats", "");
        let answer: v1::ListContainerStatsResponse = self.send(&call, question).await?;
        Ok(answer.stats)
    }
}

/// Talking to what runs. The streaming calls answer with the address of the runtime's streaming server, which takes
/// one connection for each address.
impl Runtime {
    /// Runs a command and collects what it prints. Without `limit`, it may take as long as it wants; one that takes
    /// longer than its limit is killed, and the error [is a timeout](CallError::is_timeout).
    pub async fn exec_sync(
        &self,
        id: &str,
        command: Vec<String>,
        limit: Option<Duration>,
    ) -> Answer<v1::ExecSyncResponse> {
        let call = Call::runtime("ExecSync", id).limit(limit.map(|limit| LIMIT.saturating_add(limit)));
        let timeout = limit.map(whole_seconds).unwrap_or_default();
        self.send(&call, v1::ExecSyncRequest { container_id: id.to_owned(), cmd: command, timeout }).await
    }

    /// Prepares a command with streams; the address to connect to.
    pub async fn exec(&self, question: v1::ExecRequest) -> Answer<String> {
        let subject = question.container_id.clone();
        let answer: v1::ExecResponse = self.send(&Call::runtime("Exec", &subject), question).await?;
        Ok(answer.url)
    }

    /// Prepares to join the streams of a container's process; the address to connect to.
    pub async fn attach(&self, question: v1::AttachRequest) -> Answer<String> {
        let subject = question.container_id.clone();
        let answer: v1::AttachResponse = self.send(&Call::runtime("Attach", &subject), question).await?;
        Ok(answer.url)
    }

    /// Prepares to forward ports of a sandbox; the address to connect to.
    pub async fn port_forward(&self, question: v1::PortForwardRequest) -> Answer<String> {
        let subject = question.pod_sandbox_id.clone();
        let answer: v1::PortForwardResponse = self.send(&Call::runtime("PortForward", &subject), question).await?;
        Ok(answer.url)
    }
}

/// Images.
impl Runtime {
    /// All images of this runtime. None is marked as pinned by containerd 1.6, not even the one of sandboxes.
    pub async fn list_images(&self) -> Answer<Vec<v1::Image>> {
        let answer: v1::ListImagesResponse =
            self.send(&Call::image("ListImages", ""), v1::ListImagesRequest::default()).await?;
        Ok(answer.images)
    }

    /// An image, if it is there.
    pub async fn image_status(&self, image: &str) -> Answer<Option<v1::Image>> {
        let question = v1::ImageStatusRequest { image: Some(named(image)), verbose: false };
        let answer: v1::ImageStatusResponse = self.send(&Call::image("ImageStatus", image), question).await?;
        Ok(answer.image)
    }

    /// Fetches an image from its registry, for a pod if `sandbox_config` says which; its identifier. The time that
    /// this takes is not limited here: containerd gives up on a registry that sends nothing.
    pub async fn pull_image(
        &self,
        image: &str,
        auth: Option<v1::AuthConfig>,
        sandbox_config: Option<v1::PodSandboxConfig>,
    ) -> Answer<String> {
        let call = Call::image("PullImage", image).limit(None);
        let question = v1::PullImageRequest { image: Some(named(image)), auth, sandbox_config };
        let answer: v1::PullImageResponse = self.send(&call, question).await?;
        Ok(answer.image_ref)
    }

    /// Removes an image. Can be repeated.
    pub async fn remove_image(&self, image: &str) -> Answer<()> {
        let question = v1::RemoveImageRequest { image: Some(named(image)) };
        let _: v1::RemoveImageResponse = self.send(&Call::image("RemoveImage", image), question).await?;
        Ok(())
    }

    /// The space that images take.
    pub async fn image_fs_info(&self) -> Answer<v1::ImageFsInfoResponse> {
        self.send(&Call::image("ImageFsInfo", ""), v1::ImageFsInfoRequest::default()).await
    }
}

/// containerd 1.6 refuses to stop what it does not know any more, where the protocol wants a success.
pub(crate) fn gone_is_done(answer: Answer<()>) -> Answer<()> {
    answer.or_else(|error| if error.is_not_found() { Ok(()) } else { Err(error) })
}

fn named(image: &str) -> v1::ImageSpec {
    v1::ImageSpec { image: image.to_owned(), ..v1::ImageSpec::default() }
}

/// The CRI counts in whole seconds; a part of one counts as one, so that it does not become "no limit" or "at once".
fn whole_seconds(time: Duration) -> i64 {
    let up = u64::from(time.subsec_nanos() > 0);
    i64::try_from(time.as_secs().saturating_add(up)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_that_nobody_answers_names_itself_its_subject_and_the_reason() {
        let error = Runtime::at(Path::new("/nowhere/cri.sock")).start_container("web-0").await.unwrap_err();
        assert!(error.is_unreachable() && !error.is_not_found() && !error.is_timeout(), "{error:?}");
        let said = error.to_string();
        assert!(said.starts_with("StartContainer of web-0: "), "{said}");
        assert!(said.contains("No such file or directory"), "{said}");
    }

    #[test]
    fn a_part_of_a_second_is_rounded_up() {
        assert_eq!(whole_seconds(Duration::ZERO), 0);
        assert_eq!(whole_seconds(Duration::from_millis(1)), 1);
        assert_eq!(whole_seconds(Duration::from_secs(30)), 30);
        assert_eq!(whole_seconds(Duration::MAX), i64::MAX);
    }
}
