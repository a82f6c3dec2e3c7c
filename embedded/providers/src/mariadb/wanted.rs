//! What a MariaDB asks for, with what it leaves open filled in: after this type nothing is refused any more.

use std::collections::BTreeMap;

use c5c3_api::blocks::Resources;
use c5c3_api::ext::IssuerRef;
use c5c3_api::ext::mariadb::{Affinity, DisruptionBudget, MariaDB, MariaDBTls, PvcRetentionPolicy, ServiceType};
use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

/// The image of servers that ask for none.
pub(super) const IMAGE: &str = "ghcr.io/c5c3/mariadb:11.8.6";

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) replicas: i32,
    pub(super) galera: bool,
    pub(super) auto_failover: bool,
    pub(super) image: String,
    pub(super) port: i32,
    pub(super) my_cnf: String,
    pub(super) root: RootPassword,
    pub(super) volume: Volume,
    /// What becomes of claims; they stay when absent.
    pub(super) retention: Option<PvcRetentionPolicy>,
    pub(super) tls: Option<Tls>,
    pub(super) resources: Option<Resources>,
    pub(super) node_selector: BTreeMap<String, String>,
    pub(super) affinity: Option<Affinity>,
    pub(super) tolerations: Vec<Toleration>,
    pub(super) priority_class: Option<String>,
    pub(super) budget: Option<DisruptionBudget>,
    pub(super) primary_service: Option<ServiceType>,
    /// Whether an exporter is asked for, which there is none of.
    pub(super) metrics: bool,
}

/// Where root's password is.
#[derive(Clone, Debug)]
pub(super) struct RootPassword {
    pub(super) secret: String,
    pub(super) key: String,
    pub(super) generate: bool,
}

/// Where the data is.
#[derive(Clone, Debug)]
pub(super) enum Volume {
    /// Gone with the pod.
    Ephemeral,
    /// A claim of each pod.
    Claim { size: String, class: Option<String> },
}

/// Encryption between the servers and their clients.
#[derive(Clone, Debug)]
pub(super) struct Tls {
    pub(super) required: bool,
    pub(super) server: IssuerRef,
    pub(super) client: IssuerRef,
    /// Whether what a member copies from another is encrypted, as everything else between them is.
    pub(super) transfers: bool,
}

