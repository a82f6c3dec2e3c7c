//! How long the other side of a connection may take: to begin, and to take what it is sent.
//!
//! The rest is bounded where it is read: hyper minds the headers of HTTP/1 and pings HTTP/2, the body has a time of its own.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream that breaks when its other side takes too long.
pub(crate) struct Patient<S> {
    stream: S,
    /// How many bytes are still to come, and until when.
    opening: Option<(usize, Pin<Box<Sleep>>)>,
    patience: Duration,
    /// Since when nothing could be written, as the time at which that is too long.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    /// Breaks when nothing that is written gets on its way for as long as `patience`.
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, opening: None, patience, stuck: None }
    }

    /// Breaks as well when the first `bytes` are not there after `patience`.
    pub(crate) fn opening(self, bytes: usize, patience: Duration) -> Self {
        Self { opening: Some((bytes, Box::pin(sleep(patience)))), ..self }
    }

    /// The outcome of an attempt to write, unless it was the last one that is waited for.
    fn mind<T>(&mut self, context: &mut Context<'_>, tried: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if tried.is_ready() {
            self.stuck = None;
            return tried;
        }
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(self.patience)));
        stuck.as_mut().poll(context).map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "nobody reads")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Some((missing, deadline)) = &mut self.opening else { return read };
        if read.is_pending() {
            let late = || Err(io::Error::new(io::ErrorKind::TimedOut, "nobody speaks"));
            return deadline.as_mut().poll(context).map(|()| late());
        }
        *missing = missing.saturating_sub(buffer.filled().len() - before);
        if *missing == 0 {
            self.opening = None;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.mind(context, tried)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let tried = Pin::new(&mut self.stream).poll_flush(context);
        self.mind(context, tried)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let tried = Pin::new(&mut self.stream).poll_shutdown(context);
        self.mind(context, tried)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.mind(context, tried)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
