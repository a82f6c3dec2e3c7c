//! Who a request comes from, and the names that Kubernetes reserves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Group of every user that proved an identity.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Group of the anonymous user.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Name of a user that presented no credential.
pub const ANONYMOUS: &str = "system:anonymous";
/// Members of this group may do everything, whatever RBAC says; a way in when the policy is broken.
pub const MASTERS: &str = "system:masters";
/// Group of every service account.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// Group of every node.
pub const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";
/// Where a user's extra tells which certificate or token proved the identity.
pub(crate) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// Where it tells the node of the pod that a token was made for.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// Prefix of a service account's user name.
pub(crate) const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// An identity, in the form that reviews carry on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserInfo {
    /// Unique name, `username` on the wire.
    #[serde(rename = "username", default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Identifier that survives a user being deleted and another created with the same name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Groups that bindings may name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// What the authenticator knows besides, for example the pod that holds a token.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// A user with a name and groups, and nothing else.
    pub fn new<G: Into<String>>(name: impl Into<String>, groups: impl IntoIterator<Item = G>) -> Self {
        Self { name: name.into(), groups: groups.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Who a request without any credential comes from.
    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS, [UNAUTHENTICATED])
    }

    /// The identity of a service account, as far as its name tells.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let mut groups = service_account_groups(namespace);
        groups.push(AUTHENTICATED.to_owned());
        Self::new(service_account_user(namespace, name), groups)
    }

    /// The same account, as a token of a pod on that node tells it.
    pub fn on_node(mut self, node: &str) -> Self {
        self.extra.insert(NODE_NAME.to_owned(), vec![node.to_owned()]);
        self
    }

    /// The node that the user is, if it is one.
    pub fn node(&self) -> Option<&str> {
        self.name.strip_prefix(NODE_PREFIX).filter(|_| self.is_in(NODES))
    }

    /// Whether the user belongs to `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}

/// The user name of a service account: `system:serviceaccount:<namespace>:<name>`.
pub fn service_account_user(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// Splits a service account's user name into namespace and name; `None` for any other user.
pub fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    (is_dns_label(namespace) && is_dns_name(name)).then_some((namespace, name))
}

/// The groups that every service account of a namespace has, without `system:authenticated`.
pub(crate) fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")]
}

fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && !text.contains('.') && is_dns_name(text)
}

fn is_dns_name(text: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.len() <= 253
        && text.split('.').all(|label| {
            let bytes = label.as_bytes();
            bytes.first().is_some_and(|b| alphanumeric(*b))
                && bytes.last().is_some_and(|b| alphanumeric(*b))
                && bytes.iter().all(|b| alphanumeric(*b) || *b == b'-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_account_is_recognised_by_its_name_only() {
        assert_eq!(split_service_account("system:serviceaccount:shop:till"), Some(("shop", "till")));
        assert_eq!(split_service_account("system:serviceaccount:shop:till.two"), Some(("shop", "till.two")));
        for other in [
            "system:serviceaccount:shop",
            "system:serviceaccount:shop:",
            "system:serviceaccount::till",
            "system:serviceaccount:shop:till:more",
            "system:serviceaccount:Shop:till",
            "system:serviceaccount:sh.op:till",
            "jane",
        ] {
            assert_eq!(split_service_account(other), None, "{other}");
        }
    }

    #[test]
    fn absent_parts_are_left_out_on_the_wire() {
        let wire = serde_json::to_value(UserInfo::new("jane", ["dev"])).unwrap();
        assert_eq!(wire, serde_json::json!({"username": "jane", "groups": ["dev"]}));
    }
}
