//! The one thread that writes: it gathers what waits into a batch, makes it durable, publishes it and answers.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use tokio::sync::oneshot;

use crate::WriteError;
use crate::batch::{Batch, Order, Outcome};
use crate::disk::Disk;
use crate::shared::Shared;

/// A batch takes no more orders beyond this: it bounds the memory and the time of one frame.
const BATCH_BYTES: usize = 4 << 20;

type Reply = oneshot::Sender<Result<Outcome, WriteError>>;

enum Message {
    Write(Order, Reply),
    Close(oneshot::Sender<()>),
}

/// The handle on the thread.
#[derive(Debug)]
pub(crate) struct Writer {
    inbox: Sender<Message>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub fn start(shared: Arc<Shared>, disk: Disk) -> io::Result<Self> {
        let (inbox, messages) = channel();
        let work = WriteLoop { shared, disk, messages };
        let thread = thread::Builder::new().name("store-writer".to_owned()).spawn(move || work.run())?;
        Ok(Self { inbox, thread: Mutex::new(Some(thread)) })
    }

    pub async fn commit(&self, order: Order) -> Result<Outcome, WriteError> {
        let (reply, answer) = oneshot::channel();
        self.inbox.send(Message::Write(order, reply)).map_err(|_| WriteError::Closed)?;
        answer.await.unwrap_or(Err(WriteError::Closed))
    }

    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.inbox.send(Message::Close(done)).is_ok() {
            // An error means that the thread is gone, which is what was asked for.
            let _ = closed.await;
        }
    }

    /// Closes and waits for the thread to end.
    pub fn stop(&self) {
        let (done, _) = oneshot::channel();
        let _ = self.inbox.send(Message::Close(done));
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The last clone of the store may have been in a `make`: the thread cannot wait for itself.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }
}

/// What the thread owns.
struct WriteLoop {
    shared: Arc<Shared>,
    disk: Disk,
    messages: Receiver<Message>,
}

impl WriteLoop {
    fn run(mut self) {
        let mut closing = None;
        while let Some(first) = self.next() {
            closing = self.commit(first);
            if closing.is_some() {
                break;
            }
            self.disk.tidy(&self.shared.state());
        }
        self.shared.close();
        // The directory is free again before anybody hears that the store is closed.
        drop(self.disk);
        if let Some(done) = closing {
            let _ = done.send(());
        }
    }

    /// The next message. While the log has failed, it is repaired between messages, also when there are none.
    fn next(&mut self) -> Option<Message> {
        loop {
            let Some(due) = self.disk.repair_due() else { return self.messages.recv().ok() };
            match self.messages.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(message) if Instant::now() < due => return Some(message),
                Err(RecvTimeoutError::Disconnected) => return None,
                other => {
                    self.disk.repair();
                    self.shared.set_failure(self.disk.failure());
                    if let Ok(message) = other {
                        return Some(message);
                    }
                }
            }
        }
    }

    /// One batch: the first message and all that came while the batch before was written. There is no waiting for more;
    /// those who were answered together come back together, and a pause for them did not pay on any disk. Returns whom to tell that
    /// the store is closed, if one asked for that.
    fn commit(&mut self, first: Message) -> Option<oneshot::Sender<()>> {
        let mut batch = Batch::on(self.shared.state());
        let mut answers = Vec::new();
        let mut closing = None;
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Write(order, reply) => answers.push((reply, batch.apply(order))),
                Message::Close(done) => {
                    closing = Some(done);
                    break;
                }
            }
            next = if batch.size < BATCH_BYTES { self.messages.try_recv().ok() } else { None };
        }
        // Also a conflict is answered only now: what it conflicts with may be in this batch.
        let appended = self.disk.append(&batch.changes);
        if !batch.changes.is_empty() {
            self.shared.set_failure(self.disk.failure());
        }
        match appended {
            Ok(()) => {
                self.shared.publish(batch);
                for (reply, outcome) in answers {
                    // A client that has stopped listening needs no answer.
                    let _ = reply.send(Ok(outcome));
                }
            }
            Err(error) => {
                for (reply, _) in answers {
                    let _ = reply.send(Err(WriteError::Io(Arc::clone(&error))));
                }
            }
        }
        closing
    }
}
