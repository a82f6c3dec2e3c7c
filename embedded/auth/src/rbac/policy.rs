//! All roles and bindings of a cluster, indexed by subject, so that a decision looks only at the user's own.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::rule::null_is_empty;
use super::{Attributes, Rule};
use crate::user::{MASTERS, UserInfo, service_account_user};
use crate::wording::{aggregated, quoted};

/// Roles and bindings as they stand. The server keeps one behind a lock and tells it of every change.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    cluster_roles: HashMap<String, Arc<[Rule]>>,
    roles: HashMap<String, HashMap<String, Arc<[Rule]>>>,
    cluster_bindings: Scope,
    bindings: HashMap<String, Scope>,
}

/// The bindings of one namespace, or of the cluster.
#[derive(Clone, Debug, Default)]
struct Scope {
    by_name: HashMap<String, Arc<Binding>>,
    users: HashMap<String, Grants>,
    groups: HashMap<String, Grants>,
}

/// Bindings by name, and which of its subjects it is; sorted, so that a request is always allowed by the same one.
type Grants = BTreeMap<String, (Arc<Binding>, usize)>;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Binding {
    #[serde(default, deserialize_with = "null_is_empty")]
    subjects: Vec<Subject>,
    role_ref: RoleRef,
}

#[derive(Debug, Deserialize)]
struct Subject {
    kind: String,
    name: String,
    #[serde(default)]
    namespace: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct RoleRef {
    pub(super) kind: String,
    pub(super) name: String,
}

/// What the policy says to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may go on.
    pub allowed: bool,
    /// Which binding allows it; when denied, which of the user's bindings name a role that does not exist.
    pub reason: String,
}

/// The rules that a user holds somewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulesOf {
    /// In the order of the bindings' names, cluster-wide ones first.
    pub rules: Vec<Rule>,
    /// Bindings that could not be followed.
    pub problems: Vec<String>,
}

/// An object that is no role or binding, or lacks what makes it one.
#[derive(Debug, thiserror::Error)]
#[error("{kind} {name:?} cannot be read: {reason}")]
pub struct MalformedPolicy {
    kind: String,
    name: String,
    reason: String,
}

impl Policy {
    /// The policy that these Roles, ClusterRoles, RoleBindings and ClusterRoleBindings make.
    pub fn from_objects<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Result<Self, MalformedPolicy> {
        let mut policy = Self::default();
        for object in objects {
            policy.set(object)?;
        }
        Ok(policy)
    }

    /// Adds or replaces a role or binding.
    pub fn set(&mut self, object: &Value) -> Result<(), MalformedPolicy> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, metadata) = (text(&object["kind"]), &object["metadata"]);
        let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
        let malformed = |reason: &dyn std::fmt::Display| MalformedPolicy {
            kind: kind.clone(),
            name: name.clone(),
            reason: reason.to_string(),
        };
        match kind.as_str() {
            "ClusterRole" => {
                let rules = rules_of(object).map_err(|e| malformed(&e))?;
                self.cluster_roles.insert(name, rules.into());
            }
            "Role" => {
                let rules = rules_of(object).map_err(|e| malformed(&e))?;
                self.roles.entry(namespace).or_default().insert(name, rules.into());
            }
            "ClusterRoleBinding" => {
                let binding = Binding::deserialize(object).map_err(|e| malformed(&e))?;
                self.cluster_bindings.set("", name, binding);
            }
            "RoleBinding" => {
                let binding = Binding::deserialize(object).map_err(|e| malformed(&e))?;
                self.bindings.entry(namespace.clone()).or_default().set(&namespace, name, binding);
            }
            _ => return Err(malformed(&"not a kind of role-based access control")),
        }
        Ok(())
    }

    /// Forgets a role or binding that was deleted. The namespace is empty for cluster-wide kinds.
    pub fn remove(&mut self, kind: &str, namespace: &str, name: &str) {
        match kind {
            "ClusterRole" => drop(self.cluster_roles.remove(name)),
            "Role" => drop(self.roles.get_mut(namespace).and_then(|roles| roles.remove(name))),
            "ClusterRoleBinding" => self.cluster_bindings.remove("", name),
            "RoleBinding" => {
                if let Some(scope) = self.bindings.get_mut(namespace) {
                    scope.remove(namespace, name);
                }
            }
            _ => {}
        }
        self.roles.retain(|_, roles| !roles.is_empty());
        self.bindings.retain(|_, scope| !scope.by_name.is_empty());
    }

    /// Whether `user` may do what `wanted` describes.
    pub fn authorize(&self, user: &UserInfo, wanted: &Attributes<'_>) -> Decision {
        if user.is_in(MASTERS) {
            return Decision { allowed: true, reason: String::new() };
        }
        let mut problems = Vec::new();
        let namespace = if wanted.is_resource() { wanted.namespace } else { "" };
        for grant in self.grants(user, namespace) {
            match self.resolve(grant.namespace, &grant.binding.role_ref) {
                Some(rules) if rules.iter().any(|rule| rule.allows(wanted)) => {
                    return Decision { allowed: true, reason: format!("RBAC: allowed by {grant}") };
                }
                Some(_) => {}
                None => problems.push(not_found(&grant.binding.role_ref)),
            }
        }
        let reason = if problems.is_empty() { String::new() } else { format!("RBAC: {}", aggregated(problems)) };
        Decision { allowed: false, reason }
    }

    /// Every rule that `user` holds in `namespace`, or cluster-wide if that is empty.
    pub fn rules_of(&self, user: &UserInfo, namespace: &str) -> RulesOf {
        let mut found = RulesOf::default();
        for grant in self.grants(user, namespace) {
            match self.resolve(grant.namespace, &grant.binding.role_ref) {
                Some(rules) => found.rules.extend_from_slice(rules),
                None => found.problems.push(not_found(&grant.binding.role_ref)),
            }
        }
        found
    }

    /// The same as the rules review tells them: those on resources, and those on paths.
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> (Vec<Rule>, Vec<Rule>) {
        let rules = self.rules_of(user, namespace).rules;
        let on_paths = rules
            .iter()
            .filter(|rule| !rule.non_resource_urls.is_empty())
            .map(|rule| Rule {
                verbs: rule.verbs.clone(),
                non_resource_urls: rule.non_resource_urls.clone(),
                ..Rule::default()
            })
            .collect();
        let on_resources = rules
            .into_iter()
            .filter(|rule| !rule.resources.is_empty())
            .map(|rule| Rule { non_resource_urls: Vec::new(), ..rule })
            .collect();
        (on_resources, on_paths)
    }

    /// The rules of the role that a binding in `namespace` refers to.
    pub(super) fn resolve(&self, namespace: &str, role: &RoleRef) -> Option<&[Rule]> {
        match role.kind.as_str() {
            "ClusterRole" => self.cluster_roles.get(&role.name),
            "Role" => self.roles.get(namespace).and_then(|roles| roles.get(&role.name)),
            _ => None,
        }
        .map(|rules| &**rules)
    }

    fn grants<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> impl Iterator<Item = Grant<'a>> {
        let local = self.bindings.get(namespace).filter(|_| !namespace.is_empty());
        let scopes = std::iter::once(("", &self.cluster_bindings)).chain(local.map(|scope| (namespace, scope)));
        scopes.flat_map(move |(namespace, scope)| {
            let of_user = scope.users.get(&user.name);
            let of_groups = user.groups.iter().filter_map(|group| scope.groups.get(group));
            of_user.into_iter().chain(of_groups).flatten().map(move |(name, (binding, subject))| Grant {
                namespace,
                name,
                binding,
                subject: &binding.subjects[*subject],
            })
        })
    }
}

