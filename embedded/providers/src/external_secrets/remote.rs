//! A KV engine of OpenBao or Vault, as a store names it: how to log in, read, write and delete.

use c5c3_api::ext::external_secrets::{
    CaProviderKind, KubernetesAuth, KvVersion, RemoteKey, SecretRef, StoreKind, Vault,
};
use http::{Method, StatusCode, header};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, Client};
use rustls::ClientConfig;
use serde_json::{Map, Value, json};

use crate::failure::Error;
use crate::http::{HttpError, Server, encoded, trusting};
use crate::objects;
use crate::store::{ACCOUNT, AUDIENCE};

/// What External Secrets writes beside a secret that it looks after.
const OURS: (&str, &str) = ("managed-by", "external-secrets");

/// Where a store is: a ClusterSecretStore's references name their namespaces, a SecretStore's are of its own.
pub(super) struct Home<'a> {
    pub(super) kind: StoreKind,
    pub(super) namespace: &'a str,
}

impl Home<'_> {
    fn namespace(&self, named: Option<&str>) -> Result<String, Error> {
        match (self.kind, named) {
            (StoreKind::ClusterSecretStore, Some(named)) => Ok(named.to_owned()),
            (StoreKind::ClusterSecretStore, None) => {
                Err(Error::Missing("a ClusterSecretStore must name the namespace of what it refers to".into()))
            }
            _ => Ok(self.namespace.to_owned()),
        }
    }
}

/// An engine that can be talked to.
pub(super) struct Remote {
    server: Server,
    mount: String,
}

impl Remote {
    /// Logs in.
    pub(super) async fn connect(client: &Client, vault: &Vault, home: &Home<'_>) -> Result<Self, Error> {
        if vault.version == Some(KvVersion::V1) {
            return Err(Error::Missing("spec.provider.vault.version: only v2 is provided".into()));
        }
        let mount = vault.path.as_deref().unwrap_or_default().trim_matches('/').to_owned();
        if mount.is_empty() {
            return Err(Error::Missing("spec.provider.vault.path: the mount of the KV engine is needed".into()));
        }
        let server = Server::new(client, &vault.server, trust(client, vault, home).await?)?.keeps_secrets()?;
        let token = token(client, vault, home, &server).await?;
        let server = server.header(header::HeaderName::from_static("x-vault-token"), &token)?;
        server.send(Method::GET, "/v1/auth/token/lookup-self", None).await?;
        Ok(Self { server, mount })
    }

    /// Where a secret is. Its key may have the mount in front, and `data` behind that.
    fn path(&self, part: &str, key: &str) -> String {
        let key = RemoteKey::new(&self.mount, key);
        let key: Vec<String> = key.as_str().split('/').map(encoded).collect();
        format!("/v1/{}/{part}/{}", self.mount, key.join("/"))
    }

    /// The data of a secret; none if there is no such secret, or no such version.
    pub(super) async fn read(&self, key: &str, version: Option<&str>) -> Result<Option<Map<String, Value>>, Error> {
        let query = version.map(|version| format!("?version={}", encoded(version))).unwrap_or_default();
        let answer = self.server.send(Method::GET, &format!("{}{query}", self.path("data", key)), None).await;
        Ok(found(answer)?.and_then(|answer| answer["data"]["data"].as_object().cloned()))
    }

    /// Replaces the data of a secret, which must be ours if it is there.
    pub(super) async fn write(&self, key: &str, data: &Map<String, Value>) -> Result<(), Error> {
        let metadata = found(self.server.send(Method::GET, &self.path("metadata", key), None).await)?;
        match metadata {
            None => {
                let ours = json!({"custom_metadata": {OURS.0: OURS.1}});
                self.server.send(Method::POST, &self.path("metadata", key), Some(&ours)).await?;
            }
            Some(metadata) if metadata["data"]["custom_metadata"][OURS.0] != OURS.1 => {
                return Err(Error::Missing(format!(
                    "{key} is in the store already and is not managed by external-secrets"
                )));
            }
            Some(_) => {}
        }
        self.server.send(Method::POST, &self.path("data", key), Some(&json!({"data": data}))).await?;
        Ok(())
    }

    /// Deletes a secret with all its versions, if it is ours.
    pub(super) async fn delete(&self, key: &str) -> Result<(), Error> {
        let metadata = found(self.server.send(Method::GET, &self.path("metadata", key), None).await)?;
        if metadata.is_some_and(|metadata| metadata["data"]["custom_metadata"][OURS.0] == OURS.1) {
            self.server.send(Method::DELETE, &self.path("metadata", key), None).await?;
        }
        Ok(())
    }
}

/// The answer, if what was asked for is there.
fn found(answer: Result<Value, HttpError>) -> Result<Option<Value>, HttpError> {
    match answer {
        Err(HttpError::Refused { status: StatusCode::NOT_FOUND, .. }) => Ok(None),
        other => other.map(Some),
    }
}

/// Whom to trust to vouch for the server; none if it speaks no TLS.
async fn trust(client: &Client, vault: &Vault, home: &Home<'_>) -> Result<Option<ClientConfig>, Error> {
    if !vault.server.starts_with("https://") {
        return Ok(None);
    }
    let pem = match (&vault.ca_bundle, &vault.ca_provider) {
        (Some(bundle), _) => bundle.0.clone(),
        (None, Some(provider)) => {
            let namespace = home.namespace(provider.namespace.as_deref())?;
            let (name, key) = (&provider.name, provider.key.as_deref().unwrap_or("ca.crt"));
            let data = match provider.r#type {
                CaProviderKind::ConfigMap => {
                    let map = objects::find::<ConfigMap>(client, &namespace, name).await?;
                    map.and_then(|map| map.data?.remove(key))
                }
                _ => objects::secret(client, &namespace, name).await?.and_then(|mut secret| secret.remove(key)),
            };
            let missing = || Error::Missing(format!("spec.provider.vault.caProvider: {namespace}/{name} has no {key}"));
            data.ok_or_else(missing)?.into_bytes()
        }
        (None, None) => return Err(Error::Missing("spec.provider.vault: https needs caBundle or caProvider".into())),
    };
    let wrong = || Error::Missing("spec.provider.vault: the authority's certificate cannot be read".into());
    trusting(&pem).map(Some).ok_or_else(wrong)
}

