//! The resolvers that know everything that is not ours.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use hickory_proto::op::{Edns, Message, Query};
use hickory_proto::rr::{Name, Record, RecordType};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::server::{LARGEST_DATAGRAM, Transport, read_message, write_message};

/// How long one resolver has; a client usually gives up after five seconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// Resolvers, in the order in which they are asked.
#[derive(Clone, Debug, Default)]
pub struct Upstream(Vec<SocketAddr>);

impl Upstream {
    /// These resolvers. Without any, names that are not ours do not exist.
    pub fn new(resolvers: Vec<SocketAddr>) -> Self {
        Self(resolvers)
    }

    /// Those that a `resolv.conf` names.
    pub fn parse(resolv_conf: &str) -> Self {
        let server = |line: &str| {
            let mut words = line.split_whitespace();
            let address: IpAddr = (words.next() == Some("nameserver")).then(|| words.next())??.parse().ok()?;
            Some(SocketAddr::new(address, 53))
        };
        Self(resolv_conf.lines().filter_map(server).collect())
    }

    pub(super) fn without(mut self, own: SocketAddr) -> Self {
        self.0.retain(|resolver| *resolver != own);
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Asks one after the other, in the client's own words. None: no one answered.
    pub(super) async fn relay(&self, query: &[u8], over: Transport) -> Option<Vec<u8>> {
        for resolver in &self.0 {
            let asked = async {
                match over {
                    Transport::Udp => ask_udp(*resolver, query).await,
                    Transport::Tcp => ask_tcp(*resolver, query).await,
                }
            };
            match timeout(PATIENCE, asked).await {
                Ok(Ok(answer)) => return Some(answer),
                Ok(Err(error)) => tracing::debug!(%resolver, %error, "a resolver could not be asked"),
                Err(_) => tracing::debug!(%resolver, "a resolver did not answer"),
            }
        }
        None
    }

    /// What a name has, as the resolvers see it.
    pub(super) async fn lookup(&self, name: Name, kind: RecordType) -> Option<Vec<Record>> {
        let mut message = Message::query();
        message.metadata.id = rand::random();
        message.metadata.recursion_desired = true;
        message.add_query(Query::query(name, kind));
        let mut edns = Edns::new();
        edns.set_max_payload(LARGEST_DATAGRAM);
        message.set_edns(edns);
        let query = message.to_vec().ok()?;
        let mut answer = Message::from_vec(&self.relay(&query, Transport::Udp).await?).ok()?;
        if answer.metadata.truncation {
            answer = Message::from_vec(&self.relay(&query, Transport::Tcp).await?).ok()?;
        }
        Some(answer.answers)
    }
}

async fn ask_udp(resolver: SocketAddr, query: &[u8]) -> std::io::Result<Vec<u8>> {
    let any: IpAddr = if resolver.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // A port of its own for each question, and an answer only from where it was asked: hard to forge.
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(resolver).await?;
    socket.send(query).await?;
    let mut buffer = vec![0; usize::from(u16::MAX)];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if buffer[..length].get(..2) == query.get(..2) {
            buffer.truncate(length);
            return Ok(buffer);
        }
    }
}

async fn ask_tcp(resolver: SocketAddr, query: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(resolver).await?;
    write_message(&mut stream, query).await?;
    read_message(&mut stream).await?.ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_are_read_in_order_and_other_lines_are_passed_over() {
        let upstream = Upstream::parse(
            "# nameserver 9.9.9.9\nsearch x\nnameserver 10.0.0.2\nnameserver fe80::1%eth0\nnameserver ::1\n",
        );
        assert_eq!(upstream.0, ["10.0.0.2:53".parse().unwrap(), "[::1]:53".parse().unwrap()]);
        assert!(Upstream::parse("").is_empty());
        assert_eq!(upstream.without("10.0.0.2:53".parse().unwrap()).0.len(), 1);
    }
}
