//! A service's databases: schemas on a MariaDB object of this cluster, or on an external server.
//!
//! A [`Server`] has one account and any number of schemas. A service may have several servers: Nova's cells do.

use c5c3_api::blocks::{self, NamespacedRef, SecretRef};
use c5c3_api::ext::SecretKey;
use c5c3_api::ext::mariadb::{
    CleanupPolicy, Database, DatabaseSpec, Grant, GrantSpec, MariaDB, MariaDbRef, Require, User, UserSpec,
};
use c5c3_api::{Problem, problem};
use c5c3_kit::retention::Retained;
use c5c3_kit::{Child, Inputs, KindRef, Ref, Wait, hash, readiness};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Resource;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::external_server::ExternalServer;
use crate::instance::{Instance, host};
use crate::network::Egress;
use crate::pod::Mount;
use crate::rotated_account::{RotatedAccount, RotatedAccounts};
use crate::url::escaped;

/// How often mariadb-operator compares the account's password with the Secret, which it does not watch.
const LOOK: &str = "30s";

/// The port of a MariaDB.
const PORT: i32 = 3306;

/// Where certificates of the connection are mounted.
const TLS: &str = "/etc";

/// A database server, and a service's account and schemas on it.
#[derive(Clone, Debug)]
pub struct Server {
    instance: Instance,
    /// What its volumes and folders are called: `database`.
    name: String,
    /// The field of the spec that describes it.
    field: String,
    place: Place,
    /// The first is what the others are named after.
    schemas: Vec<String>,
    secret: Ref,
    /// The key of the Secret that holds the password.
    password_key: String,
    /// The Secret of the CA certificate, and its key.
    ca: Option<(Ref, String)>,
    client: Option<Ref>,
}

#[derive(Clone, Debug)]
enum Place {
    /// A MariaDB object.
    Managed(Ref),
    /// An external server.
    External { host: String, port: i32 },
}

/// The account of a service.
#[derive(Clone, Debug)]
pub struct Account {
    /// SQL name.
    pub username: String,
    /// Password.
    pub password: SecretString,
    /// All accounts, if they are rotated.
    pub rotated: RotatedAccounts,
}

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Host.
    pub host: String,
    /// Port.
    pub port: i32,
}

/// A server whose account and address are known.
#[derive(Clone, Debug)]
pub struct DatabaseConnection {
    /// The server.
    pub server: Server,
    /// The account.
    pub account: Account,
    /// Where it listens.
    pub address: Address,
}

impl Server {
    /// The server of a spec, or the conventional one: the MariaDB `mariadb`, with the schema that the spec names or the one of
    /// the service's name.
    pub fn new(instance: &Instance, spec: Option<&blocks::Database>) -> Self {
        let secret = |name: String| Ref::namespaced::<Secret>(&instance.namespace, name);
        let place = match spec {
            Some(blocks::Database { host: Some(host), port, .. }) => {
                Place::External { host: host.to_string(), port: port.map_or(PORT, blocks::Port::get) }
            }
            spec => Place::Managed(mariadb(instance, spec.and_then(|spec| spec.cluster_ref.as_ref()))),
        };
        let tls = spec.and_then(|spec| spec.tls.as_ref());
        let given = spec.and_then(|spec| spec.secret_ref.as_ref());
        let key = |secret: &SecretRef, usual: &str| secret.key.as_ref().map_or(usual.to_owned(), ToString::to_string);
        let schema = spec.and_then(|spec| spec.database.as_ref()).map_or(instance.service.into(), ToString::to_string);
        Self {
            name: "database".into(),
            field: "spec.database".into(),
            schemas: vec![schema],
            secret: secret(
                given.map_or_else(|| format!("{}-db-credentials", instance.service), |given| given.name.to_string()),
            ),
            password_key: given.map_or_else(|| "password".to_owned(), |given| key(given, "password")),
            ca: tls.map(|tls| (secret(tls.ca_secret_ref.name.to_string()), key(&tls.ca_secret_ref, "ca.crt"))),
            client: tls.and_then(|tls| tls.client_secret_ref.as_ref()).map(|client| secret(client.name.to_string())),
            instance: instance.clone(),
            place,
        }
    }

    /// Calls a further server by a name of its own, after the field of the spec that describes it.
    pub fn named(self, name: &str, field: &str) -> Self {
        Self { name: name.into(), field: field.into(), ..self }
    }

