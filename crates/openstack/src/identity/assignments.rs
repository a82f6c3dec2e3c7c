//! Role assignments: which user or group has which role on which project, domain or the system.

use serde::Deserialize;

use super::IDENTITY;
use crate::client::Client;
use crate::error::Error;
use crate::request::Request;

/// The holder of a role, by id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// A user.
    User(String),
    /// All members of a group.
    Group(String),
}

/// Where a role is valid, by id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// In a project.
    Project(String),
    /// In a domain.
    Domain(String),
    /// In the whole system.
    System,
}

/// Whether an assignment is for the target itself or for the projects below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Inheritance {
    /// For the target itself.
    #[default]
    Direct,
    /// For the projects below the target only.
    Inherited,
}

/// One role of one actor on one target. It has no id: these three are its identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The role's id.
    pub role: String,
    /// The holder.
    pub actor: Actor,
    /// Where it is valid.
    pub target: Target,
}

impl Grant {
    fn path(&self) -> Vec<&str> {
        let mut path = match &self.target {
            Target::Project(id) => vec!["projects", id],
            Target::Domain(id) => vec!["domains", id],
            Target::System => vec!["system"],
        };
        path.extend(match &self.actor {
            Actor::User(id) => ["users", id],
            Actor::Group(id) => ["groups", id],
        });
        path.extend(["roles", &self.role]);
        path
    }
}

/// An assignment as Keystone lists it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RoleAssignment {
    /// The role, its actor and its target.
    pub grant: Grant,
    /// Whether it is inherited.
    pub inheritance: Inheritance,
}

/// Which assignments. Fields that are `None` match every assignment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssignmentFilter {
    /// The role's id.
    pub role: Option<String>,
    /// The holder.
    pub actor: Option<Actor>,
    /// Where it is valid.
    pub target: Option<Target>,
}

impl From<&Grant> for AssignmentFilter {
    fn from(grant: &Grant) -> Self {
        let Grant { role, actor, target } = grant.clone();
        Self { role: Some(role), actor: Some(actor), target: Some(target) }
    }
}

impl AssignmentFilter {
    fn query(&self) -> Vec<(String, String)> {
        let role = self.role.as_ref().map(|id| ("role.id", id.as_str()));
        let actor = self.actor.as_ref().map(|actor| match actor {
            Actor::User(id) => ("user.id", id.as_str()),
            Actor::Group(id) => ("group.id", id.as_str()),
        });
        let target = self.target.as_ref().map(|target| match target {
            Target::Project(id) => ("scope.project.id", id.as_str()),
            Target::Domain(id) => ("scope.domain.id", id.as_str()),
            Target::System => ("scope.system", "all"),
        });
        [role, actor, target].into_iter().flatten().map(|(key, value)| (key.into(), value.into())).collect()
    }
}

#[derive(Deserialize)]
struct Id {
    id: String,
}

#[derive(Deserialize)]
struct Listed {
    role: Id,
    user: Option<Id>,
    group: Option<Id>,
    scope: Scope,
}

#[derive(Deserialize)]
struct Scope {
    project: Option<Id>,
    domain: Option<Id>,
    #[serde(rename = "OS-INHERIT:inherited_to")]
    inherited_to: Option<String>,
}

impl Listed {
    /// `None` for an assignment without an actor.
    fn assignment(self) -> Option<RoleAssignment> {
        let Scope { project, domain, inherited_to } = self.scope;
        let actor = match (self.user, self.group) {
            (Some(user), _) => Actor::User(user.id),
            (None, group) => Actor::Group(group?.id),
        };
        let target = match (project, domain) {
            (Some(project), _) => Target::Project(project.id),
            (None, Some(domain)) => Target::Domain(domain.id),
            (None, None) => Target::System,
        };
        let inheritance = if inherited_to.is_some() { Inheritance::Inherited } else { Inheritance::Direct };
        Some(RoleAssignment { grant: Grant { role: self.role.id, actor, target }, inheritance })
    }
}

impl Client {
    /// The assignments that match, as they were granted: the members of a group are not listed for it.
    pub async fn role_assignments(&self, filter: &AssignmentFilter) -> Result<Vec<RoleAssignment>, Error> {
        let mut request = Request::get(IDENTITY, ["role_assignments"]);
        request.query = filter.query();
        let listed: Vec<Listed> = self.list(&request, "role_assignments").await?;
        Ok(listed.into_iter().filter_map(Listed::assignment).collect())
    }

    /// Whether a role is granted.
    pub async fn is_granted(&self, grant: &Grant) -> Result<bool, Error> {
        self.exists(&Request::head(IDENTITY, grant.path())).await
    }

    /// Grants a role. Succeeds if it is granted already.
    pub async fn grant(&self, grant: &Grant) -> Result<(), Error> {
        self.send(&Request::put(IDENTITY, grant.path())).await.map(|_| ())
    }

    /// Revokes a role. `NotFound` if it is not granted.
    pub async fn revoke(&self, grant: &Grant) -> Result<(), Error> {
        self.send(&Request::delete(IDENTITY, grant.path())).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_grant_has_the_path_of_its_actor_and_target() {
        let path = |actor, target| Grant { role: "r".into(), actor, target }.path().join("/");
        let (user, group) = (Actor::User("u".into()), Actor::Group("g".into()));
        assert_eq!(path(user.clone(), Target::Project("p".into())), "projects/p/users/u/roles/r");
        assert_eq!(path(group, Target::Domain("d".into())), "domains/d/groups/g/roles/r");
        assert_eq!(path(user, Target::System), "system/users/u/roles/r");
    }

    #[test]
    fn an_assignment_is_read_with_its_inheritance() {
        let read = |value| serde_json::from_value::<Listed>(value).unwrap().assignment();
        let inherited = json!({ "role": { "id": "r" }, "group": { "id": "g" }, "links": {},
            "scope": { "domain": { "id": "d" }, "OS-INHERIT:inherited_to": "projects" } });
        let grant = Grant { role: "r".into(), actor: Actor::Group("g".into()), target: Target::Domain("d".into()) };
        assert_eq!(read(inherited), Some(RoleAssignment { grant, inheritance: Inheritance::Inherited }));
        let system = json!({ "role": { "id": "r" }, "user": { "id": "u" }, "scope": { "system": { "all": true } } });
        assert_eq!(read(system).unwrap().grant.target, Target::System);
    }

    #[test]
    fn a_filter_of_a_grant_names_all_of_its_parts() {
        let grant = Grant { role: "r".into(), actor: Actor::User("u".into()), target: Target::Project("p".into()) };
        let query = AssignmentFilter::from(&grant).query();
        let keys: Vec<&str> = query.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["role.id", "user.id", "scope.project.id"]);
    }
}
