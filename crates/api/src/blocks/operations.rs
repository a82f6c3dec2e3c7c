//! How a service is run, whichever service it is: registries, logs, extra files, trust, Jobs, worker processes.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::text::text;
use super::{DataKey, LocalRef, ObjectName, Resources, SecretKeyRef};

/// Settings for operating a service that do not depend on which service it is. Part of each service's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operations {
    /// Secrets with credentials for the registries that images are pulled from, of type `kubernetes.io/dockerconfigjson`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub image_pull_secrets: Vec<LocalRef>,
    /// What is logged, and how; text at level `INFO`, without requests, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logging: Option<Logging>,
    /// Files that are mounted into the service's pods and Jobs, such as certificates or templates that an option or a
    /// plugin names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[x_kube(validation = Rule::new("self.all(file, self.exists_one(other, other.mountPath == file.mountPath))")
        .message("has two entries with the same mountPath, of which a pod takes one; give each entry a folder of its own"))]
    pub extra_files: Vec<ExtraFile>,
    /// Secrets with more options, each as a fragment of the service's configuration file, for values that are secret.
    /// They are merged after `extraConfig`, in this order; the last value of an option wins.
    #[serde(default, deserialize_with = "fragments", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<ConfigFragment>", length(max = 16))]
    pub extra_config_from: Vec<SecretKeyRef>,
    /// Certificates of authorities that the service trusts beside those of its image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle_ref: Option<CaBundleRef>,
    /// CPU and memory of the service's Jobs, such as database migrations; no requests and no limits when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_resources: Option<Resources>,
    /// Worker processes of the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uwsgi: Option<Uwsgi>,
}

/// What a service logs, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Logging {
    /// The least severe messages that are logged.
    #[serde(default)]
    pub level: LogLevel,
    /// How a message is written: `text` for people, `json` for log collectors.
    #[serde(default)]
    pub format: LogFormat,
    /// Whether each request to the API is logged.
    #[serde(default)]
    pub access_log: bool,
}

/// How severe a message is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum LogLevel {
    /// Messages for developers. They can contain secrets.
    Debug,
    /// What the service does.
    #[default]
    Info,
    /// What may become a problem.
    Warning,
    /// What failed.
    Error,
}

/// How a message is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Lines of text, as oslo.log writes them.
    #[default]
    Text,
    /// One JSON object in a line.
    Json,
}

/// The keys of a Secret or a ConfigMap as files of a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.secretRef) != has(self.configMapRef)")
    .message("needs exactly one of secretRef and configMapRef; set one of them"))]
pub struct ExtraFile {
    /// Name of the entry, and part of the name of the pods' volume.
    #[schemars(length(min = 1, max = 40), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// The folder that the files are in. It must be one that the image does not have, because it would be hidden.
    pub mount_path: MountPath,
    /// A Secret, each key of which is a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalRef>,
    /// A ConfigMap, each key of which is a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<LocalRef>,
}

/// Folders that must not be replaced: each holds what the service or its container needs beside other things.
const PARENTS: [&str; 9] = ["/etc", "/home", "/root", "/run", "/srv", "/tmp", "/var", "/var/lib", "/var/run"];

/// Folders that nothing may be mounted in or below: programs, devices, the operators' own configuration files, trusted
/// certificates, the credentials of the service account.
const RESERVED: [&str; 20] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc/ca-bundle",
    "/etc/cinder",
    "/etc/glance",
    "/etc/keystone",
    "/etc/neutron",
    "/etc/nova",
    "/etc/placement",
    "/etc/ssl",
    "/lib",
    "/lib64",
    "/opt",
    "/proc",
    "/run/secrets",
    "/sbin",
    "/sys",
    "/usr",
    "/var/run/secrets",
];