    /// Adds a schema with the same account.
    pub fn schema(mut self, name: &str) -> Self {
        self.schemas.push(name.into());
        self
    }

    /// What its volumes and folders are called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The schemas, the first of them first.
    pub fn schemas(&self) -> &[String] {
        &self.schemas
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
        [KindRef::of::<Database>(), KindRef::of::<User>(), KindRef::of::<Grant>()]
    }

    /// What has to be read.
    pub fn needs<K: Resource>(&self, inputs: &Inputs<K>) -> Vec<Ref> {
        let server = match &self.place {
            Place::Managed(mariadb) => Some(mariadb),
            Place::External { .. } => None,
        };
        let ca = self.ca.as_ref().map(|(ca, _)| ca);
        let own = [Some(&self.secret), server, ca, self.client.as_ref()].into_iter().flatten().cloned();
        own.chain(RotatedAccounts::needs(inputs, &self.secret)).collect()
    }

    /// The account, or the waits for the Secrets of it.
    pub fn account<K: Resource>(&self, inputs: &Inputs<K>) -> Result<Account, Vec<Wait>> {
        let value = |secret: &Ref, key: &str, because: &str, reason: &'static str| {
            inputs.secret(secret, key).map_err(|wait| wait.because(because.to_owned()).with_reason(reason))
        };
        let signs_in = "the service signs in to its database with it";
        let encrypts = "the connection to the database is encrypted with it";
        let username = value(&self.secret, "username", signs_in, "WaitingForDBCredentials");
        let password = value(&self.secret, &self.password_key, signs_in, "WaitingForDBCredentials");
        let client = self.client.iter().flat_map(|client| [(client, "tls.crt"), (client, "tls.key")]);
        let files = self.ca.iter().map(|(ca, key)| (ca, key.as_str())).chain(client);
        let missing = files.filter_map(|(secret, key)| value(secret, key, encrypts, "WaitingForDBCertificates").err());
        let missing: Vec<Wait> = missing.collect();
        let rotated = RotatedAccounts::find(inputs, &self.secret);
        match (username, password, rotated) {
            (Ok(username), Ok(password), Ok(rotated)) if missing.is_empty() => {
                Ok(Account { username: username.expose_secret().to_owned(), password, rotated })
            }
            (username, password, rotated) => {
                let mut waits: Vec<Wait> =
                    [username.err(), password.err(), rotated.err()].into_iter().flatten().chain(missing).collect();
                // A Secret that is missing lacks all of its keys, which is reported once.
                waits.dedup();
                Err(waits)
            }
        }
    }

    /// Where the server listens, or the wait for it. `at_once` takes a server that is not ready: one that has been used
    /// before comes back, and what depends on it reports what it misses.
    pub fn address<K: Resource>(&self, inputs: &Inputs<K>, at_once: bool) -> Result<Address, Wait> {
        let reference = match &self.place {
            Place::External { host, port } => return Ok(Address { host: host.clone(), port: *port }),
            Place::Managed(reference) => reference,
        };
        let because = match self.schemas.as_slice() {
            [one] => format!("it holds the schema {one}"),
            many => format!("it holds the schemas {}", many.join(", ")),
        };
        let mariadb: MariaDB =
            inputs.typed(reference).map_err(|wait| wait.because(because.clone()).with_reason("WaitingForDatabase"))?;
        let wait = inputs.get(reference).and_then(|object| readiness::wait(reference, object));
        if let Some(wait) = wait.filter(|_| !at_once) {
            return Err(wait.because(because).with_reason("WaitingForDatabase"));
        }
        let service = mariadb.write_service().unwrap_or_else(|| reference.name.clone());
        let namespace = reference.namespace.as_deref().unwrap_or(&self.instance.namespace);
        Ok(Address { host: host(&service, namespace), port: mariadb.spec.port.unwrap_or(PORT) })
    }

    /// Reserves each schema for this object: two objects with the same schema would migrate and overwrite each other's data. The
    /// name follows from the server and the schema alone, so that the second object of a namespace finds it taken.
    pub fn claims(&self) -> Vec<Child> {
        let server = match &self.place {
            Place::Managed(mariadb) => mariadb.to_string(),
            Place::External { host, port } => format!("{host}:{port}"),
        };
        let claim = |schema: &String| {
            let name = hash::named("schema-claim", &hash::of_json(&json!([server, schema])));
            let map = ConfigMap {
                metadata: self.instance.meta(name, "database"),
                data: Some(
                    [("server", &server), ("schema", schema)]
                        .map(|(key, value)| (key.to_owned(), value.clone()))
                        .into(),
                ),
                ..ConfigMap::default()
            };
            // An owner of the same name before this one may have left it for a moment.
            Child::new(&map)
                .kept(false)
                .because(format!("it reserves the schema {schema} of {server} for one object"))
                .on_conflict(format!("set {}.database to a schema of its own, or delete the other object", self.field))
        };
        self.schemas.iter().map(claim).collect()
    }

    /// Schemas, the users and their grants on a MariaDB object; nothing on an external server, where they must exist.
    pub fn objects(&self, account: &Account) -> Vec<Child> {
        let (Some(base), Some(reference)) = (self.base(), self.reference()) else { return Vec::new() };
        let mut children = Vec::new();
        for (index, schema) in self.schemas.iter().enumerate() {
            let name = named(&base, index, schema);
            let mut database = Database::new(&name, DatabaseSpec::new(reference.clone(), schema));
            // The data outlives the object, which may merely move; see [`Self::dropped`].
            database.spec.cleanup_policy = Some(CleanupPolicy::Skip);
            database.metadata = self.instance.meta(&name, "database");
            children.push(Child::new(&database));
            if account.rotated.kept.is_empty() {
                let password = SecretKey::new(&self.secret.name, &self.password_key);
                children.extend(self.account_objects(&account.username, &password, index));
            }
            for one in &account.rotated.kept {
                children.extend(self.account_objects(&one.username, &SecretKey::new(&one.secret, "password"), index));
            }
        }
        children
    }

    fn reference(&self) -> Option<MariaDbRef> {
        let Place::Managed(mariadb) = &self.place else { return None };
        let namespace = mariadb.namespace.clone().filter(|other| *other != self.instance.namespace);
        Some(MariaDbRef { namespace, ..MariaDbRef::new(&mariadb.name) })
    }

    /// The grant of an account on one schema, and with the first of them the account itself.
    fn account_objects(&self, username: &str, password: &SecretKey, index: usize) -> Vec<Child> {
        let (Some(user), Some(reference)) = (self.user(username), self.reference()) else { return Vec::new() };
        let mut account = User::new(&user, UserSpec::new(reference.clone(), username, password.clone()));
        account.spec.requeue_interval = Some(LOOK.into());
        account.spec.require = self.ca.is_some().then(|| Require { ssl: Some(true), ..Require::default() });
        account.metadata = self.instance.meta(&user, "database");
        let schema = &self.schemas[index];
        let name = named(&user, index, schema);
        let mut grant = Grant::new(&name, GrantSpec::all(reference, username, schema));
        grant.metadata = self.instance.meta(&name, "database");
        (index == 0).then(|| Child::new(&account)).into_iter().chain([Child::new(&grant)]).collect()
    }

    /// The user and the grants of an account.
    pub(crate) fn objects_of(&self, account: &RotatedAccount) -> Vec<Ref> {
        let password = SecretKey::new(&account.secret, "password");
        let schemas = 0..self.schemas.len();
        let children = schemas.flat_map(|index| self.account_objects(&account.username, &password, index));
        children.map(|child| child.reference()).collect()
    }

    /// What the user of an account is called; none on an external server.
    fn user(&self, username: &str) -> Option<String> {
        Some(own(username == self.instance.name, &self.base()?, username))
    }

    /// Says of each schema that it goes with its object.
    pub(crate) fn dropped(&self) -> Vec<Retained> {
        let (Some(base), fields) = (self.base(), json!({"spec": {"cleanupPolicy": CleanupPolicy::Delete}})) else {
            return Vec::new();
        };
        let names = self.schemas.iter().enumerate().map(|(index, schema)| named(&base, index, schema));
        let reference = |name| Ref::namespaced::<Database>(&self.instance.namespace, name);
        names.map(|name| Retained::new(reference(name)).fields(fields.clone())).collect()
    }

    /// What the objects on a MariaDB are called; none on an external server. None of them can be moved or renamed: another server
    /// or account is another object, and the old one goes when all is done.
    fn base(&self) -> Option<String> {
        let Place::Managed(mariadb) = &self.place else { return None };
        let by_convention = *mariadb == self::mariadb(&self.instance, None) && self.name == "database";
        Some(own(by_convention, &self.instance.name, &format!("{mariadb}{}", self.suffix())))
    }

    /// Tells further servers of the same MariaDB apart; nothing for the conventional one.
    fn suffix(&self) -> String {
        if self.name == "database" { String::new() } else { format!(" {}", self.name) }
    }

    fn folder(&self) -> String {
        format!("{TLS}/{}-tls", self.name)
    }

    /// The query of a URL: character set and certificates.
    fn query(&self) -> String {
        let folder = self.folder();
        let ca = self.ca.as_ref().map(|(_, key)| format!("&ssl_ca={folder}/ca/{key}")).unwrap_or_default();
        let certificate = |_: &Ref| format!("&ssl_cert={folder}/client/tls.crt&ssl_key={folder}/client/tls.key");
        format!("charset=utf8{ca}{}", self.client.as_ref().map(certificate).unwrap_or_default())
    }

    /// The certificates that pods mount.
    pub fn mounts(&self) -> Vec<Mount> {
        let mount = |secret: Option<&Ref>, what: &str| {
            let secret = secret?;
            Some(Mount::secret(&format!("{}-{what}", self.name), &secret.name, &format!("{}/{what}", self.folder())))
        };
        let ca = self.ca.as_ref().map(|(ca, _)| ca);
        [mount(ca, "ca"), mount(self.client.as_ref(), "client")].into_iter().flatten().collect()
    }

    /// The server, if it is an external one: a Job connects to it first.
    pub fn external(&self) -> Option<ExternalServer> {
        let Place::External { host, port } = &self.place else { return None };
        let field = format!("{}.host", self.field);
        Some(ExternalServer { what: "database", name: self.name.clone(), host: host.clone(), port: *port, field })
    }

    fn namespace(&self) -> Option<&str> {
        match &self.place {
            Place::Managed(mariadb) => mariadb.namespace.as_deref(),
            Place::External { .. } => None,
        }
    }
}

