//! A service's database: on a MariaDB object of this cluster, or on a server that exists already.

use c5c3_api::blocks::{self, NamespacedRef, SecretRef};
use c5c3_api::ext::SecretKey;
use c5c3_api::ext::mariadb::{
    CleanupPolicy, Database as Schema, DatabaseSpec, Grant, GrantSpec, MariaDB, MariaDbRef, Require, User, UserSpec,
};
use c5c3_api::{Problem, problem};
use c5c3_kit::{Child, Inputs, KindRef, Ref, Wait, hash, readiness};
use k8s_openapi::api::core::v1::Secret;
use kube::Resource;
use kube::core::ObjectMeta;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::instance::{Instance, host};
use crate::outside::Outside;
use crate::pod::Mount;

/// How often mariadb-operator looks whether the account's password is still that of the Secret, which it does not watch.
const LOOK: &str = "30s";

/// The port of a MariaDB.
const PORT: i32 = 3306;

/// Where certificates of the connection are mounted.
const TLS: &str = "/etc/database-tls";

/// Which database a service has.
#[derive(Clone, Debug)]
pub struct Database {
    instance: Instance,
    server: Server,
    schema: String,
    secret: Ref,
    /// The key of the Secret that holds the password.
    password_key: String,
    /// The Secret of the CA certificate, and its key.
    ca: Option<(Ref, String)>,
    client: Option<Ref>,
}

#[derive(Clone, Debug)]
enum Server {
    /// A MariaDB object.
    Managed(Ref),
    /// A server of somebody's.
    External { host: String, port: i32 },
}

/// The account of a service.
#[derive(Clone, Debug)]
pub struct Account {
    /// SQL name.
    pub username: String,
    /// Password.
    pub password: SecretString,
}

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Host.
    pub host: String,
    /// Port.
    pub port: i32,
}

impl Database {
    /// The database of a spec, or what is used by convention: the schema of the service's name on the MariaDB `mariadb`.
    pub fn new(instance: &Instance, spec: Option<&blocks::Database>) -> Self {
        let secret = |name: String| Ref::namespaced::<Secret>(&instance.namespace, name);
        let server = match spec {
            Some(blocks::Database { host: Some(host), port, .. }) => {
                Server::External { host: host.to_string(), port: port.map_or(PORT, blocks::Port::get) }
            }
            spec => Server::Managed(mariadb(instance, spec.and_then(|spec| spec.cluster_ref.as_ref()))),
        };
        let tls = spec.and_then(|spec| spec.tls.as_ref());
        let given = spec.and_then(|spec| spec.secret_ref.as_ref());
        let key = |secret: &SecretRef, usual: &str| secret.key.as_ref().map_or(usual.to_owned(), ToString::to_string);
        Self {
            schema: spec.and_then(|spec| spec.database.as_ref()).map_or(instance.service.into(), ToString::to_string),
            secret: secret(
                given.map_or_else(|| format!("{}-db-credentials", instance.service), |given| given.name.to_string()),
            ),
            password_key: given.map_or_else(|| "password".to_owned(), |given| key(given, "password")),
            ca: tls.map(|tls| (secret(tls.ca_secret_ref.name.to_string()), key(&tls.ca_secret_ref, "ca.crt"))),
            client: tls.and_then(|tls| tls.client_secret_ref.as_ref()).map(|client| secret(client.name.to_string())),
            instance: instance.clone(),
            server,
        }
    }

    /// What is wrong with the database of a spec, beyond its schema.
    pub fn problems(spec: Option<&blocks::Database>) -> Option<Problem> {
        let client = spec?.tls.as_ref()?.client_secret_ref.as_ref()?;
        let path = "spec.database.tls.clientSecretRef.key";
        let what = "names one key, and a client certificate has two: tls.crt and tls.key";
        client.key.as_ref().map(|_| problem(path, what, "remove it"))
    }

    /// The kinds of its objects.
    pub fn children() -> [KindRef; 3] {
        [KindRef::of::<Schema>(), KindRef::of::<User>(), KindRef::of::<Grant>()]
    }

    /// What has to be read.
    pub fn needs(&self) -> Vec<Ref> {
        let server = match &self.server {
            Server::Managed(mariadb) => Some(mariadb),
            Server::External { .. } => None,
        };
        let ca = self.ca.as_ref().map(|(ca, _)| ca);
        [Some(&self.secret), server, ca, self.client.as_ref()].into_iter().flatten().cloned().collect()
    }

