//! No one grants what they do not hold: what is checked before a role or a binding is written.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::policy::{RoleRef, rules_of};
use super::{Attributes, GROUP, Policy, Rule};
use crate::refusal::Refusal;
use crate::user::{MASTERS, UserInfo};
use crate::wording::{quoted, quoted_list};

/// More single permissions than this in one rule are not compared one by one; no role in use comes near.
const MAX_PIECES: usize = 100_000;

/// Whether the rules `held` allow everything that `wanted` allows; if not, the single permissions that are missing.
///
/// A rule may be covered by several held ones together, which is why it is taken to pieces first.
pub fn covers(held: &[Rule], wanted: &[Rule]) -> Result<(), Vec<Rule>> {
    let covered = |rule: &Rule| held.iter().any(|own| own.covers(rule));
    let mut missing = Vec::new();
    // What one held rule covers as a whole need not be taken to pieces.
    for rule in wanted.iter().filter(|rule| !covered(rule)) {
        if rule.size() > MAX_PIECES {
            missing.push(rule.clone());
        } else {
            missing.extend(rule.pieces().filter(|piece| !covered(piece)));
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(missing) }
}

/// Whether `user` may write this Role or ClusterRole. `old` is what it replaces.
///
/// Allowed are: members of `system:masters`, holders of the verb `escalate` on the role, changes that only help the
/// garbage collector, and rules that the user holds already. A change of labels alone is not free: labels make a role
/// part of others.
pub fn check_role(policy: &Policy, user: &UserInfo, old: Option<&Value>, new: &Value) -> Result<(), Refusal> {
    let resource = plural(new["kind"].as_str().unwrap_or_default());
    let place = Place::of(new, resource);
    if user.is_in(MASTERS) || place.permits(policy, user, "escalate", resource, place.name) {
        return Ok(());
    }
    if old.is_some_and(|old| only_collection_differs(old, new)) {
        return Ok(());
    }
    let rules = rules_of(new).map_err(|e| Refusal::BadRequest(e.to_string()))?;
    place.confirm(policy, user, &rules)?;
    let aggregates = |role: &Value| !role["aggregationRule"].is_null();
    // Whoever writes labels on other roles would decide what this one allows.
    if (aggregates(new) || old.is_some_and(aggregates))
        && covers(&policy.rules_of(user, "").rules, &everything()).is_err()
    {
        return Err(place.forbidden("must have cluster-admin privileges to use the aggregationRule".to_owned()));
    }
    Ok(())
}

/// Whether `user` may write this RoleBinding or ClusterRoleBinding. `old` is what it replaces.
///
/// Allowed are: members of `system:masters`, holders of the verb `bind` on the role, changes that only help the garbage
/// collector, and roles whose rules the user holds already.
pub fn check_binding(policy: &Policy, user: &UserInfo, old: Option<&Value>, new: &Value) -> Result<(), Refusal> {
    let resource = plural(new["kind"].as_str().unwrap_or_default());
    let place = Place::of(new, resource);
    if user.is_in(MASTERS) || old.is_some_and(|old| only_collection_differs(old, new)) {
        return Ok(());
    }
    let target = RoleRef::deserialize(&new["roleRef"]).map_err(|e| Refusal::BadRequest(format!("roleRef: {e}")))?;
    let target_resource = plural(&target.kind);
    if place.permits(policy, user, "bind", target_resource, &target.name) {
        return Ok(());
    }
    let rules = policy.resolve(place.namespace, &target).ok_or_else(|| Refusal::NotFound {
        group: GROUP.to_owned(),
        resource: target_resource.to_owned(),
        name: target.name.clone(),
    })?;
    place.confirm(policy, user, rules)
}

fn plural(kind: &str) -> &'static str {
    match kind {
        "ClusterRole" => "clusterroles",
        "ClusterRoleBinding" => "clusterrolebindings",
        "RoleBinding" => "rolebindings",
        _ => "roles",
    }
}

/// Whether a change touches nothing but what the garbage collector writes.
fn only_collection_differs(old: &Value, new: &Value) -> bool {
    let rest = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
                metadata.remove(field);
            }
        }
        object
    };
    rest(old) == rest(new)
}

/// Where the object that is about to be written lives.
struct Place<'a> {
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Place<'a> {
    fn of(object: &'a Value, resource: &'a str) -> Self {
        let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
        Self { resource, namespace: field("namespace"), name: field("name") }
    }

    fn permits(&self, policy: &Policy, user: &UserInfo, verb: &str, roles: &str, role: &str) -> bool {
        let wanted = Attributes::resource(verb, GROUP, roles).in_namespace(self.namespace).named(role);
        policy.authorize(user, &wanted).allowed
    }

    fn confirm(&self, policy: &Policy, user: &UserInfo, rules: &[Rule]) -> Result<(), Refusal> {
        let held = policy.rules_of(user, self.namespace);
        let Err(missing) = covers(&held.rules, rules) else { return Ok(()) };
        let mut reason = format!(
            "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            quoted(&user.name),
            quoted_list(&user.groups),
            lines(missing),
        );
        if !held.problems.is_empty() {
            reason = format!("{reason}; resolution errors: [{}]", held.problems.join(" "));
        }
        Err(self.forbidden(reason))
    }

    fn forbidden(&self, reason: String) -> Refusal {
        Refusal::Forbidden {
            group: GROUP.to_owned(),
            resource: self.resource.to_owned(),
            name: self.name.to_owned(),
            reason,
        }
    }
}

/// One line per resource, with all verbs that are missing on it.
fn lines(missing: Vec<Rule>) -> String {
    let mut simple: BTreeMap<(Vec<String>, Vec<String>), Rule> = BTreeMap::new();
    let mut lines = BTreeSet::new();
    for rule in missing {
        if rule.resource_names.is_empty() && rule.api_groups.len() == 1 && rule.resources.len() == 1 {
            let key = (rule.api_groups.clone(), rule.resources.clone());
            simple.entry(key).and_modify(|own| own.verbs.extend(rule.verbs.clone())).or_insert(rule);
        } else {
            lines.insert(rule.line());
        }
    }
    lines.extend(simple.values().map(Rule::line));
    lines.into_iter().collect::<Vec<_>>().join("\n")
}

/// What a cluster administrator holds.
fn everything() -> [Rule; 2] {
    let all = || vec!["*".to_owned()];
    [
        Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() },
        Rule { verbs: all(), non_resource_urls: all(), ..Rule::default() },
    ]
}
