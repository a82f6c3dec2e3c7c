//! OpenFlow 1.3 to 1.5 over the management socket of a bridge, and how many flows each of its tables has.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

const PATIENCE: Duration = Duration::from_secs(5);

/// Versions of the wire format: 1.3, 1.4, 1.5.
pub const OLDEST: u8 = 4;
pub const NEWEST: u8 = 6;

/// Types of messages.
const HELLO: u8 = 0;
pub const ERROR: u8 = 1;
const ECHO_REQUEST: u8 = 2;
pub const MULTIPART_REQUEST: u8 = 18;
pub const MULTIPART_REPLY: u8 = 19;
/// The multipart message about tables, and the flag that says that more follows.
const TABLES: u16 = 3;
const MORE: u16 = 1;

const HEAD: usize = 8;
const TABLE: usize = 24;

/// Why a bridge does not tell.
#[derive(Debug, thiserror::Error)]
pub enum OpenFlowError {
    /// The bridge cannot be reached.
    #[error("the bridge cannot be asked: {0}")]
    Io(#[from] std::io::Error),
    /// It did not answer.
    #[error("the bridge has not answered in time")]
    TimedOut,
    /// It speaks no version that is spoken here.
    #[error("the bridge does not speak OpenFlow 1.3, 1.4 or 1.5")]
    Version,
    /// It refused a request.
    #[error("the bridge refused request {id} with error type {kind}, code {code}")]
    Refused {
        /// The request's number.
        id: u32,
        /// The type of OpenFlow's error.
        kind: u16,
        /// Its code.
        code: u16,
    },
}

/// A message, without its head.
#[derive(Debug)]
pub struct Message {
    pub kind: u8,
    pub id: u32,
    pub body: Vec<u8>,
}

/// An open connection, on which a version has been agreed.
#[derive(Debug)]
pub struct Session {
    stream: UnixStream,
    version: u8,
    /// What was read and is not a whole message yet.
    unread: Vec<u8>,
}

impl Session {
    /// Connects, and agrees on the highest of these versions that the bridge speaks.
    pub async fn open(socket: &Path, versions: RangeInclusive<u8>) -> Result<Self, OpenFlowError> {
        let agree = async {
            let stream = UnixStream::connect(socket).await?;
            let mut session = Self { stream, version: *versions.end(), unread: Vec::new() };
            // A bitmap of versions: older peers take the one of the head as the highest.
            let bits = versions.clone().fold(0u32, |bits, version| bits | 1 << version);
            let element = [&1u16.to_be_bytes()[..], &8u16.to_be_bytes(), &bits.to_be_bytes()].concat();
            session.send(HELLO, 1, &element).await?;
            let (offered, hello) = session.receive().await?;
            session.version = (hello.kind == HELLO)
                .then(|| negotiate(offered, &hello.body, versions))
                .flatten()
                .ok_or(OpenFlowError::Version)?;
            Ok(session)
        };
        tokio::time::timeout(PATIENCE, agree).await.map_err(|_| OpenFlowError::TimedOut)?
    }

    /// The version that was agreed.
    pub fn version(&self) -> u8 {
        self.version
    }

    pub async fn send(&mut self, kind: u8, id: u32, body: &[u8]) -> Result<(), OpenFlowError> {
        let length = u16::try_from(HEAD + body.len()).unwrap_or(u16::MAX);
        let message = [&[self.version, kind][..], &length.to_be_bytes(), &id.to_be_bytes(), body].concat();
        Ok(self.stream.write_all(&message).await?)
    }

    /// The next message that is no echo request; those are answered. A call that is dropped loses nothing of the stream.
    pub async fn next(&mut self) -> Result<Message, OpenFlowError> {
        loop {
            let (_, message) = self.receive().await?;
            match message.kind {
                ECHO_REQUEST => self.send(ECHO_REQUEST + 1, message.id, &message.body).await?,
                ERROR => {
                    let word = |at| number(&message.body, at).unwrap_or_default();
                    return Err(OpenFlowError::Refused { id: message.id, kind: word(0), code: word(2) });
                }
                _ => return Ok(message),
            }
        }
    }

    /// Asks a multipart question, and hands each part of the answer to `take`. Other messages are left out.
    pub async fn ask(&mut self, what: u16, question: &[u8], mut take: impl FnMut(&[u8])) -> Result<(), OpenFlowError> {
        let id = 0x10_0000 + u32::from(what);
        let request = [&what.to_be_bytes()[..], &[0; 6], question].concat();
        self.send(MULTIPART_REQUEST, id, &request).await?;
        loop {
            let message = self.next().await?;
            if message.kind != MULTIPART_REPLY || message.id != id {
                continue;
            }
            let flags: u16 = number(&message.body, 2).unwrap_or_default();
            take(message.body.get(8..).unwrap_or_default());
            if flags & MORE == 0 {
                return Ok(());
            }
        }
    }