    /// The account, or the waits for the Secrets of it.
    pub fn account<K: Resource>(&self, inputs: &Inputs<K>) -> Result<Account, Vec<Wait>> {
        let value = |secret: &Ref, key: &str, because: &str| {
            inputs
                .secret(secret, key)
                .map_err(|wait| wait.because(because.to_owned()).called("WaitingForDBCredentials"))
        };
        let signs_in = "the service signs in to its database with it";
        let encrypts = "the connection to the database is encrypted with it";
        let username = value(&self.secret, "username", signs_in);
        let password = value(&self.secret, &self.password_key, signs_in);
        let client = self.client.iter().flat_map(|client| [(client, "tls.crt"), (client, "tls.key")]);
        let files = self.ca.iter().map(|(ca, key)| (ca, key.as_str())).chain(client);
        let missing: Vec<Wait> = files.filter_map(|(secret, key)| value(secret, key, encrypts).err()).collect();
        match (username, password) {
            (Ok(username), Ok(password)) if missing.is_empty() => {
                Ok(Account { username: username.expose_secret().to_owned(), password })
            }
            (username, password) => {
                let mut waits: Vec<Wait> =
                    [username.err(), password.err()].into_iter().flatten().chain(missing).collect();
                // A Secret that is not there lacks all of its keys, which is said once.
                waits.dedup();
                Err(waits)
            }
        }
    }

    /// Where the server listens, or the wait for it. `at_once` takes a server that is not ready: one that has been used
    /// before comes back, and what depends on it says itself what it misses.
    pub fn address<K: Resource>(&self, inputs: &Inputs<K>, at_once: bool) -> Result<Address, Wait> {
        let reference = match &self.server {
            Server::External { host, port } => return Ok(Address { host: host.clone(), port: *port }),
            Server::Managed(reference) => reference,
        };
        let because = format!("it holds the schema {}", self.schema);
        let mariadb: MariaDB =
            inputs.typed(reference).map_err(|wait| wait.because(because.clone()).called("WaitingForDatabase"))?;
        let wait = inputs.get(reference).and_then(|object| readiness::wait(reference, object));
        if let Some(wait) = wait.filter(|_| !at_once) {
            return Err(wait.because(because).called("WaitingForDatabase"));
        }
        let service = mariadb.write_service().unwrap_or_else(|| reference.name.clone());
        let namespace = reference.namespace.as_deref().unwrap_or(&self.instance.namespace);
        Ok(Address { host: host(&service, namespace), port: mariadb.spec.port.unwrap_or(PORT) })
    }

    /// Schema, user and grant on a MariaDB object; nothing on a server of somebody's, who has made them.
    pub fn objects(&self, account: &Account) -> Vec<Child> {
        let Server::Managed(mariadb) = &self.server else { return Vec::new() };
        let Instance { name, namespace, .. } = &self.instance;
        let reference = MariaDbRef {
            namespace: mariadb.namespace.clone().filter(|other| other != namespace),
            ..MariaDbRef::new(&mariadb.name)
        };
        let meta = |name: &str| -> ObjectMeta { self.instance.meta(name, "database") };
        // None of them can be moved or renamed: another server or account is another object, and the old one goes when all
        // is done.
        let own = |usual: bool, base: &str, what: &str| {
            if usual { base.to_owned() } else { hash::named(base, &hash::short(what.as_bytes())) }
        };
        let by_convention = *mariadb == self::mariadb(&self.instance, None);
        let base = own(by_convention, name, &mariadb.to_string());
        let user = own(account.username == *name, &base, &account.username);
        let mut schema = Schema::new(&base, DatabaseSpec::new(reference.clone(), &self.schema));
        // The data outlives the object: who wants it gone deletes it in the MariaDB, or that with its volumes.
        schema.spec.cleanup_policy = Some(CleanupPolicy::Skip);
        schema.metadata = meta(&base);
        let password = SecretKey::new(&self.secret.name, &self.password_key);
        let mut account_object = User::new(&user, UserSpec::new(reference.clone(), &account.username, password));
        account_object.spec.requeue_interval = Some(LOOK.into());
        account_object.spec.require = self.ca.is_some().then(|| Require { ssl: Some(true), ..Require::default() });
        account_object.metadata = meta(&user);
        let mut grant = Grant::new(&user, GrantSpec::all(reference, &account.username, &self.schema));
        grant.metadata = meta(&user);
        vec![Child::new(&schema), Child::new(&account_object), Child::new(&grant)]
    }

