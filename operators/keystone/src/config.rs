//! `keystone.conf`: what the operator sets, and which options users cannot set.

use std::time::Duration;

use c5c3_api::openstack::KeystoneSpec;
use c5c3_kit::ini::{Ini, IniError, OsloValue};
use c5c3_service::config::{Additions, Owned};
use c5c3_service::{BackingServices, cache};

/// Where files are mounted.
pub const FOLDER: &str = "/etc/keystone";
/// Where the keys of tokens are mounted.
pub const FERNET_KEYS: &str = "/var/lib/keystone/fernet-keys";
/// Where the keys of stored credentials are mounted.
pub const CREDENTIAL_KEYS: &str = "/var/lib/keystone/credential-keys";

/// What Keystone logs at every request: that the folder of a mounted Secret can be listed, and that bcrypt uses the first 72
/// characters of a password.
pub const QUIET: &[&str] = &["keystone.common.fernet_utils=ERROR", "keystone.common.password_hashing=ERROR"];

/// How long a token is valid, and how much longer services may look at one, unless a spec says otherwise.
const EXPIRATION: u64 = 3600;
const ALLOW_EXPIRED: u64 = 172_800;

/// How users may authenticate. Federated methods follow when `spec.federation` is supported.
const METHODS: &[&str] = &["external", "password", "token", "oauth1", "application_credential", "totp"];

/// Options that follow from fields, or that nothing would work with.
pub const OWNED: &[Owned] = &[
    ("database", "connection", "use spec.database"),
    ("database", "connection_parameters", "use spec.database"),
    ("database", "slave_connection", "use spec.database"),
    ("cache", "backend", "use spec.cache.backend"),
    ("cache", "enabled", "it is always on"),
    ("cache", "memcache_servers", "use spec.cache"),
    ("token", "provider", "the operator manages Fernet keys only"),
    ("fernet_tokens", "key_repository", "the operator mounts the keys"),
    ("fernet_tokens", "max_active_keys", "use spec.fernet.maxActiveKeys"),
    ("fernet_receipts", "key_repository", "the operator mounts the keys"),
    ("fernet_receipts", "max_active_keys", "use spec.fernet.maxActiveKeys"),
    ("credential", "key_repository", "the operator mounts the keys"),
    ("federation", "trusted_dashboard", "use spec.federation.trustedDashboards"),
];

/// How long keys are needed follows from these.
pub const ONLY_IN_SPEC: &[Owned] = &[
    ("token", "expiration", "use spec.extraConfig: keys are kept for as long as tokens are valid"),
    ("token", "allow_expired_window", "use spec.extraConfig: keys are kept for as long as tokens are valid"),
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

/// Writes what is Keystone's own.
pub fn configure(spec: &KeystoneSpec, backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError> {
    let (database, schema) = backing.main_database();
    // Alembic, which migrates the schema, does not read a URL with escapes, and logs it.
    conf.set("database", "connection", OsloValue::interpolated(database.bare_url(schema)))?;
    conf.set("database", "connection_parameters", database.parameters())?;
    BackingServices::pool(conf, "database")?;
    conf.set("cache", "enabled", true)?;
    conf.set("cache", "backend", cache::backend(spec.cache.as_ref()))?;
    conf.set("cache", "memcache_servers", backing.cache.as_slice())?;
    conf.set("identity", "default_domain_id", "default")?;
    conf.set("token", "provider", "fernet")?;
    let keys = spec.fernet.max_active_keys.get();
    for section in ["fernet_tokens", "fernet_receipts"] {
        conf.set(section, "key_repository", FERNET_KEYS)?;
        conf.set(section, "max_active_keys", keys)?;
    }
    conf.set("credential", "key_repository", CREDENTIAL_KEYS)?;
    conf.set("oslo_messaging_notifications", "driver", "noop")?;
    conf.set("auth", "methods", METHODS)?;
    Ok(())
}

/// How long after it was made a token may still have to be read.
pub fn token_life(spec: &KeystoneSpec) -> Duration {
    let additions = Additions { plugins: &spec.plugins, extra: &spec.extra_config };
    let option =
        |name: &str, default: u64| additions.get("token", name).and_then(|value| value.parse().ok()).unwrap_or(default);
    Duration::from_secs(option("expiration", EXPIRATION) + option("allow_expired_window", ALLOW_EXPIRED))
}
