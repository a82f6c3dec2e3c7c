//! `keystone.conf`: what the operator sets, and what it lets nobody else set.

use c5c3_api::openstack::KeystoneSpec;
use c5c3_kit::ini::{Ini, IniError, OsloValue};
use c5c3_service::config::{Additions, Owned};
use secrecy::SecretString;

/// Where files are mounted.
pub const FOLDER: &str = "/etc/keystone";
/// Where the keys of tokens are mounted.
pub const FERNET_KEYS: &str = "/var/lib/keystone/fernet-keys";
/// Where the keys of stored credentials are mounted.
pub const CREDENTIAL_KEYS: &str = "/var/lib/keystone/credential-keys";

/// What is logged of libraries, as oslo.log has it; and less of what Keystone says at every request: that the folder of a
/// mounted Secret can be listed, and that bcrypt uses the first 72 characters of a password.
const LOG_LEVELS: &[&str] = &[
    "amqp=WARN",
    "amqplib=WARN",
    "dogpile.core.dogpile=INFO",
    "iso8601=WARN",
    "keystonemiddleware=WARN",
    "oslo.messaging=INFO",
    "oslo_messaging=INFO",
    "oslo_policy=INFO",
    "requests.packages.urllib3.connectionpool=WARN",
    "sqlalchemy=WARN",
    "stevedore=WARN",
    "urllib3.connectionpool=WARN",
    "keystone.common.fernet_utils=ERROR",
    "keystone.common.password_hashing=ERROR",
];

/// How many threads each process has.
pub const THREADS: i32 = 4;
/// How many processes each pod has.
pub const PROCESSES: i32 = 2;

/// Options that follow from fields, or that nothing would work with.
pub const OWNED: &[Owned] = &[
    ("database", "connection", "use spec.database"),
    ("database", "connection_parameters", "use spec.database"),
    ("database", "slave_connection", "use spec.database"),
    ("cache", "backend", "use spec.cache.backend"),
    ("cache", "enabled", "it is always on"),
    ("cache", "memcache_servers", "use spec.cache"),
    ("token", "provider", "the operator looks after Fernet keys and no others"),
    ("fernet_tokens", "key_repository", "the operator mounts the keys"),
    ("fernet_tokens", "max_active_keys", "use spec.fernet.maxActiveKeys"),
    ("fernet_receipts", "key_repository", "the operator mounts the keys"),
    ("fernet_receipts", "max_active_keys", "use spec.fernet.maxActiveKeys"),
    ("credential", "key_repository", "the operator mounts the keys"),
    ("federation", "trusted_dashboard", "use spec.federation.trustedDashboards"),
    ("oslo_policy", "policy_file", "use spec.policyOverrides"),
    ("DEFAULT", "log_file", "what is logged goes to standard error"),
    ("DEFAULT", "log_dir", "what is logged goes to standard error"),
];

/// The sections that what runs once needs: the database, the keys, and how users and projects are stored.
pub const ONCE: &[&str] = &[
    "database",
    "fernet_tokens",
    "fernet_receipts",
    "credential",
    "identity",
    "resource",
    "assignment",
    "role",
    "catalog",
    "security_compliance",
];

/// Where Keystone's database and cache are.
#[derive(Debug)]
pub struct Connections<'a> {
    /// The database.
    pub database: String,
    /// The account for it.
    pub account: SecretString,
    /// The dogpile backend.
    pub backend: &'a str,
    /// The cache servers.
    pub servers: &'a [String],
}

/// The file. Whether there are policies is known here, not what they say.
pub fn keystone_conf(spec: &KeystoneSpec, connections: Connections<'_>, policies: bool) -> Result<Ini, IniError> {
    let mut ini = Ini::new();
    ini.set("DEFAULT", "use_stderr", true)?;
    ini.set("DEFAULT", "default_log_levels", LOG_LEVELS)?;
    ini.set("database", "connection", OsloValue::interpolated(connections.database))?;
    ini.set("database", "connection_parameters", connections.account)?;
    // A connection that the server has closed meanwhile is not used again; a thread never waits for another's.
    ini.set("database", "connection_recycle_time", 600)?;
    ini.set("database", "max_pool_size", THREADS + 1)?;
    ini.set("database", "max_retries", -1)?;
    ini.set("cache", "enabled", true)?;
    ini.set("cache", "backend", connections.backend)?;
    ini.set("cache", "memcache_servers", connections.servers)?;
    ini.set("identity", "default_domain_id", "default")?;
    ini.set("token", "provider", "fernet")?;
    let keys = spec.fernet.max_active_keys.get();
    for section in ["fernet_tokens", "fernet_receipts"] {
        ini.set(section, "key_repository", FERNET_KEYS)?;
        ini.set(section, "max_active_keys", keys)?;
    }
    ini.set("credential", "key_repository", CREDENTIAL_KEYS)?;
    ini.set("oslo_middleware", "enable_proxy_headers_parsing", true)?;
    ini.set("oslo_messaging_notifications", "driver", "noop")?;
    ini.set("oslo_policy", "enforce_scope", true)?;
    ini.set("oslo_policy", "enforce_new_defaults", true)?;
    if policies {
        ini.set("oslo_policy", "policy_file", format!("{FOLDER}/policy.yaml"))?;
    }
    ini.set("auth", "methods", methods(spec).as_slice())?;
    let dashboards = spec.federation.iter().flat_map(|federation| &federation.trusted_dashboards);
    let dashboards: Vec<String> = dashboards.map(ToString::to_string).collect();
    if !dashboards.is_empty() {
        ini.set("federation", "trusted_dashboard", OsloValue::many(dashboards))?;
    }
    Additions { plugins: &spec.plugins, extra: &spec.extra_config }.apply(&mut ini)?;
    Ok(ini)
}

/// How users may prove who they are.
fn methods(spec: &KeystoneSpec) -> Vec<&'static str> {
    let mut methods = vec!["external", "password", "token", "oauth1", "application_credential", "totp"];
    if spec.federation.as_ref().is_some_and(|federation| federation.enabled) {
        methods.extend(["mapped", "openid"]);
    }
    methods
}
