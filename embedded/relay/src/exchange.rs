//! One request over a connection of its own, and its answer.

use std::pin::pin;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// Sends a request over a connection, and lets `read` take what it wants of the answer. The connection ends with the future:
/// no task is left behind by a caller who gives up, and a body that is not read is not waited for.
pub async fn exchange<T, E, F>(
    connection: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
    read: impl FnOnce(Response<Incoming>) -> F,
) -> Result<T, E>
where
    E: From<hyper::Error>,
    F: Future<Output = Result<T, E>>,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(connection)).await?;
    let answered = async { read(sender.send_request(request).await?).await };
    let (connection, mut answered) = (pin!(connection), pin!(answered));
    tokio::select! {
        answer = &mut answered => answer,
        ended = connection => match ended {
            // The server closed it behind its answer.
            Ok(()) => answered.await,
            // Why it broke says more than that no answer came.
            Err(error) => answered.await.map_err(|_| error.into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    fn request() -> Request<Full<Bytes>> {
        Request::get("/fig").header(http::header::HOST, "orchard").body(Full::default()).unwrap()
    }

    /// A server that reads a request and says this. It returns the connection, so that the caller chooses when it ends.
    async fn say(mut server: DuplexStream, answer: &str) -> DuplexStream {
        let mut asked = vec![0; 1024];
        let read = server.read(&mut asked).await.unwrap();
        assert!(asked[..read].starts_with(b"GET /fig HTTP/1.1\r\n"), "{asked:?}");
        server.write_all(answer.as_bytes()).await.unwrap();
        server
    }

    async fn text(answer: Response<Incoming>) -> Result<String, hyper::Error> {
        let body = answer.into_body().collect().await?.to_bytes();
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    #[tokio::test]
    async fn an_answer_is_read_whole_though_the_server_closes_behind_it() {
        for length in ["Content-Length: 4\r\n", "Connection: close\r\n"] {
            let (ours, theirs) = tokio::io::duplex(64);
            let answer = format!("HTTP/1.1 200 OK\r\n{length}\r\nripe");
            let (answer, ()) = tokio::join!(exchange(ours, request(), text), async {
                drop(say(theirs, &answer).await);
            });
            assert_eq!(answer.unwrap(), "ripe");
        }
    }

    #[tokio::test]
    async fn who_reads_the_head_alone_does_not_wait_for_a_body() {
        let (ours, theirs) = tokio::io::duplex(64);
        let head = async |answer: Response<Incoming>| Ok::<_, hyper::Error>(answer.status());
        let answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\n";
        let (status, server) = tokio::join!(exchange(ours, request(), head), say(theirs, answer));
        assert_eq!(status.unwrap(), 404);
        drop(server);
    }

    #[tokio::test]
    async fn a_connection_that_breaks_says_why() {
        let (ours, theirs) = tokio::io::duplex(64);
        let (answer, _) = tokio::join!(exchange(ours, request(), text), say(theirs, "no HTTP\r\n\r\n"));
        let why = answer.unwrap_err();
        assert!(why.is_parse(), "{why}");
        let (ours, theirs) = tokio::io::duplex(64);
        let cut = async { drop(say(theirs, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nri").await) };
        let (answer, ()) = tokio::join!(exchange(ours, request(), text), cut);
        assert!(answer.is_err(), "{answer:?}");
    }
}
