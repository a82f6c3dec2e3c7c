//! What is special about each kind, as data: its fields, the objects it refers to, what an import searches for, and what the
//! status shows.

use c5c3_api::orc::{
    ApplicationCredential, Domain, Endpoint, Group, OrcKind, Project, Role, RoleAssignment, Service, User,
};
use c5c3_kit::KindRef;
use k8s_openapi::NamespaceResourceScope;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What Keystone should hold when the spec does not name a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// Whatever it holds.
    Kept,
    /// An empty text, by which a description is removed.
    Empty,
    /// Nothing, by which the description of a service is removed.
    Null,
    /// The value true.
    True,
    /// An empty list.
    EmptyList,
}

/// A field of a resource.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name in the spec and the status.
    pub spec: &'static str,
    /// Its name in Keystone.
    pub remote: &'static str,
    /// What Keystone should hold when the spec does not name it.
    pub absent: Absent,
    /// Whether Keystone can change it.
    pub mutable: bool,
}

/// A field of a spec that names another object of the namespace, and becomes an id in Keystone.
#[derive(Clone, Copy, Debug)]
pub struct RefField {
    /// Its name in the spec.
    pub spec: &'static str,
    /// The kind of the object.
    pub kind: &'static str,
    /// The id's name in Keystone.
    pub remote: &'static str,
    /// The parameter of Keystone's query.
    pub query: &'static str,
}

/// How a value of an import's filter is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    /// The field of Keystone is equal.
    Equal,
    /// The list of Keystone has all of them.
    All,
    /// The list of Keystone has at least one of them.
    Any,
    /// The list of Keystone does not have all of them.
    NotAll,
    /// The list of Keystone has none of them.
    NotAny,
}

/// A field of an import's filter that is no reference.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    /// Its name in the spec.
    pub spec: &'static str,
    /// The field of Keystone that it is compared with.
    pub remote: &'static str,
    /// The parameter of Keystone's query; none if Keystone does not filter by it.
    pub query: Option<&'static str>,
    /// How it is compared.
    pub test: Test,
}

/// A field of the status.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// Its name in Keystone.
    pub remote: &'static str,
    /// Its name in the status.
    pub status: &'static str,
    /// Whether an absent value is written as an empty text.
    pub always: bool,
}

/// A Secret of the spec, one key of which is sent to Keystone.
#[derive(Clone, Copy, Debug)]
pub struct SecretField {
    /// The field of the spec that names the Secret.
    pub spec: &'static str,
    /// The key of the Secret.
    pub key: &'static str,
    /// The field of Keystone.
    pub remote: &'static str,
    /// What is told when the Secret lacks the key.
    pub lacks_key: &'static str,
}

/// A kind.
#[derive(Debug)]
pub struct Table {
    /// The controller's name, in metrics and logs.
    pub controller: &'static str,
    /// The finalizer on its objects.
    pub finalizer: &'static str,
    /// The key of one resource in Keystone's answers.
    pub singular: &'static str,
    /// The key of a list, and the path.
    pub plural: &'static str,
    /// Whether the resource has the object's name if the spec names none.
    pub named: bool,
    /// The fields.
    pub fields: &'static [Field],
    /// The references, in the order in which they are waited for.
    pub refs: &'static [RefField],
    /// What an import can search for beside the references.
    pub filters: &'static [Filter],
    /// The fields and references of the spec that identify a resource without its id: what was created and not recorded is
    /// found by them.
    pub identity: &'static [&'static str],
    /// The Secret that is sent.
    pub secret: Option<SecretField>,
    /// The status.
    pub observed: &'static [Observed],
    /// What is not like most kinds.
    pub shape: Shape,
}

/// What is not like most kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Nothing: it has an id, and its fields are those of the table.
    Plain,
    /// It has no id: its references are its identity.
    Assignment,
    /// It belongs to a user, and has lists of roles and access rules.
    ApplicationCredential,
}

impl Table {
    /// What it is called in messages about its creation.
    pub fn noun(&self) -> &'static str {
        if self.shape == Shape::Assignment { "role assignment" } else { "resource" }
    }
}

/// A kind with its table.
pub trait Kind:
    OrcKind
    + kube::Resource<Scope = NamespaceResourceScope>
    + Serialize
    + DeserializeOwned
    + Clone
    + std::fmt::Debug
    + Send
    + Sync
    + 'static
{
    /// The table.
    const TABLE: &'static Table;
}

/// The kind of that name.
pub fn kind_ref(kind: &str) -> KindRef {
    match kind {
        "Domain" => KindRef::of::<Domain>(),
        "Project" => KindRef::of::<Project>(),
        "Role" => KindRef::of::<Role>(),
        "Group" => KindRef::of::<Group>(),
        "User" => KindRef::of::<User>(),
        "Service" => KindRef::of::<Service>(),
        other => unreachable!("no table refers to {other}"),
    }
}

