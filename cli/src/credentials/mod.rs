//! `c5c3 credentials`: every credential of a cloud, whose it is, where it is used, how old it is and when it rotates. Values are
//! never read: of Secrets only the metadata is asked for.

mod args;
mod collect;
mod secrets;
mod table;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::args::Listing;
use crate::cluster::block_on;
use crate::status::Asked;
use crate::{Done, print, print_json, print_yaml};

pub(crate) use args::{CredentialsArgs, LIST_CODES, LIST_HELP, ROTATE_CODES, ROTATE_HELP, RotateArgs};

/// What a credential is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Administrator,
    ApplicationCredential,
    UserPassword,
    FernetKeys,
    CredentialKeys,
    Database,
    Broker,
    Ceph,
    Cache,
    Certificate,
}

impl What {
    fn words(self) -> &'static str {
        match self {
            Self::Administrator => "administrator",
            Self::ApplicationCredential => "application credential",
            Self::UserPassword => "user password",
            Self::FernetKeys => "Fernet keys",
            Self::CredentialKeys => "credential keys",
            Self::Database => "database account",
            Self::Broker => "broker account",
            Self::Ceph => "Ceph user",
            Self::Cache => "cache password",
            Self::Certificate => "certificate",
        }
    }
}

/// When a credential is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rotation {
    At(Timestamp),
    /// One is under way.
    Now,
    /// Nothing replaces it by itself.
    ByHand,
    /// Nothing needs to: it only serves to make another credential.
    WithIts,
}

/// A credential, without its value.
#[derive(Clone, Debug)]
struct Credential {
    what: What,
    namespace: String,
    /// Whose: a user, an account, a host.
    owner: String,
    /// The object that stands for it, `kind/name`.
    object: String,
    /// The Secret that holds it.
    secret: Option<String>,
    /// What signs in with it, or proves itself by it.
    used_by: Vec<String>,
    created: Option<Timestamp>,
    rotation: Rotation,
    expires: Option<Timestamp>,
    /// What is wrong, or under way; none when it is good.
    says: Option<String>,
}

impl Credential {
    fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }

    fn json(&self, now: Timestamp) -> Value {
        let rotates = match self.rotation {
            Rotation::At(time) => json!(time),
            _ => Value::Null,
        };
        json!({
            "type": self.what.words(), "namespace": self.namespace, "owner": self.owner, "object": self.object,
            "secret": self.secret, "usedBy": self.used_by, "createdAt": self.created, "rotatesAt": rotates,
            "rotating": self.rotation == Rotation::Now, "expiresAt": self.expires, "expired": self.is_expired(now),
            "message": self.says,
        })
    }
}

pub(crate) fn run(args: &CredentialsArgs) -> Done {
    block_on(async {
        let asked = Asked::new(&args.cluster).await?;
        let mut world = asked.look().await?;
        let secrets = secrets::read(&asked.client, asked.namespace, &mut world).await?;
        let credentials = collect::all(&world, &secrets);
        let now = world.now;
        match args.output {
            Listing::Table | Listing::Wide if credentials.is_empty() => {
                print("there are no credentials; a ControlPlane makes them: c5c3 status\n")?
            }
            Listing::Table | Listing::Wide => {
                print(&table::render(&credentials, &world.unread, now, args.output == Listing::Wide))?
            }
            Listing::Json => print_json(&document(&credentials, &world.unread, now))?,
            Listing::Yaml => print_yaml(&document(&credentials, &world.unread, now))?,
        };
        let is_bad = |credential: &Credential| credential.is_expired(now) || credential.says.is_some();
        Ok(if credentials.iter().any(is_bad) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    })?
}

fn document(credentials: &[Credential], unread: &[String], now: Timestamp) -> Value {
    let items: Vec<Value> = credentials.iter().map(|credential| credential.json(now)).collect();
    json!({"items": items, "notListed": unread})
}
