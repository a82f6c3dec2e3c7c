//! Nova's cells: which there are, where each stores its data, and how Nova finds them.
//!
//! Nova's API database has the address of each cell's database and broker. Here these are templates: Nova puts the account of its
//! own configuration into them, so that no password is stored and a rotation strands no cell. An account of another database
//! server is in a file of the configuration that the address names.

use c5c3_api::blocks::{Database, Messaging};
use c5c3_api::openstack::{MAIN_CELL, Nova, NovaCell, NovaSpec};
use c5c3_kit::hash;
use c5c3_kit::ini::{Ini, IniError};
use c5c3_service::database::{DatabaseConnection, Server};
use c5c3_service::messaging::{Bus, BusConnection};
use c5c3_service::{BackingServices, Instance};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::config::FOLDER;

/// The cell of servers that no host was found for.
pub(crate) const CELL0: &str = "cell0";

/// The server of `spec.database`.
pub(crate) const MAIN_SERVER: &str = "database";

/// The broker of `spec.messaging`.
pub(crate) const MAIN_BUS: &str = "messaging";

/// A cell that runs: one of the spec, or one that has left it and is not yet removed.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// As the spec has or had it.
    pub(crate) spec: NovaCell,
    /// Whether it has left the spec.
    pub(crate) leaving: bool,
}

impl Cell {
    pub(crate) fn name(&self) -> &str {
        &self.spec.name
    }

    /// The file that configures the cell's services beside `nova.conf`.
    pub(crate) fn conf(&self) -> String {
        format!("cell-{}.conf", self.name())
    }
}

/// The cells by their names. One that Nova knows runs on until it is removed: `status` remembers what the spec said of it.
pub(crate) fn all(nova: &Nova) -> Vec<Cell> {
    let named = |name: &str| NovaCell { name: name.into(), ..NovaCell::default() };
    let mut cells: Vec<Cell> = of_spec(&nova.spec).into_iter().map(|spec| Cell { spec, leaving: false }).collect();
    let remembered = nova.status.iter().flat_map(|status| &status.cells).filter(|cell| cell.compute_nodes.is_some());
    for cell in remembered {
        if cells.iter().all(|other| other.name() != cell.name) {
            let spec =
                NovaCell { database: cell.database.clone(), messaging: cell.messaging.clone(), ..named(&cell.name) };
            cells.push(Cell { spec, leaving: true });
        }
    }
    cells.sort_by(|a, b| a.name().cmp(b.name()));
    cells
}

/// The cells of a spec.
fn of_spec(spec: &NovaSpec) -> Vec<NovaCell> {
    if spec.cells.is_empty() {
        return vec![NovaCell { name: MAIN_CELL.into(), ..NovaCell::default() }];
    }
    spec.cells.clone()
}

/// The databases: one server for each address and account, whatever number of schemas is on it. A second one for the same account
/// would delete it with itself.
pub(crate) fn servers(nova: &Nova, instance: &Instance) -> Vec<Server> {
    let spec = &nova.spec;
    let main = Server::new(instance, Some(&spec.main_database()));
    let mut servers = vec![(MAIN_SERVER.to_owned(), main.schema(&schema(&spec.cell0_database())))];
    let mut add = |database: &Database, field: String| {
        let (name, schema) = (server(spec, database, instance), schema(database));
        match servers.iter_mut().find(|(other, _)| *other == name) {
            Some((_, server)) if server.schemas().contains(&schema) => {}
            Some((_, server)) => *server = server.clone().schema(&schema),
            None => {
                let server = Server::new(instance, Some(database)).named(&name, &field);
                servers.push((name, server));
            }
        }
    };
    add(&spec.api_database(), "spec.apiDatabase".into());
    for cell in all(nova) {
        add(&spec.cell_database(&cell.spec), format!("spec.cells[{}].database", cell.name()));
    }
    servers.into_iter().map(|(_, server)| server).collect()
}

/// What the server of a database is called: the same for the same address and account.
pub(crate) fn server(spec: &NovaSpec, database: &Database, instance: &Instance) -> String {
    let identity = |database: &Database| {
        let object = database.cluster_ref.as_ref();
        let namespace = object.and_then(|object| object.namespace.as_ref()).map(ToString::to_string);
        json!([
            database.host,
            database.port.map_or(3306, c5c3_api::blocks::Port::get),
            object.map_or_else(|| "mariadb".to_owned(), |object| object.name.to_string()),
            namespace.unwrap_or_else(|| instance.namespace.clone()),
            database
                .secret_ref
                .as_ref()
                .map_or_else(|| "nova-db-credentials".to_owned(), |secret| secret.name.to_string()),
            database.secret_ref.as_ref().and_then(|secret| secret.key.as_ref()),
            database.tls,
        ])
    };
    let own = identity(database);
    if own == identity(&spec.main_database()) {
        return MAIN_SERVER.into();
    }
    format!("database-{}", hash::short(own.to_string().as_bytes()))
}

pub(crate) fn schema(database: &Database) -> String {
    database.database.as_ref().map_or_else(|| "nova".to_owned(), ToString::to_string)
}

/// The brokers: that of the API, and a virtual host for each cell.
pub(crate) fn buses(nova: &Nova, instance: &Instance) -> Vec<Bus> {
    let main = nova.spec.messaging.as_ref();
    let of_cell = |cell: Cell| {
        let own = cell.spec.messaging.as_ref().map(|own| with_account(own, main));
        Bus::new(instance, own.as_ref().or(main)).named(cell.name())
    };
    [Bus::new(instance, main)].into_iter().chain(all(nova).into_iter().map(of_cell)).collect()
}

