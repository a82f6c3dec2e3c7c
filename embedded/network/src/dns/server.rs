//! Queries as they come in by UDP and TCP, and answers as they go out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use c5c3_relay::{Clients, Share};
use hickory_proto::op::{Edns, Message, MessageType, Metadata, OpCode, ResponseCode};
use hickory_proto::rr::{DNSClass, RData, RecordType};
use rand::seq::SliceRandom;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::answer::{Answer, answer};
use super::upstream::Upstream;
use super::zone::Zone;

/// The largest answer by UDP that we promise to take and give, however large a client says it takes: what passes any
/// link without being cut into fragments.
pub(super) const LARGEST_DATAGRAM: u16 = 1232;

/// How many queries by UDP are worked on at once; more wait in the socket, and are lost when that is full. Each may have
/// a socket of its own to a resolver.
const AT_ONCE: usize = 1024;

/// How many of them are of one client; more are not answered, and asked again.
const OF_ONE_CLIENT: usize = 128;

/// How many connections there are at once, and how many of one client. They are counted apart: one that is open and idle
/// must not keep a query by UDP from being answered.
const CONNECTIONS: usize = 256;
const CONNECTIONS_OF_ONE_CLIENT: usize = 16;

/// A connection over which nothing was asked for this long is closed.
const IDLE: Duration = Duration::from_secs(10);

