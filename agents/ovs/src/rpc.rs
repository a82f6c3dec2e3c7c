//! JSON-RPC 1.0 over a unix socket, as OVSDB speaks it and the control sockets of Open vSwitch and OVN do.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// How long a daemon of this node may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest message. A database of some thousand ports has a few megabytes.
const LONGEST: usize = 64 << 20;

/// Why a daemon does not tell.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// There is no one at the socket.
    #[error("cannot connect to {}: {source}", path.display())]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The connection ended.
    #[error("the connection ended")]
    Lost,
    /// An answer did not come.
    #[error("there was no answer to {0} in time")]
    TimedOut(String),
    /// The call was refused.
    #[error("{method} was refused: {why}")]
    Refused {
        /// What was called.
        method: String,
        /// Why.
        why: String,
    },
}

type Pending = Arc<Mutex<HashMap<u64, oneshot::Sender<Value>>>>;

/// An open connection. Dropping it closes it.
#[derive(Debug)]
pub struct Rpc {
    writer: Arc<tokio::sync::Mutex<OwnedWriteHalf>>,
    pending: Pending,
    next: AtomicU64,
    reader: JoinHandle<()>,
}

impl Drop for Rpc {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Rpc {
    /// Connects. The receiver gets notifications, and ends with the connection.
    pub async fn connect(path: &Path) -> Result<(Self, mpsc::Receiver<Value>), RpcError> {
        let unreachable = |source| RpcError::Unreachable { path: path.to_owned(), source };
        let connected = tokio::time::timeout(PATIENCE, UnixStream::connect(path)).await;
        let stream = connected.map_err(|_| unreachable(std::io::ErrorKind::TimedOut.into()))?.map_err(unreachable)?;
        let (reading, writing) = stream.into_split();
        let (sender, notifications) = mpsc::channel(LEFT);
        let (writer, pending) = (Arc::new(tokio::sync::Mutex::new(writing)), Pending::default());
        let reader = tokio::spawn(read(reading, pending.clone(), writer.clone(), sender));
        Ok((Self { writer, pending, next: AtomicU64::new(1), reader }, notifications))
    }

    /// The same as [`Rpc::call`] on a connection with notifications, which `take` gets. An answer may be behind more of them than
    /// are read while no one takes any.
    pub async fn call_among(
        &self,
        notifications: &mut mpsc::Receiver<Value>,
        mut take: impl FnMut(Value),
        (method, parameters): (&str, Value),
    ) -> Result<Value, RpcError> {
        let call = self.call(method, parameters);
        tokio::pin!(call);
        loop {
            tokio::select! {
                answer = &mut call => return answer,
                Some(notification) = notifications.recv() => take(notification),
            }
        }
    }

    /// Calls a method and returns its result.
    pub async fn call(&self, method: &str, parameters: Value) -> Result<Value, RpcError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
        let message = json!({"method": method, "params": parameters, "id": id}).to_string();
        let exchange = async {
            self.writer.lock().await.write_all(message.as_bytes()).await.map_err(|_| RpcError::Lost)?;
            answer.await.map_err(|_| RpcError::Lost)
        };
        let answered = tokio::time::timeout(PATIENCE, exchange).await;
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        let mut answer = answered.map_err(|_| RpcError::TimedOut(method.to_owned()))??;
        match &answer["error"] {
            Value::Null => Ok(answer["result"].take()),
            error => {
                let why = error.as_str().map_or_else(|| error.to_string(), |text| text.trim().to_owned());
                Err(RpcError::Refused { method: method.to_owned(), why })
            }
        }
    }
}

/// How many notifications may be left before no more is read: the daemon waits with what it has to tell then.
const LEFT: usize = 64;

/// Runs one command of a control socket, as `ovs-appctl` does, and returns what it says.
pub async fn command(socket: &Path, command: &str, arguments: &[&str]) -> Result<String, RpcError> {
    let (rpc, _notifications) = Rpc::connect(socket).await?;
    let said = rpc.call(command, json!(arguments)).await?;
    Ok(said.as_str().unwrap_or_default().trim().to_owned())
}