impl Wanted {
    /// Reads what is asked for. Whatever cannot be had is refused by its field.
    pub(super) fn of(mariadb: &MariaDB) -> Result<Self, String> {
        let spec = mariadb.spec.clone();
        let name = mariadb.name_any();
        let replicas = spec.replicas.unwrap_or(1);
        let galera = spec.galera.as_ref().is_some_and(|galera| galera.enabled);
        if replicas > 1 && !galera {
            return Err("spec.replicas: several servers without spec.galera.enabled would be a replication of their \
                        own, which the embedded cluster does not have; enable Galera, or set replicas to 1"
                .into());
        }
        if let Some(proxy) = &spec.max_scale_ref {
            return Err(format!(
                "spec.maxScaleRef: the embedded cluster has no MaxScale ({}); leave it out, and connect to the \
                 Service {name}-primary",
                proxy.name
            ));
        }
        if spec.bootstrap_from.is_some() {
            return Err(
                "spec.bootstrapFrom: is not provided on the embedded cluster; leave it out, and create a Restore \
                        when the server is ready"
                    .into(),
            );
        }
        let storage = spec.storage.unwrap_or_default();
        let volume = match (storage.ephemeral.unwrap_or(false), storage.size) {
            (true, _) => Volume::Ephemeral,
            (false, Some(size)) => Volume::Claim { size: size.as_str().to_owned(), class: storage.storage_class_name },
            (false, None) => {
                return Err("spec.storage.size: is missing; give a size, or set spec.storage.ephemeral to true".into());
            }
        };
        let primary = spec.galera.as_ref().and_then(|galera| galera.primary.clone()).unwrap_or_default();
        let root = spec.root_password_secret_key_ref;
        Ok(Self {
            replicas,
            galera,
            auto_failover: primary.auto_failover.unwrap_or(true),
            image: spec.image.unwrap_or_else(|| IMAGE.into()),
            port: spec.port.unwrap_or(3306),
            my_cnf: spec.my_cnf.unwrap_or_default(),
            root: RootPassword {
                secret: root_secret(mariadb),
                key: root.as_ref().map_or_else(|| "password".into(), |root| root.key.clone()),
                generate: root.is_none_or(|root| root.generate.unwrap_or(false)),
            },
            volume,
            retention: storage.pvc_retention_policy,
            tls: tls(spec.tls.as_ref())?,
            resources: spec.resources,
            node_selector: spec.node_selector,
            affinity: spec.affinity,
            tolerations: spec.tolerations,
            priority_class: spec.priority_class_name,
            budget: spec.pod_disruption_budget.or_else(|| (replicas > 1).then(one_at_a_time)),
            primary_service: spec.primary_service.and_then(|service| service.r#type),
            metrics: spec.metrics.is_some_and(|metrics| metrics.enabled),
            namespace: mariadb.namespace().unwrap_or_default(),
            name,
        })
    }

    /// The pod of that number.
    pub(super) fn pod(&self, index: i32) -> String {
        format!("{}-{index}", self.name)
    }

    /// Every pod's name, the first first.
    pub(super) fn pods(&self) -> impl Iterator<Item = String> {
        (0..self.replicas).map(|index| self.pod(index))
    }

    /// The Service that names each pod.
    pub(super) fn internal_service(&self) -> String {
        format!("{}-internal", self.name)
    }

    /// The ConfigMap with configuration and scripts.
    pub(super) fn config_map(&self) -> String {
        format!("{}-server", self.name)
    }

    /// The claim of a pod.
    pub(super) fn claim(&self, index: i32) -> String {
        format!("storage-{}-{index}", self.name)
    }
}

/// The Secret with root's password.
pub(super) fn root_secret(mariadb: &MariaDB) -> String {
    let named = mariadb.spec.root_password_secret_key_ref.as_ref();
    named.map_or_else(|| format!("{}-root", mariadb.name_any()), |root| root.name.clone())
}

fn one_at_a_time() -> DisruptionBudget {
    DisruptionBudget { max_unavailable: Some(IntOrString::Int(1)), min_available: None }
}

/// Who signs, for servers and clients. Without a word about it there is none but what servers make up themselves.
fn tls(asked: Option<&MariaDBTls>) -> Result<Option<Tls>, String> {
    let Some(asked) = asked.filter(|asked| asked.enabled) else { return Ok(None) };
    let unknown = [
        ("serverCertSecretRef", asked.server_cert_secret_ref.is_some()),
        ("serverCASecretRef", asked.server_ca_secret_ref.is_some()),
        ("clientCertSecretRef", asked.client_cert_secret_ref.is_some()),
        ("clientCASecretRef", asked.client_ca_secret_ref.is_some()),
    ];
    if let Some((field, _)) = unknown.iter().find(|(_, is_set)| *is_set) {
        return Err(format!("spec.tls.{field}: is not provided on the embedded cluster; name issuers instead"));
    }
    let Some(server) = asked.server_cert_issuer_ref.clone() else {
        return Err(
            "spec.tls.serverCertIssuerRef: is missing; the embedded cluster signs nothing by itself, so name an \
                    issuer"
                .into(),
        );
    };
    let client = asked.client_cert_issuer_ref.clone().unwrap_or_else(|| server.clone());
    let transfers = asked.galera_sst_enabled.unwrap_or(true);
    Ok(Some(Tls { required: asked.required.unwrap_or(false), server, client, transfers }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::mariadb;

    fn wanted(spec: Value) -> Result<Wanted, String> {
        Wanted::of(&mariadb(spec))
    }

    #[test]
    fn what_is_left_open_is_filled_in_as_mariadb_operator_does() {
        let wanted = wanted(json!({"storage": {"size": "1Gi"}})).unwrap();
        assert_eq!((wanted.replicas, wanted.port, wanted.image.as_str()), (1, 3306, IMAGE));
        assert_eq!((wanted.root.secret.as_str(), wanted.root.generate), ("ledger-root", true));
        assert!(wanted.tls.is_none() && !wanted.galera);
    }

    #[test]
    fn what_cannot_be_had_is_refused_by_its_field() {
        let refused = |spec: Value| wanted(spec).map(drop).unwrap_err();
        assert!(refused(json!({"replicas": 3, "storage": {"size": "1Gi"}})).starts_with("spec.replicas:"));
        assert!(refused(json!({"maxScaleRef": {"name": "usher"}})).starts_with("spec.maxScaleRef:"));
        assert!(refused(json!({})).starts_with("spec.storage.size:"));
        let full = json!({"storage": {"size": "1Gi"}, "bootstrapFrom": {"backupRef": {"name": "nightly"}}});
        assert!(refused(full).starts_with("spec.bootstrapFrom:"));
        let tls = |tls: Value| refused(json!({"storage": {"ephemeral": true}, "tls": tls}));
        assert!(tls(json!({"enabled": true})).starts_with("spec.tls.serverCertIssuerRef:"));
        assert!(
            tls(json!({"enabled": true, "serverCASecretRef": {"name": "x"}}))
                .starts_with("spec.tls.serverCASecretRef:")
        );
    }
}