    /// What `[database] connection` says. The account is not in it: what migrates schemas does not read a URL with escapes,
    /// and says in its logs which one.
    pub fn url(&self, address: &Address) -> String {
        let ca = self.ca.as_ref().map(|(_, key)| format!("&ssl_ca={TLS}/ca/{key}")).unwrap_or_default();
        let certificate = |_: &Ref| format!("&ssl_cert={TLS}/client/tls.crt&ssl_key={TLS}/client/tls.key");
        let client = self.client.as_ref().map(certificate).unwrap_or_default();
        let host = if address.host.contains(':') { format!("[{}]", address.host) } else { address.host.clone() };
        format!("mysql+pymysql://{host}:{}/{}?charset=utf8{ca}{client}", address.port, self.schema)
    }

    /// What `[database] connection_parameters` says: the account.
    pub fn parameters(account: &Account) -> SecretString {
        let (user, password) = (escaped(&account.username), escaped(account.password.expose_secret()));
        format!("user={user}&password={password}").into()
    }

    /// The same for `pymysql.connect`. It holds the password.
    pub fn connection(&self, account: &Account, address: &Address) -> Value {
        let mut connection = json!({
            "host": address.host, "port": address.port, "database": self.schema,
            "user": account.username, "password": account.password.expose_secret(),
        });
        if let Some((_, key)) = &self.ca {
            connection["ssl_ca"] = format!("{TLS}/ca/{key}").into();
        }
        if self.client.is_some() {
            connection["ssl_cert"] = format!("{TLS}/client/tls.crt").into();
            connection["ssl_key"] = format!("{TLS}/client/tls.key").into();
        }
        connection
    }

    /// The certificates that pods mount.
    pub fn mounts(&self) -> Vec<Mount> {
        let mount = |secret: Option<&Ref>, what: &str| {
            let secret = secret?;
            Some(Mount::secret(&format!("database-{what}"), &secret.name, &format!("{TLS}/{what}")))
        };
        let ca = self.ca.as_ref().map(|(ca, _)| ca);
        [mount(ca, "ca"), mount(self.client.as_ref(), "client")].into_iter().flatten().collect()
    }

    /// The server, if it is one of somebody's: whether it can be reached is to be asked.
    pub fn outside(&self) -> Option<Outside> {
        let Server::External { host, port } = &self.server else { return None };
        Some(Outside { what: "database", host: host.clone(), port: *port, field: "spec.database.host" })
    }

    /// The namespace of the MariaDB; none for a server of somebody's.
    pub fn namespace(&self) -> Option<&str> {
        match &self.server {
            Server::Managed(mariadb) => mariadb.namespace.as_deref(),
            Server::External { .. } => None,
        }
    }
}

fn mariadb(instance: &Instance, reference: Option<&NamespacedRef>) -> Ref {
    let namespace = reference.and_then(|reference| reference.namespace.as_ref()).map(ToString::to_string);
    let name = reference.map_or_else(|| "mariadb".to_owned(), |reference| reference.name.to_string());
    Ref::namespaced::<MariaDB>(namespace.unwrap_or_else(|| instance.namespace.clone()), name)
}

/// The text with everything escaped that means something in a URL.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(spec: &Value) -> Database {
        let instance = Instance { service: "keystone", name: "gate".into(), namespace: "cloud".into() };
        Database::new(&instance, Some(&serde_json::from_value(spec.clone()).unwrap()))
    }

    fn url(database: &Database, host: &str) -> String {
        database.url(&Address { host: host.into(), port: 3306 })
    }

    #[test]
    fn the_account_is_beside_the_url_and_what_means_something_there_is_escaped() {
        let database = database(&json!({"database": "gate_db"}));
        assert_eq!(url(&database, "db.cloud"), "mysql+pymysql://db.cloud:3306/gate_db?charset=utf8");
        assert!(url(&database, "fd00::1").contains("//[fd00::1]:3306/"));
        let account = Account { username: "gate".into(), password: "p@ss&w=rd %".to_owned().into() };
        assert_eq!(Database::parameters(&account).expose_secret(), "user=gate&password=p%40ss%26w%3Drd%20%25");
    }

    #[test]
    fn certificates_are_files_that_pods_mount() {
        let tls = json!({"tls": {"caSecretRef": {"name": "ca", "key": "bundle"}, "clientSecretRef": {"name": "me"}}});
        let database = database(&tls);
        assert!(url(&database, "db").ends_with(
            "&ssl_ca=/etc/database-tls/ca/bundle&ssl_cert=/etc/database-tls/client/tls.crt&ssl_key=/etc/database-tls/client/tls.key"
        ));
        assert_eq!(database.mounts().len(), 2);
    }

    #[test]
    fn a_server_of_somebodys_gets_no_objects() {
        let account = Account { username: "gate".into(), password: "x".to_owned().into() };
        assert!(database(&json!({"host": "db.example.net"})).objects(&account).is_empty());
        assert_eq!(database(&json!({})).objects(&account).len(), 3);
    }
}
