//! How other commands talk to the process that runs a cluster: one line of JSON asks, one line answers.

use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// The longest line that is read.
const LONGEST: u64 = 4096;

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ask {
    /// Take the power from a node: its agent and all its containers are killed.
    Stop(String),
    /// Start a node that was stopped, connect one that was cut.
    Start(String),
    /// Take a node off the network; what runs on it goes on.
    Cut(String),
}

/// Serves the socket until it is dropped. It is for the owner only.
pub(crate) async fn serve<Answer>(socket: &Path, answer: impl Fn(Ask) -> Answer) -> std::io::Result<()>
where
    Answer: Future<Output = Result<String, String>>,
{
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket)?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
    loop {
        let (stream, _) = listener.accept().await?;
        if let Err(error) = converse(stream, &answer).await {
            tracing::warn!(%error, "a command went away before it was answered");
        }
    }
}

async fn converse<Answer>(mut stream: UnixStream, answer: &impl Fn(Ask) -> Answer) -> std::io::Result<()>
where
    Answer: Future<Output = Result<String, String>>,
{
    let line = read_line(&mut stream).await?;
    let answered = match serde_json::from_str(&line) {
        Ok(ask) => answer(ask).await,
        Err(error) => Err(format!("this c5c3 does not understand the command: {error}")),
    };
    let text = serde_json::to_string(&answered).unwrap_or_default();
    stream.write_all(format!("{text}\n").as_bytes()).await
}

async fn read_line(stream: &mut UnixStream) -> std::io::Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(LONGEST)).read_line(&mut line).await?;
    Ok(line)
}

/// Asks the process that runs the cluster, and waits for what it says.
pub(crate) async fn ask(socket: &Path, ask: &Ask) -> Result<String, String> {
    let mut stream = UnixStream::connect(socket)
        .await
        .map_err(|error| format!("no cluster answers at {}: {error}; start it with `c5c3 up`", socket.display()))?;
    let text = serde_json::to_string(ask).unwrap_or_default();
    let talked = async {
        stream.write_all(format!("{text}\n").as_bytes()).await?;
        read_line(&mut stream).await
    };
    let line = talked.await.map_err(|error| format!("the cluster went away: {error}"))?;
    serde_json::from_str(&line)
        .map_err(|error| format!("the cluster went away in the middle of its answer: {error}"))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_command_gets_the_answer_to_its_question() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("control.sock");
        let served = serve(&socket, |asked| async move {
            match asked {
                Ask::Stop(name) => Ok(format!("{name} is off")),
                other => Err(format!("not now: {other:?}")),
            }
        });
        let asked = async {
            while !socket.exists() {
                tokio::task::yield_now().await;
            }
            assert_eq!(ask(&socket, &Ask::Stop("pear".into())).await.unwrap(), "pear is off");
            assert_eq!(ask(&socket, &Ask::Cut("plum".into())).await.unwrap_err(), r#"not now: Cut("plum")"#);
        };
        tokio::select! {
            ended = served => panic!("{ended:?}"),
            () = asked => {}
        }
    }

    #[tokio::test]
    async fn without_a_cluster_the_command_says_how_to_start_one() {
        let folder = tempfile::tempdir().unwrap();
        let error = ask(&folder.path().join("none.sock"), &Ask::Start("pear".into())).await.unwrap_err();
        assert!(error.ends_with("start it with `c5c3 up`"), "{error}");
    }
}
