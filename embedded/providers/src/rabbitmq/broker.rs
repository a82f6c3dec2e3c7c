//! Which broker a Vhost, User or Permission is about, and how to log in there.

use c5c3_api::ext::rabbitmq::{ALLOWED_NAMESPACES, RabbitmqCluster, RabbitmqClusterRef};
use kube::{Client, ResourceExt};
use rustls::ClientConfig;

use crate::failure::Error;
use crate::http::{Server, trusting};
use crate::objects;

/// The ports of the management interface, in the clear and with TLS.
const MANAGEMENT: u16 = 15672;
const MANAGEMENT_TLS: u16 = 15671;

/// How it stands with the broker that an object names.
pub(super) enum Broker {
    /// It can be talked to.
    There(Server),
    /// It is gone or going, with everything in it.
    Gone,
}

impl Broker {
    /// The broker that an object of `namespace` names.
    pub(super) async fn of(client: &Client, namespace: &str, reference: &RabbitmqClusterRef) -> Result<Self, Error> {
        if let Some(secret) = &reference.connection_secret {
            return by_secret(client, namespace, &secret.name).await;
        }
        let Some(name) = &reference.name else {
            let what = "spec.rabbitmqClusterReference: neither name nor connectionSecret is set";
            return Err(Error::Missing(what.into()));
        };
        let home = reference.namespace.as_deref().unwrap_or(namespace);
        let Some(cluster) = objects::find::<RabbitmqCluster>(client, home, name).await? else {
            return Ok(Self::Gone);
        };
        if cluster.metadata.deletion_timestamp.is_some() {
            return Ok(Self::Gone);
        }
        if !admits(&cluster, namespace) {
            return Err(Error::Missing(format!(
                "the RabbitmqCluster {home}/{name} does not admit objects of {namespace}: add it to its annotation \
                 {ALLOWED_NAMESPACES}"
            )));
        }
        let binding = cluster.status.as_ref().and_then(|status| status.binding.clone());
        let binding =
            binding.ok_or_else(|| Error::Missing(format!("the RabbitmqCluster {home}/{name} has no status yet")))?;
        let secret = objects::secret(client, home, &binding.name).await?.unwrap_or_default();
        let (Some(user), Some(password)) = (secret.get("username"), secret.get("password")) else {
            return Err(Error::Missing(format!("the Secret {home}/{} has no username and password", binding.name)));
        };
        let host = format!("{name}.{home}.svc");
        let server = match trusted(client, home, &cluster).await? {
            Some(trusted) => Server::new(client, &format!("https://{host}:{MANAGEMENT_TLS}"), Some(trusted))?,
            None => Server::new(client, &format!("http://{host}:{MANAGEMENT}"), None)?,
        };
        Ok(Self::There(server.basic(user, password)?))
    }
}

/// Whom to trust to vouch for a broker; none if it speaks no TLS.
async fn trusted(client: &Client, home: &str, cluster: &RabbitmqCluster) -> Result<Option<ClientConfig>, Error> {
    let Some(name) = cluster.spec.tls.as_ref().and_then(|tls| tls.secret_name.as_ref()) else { return Ok(None) };
    let secret = objects::secret(client, home, name).await?.unwrap_or_default();
    let trusted = secret.get("ca.crt").and_then(|authorities| trusting(authorities.as_bytes()));
    let missing = || Error::Missing(format!("the Secret {home}/{name} has no authority in ca.crt that can be trusted"));
    trusted.map(Some).ok_or_else(missing)
}

/// A broker that has no object, by a Secret that tells how to reach it.
async fn by_secret(client: &Client, namespace: &str, name: &str) -> Result<Broker, Error> {
    let secret = objects::secret(client, namespace, name).await?;
    let secret = secret.ok_or_else(|| Error::Missing(format!("the Secret {name} is not there")))?;
    let part = |key: &str| secret.get(key).ok_or_else(|| Error::Missing(format!("the Secret {name} has no {key}")));
    let server = Server::new(client, part("uri")?, None)?;
    Ok(Broker::There(server.basic(part("username")?, part("password")?)?))
}

/// Whether a cluster takes objects of a namespace.
fn admits(cluster: &RabbitmqCluster, namespace: &str) -> bool {
    let home = cluster.metadata.namespace.as_deref();
    let admitted = cluster.annotations().get(ALLOWED_NAMESPACES).map(String::as_str).unwrap_or_default();
    home == Some(namespace) || admitted.split(',').map(str::trim).any(|name| name == "*" || name == namespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::cluster;
    use serde_json::json;

    #[test]
    fn objects_of_other_namespaces_are_admitted_by_annotation() {
        let mut cluster = cluster(json!({}));
        assert!(admits(&cluster, "warren") && !admits(&cluster, "meadow"));
        let annotate = |cluster: &mut RabbitmqCluster, value: &str| {
            cluster.metadata.annotations = Some([(ALLOWED_NAMESPACES.to_owned(), value.to_owned())].into());
        };
        annotate(&mut cluster, "field, meadow");
        assert!(admits(&cluster, "meadow") && !admits(&cluster, "mead"));
        annotate(&mut cluster, "*");
        assert!(admits(&cluster, "mead"));
    }
}
