//! What a request wants to do, and how a refusal of it is worded.

use crate::refusal::Refusal;
use crate::user::UserInfo;
use crate::wording::quoted;

/// One thing that a user wants to do: a verb on a resource, or a verb on a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// `get`, `list`, `watch`, `create`, ...; for a path the HTTP method in lower case.
    pub verb: &'a str,
    /// API group, empty for the core group.
    pub group: &'a str,
    /// Plural; empty exactly when the request is for a path.
    pub resource: &'a str,
    /// Such as `status`, or empty.
    pub subresource: &'a str,
    /// Name of the object: from the path, or from a field selector `metadata.name=` of a list, watch or
    /// deletecollection; empty when the request names none.
    pub name: &'a str,
    /// Empty for cluster-wide requests.
    pub namespace: &'a str,
    /// Path of a request for no resource.
    pub path: &'a str,
}

impl<'a> Attributes<'a> {
    /// A verb on every object of a resource, in no namespace.
    pub fn resource(verb: &'a str, group: &'a str, resource: &'a str) -> Self {
        Self { verb, group, resource, ..Self::default() }
    }

    /// A verb on a path outside the resource API.
    pub fn path(verb: &'a str, path: &'a str) -> Self {
        Self { verb, path, ..Self::default() }
    }

    /// The same in a namespace.
    pub fn in_namespace(self, namespace: &'a str) -> Self {
        Self { namespace, ..self }
    }

    /// The same for one object.
    pub fn named(self, name: &'a str) -> Self {
        Self { name, ..self }
    }

    /// The same for a subresource.
    pub fn with_subresource(self, subresource: &'a str) -> Self {
        Self { subresource, ..self }
    }

    /// Whether the request is for a resource.
    pub fn is_resource(&self) -> bool {
        !self.resource.is_empty()
    }

    /// The answer to `user` who may not do this; `reason` is the policy's, often empty.
    pub fn forbidden(&self, user: &UserInfo, reason: &str) -> Refusal {
        // Escaped as the real server does, for browsers that take the text for a page.
        let mut wording = self.sentence(user).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        if !reason.is_empty() {
            wording = format!("{wording}: {reason}");
        }
        Refusal::Forbidden {
            group: self.group.to_owned(),
            resource: self.resource.to_owned(),
            name: self.name.to_owned(),
            reason: wording,
        }
    }

    fn sentence(&self, user: &UserInfo) -> String {
        let (name, verb) = (quoted(&user.name), self.verb);
        if !self.is_resource() {
            return format!("User {name} cannot {verb} path {}", quoted(self.path));
        }
        let resource = match self.subresource {
            "" => quoted(self.resource),
            sub => quoted(&format!("{}/{sub}", self.resource)),
        };
        let scope = match self.namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {}", quoted(namespace)),
        };
        format!("User {name} cannot {verb} resource {resource} in API group {} {scope}", quoted(self.group))
    }
}
