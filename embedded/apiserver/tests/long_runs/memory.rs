//! The memory of a server that has been written to for a long time.

use std::time::Duration;

use c5c3_apiserver::{Config, Server, Storage};
use http::Method;
use serde_json::json;

use super::{EVENTS, get, send, until};

/// How much the server's history of changes holds at most, in bytes.
const HISTORY: usize = 64 << 20;
/// How large the object is that is written again and again.
const LARGE: usize = 900 << 10;
/// How many rounds fill the history, and how many follow.
const ROUNDS: (usize, usize) = (4, 6);
/// How much memory may grow by while as much is written as would fill the history one and a half times.
const GROWTH: usize = 24 << 20;

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

#[tokio::test]
async fn memory_is_flat_once_the_history_is_full_however_much_is_written() {
    let config = Config { event_ttl: Duration::from_secs(1), ..Config::new(Storage::Memory) };
    let server = Server::start(config).await.unwrap();
    let maps = "/api/v1/namespaces/default/configmaps";
    let large = |text: char| json!({"metadata": {"name": "large"}, "data": {"text": text.to_string().repeat(LARGE)}});
    assert_eq!(send(&server, Method::POST, maps, &large('-')).await.code, 201);
    let path = format!("{maps}/large");
    // Each write takes a part of the history of its own.
    let writes = HISTORY / LARGE / ROUNDS.0 + 2;
    let mut full = 0;
    for round in 0..ROUNDS.0 + ROUNDS.1 {
        for (number, text) in ('a'..='z').cycle().take(writes).enumerate() {
            assert_eq!(send(&server, Method::PUT, &path, &large(text)).await.code, 200);
            let about = json!({"kind": "Pod", "name": format!("p{number}"), "namespace": "default"});
            let event = json!({
                "metadata": {"name": format!("e{round}-{number}")}, "involvedObject": about, "reason": "Soaked",
                "message": "x".repeat(1000), "type": "Normal",
            });
            assert_eq!(send(&server, Method::POST, EVENTS, &event).await.code, 201);
        }
        if round + 1 == ROUNDS.0 {
            full = resident();
        }
    }
    until(&server, EVENTS, |answer| answer.json()["items"] == json!([])).await;
    let (after, written) = (resident(), writes * LARGE * ROUNDS.1);
    println!("resident: {} MiB with a full history, {} MiB after {} MiB more", full >> 20, after >> 20, written >> 20);
    assert!(written > HISTORY && after < full + GROWTH, "{full} bytes before, {after} after");
    assert_eq!(get(&server, "/readyz").await.code, 200);
    server.stop().await;
}
