//! Everything that a service stands on, once it is known: accounts, addresses, credentials, policies. Or all that is missing.

use c5c3_kit::ini::{Ini, IniError};
use c5c3_kit::{Inputs, Wait};
use kube::Resource;
use secrecy::SecretString;

use crate::cache::Servers;
use crate::component::Component;
use crate::coordination::Coordination;
use crate::database::{Account, DatabaseConnection, Server};
use crate::extra_config::Setting;
use crate::health::Check;
use crate::identity::Access;
use crate::messaging::BusConnection;
use crate::network::Egress;
use crate::pod::Mount;
use crate::policy::Rules;
use crate::rbd::PoolConnection;
use crate::service::{Description, LookedUp};
use crate::wsgi::THREADS;

/// What was looked up and is there.
#[derive(Clone, Debug)]
pub struct BackingServices {
    /// The databases.
    pub databases: Vec<DatabaseConnection>,
    /// The message brokers.
    pub buses: Vec<BusConnection>,
    /// Keystone.
    pub identity: Option<Access>,
    /// The cache servers.
    pub cache: Vec<String>,
    /// The Ceph pools.
    pub pools: Vec<PoolConnection>,
    /// Values of the other Secrets that the description names.
    secrets: Vec<(String, String, SecretString)>,
    /// Where pods agree on who does what.
    pub coordination: Option<Coordination>,
    /// Policies that replace the service's own.
    pub rules: Rules,
    /// Configuration from Secrets.
    pub settings: Vec<Setting>,
    /// What the service has looked up by itself.
    own: LookedUp,
    egress: Vec<Egress>,
}

/// What is missing, step by step; and the accounts that are known, for databases wait for nothing else.
#[derive(Clone, Debug, Default)]
pub struct Missing {
    /// Accounts that are known.
    pub accounts: Vec<(Server, Account)>,
    /// Waits for Secrets.
    pub secrets: Vec<Wait>,
    /// Waits for database servers.
    pub database: Vec<Wait>,
    /// Waits for message brokers.
    pub messaging: Vec<Wait>,
    /// Waits for everything else that the configuration is made from.
    pub config: Vec<Wait>,
}

impl Missing {
    fn is_nothing(&self) -> bool {
        [&self.secrets, &self.database, &self.messaging, &self.config].iter().all(|waits| waits.is_empty())
    }
}

/// What an object gives beside its description.
#[derive(Debug)]
pub(crate) struct Given {
    /// Whether the service has run before: then nothing is asked of others but to be known, because they come back.
    pub(crate) runs: bool,
    /// The policies, or the wait for them.
    pub(crate) rules: Result<Rules, Wait>,
    /// Configuration from Secrets, and the waits for it.
    pub(crate) settings: (Vec<Setting>, Vec<Wait>),
    /// What the service has looked up by itself, or the waits for it.
    pub(crate) own: Result<LookedUp, Vec<Wait>>,
}

impl BackingServices {
    /// Finds everything, or says all that is missing.
    pub(crate) fn find<K: Resource>(
        description: &Description,
        inputs: &Inputs<K>,
        given: Given,
    ) -> Result<Self, Missing> {
        let mut missing = Missing::default();
        let mut databases = Vec::new();
        for server in &description.databases {
            let account = server.account(inputs).map_err(|waits| missing.secrets.extend(waits)).ok();
            let address = server.address(inputs, given.runs).map_err(|wait| missing.database.push(wait)).ok();
            missing.accounts.extend(account.clone().map(|account| (server.clone(), account)));
            if let (Some(account), Some(address)) = (account, address) {
                databases.push(DatabaseConnection { server: server.clone(), account, address });
            }
        }
        let mut buses = Vec::new();
        for bus in &description.messaging {
            match bus.connect(inputs, given.runs) {
                Ok(connected) => buses.push(connected),
                Err((secrets, brokers)) => {
                    missing.secrets.extend(secrets);
                    missing.messaging.extend(brokers);
                }
            }
        }
        let identity = description.identity.as_ref().map(|identity| identity.access(inputs));
        let identity = identity.transpose().map_err(|waits| missing.secrets.extend(waits)).ok().flatten();
        let mut pools = Vec::new();
        for pool in &description.pools {
            match pool.connect(inputs) {
                Ok(connected) => pools.push(connected),
                Err(waits) => missing.secrets.extend(waits),
            }
        }
        let coordination = description.coordination.as_ref().map(|coordinator| coordinator.connect(inputs));
        let coordination = coordination.transpose().map_err(|wait| missing.secrets.push(wait)).ok().flatten();
        let cache = cache(description.cache.as_ref(), inputs).map_err(|wait| missing.config.push(wait));
        let rules = given.rules.map_err(|wait| missing.config.push(wait));
        let (settings, waits) = given.settings;
        missing.config.extend(waits);
        let own = given.own.map_err(|waits| missing.config.extend(waits)).unwrap_or_default();
        let mut secrets = Vec::new();
        for secret in &description.secrets {
            match inputs.secret(&secret.reference, &secret.key) {
                Ok(value) => secrets.push((secret.reference.name.clone(), secret.key.clone(), value)),
                Err(wait) => {
                    let wait = wait.because(secret.because).with_reason(secret.reason);
                    // Of one Secret that is not there, several keys may be needed.
                    if !missing.secrets.contains(&wait) {
                        missing.secrets.push(wait);
                    }
                }
            }
        }
        match (cache, rules) {
            (Ok(cache), Ok(rules)) if missing.is_nothing() => {
                let mut egress: Vec<Egress> = databases.iter().map(DatabaseConnection::egress).collect();
                egress.extend(buses.iter().flat_map(BusConnection::egress));
                egress.extend(identity.as_ref().map(Access::egress));
                egress.extend(description.cache.iter().flat_map(|servers| servers.egress(&cache)));
                egress.extend(pools.first().into_iter().flat_map(|_| PoolConnection::egress()));
                egress.extend(description.calls.iter().cloned());
                egress.extend(coordination.iter().flat_map(Coordination::egress));
                egress.extend(own.egress.iter().cloned());
                Ok(Self {
                    databases,
                    buses,
                    identity,
                    cache,
                    pools,
                    secrets,
                    coordination,
                    rules,
                    settings,
                    own,
                    egress,
                })
            }
            _ => Err(missing),
        }
    }

