//! Application credentials: immutable, owned by one user, valid in one project.

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::{Resource, expose};

/// A role within an application credential.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleRef {
    /// The id.
    pub id: String,
    /// The name, in answers.
    #[serde(skip_serializing)]
    pub name: Option<String>,
    /// The domain of the role, in answers.
    #[serde(skip_serializing)]
    pub domain_id: Option<String>,
}

/// A call that an application credential allows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessRule {
    /// The id, in answers.
    #[serde(skip_serializing)]
    pub id: Option<String>,
    /// The path, with wildcards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The type of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

/// An application credential. Keystone returns its secret only when it is created.
#[derive(Clone, Debug, Deserialize)]
pub struct ApplicationCredential {
    /// The id.
    pub id: String,
    /// The name, unique for its user.
    pub name: String,
    /// The description.
    pub description: Option<String>,
    /// The project of its tokens.
    pub project_id: String,
    /// The roles of its tokens.
    #[serde(default)]
    pub roles: Vec<RoleRef>,
    /// The calls that it allows; all without any.
    #[serde(default)]
    pub access_rules: Vec<AccessRule>,
    /// When it expires, in Keystone's notation, which has no time zone.
    pub expires_at: Option<String>,
    /// Whether its tokens may manage application credentials and trusts.
    #[serde(default)]
    pub unrestricted: bool,
    /// The secret, in the answer to its creation.
    pub secret: Option<SecretString>,
}

/// The fields of a new application credential.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ApplicationCredentialCreate {
    /// The name.
    pub name: String,
    /// The description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The secret; Keystone generates one without this.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "expose")]
    pub secret: Option<SecretString>,
    /// The roles; those of the token without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<RoleRef>,
    /// The calls that it allows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub access_rules: Vec<AccessRule>,
    /// When it expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<jiff::Timestamp>,
    /// Whether its tokens may manage application credentials and trusts.
    pub unrestricted: bool,
}

optional! {
    /// Which application credentials.
    ApplicationCredentialFilter {
        /// The exact name.
        name: String,
    }
}

/// The changes to a kind that is immutable: there is no value of it.
#[derive(Clone, Copy, Debug, Serialize)]
pub enum Immutable {}

impl Resource for ApplicationCredential {
    const SINGULAR: &'static str = "application_credential";
    const PLURAL: &'static str = "application_credentials";
    type Filter = ApplicationCredentialFilter;
    type Create = ApplicationCredentialCreate;
    type Update = Immutable;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::body;
    use super::*;

    #[test]
    fn a_new_application_credential_is_sent_with_role_ids_and_a_time_in_utc() {
        let fields = ApplicationCredentialCreate {
            name: "pruner".into(),
            secret: Some("cherry".into()),
            roles: vec![RoleRef { id: "r1".into(), name: Some("reader".into()), domain_id: None }],
            expires_at: Some("2027-01-02T03:04:05Z".parse().unwrap()),
            ..ApplicationCredentialCreate::default()
        };
        assert_eq!(
            body::<ApplicationCredential>(&fields),
            json!({ "application_credential": {
                "name": "pruner", "secret": "cherry", "roles": [{ "id": "r1" }],
                "expires_at": "2027-01-02T03:04:05Z", "unrestricted": false,
            } })
        );
        assert!(!format!("{fields:?}").contains("cherry"));
    }
}
