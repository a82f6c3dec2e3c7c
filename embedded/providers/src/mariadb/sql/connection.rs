//! A connection to a server as its root.

use std::time::Duration;

use c5c3_api::ext::mariadb::MariaDB;
use k8s_openapi::api::core::v1::Service;
use kube::{Client, ResourceExt};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, SslOpts};

use super::statements::Statement;
use crate::failure::Error;
use crate::mariadb::wanted::Wanted;
use crate::mariadb::{root, tls};
use crate::objects;

/// How long a server may take to let us in, and to do one thing.
const PATIENCE: Duration = Duration::from_secs(20);

/// Codes of errors that say that there is nothing left to take back.
const NOTHING_THERE: &[u16] = &[
    1141, // ER_NONEXISTING_GRANT
    1147, // ER_NONEXISTING_TABLE_GRANT
    1269, // ER_REVOKE_GRANTS
];

/// The code of the error that says that a password is wrong: `ER_ACCESS_DENIED_ERROR`.
const DENIED: u16 = 1045;

/// Why a server did not do what it was told. Never holds what that was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SqlError {
    /// It cannot be reached, or does not let us in.
    #[error("cannot connect to {server}: {why}")]
    Unreachable {
        /// Which.
        server: String,
        /// Why.
        why: String,
    },
    /// It does not take the password.
    #[error("{server} does not let root in: {why}")]
    Denied {
        /// Which.
        server: String,
        /// Why.
        why: String,
    },
    /// It refuses.
    #[error("{server} refuses: {why}")]
    Refused {
        /// Which.
        server: String,
        /// The server's words, without what it quotes of the statement.
        why: String,
        /// The code of its error.
        code: u16,
    },
    /// It does not answer in time.
    #[error("{0} does not answer")]
    Silent(String),
}

impl SqlError {
    /// Whether what was to be taken back is not there.
    pub(super) fn is_nothing_there(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if NOTHING_THERE.contains(code))
    }
}

/// A server, and how to get in.
pub(super) struct Access {
    server: String,
    options: OptsBuilder,
}

impl Access {
    /// The way to the server that takes the writes; none while there is no address or password.
    pub(super) async fn to(mariadb: &MariaDB, client: &Client) -> Result<Option<Self>, Error> {
        let Ok(wanted) = Wanted::of(mariadb) else { return Ok(None) };
        match root::in_force(client, &wanted).await? {
            Some(password) => Self::with(&password, mariadb, &wanted, client).await,
            None => Ok(None),
        }
    }

    /// The same with this password; none while there is no address.
    pub(super) async fn with(
        password: &str,
        mariadb: &MariaDB,
        wanted: &Wanted,
        client: &Client,
    ) -> Result<Option<Self>, Error> {
        let name = mariadb.write_service().unwrap_or_else(|| mariadb.name_any());
        let service = objects::find::<Service>(client, &wanted.namespace, &name).await?;
        let Some(address) = service.and_then(|service| service.spec?.cluster_ip) else { return Ok(None) };
        let authorities = match &wanted.tls {
            Some(_) => objects::secret(client, &wanted.namespace, &tls::bundle_secret(&wanted.name)).await?,
            None => None,
        };
        let ssl = authorities.and_then(|mut values| values.remove("ca.crt")).map(|authorities| {
            SslOpts::default()
                .with_root_certs(vec![authorities.into_bytes().into()])
                .with_disable_built_in_roots(true)
                .with_danger_tls_hostname_override(Some(format!("{name}.{}.svc", wanted.namespace)))
        });
        let options = OptsBuilder::default()
            .ip_or_hostname(address)
            .tcp_port(u16::try_from(wanted.port).unwrap_or(3306))
            .user(Some("root"))
            .pass(Some(password))
            .prefer_socket(false)
            .ssl_opts(ssl)
            .setup(vec!["SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'"]);
        Ok(Some(Self { server: format!("mariadb/{}", wanted.name), options }))
    }

    /// Carries out statements, one after the other.
    pub(super) async fn carry_out(&self, statements: &[Statement]) -> Result<(), SqlError> {
        let mut connection = self.connect().await?;
        for statement in statements {
            let done = tokio::time::timeout(PATIENCE, connection.query_drop(statement.text())).await;
            done.map_err(|_| SqlError::Silent(self.server.clone()))?.map_err(|error| self.refused(&error))?;
        }
        let _ = connection.disconnect().await;
        Ok(())
    }

    async fn connect(&self) -> Result<Conn, SqlError> {
        let connected = tokio::time::timeout(PATIENCE, Conn::new(self.options.clone())).await;
        let failed = |error: mysql_async::Error| {
            let (server, why) = (self.server.clone(), error.to_string());
            match error {
                mysql_async::Error::Server(said) if said.code == DENIED => SqlError::Denied { server, why },
                _ => SqlError::Unreachable { server, why },
            }
        };
        connected.map_err(|_| SqlError::Silent(self.server.clone()))?.map_err(failed)
    }

    /// A server that does not understand a statement quotes it, which may hold a password: that part is left out.
    fn refused(&self, error: &mysql_async::Error) -> SqlError {
        let server = self.server.clone();
        match error {
            mysql_async::Error::Server(said) => {
                let message = said.message.split(" near '").next().unwrap_or_default();
                SqlError::Refused { server, why: format!("{message} ({})", said.code), code: said.code }
            }
            other => SqlError::Unreachable { server, why: other.to_string() },
        }
    }
}
