//! What signs in to Keystone as a user of its own and is in no catalog: the tests, the operators that act in Nova, and Cortex.
//! None of them may use the credential of K-ORC or the administrator's password.

use c5c3_api::c5c3::ServiceUser;

use super::super::part::Part;
use super::super::parts::{
    CORTEX, CREDENTIALS_CORTEX, CREDENTIALS_HA, CREDENTIALS_HYPERVISOR, CREDENTIALS_TEMPEST, NOVA, TEMPEST,
};
use super::users::{Account, PART, ROLES};

/// Nova's administrative calls (`os-services`, evacuations, live migrations to a host, servers of all projects) ask for the role
/// admin in a project, and so do Placement's. That role implies `member`, with which the hypervisor operator boots servers.
const ADMINISTERS: &[&str] = &["admin"];

/// The keys of an application credential alone, and the file with it.
pub(super) const CREDENTIAL: &[&str] = &["application_credential_id", "application_credential_secret"];
const CLOUDS: &[&str] = &["clouds.yaml"];

/// A program.
pub(super) struct Program {
    /// The part with its user and its credential.
    pub(super) part: &'static Part,
    /// The part that it is, or whose objects it acts on: its user is not needed after that.
    pub(super) consumer: &'static Part,
    /// The Secret that it reads, unless a field or a flag names another one.
    pub(super) secret: &'static str,
    /// What it reads of that Secret.
    pub(super) keys: &'static [&'static str],
    /// The roles of its user, unless the ControlPlane names others.
    roles: &'static [&'static str],
}

/// The names of the Secrets are those that the programs read by default.
pub(super) static PROGRAMS: &[Program] = &[
    Program {
        part: &CREDENTIALS_TEMPEST,
        consumer: &TEMPEST,
        secret: "tempest-app-credential-secret",
        keys: CREDENTIAL,
        roles: &ROLES,
    },
    Program {
        part: &CREDENTIALS_HYPERVISOR,
        consumer: &NOVA,
        secret: "hypervisor-operator-clouds-yaml",
        keys: CLOUDS,
        roles: ADMINISTERS,
    },
    Program {
        part: &CREDENTIALS_HA,
        consumer: &NOVA,
        secret: "ha-operator-clouds-yaml",
        keys: CLOUDS,
        roles: ADMINISTERS,
    },
    Program {
        part: &CREDENTIALS_CORTEX,
        consumer: &CORTEX,
        secret: "cortex-clouds-yaml",
        keys: CLOUDS,
        roles: ADMINISTERS,
    },
];

impl Program {
    /// The name of its user in Keystone.
    pub(super) fn name(&self) -> &'static str {
        self.part.name.strip_prefix(PART).unwrap_or(self.part.name)
    }

    pub(super) fn account(&self, given: Option<&ServiceUser>) -> Account {
        Account::new(self.name(), self.roles, given).delivered_in(self.secret)
    }
}

/// The program whose credential a part makes.
pub(super) fn of(part: &Part) -> Option<&'static Program> {
    PROGRAMS.iter().find(|program| program.part == part)
}
