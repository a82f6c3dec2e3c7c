//! Requests as plain as they can be: one connection each, and every way to fail told apart.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long an answer may take. A busy machine is slow, and that is no failure.
const PATIENCE: Duration = Duration::from_mins(2);

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: String,
}

impl Answer {
    /// A header, by its name in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }
}

/// Sends a request and reads all of its answer.
pub fn ask(to: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Result<Answer, String> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| format!("{what}: {error}")
    };
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE).map_err(failed("connect"))?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed("set up"))?;
    let more: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let more = more.concat();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n{more}\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).map_err(failed("write"))?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(failed("read"))?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| format!("cut off after {} bytes", answer.len()))?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| format!("not an answer: {head}"))?;
    Ok(Answer { status, head: head.to_owned(), body: body.to_owned() })
}