    /// The database that holds a schema.
    ///
    /// # Panics
    /// If the description names no such schema: that is a bug of the operator, which every test of it finds.
    pub fn database(&self, schema: &str) -> &DatabaseConnection {
        let holds = |opened: &&DatabaseConnection| opened.server.schemas().iter().any(|name| name == schema);
        self.databases.iter().find(holds).expect("the description names the schema")
    }

    /// The broker that the description calls so; the first is `messaging`.
    ///
    /// # Panics
    /// If the description names no such broker: that is a bug of the operator, which every test of it finds.
    pub fn bus_named(&self, name: &str) -> &BusConnection {
        self.buses.iter().find(|opened| opened.bus().name() == name).expect("the description names the broker")
    }

    /// The first database, and the first schema of it: what most services have.
    ///
    /// # Panics
    /// If the description names no database.
    pub fn main_database(&self) -> (&DatabaseConnection, &str) {
        let opened = self.databases.first().expect("the description names a database");
        (opened, &opened.server.schemas()[0])
    }

    /// Writes a section of a database: the URL with the account in it, and a pool for the threads of a process.
    pub fn database_section(&self, conf: &mut Ini, section: &str, schema: &str) -> Result<(), IniError> {
        conf.set(section, "connection", self.database(schema).url(schema))?;
        Self::pool(conf, section)
    }

    /// The pool of connections of a process.
    pub fn pool(conf: &mut Ini, section: &str) -> Result<(), IniError> {
        // A connection that the server has closed is not used again; a thread never waits for another's.
        conf.set(section, "connection_recycle_time", 600)?;
        conf.set(section, "max_pool_size", THREADS + 1)?;
        conf.set(section, "max_retries", -1)?;
        Ok(())
    }

    /// A value of another Secret that the description names.
    ///
    /// # Panics
    /// If it names no such value: that is a bug of the operator, which every test of it finds.
    pub fn secret(&self, secret: &str, key: &str) -> SecretString {
        let found = self.secrets.iter().find(|(name, of, _)| name == secret && of == key);
        found.map(|(_, _, value)| value.clone()).expect("the description names the value")
    }

    /// A value that the service has looked up by itself, if it has found one.
    pub fn looked_up(&self, name: &str) -> Option<SecretString> {
        self.own.values.iter().find(|(of, _)| *of == name).map(|(_, value)| value.clone())
    }

    /// The pool that the service calls so.
    ///
    /// # Panics
    /// If the description names no such pool: that is a bug of the operator, which every test of it finds.
    pub fn pool_named(&self, name: &str) -> &PoolConnection {
        self.pools.iter().find(|pool| pool.name == name).expect("the description names the pool")
    }

    /// Writes `[keystone_authtoken]`; nothing for a service without an identity.
    pub fn authtoken(&self, conf: &mut Ini) -> Result<(), IniError> {
        self.identity.iter().try_for_each(|access| access.authtoken(conf, &self.cache))
    }

    /// The certificates that every pod mounts.
    pub fn mounts(&self) -> Vec<Mount> {
        let databases = self.databases.iter().flat_map(|opened| opened.server.mounts());
        let buses = self.buses.iter().flat_map(BusConnection::mounts);
        let coordination = self.coordination.iter().filter_map(Coordination::mounts);
        databases.chain(buses).chain(self.identity.iter().flat_map(Access::mounts)).chain(coordination).collect()
    }

    /// What pods have to reach.
    pub fn egress(&self) -> &[Egress] {
        &self.egress
    }

    /// What a pod checks to be ready.
    pub(crate) fn checks(&self, component: &Component) -> Vec<Check> {
        let Component { needs_database, needs_bus, relies_on, .. } = component;
        let counts = |name: &str| relies_on.is_empty() || relies_on.iter().any(|one| one == name);
        let databases = self.databases.iter().filter(|opened| *needs_database && counts(opened.server.name()));
        let databases = databases.map(|opened| Check::Database(opened.connection()));
        let buses = self.buses.iter().filter(|opened| *needs_bus && counts(opened.bus().name()));
        databases.chain(buses.map(BusConnection::check)).collect()
    }
}

fn cache<K: Resource>(servers: Option<&Servers>, inputs: &Inputs<K>) -> Result<Vec<String>, Wait> {
    servers.map_or_else(|| Ok(Vec::new()), |servers| servers.addresses(inputs))
}
