//! The file that tells kubectl where the cluster is and how to prove who asks.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use crate::pki::Identity;

/// Name of the cluster, the context and the user; a file that names any other is someone's own and is not overwritten.
const NAME: &str = "c5c3";

/// What a client shows.
#[derive(Debug)]
pub enum Credential {
    /// A client certificate and its key.
    Certificate(Identity),
    /// A bearer token.
    Token(SecretString),
}

/// Why a kubeconfig was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KubeconfigError {
    /// There is a file already and it is not ours.
    #[error("{0} exists and names more than the cluster \"c5c3\"; choose another file, or remove it")]
    Foreign(PathBuf),
    /// The file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A kubeconfig with one cluster, one user and one context.
pub fn kubeconfig(server_url: &str, ca_pem: &str, credential: &Credential) -> SecretString {
    let user = match credential {
        Credential::Certificate(identity) => {
            let certificate = STANDARD.encode(&identity.certificate);
            let key = Zeroizing::new(STANDARD.encode(identity.key.expose_secret()));
            Zeroizing::new(format!("client-certificate-data: {certificate}\n    client-key-data: {}", key.as_str()))
        }
        Credential::Token(token) => Zeroizing::new(format!("token: {}", scalar(token.expose_secret()))),
    };
    let text = Zeroizing::new(format!(
        "# Written by c5c3, which replaces it at every start.
apiVersion: v1
kind: Config
clusters:
- name: {NAME}
  cluster:
    certificate-authority-data: {authority}
    server: {server}
contexts:
- name: {NAME}
  context:
    cluster: {NAME}
    user: {NAME}
current-context: {NAME}
users:
- name: {NAME}
  user:
    {user}
",
        authority = STANDARD.encode(ca_pem),
        server = scalar(server_url),
        user = user.as_str(),
    ));
    text.as_str().into()
}

/// Writes a kubeconfig that only its owner can read, replacing one that c5c3 wrote before and no other.
pub fn write_kubeconfig(path: &Path, content: &SecretString) -> Result<(), KubeconfigError> {
    let failed = |source| KubeconfigError::File { path: path.to_owned(), source };
    match fs::read_to_string(path).map(Zeroizing::new) {
        Ok(old) if !is_ours(&old) => return Err(KubeconfigError::Foreign(path.to_owned())),
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(failed(e)),
        _ => {}
    }
    c5c3_files::write_private(path, content.expose_secret().as_bytes()).map_err(failed)
}

/// Whether every name in the file is ours. kubectl drops comments when it edits a file, so that a mark would not last.
fn is_ours(text: &str) -> bool {
    let mut names = text.lines().filter_map(|line| line.trim_start_matches([' ', '-']).strip_prefix("name:"));
    text.trim().is_empty() || (text.contains("name:") && names.all(|name| name.trim() == NAME))
}

/// A JSON string is a YAML scalar, whatever is in it.
fn scalar(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn token_config(token: &str) -> SecretString {
        kubeconfig("https://127.0.0.1:6443", "CA", &Credential::Token(token.into()))
    }

    #[test]
    fn the_file_is_closed_to_others_and_so_is_the_directory_made_for_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("deep/er/config");
        write_kubeconfig(&path, &token_config("one")).unwrap();
        write_kubeconfig(&path, &token_config("two")).unwrap();
        let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert!(fs::read_to_string(&path).unwrap().contains("token: \"two\""));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn a_kubeconfig_of_the_users_own_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("config");
        for foreign in ["kind: Config\n", "clusters:\n- cluster: {}\n  name: c5c3\n- cluster: {}\n  name: work\n"] {
            fs::write(&path, foreign).unwrap();
            assert!(matches!(write_kubeconfig(&path, &token_config("x")), Err(KubeconfigError::Foreign(_))));
        }
        for ours in ["", "clusters:\n- cluster: {}\n  name: c5c3\n"] {
            fs::write(&path, ours).unwrap();
            write_kubeconfig(&path, &token_config("x")).unwrap();
        }
    }

    #[test]
    fn odd_characters_cannot_break_out_of_their_field() {
        let text = token_config("a\": b\n  c: d");
        assert!(text.expose_secret().contains(r#"token: "a\": b\n  c: d""#));
    }
}
