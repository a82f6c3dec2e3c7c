//! A bounded packet capture: the packets of a bridge or of a port, as a pcap file.
//!
//! A mirror copies them to a bridge of its own, whose only flow hands them over as OpenFlow messages on a unix socket. So a capture
//! needs no capability, no network namespace and no device to read from, only the sockets that the agent has anyway. A meter bounds
//! how many packets a second are handed over, and the flow ends by itself when the time is over, even if this process was killed.

mod mirror;
mod packets;
mod pcap;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep_until, timeout};

use crate::openflow::{OLDEST, OpenFlowError, Session};
use crate::rpc::RpcError;

use mirror::Database;
pub(crate) use mirror::{BRIDGE, is_part};

/// For how long a capture waits for another to end. The agent is one, for a moment, when it removes what was left.
const A_MOMENT: Duration = Duration::from_secs(2);
/// How much longer than the capture its flow stays, at most.
const SET_UP: Duration = Duration::from_secs(5);
/// For how long the bridge of the capture is asked how much it saw, at the end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What is captured, and how much of it at most.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// The folder of Open vSwitch's sockets.
    pub run: PathBuf,
    /// The name of a bridge, or of a port.
    pub target: String,
    /// How many packets.
    pub packets: u32,
    /// How many bytes of packets.
    pub bytes: u64,
    /// For how long.
    pub time: Duration,
    /// How many bytes of each packet.
    pub snap_length: u32,
}

/// Why a capture ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All packets that were wanted are there.
    Packets,
    /// The next packet would be more bytes than were wanted.
    Bytes,
    /// The time is over.
    Time,
    /// It was stopped.
    Stopped,
    /// No one reads what it writes.
    ReaderGone,
}

/// What was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    /// How many packets were written.
    pub packets: u32,
    /// How many bytes of them.
    pub bytes: u64,
    /// How many packets there were at least, if the switch said so. More than were written, if they came too fast.
    pub passed: Option<u64>,
    /// Why it ended.
    pub ended: Ended,
}

impl fmt::Display for Captured {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.ended {
            Ended::Packets => "these are as many packets as were wanted",
            Ended::Bytes => "one more would be more bytes than were wanted",
            Ended::Time => "the time is over",
            Ended::Stopped => "it was stopped",
            Ended::ReaderGone => "no one reads them any more",
        };
        write!(out, "captured {} packets ({} bytes)", self.packets, self.bytes)?;
        if let Some(passed) = self.passed.filter(|passed| *passed > self.packets.into()) {
            write!(out, " of at least {passed}")?;
        }
        write!(out, ": {why}")
    }
}

/// Why there is no capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The database of Open vSwitch does not answer.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// It refused a change.
    #[error("Open vSwitch's database refused to mirror: {0}")]
    Refused(String),
    /// There is no such bridge or port.
    #[error("there is no bridge and no port {0} on this node; the OVSNode lists the bridges, ovs-vsctl show the ports")]
    Unknown(String),
    /// Someone else is capturing.
    #[error("another capture is running on this node, and there may be one at a time; wait until it ends")]
    Busy,
    /// The switch did not set up the mirror.
    #[error("ovs-vswitchd did not set up the mirror: {0}; look at its log")]
    NotSetUp(String),
    /// Packets are not handed over.
    #[error("the bridge of the capture does not hand over packets: {0}")]
    Bridge(#[source] OpenFlowError),
    /// The datapath cannot bound the rate.
    #[error(
        "the datapath of this bridge has no meters, which bound the rate of a capture; Linux has them from 4.18 on"
    )]
    NoMeters,
    /// The file cannot be written.
    #[error("cannot write the capture: {0}")]
    Write(#[source] std::io::Error),
}