async fn read(
    mut socket: OwnedReadHalf,
    pending: Pending,
    writer: Arc<tokio::sync::Mutex<OwnedWriteHalf>>,
    notifications: mpsc::Sender<Value>,
) {
    let (mut frames, mut chunk) = (Frames::default(), vec![0; 16 << 10]);
    while let Ok(length @ 1..) = socket.read(&mut chunk).await {
        frames.buffer.extend_from_slice(&chunk[..length]);
        while let Some(message) = frames.next() {
            let Ok(message) = serde_json::from_slice::<Value>(&message) else { break };
            dispatch(message, &pending, &writer, &notifications).await;
        }
        if frames.buffer.len() > LONGEST {
            tracing::warn!("a message is too long; the connection is closed");
            break;
        }
    }
    pending.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

async fn dispatch(
    message: Value,
    pending: &Pending,
    writer: &tokio::sync::Mutex<OwnedWriteHalf>,
    notifications: &mpsc::Sender<Value>,
) {
    if message["method"] == "echo" {
        let answer = json!({"id": message["id"], "result": message["params"], "error": null}).to_string();
        // If the connection is gone, the next read says so.
        let _ = writer.lock().await.write_all(answer.as_bytes()).await;
    } else if message.get("method").is_some() {
        // The receiver is dropped together with the connection.
        let _ = notifications.send(message).await;
    } else if let Some(id) = message["id"].as_u64() {
        let waiting = pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if let Some(waiting) = waiting {
            // One that has given up is no longer there.
            let _ = waiting.send(message);
        }
    }
}

/// Objects in a stream that has nothing between them. Each byte is looked at once.
#[derive(Debug, Default)]
struct Frames {
    buffer: Vec<u8>,
    seen: usize,
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl Frames {
    fn next(&mut self) -> Option<Vec<u8>> {
        while self.seen < self.buffer.len() {
            let byte = self.buffer[self.seen];
            self.seen += 1;
            if self.in_string {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' => self.depth += 1,
                b'}' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        let rest = self.buffer.split_off(self.seen);
                        self.seen = 0;
                        return Some(std::mem::replace(&mut self.buffer, rest));
                    }
                }
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn an_answer_behind_many_notifications_is_read_and_they_are_taken_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("db.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let count = LEFT * 8;
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let length = stream.read(&mut [0; 1024]).await.unwrap();
            assert!(length > 0, "it is asked");
            let updates = (0..count).map(|number| json!({"method": "update", "params": [null, number], "id": null}));
            let answer = json!({"id": 1, "result": "seen", "error": null});
            let told: String = updates.chain([answer]).map(|message| message.to_string()).collect();
            stream.write_all(told.as_bytes()).await.unwrap();
            std::future::pending::<()>().await;
        });
        let (rpc, mut updates) = Rpc::connect(&socket).await.unwrap();
        let mut taken = Vec::new();
        let take = |update: Value| taken.push(update["params"][1].as_u64().unwrap());
        let answer = rpc.call_among(&mut updates, take, ("transact", json!([]))).await.unwrap();
        while let Ok(update) = updates.try_recv() {
            taken.push(update["params"][1].as_u64().unwrap());
        }
        assert_eq!((answer, taken), (json!("seen"), (0..count as u64).collect()));
    }

    #[test]
    fn objects_are_found_wherever_the_stream_is_cut() {
        let text = br#"{"a":"}\"{"} {"b":{"c":1}}"#;
        for cut in 0..text.len() {
            let mut frames = Frames::default();
            let mut found = Vec::new();
            for part in [&text[..cut], &text[cut..]] {
                frames.buffer.extend_from_slice(part);
                while let Some(one) = frames.next() {
                    found.push(serde_json::from_slice::<Value>(&one).unwrap());
                }
            }
            assert_eq!(found, [json!({"a": "}\"{"}), json!({"b": {"c": 1}})], "cut at {cut}");
        }
    }
}
