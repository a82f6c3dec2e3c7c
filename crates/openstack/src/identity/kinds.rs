//! The fields of domains, projects, roles, groups and users: those that we read, those that we write. Unknown fields of an
//! answer are ignored.

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::{Resource, expose};

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Domain {
    /// The id.
    pub id: String,
    /// The name, unique in the cloud.
    pub name: String,
    /// The description.
    pub description: Option<String>,
    /// Whether its users can authenticate. Keystone deletes only domains that are disabled.
    pub enabled: bool,
}

/// The fields of a new domain.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DomainCreate {
    /// The name.
    pub name: String,
    /// The description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it is enabled; it is without this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

optional! {
    /// Changes to a domain.
    DomainUpdate {
        /// The name.
        name: String,
        /// The description.
        description: String,
        /// Whether it is enabled.
        enabled: bool,
    }
}

optional! {
    /// Which domains.
    DomainFilter {
        /// The exact name.
        name: String,
        /// Whether they are enabled.
        enabled: bool,
    }
}

impl Resource for Domain {
    const SINGULAR: &'static str = "domain";
    const PLURAL: &'static str = "domains";
    type Filter = DomainFilter;
    type Create = DomainCreate;
    type Update = DomainUpdate;
}

/// A project.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Project {
    /// The id.
    pub id: String,
    /// The name, unique in its domain.
    pub name: String,
    /// The description.
    pub description: Option<String>,
    /// The domain; immutable.
    pub domain_id: Option<String>,
    /// Whether it is enabled.
    pub enabled: bool,
    /// The tags, in Keystone's order.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// The fields of a new project.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProjectCreate {
    /// The name.
    pub name: String,
    /// The description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The domain; that of the token without this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain_id: Option<String>,
    /// Whether it is enabled; it is without this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

optional! {
    /// Changes to a project.
    ProjectUpdate {
        /// The name.
        name: String,
        /// The description.
        description: String,
        /// Whether it is enabled.
        enabled: bool,
        /// All tags, in place of those before.
        tags: Vec<String>,
    }
}

optional! {
    /// Which projects.
    ProjectFilter {
        /// The exact name.
        name: String,
        /// The domain.
        domain_id: String,
        /// All of these tags.
        tags: Vec<String>,
        /// One of these tags.
        #[serde(rename = "tags-any")]
        tags_any: Vec<String>,
        /// Not all of these tags.
        #[serde(rename = "not-tags")]
        not_tags: Vec<String>,
        /// None of these tags.
        #[serde(rename = "not-tags-any")]
        not_tags_any: Vec<String>,
    }
}

impl Resource for Project {
    const SINGULAR: &'static str = "project";
    const PLURAL: &'static str = "projects";
    type Filter = ProjectFilter;
    type Create = ProjectCreate;
    type Update = ProjectUpdate;
}

/// Defines roles and groups, which have the same fields.
macro_rules! named_in_domain {
    ($kind:ident $create:ident $update:ident $filter:ident $singular:literal $plural:literal $what:literal) => {
        #[doc = concat!("A ", $what, ".")]
        #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
        pub struct $kind {
            /// The id.
            pub id: String,
            /// The name, unique in its domain.
            pub name: String,
            /// The description.
            pub description: Option<String>,
            /// The domain; immutable. A global role has none.
            pub domain_id: Option<String>,
        }

        #[doc = concat!("The fields of a new ", $what, ".")]
        #[derive(Clone, Debug, Default, Serialize)]
        pub struct $create {
            /// The name.
            pub name: String,
            /// The description.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub description: Option<String>,
            /// The domain.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub domain_id: Option<String>,
        }

        optional! {
            #[doc = concat!("Changes to a ", $what, ".")]
            $update {
                /// The name.
                name: String,
                /// The description.
                description: String,
            }
        }

        optional! {
            #[doc = concat!("Which ", $what, "s.")]
            $filter {
                /// The exact name.
                name: String,
                /// The domain.
                domain_id: String,
            }
        }

        impl Resource for $kind {
            const SINGULAR: &'static str = $singular;
            const PLURAL: &'static str = $plural;
            type Filter = $filter;
            type Create = $create;
            type Update = $update;
        }
    };
}

named_in_domain!(Role RoleCreate RoleUpdate RoleFilter "role" "roles" "role");
named_in_domain!(Group GroupCreate GroupUpdate GroupFilter "group" "groups" "group");

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct User {
    /// The id.
    pub id: String,
    /// The name, unique in its domain.
    pub name: String,
    /// The description.
    pub description: Option<String>,
    /// The domain; immutable.
    pub domain_id: String,
    /// The project of tokens without a scope.
    pub default_project_id: Option<String>,
    /// Whether it can authenticate.
    pub enabled: bool,
    /// When its password expires, in Keystone's notation, which has no time zone.
    pub password_expires_at: Option<String>,
}

/// The fields of a new user.
#[derive(Clone, Debug, Default, Serialize)]
pub struct UserCreate {
    /// The name.
    pub name: String,
    /// The description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The domain; that of the token without this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain_id: Option<String>,
    /// The project of tokens without a scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_project_id: Option<String>,
    /// Whether it can authenticate; it can without this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The password.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "expose")]
    pub password: Option<SecretString>,
}

optional! {
    /// Changes to a user.
    UserUpdate {
        /// The name.
        name: String,
        /// The description.
        description: String,
        /// The project of tokens without a scope.
        default_project_id: String,
        /// Whether it can authenticate.
        enabled: bool,
        /// A new password.
        #[serde(serialize_with = "expose")]
        password: SecretString,
    }
}

optional! {
    /// Which users.
    UserFilter {
        /// The exact name.
        name: String,
        /// The domain.
        domain_id: String,
        /// Whether they are enabled.
        enabled: bool,
    }
}

impl Resource for User {
    const SINGULAR: &'static str = "user";
    const PLURAL: &'static str = "users";
    type Filter = UserFilter;
    type Create = UserCreate;
    type Update = UserUpdate;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{EndpointFilter, Service, ServiceUpdate, body, query};
    use super::*;
    use crate::cloud::Interface;

    #[test]
    fn an_update_contains_only_what_changes() {
        let update = UserUpdate { description: Some(String::new()), ..UserUpdate::default() };
        assert_eq!(body::<User>(&update), json!({ "user": { "description": "" } }));
        let cleared = ServiceUpdate { description: Some(None), ..ServiceUpdate::default() };
        assert_eq!(body::<Service>(&cleared), json!({ "service": { "description": null } }));
        let password = UserUpdate { password: Some("plum".into()), ..UserUpdate::default() };
        assert_eq!(body::<User>(&password), json!({ "user": { "password": "plum" } }));
    }

    #[test]
    fn a_filter_becomes_a_query() {
        let tags = |tags: &[&str]| Some(tags.iter().copied().map(Into::into).collect());
        let filter = ProjectFilter {
            name: Some("trees".into()),
            tags: tags(&["apple", "pear"]),
            not_tags_any: tags(&["dead"]),
            tags_any: tags(&[]),
            ..ProjectFilter::default()
        };
        let mut pairs = query(&filter);
        pairs.sort();
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("name", "trees"), ("not-tags-any", "dead"), ("tags", "apple,pear")]);
        let endpoints = EndpointFilter { interface: Some(Interface::Admin), ..EndpointFilter::default() };
        assert_eq!(query(&endpoints), [("interface".to_owned(), "admin".to_owned())]);
        let domains = DomainFilter { enabled: Some(false), ..DomainFilter::default() };
        assert_eq!(query(&domains), [("enabled".to_owned(), "false".to_owned())]);
    }
}
