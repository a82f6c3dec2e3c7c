//! How a registry is reached, and as whom.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use oci_client::secrets::RegistryAuth;
use serde_json::Value;

use crate::Error;

/// How a registry is reached, and as whom.
#[derive(Debug, Default)]
pub struct Access {
    /// Without TLS, which only a registry at a loopback address may be.
    pub plain_http: bool,
    /// A certificate authority beside those that the machine trusts, in PEM.
    pub authority: Option<Vec<u8>>,
    /// As whom.
    pub credentials: Credentials,
}

/// Who asks a registry.
#[derive(Default)]
pub enum Credentials {
    /// No one in particular.
    #[default]
    Anonymous,
    /// A user with a password or a token.
    User {
        /// The name.
        name: String,
        /// The password.
        password: String,
    },
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => formatter.write_str("Anonymous"),
            Self::User { name, .. } => formatter.debug_struct("User").field("name", name).finish_non_exhaustive(),
        }
    }
}

impl From<Credentials> for RegistryAuth {
    fn from(credentials: Credentials) -> Self {
        match credentials {
            Credentials::Anonymous => Self::Anonymous,
            Credentials::User { name, password } => Self::Basic(name, password),
        }
    }
}

impl Credentials {
    /// What `docker login`, `podman login` or `skopeo login` has written into a file for a registry; no one in particular
    /// if it says nothing of it.
    pub fn of_file(path: &Path, registry: &str) -> Result<Self, Error> {
        let text = std::fs::read(path).map_err(Error::file("read", path))?;
        let file: Value =
            serde_json::from_slice(&text).map_err(|error| Error::malformed(path.display().to_string(), &error))?;
        let Some(encoded) = file["auths"][registry]["auth"].as_str() else {
            return Ok(Self::Anonymous);
        };
        let decoded = BASE64_STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let (name, password) = decoded.as_deref().and_then(|pair| pair.split_once(':')).ok_or_else(|| {
            Error::malformed(path.display().to_string(), &format!("what it has for {registry} is no name and password"))
        })?;
        Ok(Self::User { name: name.to_owned(), password: password.to_owned() })
    }
}

/// Whether `host`, `host:port` or `[address]:port` is this machine, without asking anybody: a name could be made to mean
/// something else.
pub(super) fn is_loopback(registry: &str) -> bool {
    let without_port = match registry.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => registry,
    };
    let host = without_port.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loopback() {
        for here in ["localhost", "localhost:5000", "127.0.0.1:5000", "127.1.2.3", "[::1]:5000"] {
            assert!(is_loopback(here), "{here}");
        }
        for there in
            ["localhost.example.org:5000", "10.0.0.1:5000", "ghcr.io", "127.0.0.1.example.org", "[2001:db8::1]:5000"]
        {
            assert!(!is_loopback(there), "{there}");
        }
    }

    #[test]
    fn a_login_is_read_from_its_file_and_never_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let auth = BASE64_STANDARD.encode("ana:geheim");
        std::fs::write(file.path(), format!(r#"{{"auths":{{"example.org":{{"auth":"{auth}"}}}}}}"#)).unwrap();
        let found = Credentials::of_file(file.path(), "example.org").unwrap();
        assert!(matches!(&found, Credentials::User { name, password } if name == "ana" && password == "geheim"));
        assert_eq!(format!("{found:?}"), r#"User { name: "ana", .. }"#);
        assert!(matches!(Credentials::of_file(file.path(), "other.org").unwrap(), Credentials::Anonymous));
    }
}