const NAME: Field = Field { spec: "name", remote: "name", absent: Absent::Kept, mutable: true };
const DESCRIPTION: Field = Field { spec: "description", remote: "description", absent: Absent::Empty, mutable: true };
const ENABLED: Field = Field { spec: "enabled", remote: "enabled", absent: Absent::True, mutable: true };
const DOMAIN_REF: RefField = RefField { spec: "domainRef", kind: "Domain", remote: "domain_id", query: "domain_id" };

const BY_NAME: Filter = Filter { spec: "name", remote: "name", query: Some("name"), test: Test::Equal };

const fn by_tags(spec: &'static str, query: &'static str, test: Test) -> Filter {
    Filter { spec, remote: "tags", query: Some(query), test }
}

const fn shown(remote: &'static str, status: &'static str) -> Observed {
    Observed { remote, status, always: false }
}

impl Kind for Domain {
    const TABLE: &'static Table = &Table {
        controller: "domain",
        finalizer: "openstack.k-orc.cloud/domain",
        singular: "domain",
        plural: "domains",
        named: true,
        fields: &[NAME, DESCRIPTION, ENABLED],
        refs: &[],
        filters: &[BY_NAME, Filter { spec: "enabled", remote: "enabled", query: Some("enabled"), test: Test::Equal }],
        identity: &["name"],
        secret: None,
        observed: &[shown("name", "name"), shown("description", "description"), shown("enabled", "enabled")],
        shape: Shape::Plain,
    };
}

impl Kind for Project {
    const TABLE: &'static Table = &Table {
        controller: "project",
        finalizer: "openstack.k-orc.cloud/project",
        singular: "project",
        plural: "projects",
        named: true,
        fields: &[
            NAME,
            DESCRIPTION,
            ENABLED,
            Field { spec: "tags", remote: "tags", absent: Absent::EmptyList, mutable: true },
        ],
        refs: &[DOMAIN_REF],
        filters: &[
            BY_NAME,
            by_tags("tags", "tags", Test::All),
            by_tags("tagsAny", "tags-any", Test::Any),
            by_tags("notTags", "not-tags", Test::NotAll),
            by_tags("notTagsAny", "not-tags-any", Test::NotAny),
        ],
        identity: &["name", "domain_id"],
        secret: None,
        observed: &[
            shown("name", "name"),
            shown("description", "description"),
            shown("domain_id", "domainID"),
            shown("enabled", "enabled"),
            shown("tags", "tags"),
        ],
        shape: Shape::Plain,
    };
}

impl Kind for Role {
    const TABLE: &'static Table = &Table {
        controller: "role",
        finalizer: "openstack.k-orc.cloud/role",
        singular: "role",
        plural: "roles",
        named: true,
        fields: &[NAME, DESCRIPTION],
        refs: &[DOMAIN_REF],
        filters: &[BY_NAME],
        identity: &["name", "domain_id"],
        secret: None,
        observed: &[
            shown("name", "name"),
            shown("description", "description"),
            Observed { remote: "domain_id", status: "domainID", always: true },
        ],
        shape: Shape::Plain,
    };
}

impl Kind for Group {
    const TABLE: &'static Table = &Table {
        controller: "group",
        finalizer: "openstack.k-orc.cloud/group",
        singular: "group",
        plural: "groups",
        named: true,
        fields: &[NAME, DESCRIPTION],
        refs: &[DOMAIN_REF],
        filters: &[BY_NAME],
        identity: &["name", "domain_id"],
        secret: None,
        observed: &[
            shown("name", "name"),
            shown("description", "description"),
            Observed { remote: "domain_id", status: "domainID", always: true },
        ],
        shape: Shape::Plain,
    };
}

impl Kind for Service {
    const TABLE: &'static Table = &Table {
        controller: "service",
        finalizer: "openstack.k-orc.cloud/service",
        singular: "service",
        plural: "services",
        named: true,
        fields: &[
            NAME,
            Field { absent: Absent::Null, ..DESCRIPTION },
            Field { spec: "type", remote: "type", absent: Absent::Kept, mutable: true },
            ENABLED,
        ],
        refs: &[],
        filters: &[BY_NAME, Filter { spec: "type", remote: "type", query: Some("type"), test: Test::Equal }],
        identity: &["name", "type"],
        secret: None,
        observed: &[
            shown("name", "name"),
            shown("description", "description"),
            shown("type", "type"),
            shown("enabled", "enabled"),
        ],
        shape: Shape::Plain,
    };
}