/// The pause after a socket has failed.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// The sockets that are listened on, bound to one address.
pub struct Listener {
    udp: Arc<UdpSocket>,
    tcp: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Binds UDP and TCP. Port 0 takes one that is free with both.
    pub async fn bind(address: SocketAddr) -> std::io::Result<Self> {
        let mut tries = if address.port() == 0 { 16 } else { 1 };
        loop {
            let udp = UdpSocket::bind(address).await?;
            let bound = udp.local_addr()?;
            tries -= 1;
            match TcpListener::bind(bound).await {
                Ok(tcp) => return Ok(Self { udp: Arc::new(udp), tcp, address: bound }),
                Err(error) if tries == 0 => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Udp,
    Tcp,
}

/// Who answers: shared by all queries.
struct Server {
    zone: watch::Receiver<Arc<Zone>>,
    upstream: Upstream,
    queries: Room,
    connections: Room,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// How much is worked on at once, in all and for each client.
struct Room {
    slots: Arc<Semaphore>,
    clients: Clients,
}

impl Room {
    fn new(all: usize, of_one: usize) -> Self {
        Self { slots: Arc::new(Semaphore::new(all)), clients: Clients::new(of_one) }
    }

    /// A place for a client, when there is one; none if it has as many as it may.
    async fn take(&self, client: SocketAddr) -> Option<(Share, OwnedSemaphorePermit)> {
        let share = self.clients.admit(client.ip())?;
        let slot = self.slots.clone().acquire_owned().await.ok()?;
        Some((share, slot))
    }
}

/// Answers until told to stop.
pub(super) async fn serve(
    listener: Listener,
    zone: watch::Receiver<Arc<Zone>>,
    upstream: Upstream,
    stop: CancellationToken,
) {
    let (queries, connected) = (Room::new(AT_ONCE, OF_ONE_CLIENT), Room::new(CONNECTIONS, CONNECTIONS_OF_ONE_CLIENT));
    let tasks = TaskTracker::new();
    let server = Arc::new(Server { zone, upstream, queries, connections: connected, tasks, stop });
    tokio::join!(datagrams(&server, &listener.udp), connections(&server, &listener.tcp));
    server.tasks.close();
    server.tasks.wait().await;
}

async fn datagrams(server: &Arc<Server>, socket: &Arc<UdpSocket>) {
    let mut buffer = vec![0; usize::from(u16::MAX)];
    while let Some(received) = server.stop.run_until_cancelled(socket.recv_from(&mut buffer)).await {
        let (length, client) = match received {
            Ok(received) => received,
            // Mostly about an answer to a client that is gone; one that persists must not take a core.
            Err(error) => {
                tracing::debug!(%error, "a query could not be received");
                tokio::time::sleep(AFTER_ERROR).await;
                continue;
            }
        };
        let Some(slot) = server.queries.take(client).await else { continue };
        let (server, socket, query) = (server.clone(), socket.clone(), buffer[..length].to_vec());
        server.clone().tasks.spawn(async move {
            if let Some(Some(response)) = server.stop.run_until_cancelled(server.respond(&query, Transport::Udp)).await
                && let Err(error) = socket.send_to(&response, client).await
            {
                tracing::debug!(%client, %error, "an answer could not be sent");
            }
            drop(slot);
        });
    }
}

async fn connections(server: &Arc<Server>, listener: &TcpListener) {
    while let Some(accepted) = server.stop.run_until_cancelled(listener.accept()).await {
        let (stream, client) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors: closing connections gives some back.
                tracing::warn!(%error, "a connection could not be taken");
                tokio::time::sleep(AFTER_ERROR).await;
                continue;
            }
        };
        let Some(slot) = server.connections.take(client).await else { continue };
        let server = server.clone();
        server.clone().tasks.spawn(async move {
            if let Some(Err(error)) = server.stop.run_until_cancelled(connection(&server, stream)).await {
                tracing::debug!(%client, %error, "a connection broke");
            }
            drop(slot);
        });
    }
}

async fn connection(server: &Server, mut stream: TcpStream) -> std::io::Result<()> {
    while let Ok(received) = timeout(IDLE, read_message(&mut stream)).await {
        let Some(query) = received? else { break };
        let Some(response) = server.respond(&query, Transport::Tcp).await else { break };
        timeout(IDLE, write_message(&mut stream, &response)).await??;
    }
    Ok(())
}

/// Reads a message with its length before it. None: the other side has nothing more to say.
pub(super) async fn read_message(stream: &mut TcpStream) -> std::io::Result<Option<Vec<u8>>> {
    let length = match stream.read_u16().await {
        Ok(length) => length,
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut message = vec![0; usize::from(length)];
    stream.read_exact(&mut message).await?;
    Ok(Some(message))
}

pub(super) async fn write_message(stream: &mut TcpStream, message: &[u8]) -> std::io::Result<()> {
    let length = u16::try_from(message.len()).map_err(|_| std::io::ErrorKind::InvalidData)?;
    let framed = [&length.to_be_bytes(), message].concat();
    stream.write_all(&framed).await
}

impl Server {
    /// The response to a message. None to what is no query at all.
    async fn respond(&self, query: &[u8], over: Transport) -> Option<Vec<u8>> {
        let request = match Message::from_vec(query) {
            Ok(request) if request.metadata.message_type == MessageType::Query => request,
            Ok(_) => return None,
            Err(_) => return malformed(query),
        };
        let mut response = response_to(&request);
        let refusal = refusal(&request);
        if let Some(code) = refusal {
            response.metadata.response_code = code;
            return encode(response, &request, over);
        }
        let question = request.queries.first()?;
        let zone = self.zone.borrow().clone();
        let Some(answer) = answer(&zone, question.name(), question.query_type()) else {
            if !self.upstream.is_empty()
                && let Some(answer) = self.upstream.relay(query, over).await
            {
                return Some(answer);
            }
            // Without resolvers the cluster is all there is; with resolvers that are silent no one knows.
            let code = if self.upstream.is_empty() { ResponseCode::NXDomain } else { ResponseCode::ServFail };
            response.metadata.response_code = code;
            return encode(response, &request, over);
        };
        self.fill(&mut response, answer, question.query_type()).await;
        encode(response, &request, over)
    }

    async fn fill(&self, response: &mut Message, answer: Answer, kind: RecordType) {
        response.metadata.authoritative = true;
        response.metadata.response_code = answer.code;
        response.answers = answer.answers;
        // Clients take the first: so that endpoints share the load, it is another one each time.
        let from = response.answers.iter().take_while(|record| matches!(record.data, RData::CNAME(_))).count();
        response.answers[from..].shuffle(&mut rand::rng());
        response.authorities = answer.authorities;
        response.additionals = answer.additionals;
        if let Some(target) = answer.elsewhere {
            // A client asks us because it does not follow aliases itself.
            response.answers.extend(self.upstream.lookup(target, kind).await.unwrap_or_default());
        }
    }
}

fn response_to(request: &Message) -> Message {
    let mut response = Message::response(request.metadata.id, request.metadata.op_code);
    response.metadata = Metadata::response_from_request(&request.metadata);
    response.metadata.recursion_available = true;
    response.add_queries(request.queries.iter().cloned());
    if request.edns.is_some() {
        let mut edns = Edns::new();
        edns.set_max_payload(LARGEST_DATAGRAM);
        response.set_edns(edns);
    }
    response
}

/// Why a query is not answered.
fn refusal(request: &Message) -> Option<ResponseCode> {
    if request.version() > 0 {
        return Some(ResponseCode::BADVERS);
    }
    if request.metadata.op_code != OpCode::Query {
        return Some(ResponseCode::NotImp);
    }
    match request.queries.as_slice() {
        [question] if question.query_class() == DNSClass::IN => None,
        [_] => Some(ResponseCode::Refused),
        _ => Some(ResponseCode::FormErr),
    }
}

/// What is answered to someone who sent a header and nothing that makes sense after it.
fn malformed(query: &[u8]) -> Option<Vec<u8>> {
    let [high, low, flags, ..] = query else { return None };
    let is_response = flags & 0x80 != 0;
    if query.len() < 12 || is_response {
        return None;
    }
    let id = u16::from_be_bytes([*high, *low]);
    Message::error_msg(id, OpCode::Query, ResponseCode::FormErr).to_vec().ok()
}

/// Writes a response so that it fits: without what was not asked for, then with as many answers as there is room for, and
/// the note that there are more by TCP.
fn encode(mut response: Message, request: &Message, over: Transport) -> Option<Vec<u8>> {
    let limit = match over {
        Transport::Udp => usize::from(request.max_payload().min(LARGEST_DATAGRAM)),
        Transport::Tcp => usize::from(u16::MAX),
    };
    let mut bytes = response.to_vec().ok()?;
    if bytes.len() > limit {
        response.additionals.clear();
        bytes = response.to_vec().ok()?;
    }
    while bytes.len() > limit {
        response.answers.pop()?;
        response.metadata.truncation = true;
        bytes = response.to_vec().ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::pin::pin;
    use std::task::Poll;

    use super::super::zone;
    use super::*;

    /// A socket that is always ready, and from which nothing can ever be received: it is none.
    async fn broken() -> (Arc<UdpSocket>, impl Write) {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"ready").unwrap();
        let socket = std::net::UdpSocket::from(OwnedFd::from(reader));
        socket.set_nonblocking(true).unwrap();
        let socket = UdpSocket::from_std(socket).unwrap();
        socket.readable().await.unwrap();
        (Arc::new(socket), writer)
    }

    #[tokio::test(start_paused = true)]
    async fn a_socket_that_fails_again_and_again_takes_no_core() {
        let origin = zone::origin("cluster.local").unwrap();
        let server = Arc::new(Server {
            zone: watch::channel(Arc::new(Zone::build(&origin, 1, &[], &[], &[]))).1,
            upstream: Upstream::default(),
            queries: Room::new(1, 1),
            connections: Room::new(1, 1),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        });
        let (socket, _writer) = broken().await;
        let (mut serving, mut turns) = (pin!(datagrams(&server, &socket)), 0);
        let serving = poll_fn(|context| {
            turns += 1;
            if turns > 100 { Poll::Ready(()) } else { serving.as_mut().poll(context) }
        });
        // The clock moves on only while everybody waits for it.
        let served = timeout(10 * AFTER_ERROR, serving).await;
        assert!(served.is_err(), "it has had {turns} turns in no time");
        assert!(turns > 5, "it is tried again: {turns}");
    }
}