/// Whose token is sent: the namespace and the name of a service account, and the audiences.
///
/// Without a reference it is External Secrets' own, for the server that an administrator of the cluster names. Whoever may
/// write a SecretStore names any server, and would be given what lets External Secrets in elsewhere. Its audience is that of
/// stores: no server can use it at the API.
fn account<'a>(auth: &'a KubernetesAuth, home: &Home<'_>) -> Result<(String, &'a str, Vec<String>), Error> {
    match (&auth.service_account_ref, home.kind) {
        (Some(account), _) => {
            Ok((home.namespace(account.namespace.as_deref())?, account.name.as_str(), account.audiences.clone()))
        }
        (None, StoreKind::ClusterSecretStore) => Ok((ACCOUNT.to_owned(), ACCOUNT, vec![AUDIENCE.to_owned()])),
        (None, _) => Err(Error::Missing(
            "spec.provider.vault.auth.kubernetes.serviceAccountRef: a SecretStore must name a service account of its \
             namespace; External Secrets' own is for ClusterSecretStores"
                .into(),
        )),
    }
}

async fn token(client: &Client, vault: &Vault, home: &Home<'_>, server: &Server) -> Result<String, Error> {
    let auth = vault.auth.clone().unwrap_or_default();
    if let Some(reference) = &auth.token_secret_ref {
        return secret_value(client, home, reference, "token").await;
    }
    let Some(kubernetes) = &auth.kubernetes else {
        return Err(Error::Missing("spec.provider.vault.auth: tokenSecretRef and kubernetes are provided".into()));
    };
    let (namespace, name, audiences) = account(kubernetes, home)?;
    let spec = TokenRequestSpec { audiences, expiration_seconds: Some(600), bound_object_ref: None };
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), &namespace);
    let jwt = accounts.create_token_request(name, &PostParams::default(), &request).await;
    let jwt = jwt.map_err(Error::api(format!("get a token of the service account {namespace}/{name}")))?;
    let jwt = jwt.status.map(|status| status.token).unwrap_or_default();
    let mount = if kubernetes.mount_path.is_empty() { "kubernetes" } else { kubernetes.mount_path.trim_matches('/') };
    let path = format!("/v1/auth/{mount}/login");
    let answer = server.send(Method::POST, &path, Some(&json!({"role": kubernetes.role, "jwt": jwt}))).await?;
    let token = answer["auth"]["client_token"].as_str().map(str::to_owned);
    token.ok_or_else(|| Error::Missing(format!("{path} gave no token")))
}

async fn secret_value(client: &Client, home: &Home<'_>, reference: &SecretRef, default: &str) -> Result<String, Error> {
    let namespace = home.namespace(reference.namespace.as_deref())?;
    let (name, key) = (reference.name.as_deref().unwrap_or_default(), reference.key.as_deref().unwrap_or(default));
    let secret = objects::secret(client, &namespace, name).await?.unwrap_or_default();
    let value = secret.get(key).map(|value| value.trim().to_owned());
    value.ok_or_else(|| Error::Missing(format!("the Secret {namespace}/{name} has no {key}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn external_secrets_own_token_goes_to_servers_that_administrators_name() {
        let of = |kind: StoreKind, reference: Value| {
            let auth = json!({"mountPath": "kubernetes", "role": "r", "serviceAccountRef": reference});
            let auth: KubernetesAuth = serde_json::from_value(auth).unwrap();
            let account = account(&auth, &Home { kind, namespace: "home" });
            account.map(|(namespace, name, audiences)| format!("{namespace}/{name} for {audiences:?}"))
        };
        let own = of(StoreKind::ClusterSecretStore, Value::Null);
        assert_eq!(own.unwrap(), r#"external-secrets/external-secrets for ["vault"]"#, "not for the API");
        let refused = of(StoreKind::SecretStore, Value::Null).unwrap_err().to_string();
        assert!(refused.contains("serviceAccountRef: a SecretStore must name a service account"), "{refused}");
        // Another namespace's account is not a SecretStore's to use.
        let named = of(StoreKind::SecretStore, json!({"name": "external-secrets", "namespace": "external-secrets"}));
        assert_eq!(named.unwrap(), "home/external-secrets for []", "as the reference says");
    }

    #[tokio::test]
    async fn a_server_elsewhere_is_sent_no_token_without_tls() {
        // Neither the API nor the server can be reached: it is refused before either is asked.
        let client = Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let vault = json!({"server": "http://192.0.2.1:8200", "path": "kv-v2", "version": "v2",
            "auth": {"kubernetes": {"mountPath": "kubernetes", "role": "r", "serviceAccountRef": {"name": "a"}}}});
        let vault: Vault = serde_json::from_value(vault).unwrap();
        let home = Home { kind: StoreKind::SecretStore, namespace: "home" };
        let refused = Remote::connect(&client, &vault, &home).await.err().unwrap().to_string();
        assert!(refused.contains("192.0.2.1:8200 is not on this machine and is talked to without TLS"), "{refused}");
    }
}