    /// The next message, and the version that its head names.
    async fn receive(&mut self) -> Result<(u8, Message), OpenFlowError> {
        loop {
            if let (Some(head), Some(length)) = (self.unread.get(..HEAD), number::<u16>(&self.unread, 2)) {
                let (version, kind, id) = (head[0], head[1], number(head, 4).unwrap_or_default());
                let length = usize::from(length).max(HEAD);
                if self.unread.len() >= length {
                    let body = self.unread[HEAD..length].to_vec();
                    self.unread.drain(..length);
                    return Ok((version, Message { kind, id, body }));
                }
            }
            if self.stream.read_buf(&mut self.unread).await? == 0 {
                return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
            }
        }
    }
}

/// The number of some bytes at a place, in network order.
pub fn number<T: Number>(bytes: &[u8], at: usize) -> Option<T> {
    T::read(bytes.get(at..)?)
}

/// A number of the wire format.
pub trait Number: Sized {
    fn read(bytes: &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($kind:ty),*) => {$(
        impl Number for $kind {
            fn read(bytes: &[u8]) -> Option<Self> {
                bytes.first_chunk().map(|bytes| Self::from_be_bytes(*bytes))
            }
        }
    )*};
}
numbers!(u16, u32, u64);

/// The tables that have flows, with how many.
pub async fn flows(socket: &Path) -> Result<BTreeMap<u8, u64>, OpenFlowError> {
    let ask = async {
        let mut found = BTreeMap::new();
        Session::open(socket, OLDEST..=NEWEST).await?.ask(TABLES, &[], |entries| tables(entries, &mut found)).await?;
        Ok(found)
    };
    tokio::time::timeout(PATIENCE, ask).await.map_err(|_| OpenFlowError::TimedOut)?
}

/// The highest of these versions that a peer offers.
fn negotiate(offered: u8, hello: &[u8], mut versions: RangeInclusive<u8>) -> Option<u8> {
    let bitmap = hello.get(..8).filter(|element| element[..2] == [0, 1]);
    match bitmap.and_then(|element| number::<u32>(element, 4)) {
        Some(bits) => versions.rfind(|version| bits & (1 << version) != 0),
        None => Some(offered.min(*versions.end())).filter(|version| versions.contains(version)),
    }
}

/// Takes the tables of one part of an answer.
fn tables(entries: &[u8], found: &mut BTreeMap<u8, u64>) {
    for entry in entries.chunks_exact(TABLE) {
        let active: u32 = number(entry, 4).unwrap_or_default();
        if active > 0 {
            found.insert(entry[0], active.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_of_both_is_spoken() {
        let bitmap = |bits: u32| [&[0, 1, 0, 8][..], &bits.to_be_bytes()].concat();
        let all = OLDEST..=NEWEST;
        assert_eq!(negotiate(6, &bitmap(0b111_0010), all.clone()), Some(6));
        assert_eq!(negotiate(6, &bitmap(0b111_0010), OLDEST..=OLDEST), Some(4));
        assert_eq!(negotiate(4, &bitmap(0b001_0010), all.clone()), Some(4));
        assert_eq!(negotiate(1, &bitmap(0b000_0010), all.clone()), None);
        let without = [9, 4, 1].map(|offered| negotiate(offered, &[], all.clone()));
        assert_eq!(without, [Some(6), Some(4), None]);
    }

    #[test]
    fn tables_without_flows_are_left_out() {
        let entry = |table: u8, flows: u32| [&[table, 0, 0, 0][..], &flows.to_be_bytes(), &[0; 16]].concat();
        let mut found = BTreeMap::new();
        tables(&[entry(0, 2), entry(1, 0), entry(8, 300)].concat(), &mut found);
        assert_eq!(found, [(0, 2), (8, 300)].into());
    }

    #[tokio::test]
    async fn an_answer_in_parts_is_read_between_echoes_and_other_messages() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("br.mgmt");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let bridge = tokio::spawn(async move {
            let stream = listener.accept().await.unwrap().0;
            let mut peer = Session { stream, version: OLDEST, unread: Vec::new() };
            peer.send(HELLO, 1, &[]).await.unwrap();
            assert_eq!(peer.receive().await.unwrap().1.kind, HELLO);
            let (version, asked) = peer.receive().await.unwrap();
            assert_eq!((version, asked.kind, &asked.body[..2]), (OLDEST, MULTIPART_REQUEST, &[0, 9][..]));
            peer.send(ECHO_REQUEST, 77, b"alive").await.unwrap();
            peer.send(10, 0, b"a packet").await.unwrap();
            for (flags, part) in [(1u8, b"first "), (0, b"second")] {
                let body = [&[0, 9, 0, flags, 0, 0, 0, 0][..], part].concat();
                peer.send(MULTIPART_REPLY, asked.id, &body).await.unwrap();
            }
            let (_, echo) = peer.receive().await.unwrap();
            assert_eq!((echo.kind, echo.id, echo.body.as_slice()), (ECHO_REQUEST + 1, 77, &b"alive"[..]));
        });
        let mut told = Vec::new();
        let mut session = Session::open(&socket, OLDEST..=NEWEST).await.unwrap();
        session.ask(9, &[], |part| told.extend_from_slice(part)).await.unwrap();
        assert_eq!(told, b"first second");
        bridge.await.unwrap();
    }
}