impl Kind for Endpoint {
    const TABLE: &'static Table = &Table {
        controller: "endpoint",
        finalizer: "openstack.k-orc.cloud/endpoint",
        singular: "endpoint",
        plural: "endpoints",
        named: false,
        fields: &[
            Field { spec: "interface", remote: "interface", absent: Absent::Kept, mutable: true },
            Field { spec: "url", remote: "url", absent: Absent::Kept, mutable: true },
            Field { absent: Absent::Kept, mutable: false, ..DESCRIPTION },
            Field { absent: Absent::Kept, ..ENABLED },
        ],
        refs: &[RefField { spec: "serviceRef", kind: "Service", remote: "service_id", query: "service_id" }],
        filters: &[
            Filter { spec: "interface", remote: "interface", query: Some("interface"), test: Test::Equal },
            Filter { spec: "url", remote: "url", query: None, test: Test::Equal },
        ],
        identity: &["interface", "url", "service_id"],
        secret: None,
        observed: &[
            shown("interface", "interface"),
            shown("url", "url"),
            shown("service_id", "serviceID"),
            shown("enabled", "enabled"),
            shown("description", "description"),
        ],
        shape: Shape::Plain,
    };
}

impl Kind for User {
    const TABLE: &'static Table = &Table {
        controller: "user",
        finalizer: "openstack.k-orc.cloud/user",
        singular: "user",
        plural: "users",
        named: true,
        fields: &[NAME, DESCRIPTION, ENABLED],
        refs: &[
            DOMAIN_REF,
            RefField {
                spec: "defaultProjectRef",
                kind: "Project",
                remote: "default_project_id",
                query: "default_project_id",
            },
        ],
        filters: &[BY_NAME],
        identity: &["name", "domain_id"],
        secret: Some(SecretField {
            spec: "passwordRef",
            key: "password",
            remote: "password",
            lacks_key: "Password secret does not contain \"password\" key",
        }),
        observed: &[
            shown("name", "name"),
            shown("description", "description"),
            shown("domain_id", "domainID"),
            shown("default_project_id", "defaultProjectID"),
            shown("enabled", "enabled"),
            shown("password_expires_at", "passwordExpiresAt"),
        ],
        shape: Shape::Plain,
    };
}

const fn part(spec: &'static str, kind: &'static str, remote: &'static str, query: &'static str) -> RefField {
    RefField { spec, kind, remote, query }
}

impl Kind for RoleAssignment {
    const TABLE: &'static Table = &Table {
        controller: "roleassignment",
        finalizer: "openstack.k-orc.cloud/roleassignment",
        singular: "role_assignment",
        plural: "role_assignments",
        named: false,
        fields: &[],
        refs: &[
            part("roleRef", "Role", "role_id", "role.id"),
            part("userRef", "User", "user_id", "user.id"),
            part("groupRef", "Group", "group_id", "group.id"),
            part("projectRef", "Project", "project_id", "scope.project.id"),
            part("domainRef", "Domain", "domain_id", "scope.domain.id"),
        ],
        filters: &[],
        identity: &["role_id", "user_id", "group_id", "project_id", "domain_id"],
        secret: None,
        observed: &[
            shown("role_id", "roleID"),
            shown("user_id", "userID"),
            shown("group_id", "groupID"),
            shown("project_id", "projectID"),
            shown("domain_id", "domainID"),
        ],
        shape: Shape::Assignment,
    };
}

impl Kind for ApplicationCredential {
    const TABLE: &'static Table = &Table {
        controller: "applicationcredential",
        finalizer: "openstack.k-orc.cloud/applicationcredential",
        singular: "application_credential",
        plural: "application_credentials",
        named: true,
        fields: &[
            Field { mutable: false, ..NAME },
            Field { mutable: false, absent: Absent::Kept, ..DESCRIPTION },
            Field { spec: "unrestricted", remote: "unrestricted", absent: Absent::Kept, mutable: false },
            Field { spec: "expiresAt", remote: "expires_at", absent: Absent::Kept, mutable: false },
        ],
        refs: &[part("userRef", "User", "user_id", "user_id")],
        filters: &[BY_NAME, Filter { spec: "description", remote: "description", query: None, test: Test::Equal }],
        identity: &["name", "description"],
        secret: Some(SecretField {
            spec: "secretRef",
            key: "value",
            remote: "secret",
            lacks_key: "Application credential secret does not contain \"value\" key",
        }),
        observed: &[
            shown("name", "name"),
            shown("description", "description"),
            shown("unrestricted", "unrestricted"),
            shown("project_id", "projectID"),
        ],
        shape: Shape::ApplicationCredential,
    };
}
