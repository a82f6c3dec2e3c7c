//! How many flows each table of a bridge has: one request of OpenFlow 1.3 to 1.5 over the bridge's management socket.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

const PATIENCE: Duration = Duration::from_secs(5);

/// Versions of the wire format: 1.3, 1.4, 1.5. The request and its answer are the same in all of them.
const OLDEST: u8 = 4;
const NEWEST: u8 = 6;

/// Types of messages.
const HELLO: u8 = 0;
const ERROR: u8 = 1;
const ECHO_REQUEST: u8 = 2;
const MULTIPART_REQUEST: u8 = 18;
const MULTIPART_REPLY: u8 = 19;
/// The multipart message about tables, and the flag that says that more follows.
const TABLES: u16 = 3;
const MORE: u16 = 1;

const HEAD: usize = 8;
const TABLE: usize = 24;

/// Why the flows are not known.
#[derive(Debug, thiserror::Error)]
pub enum FlowsError {
    /// The bridge cannot be reached.
    #[error("the bridge cannot be asked: {0}")]
    Io(#[from] std::io::Error),
    /// It did not answer.
    #[error("the bridge has not answered in time")]
    TimedOut,
    /// It speaks no version that is spoken here, or refused the request.
    #[error("the bridge does not speak OpenFlow 1.3, 1.4 or 1.5")]
    Refused,
}

/// The tables that have flows, with how many.
pub async fn flows(socket: &Path) -> Result<BTreeMap<u8, u64>, FlowsError> {
    tokio::time::timeout(PATIENCE, ask(socket)).await.map_err(|_| FlowsError::TimedOut)?
}

async fn ask(socket: &Path) -> Result<BTreeMap<u8, u64>, FlowsError> {
    let mut stream = UnixStream::connect(socket).await?;
    // A bitmap of versions: older peers take the one of the head as the highest.
    let versions = (OLDEST..=NEWEST).fold(0u32, |bits, version| bits | 1 << version);
    let element = [&1u16.to_be_bytes()[..], &8u16.to_be_bytes(), &versions.to_be_bytes()].concat();
    stream.write_all(&message(NEWEST, HELLO, 1, &element)).await?;
    let mut found = BTreeMap::new();
    let mut version = None;
    loop {
        let (head, body) = next(&mut stream).await?;
        match (head[1], version) {
            (HELLO, None) => {
                let agreed = negotiate(head[0], &body).ok_or(FlowsError::Refused)?;
                version = Some(agreed);
                let request = [TABLES.to_be_bytes(), [0; 2], [0; 2], [0; 2]].concat();
                stream.write_all(&message(agreed, MULTIPART_REQUEST, 2, &request)).await?;
            }
            (ECHO_REQUEST, Some(version)) => stream.write_all(&message(version, ECHO_REQUEST + 1, 0, &body)).await?,
            (ERROR, _) => return Err(FlowsError::Refused),
            (MULTIPART_REPLY, Some(_)) if !tables(&body, &mut found) => return Ok(found),
            _ => {}
        }
    }
}

fn message(version: u8, kind: u8, id: u32, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(HEAD + body.len()).unwrap_or(u16::MAX);
    [&[version, kind][..], &length.to_be_bytes(), &id.to_be_bytes(), body].concat()
}

async fn next(stream: &mut UnixStream) -> Result<([u8; HEAD], Vec<u8>), FlowsError> {
    let mut head = [0; HEAD];
    stream.read_exact(&mut head).await?;
    let length = usize::from(u16::from_be_bytes([head[2], head[3]])).max(HEAD);
    let mut body = vec![0; length - HEAD];
    stream.read_exact(&mut body).await?;
    Ok((head, body))
}

/// The highest version that both speak.
fn negotiate(offered: u8, hello: &[u8]) -> Option<u8> {
    let bitmap = hello.get(..8).filter(|element| element[..2] == [0, 1]);
    match bitmap {
        Some(element) => {
            let bits = u32::from_be_bytes([element[4], element[5], element[6], element[7]]);
            (OLDEST..=NEWEST).rev().find(|version| bits & (1 << version) != 0)
        }
        None => Some(offered.min(NEWEST)).filter(|version| *version >= OLDEST),
    }
}

/// Takes the tables of one answer, and says whether more follows.
fn tables(body: &[u8], found: &mut BTreeMap<u8, u64>) -> bool {
    let Some((head, entries)) = body.split_at_checked(8) else { return false };
    for entry in entries.chunks_exact(TABLE) {
        let active = u64::from(u32::from_be_bytes([entry[4], entry[5], entry[6], entry[7]]));
        if active > 0 {
            found.insert(entry[0], active);
        }
    }
    u16::from_be_bytes([head[2], head[3]]) & MORE != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_of_both_is_spoken() {
        let bitmap = |bits: u32| [&[0, 1, 0, 8][..], &bits.to_be_bytes()].concat();
        assert_eq!(negotiate(6, &bitmap(0b111_0010)), Some(6));
        assert_eq!(negotiate(4, &bitmap(0b001_0010)), Some(4));
        assert_eq!(negotiate(1, &bitmap(0b000_0010)), None);
        assert_eq!((negotiate(9, &[]), negotiate(4, &[]), negotiate(1, &[])), (Some(6), Some(4), None));
    }

    #[test]
    fn tables_without_flows_are_left_out() {
        let entry = |table: u8, flows: u32| [&[table, 0, 0, 0][..], &flows.to_be_bytes(), &[0; 16]].concat();
        let body = [&[0, 3, 0, 1, 0, 0, 0, 0][..], &entry(0, 2), &entry(1, 0), &entry(8, 300)].concat();
        let mut found = BTreeMap::new();
        assert!(tables(&body, &mut found), "more follows");
        assert_eq!(found, [(0, 2), (8, 300)].into());
        assert!(!tables(&[0, 3], &mut found));
    }
}
