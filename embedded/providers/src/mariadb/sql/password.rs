//! Tells servers root's password when it has changed.

use c5c3_api::ext::mariadb::MariaDB;
use kube::Client;

use super::connection::{Access, SqlError};
use super::statements;
use crate::failure::Error;
use crate::mariadb::root;
use crate::mariadb::wanted::Wanted;

/// Gives root the password that is asked for, if servers have another one; else says why they cannot be told.
pub(in crate::mariadb) async fn follow(
    client: &Client,
    mariadb: &MariaDB,
    wanted: &Wanted,
    asked: &str,
) -> Result<Option<String>, Error> {
    let before = root::in_force(client, wanted).await?;
    let Some(before) = before.filter(|before| before != asked) else { return Ok(None) };
    let access = async |password: &str| Access::with(password, mariadb, wanted, client).await;
    let (Some(as_before), Some(as_asked)) = (access(&before).await?, access(asked).await?) else { return Ok(None) };
    let told = match as_before.carry_out(&statements::root(asked)).await {
        // They were told, and no one was left to remember it; or they began with it.
        Err(SqlError::Denied { .. }) => as_asked.carry_out(&[]).await,
        other => other,
    };
    match told {
        Ok(()) => root::remember(client, mariadb, wanted, asked).await.map(|()| None),
        Err(SqlError::Denied { .. }) => Ok(Some(format!(
            "spec.rootPasswordSecretKeyRef: servers take neither the password of secret/{} nor the one before; write \
             the one that they have into it",
            wanted.root.secret
        ))),
        Err(error) => Ok(Some(format!("spec.rootPasswordSecretKeyRef: the new password cannot be told: {error}"))),
    }
}
