//! Requests as plain as they can be: one connection each, and every way to fail told apart.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// How long an answer may take. A busy machine is slow, and that is no failure.
const PATIENCE: Duration = Duration::from_mins(2);

/// Who is asked, and how.
#[derive(Clone)]
pub struct Server {
    address: SocketAddr,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl Server {
    /// One that is talked to in the clear.
    pub fn plain(address: SocketAddr) -> Self {
        Self { address, tls: None }
    }

    /// One that has to prove that it is `name`, to who trusts the authorities of a text.
    pub fn with_tls(address: SocketAddr, name: &'static str, authorities: &str) -> Self {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
            roots.add(authority.unwrap()).unwrap();
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        Self { address, tls: Some((Arc::new(config), ServerName::try_from(name).unwrap())) }
    }

    fn connect(&self) -> std::io::Result<Box<dyn ReadWrite>> {
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let Some((config, name)) = &self.tls else { return Ok(Box::new(stream)) };
        let client = ClientConnection::new(config.clone(), name.clone()).map_err(std::io::Error::other)?;
        Ok(Box::new(StreamOwned::new(client, stream)))
    }
}

trait ReadWrite: Read + Write {}
impl<S: Read + Write> ReadWrite for S {}

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
pub fn ask(to: &Server, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Result<Answer, String> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| format!("{what}: {error}")
    };
    let mut stream = to.connect().map_err(failed("connect"))?;
    let more: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let more = more.concat();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n{more}\r\n{body}",
        to.address,
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
