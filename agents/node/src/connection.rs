//! A connection to libvirt over its unix socket: calls with their answers, and events beside them.
// A function of a type with a lifetime is not general enough where a closure is.
#![allow(clippy::redundant_closure, clippy::redundant_closure_for_method_calls)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::protocol::{
    self, Domain, EVENT, Event, HEAD, Head, LONGEST, NodeInfo, Procedure, REPLY, Refusal, Statistics,
};
use crate::xdr::{Reader, Writer, XdrError};

/// How long libvirt may take to accept a connection and to answer a call. Domain capabilities make libvirt start QEMU.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long an idle libvirt may take for an answer that it has at hand.
const PULSE: Duration = Duration::from_secs(2);

/// Why libvirt does not tell.
#[derive(Debug, thiserror::Error)]
pub enum LibvirtError {
    /// There is no one at the socket.
    #[error("cannot connect to {}: {source}", path.display())]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The connection ended.
    #[error("the connection to libvirt ended")]
    Lost,
    /// An answer did not come.
    #[error("libvirt has not answered {0:?} in time")]
    TimedOut(Procedure),
    /// libvirt refused a call.
    #[error("libvirt refused {procedure:?}: {}", refusal.message)]
    Refused {
        /// What was called.
        procedure: Procedure,
        /// Why.
        refusal: Refusal,
    },
    /// The socket wants a password or polkit.
    #[error("libvirt wants authentication on this socket; set auth_unix_rw = \"none\" in libvirtd.conf")]
    WantsAuthentication,
    /// An answer does not parse.
    #[error(transparent)]
    Malformed(#[from] XdrError),
}

impl LibvirtError {
    /// Whether the driver cannot say it, or not to us; the rest is worth publishing.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Refused { refusal, .. } if refusal.is_unsupported())
    }

