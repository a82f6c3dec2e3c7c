//! An operator that is killed after some writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kube::Client;
use tokio::sync::Notify;

/// A client whose process dies: after so many writes nothing of it reaches the API any more.
pub(crate) struct Mortal {
    pub(crate) client: Client,
    pub(crate) died: Arc<Notify>,
}

impl Mortal {
    pub(crate) fn new(inner: Client, namespace: &str, writes: usize) -> Self {
        let (left, died) = (Arc::new(AtomicUsize::new(writes)), Arc::new(Notify::new()));
        let last = died.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (inner, left, last) = (inner.clone(), left.clone(), last.clone());
            async move {
                let is_write = request.method() != http::Method::GET && !request.uri().path().contains("/events");
                let lives = |left: usize| left.checked_sub(1);
                let is_dead = is_write && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, lives).is_err();
                if is_dead {
                    last.notify_one();
                    std::future::pending::<()>().await;
                }
                inner.send(request).await
            }
        });
        Self { client: Client::new(service, namespace), died }
    }
}