/// Captures into `file` until a bound is reached or `stop` comes, and leaves nothing behind.
pub async fn capture(
    options: &CaptureOptions,
    file: &mut (impl AsyncWrite + Unpin),
    stop: impl Future<Output = ()>,
) -> Result<Captured, CaptureError> {
    tokio::pin!(stop);
    // The lock goes with the connection: whoever gets it next may remove what is there.
    let database = Database::lock(&options.run.join("db.sock"), A_MOMENT).await?;
    let session = tokio::select! {
        session = set_up(&database, options) => session.map(Some),
        () = &mut stop => Ok(None),
    };
    let captured = match session {
        Ok(Some(session)) => hand_over(session, options, file, stop).await,
        Ok(None) => Ok(Tally::default().ended(Ended::Stopped, None)),
        Err(error) => Err(error),
    };
    let removed = database.remove_left().await;
    captured.and_then(|captured| removed.map(|_| captured))
}

/// Removes what a capture left that was killed, and says whether there was any. One that is running is left alone.
pub(crate) async fn sweep(run: &Path) -> Result<bool, CaptureError> {
    match Database::lock(&run.join("db.sock"), Duration::ZERO).await {
        Ok(database) => database.remove_left().await,
        Err(CaptureError::Busy) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn set_up(database: &Database, options: &CaptureOptions) -> Result<Session, CaptureError> {
    database.remove_left().await?;
    let target = database.find(&options.target).await?;
    database.mirror(&target).await?;
    let socket = options.run.join(format!("{BRIDGE}.mgmt"));
    let mut session = Session::open(&socket, OLDEST..=OLDEST).await.map_err(CaptureError::Bridge)?;
    packets::subscribe(&mut session, options.time + SET_UP).await?;
    Ok(session)
}

async fn hand_over(
    mut session: Session,
    options: &CaptureOptions,
    file: &mut (impl AsyncWrite + Unpin),
    stop: impl Future<Output = ()>,
) -> Result<Captured, CaptureError> {
    let deadline = Instant::now() + options.time;
    let mut tally = Tally::default();
    // All of it is bounded by the time: a reader that takes nothing holds up no end.
    let ended = tokio::select! {
        ended = copy(&mut session, options, file, &mut tally) => ended?,
        () = sleep_until(deadline) => Ended::Time,
        () = stop => Ended::Stopped,
    };
    let passed = timeout(LAST_WORDS, packets::passed(&mut session)).await.ok().and_then(Result::ok);
    Ok(tally.ended(ended, passed))
}

/// What has been written.
#[derive(Default)]
struct Tally {
    packets: u32,
    bytes: u64,
}

impl Tally {
    fn ended(self, ended: Ended, passed: Option<u64>) -> Captured {
        Captured { packets: self.packets, bytes: self.bytes, passed, ended }
    }
}

/// Copies packets until there are enough.
async fn copy(
    session: &mut Session,
    options: &CaptureOptions,
    file: &mut (impl AsyncWrite + Unpin),
    tally: &mut Tally,
) -> Result<Ended, CaptureError> {
    if !write(file, &pcap::head(options.snap_length)).await? {
        return Ok(Ended::ReaderGone);
    }
    while tally.packets < options.packets {
        let message = session.next().await.map_err(CaptureError::Bridge)?;
        let Some(packet) = packets::packet(&message) else { continue };
        let record = pcap::record(Timestamp::now(), &packet, options.snap_length);
        let bytes = tally.bytes + (record.len() - pcap::RECORD_HEAD) as u64;
        if bytes > options.bytes {
            return Ok(Ended::Bytes);
        }
        if !write(file, &record).await? {
            return Ok(Ended::ReaderGone);
        }
        (tally.packets, tally.bytes) = (tally.packets + 1, bytes);
    }
    Ok(Ended::Packets)
}

/// Writes, and says whether anyone still reads.
async fn write(file: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Result<bool, CaptureError> {
    let written = async {
        file.write_all(bytes).await?;
        file.flush().await
    };
    match written.await {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CaptureError::Write(error)),
    }
}