/// A cell's broker with the account of the main one.
fn with_account(own: &Messaging, main: Option<&Messaging>) -> Messaging {
    let account = own.secret_ref.clone().or_else(|| main.and_then(|main| main.secret_ref.clone()));
    Messaging { secret_ref: account, ..own.clone() }
}

/// Where everything of Nova's databases is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places<'a> {
    pub(crate) nova: &'a Nova,
    pub(crate) instance: &'a Instance,
    pub(crate) backing: &'a BackingServices,
}

impl Places<'_> {
    /// The connection to a database, and its schema.
    fn database(&self, database: &Database) -> (&DatabaseConnection, String) {
        let name = server(&self.nova.spec, database, self.instance);
        let found = self.backing.databases.iter().find(|opened| opened.server.name() == name);
        (found.unwrap_or_else(|| self.backing.main_database().0), schema(database))
    }

    fn url(&self, database: &Database) -> SecretString {
        let (opened, schema) = self.database(database);
        opened.url(&schema)
    }

    /// The URL of the API's database.
    pub(crate) fn api_url(&self) -> SecretString {
        self.url(&self.nova.spec.api_database())
    }

    /// The URL of the database of cell0, which the services above all cells have for their own.
    pub(crate) fn cell0_url(&self) -> SecretString {
        self.url(&self.nova.spec.cell0_database())
    }

    /// The broker of a cell.
    pub(crate) fn bus(&self, cell: &str) -> &BusConnection {
        self.backing.bus_named(cell)
    }

    /// What the services of a cell have in the place of what `nova.conf` says: its own database and broker.
    fn conf(&self, cell: &Cell) -> Result<Ini, IniError> {
        let mut conf = Ini::new();
        conf.set("database", "connection", self.url(&self.nova.spec.cell_database(&cell.spec)))?;
        self.broker(cell.name(), &mut conf)?;
        Ok(conf)
    }

    /// The configuration of each cell, and the accounts of servers beside the main one.
    pub(crate) fn files(&self) -> Vec<(String, SecretString)> {
        let cells = all(self.nova);
        // What cannot be written was refused when the main file was.
        let confs = cells.iter().filter_map(|cell| Some((cell.conf(), self.conf(cell).ok()?.render())));
        confs.chain(self.accounts()).collect()
    }

    /// The accounts of database servers beside the main one, as PyMySQL reads them.
    pub(crate) fn accounts(&self) -> Vec<(String, SecretString)> {
        let others = self.backing.databases.iter().filter(|opened| opened.server.name() != MAIN_SERVER);
        let file = |opened: &DatabaseConnection| {
            let (user, password) = (&opened.account.username, opened.account.password.expose_secret());
            (account_file(opened), format!("[client]\nuser = \"{user}\"\npassword = \"{password}\"\n").into())
        };
        others.map(file).collect()
    }

    /// The mappings that Nova is to have, by the names of cells: templates, without any password.
    pub(crate) fn mappings(&self) -> Value {
        let zero = json!({
            "database_connection": self.template(&self.nova.spec.cell0_database()), "transport_url": "none:///",
        });
        let of_cell = |cell: &Cell| {
            let database = self.template(&self.nova.spec.cell_database(&cell.spec));
            (cell.name().to_owned(), json!({"database_connection": database, "transport_url": self.transport(cell)}))
        };
        let cells = all(self.nova);
        [(CELL0.to_owned(), zero)].into_iter().chain(cells.iter().map(of_cell)).collect()
    }

    fn template(&self, database: &Database) -> String {
        let (opened, schema) = self.database(database);
        if opened.server.name() == MAIN_SERVER {
            let host = if opened.address.host.contains(':') { "[{hostname}]" } else { "{hostname}" };
            return format!("{{scheme}}://{{username}}:{{password}}@{host}:{{port}}/{schema}?{{query}}");
        }
        format!("{}&read_default_file={FOLDER}/{}", opened.bare_url(&schema), account_file(opened))
    }

    /// The nodes of a cell's broker are written out: they are not the main one's.
    fn transport(&self, cell: &Cell) -> String {
        let account = if self.is_numbered() { "{username1}:{password1}" } else { "{username}:{password}" };
        let (nodes, vhost) = self.bus(cell.name()).place();
        let bracketed = |host: &String| if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let nodes: Vec<String> =
            nodes.iter().map(|(host, port)| format!("{account}@{}:{port}", bracketed(host))).collect();
        format!("rabbit://{}/{vhost}", nodes.join(","))
    }

    /// Whether mappings number the parts of a broker's URL, which Nova does for a broker of several nodes alone.
    fn is_numbered(&self) -> bool {
        let cells = all(self.nova);
        let mut names = [MAIN_BUS].into_iter().chain(cells.iter().map(Cell::name));
        names.any(|name| self.bus(name).place().0.len() > 1)
    }

    /// How services reach a broker. Those of a cell complete mappings from its URL as all others do from the main one, so that where
    /// any broker has several nodes a single one is named twice.
    pub(crate) fn broker(&self, name: &str, conf: &mut Ini) -> Result<(), IniError> {
        let bus = self.bus(name);
        crate::config::broker(bus, conf)?;
        let (nodes, _) = bus.place();
        if self.is_numbered() && nodes.len() == 1 {
            conf.set("DEFAULT", "transport_url", twice(&bus.url()))?;
        }
        Ok(())
    }
}

/// A URL that names its only node twice.
fn twice(url: &SecretString) -> SecretString {
    let named = |url: &str| {
        let (scheme, rest) = url.split_once("://")?;
        let (node, path) = rest.split_once('/')?;
        Some(format!("{scheme}://{node},{node}/{path}"))
    };
    named(url.expose_secret()).map_or_else(|| url.clone(), Into::into)
}

fn account_file(opened: &DatabaseConnection) -> String {
    format!("{}.cnf", opened.server.name())
}
