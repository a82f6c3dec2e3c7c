//! Where an OpenStack is and how a client authenticates there. Reads nothing itself: `clouds.rs` parses a clouds.yaml.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The interface of an endpoint in the service catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interface {
    /// For users outside of the cluster.
    Public,
    /// For services among themselves.
    #[default]
    Internal,
    /// For administrators; the same as internal in a current OpenStack.
    Admin,
}

impl Interface {
    /// The name in the catalog.
    pub fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An OpenStack: where its Keystone is, and which endpoints of its catalog a client uses.
#[derive(Clone, PartialEq, Eq)]
pub struct Cloud {
    /// The URL of Keystone, with or without `/v3`.
    pub auth_url: String,
    /// The region of the endpoints. Without it the catalog must have one region only.
    pub region: Option<String>,
    /// The interface of the endpoints.
    pub interface: Interface,
    /// The certificate authorities that are trusted, as PEM. The system's are trusted without it.
    pub ca: Option<String>,
}

impl Cloud {
    /// A cloud with internal endpoints, any region and the system's certificate authorities.
    pub fn new(auth_url: impl Into<String>) -> Self {
        Self { auth_url: auth_url.into(), region: None, interface: Interface::default(), ca: None }
    }
}

impl fmt::Debug for Cloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cloud")
            .field("auth_url", &self.auth_url)
            .field("region", &self.region)
            .field("interface", &self.interface)
            .field("ca", &self.ca.as_ref().map(|_| "PEM"))
            .finish()
    }
}

/// A domain or a project, by its id or by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// By id.
    Id(String),
    /// By name.
    Name(String),
}

impl Named {
    fn key_and_value(&self) -> (&'static str, &str) {
        match self {
            Self::Id(id) => ("id", id),
            Self::Name(name) => ("name", name),
        }
    }

    fn to_json(&self) -> Value {
        let (key, value) = self.key_and_value();
        json!({ key: value })
    }

    /// As JSON with the domain that a name is unique in. Keystone refuses a domain beside an id.
    fn to_json_within(&self, domain: &Self) -> Value {
        match self {
            Self::Id(_) => self.to_json(),
            Self::Name(name) => json!({ "name": name, "domain": domain.to_json() }),
        }
    }
}

/// What a token of a password is valid for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A project and the domain of its name.
    Project {
        /// The project.
        project: Named,
        /// The domain that the project's name is unique in.
        domain: Named,
    },
    /// A domain.
    Domain(Named),
    /// The whole system.
    System,
}

/// How a client authenticates.
#[derive(Clone, Debug)]
pub enum Credential {
    /// An application credential; its project and roles are fixed when it is created.
    Application {
        /// The id.
        id: String,
        /// The secret.
        secret: SecretString,
    },
    /// A user's password.
    Password {
        /// The user's id or name.
        user: Named,
        /// The domain that the user's name is unique in.
        user_domain: Named,
        /// The password.
        password: SecretString,
        /// What the token is valid for.
        scope: Scope,
    },
}

impl Credential {
    /// The body of `POST /v3/auth/tokens`. It contains the secret.
    pub(crate) fn request(&self) -> Value {
        match self {
            Self::Application { id, secret } => json!({ "auth": { "identity": {
                "methods": ["application_credential"],
                "application_credential": { "id": id, "secret": secret.expose_secret() },
            } } }),
            Self::Password { user, user_domain, password, scope } => {
                let mut user = user.to_json_within(user_domain);
                user["password"] = password.expose_secret().into();
                let scope = match scope {
                    Scope::Project { project, domain } => json!({ "project": project.to_json_within(domain) }),
                    Scope::Domain(domain) => json!({ "domain": domain.to_json() }),
                    Scope::System => json!({ "system": { "all": true } }),
                };
                json!({ "auth": { "identity": { "methods": ["password"], "password": { "user": user } }, "scope": scope } })
            }
        }
    }

    /// A digest of the cloud and the credential: equal for two that may share a client, without holding the secret.
    pub(crate) fn digest(&self, cloud: &Cloud) -> [u8; 32] {
        let Cloud { auth_url, region, interface, ca } = cloud;
        let identity = json!([auth_url, region, interface, ca, self.request()]);
        Sha256::digest(identity.to_string()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gardener(scope: Scope) -> Credential {
        Credential::Password {
            user: Named::Name("gardener".into()),
            user_domain: Named::Name("Orchard".into()),
            password: "plum".into(),
            scope,
        }
    }

    #[test]
    fn a_password_is_sent_with_the_domains_of_both_names() {
        let project = Scope::Project { project: Named::Name("trees".into()), domain: Named::Id("d4c7".into()) };
        assert_eq!(
            gardener(project).request(),
            json!({ "auth": {
                "identity": { "methods": ["password"], "password": { "user": {
                    "name": "gardener", "domain": { "name": "Orchard" }, "password": "plum",
                } } },
                "scope": { "project": { "name": "trees", "domain": { "id": "d4c7" } } },
            } })
        );
    }

    #[test]
    fn a_project_id_is_sent_without_its_domain() {
        let project = Scope::Project { project: Named::Id("7a1e".into()), domain: Named::Id("d4c7".into()) };
        assert_eq!(gardener(project).request()["auth"]["scope"], json!({ "project": { "id": "7a1e" } }));
        assert_eq!(gardener(Scope::System).request()["auth"]["scope"], json!({ "system": { "all": true } }));
    }

    #[test]
    fn debug_shows_no_secret() {
        assert!(!format!("{:?}", gardener(Scope::System)).contains("plum"));
        let application = Credential::Application { id: "a1".into(), secret: "cherry".into() };
        assert!(!format!("{application:?}").contains("cherry"));
    }

    #[test]
    fn every_part_of_a_cloud_and_a_credential_changes_the_digest() {
        let cloud = Cloud::new("http://keystone:5000");
        let first = gardener(Scope::System);
        let other = Cloud { ca: Some("PEM".into()), ..cloud.clone() };
        assert_eq!(first.digest(&cloud), gardener(Scope::System).digest(&cloud.clone()));
        assert_ne!(first.digest(&cloud), first.digest(&other));
        assert_ne!(first.digest(&cloud), gardener(Scope::Domain(Named::Id("d4c7".into()))).digest(&cloud));
    }
}
