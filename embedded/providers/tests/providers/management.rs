//! A broker's management interface that only writes down what it is asked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use tokio::net::TcpListener;

use crate::stage::PATIENCE;

/// The credentials that it lets in, as a request carries them: `bugs:bunny`.
const CREDENTIALS: &str = "Basic YnVnczpidW5ueQ==";

/// A management interface.
pub struct Management {
    pub url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Management {
    /// Starts one. `bugs` may log in with `bunny`.
    pub async fn start() -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let writing = asked.clone();
        let router = Router::new().fallback(move |request: Request| answer(writing.clone(), request));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, asked }
    }

    /// What it was asked, without what only lifts limits.
    pub fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock().expect("no test panics with the lock").clone();
        asked.into_iter().filter(|asked| !asked.contains("-limits/")).collect()
    }

    /// Waits until it was asked this.
    pub async fn was_asked(&self, what: &str) {
        let heard = async {
            while !self.asked().iter().any(|asked| asked == what) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let heard = tokio::time::timeout(PATIENCE, heard).await;
        assert!(heard.is_ok(), "never asked {what}, but {:#?}", self.asked());
    }
}

async fn answer(asked: Arc<Mutex<Vec<String>>>, request: Request) -> (StatusCode, String) {
    if request.headers().get(header::AUTHORIZATION).is_none_or(|given| given != CREDENTIALS) {
        return (StatusCode::UNAUTHORIZED, r#"{"error":"not_authorized"}"#.to_owned());
    }
    let line = format!("{} {}", request.method(), request.uri());
    let body = to_bytes(request.into_body(), 1 << 20).await.unwrap_or_else(|_| Bytes::new());
    let line = format!("{line} {}", String::from_utf8_lossy(&body)).trim_end().to_owned();
    asked.lock().expect("no test panics with the lock").push(line);
    (StatusCode::NO_CONTENT, String::new())
}
