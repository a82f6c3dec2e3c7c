//! `clouds.yaml`: how the OpenStack client signs in, in a file of the cluster's own that only its owner may read.

use std::path::{Path, PathBuf};

use c5c3_cluster::Folder;
use c5c3_files::write_private;
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::{Api, Client};
use serde_json::{Value, json};

/// What the client knows the cloud as.
pub(crate) const CLOUD: &str = "c5c3";

/// Where the file is.
pub(crate) fn path(folder: &Folder) -> PathBuf {
    folder.path().join("clouds.yaml")
}

/// Who signs in, and where.
struct Login {
    url: String,
    user: String,
    password: String,
    region: String,
    /// The file with whom to trust; none without TLS.
    authorities: Option<PathBuf>,
}

/// Writes the file for the administrator of a Keystone, unless it is as it should be.
pub(super) async fn write(client: &Client, folder: &Folder, keystone: &Value) -> Result<(), String> {
    let mut login = login(client, keystone).await?;
    let failed = |path: &Path, error| format!("cannot write {}: {error}", path.display());
    if let Some(authorities) = authorities(client, keystone).await? {
        let path = folder.path().join("clouds-ca.crt");
        if std::fs::read_to_string(&path).ok().as_ref() != Some(&authorities) {
            write_private(&path, authorities.as_bytes()).map_err(|error| failed(&path, error))?;
        }
        login.authorities = Some(path);
    }
    let path = path(folder);
    let text = text(&login)?;
    if std::fs::read_to_string(&path).is_ok_and(|now| now == text) {
        return Ok(());
    }
    write_private(&path, text.as_bytes()).map_err(|error| failed(&path, error))
}

fn text(login: &Login) -> Result<String, String> {
    serde_saphyr::to_string(&document(login)).map_err(|error| format!("cannot write clouds.yaml: {error}"))
}

/// The certificate authority of Keystone's certificate, PEM; none without TLS, or if a public authority signed it.
async fn authorities(client: &Client, keystone: &Value) -> Result<Option<String>, String> {
    let tls = &keystone["spec"]["tls"];
    if tls["enabled"] != true {
        return Ok(None);
    }
    let namespace = keystone["metadata"]["namespace"].as_str().unwrap_or_default();
    let name = tls["certSecretRef"]["name"].as_str().unwrap_or("keystone-api-tls");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = secrets.get(name).await.map_err(|error| format!("cannot read secret/{name}: {error}"))?;
    let text = found.data.unwrap_or_default().remove("ca.crt").map(|text| String::from_utf8(text.0));
    text.transpose().map_err(|_| format!("secret/{name}: ca.crt is not text"))
}

async fn login(client: &Client, keystone: &Value) -> Result<Login, String> {
    let namespace = keystone["metadata"]["namespace"].as_str().unwrap_or_default();
    let bootstrap = &keystone["spec"]["bootstrap"];
    let secret = &bootstrap["adminPasswordSecretRef"];
    let name = secret["name"].as_str().unwrap_or("keystone-admin-credentials");
    let key = secret["key"].as_str().unwrap_or("password");
    let failed = |what: &str, error: kube::Error| format!("cannot read {what}: {error}");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = secrets.get(name).await.map_err(|error| failed(&format!("secret/{name}"), error))?;
    let password =
        found.data.unwrap_or_default().remove(key).ok_or_else(|| format!("secret/{name} has no key {key}"))?;
    let password = String::from_utf8(password.0).map_err(|_| format!("secret/{name}: {key} is not text"))?;
    Ok(Login {
        url: url(client, namespace, keystone).await?,
        user: bootstrap["adminUser"].as_str().unwrap_or("admin").to_owned(),
        password,
        region: bootstrap["region"].as_str().unwrap_or("RegionOne").to_owned(),
        authorities: None,
    })
}

/// Where this machine reaches Keystone.
pub(super) async fn url(client: &Client, namespace: &str, keystone: &Value) -> Result<String, String> {
    let name = keystone["metadata"]["name"].as_str().unwrap_or("keystone");
    let tls = keystone["spec"]["tls"]["enabled"] == true;
    Ok(format!("{}/v3", address(client, namespace, name, tls).await?))
}

/// Where this machine reaches an API: names of the cluster mean nothing to it, the addresses of Services do.
pub(super) async fn address(client: &Client, namespace: &str, name: &str, tls: bool) -> Result<String, String> {
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let service = services.get(name).await.map_err(|error| format!("cannot read service/{name}: {error}"))?;
    let spec = service.spec.unwrap_or_default();
    let address = spec.cluster_ip.ok_or_else(|| format!("service/{name} has no address"))?;
    let port = spec.ports.unwrap_or_default().first().map(|port| port.port);
    let port = port.ok_or_else(|| format!("service/{name} has no port"))?;
    Ok(format!("{}://{address}:{port}", if tls { "https" } else { "http" }))
}

fn document(login: &Login) -> Value {
    let mut document = json!({"clouds": {CLOUD: {
        "auth": {
            "auth_url": login.url,
            "username": login.user,
            "password": login.password,
            "project_name": "admin",
            "user_domain_name": "Default",
            "project_domain_name": "Default",
        },
        "region_name": login.region,
        "identity_api_version": 3,
        "interface": "public",
    }}});
    if let Some(authorities) = &login.authorities {
        document["clouds"][CLOUD]["cacert"] = json!(authorities);
    }
    document
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_file_is_the_owners_alone_and_reads_as_yaml() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clouds.yaml");
        let login = Login {
            url: "http://10.0.0.1:5000/v3".into(),
            user: "admin".into(),
            password: "it's \"quoted\": #1".into(),
            region: "RegionOne".into(),
            authorities: Some("/lab/clouds-ca.crt".into()),
        };
        let text = text(&login).unwrap();
        assert!(text.lines().count() > 10 && text.starts_with("clouds:\n"), "people read it: {text}");
        write_private(&path, text.as_bytes()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let read: Value = serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(read["clouds"]["c5c3"]["auth"]["password"], "it's \"quoted\": #1");
        assert_eq!(read["clouds"]["c5c3"]["cacert"], "/lab/clouds-ca.crt");
    }
}