    /// Whether the call was about a domain that has gone.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Refused { refusal, .. } if refusal.is_gone())
    }

    /// Whether the connection can still be used.
    pub fn is_about_one_call(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

type Answer = Result<Vec<u8>, Refusal>;
type Pending = Arc<Mutex<HashMap<u32, oneshot::Sender<Answer>>>>;

/// An open connection. Dropping it closes it.
#[derive(Debug)]
pub struct Connection {
    writer: tokio::sync::Mutex<OwnedWriteHalf>,
    pending: Pending,
    serial: AtomicU32,
    reader: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Connection {
    /// Opens a connection to a driver, such as `qemu:///system`, and subscribes to events. The receiver ends with the
    /// connection. It is not bounded: no one takes events while an answer is waited for that is behind them in the socket. What
    /// needs more than reading is refused by libvirt on its socket `libvirt-sock-ro`.
    pub async fn open(socket: &Path, uri: &str) -> Result<(Self, mpsc::UnboundedReceiver<Event>), LibvirtError> {
        let unreachable = |source| LibvirtError::Unreachable { path: socket.to_owned(), source };
        let stream = tokio::time::timeout(PATIENCE, UnixStream::connect(socket)).await;
        let stream = stream.map_err(|_| unreachable(std::io::ErrorKind::TimedOut.into()))?.map_err(unreachable)?;
        let (reading, writing) = stream.into_split();
        let (events, received) = mpsc::unbounded_channel();
        let pending = Pending::default();
        let reader = tokio::spawn(read(reading, pending.clone(), events));
        let serial = AtomicU32::new(1);
        let connection = Self { writer: tokio::sync::Mutex::new(writing), pending, serial, reader };

        let types = connection
            .ask(Procedure::AuthList, Writer::default(), |reader| reader.list(20, |reader| reader.i32()))
            .await?;
        if !types.is_empty() && !types.contains(&0) {
            return Err(LibvirtError::WantsAuthentication);
        }
        let is_read_only = socket.to_string_lossy().ends_with("-ro");
        connection
            .ask(Procedure::ConnectOpen, Writer::default().optional(Some(uri)).u32(is_read_only.into()), |_| Ok(()))
            .await?;
        for event in protocol::EVENTS {
            let registered = connection.ask(Procedure::RegisterEvent, Writer::default().i32(event).u32(0), |_| Ok(()));
            match registered.await {
                Err(error) if !error.is_about_one_call() => return Err(error),
                Err(error) => tracing::info!(%error, event, "this driver has no such event"),
                Ok(()) => {}
            }
        }
        Ok((connection, received))
    }

    async fn ask<T>(
        &self,
        procedure: Procedure,
        payload: Writer,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, XdrError>,
    ) -> Result<T, LibvirtError> {
        self.ask_within(PATIENCE, procedure, payload, read).await
    }

    async fn ask_within<T>(
        &self,
        patience: Duration,
        procedure: Procedure,
        payload: Writer,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, XdrError>,
    ) -> Result<T, LibvirtError> {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).insert(serial, sender);
        let message = protocol::call(procedure, serial, &payload.into_bytes());
        let exchange = async {
            self.writer.lock().await.write_all(&message).await.map_err(|_| LibvirtError::Lost)?;
            answer.await.map_err(|_| LibvirtError::Lost)
        };
        let answered = tokio::time::timeout(patience, exchange).await;
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&serial);
        let answer = answered.map_err(|_| LibvirtError::TimedOut(procedure))??;
        let payload = answer.map_err(|refusal| LibvirtError::Refused { procedure, refusal })?;
        Ok(read(&mut Reader::new(&payload))?)
    }

    /// Returns an error if libvirt does not answer at once.
    pub async fn pulse(&self) -> Result<(), LibvirtError> {
        self.ask_within(PULSE, Procedure::ConnectGetLibVersion, Writer::default(), |reader| reader.u64())
            .await
            .map(drop)
    }

    /// The version of libvirt.
    pub async fn libvirt_version(&self) -> Result<String, LibvirtError> {
        self.ask(Procedure::ConnectGetLibVersion, Writer::default(), |reader| reader.u64()).await.map(protocol::version)
    }

    /// The version of the hypervisor, such as QEMU.
    pub async fn hypervisor_version(&self) -> Result<String, LibvirtError> {
        self.ask(Procedure::ConnectGetVersion, Writer::default(), |reader| reader.u64()).await.map(protocol::version)
    }

    /// Memory and CPUs of the host.
    pub async fn node_info(&self) -> Result<NodeInfo, LibvirtError> {
        self.ask(Procedure::NodeGetInfo, Writer::default(), |reader| NodeInfo::read(reader)).await
    }

    /// What the host has, as XML.
    pub async fn capabilities(&self) -> Result<String, LibvirtError> {
        self.ask(Procedure::ConnectGetCapabilities, Writer::default(), |reader| reader.string()).await
    }

    /// What domains of a type (`kvm` or `qemu`, the driver's choice when absent) can have, as XML.
    pub async fn domain_capabilities(&self, virt_type: Option<&str>) -> Result<String, LibvirtError> {
        let payload = Writer::default().optional(None).optional(None).optional(None).optional(virt_type).u32(0);
        self.ask(Procedure::ConnectGetDomainCapabilities, payload, |reader| reader.string()).await
    }

    /// All domains, running or not.
    pub async fn domains(&self) -> Result<Vec<Domain>, LibvirtError> {
        self.ask(Procedure::ConnectListAllDomains, Writer::default().i32(1).u32(0), |reader| protocol::domains(reader))
            .await
    }

    /// The definition of a domain, without secrets.
    pub async fn domain_xml(&self, domain: &Domain) -> Result<String, LibvirtError> {
        self.ask(Procedure::DomainGetXmlDesc, domain.write(Writer::default()).u32(0), |reader| reader.string()).await
    }

    /// The state of a domain and the reason for it, by the numbers of `virDomainState`.
    pub async fn state(&self, domain: &Domain) -> Result<(i32, i32), LibvirtError> {
        let payload = domain.write(Writer::default()).u32(0);
        self.ask(Procedure::DomainGetState, payload, |reader| Ok((reader.i32()?, reader.i32()?))).await
    }

    /// The job of a domain: its type, 0 if there is none, and its statistics.
    pub async fn job(&self, domain: &Domain) -> Result<(i32, Statistics), LibvirtError> {
        let payload = domain.write(Writer::default()).u32(0);
        self.ask(Procedure::DomainGetJobStats, payload, |reader| Ok((reader.i32()?, Statistics::read(reader)?))).await
    }
}

/// Takes messages until the connection ends. Whoever waits for an answer then learns that by its sender being dropped.
async fn read(mut socket: OwnedReadHalf, pending: Pending, events: mpsc::UnboundedSender<Event>) {
    while let Some(message) = next(&mut socket).await {
        if let Err(error) = dispatch(&message, &pending, &events) {
            tracing::warn!(%error, "a message from libvirt does not parse; it is ignored");
        }
    }
    pending.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

async fn next(socket: &mut OwnedReadHalf) -> Option<Vec<u8>> {
    let length = socket.read_u32().await.ok()? as usize;
    if !(HEAD..=LONGEST).contains(&length) {
        tracing::warn!(length, "a message from libvirt has an impossible length; the connection is closed");
        return None;
    }
    let mut message = vec![0; length - 4];
    socket.read_exact(&mut message).await.ok()?;
    Some(message)
}

fn dispatch(message: &[u8], pending: &Pending, events: &mpsc::UnboundedSender<Event>) -> Result<(), XdrError> {
    let mut reader = Reader::new(message);
    let head = Head::read(&mut reader)?;
    if !head.is_ours() {
        return Ok(());
    }
    match head.kind {
        REPLY => {
            let answer =
                if head.status == 0 { Ok(message[HEAD - 4..].to_vec()) } else { Err(Refusal::read(&mut reader)?) };
            let waiting = pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&head.serial);
            // One that has given up is no longer there.
            if let Some(waiting) = waiting {
                let _ = waiting.send(answer);
            }
        }
        EVENT => {
            if let Some(event) = Event::read(head.procedure, &mut reader)? {
                // The receiver is dropped together with the connection.
                let _ = events.send(event);
            }
        }
        _ => {}
    }
    Ok(())
}