impl DatabaseConnection {
    /// The URL of a schema, with the account in it.
    pub fn url(&self, schema: &str) -> SecretString {
        let (user, password) = self.escaped_account();
        format!("mysql+pymysql://{user}:{password}@{}/{schema}?{}", self.authority(), self.server.query()).into()
    }

    /// The URL of a schema without the account, for a tool that does not read escapes in a URL, and logs it. The account goes
    /// into `connection_parameters`; see [`Self::parameters`].
    pub fn bare_url(&self, schema: &str) -> String {
        format!("mysql+pymysql://{}/{schema}?{}", self.authority(), self.server.query())
    }

    /// The account as `connection_parameters` takes it.
    pub fn parameters(&self) -> SecretString {
        let (user, password) = self.escaped_account();
        format!("user={user}&password={password}").into()
    }

    fn escaped_account(&self) -> (String, String) {
        (escaped(&self.account.username), escaped(self.account.password.expose_secret()))
    }

    fn authority(&self) -> String {
        let Address { host, port } = &self.address;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// The same with another account.
    pub(crate) fn connection_of(&self, account: &RotatedAccount) -> Value {
        let mut connection = self.connection();
        connection["user"] = account.username.as_str().into();
        connection["password"] = account.password.expose_secret().into();
        connection
    }

    /// What `pymysql.connect` takes for the first schema. It holds the password.
    pub fn connection(&self) -> Value {
        let folder = self.server.folder();
        let mut connection = json!({
            "host": self.address.host, "port": self.address.port, "database": self.server.schemas[0],
            "user": self.account.username, "password": self.account.password.expose_secret(),
        });
        if let Some((_, key)) = &self.server.ca {
            connection["ssl_ca"] = format!("{folder}/ca/{key}").into();
        }
        if self.server.client.is_some() {
            connection["ssl_cert"] = format!("{folder}/client/tls.crt").into();
            connection["ssl_key"] = format!("{folder}/client/tls.key").into();
        }
        connection
    }

    /// What pods have to reach.
    pub fn egress(&self) -> Egress {
        Egress::new(self.server.namespace().map(ToOwned::to_owned), self.address.port)
    }
}

fn mariadb(instance: &Instance, reference: Option<&NamespacedRef>) -> Ref {
    let namespace = reference.and_then(|reference| reference.namespace.as_ref()).map(ToString::to_string);
    let name = reference.map_or_else(|| "mariadb".to_owned(), |reference| reference.name.to_string());
    Ref::namespaced::<MariaDB>(namespace.unwrap_or_else(|| instance.namespace.clone()), name)
}

/// The name of a schema's objects: the first has that of all, the others their own behind it.
fn named(base: &str, index: usize, schema: &str) -> String {
    if index == 0 { base.to_owned() } else { format!("{base}-{}", schema.replace('_', "-")) }
}

fn own(usual: bool, base: &str, what: &str) -> String {
    if usual { base.to_owned() } else { hash::named(base, &hash::short(what.as_bytes())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(spec: &Value) -> Server {
        let instance = Instance { service: "kestrel", name: "gate".into(), namespace: "cloud".into() };
        Server::new(&instance, Some(&serde_json::from_value(spec.clone()).unwrap()))
    }

    fn opened(spec: &Value, host: &str) -> DatabaseConnection {
        let account = Account {
            username: "gate".into(),
            password: "a b&c=d%".to_owned().into(),
            rotated: RotatedAccounts::default(),
        };
        DatabaseConnection { server: server(spec), account, address: Address { host: host.into(), port: 3306 } }
    }

    #[test]
    fn what_means_something_in_a_url_is_escaped_in_the_account() {
        let opened = opened(&json!({"database": "gate_db"}), "db.cloud");
        let url = "mysql+pymysql://gate:a%20b%26c%3Dd%25@db.cloud:3306/gate_db?charset=utf8";
        assert_eq!(opened.url("gate_db").expose_secret(), url);
        assert_eq!(opened.bare_url("gate_db"), "mysql+pymysql://db.cloud:3306/gate_db?charset=utf8");
        assert_eq!(opened.parameters().expose_secret(), "user=gate&password=a%20b%26c%3Dd%25");
    }

    #[test]
    fn an_address_of_the_newer_protocol_is_in_brackets() {
        assert!(opened(&json!({}), "2001:db8::1").bare_url("kestrel").contains("//[2001:db8::1]:3306/kestrel?"));
    }

    #[test]
    fn a_connection_is_encrypted_with_the_certificates_that_are_mounted() {
        let tls = json!({"caSecretRef": {"name": "ca", "key": "root.pem"}, "clientSecretRef": {"name": "client"}});
        let opened = opened(&json!({"host": "db.example.net", "tls": tls}), "db.example.net");
        assert!(opened.bare_url("kestrel").ends_with(
            "&ssl_ca=/etc/database-tls/ca/root.pem&ssl_cert=/etc/database-tls/client/tls.crt&ssl_key=/etc/database-tls/client/tls.key"
        ));
        assert_eq!(opened.server.mounts().len(), 2);
        assert!(opened.server.objects(&opened.account).is_empty(), "an external server has its schema already");
    }

    fn names(server: &Server, username: &str) -> Vec<String> {
        let account =
            Account { username: username.into(), password: "x".to_owned().into(), rotated: RotatedAccounts::default() };
        server.objects(&account).iter().map(|child| child.reference().short()).collect()
    }

    #[test]
    fn another_server_or_account_is_another_object() {
        let usual = server(&json!({}));
        assert_eq!(names(&usual, "gate"), ["database/gate", "user/gate", "grant/gate"]);
        assert_ne!(names(&usual, "keeper")[1], "user/gate");
        assert_ne!(names(&server(&json!({"clusterRef": {"name": "other"}})), "gate")[0], "database/gate");
    }

    #[test]
    fn several_schemas_on_one_server_share_an_account_and_several_servers_share_nothing() {
        let api = server(&json!({"database": "kestrel_api"})).schema("kestrel").schema("kestrel_cell0");
        assert_eq!(
            names(&api, "gate"),
            [
                "database/gate",
                "user/gate",
                "grant/gate",
                "database/gate-kestrel",
                "grant/gate-kestrel",
                "database/gate-kestrel-cell0",
                "grant/gate-kestrel-cell0"
            ]
        );
        let tls = json!({"tls": {"caSecretRef": {"name": "ca"}}});
        let cell = server(&tls).named("cell1", "spec.cells[1].database");
        assert!(names(&cell, "gate").iter().all(|name| !names(&api, "gate").contains(name)));
        assert_eq!(cell.folder(), "/etc/cell1-tls");
    }
}