fn not_found(role: &RoleRef) -> String {
    format!("{}.{} {} not found", role.kind.to_lowercase(), super::GROUP, quoted(&role.name))
}

/// The rules that a role object lists.
pub(super) fn rules_of(role: &Value) -> Result<Vec<Rule>, serde_json::Error> {
    Ok(Option::deserialize(&role["rules"])?.unwrap_or_default())
}

impl Scope {
    fn set(&mut self, namespace: &str, name: String, binding: Binding) {
        self.remove(namespace, &name);
        let binding = Arc::new(binding);
        for (index, subject) in binding.subjects.iter().enumerate() {
            let Some((map, key)) = self.place(namespace, subject) else { continue };
            map.entry(key).or_default().entry(name.clone()).or_insert_with(|| (Arc::clone(&binding), index));
        }
        self.by_name.insert(name, binding);
    }

    fn remove(&mut self, namespace: &str, name: &str) {
        let Some(binding) = self.by_name.remove(name) else { return };
        for subject in &binding.subjects {
            let Some((map, key)) = self.place(namespace, subject) else { continue };
            if let Some(grants) = map.get_mut(&key) {
                grants.remove(name);
                if grants.is_empty() {
                    map.remove(&key);
                }
            }
        }
    }

    /// Where a subject is looked up; service accounts are users with a long name, other kinds are no one.
    fn place(&mut self, namespace: &str, subject: &Subject) -> Option<(&mut HashMap<String, Grants>, String)> {
        match subject.kind.as_str() {
            "User" => Some((&mut self.users, subject.name.clone())),
            "Group" => Some((&mut self.groups, subject.name.clone())),
            "ServiceAccount" => {
                let namespace = if subject.namespace.is_empty() { namespace } else { &subject.namespace };
                (!namespace.is_empty()).then(|| (&mut self.users, service_account_user(namespace, &subject.name)))
            }
            _ => None,
        }
    }
}

/// One binding that speaks of the user.
struct Grant<'a> {
    namespace: &'a str,
    name: &'a str,
    binding: &'a Binding,
    subject: &'a Subject,
}

impl std::fmt::Display for Grant<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, name) = if self.namespace.is_empty() {
            ("ClusterRoleBinding", quoted(self.name))
        } else {
            ("RoleBinding", quoted(&format!("{}/{}", self.name, self.namespace)))
        };
        let subject = match (self.subject.kind.as_str(), self.subject.namespace.as_str()) {
            ("ServiceAccount", "") => quoted(&format!("{}/{}", self.subject.name, self.namespace)),
            ("ServiceAccount", namespace) => quoted(&format!("{}/{namespace}", self.subject.name)),
            _ => quoted(&self.subject.name),
        };
        let role = &self.binding.role_ref;
        write!(f, "{kind} {name} of {} {} to {} {subject}", role.kind, quoted(&role.name), self.subject.kind)
    }
}