text! {
    /// An absolute folder in a container that files can be mounted at, such as `/etc/ldap`.
    MountPath, max 253,
    ["self.matches('^(/[A-Za-z0-9_.-]+)+$') && !(self + '/').contains('/./') && !(self + '/').contains('/../')",
     "is not an absolute folder; write each part by its name, without a slash at the end, such as /etc/ldap"],
    ["!(self in ['/etc', '/home', '/root', '/run', '/srv', '/tmp', '/var', '/var/lib', '/var/run']) && !self.matches('^/(bin|boot|dev|etc/(ca-bundle|cinder|glance|keystone|neutron|nova|placement|ssl|[a-z0-9-]+-tls)|lib|lib64|opt|proc|sbin|sys|usr|(var/)?run/secrets)(/|$)')",
     "is a folder that the service or its container needs; choose one of your own, such as /etc/ldap"],
    |text| {
        let is_part = |part: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
            !part.is_empty() && part != "." && part != ".." && part.chars().all(allowed)
        };
        if !text.strip_prefix('/').is_some_and(|parts| parts.split('/').all(is_part)) {
            return Err(format!("{text:?} is not an absolute folder; write each part by its name, such as /etc/ldap"));
        }
        let is_in = |folder: &&str| text.strip_prefix(*folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        // Certificates are mounted there: /etc/database-tls, /etc/keystone-tls.
        let top = text.strip_prefix("/etc/").and_then(|rest| rest.split('/').next());
        let holds_certificates = top.is_some_and(|name| name.ends_with("-tls"));
        if PARENTS.contains(&text) || holds_certificates || RESERVED.iter().any(is_in) {
            return Err(format!("{text:?} is a folder that the service or its container needs; choose one of your own, such as /etc/ldap"));
        }
        Ok(())
    }
}

/// [`SecretKeyRef`] as `extraConfigFrom` has it: with a default key.
#[derive(Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
struct ConfigFragment {
    /// Name of the Secret.
    name: ObjectName,
    /// Key in the Secret.
    #[serde(default = "config")]
    key: DataKey,
}

fn config() -> DataKey {
    DataKey::new("config").expect("it is a key")
}

fn fragments<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SecretKeyRef>, D::Error> {
    let fragments = Vec::<ConfigFragment>::deserialize(deserializer)?;
    Ok(fragments.into_iter().map(|ConfigFragment { name, key }| SecretKeyRef { name, key }).collect())
}

/// Where certificates of authorities are, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.secretRef) != has(self.configMapRef)")
    .message("needs exactly one of secretRef and configMapRef; set one of them"))]
pub struct CaBundleRef {
    /// A key of a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<CaBundleKey>,
    /// A key of a ConfigMap, such as one that trust-manager writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<CaBundleKey>,
}

/// The key of a Secret or ConfigMap in the same namespace that holds certificates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaBundleKey {
    /// Name of the object.
    pub name: ObjectName,
    /// Key in the object.
    #[serde(default = "ca_crt")]
    pub key: DataKey,
}

fn ca_crt() -> DataKey {
    DataKey::new("ca.crt").expect("it is a key")
}

/// Worker processes of an API that uWSGI serves. What is absent is what the service usually has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Uwsgi {
    /// How many processes each pod has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub processes: Option<i32>,
    /// How many threads each process has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub threads: Option<i32>,
    /// After how many seconds a process is killed that has not answered its request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub harakiri: Option<i32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_mounted_where_they_hide_nothing_that_is_needed() {
        for good in ["/etc/ldap", "/etc/keystone-saml", "/var/lib/templates", "/srv/files", "/certs", "/optional"] {
            assert!(MountPath::new(good).is_ok(), "{good}: {:?}", MountPath::new(good));
        }
        for bad in [
            "/",
            "etc/ldap",
            "/etc/ldap/",
            "/etc//ldap",
            "/etc/../opt",
            "/a b",
            "/etc",
            "/var/lib",
            "/etc/keystone",
            "/etc/nova/nova.conf.d",
            "/etc/database-tls",
            "/etc/ca-bundle/x",
            "/opt/keystone",
            "/proc",
            "/usr/lib/python3",
            "/run/secrets/kubernetes.io",
            "/var/run/secrets/x",
        ] {
            assert!(MountPath::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_fragment_and_a_bundle_have_usual_keys() {
        let operations: Operations = serde_json::from_value(serde_json::json!({
            "extraConfigFrom": [{"name": "ldap-password"}, {"name": "other", "key": "ini"}],
            "caBundleRef": {"configMapRef": {"name": "company-ca"}},
        }))
        .unwrap();
        let keys: Vec<&str> = operations.extra_config_from.iter().map(|fragment| fragment.key.as_str()).collect();
        assert_eq!(keys, ["config", "ini"]);
        assert_eq!(operations.ca_bundle_ref.unwrap().config_map_ref.unwrap().key.as_str(), "ca.crt");
    }
}
