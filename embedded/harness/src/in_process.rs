//! The embedded server in the process of a test: how it starts, answers, and starts again.

use std::sync::{Arc, PoisonError, RwLock};

use axum::body::Body;
use c5c3_apiserver::{Config, Server, StartError, Storage};
use c5c3_auth::UserInfo;
use http::{Request, Response};
use tempfile::TempDir;

use crate::upstream::Failure;

/// A server that can be restarted behind its clients' backs.
pub(crate) struct InProcess {
    /// None while it restarts.
    running: RwLock<Option<Arc<Server>>>,
    /// One restart at a time.
    turn: tokio::sync::Mutex<()>,
    /// What it is stored in, unless in memory.
    _folder: Option<TempDir>,
}

impl InProcess {
    pub(crate) async fn start(folder: Option<TempDir>) -> Result<Arc<Self>, StartError> {
        let storage = folder.as_ref().map_or(Storage::Memory, |folder| Storage::Folder(folder.path().to_owned()));
        // The servers of tests listen on the loopback address.
        let config = Config { reaches_loopback: true, ..Config::new(storage) };
        let server = Server::start(config).await?;
        let running = RwLock::new(Some(server));
        Ok(Arc::new(Self { running, turn: tokio::sync::Mutex::default(), _folder: folder }))
    }

    pub(crate) async fn send(
        &self,
        request: Request<kube::client::Body>,
        user: UserInfo,
    ) -> Result<Response<Body>, Failure> {
        let server = self.running().ok_or("connection refused: the server is restarting")?;
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        Ok(server.handle(parts, body, user).await)
    }

    /// Stops the server and starts it again on the same storage.
    pub(crate) async fn restart(&self) -> Result<(), StartError> {
        let _turn = self.turn.lock().await;
        let stopping = self.put(None);
        if let Some(server) = stopping {
            self.put(Some(server.restart().await?));
        }
        Ok(())
    }

    fn running(&self) -> Option<Arc<Server>> {
        self.running.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn put(&self, server: Option<Arc<Server>>) -> Option<Arc<Server>> {
        std::mem::replace(&mut *self.running.write().unwrap_or_else(PoisonError::into_inner), server)
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        // Its controllers would otherwise go on as long as the test's runtime.
        if let (Some(server), Ok(runtime)) = (self.put(None), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { server.stop().await });
        }
    }
}
